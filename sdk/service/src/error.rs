//! Errors: why a session cannot start or cannot be cloned.

use std::fmt;

use super::trace_buffer::BufferError;

/// The reason why the service cannot start or clone a session.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionError {
    /// A trace buffer could not be allocated. A smaller `size_kb` may help.
    Buffer {
        /// The index of the buffer in the configuration.
        index: usize,
        /// The cause.
        source: BufferError,
    },
    /// The maximum number of sessions exists. Finish one first.
    TooManySessions {
        /// The number of sessions that can exist at once.
        limit: usize,
    },
    /// The trace buffers of all sessions would be too large. Use smaller buffers, or finish a session
    /// first.
    BuffersTooLarge {
        /// The size of the buffers that were asked for, in bytes.
        asked_bytes: u64,
        /// The size of the buffers that exist, in bytes.
        used_bytes: u64,
        /// The size that all buffers may have, in bytes.
        limit_bytes: u64,
    },
    /// All 65,535 buffer ids are in use: finish a session first.
    TooManyBuffers,
    /// The request conflicts with other sessions, or the session to clone cannot be cloned.
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
                    "{limit} sessions exist already, which is the limit; finish one of them first"
                )
            }
            Self::BuffersTooLarge {
                asked_bytes,
                used_bytes,
                limit_bytes,
            } => {
                let kib = |bytes: &u64| bytes / 1024;
                write!(
                    f,
                    "buffers of {} KiB are too large: all sessions may have {} KiB, and others have {} \
                     KiB; use smaller buffers, or finish a session first",
                    kib(asked_bytes),
                    kib(limit_bytes),
                    kib(used_bytes)
                )
            }
            Self::TooManyBuffers => {
                f.write_str("all buffer ids are in use; finish a session before starting another")
            }
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` prints the text of the source, so the chain goes on with the source's own
            // source.
            Self::Buffer { source, .. } => source.source(),
            Self::Refused(refusal) => refusal.source(),
            Self::TooManySessions { .. } | Self::BuffersTooLarge { .. } | Self::TooManyBuffers => {
                None
            }
        }
    }
}

impl From<Refusal> for SessionError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The reason why the state of the existing sessions does not allow to start or clone a session.
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
    /// An exclusive session is active, and its priority is not below the priority of the refused
    /// session.
    ExclusiveSession {
        /// The `exclusive_prio` of the active session.
        active: u32,
        /// The `exclusive_prio` of the session that was refused.
        requested: u32,
    },
    /// Too many sessions hold a semaphore: more than the new session, or one of the holders,
    /// allows.
    SemaphoreHeld {
        /// The semaphore's name.
        name: String,
        /// The number of sessions that hold it.
        holders: usize,
        /// The lowest number of other holders that one of the sessions allows.
        limit: u64,
    },
    /// The session to clone does not exist, or no longer exists.
    NoSuchSession,
    /// The session to clone belongs to another user.
    SessionOfAnotherUser,
    /// The session to clone ended during the flush that comes before a clone.
    SessionEnded,
    /// The buffers could not be cloned.
    CloneFailed {
        /// The cause.
        reason: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameInUse { name } => {
                write!(
                    f,
                    "another session has the unique_session_name {name:?}; finish it, or change the name"
                )
            }
            Self::StartedTooRecently { name } => write!(
                f,
                "a session with the unique_session_name {name:?} started less than 300 s ago; wait, \
                 or leave out enable_extra_guardrails"
            ),
            Self::ExclusiveSession { active, requested } => write!(
                f,
                "an exclusive session with exclusive_prio {active} is active; finish it, or raise the \
                 exclusive_prio of the new one, {requested}, above that"
            ),
            Self::SemaphoreHeld {
                name,
                holders,
                limit,
            } => write!(
                f,
                "session_semaphores: {holders} sessions hold {name:?}, and at most {limit} others \
                 are allowed; finish one of them"
            ),
            Self::NoSuchSession => f.write_str("the session does not exist, or has ended"),
            Self::SessionOfAnotherUser => {
                f.write_str("the session to clone belongs to another user")
            }
            Self::SessionEnded => f.write_str("the session to clone has ended"),
            Self::CloneFailed { reason } => write!(f, "cannot clone the session: {reason}"),
        }
    }
}

impl std::error::Error for Refusal {}
