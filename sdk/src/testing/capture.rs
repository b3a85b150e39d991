//! Starts and finishes captures.

use std::fmt;
use std::thread::JoinHandle;

use super::recording::CaptureSession;
use super::trace::Trace;
use crate::capture_handle::{Attached, CaptureHandle};
use crate::config::TraceConfig;
use crate::error::Error;
use tracezero_producer as producer;

/// Starts to capture what the calling thread records, until the capture is finished or dropped.
///
/// # Panics
///
/// If there is no memory for the capture, or this is a child process that was forked from one with
/// sessions.
#[track_caller]
pub fn capture() -> Capture {
    capture_with(TraceConfig::default())
}

/// Starts a capture with a configuration, which sets sizes of buffers and the configuration of data
/// sources. The [default configuration](TraceConfig::default) is a ring of 32 MiB for every data
/// source.
///
/// The configuration does not select categories: a capture records all of them.
///
/// ```
/// use tracezero::testing::capture_with;
/// use tracezero::{BufferConfig, TraceConfig, instant};
///
/// // `record_all`: the configuration lists no data source, but all of them are captured.
/// let config = TraceConfig::empty().add_buffer(BufferConfig::discard(64)).record_all();
/// let capture = capture_with(config);
/// instant!("app", "captured");
/// capture.finish().instant("captured").once();
/// ```
///
/// # Panics
///
/// As [`capture`]. If the configuration contradicts itself, captures nothing, or asks for a file or
/// triggers.
#[track_caller]
pub fn capture_with(config: TraceConfig) -> Capture {
    match Capture::start(config) {
        Ok(capture) => capture,
        Err(error) => panic!("cannot capture: {error}"),
    }
}

/// A recording of the thread that started it, and of threads that are attached to it.
///
/// A capture cannot be sent to another thread. Other threads attach themselves by its
/// [`CaptureHandle`], or borrow the capture, as in a [`thread::scope`](std::thread::scope).
#[must_use = "the capture ends when this is dropped; call `finish` for its trace"]
pub struct Capture {
    // Dropped first, so that the thread is detached: values that are dropped at the session's end
    // must not record into it.
    attached: producer::Attached,
    session: CaptureSession,
    /// The id of the thread that started the capture.
    tid: i32,
    /// The value of [`producer::unattached_count`] at the start of the capture.
    unattached_before: u64,
}

impl Capture {
    fn start(config: TraceConfig) -> Result<Self, Error> {
        let session = CaptureSession::start(config)?;
        Ok(Self {
            attached: producer::attach(session.realm()),
            session,
            tid: rustix::thread::gettid().as_raw_nonzero().get(),
            unattached_before: producer::unattached_count(),
        })
    }

    /// Ends the capture and returns what was recorded.
    ///
    /// Attached threads may still run, and their guards may still exist: the trace contains what
    /// the threads have written so far, and nothing that they write later. In a forked child the
    /// trace is empty.
    ///
    /// # Panics
    ///
    /// Never: a trace that this process wrote can be read.
    #[must_use = "the result is the trace"]
    pub fn finish(self) -> Trace {
        let Self {
            attached,
            session,
            tid,
            unattached_before,
        } = self;
        drop(attached);
        let has_unattached = producer::unattached_count() != unattached_before;
        let (bytes, report) = session.finish();
        let trace = Trace::of(bytes, Some(report), Some(tid)).expect("a trace of our own");
        Trace {
            has_unattached,
            ..trace
        }
    }

    /// Returns a handle by which other threads attach themselves.
    #[must_use]
    pub fn handle(&self) -> CaptureHandle {
        CaptureHandle::of(self.session.realm())
    }

    /// Attaches the calling thread; see [`CaptureHandle::attach`].
    pub fn attach(&self) -> Attached {
        self.handle().attach()
    }

    /// Starts an attached thread; see [`CaptureHandle::spawn`].
    pub fn spawn<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        self.handle().spawn(work)
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").finish_non_exhaustive()
    }
}
