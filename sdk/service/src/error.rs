//! Why a session does not start, or is not cloned.

use std::fmt;

use super::trace_buffer::BufferError;

/// Why the service does not start a session, or does not clone one.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionError {
    /// A central buffer could not be allocated: ask for a smaller `size_kb`.
    Buffer {
        /// Index of the buffer in the configuration.
        index: usize,
        /// Why not.
        source: BufferError,
    },
    /// Every place for a session is taken: finish one first.
    TooManySessions {
        /// Sessions that can run at once.
        limit: usize,
    },
    /// All 65,535 buffer ids are in use: finish a session first.
    TooManyBuffers,
    /// Other sessions are in the way, or the one that is asked about.
    Refused(Refusal),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buffer { index, source } => {
                write!(f, "cannot allocate buffers[{index}]: {source}")
            }
            Self::TooManySessions { limit } => {
                write!(
                    f,
                    "{limit} sessions run already: finish one before starting another"
                )
            }
            Self::TooManyBuffers => {
                f.write_str("no buffer id is left: finish a session before starting another")
            }
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Buffer { source, .. } => Some(source),
            Self::TooManySessions { .. } | Self::TooManyBuffers | Self::Refused(_) => None,
        }
    }
}

impl From<Refusal> for SessionError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Why a session may not start, or may not be cloned, because of the sessions there are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Another session has this `unique_session_name`.
    NameInUse {
        /// The name.
        name: String,
    },
    /// A session of this name started less than five minutes ago, and guardrails are on.
    StartedTooRecently {
        /// The name.
        name: String,
    },
    /// A session is active that keeps away those that do not matter more.
    ExclusiveSession {
        /// The `exclusive_prio` of the active session.
        active: u32,
        /// The `exclusive_prio` of the session that was refused.
        requested: u32,
    },
    /// More sessions hold a semaphore than one of them, or the new one, allows.
    SemaphoreHeld {
        /// The semaphore's name.
        name: String,
        /// Sessions that hold it.
        holders: usize,
        /// How many others the strictest of them allows.
        limit: u64,
    },
    /// There is no session to clone, or no longer.
    NoSuchSession,
    /// The session to clone belongs to another user.
    SessionOfAnotherUser,
    /// The session to clone ended while it was flushed.
    SessionEnded,
    /// The buffers could not be cloned.
    CloneFailed {
        /// Why not.
        reason: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameInUse { name } => {
                write!(
                    f,
                    "there is a session with the unique_session_name {name:?}"
                )
            }
            Self::StartedTooRecently { name } => write!(
                f,
                "a session with the unique_session_name {name:?} started less than 300 s ago"
            ),
            Self::ExclusiveSession { active, requested } => write!(
                f,
                "an exclusive session with priority {active} is active, which is not below the \
                 requested priority {requested}"
            ),
            Self::SemaphoreHeld {
                name,
                holders,
                limit,
            } => write!(
                f,
                "session_semaphores: {holders} sessions hold {name:?}, and at most {limit} others \
                 are allowed"
            ),
            Self::NoSuchSession => f.write_str("there is no such session"),
            Self::SessionOfAnotherUser => f.write_str("a session of another user cannot be cloned"),
            Self::SessionEnded => f.write_str("the session to clone has ended"),
            Self::CloneFailed { reason } => write!(f, "cannot clone the session: {reason}"),
        }
    }
}
