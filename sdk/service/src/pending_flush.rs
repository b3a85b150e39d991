//! A flush that is not complete, and the action that follows it.

use tracezero_core::coordination::FlushFlags;
use tracezero_core::ids::ProducerId;

/// The id of a clone that is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CloneId(pub(super) u64);

/// The outcome of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushOutcome {
    /// All data sources have flushed in time.
    Succeeded,
    /// Some data sources did not flush in time, the session is not recording, or too many flushes
    /// are pending.
    Failed,
}

/// The number of flushes of a session by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlushCounts {
    pub(super) requested: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
}

/// The action that follows a flush, whatever its outcome.
pub(super) enum FlushThen {
    Nothing,
    /// Ends the session.
    Disable,
    /// Writes the buffers into the file.
    WriteIntoFile,
    /// Clones a group of buffers.
    Clone(CloneId, Vec<usize>),
    /// Tells the caller who asked for the flush.
    Tell(Box<dyn FnOnce(FlushOutcome) + Send>),
}

/// A flush that producers have not acknowledged yet.
pub(super) struct PendingFlush {
    /// The producers that have not answered, in the order of their ids, without duplicates.
    pub(super) producers: Vec<ProducerId>,
    pub(super) flags: FlushFlags,
    pub(super) then: FlushThen,
}
