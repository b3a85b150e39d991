//! The handle that libraries attach their threads by, in code that is built with and without the feature
//! `testing`: it compiles the same, and is nothing where nobody captures.

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use tracezero::{Attached, CaptureHandle, CapturedFuture, InMemorySession, instant};

/// Every method, as libraries call them.
fn hand_over(capture: CaptureHandle) -> u32 {
    let attached = capture.attach();
    drop(attached);
    std::mem::forget(capture.attach());
    let wrapped = capture.wrap(|| 1)();
    let mut future = pin!(capture.wrap_future(async { 2 }));
    let polled = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(2));
    let spawned = capture.spawn(|| 3).join();
    let scoped = thread::scope(|scope| capture.spawn_scoped(scope, || 4).join());
    wrapped + spawned.expect("no panic") + scoped.expect("no panic")
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
    assert_eq!(session.finish().1.events, 1);
}

#[test]
fn without_the_feature_nothing_takes_room() {
    let size = if cfg!(feature = "testing") { 4 } else { 0 };
    assert_eq!(size_of::<CaptureHandle>(), size);
    if size == 0 {
        assert_eq!(size_of::<Attached>(), 0);
        assert_eq!(size_of::<CapturedFuture<[u64; 3]>>(), size_of::<[u64; 3]>());
    }
}

/// Whether a type has a trait, in a way that compiles if it has not.
macro_rules! has {
    ($type:ty: $bound:path) => {{
        struct Probe<T: ?Sized>(std::marker::PhantomData<T>);
        trait Otherwise {
            const HAS: bool = false;
        }
        impl<T: ?Sized> Otherwise for Probe<T> {}
        impl<T: ?Sized + $bound> Probe<T> {
            const HAS: bool = true;
        }
        Probe::<$type>::HAS
    }};
}

#[test]
fn what_compiles_without_the_feature_compiles_with_it() {
    const { assert!(has!(CaptureHandle: Send) && has!(CaptureHandle: Sync)) };
    const { assert!(!has!(Attached: Send) && has!(Attached: Sync)) };
    const { assert!(has!(CapturedFuture<u8>: Send) && has!(CapturedFuture<u8>: Sync)) };
    const { assert!(!has!(CapturedFuture<*const u8>: Send)) };
    const { assert!(has!(CapturedFuture<Cell<u8>>: Send) && !has!(CapturedFuture<Cell<u8>>: Sync)) };
    const { assert!(has!(CapturedFuture<u8>: Unpin)) };
    const { assert!(!has!(CapturedFuture<PhantomPinned>: Unpin)) };
    // Both have something to do when they go, as far as the compiler tells.
    assert!(std::mem::needs_drop::<Attached>());
    assert!(std::mem::needs_drop::<CapturedFuture<u8>>());
}
