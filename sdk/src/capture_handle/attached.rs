//! The implementation of handles and guards for builds in which tests capture. `noop.rs` has the
//! implementation for all other builds.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::CaptureHandle;
use tracezero_producer::{self as producer, Realm};

/// The capture that a handle attaches threads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The number of the capture's realm.
    number: u32,
}

pub(super) type Guard = producer::Attached;

impl Target {
    pub(super) fn of(realm: Realm) -> Self {
        Self {
            number: realm.capture_number(),
        }
    }

    pub(super) fn current() -> Option<Self> {
        let realm = producer::current_capture()?;
        // The thread may not have noticed that the capture has ended.
        producer::is_capture(realm).then(|| Self::of(realm))
    }

    pub(super) fn attach(self) -> Guard {
        producer::attach(Realm::of_capture_number(self.number))
    }
}

pin_project! {
    /// A future whose trace points are captured, whichever threads poll it. Created by
    /// [`CaptureHandle::wrap_future`].
    #[must_use = "futures do nothing unless polled"]
    pub struct CapturedFuture<F> {
        capture: CaptureHandle,
        // `None` after the future was dropped.
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for CapturedFuture<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // Dropping the future may record events, so the capture is attached.
            let _attached = this.capture.attach();
            this.future.set(None);
        }
    }
}

impl<F: Future> CapturedFuture<F> {
    pub(super) fn new(capture: CaptureHandle, future: F) -> Self {
        Self {
            capture,
            future: Some(future),
        }
    }
}

impl<F: Future> Future for CapturedFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _attached = this.capture.attach();
        match this.future.as_pin_mut() {
            Some(future) => future.poll(context),
            None => Poll::Pending,
        }
    }
}
