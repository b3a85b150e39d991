//! `CaptureHandle`, by which libraries attach their threads to a capture. Code that uses it
//! compiles with and without the feature `testing`; without a capture it does nothing.

use std::cell::Cell;
use std::marker::{PhantomData, PhantomPinned};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::{mem, thread};

use tracezero::{Attached, CaptureHandle, CapturedFuture, InMemorySession, instant};

/// True if this program can capture at all.
const CAN_CAPTURE: bool = cfg!(feature = "testing") && !cfg!(tracezero_off);

/// Calls every method, as libraries do.
fn hand_over(capture: CaptureHandle) -> [Poll<u32>; 4] {
    let attached = capture.attach();
    drop(attached);
    mem::forget(capture.attach());
    let wrapped = capture.wrap(|| 1)();
    let mut future = pin!(capture.wrap_future(async { 2 }));
    let polled = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    let spawned = capture.spawn(|| 3).join();
    let scoped = thread::scope(|scope| capture.spawn_scoped(scope, || 4).join());
    let [spawned, scoped] = [spawned, scoped].map(|result| result.expect("no panic"));
    [
        Poll::Ready(wrapped),
        polled,
        Poll::Ready(spawned),
        Poll::Ready(scoped),
    ]
}

#[test]
fn handle_is_none_without_a_capture() {
    let current = || {
        (
            CaptureHandle::current(),
            CaptureHandle::current().map(hand_over),
        )
    };
    assert_eq!(current(), (None, None));
    let session = InMemorySession::start().expect("a session");
    assert_eq!(current(), (None, None), "a session is no capture");
    let capture = CaptureHandle::current();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _attached = capture.map(CaptureHandle::attach);
            instant!("test", "recorded");
        });
    });
    let recorded = u64::from(!cfg!(tracezero_off));
    assert_eq!(session.finish().1.events, recorded);
}

#[test]
fn handles_have_no_size_if_capturing_is_off() {
    let size = if CAN_CAPTURE { 4 } else { 0 };
    assert_eq!(size_of::<CaptureHandle>(), size);
    if !CAN_CAPTURE {
        assert_eq!(size_of::<Attached>(), 0);
        assert_eq!(size_of::<CapturedFuture<[u64; 3]>>(), size_of::<[u64; 3]>());
    }
}

#[cfg(feature = "testing")]
#[test]
fn methods_of_a_handle_change_nothing_of_what_they_are_given() {
    let capture = tracezero::testing::capture();
    let handed_over = hand_over(capture.handle());
    assert_eq!(handed_over, [1, 2, 3, 4].map(Poll::Ready));
    // Under `cfg(tracezero_off)`, nothing captures, not even tests.
    assert_eq!(CaptureHandle::current().is_some(), CAN_CAPTURE);
}

/// Tells whether a type implements a trait, in a way that compiles in both cases.
macro_rules! has {
    ($type:ty: $bound:path) => {{
        struct Probe<T>(PhantomData<T>);
        trait Has {
            fn has(&self) -> bool;
        }
        // Method lookup finds this implementation first, if the bound holds.
        impl<T: $bound> Has for Probe<T> {
            fn has(&self) -> bool {
                true
            }
        }
        impl<T> Has for &Probe<T> {
            fn has(&self) -> bool {
                false
            }
        }
        (&Probe::<$type>(PhantomData)).has()
    }};
}

#[test]
fn handle_types_have_equal_traits_with_and_without_feature() {
    assert!(has!(CaptureHandle: Send) && has!(CaptureHandle: Sync));
    assert!(!has!(Attached: Send) && has!(Attached: Sync));
    assert!(has!(CapturedFuture<u8>: Send) && has!(CapturedFuture<u8>: Sync));
    assert!(!has!(CapturedFuture<*const u8>: Send));
    assert!(has!(CapturedFuture<Cell<u8>>: Send) && !has!(CapturedFuture<Cell<u8>>: Sync));
    assert!(has!(CapturedFuture<u8>: Unpin) && !has!(CapturedFuture<PhantomPinned>: Unpin));
    // Code may drop or forget a guard explicitly. Lints would report this for a type that does
    // nothing when it is dropped.
    assert!(mem::needs_drop::<Attached>());
    // The compiler checks more strictly that a type does not outlive its borrows if the type does
    // something when it is dropped. The check must be the same with and without the feature
    // `testing`.
    assert!(mem::needs_drop::<CapturedFuture<u8>>());
}
