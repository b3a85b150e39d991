//! A flush that is under way, and what comes after it.

use tracezero_core::coordination::FlushFlags;
use tracezero_core::ids::ProducerId;

/// A clone that is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CloneId(pub(super) u64);

/// Whether every data source flushed in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushOutcome {
    /// All have.
    Succeeded,
    /// Some have not, or the session does not record, or too many flushes are under way.
    Failed,
}

/// How flushes of a session went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlushCounts {
    pub(super) requested: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
}

/// What comes after a flush, however it went.
pub(super) enum FlushThen {
    Nothing,
    /// The session ends.
    Disable,
    /// The file is written.
    WriteIntoFile,
    /// A group of buffers is cloned.
    Clone(CloneId, Vec<usize>),
    /// Whoever asked for it is told.
    Tell(Box<dyn FnOnce(FlushOutcome) + Send>),
}

/// A flush that producers have not finished.
pub(super) struct PendingFlush {
    /// Each once.
    pub(super) producers: Vec<ProducerId>,
    pub(super) flags: FlushFlags,
    pub(super) then: FlushThen,
}
