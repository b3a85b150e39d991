//! Replaces `tsc.rs` on processors other than x86-64, which have no time-stamp counter.

use super::TscError;

/// Returns false: events never get their time from the counter.
#[inline(always)]
pub(super) fn is_used() -> bool {
    false
}

/// Returns the time on the trace clock. Never called, since `is_used` returns false.
pub(super) fn counter_ns() -> u64 {
    super::now_ns()
}

/// Returns the error for a processor without counter.
pub(super) fn start_use() -> Result<(), TscError> {
    Err(TscError::NotInvariant)
}

/// Does nothing.
pub(super) fn end_use() {}
