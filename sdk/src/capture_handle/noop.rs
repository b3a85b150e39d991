//! The implementation of handles and guards for builds in which nothing is captured: types of size
//! 0. The types implement the same traits, auto traits included, as those in `attached.rs`.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::MutexGuard;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::CaptureHandle;
#[cfg(feature = "testing")]
use tracezero_producer::Realm;

/// Stands for a capture. No value of it is created, because `current` returns `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target;

/// A guard that does nothing. Like the guard in `attached.rs`, it is not `Send`.
#[derive(Debug)]
pub(super) struct Guard {
    not_send: PhantomData<MutexGuard<'static, ()>>,
}

impl Target {
    #[cfg(feature = "testing")]
    pub(super) fn of(_: Realm) -> Self {
        Self
    }

    #[inline(always)]
    pub(super) const fn current() -> Option<Self> {
        None
    }

    #[inline(always)]
    pub(super) const fn attach(self) -> Guard {
        Guard {
            not_send: PhantomData,
        }
    }
}

// Without this impl, lints would tell callers that dropping or forgetting a guard has no effect.
impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {}
}

pin_project! {
    /// A future whose trace points are captured, whichever threads poll it. Created by
    /// [`CaptureHandle::wrap_future`].
    #[must_use = "futures do nothing unless polled"]
    pub struct CapturedFuture<F> {
        #[pin]
        future: F,
    }

    impl<F> PinnedDrop for CapturedFuture<F> {
        // `attached.rs` has a destructor, too. So the borrow checker treats the future in the same
        // way in both builds.
        fn drop(_this: Pin<&mut Self>) {}
    }
}

impl<F: Future> CapturedFuture<F> {
    #[inline(always)]
    pub(super) const fn new(_: CaptureHandle, future: F) -> Self {
        Self { future }
    }
}

impl<F: Future> Future for CapturedFuture<F> {
    type Output = F::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(context)
    }
}
