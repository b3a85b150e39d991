//! Captures, and the threads that are attached to them.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle, Scope, ScopedJoinHandle};

use super::recording::CaptureSession;
use super::trace::Trace;
use crate::consumer::TraceConfig;
use crate::error::Error;
use crate::producer::{self, Realm};

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
/// let config = TraceConfig::new().buffer(BufferConfig::discard(64)).record_all();
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
/// borrow it, as in a [`thread::scope`].
#[must_use = "what is traced is captured until this is dropped"]
pub struct Capture {
    // Detached first: what the session's end drops must not trace into it.
    attached: producer::Attached,
    session: CaptureSession,
    /// The thread that began it.
    tid: i32,
}

impl Capture {
    fn start(config: TraceConfig) -> Result<Self, Error> {
        let session = CaptureSession::start(config)?;
        Ok(Self {
            attached: producer::attach(session.realm()),
            session,
            tid: rustix::thread::gettid().as_raw_nonzero().get(),
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
        } = self;
        drop(attached);
        let (bytes, report) = session.finish();
        Trace::of(bytes, Some(report), Some(tid)).expect("a trace of our own")
    }

    /// What other threads attach themselves by.
    #[must_use]
    pub fn handle(&self) -> CaptureHandle {
        CaptureHandle {
            realm: self.session.realm(),
        }
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

/// Attaches threads to a capture. It does not keep the capture alive: once that has ended, what
/// attached threads trace is captured by nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureHandle {
    realm: Realm,
}

impl CaptureHandle {
    /// The capture that the calling thread writes to, if there is one: for code that hands work to
    /// other threads.
    #[must_use]
    pub fn current() -> Option<Self> {
        let realm = producer::current_capture()?;
        // The thread may not have noticed that it is over.
        producer::is_capture(realm).then_some(Self { realm })
    }

    /// Captures what the calling thread traces as long as the guard lives. If the thread is attached to
    /// another capture already, that one goes on afterwards.
    pub fn attach(self) -> Attached {
        Attached {
            _attached: producer::attach(self.realm),
        }
    }

    /// Work that is captured, whichever thread does it: for thread pools.
    pub fn wrap<R>(self, work: impl FnOnce() -> R) -> impl FnOnce() -> R {
        move || {
            let _attached = self.attach();
            work()
        }
    }

    /// A future that is captured, whichever threads poll it.
    pub fn wrap_future<F: Future>(self, future: F) -> CapturedFuture<F> {
        CapturedFuture {
            capture: self,
            future: Some(Box::pin(future)),
        }
    }

    /// Starts a thread that is attached.
    pub fn spawn<R: Send + 'static>(
        self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        thread::spawn(self.wrap(work))
    }

    /// Starts a thread of a [`thread::scope`] that is attached.
    pub fn spawn_scoped<'scope, R: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        work: impl FnOnce() -> R + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, R> {
        scope.spawn(self.wrap(work))
    }
}

/// The thread is attached to a capture as long as this lives.
#[derive(Debug)]
#[must_use = "the thread is attached as long as this lives"]
pub struct Attached {
    _attached: producer::Attached,
}

/// A future that is captured, whichever threads poll it. Made by [`CaptureHandle::wrap_future`].
#[must_use = "a future does nothing unless it is polled"]
pub struct CapturedFuture<F> {
    capture: CaptureHandle,
    /// `None` once it was dropped.
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for CapturedFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _attached = self.capture.attach();
        match &mut self.future {
            Some(future) => future.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for CapturedFuture<F> {
    fn drop(&mut self) {
        // What the future holds may trace when it goes.
        let _attached = self.capture.attach();
        self.future = None;
    }
}

impl<F> fmt::Debug for CapturedFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedFuture").finish_non_exhaustive()
    }
}
