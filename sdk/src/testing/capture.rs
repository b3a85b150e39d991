//! Captures: from their begin to their trace.

use std::fmt;
use std::thread::JoinHandle;

use super::recording::CaptureSession;
use super::trace::Trace;
use crate::capture_handle::{Attached, CaptureHandle};
use crate::config::TraceConfig;
use crate::error::Error;
use tracezero_producer as producer;

/// Captures what the calling thread traces from now on, until it is finished or dropped.
///
/// # Panics
///
/// If there is no memory for it, or this is a child that was forked off a process that traces.
#[track_caller]
pub fn capture() -> Capture {
    capture_with(TraceConfig::default())
}

/// The same with a configuration: for sizes of buffers, and for what data sources are told. The
/// [default one](TraceConfig::default) is a ring of 32 MiB for every data source.
///
/// Categories are not chosen by it: a capture has all of them.
///
/// ```
/// use tracezero::testing::capture_with;
/// use tracezero::{BufferConfig, TraceConfig, instant};
///
/// // Also data sources that it does not list.
/// let config = TraceConfig::new().add_buffer(BufferConfig::discard(64)).record_all();
/// let capture = capture_with(config);
/// instant!("app", "captured");
/// capture.finish().instant("captured").once();
/// ```
///
/// # Panics
///
/// As [`capture`], and if the configuration contradicts itself, captures nothing, or asks for a file
/// or triggers.
#[track_caller]
pub fn capture_with(config: TraceConfig) -> Capture {
    match Capture::start(config) {
        Ok(capture) => capture,
        Err(error) => panic!("cannot capture: {error}"),
    }
}

/// A recording of what one thread traces, and others that are attached to it.
///
/// It belongs to the thread that began it. Others attach themselves by its [`CaptureHandle`], and may
/// borrow it, as in a [`thread::scope`](std::thread::scope).
#[must_use = "what is traced is captured until this is dropped"]
pub struct Capture {
    // Detached first: what the session's end drops must not trace into it.
    attached: producer::Attached,
    session: CaptureSession,
    /// The thread that began it.
    tid: i32,
    /// [`producer::unattached_count`] when it began.
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

    /// Ends the recording; returns what was traced.
    ///
    /// Threads that are attached need not have ended, nor do their guards: what they wrote so far is in
    /// the trace, and what they write from now on is in none. In a forked child the trace is empty.
    ///
    /// # Panics
    ///
    /// Never: a trace of this process can be read.
    #[must_use = "the trace is returned"]
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

    /// What other threads attach themselves by.
    #[must_use]
    pub fn handle(&self) -> CaptureHandle {
        CaptureHandle::of(self.session.realm())
    }

    /// Attaches the calling thread; see [`CaptureHandle::attach`].
    pub fn attach(&self) -> Attached {
        self.handle().attach()
    }

    /// Starts a thread that is attached; see [`CaptureHandle::spawn`].
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
