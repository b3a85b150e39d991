//! What handles and guards consist of where nothing is captured, which is nothing. Users see no difference
//! to `attached.rs`: the same traits, also those that the compiler implements.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::MutexGuard;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::CaptureHandle;
#[cfg(feature = "testing")]
use tracezero_producer::Realm;

/// No capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target;

/// Stays on its thread, as a guard does that attaches.
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

// Who drops or forgets a guard would be told otherwise that it makes no difference.
impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {}
}

pin_project! {
    /// A future that is captured, whichever threads poll it. Made by [`CaptureHandle::wrap_future`].
    #[must_use = "futures do nothing unless polled"]
    pub struct CapturedFuture<F> {
        #[pin]
        future: F,
    }

    impl<F> PinnedDrop for CapturedFuture<F> {
        // What the future borrows outlives it here, too.
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
