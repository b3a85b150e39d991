//! Messages as plain Rust values, for configurations and tests: what all generated structs share.
//!
//! A struct is made for each message that the build script asks for with `Config::owned`. It
//! implements [`OwnedMessage`]; everything else here is what its generated code consists of.

use ::alloc::boxed::Box;
use ::alloc::vec::Vec;
use core::fmt;

use crate::error::DecodeError;
use crate::message::Writer;

// Bytes to values, values to bytes, and what they have in common.
mod decode; // fields of an encoded message into members of a struct
mod encode; // members of a struct into fields
mod types; // how a value of each protobuf type is read and written
mod unknown; // fields that the schema does not know

pub use decode::EncodedField;
pub use encode::FieldEncoder;
pub use types::{Enum, Nested, OwnedType};
pub use unknown::UnknownFields;

/// What members are made of, for generated code, which may be in a crate without the standard
/// library.
#[doc(hidden)]
pub mod heap {
    pub use ::alloc::boxed::Box;
    pub use ::alloc::collections::BTreeMap;
    pub use ::alloc::string::String;
    pub use ::alloc::vec::Vec;
}

/// Messages that may be inside each other in what is decoded, the outermost one included.
pub const MAX_OWNED_DEPTH: usize = 100;

/// A message that owns its fields.
///
/// Generated structs have a public member for each field and each oneof. Reading, changing and
/// building one is plain Rust:
///
/// - `Option<T>` is a field that knows whether it is set: any of proto2, `optional` ones and
///   messages of proto3. `T` is one that counts as set if it is not zero or empty.
/// - `Vec<T>` is a repeated field, `BTreeMap<K, V>` a map, and `Option` of an enum is a oneof.
/// - A message is boxed where it could contain itself, or would take more than about 2 KiB.
/// - Enums are the newtypes that writers and decoders use, so unknown numbers survive.
/// - `unknown_fields` keeps what the schema does not know; see [`UnknownFields`].
///
/// Two messages are equal if all members are; a NaN makes a message unequal to itself.
pub trait OwnedMessage: Clone + fmt::Debug + Default + PartialEq {
    /// The generated writer of the same message.
    type Writer<'w>: Writer;

    /// Puts one field where it belongs: into a member, or with the unknown ones.
    ///
    /// # Errors
    ///
    /// If the field is malformed.
    fn merge_field(&mut self, field: &EncodedField<'_>) -> Result<(), DecodeError>;

    /// Appends all fields in the order of their numbers, then the unknown ones as they came.
    fn encode_fields(&self, fields: &mut FieldEncoder);

    /// Appends all fields to a message that is being written.
    ///
    /// The bytes are those of [`encode_to_vec`](OwnedMessage::encode_to_vec): they are put together
    /// on the heap first.
    fn encode(&self, writer: &mut Self::Writer<'_>);

    /// The message as bytes: fields in the order of their numbers, every length in its shortest
    /// form.
    #[must_use]
    fn encode_to_vec(&self) -> Vec<u8> {
        let mut fields = FieldEncoder::default();
        self.encode_fields(&mut fields);
        fields.into_bytes()
    }

    /// Reads a whole message.
    ///
    /// A repeated message takes the size of its struct for as little as two bytes; limit the size
    /// of bytes that are not trusted.
    ///
    /// # Errors
    ///
    /// If the bytes are malformed anywhere, a field has another type than in the schema, or more
    /// than [`MAX_OWNED_DEPTH`] messages are inside each other. Proto2's `required` is not checked.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.merge(bytes)?;
        Ok(message)
    }

    /// Adds what an encoded message holds: values replace values, elements are appended to lists,
    /// entries to maps, and messages are merged.
    ///
    /// # Errors
    ///
    /// As [`decode`](OwnedMessage::decode). What was read before the error stays in the message.
    fn merge(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        decode::each_field(bytes, 1, &mut |field| self.merge_field(field))
    }
}

/// A message in a box, where it could contain itself.
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
