//! Handles by which a library attaches its threads to the capture of a test.
//!
//! The types always exist, because a library is built without the feature `testing`. Two files
//! implement them: `attached.rs` for builds in which tests capture, `noop.rs` for all others.

#[cfg(all(feature = "testing", not(tracezero_off)))]
mod attached; // builds in which tests capture
#[cfg(not(all(feature = "testing", not(tracezero_off))))]
#[path = "noop.rs"]
mod attached; // all other builds: types of size 0

use std::fmt;
use std::thread::{self, JoinHandle, Scope, ScopedJoinHandle};

pub use attached::CapturedFuture;
use attached::{Guard, Target};

#[cfg(feature = "testing")]
use tracezero_producer::Realm;

/// A handle that attaches threads to the capture of a test. Libraries that hand work to other
/// threads use it.
///
/// A test captures with `testing::capture`, which needs the feature `testing`. The test's own
/// thread is captured. Threads that the code under test starts are captured only if that code
/// attaches them:
///
/// ```
/// use std::thread;
/// use tracezero::{CaptureHandle, span};
///
/// fn read_ahead(pages: &[u32]) {
///     let capture = CaptureHandle::current();
///     thread::scope(|scope| {
///         for page in pages {
///             scope.spawn(move || {
///                 let _attached = capture.map(CaptureHandle::attach);
///                 let _span = span!("cache", "read", page);
///             });
///         }
///     });
/// }
/// # read_ahead(&[1, 2]);
/// ```
///
/// A handle costs nothing in a program that is built without the feature `testing`, or with
/// `cfg(tracezero_off)`. The compiler then sees that [`current`](Self::current) returns `None`, the
/// handle and its guards have size 0, and its methods return their arguments unchanged. So
/// libraries need neither a feature nor a `cfg` for it.
///
/// The handle does not keep the capture alive. After the capture has ended, events of attached
/// threads are not captured.
///
/// # Runtimes
///
/// This attaches all threads of a tokio runtime, including those for blocking work:
///
/// ```
/// # use tracezero::CaptureHandle;
/// # struct Builder;
/// # impl Builder {
/// #     fn new_multi_thread() -> Self { Self }
/// #     fn on_thread_start(&mut self, start: impl Fn() + Send + Sync + 'static) { start() }
/// # }
/// # let mut builder = Builder::new_multi_thread();
/// let capture = CaptureHandle::current();
/// builder.on_thread_start(move || std::mem::forget(capture.map(CaptureHandle::attach)));
/// ```
///
/// A test that builds the runtime itself calls `attach` of its own handle in that function. A
/// forgotten guard keeps its thread attached until the thread ends. If several tests use the same
/// runtime, do not attach its threads; wrap each task with [`wrap_future`](Self::wrap_future).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureHandle {
    target: Target,
}

impl CaptureHandle {
    /// Returns a handle to the capture that the calling thread writes to, if there is one.
    #[must_use]
    #[inline]
    pub fn current() -> Option<Self> {
        let target = Target::current()?;
        Some(Self { target })
    }

    /// Creates the handle to the capture with this realm.
    #[cfg(feature = "testing")]
    pub(crate) fn of(realm: Realm) -> Self {
        let target = Target::of(realm);
        Self { target }
    }

    /// Captures what the calling thread records while the guard lives. If the thread was attached
    /// to another capture before, it returns to that capture when the guard is dropped.
    #[inline]
    pub fn attach(self) -> Attached {
        Attached {
            _guard: self.target.attach(),
        }
    }

    /// Wraps a closure so that its events go to this capture, whichever thread calls the closure.
    /// This is meant for thread pools.
    #[inline]
    pub fn wrap<R>(self, work: impl FnOnce() -> R) -> impl FnOnce() -> R {
        move || {
            let _attached = self.attach();
            work()
        }
    }

    /// Wraps a future so that its events go to this capture, whichever threads poll the future.
    ///
    /// ```
    /// # mod runtime { pub fn spawn<F: Future>(_: F) {} }
    /// use tracezero::CaptureHandle;
    ///
    /// /// Spawns a task, which is captured if the caller is.
    /// fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    ///     match CaptureHandle::current() {
    ///         Some(handle) => runtime::spawn(handle.wrap_future(task)),
    ///         None => runtime::spawn(task),
    ///     }
    /// }
    /// # spawn(async {});
    /// ```
    #[inline]
    pub fn wrap_future<F: Future>(self, future: F) -> CapturedFuture<F> {
        CapturedFuture::new(self, future)
    }

    /// Starts an attached thread.
    pub fn spawn<R: Send + 'static>(
        self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        thread::spawn(self.wrap(work))
    }

    /// Starts an attached thread in a [`thread::scope`].
    pub fn spawn_scoped<'scope, R: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        work: impl FnOnce() -> R + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, R> {
        scope.spawn(self.wrap(work))
    }
}

/// A guard that keeps its thread attached to a capture. Created by [`CaptureHandle::attach`].
#[derive(Debug)]
#[must_use = "the thread is detached when this is dropped; bind it"]
pub struct Attached {
    _guard: Guard,
}

impl<F> fmt::Debug for CapturedFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedFuture").finish_non_exhaustive()
    }
}
