//! Errors in configurations.

use std::fmt;

/// The largest number of buffers of a session.
pub(crate) const BUFFERS_MAX: usize = 128;

/// An error in a configuration. Indices count from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A field has a value that is not allowed, or that contradicts another field.
    Invalid {
        /// The path of the field, such as `trigger_config.triggers[0].name`.
        field: String,
        /// The fault, with the value.
        reason: String,
    },
    /// A field is in the schema, but this service does not support it.
    Unsupported {
        /// The path of the field.
        field: String,
        /// Advice what to do instead.
        remedy: &'static str,
    },
    /// An encoded configuration has a field that the schema does not have.
    UnknownField {
        /// The path of the message that has the field; empty for the configuration itself.
        message: String,
        /// The number of the field.
        number: u32,
    },
    /// The bytes are not an encoded configuration.
    Malformed {
        /// The path of the wrong field or message; empty for the configuration itself.
        field: String,
        /// The fault.
        reason: String,
    },
    /// A text is not in protobuf's text format.
    Syntax {
        /// The fault, with the text that was found.
        reason: String,
    },
    /// An error at a position in a text.
    InText {
        /// The line, counted from 1.
        line: usize,
        /// The character in the line, counted from 1.
        column: usize,
        /// The error at this position.
        source: Box<Self>,
    },
    /// An entry of `producers` asks for sizes that a shared memory cannot have.
    SharedMemory {
        /// The index of the entry in `producers`.
        index: usize,
        /// The fault.
        reason: String,
    },
    /// The configuration has data sources, but no buffer for their packets.
    NoBuffers,
    /// The configuration has more than 128 buffers.
    TooManyBuffers {
        /// The number of buffers in the configuration.
        count: usize,
    },
    /// A buffer has the size 0.
    EmptyBuffer {
        /// The index of the buffer.
        index: usize,
    },
    /// Two buffers have the same name.
    DuplicateBufferName {
        /// The name.
        name: String,
        /// The index of the first buffer with this name.
        first_index: usize,
        /// The index of the second buffer with this name.
        index: usize,
    },
    /// The target buffer of a data source has a name that no buffer has.
    UnknownBufferName {
        /// The name of the data source.
        data_source: String,
        /// The index of the data source.
        index: usize,
        /// The name of the target buffer.
        buffer_name: String,
    },
    /// The name and the index of a data source's target buffer mean different buffers.
    TargetMismatch {
        /// The name of the data source.
        data_source: String,
        /// The index of the data source.
        index: usize,
        /// The index of the buffer whose name the data source gives.
        named: usize,
        /// The index that the data source gives.
        indexed: usize,
    },
    /// The index of a data source's target buffer is too large.
    TargetOutOfBounds {
        /// The name of the data source.
        data_source: String,
        /// The index of the data source.
        index: usize,
        /// The given index of the target buffer.
        target: usize,
        /// The number of buffers in the configuration.
        buffer_count: usize,
    },
}

impl ConfigError {
    /// Returns the path of the wrong field or message, for the errors of [`decode`](crate::decode).
    /// Empty for other errors.
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
                write!(f, "{field} is not supported; {remedy}")
            }
            Self::UnknownField { message, number } => write!(
                f,
                "{} has field {number}, which is not in the schema; leave it out",
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
            Self::NoBuffers => {
                f.write_str("the configuration has data sources, but no buffers; add a buffer")
            }
            Self::TooManyBuffers { count } => {
                write!(
                    f,
                    "the configuration has {count} buffers, more than the limit of {BUFFERS_MAX}"
                )
            }
            Self::EmptyBuffer { index } => {
                write!(f, "buffers[{index}]: size_kb is 0; give at least 1")
            }
            Self::DuplicateBufferName {
                name,
                first_index,
                index,
            } => write!(
                f,
                "buffers[{index}] has the same name as buffers[{first_index}], {name:?}; rename one of them"
            ),
            Self::UnknownBufferName {
                data_source,
                index,
                buffer_name,
            } => write!(
                f,
                "data_sources[{index}] ({data_source}) targets the buffer {buffer_name:?}, \
                 which does not exist; use the name of a buffer"
            ),
            Self::TargetMismatch {
                data_source,
                index,
                named,
                indexed,
            } => write!(
                f,
                "data_sources[{index}] ({data_source}) targets buffers[{named}] by name, \
                 but buffers[{indexed}] by index; leave one of them out"
            ),
            Self::TargetOutOfBounds {
                data_source,
                index,
                target,
                buffer_count,
            } => write!(
                f,
                "data_sources[{index}] ({data_source}) targets buffers[{target}], which does not \
                 exist; the number of buffers is {buffer_count}"
            ),
        }
    }
}

/// Returns the path, or words for the whole configuration if the path is empty.
fn named(path: &str) -> &str {
    match path {
        "" => "the configuration",
        path => path,
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` prints the text of the source.
            Self::InText { source, .. } => source.source(),
            _ => None,
        }
    }
}
