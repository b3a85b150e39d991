//! The phases of a session's life, each with the data that only it has.

use super::pending_flush::FlushOutcome;
use super::trigger_history::ReceivedTrigger;

/// The phase of a session's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Set up, not started.
    Configured,
    /// Recording.
    Started,
    /// Data sources have to say that they are done.
    Stopping,
    /// Over; its buffers can be read.
    Disabled,
    /// A snapshot of another session.
    ClonedReadOnly,
}

/// A [`State`] with its data. `TracingSession::enter` goes on to the next.
///
/// ```text
///              start             disable             all stopped, or timeout
///   Configured -----> Started -----------> Stopping ------------------------> Disabled
///       |                |                                                       ^
///       '--- disable ----'----- disable, if no data source is waited for --------'
/// ```
pub(super) enum Phase {
    Configured,
    Started {
        /// Set once every data source has started, which is noted then.
        all_started: bool,
    },
    Stopping(End),
    Disabled(End),
    /// With the trigger that asked for the snapshot.
    ClonedReadOnly(Option<ReceivedTrigger>, End),
}

/// The end of a session.
#[derive(Default)]
pub(super) struct End {
    /// The reason, if nobody asked for the end.
    pub(super) reason: Option<String>,
    /// The outcome of the flush that came before the end.
    pub(super) flush: Option<FlushOutcome>,
}

impl Phase {
    pub(super) fn state(&self) -> State {
        match self {
            Self::Configured => State::Configured,
            Self::Started { .. } => State::Started,
            Self::Stopping(_) => State::Stopping,
            Self::Disabled(_) => State::Disabled,
            Self::ClonedReadOnly(..) => State::ClonedReadOnly,
        }
    }

    /// Returns the end, if the session is ending or has ended.
    pub(super) fn end(&self) -> Option<&End> {
        match self {
            Self::Configured | Self::Started { .. } => None,
            Self::Stopping(end) | Self::Disabled(end) | Self::ClonedReadOnly(_, end) => Some(end),
        }
    }
}

impl End {
    pub(super) fn because_of(reason: Option<String>) -> Self {
        let flush = None;
        Self { reason, flush }
    }

    pub(super) fn after_flush(outcome: FlushOutcome) -> Self {
        let (reason, flush) = (None, Some(outcome));
        Self { reason, flush }
    }

    /// Adds what became known later: the first reason stays, the last flush counts.
    pub(super) fn add(&mut self, later: Self) {
        self.reason = self.reason.take().or(later.reason);
        self.flush = later.flush.or(self.flush);
    }
}
