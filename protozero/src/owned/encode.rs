//! Encoding of members of a struct as fields.

use ::alloc::collections::BTreeMap;
use ::alloc::vec::Vec;

use crate::varint::{VARINT_MAX_BYTES, append_varint, encode_varint};
use crate::wire::WireType;

use super::{OwnedType, UnknownFields};

/// An encoder that collects the bytes of a message, with lengths in their shortest form.
///
/// There is one method for each kind of member. The type argument `T` of a method is the protobuf
/// type of the field.
#[derive(Debug, Default)]
pub struct FieldEncoder {
    bytes: Vec<u8>,
}

// Not inlined, for the same reason as the methods of `EncodedField`.
impl FieldEncoder {
    /// Appends a value.
    #[inline(never)]
    pub fn value<T: OwnedType>(&mut self, number: u32, value: &T::Value) {
        self.tag(number, T::WIRE_TYPE);
        T::append(value, self);
    }

    /// Appends a value, unless it is zero or empty.
    #[inline(never)]
    pub fn implicit<T: OwnedType>(&mut self, number: u32, value: &T::Value) {
        if !T::is_zero(value) {
            self.value::<T>(number, value);
        }
    }

    /// Appends a value, if it is set.
    #[inline(never)]
    pub fn optional<T: OwnedType>(&mut self, number: u32, value: &Option<T::Value>) {
        if let Some(value) = value {
            self.value::<T>(number, value);
        }
    }

    /// Appends each element as a separate field.
    #[inline(never)]
    pub fn repeated<T: OwnedType>(&mut self, number: u32, values: &[T::Value]) {
        for value in values {
            self.value::<T>(number, value);
        }
    }

    /// Appends all elements as one packed field, if there are any.
    #[inline(never)]
    pub fn packed<T: OwnedType>(&mut self, number: u32, values: &[T::Value]) {
        if values.is_empty() {
            return;
        }
        self.tag(number, WireType::LengthDelimited);
        let start = self.begin_delimited();
        for value in values {
            T::append(value, self);
        }
        self.end_delimited(start);
    }

    /// Appends each entry of a map as a field, in the order of the keys.
    #[inline(never)]
    pub fn map<K: OwnedType, V: OwnedType>(
        &mut self,
        number: u32,
        entries: &BTreeMap<K::Value, V::Value>,
    ) {
        for (key, value) in entries {
            self.tag(number, WireType::LengthDelimited);
            let start = self.begin_delimited();
            self.value::<K>(1, key);
            self.value::<V>(2, value);
            self.end_delimited(start);
        }
    }

    /// Appends unknown fields, encoded as they were read.
    pub fn unknown(&mut self, fields: &UnknownFields) {
        self.raw(fields.as_bytes());
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn tag(&mut self, number: u32, wire_type: WireType) {
        self.varint(u64::from(number) << 3 | wire_type as u64);
    }

    pub(super) fn varint(&mut self, value: u64) {
        append_varint(value, &mut self.bytes);
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Begins a length-delimited payload. Returns its start, for [`FieldEncoder::end_delimited`].
    pub(super) fn begin_delimited(&mut self) -> usize {
        let start = self.bytes.len();
        // Most lengths take one byte. If the length takes more, the payload moves at the end.
        self.bytes.push(0);
        start
    }

    /// Fills in the length of the payload that began at `start`.
    pub(super) fn end_delimited(&mut self, start: usize) {
        let payload_bytes = self.bytes.len() - start - 1;
        let mut length = [0; VARINT_MAX_BYTES];
        let len = encode_varint(payload_bytes as u64, &mut length);
        self.bytes
            .splice(start..=start, length[..len].iter().copied());
    }
}
