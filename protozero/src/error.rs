//! What the decoder objects to.

use core::fmt;

use crate::wire::MAX_GROUP_DEPTH;

/// Why bytes are not the message that was asked for.
///
/// Offsets count from the start of the message that was being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The message ends in the middle of the field that begins at `offset`.
    Truncated {
        /// Start of the field.
        offset: usize,
    },
    /// The field that begins at `offset` has a varint of more than 64 bits.
    VarintTooLong {
        /// Start of the field.
        offset: usize,
    },
    /// The field that begins at `offset`, or one in its group, has a tag with field number 0, one
    /// above 2^29-1, or an unknown wire type; or it ends a group that is not the innermost one.
    InvalidTag {
        /// Start of the field.
        offset: usize,
    },
    /// The group that begins at `offset` has more than [`MAX_GROUP_DEPTH`](crate::MAX_GROUP_DEPTH)
    /// groups inside each other.
    GroupsTooDeep {
        /// Start of the outermost group.
        offset: usize,
    },
    /// The field has another wire type than its protobuf type calls for.
    WireTypeMismatch {
        /// Number of the field.
        field: u32,
    },
    /// The message has 4 GiB or more. Protobuf's limit is 2 GiB, and an index has offsets of 32 bits.
    MessageTooLong,
    /// A packed field whose payload does not divide into elements.
    MalformedPacked {
        /// Number of the field.
        field: u32,
    },
    /// The field is a message, inside of as many others as an owned message may hold; see
    /// `MAX_OWNED_DEPTH`.
    MessagesTooDeep {
        /// Number of the field.
        field: u32,
    },
    /// A string that is not UTF-8.
    InvalidUtf8 {
        /// Number of the field.
        field: u32,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { offset } => {
                write!(f, "the message ends inside the field at offset {offset}")
            }
            Self::VarintTooLong { offset } => {
                write!(
                    f,
                    "varint of more than 64 bits in the field at offset {offset}"
                )
            }
            Self::InvalidTag { offset } => write!(f, "invalid tag at offset {offset}"),
            Self::GroupsTooDeep { offset } => {
                write!(
                    f,
                    "more than {MAX_GROUP_DEPTH} nested groups at offset {offset}"
                )
            }
            Self::WireTypeMismatch { field } => {
                write!(
                    f,
                    "field {field} has a wire type that its schema does not allow"
                )
            }
            Self::MessageTooLong => f.write_str("the message is longer than protobuf allows"),
            Self::MalformedPacked { field } => {
                write!(f, "packed field {field} does not divide into elements")
            }
            Self::MessagesTooDeep { field } => {
                write!(f, "field {field} is a message inside of too many others")
            }
            Self::InvalidUtf8 { field } => write!(f, "string field {field} is not UTF-8"),
        }
    }
}

impl core::error::Error for DecodeError {}
