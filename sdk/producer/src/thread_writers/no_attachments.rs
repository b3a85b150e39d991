//! The functions of `attachments.rs` for builds without the feature `testing`, which cannot
//! capture. They are constants, so the compiler removes all code that depends on them; the checks
//! for captures would cost a span 20 instructions.

use super::ThreadWriters;
use crate::realm::Realm;

/// True in builds that can capture.
pub const CAPTURES: bool = false;

pub(super) struct Attachments;

/// The guard of an attached thread.
#[derive(Debug)]
#[must_use]
pub struct Attached;

/// Returns a guard that does nothing.
#[inline(always)]
pub const fn attach(_: Realm) -> Attached {
    Attached
}

/// Returns `None`: there are no captures.
#[inline(always)]
#[must_use]
pub const fn current_capture() -> Option<Realm> {
    None
}

/// Returns the realm of the process.
#[inline(always)]
#[must_use]
pub const fn captured_in(_: u32) -> Realm {
    Realm::Process
}

/// Returns `false`.
#[inline(always)]
#[must_use]
pub const fn is_in_other_capture(_: u32, _: Realm) -> bool {
    false
}

/// Returns `false`.
#[inline(always)]
#[must_use]
pub const fn is_capture(_: Realm) -> bool {
    false
}

pub(super) const fn note_unattached() {}

/// Returns 0.
#[must_use]
pub const fn unattached_count() -> u64 {
    0
}

impl Attachments {
    pub(super) const fn new() -> Self {
        Self
    }

    pub(super) const fn leave_to_parent(&mut self) {}

    pub(super) const fn drop_all(&mut self) {}
}

impl ThreadWriters {
    pub(super) const fn leave_ended_captures(&mut self) {}
}
