//! What can go wrong with a flight recorder.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;

/// Why a flight recorder could not start, or why a snapshot is not in a file.
#[derive(Clone)]
#[non_exhaustive]
pub enum FlightError {
    /// What the builder was told contradicts itself, or makes no flight recorder; nothing was
    /// started.
    Invalid {
        /// What is at fault, as the builder calls it.
        setting: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// The recording could not start, or could not be read.
    Session(Arc<Error>),
    /// The folder for snapshots could not be made, or not be looked into.
    Directory {
        /// The folder.
        path: PathBuf,
        /// What the operating system says.
        source: Arc<io::Error>,
    },
    /// The file of a snapshot could not be written. What there was of it is removed.
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: Arc<io::Error>,
    },
    /// A session or another recorder writes a trace into the file: name another one. What is in it
    /// is left alone.
    FileInUse {
        /// The file.
        path: PathBuf,
    },
    /// A thread could not be started.
    Thread(Arc<io::Error>),
    /// The signal cannot be waited for.
    Signal {
        /// Its number.
        number: i32,
        /// What the operating system says.
        source: Arc<io::Error>,
    },
    /// There was a snapshot of this name a moment ago: see
    /// [`min_interval`](crate::FlightRecorderBuilder::min_interval).
    TooSoon {
        /// The name.
        name: String,
        /// How long ago.
        since: Duration,
    },
    /// So many snapshots wait to be taken or written already. The disk is slow, or the callback is.
    Busy {
        /// How many may wait.
        limit: usize,
    },
    /// The recorder has stopped.
    Stopped,
}

/// The text for people, since a `main` that returns this error prints it by `Debug`.
impl fmt::Debug for FlightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for FlightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { setting, reason } => write!(f, "flight recorder: {setting} {reason}"),
            Self::Session(source) => write!(f, "flight recorder: {source}"),
            Self::Directory { path, source } => {
                write!(
                    f,
                    "the folder for snapshots {} cannot be made or read: {source}",
                    path.display()
                )
            }
            Self::File { path, source } => {
                write!(f, "cannot write the snapshot {}: {source}", path.display())
            }
            Self::FileInUse { path } => write!(
                f,
                "cannot write the snapshot {}: another session writes that file; name another one",
                path.display()
            ),
            Self::Thread(source) => {
                write!(f, "cannot start a thread of the flight recorder: {source}")
            }
            Self::Signal { number, source } => {
                write!(f, "cannot wait for the signal {number}: {source}")
            }
            Self::TooSoon { name, since } => write!(
                f,
                "there was a snapshot {name:?} {} ms ago: see min_interval",
                since.as_millis()
            ),
            Self::Busy { limit } => write!(
                f,
                "{limit} snapshots wait to be written already: the disk or the callback is slow"
            ),
            Self::Stopped => f.write_str("the flight recorder has stopped"),
        }
    }
}

impl std::error::Error for FlightError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Session(source) => Some(&**source),
            Self::Directory { source, .. }
            | Self::File { source, .. }
            | Self::Thread(source)
            | Self::Signal { source, .. } => Some(&**source),
            Self::Invalid { .. }
            | Self::FileInUse { .. }
            | Self::TooSoon { .. }
            | Self::Busy { .. }
            | Self::Stopped => None,
        }
    }
}

impl From<Error> for FlightError {
    fn from(source: Error) -> Self {
        Self::Session(Arc::new(source))
    }
}

impl FlightError {
    /// Something is wrong with what the builder was told.
    pub(super) fn invalid(setting: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid {
            setting: setting.into(),
            reason: reason.into(),
        }
    }
}
