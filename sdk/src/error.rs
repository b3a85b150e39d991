//! What can go wrong while a session is set up, runs into its file, or ends.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::consumer::ConfigError;
use crate::service::trace_buffer::BufferError;
use crate::shm::MemoryError;

/// Why a session could not start, or could not end as it should.
///
/// Recording itself never fails: losses are counted, marked in the trace, and listed by the
/// [`Report`](crate::Report).
#[derive(Debug)]
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
    },
    /// A central buffer could not be allocated: ask for a smaller `size_kb`.
    Buffer {
        /// Index of the buffer in the configuration.
        index: usize,
        /// Why not.
        source: BufferError,
    },
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
    /// Every place for a session is taken: finish one first.
    TooManySessions {
        /// Sessions that can run at once.
        limit: usize,
    },
    /// All 65,535 buffer ids are in use: finish a session first.
    TooManyBuffers,
    /// The thread that drains the buffers into the file could not be started.
    Thread(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(source) => write!(f, "invalid trace config: {source}"),
            Self::File { path, source } => {
                write!(
                    f,
                    "cannot write the trace file {}: {source}",
                    path.display()
                )
            }
            Self::Buffer { index, source } => {
                write!(f, "cannot allocate buffers[{index}]: {source}")
            }
            Self::SharedMemory(source) => write!(f, "cannot map shared memory: {source}"),
            Self::SharedMemoryExists {
                existing_size_bytes,
                existing_page_size_bytes,
            } => write!(
                f,
                "this process has {existing_size_bytes} bytes of shared memory in pages of \
                 {existing_page_size_bytes} already: only its first session can choose"
            ),
            Self::TooManySessions { limit } => {
                write!(
                    f,
                    "{limit} sessions run already: finish one before starting another"
                )
            }
            Self::TooManyBuffers => {
                f.write_str("no buffer id is left: finish a session before starting another")
            }
            Self::Thread(source) => {
                write!(
                    f,
                    "cannot start the thread that writes the trace file: {source}"
                )
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(source) => Some(source),
            Self::File { source, .. } | Self::Thread(source) => Some(source),
            Self::Buffer { source, .. } => Some(source),
            Self::SharedMemory(source) => Some(source),
            Self::SharedMemoryExists { .. }
            | Self::TooManySessions { .. }
            | Self::TooManyBuffers => None,
        }
    }
}

impl From<ConfigError> for Error {
    fn from(source: ConfigError) -> Self {
        Self::Config(source)
    }
}
