//! Errors of flight recorders.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "recovery")]
use crate::crash;
use crate::error::Error;

/// The reason why a flight recorder could not start, or a snapshot was not saved.
#[derive(Clone)]
#[non_exhaustive]
pub enum FlightError {
    /// The settings of the builder contradict each other, or no flight recorder can work with them.
    /// Nothing was started.
    Invalid {
        /// The setting at fault, by the name of the builder's method.
        setting: String,
        /// The problem, and what to do.
        reason: String,
    },
    /// The recording could not start, or could not be read.
    Session(Arc<Error>),
    /// The directory for snapshots could not be created or read.
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// The file of a snapshot could not be written. The incomplete file was removed.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// The snapshot is larger than all files may be together: see
    /// [`total_bytes`](crate::FlightRecorderBuilder::total_bytes). It was not written.
    TooLarge {
        /// The size of the snapshot.
        bytes: u64,
        /// The limit on all files.
        limit_bytes: u64,
    },
    /// A session or another recorder is writing a trace into the file, so the file was left as it
    /// is. Name another file.
    FileInUse {
        /// The path of the file.
        path: PathBuf,
    },
    /// A thread could not be started.
    Thread(Arc<io::Error>),
    /// The process cannot watch for the signal.
    Signal {
        /// The number of the signal.
        number: i32,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// There was a snapshot with this name a moment ago: see
    /// [`min_interval`](crate::FlightRecorderBuilder::min_interval).
    TooSoon {
        /// The name of the snapshot.
        name: String,
        /// The time since that snapshot.
        since: Duration,
    },
    /// Too many snapshots already wait to be taken or written, because the disk or the callback is
    /// slow.
    Busy {
        /// The number of snapshots that may wait.
        limit: usize,
    },
    /// What the last run left behind could not be recovered.
    #[cfg(feature = "recovery")]
    Recovery(Arc<crash::RecoverError>),
    /// The recorder has stopped.
    Stopped,
}

/// Prints the text of `Display`, because a `main` that returns this error prints it by `Debug`.
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
                    "cannot create or read the snapshot directory {}: {source}",
                    path.display()
                )
            }
            Self::File { path, source } => {
                write!(f, "cannot write the snapshot {}: {source}", path.display())
            }
            Self::TooLarge { bytes, limit_bytes } => write!(
                f,
                "snapshot not written: it has {bytes} bytes, and total_bytes is {limit_bytes}; give \
                 more, or keep a shorter time"
            ),
            Self::FileInUse { path } => write!(
                f,
                "cannot write the snapshot {}: another session is writing that file; name another one",
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
                "snapshot {name:?} refused: the last one was {} ms ago; see min_interval",
                since.as_millis()
            ),
            Self::Busy { limit } => write!(
                f,
                "snapshot refused: {limit} others wait to be written; speed up the disk or the callback"
            ),
            #[cfg(feature = "recovery")]
            Self::Recovery(source) => write!(f, "cannot recover the last run: {source}"),
            Self::Stopped => f.write_str("the flight recorder has stopped"),
        }
    }
}

impl std::error::Error for FlightError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // `Display` prints the text of the source, so the chain goes on with the source's own
        // source.
        match self {
            Self::Session(source) => source.source(),
            Self::Directory { source, .. }
            | Self::File { source, .. }
            | Self::Thread(source)
            | Self::Signal { source, .. } => source.source(),
            #[cfg(feature = "recovery")]
            Self::Recovery(source) => source.source(),
            Self::Invalid { .. }
            | Self::TooLarge { .. }
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
    /// Creates the error for a wrong setting.
    pub(super) fn invalid(setting: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid {
            setting: setting.into(),
            reason: reason.into(),
        }
    }
}
