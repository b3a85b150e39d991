//! Calls code of the application, and catches its panics.

use std::panic::{self, AssertUnwindSafe};

use tracezero_core::reentry;

/// Calls `callback`, with nothing locked. Returns `None` if it panicked.
pub(crate) fn call_application<R>(callback: impl FnOnce() -> R) -> Option<R> {
    contain(|| reentry::outside(callback))
}

/// Calls `callback`; returns `None` if it panicked. After a panic, the application's state may be
/// inconsistent; the application is called again nevertheless.
pub(crate) fn contain<R>(callback: impl FnOnce() -> R) -> Option<R> {
    panic::catch_unwind(AssertUnwindSafe(callback)).ok()
}
