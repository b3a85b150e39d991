//! The phases of a session's life, with the data of each.

use super::pending_flush::FlushOutcome;
use super::trigger_history::ReceivedTrigger;

/// The phase of a session's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The session is set up but not started.
    Configured,
    /// The session is recording.
    Started,
    /// The session waits until its data sources have stopped.
    Stopping,
    /// The session has ended. Its buffers can be read.
    Disabled,
    /// The session is a clone of another session.
    ClonedReadOnly,
}

/// A [`State`] with its data. `TracingSession::enter` moves a session to its next phase.
///
/// ```text
///              start             disable             all stopped, or timeout
///   Configured -----> Started -----------> Stopping ------------------------> Ending
///       |                |                                                    ^    |
///       '--- disable ----'----- disable, if no data source is waited for -----'    | scraped
///                                                                                  v
///                                                                               Disabled
/// ```
pub(super) enum Phase {
    Configured,
    Started {
        /// True once the event was noted that every data source has started.
        all_started: bool,
    },
    Stopping(End),
    /// All data sources have stopped, and the chunks of writers are being scraped.
    Ending(End),
    Disabled(End),
    /// The first value is the trigger that asked for the clone, if one did.
    ClonedReadOnly(Option<ReceivedTrigger>, End),
}

/// Why and how a session ended.
#[derive(Default)]
pub(super) struct End {
    /// The reason, if the session was not asked to end.
    pub(super) reason: Option<String>,
    /// The outcome of the flush that came before the end.
    pub(super) flush: Option<FlushOutcome>,
}

impl Phase {
    pub(super) fn state(&self) -> State {
        match self {
            Self::Configured => State::Configured,
            Self::Started { .. } => State::Started,
            Self::Stopping(_) | Self::Ending(_) => State::Stopping,
            Self::Disabled(_) => State::Disabled,
            Self::ClonedReadOnly(..) => State::ClonedReadOnly,
        }
    }

    /// Returns the end, if the session is ending or has ended.
    pub(super) fn end(&self) -> Option<&End> {
        match self {
            Self::Configured | Self::Started { .. } => None,
            Self::Stopping(end)
            | Self::Ending(end)
            | Self::Disabled(end)
            | Self::ClonedReadOnly(_, end) => Some(end),
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

    /// Adds what became known later. The first reason is kept, and the last flush outcome.
    pub(super) fn add(&mut self, later: Self) {
        self.reason = self.reason.take().or(later.reason);
        self.flush = later.flush.or(self.flush);
    }
}
