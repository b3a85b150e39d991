//! Calls of the application. A panic of it ends here.

use std::panic::{self, AssertUnwindSafe};

use tracezero_core::reentry;

/// Calls the application, with nothing locked. `None` if it panicked.
pub(crate) fn call_application<R>(callback: impl FnOnce() -> R) -> Option<R> {
    contain(|| reentry::outside(callback))
}

/// Calls the application; `None` if it panicked. Its state is its own affair: it is called again.
pub(crate) fn contain<R>(callback: impl FnOnce() -> R) -> Option<R> {
    panic::catch_unwind(AssertUnwindSafe(callback)).ok()
}
