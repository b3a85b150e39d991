//! What can go wrong while a session is set up, runs into its file, or ends.

use std::fmt;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::ConfigError;
use crate::report::Report;
use tracezero_core::shm::MemoryError;
use tracezero_service::SessionError;

/// Why a session could not start, or could not end as it should.
///
/// Recording itself never fails: losses are counted, marked in the trace, and listed by the
/// [`Report`](crate::Report).
#[non_exhaustive]
pub enum Error {
    /// The configuration contradicts itself; nothing was created.
    Config(ConfigError),
    /// The trace file could not be created or written.
    File {
        /// The file, as it was named by the caller.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
        /// The account of the session, if it has finished: what is in the file, which is a valid trace
        /// as far as it goes, and what is not, as [`write_failed`](crate::Losses::write_failed).
        report: Option<Box<Report>>,
    },
    /// A trace is being written into the file, by another session of this process or of another
    /// one: finish that first, or name another file. What is in the file is left alone.
    FileInUse {
        /// The file, as it was named by the caller.
        path: PathBuf,
    },
    /// The service did not start the session, or did not clone it.
    Session(SessionError),
    /// The memory between writers and service could not be mapped.
    SharedMemory(MemoryError),
    /// The configuration asks for shared memory of another size than this process has. The first
    /// session decides about it.
    SharedMemoryExists {
        /// Size of the memory that is there.
        existing_size_bytes: usize,
        /// Size of its pages.
        existing_page_size_bytes: usize,
    },
    /// The configuration has no `output_path`: give it one, or name a file.
    NoOutputPath,
    /// The thread that drains the buffers into the file could not be started.
    Thread(io::Error),
    /// This process was forked off one that had sessions, which belong to that one. Start the first
    /// session only after the fork, or a new program with `exec`.
    ForkedChild,
}

/// The text for people, since a `main` that returns this error prints it by `Debug`.
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
                "cannot write the trace file {}: another session writes it; finish that first, or \
                 name another file",
                path.display()
            ),
            Self::Session(source) => source.fmt(f),
            Self::SharedMemory(source) => write!(f, "cannot map shared memory: {source}"),
            Self::SharedMemoryExists {
                existing_size_bytes,
                existing_page_size_bytes,
            } => write!(
                f,
                "this process has {existing_size_bytes} bytes of shared memory in pages of \
                 {existing_page_size_bytes} already: only its first session can choose"
            ),
            Self::NoOutputPath => {
                f.write_str("the trace config has no output_path: give it one, or name a file")
            }
            Self::Thread(source) => {
                write!(
                    f,
                    "cannot start the thread that writes the trace file: {source}"
                )
            }
            Self::ForkedChild => f.write_str(
                "this process was forked off one that had sessions: start the first session only \
                 after the fork, or a new program with exec",
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(source) => Some(source),
            Self::File { source, .. } | Self::Thread(source) => Some(source),
            // The text is that of the source.
            Self::Session(source) => std::error::Error::source(source),
            Self::SharedMemory(source) => Some(source),
            Self::FileInUse { .. }
            | Self::SharedMemoryExists { .. }
            | Self::NoOutputPath
            | Self::ForkedChild => None,
        }
    }
}

impl Error {
    /// Returns what became of the recording, if the error is that of a session whose file could not be
    /// written to the end.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::File { report, .. } => report.as_deref(),
            _ => None,
        }
    }

    /// The file at `path` could not be written.
    pub(crate) fn of_io(path: &Path, source: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            source,
            report: None,
        }
    }

    /// Why the file at `path` could not be begun.
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

impl From<ConfigError> for Error {
    fn from(source: ConfigError) -> Self {
        Self::Config(source)
    }
}
