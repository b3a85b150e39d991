//! What a library hands to its threads, so that tests capture them.
//!
//! It is always there, since the library is built without the feature `testing`. Two files have what
//! it consists of: something only where tests capture.

#[cfg(all(feature = "testing", not(tracezero_off)))]
mod attached; // where tests capture: a capture, and guards of threads
#[cfg(not(all(feature = "testing", not(tracezero_off))))]
#[path = "nothing.rs"]
mod attached; // everywhere else: types of size 0

use std::fmt;
use std::thread::{self, JoinHandle, Scope, ScopedJoinHandle};

pub use attached::CapturedFuture;
use attached::{Guard, Target};

#[cfg(feature = "testing")]
use tracezero_producer::Realm;

/// Attaches threads to the capture of a test: for libraries that hand work to other threads.
///
/// A test captures with `testing::capture`, of the feature `testing`. Its own thread is captured; those
/// that the code under test starts are captured if that code attaches them:
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
/// This costs nothing in a program that is built without the feature `testing`, or under `cfg(tracezero_off)`:
/// [`current`](Self::current) is `None` for the compiler to see, the handle and what it makes take no
/// room, and its methods return what they are given. So libraries need neither a feature nor a `cfg`
/// for it.
///
/// It does not keep the capture alive: once that has ended, what attached threads trace is captured
/// by nobody.
///
/// # Runtimes
///
/// All threads of a runtime of tokio are attached, those for blocking work as well, by
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
/// or by `handle.attach()` there, where a test builds the runtime. A guard that is forgotten attaches its
/// thread as long as that lives. Where a runtime is shared by tests, each task is wrapped instead, by
/// [`wrap_future`](Self::wrap_future).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureHandle {
    target: Target,
}

impl CaptureHandle {
    /// The capture that the calling thread writes to, if there is one.
    #[must_use]
    #[inline]
    pub fn current() -> Option<Self> {
        let target = Target::current()?;
        Some(Self { target })
    }

    /// That of the capture with this realm.
    #[cfg(feature = "testing")]
    pub(crate) fn of(realm: Realm) -> Self {
        let target = Target::of(realm);
        Self { target }
    }

    /// Captures what the calling thread traces as long as the guard lives. If the thread is attached to
    /// another capture already, that one goes on afterwards.
    #[inline]
    pub fn attach(self) -> Attached {
        Attached {
            _guard: self.target.attach(),
        }
    }

    /// Work that is captured, whichever thread does it: for thread pools.
    #[inline]
    pub fn wrap<R>(self, work: impl FnOnce() -> R) -> impl FnOnce() -> R {
        move || {
            let _attached = self.attach();
            work()
        }
    }

    /// A future that is captured, whichever threads poll it.
    ///
    /// ```
    /// # mod runtime { pub fn spawn<F: Future>(_: F) {} }
    /// use tracezero::CaptureHandle;
    ///
    /// /// Spawns a task that is captured if whoever spawns it is.
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

/// The thread is attached to a capture as long as this lives. Made by [`CaptureHandle::attach`].
#[derive(Debug)]
#[must_use = "the thread is attached as long as this lives"]
pub struct Attached {
    _guard: Guard,
}

impl<F> fmt::Debug for CapturedFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedFuture").finish_non_exhaustive()
    }
}
