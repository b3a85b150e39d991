//! Errors of setting up a session, writing its file, and ending it.

use std::fmt;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::ConfigError;
use crate::report::Report;
use tracezero_core::crash_files::CrashFilesError;
use tracezero_core::shm::MemoryError;
use tracezero_service::SessionError;

/// The reason why a session could not start, or did not end properly.
///
/// Recording itself never fails: losses are counted, marked in the trace, and listed by the
/// [`Report`](crate::Report).
#[non_exhaustive]
pub enum Error {
    /// The configuration contradicts itself. Nothing was created.
    Config(ConfigError),
    /// The trace file could not be created or written.
    File {
        /// The path of the file, as the caller gave it.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
        /// The report of the session, if it has finished. The file is a valid trace of everything
        /// that was written before the error. The report counts the rest as
        /// [`write_failed`](crate::Losses::write_failed).
        report: Option<Box<Report>>,
    },
    /// Another session, of this process or of another one, is writing into the file, or segments into
    /// the folder. Finish that session first, or choose another place. The file was left as it is.
    FileInUse {
        /// The path of the file or folder, as the caller gave it.
        path: PathBuf,
    },
    /// The service did not start or clone the session.
    Session(SessionError),
    /// The shared memory between trace writers and service could not be mapped.
    SharedMemory(MemoryError),
    /// The crash files of the session could not be created. The error says what to change.
    CrashFiles(CrashFilesError),
    /// The process already has shared memory, and the configuration asks for another size. Only the
    /// first session of a process chooses the size.
    SharedMemoryExists {
        /// The size of the existing memory.
        existing_size_bytes: usize,
        /// The size of a page of the existing memory.
        existing_page_size_bytes: usize,
    },
    /// The configuration has no `output_path`. Set one, or pass a path to `record_to_file`.
    NoOutputPath,
    /// A thread of the SDK could not be started.
    Thread(io::Error),
    /// The address of the tracing daemon's socket is none.
    #[cfg(feature = "system")]
    SystemSocket(tracezero_client::AddressError),
    /// This process was forked from one that had sessions, and those belong to the parent. Start
    /// the first session after the fork, or start a new program with `exec`.
    ForkedChild,
}

/// Prints the text of `Display`, because a `main` that returns this error prints it by `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(source) => write!(f, "invalid trace config: {source}"),
            Self::File { path, source, .. } => {
                write!(
                    f,
                    "cannot write the trace file {}: {source}",
                    path.display()
                )
            }
            Self::FileInUse { path } => write!(
                f,
                "cannot write {}: another session is writing there; finish that first, or choose another \
                 place",
                path.display()
            ),
            Self::Session(source) => source.fmt(f),
            Self::SharedMemory(source) => write!(f, "cannot map shared memory: {source}"),
            Self::CrashFiles(source) => write!(f, "cannot record with crash files: {source}"),
            Self::SharedMemoryExists {
                existing_size_bytes,
                existing_page_size_bytes,
            } => write!(
                f,
                "this process already has {existing_size_bytes} bytes of shared memory in pages of \
                 {existing_page_size_bytes}; choose the sizes in its first session"
            ),
            Self::NoOutputPath => f.write_str(
                "the trace config has no output_path; set it, or pass a path to record_to_file",
            ),
            Self::Thread(source) => write!(f, "cannot start a thread for tracing: {source}"),
            #[cfg(feature = "system")]
            Self::SystemSocket(source) => source.fmt(f),
            Self::ForkedChild => f.write_str(
                "this process was forked from one with sessions; start the first session only after \
                 the fork, or start a new program with exec",
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // `Display` prints the text of the source, so the chain goes on with the source's own
        // source.
        match self {
            Self::Config(source) => source.source(),
            Self::File { source, .. } | Self::Thread(source) => source.source(),
            Self::Session(source) => source.source(),
            Self::SharedMemory(source) => source.source(),
            Self::CrashFiles(source) => source.source(),
            #[cfg(feature = "system")]
            Self::SystemSocket(source) => source.source(),
            Self::FileInUse { .. }
            | Self::SharedMemoryExists { .. }
            | Self::NoOutputPath
            | Self::ForkedChild => None,
        }
    }
}

impl Error {
    /// Returns the session's report, if the error came from a session whose file could not be
    /// written to the end.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::File { report, .. } => report.as_deref(),
            _ => None,
        }
    }

    /// Creates the error for a file at `path` that could not be written.
    pub(crate) fn of_io(path: &Path, source: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            source,
            report: None,
        }
    }

    /// Creates the error for a file at `path` that could not be created or locked.
    pub(crate) fn of_file(path: &Path, error: TryLockError) -> Self {
        let path = path.to_owned();
        match error {
            TryLockError::WouldBlock => Self::FileInUse { path },
            TryLockError::Error(source) => Self::of_io(&path, source),
        }
    }
}

impl From<SessionError> for Error {
    fn from(source: SessionError) -> Self {
        Self::Session(source)
    }
}

impl From<CrashFilesError> for Error {
    fn from(source: CrashFilesError) -> Self {
        Self::CrashFiles(source)
    }
}

impl From<ConfigError> for Error {
    fn from(source: ConfigError) -> Self {
        Self::Config(source)
    }
}
