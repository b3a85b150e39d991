//! Why nothing was recovered.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error in recovering a trace.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecoverError {
    /// The process still runs, or another process recovers its traces at this moment.
    InUse {
        /// The folder of the process.
        folder: PathBuf,
    },
    /// The folder does not contain crash files, or they are of another version, or the file `meta`
    /// is damaged.
    NotCrashFiles {
        /// The folder.
        folder: PathBuf,
    },
    /// The crash files are those of the calling process. Its sessions can be cloned or flushed.
    ThisProcess {
        /// The folder of the process.
        folder: PathBuf,
    },
    /// There is no process with this id.
    NoSuchProcess {
        /// The id.
        pid: u32,
    },
    /// The trace file exists. Name another one, or remove it.
    Exists {
        /// The trace file.
        path: PathBuf,
    },
    /// A file could not be read or written.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl RecoverError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { folder } => write!(
                f,
                "{}: the process still runs, or another process recovers its traces",
                folder.display()
            ),
            Self::NotCrashFiles { folder } => write!(
                f,
                "{}: no crash files of this version, or `meta` is damaged",
                folder.display()
            ),
            Self::ThisProcess { folder } => write!(
                f,
                "{}: the crash files of this very process; clone its session instead",
                folder.display()
            ),
            Self::NoSuchProcess { pid } => write!(f, "there is no process {pid}"),
            Self::Exists { path } => write!(
                f,
                "{} exists; name another file, or remove this one",
                path.display()
            ),
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for RecoverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` prints the text of the source.
            Self::Io { source, .. } => source.source(),
            _ => None,
        }
    }
}
