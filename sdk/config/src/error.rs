//! What is wrong with a configuration.

use std::fmt;

/// Buffers that one session may have.
pub(crate) const BUFFERS_MAX: usize = 128;

/// A contradiction in a configuration. Indices count from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A field has a value that it cannot have, or not beside what other fields say.
    Invalid {
        /// Path of the field, such as `trigger_config.triggers[0].name`.
        field: String,
        /// What is wrong, with the value.
        reason: String,
    },
    /// A field asks for something that is not done here.
    Unsupported {
        /// Path of the field.
        field: String,
        /// What to do instead.
        remedy: &'static str,
    },
    /// An encoded configuration has a field that the schema does not have.
    UnknownField {
        /// Path of the message that has it; empty for the configuration itself.
        message: String,
        /// Number of the field.
        number: u32,
    },
    /// The bytes are no encoded configuration.
    Malformed {
        /// Path of the field or message at fault; empty for the configuration itself.
        field: String,
        /// What is wrong.
        reason: String,
    },
    /// A text does not have the form of a configuration.
    Syntax {
        /// What is wrong, with what is there.
        reason: String,
    },
    /// Something in a text is wrong.
    InText {
        /// Line of the text, counted from 1.
        line: usize,
        /// Character of the line, counted from 1.
        column: usize,
        /// What is wrong.
        source: Box<Self>,
    },
    /// The shared memory cannot have the size that was asked for.
    SharedMemory {
        /// Index among the producers whose memory is chosen.
        index: usize,
        /// Why not.
        reason: String,
    },
    /// There is something to record, but no buffer to put it in: add a buffer.
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

impl ConfigError {
    /// The path of the field or message at fault, as far as reading finds faults.
    #[cfg(feature = "text-config")]
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Invalid { field, .. }
            | Self::Unsupported { field, .. }
            | Self::Malformed { field, .. } => field,
            Self::UnknownField { message, .. } => message,
            _ => "",
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { field, reason } => write!(f, "{field}: {reason}"),
            Self::Unsupported { field, remedy } => {
                write!(f, "{field} is not supported: {remedy}")
            }
            Self::UnknownField { message, number } => write!(
                f,
                "{} has the field number {number}, which the schema does not have: leave it out",
                named(message)
            ),
            Self::Malformed { field, reason } => write!(f, "{}: {reason}", named(field)),
            Self::Syntax { reason } => f.write_str(reason),
            Self::InText {
                line,
                column,
                source,
            } => write!(f, "line {line}, column {column}: {source}"),
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

/// The path of a field, in words if it is empty.
fn named(path: &str) -> &str {
    match path {
        "" => "the configuration",
        path => path,
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::InText { source, .. } => Some(source),
            _ => None,
        }
    }
}
