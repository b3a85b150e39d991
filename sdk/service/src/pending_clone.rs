//! Clones of sessions: requests, and clones that are not complete.

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

/// A request to clone a session.
pub struct CloneRequest {
    /// The session to clone.
    pub source: CloneSource,
    /// The id of the user who asks.
    pub uid: u32,
    /// The owner of the new session.
    pub owner: Arc<dyn SessionOwner>,
    /// The file for the clone if the source writes into a file; [`Service::write_into_file`] writes
    /// it. `None` if the clone is to be read.
    ///
    /// [`Service::write_into_file`]: super::Service::write_into_file
    pub output: Option<TraceOutput>,
    /// The trigger that asked for the clone, if one did.
    pub trigger: Option<ReceivedTrigger>,
    /// A function that is called with the id of the clone or the reason why there is none.
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
    /// Calls `done`. Call this without a lock, because it also drops the owner.
    pub(super) fn finish(self, outcome: Result<SessionId, SessionError>) {
        (self.done)(outcome);
    }
}

/// A function that is called when the clone exists or has failed.
pub type CloneDone = Box<dyn FnOnce(Result<SessionId, SessionError>) + Send>;

/// The session to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloneSource {
    /// The session with this id.
    Id(SessionId),
    /// The session with this unique name.
    Name(String),
    /// The session with the highest `bugreport_score` above 0. Of several, the one that began first.
    BestForBugreport,
}

/// A clone whose buffers are being flushed.
pub(super) struct PendingClone {
    pub(super) source: SessionId,
    pub(super) request: CloneRequest,
    pub(super) started_ns: u64,
    /// The taken buffers by position in the configuration; `None` until the buffer's group was
    /// flushed.
    pub(super) buffers: Vec<Option<(TakenBuffer, Writers)>>,
    /// The number of groups of buffers that are still being flushed.
    pub(super) flushes_left: usize,
    pub(super) events: LifecycleEvents,
    pub(super) outcome: FlushOutcome,
}
