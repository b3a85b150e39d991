//! What is wrong with a configuration.

use std::fmt;

use super::resolve::BUFFERS_MAX;

/// A contradiction in a [`TraceConfig`](super::TraceConfig). Indices count from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The shared memory cannot have the size that was asked for.
    SharedMemory {
        /// Index among the producers whose memory is chosen.
        index: usize,
        /// Why not.
        reason: String,
    },
    /// There is something to record, but no buffer to put it in: add a [`BufferConfig`](super::BufferConfig).
    NoBuffers,
    /// More than 128 buffers.
    TooManyBuffers {
        /// Buffers in the configuration.
        count: usize,
    },
    /// A buffer of size 0.
    EmptyBuffer {
        /// Index of the buffer.
        index: usize,
    },
    /// Two buffers have the same name.
    DuplicateBufferName {
        /// The name.
        name: String,
        /// Index of the first buffer with this name.
        first_index: usize,
        /// Index of the second.
        index: usize,
    },
    /// A data source is listed twice.
    DuplicateDataSource {
        /// Name of the data source.
        name: String,
        /// Index of its second mention.
        index: usize,
    },
    /// A data source targets a buffer name that no buffer has.
    UnknownBufferName {
        /// Name of the data source.
        data_source: String,
        /// Its index.
        index: usize,
        /// The name that it targets.
        buffer_name: String,
    },
    /// A data source targets a name and an index which are two different buffers.
    TargetMismatch {
        /// Name of the data source.
        data_source: String,
        /// Its index.
        index: usize,
        /// Index of the buffer that it targets by name.
        named: usize,
        /// The buffer that it targets by index.
        indexed: usize,
    },
    /// A data source targets a buffer index that does not exist.
    TargetOutOfBounds {
        /// Name of the data source.
        data_source: String,
        /// Its index.
        index: usize,
        /// The index that it targets.
        target: usize,
        /// Buffers in the configuration.
        buffer_count: usize,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SharedMemory { index, reason } => {
                write!(f, "producers[{index}] (shared memory): {reason}")
            }
            Self::NoBuffers => f.write_str("there are data sources to record, but no buffers"),
            Self::TooManyBuffers { count } => {
                write!(
                    f,
                    "{count} buffers are more than the limit of {BUFFERS_MAX}"
                )
            }
            Self::EmptyBuffer { index } => {
                write!(f, "buffers[{index}] has size_kb 0: give it at least 1")
            }
            Self::DuplicateBufferName {
                name,
                first_index,
                index,
            } => write!(
                f,
                "buffers[{index}] has the name {name:?} of buffers[{first_index}]"
            ),
            Self::DuplicateDataSource { name, index } => {
                write!(f, "data_sources[{index}] ({name}) is listed before already")
            }
            Self::UnknownBufferName {
                data_source,
                index,
                buffer_name,
            } => write!(
                f,
                "data_sources[{index}] ({data_source}) targets the buffer {buffer_name:?}, \
                 which does not exist"
            ),
            Self::TargetMismatch {
                data_source,
                index,
                named,
                indexed,
            } => write!(
                f,
                "data_sources[{index}] ({data_source}) targets buffers[{named}] by name, \
                 but buffers[{indexed}] by index"
            ),
            Self::TargetOutOfBounds {
                data_source,
                index,
                target,
                buffer_count,
            } => write!(
                f,
                "data_sources[{index}] ({data_source}) targets buffers[{target}], \
                 but the number of buffers is {buffer_count}"
            ),
        }
    }
}

impl std::error::Error for ConfigError {}
