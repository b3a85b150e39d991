//! Detects trace points that a thread reaches while it runs code of the tracer.
//!
//! Such a thread may hold locks that the trace point would need. For example, the application's
//! allocator may have trace points, and the tracer allocates. Trace points inside of the tracer are
//! dropped and counted, like trace points inside of an open packet. They take no lock, as
//! `tests/judge/tests/tracing_allocator.rs` checks.
//!
//! Callbacks of the application count as outside of the tracer: their trace points record.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// The number of [`TracerGuard`]s of this thread. While a callback runs, only guards that began
    /// inside of the callback are counted.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// True while a callback of the application runs on this thread, called by the tracer.
    static IS_IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// A guard of a thread that runs code of the tracer.
#[derive(Debug)]
#[must_use = "the thread leaves the tracer when this guard is dropped"]
pub struct TracerGuard(PhantomData<*const ()>);

impl TracerGuard {
    /// Marks this thread as inside of the tracer until the guard is dropped. A thread may have
    /// several guards.
    pub fn enter() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for TracerGuard {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Runs a callback of the application, from inside of the tracer and with nothing locked. Trace
/// points of the callback record.
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

/// Returns whether this thread runs a callback of the application, called by the tracer. Trace
/// points in a callback must not wait for a file to be written: the thread that writes it may be
/// this one, or may wait for this one.
#[must_use]
pub fn is_in_callback() -> bool {
    IS_IN_CALLBACK.get()
}

/// Returns whether this thread is inside of the tracer.
#[inline(always)]
#[must_use]
pub fn is_inside() -> bool {
    DEPTH.get() != 0
}
