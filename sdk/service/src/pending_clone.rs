//! A snapshot that is asked for, and one that is under way.

use std::fmt;
use std::sync::Arc;

use super::central_buffer::{TakenBuffer, Writers};
use super::error::SessionError;
use super::lifecycle_events::LifecycleEvents;
use super::pending_flush::FlushOutcome;
use super::trace_output::TraceOutput;
use super::tracing_session::SessionOwner;
use super::trigger_history::ReceivedTrigger;
use tracezero_core::ids::SessionId;

/// A request for a snapshot.
pub struct CloneRequest {
    /// The session to take a snapshot of.
    pub source: CloneSource,
    /// User id of who asks.
    pub uid: u32,
    /// The owner of the new session.
    pub owner: Arc<dyn SessionOwner>,
    /// Where the snapshot is written to, by [`Service::write_into_file`], if the source is written
    /// into a file; else the snapshot is to be read.
    ///
    /// [`Service::write_into_file`]: super::Service::write_into_file
    pub output: Option<TraceOutput>,
    /// The trigger that asked for it.
    pub trigger: Option<ReceivedTrigger>,
    /// Told of the new session, or why there is none.
    pub done: CloneDone,
}

impl fmt::Debug for CloneRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloneRequest")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl CloneRequest {
    /// Called without a lock, since the owner is dropped here as well.
    pub(super) fn finish(self, outcome: Result<SessionId, SessionError>) {
        (self.done)(outcome);
    }
}

/// A function that is called once the snapshot is there, or has failed.
pub type CloneDone = Box<dyn FnOnce(Result<SessionId, SessionError>) + Send>;

/// The session to take a snapshot of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloneSource {
    /// By its id.
    Id(SessionId),
    /// By its unique name.
    Name(String),
}

/// A clone whose buffers are being flushed.
pub(super) struct PendingClone {
    pub(super) source: SessionId,
    pub(super) request: CloneRequest,
    pub(super) started_ns: u64,
    /// By position in the configuration; `None` until its group was flushed.
    pub(super) buffers: Vec<Option<(TakenBuffer, Writers)>>,
    /// Groups of buffers that are still being flushed.
    pub(super) flushes_left: usize,
    pub(super) events: LifecycleEvents,
    pub(super) outcome: FlushOutcome,
}
