//! Errors of decoding.

use core::fmt;

use crate::wire::GROUPS_MAX_DEPTH;

/// The reason why bytes could not be decoded as a message.
///
/// Offsets are bytes from the start of the message that was being read.
///
/// ```
/// use protozero::{DecodeError, Decoder, types};
///
/// let decoder = Decoder::new(b"\x08\x2a\x12\x03fo"); // the second field lacks a byte
/// let error = decoder.last::<types::Uint32>(1).unwrap_err();
/// assert_eq!(error, DecodeError::Truncated { offset: 2 });
/// assert_eq!(error.to_string(), "the message ends inside the field at offset 2");
/// ```
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
    /// The field that begins at `offset`, or a field in its group, has an invalid tag: field number
    /// 0 or above 2^29-1, an unknown wire type, or the end of a group that is not the innermost
    /// open group.
    InvalidTag {
        /// Start of the field.
        offset: usize,
    },
    /// The group that begins at `offset` nests groups more than
    /// [`GROUPS_MAX_DEPTH`](crate::GROUPS_MAX_DEPTH) levels deep.
    GroupsTooDeep {
        /// Start of the outermost group.
        offset: usize,
    },
    /// The wire type of the field does not fit its protobuf type.
    WireTypeMismatch {
        /// Number of the field.
        field: u32,
    },
    /// The message has 4 GiB or more, but [`IndexedMessage`](crate::IndexedMessage) stores offsets
    /// of 32 bits. Protobuf's own limit is 2 GiB.
    MessageTooLong,
    /// The payload of a packed field is not a whole number of elements.
    MalformedPacked {
        /// Number of the field.
        field: u32,
    },
    /// The field is a message that is nested more than `OWNED_MAX_DEPTH` levels deep, the limit of
    /// `OwnedMessage`.
    MessagesTooDeep {
        /// Number of the field.
        field: u32,
    },
    /// The `string` field is not UTF-8.
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
                    "the field at offset {offset} has a varint of more than 64 bits"
                )
            }
            Self::InvalidTag { offset } => write!(f, "the tag at offset {offset} is invalid"),
            Self::GroupsTooDeep { offset } => {
                write!(
                    f,
                    "the groups at offset {offset} nest deeper than {GROUPS_MAX_DEPTH} levels"
                )
            }
            Self::WireTypeMismatch { field } => {
                write!(
                    f,
                    "field {field} has a wire type that its schema does not allow"
                )
            }
            Self::MessageTooLong => {
                f.write_str("the message is 4 GiB or longer, more than protobuf allows")
            }
            Self::MalformedPacked { field } => {
                write!(f, "packed field {field} ends inside an element")
            }
            Self::MessagesTooDeep { field } => {
                write!(f, "the message in field {field} is nested too deeply")
            }
            Self::InvalidUtf8 { field } => write!(f, "string field {field} is not UTF-8"),
        }
    }
}

impl core::error::Error for DecodeError {}
