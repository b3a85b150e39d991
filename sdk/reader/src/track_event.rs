//! Field numbers of older track events, which this SDK never writes.

pub(super) const LEGACY_EVENT: u32 = 6;
pub(super) const FLOW_IDS_OLD: u32 = 36;
pub(super) const TERMINATING_FLOW_IDS_OLD: u32 = 42;

/// A field of `LegacyEvent`, as are those below.
pub(super) const LEGACY_NAME_IID: u32 = 1;
pub(super) const LEGACY_PHASE: u32 = 2;
pub(super) const LEGACY_DURATION_US: u32 = 3;
