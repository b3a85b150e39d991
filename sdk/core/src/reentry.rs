//! Threads that are at work inside of the tracer, where they hold locks that trace points may want.
//!
//! An allocator that traces is called in there, too. Its trace points are dropped and counted, as
//! those inside of a packet are.
//!
//! Such a trace point takes no lock: `tests/judge/tests/tracing_allocator.rs` checks this. Callbacks of the
//! application are outside of the tracer: their trace points record.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// How often this thread has entered and not left.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Whether the tracer has called the application, which has not returned.
    static IS_IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// The thread is inside as long as this lives.
#[derive(Debug)]
#[must_use = "the thread is inside as long as it lives"]
pub struct Inside(PhantomData<*const ()>);

impl Inside {
    /// Enters until the value is dropped. A thread may enter several times.
    pub fn enter() -> Self {
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
pub fn outside<R>(call: impl FnOnce() -> R) -> R {
    struct Return {
        depth: u32,
        was_in_callback: bool,
    }

    impl Drop for Return {
        fn drop(&mut self) {
            DEPTH.set(self.depth);
            IS_IN_CALLBACK.set(self.was_in_callback);
        }
    }

    let _return = Return {
        depth: DEPTH.replace(0),
        was_in_callback: IS_IN_CALLBACK.replace(true),
    };
    call()
}

/// Whether the tracer has called the application on this thread. What is traced there must not wait for
/// the tracer: the thread that writes a file may be the one that called, or wait for it.
#[must_use]
pub fn is_in_callback() -> bool {
    IS_IN_CALLBACK.get()
}

/// Whether this thread is inside of the tracer.
#[inline(always)]
#[must_use]
pub fn is_inside() -> bool {
    DEPTH.get() != 0
}
