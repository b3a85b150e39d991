//! Messages as plain Rust structs, for configurations and tests.
//!
//! `protozero-codegen` generates a struct for each message that the build script names with
//! `Config::owned`. The struct implements [`OwnedMessage`]. The other items here are helpers that
//! the generated code calls.

use ::alloc::boxed::Box;
use ::alloc::vec::Vec;
use core::fmt;

use crate::error::DecodeError;
use crate::message::Writer;

mod decode; // decodes fields into members of a struct
mod encode; // encodes members of a struct as fields
mod types; // decoding and encoding of one value, for each protobuf type
mod unknown; // fields that the schema does not know

pub use decode::EncodedField;
pub use encode::FieldEncoder;
pub use types::{Enum, Nested, OwnedType};
pub use unknown::UnknownFields;

/// The types of members, for generated code, which may be in a `no_std` crate.
#[doc(hidden)]
pub mod heap {
    pub use ::alloc::boxed::Box;
    pub use ::alloc::collections::BTreeMap;
    pub use ::alloc::string::String;
    pub use ::alloc::vec::Vec;
}

/// The maximum nesting depth of a message that is decoded, including the outermost message.
pub const OWNED_MAX_DEPTH: usize = 100;

/// A message that owns its fields.
///
/// A generated struct has a public member for each field and each oneof:
///
/// - `Option<T>` is a field with presence: every singular field of proto2, and in proto3 `optional`
///   fields and messages. A plain `T` is a field without presence, which counts as set if it is
///   not zero or empty.
/// - `Vec<T>` is a repeated field, `BTreeMap<K, V>` a map, and `Option` of an enum a oneof.
/// - A message is boxed if it could contain itself, or if it would take more than about 2 KiB.
/// - Protobuf enums are the same newtypes that writers and decoders use, so unknown numbers are
///   kept.
/// - `unknown_fields` keeps fields that the schema does not know; see [`UnknownFields`].
///
/// Two messages are equal if all their members are equal. A message that contains a NaN is not
/// equal to itself.
pub trait OwnedMessage: Clone + fmt::Debug + Default + PartialEq {
    /// The generated writer of the same message.
    type Writer<'w>: Writer;

    /// Merges one field into its member, or into the unknown fields.
    ///
    /// # Errors
    ///
    /// If the field is malformed.
    fn merge_field(&mut self, field: &EncodedField<'_>) -> Result<(), DecodeError>;

    /// Appends all fields in the order of their numbers, then the unknown fields in the order in
    /// which they were read.
    fn encode_fields(&self, fields: &mut FieldEncoder);

    /// Appends all fields to a message that is being written.
    ///
    /// The bytes are the result of [`encode_to_vec`](OwnedMessage::encode_to_vec), so the message
    /// is first encoded on the heap.
    fn encode(&self, writer: &mut Self::Writer<'_>);

    /// Returns the encoded message. Its fields are in the order of their numbers, and every length
    /// is in its shortest form.
    #[must_use]
    fn encode_to_vec(&self) -> Vec<u8> {
        let mut fields = FieldEncoder::default();
        self.encode_fields(&mut fields);
        fields.into_bytes()
    }

    /// Decodes a whole message.
    ///
    /// Limit the size of untrusted input, because a small input can take much memory: an empty
    /// element of a repeated message field takes two bytes in the input, but the whole size of its
    /// struct in memory.
    ///
    /// # Errors
    ///
    /// If the bytes are malformed anywhere, if a field has another type than in the schema, or if
    /// messages nest deeper than [`OWNED_MAX_DEPTH`]. A missing `required` field of proto2 is not
    /// an error.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.merge(bytes)?;
        Ok(message)
    }

    /// Merges an encoded message into this message. Scalar values are replaced, elements are
    /// appended to repeated fields, entries are added to maps, and nested messages are merged.
    ///
    /// # Errors
    ///
    /// As for [`decode`](OwnedMessage::decode). Fields before the error stay merged.
    fn merge(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        decode::each_field(bytes, 1, &mut |field| self.merge_field(field))
    }
}

/// A boxed message, for members whose message could contain itself or is large.
impl<M: OwnedMessage> OwnedMessage for Box<M> {
    type Writer<'w> = M::Writer<'w>;

    fn merge_field(&mut self, field: &EncodedField<'_>) -> Result<(), DecodeError> {
        (**self).merge_field(field)
    }

    fn encode_fields(&self, fields: &mut FieldEncoder) {
        (**self).encode_fields(fields);
    }

    fn encode(&self, writer: &mut M::Writer<'_>) {
        (**self).encode(writer);
    }
}
