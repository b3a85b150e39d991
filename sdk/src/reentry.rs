//! Threads that are at work inside of the tracer, where they hold locks that trace points may want.
//!
//! An allocator that traces is called in there, too. Its trace points are dropped and counted, as
//! those inside of a packet are.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// How often this thread has entered and not left.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The thread is inside as long as this lives.
#[derive(Debug)]
#[must_use = "the thread is inside as long as it lives"]
pub(crate) struct Inside(PhantomData<*const ()>);

impl Inside {
    pub(crate) fn enter() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Calls the application from inside of the tracer, with nothing locked: its trace points record.
pub(crate) fn outside<R>(call: impl FnOnce() -> R) -> R {
    struct Return(u32);

    impl Drop for Return {
        fn drop(&mut self) {
            DEPTH.set(self.0);
        }
    }

    let _return = Return(DEPTH.replace(0));
    call()
}

/// Whether this thread is inside of the tracer.
#[inline(always)]
pub(crate) fn is_inside() -> bool {
    DEPTH.get() != 0
}
