//! The twin of `tsc.rs` for processors that have no such counter.

use super::TscError;

/// True while events take their time from the counter.
#[inline(always)]
pub(super) fn is_used() -> bool {
    false
}

/// The time on the trace clock.
pub(super) fn counter_ns() -> u64 {
    super::now_ns()
}

/// There is no counter.
pub(super) fn start_use() -> Result<(), TscError> {
    Err(TscError::NotInvariant)
}

/// There is nothing to end.
pub(super) fn end_use() {}
