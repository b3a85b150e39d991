//! The handle that libraries attach their threads by, in code that is built with and without the feature
//! `testing`: it compiles the same, and is nothing where nobody captures.

use std::cell::Cell;
use std::marker::{PhantomData, PhantomPinned};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::{mem, thread};

use tracezero::{Attached, CaptureHandle, CapturedFuture, InMemorySession, instant};

/// Whether this program can capture at all.
const CAN_CAPTURE: bool = cfg!(feature = "testing") && !cfg!(tracezero_off);

/// Every method, as libraries call them.
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
fn where_nobody_captures_there_is_no_handle() {
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
fn where_nothing_is_captured_handles_take_no_room() {
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
    // Under `cfg(tracezero_off)`, tests do not capture either.
    assert_eq!(CaptureHandle::current().is_some(), CAN_CAPTURE);
}

/// Whether a type has a trait, in a way that compiles if it has not.
macro_rules! has {
    ($type:ty: $bound:path) => {{
        struct Probe<T>(PhantomData<T>);
        trait Has {
            fn has(&self) -> bool;
        }
        // Found first, if it is there.
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
fn what_compiles_without_the_feature_compiles_with_it() {
    assert!(has!(CaptureHandle: Send) && has!(CaptureHandle: Sync));
    assert!(!has!(Attached: Send) && has!(Attached: Sync));
    assert!(has!(CapturedFuture<u8>: Send) && has!(CapturedFuture<u8>: Sync));
    assert!(!has!(CapturedFuture<*const u8>: Send));
    assert!(has!(CapturedFuture<Cell<u8>>: Send) && !has!(CapturedFuture<Cell<u8>>: Sync));
    assert!(has!(CapturedFuture<u8>: Unpin) && !has!(CapturedFuture<PhantomPinned>: Unpin));
    // Otherwise a guard that is dropped by name, or forgotten, would be warned of.
    assert!(mem::needs_drop::<Attached>());
    // What a future borrows has to outlive it.
    assert!(mem::needs_drop::<CapturedFuture<u8>>());
}
