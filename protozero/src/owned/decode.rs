//! Decoding of fields into members of a struct.
//!
//! A message that nests deeper than `OWNED_MAX_DEPTH` (100) is an error, not a stack overflow.
//! `tests/generated/tests/owned/recursion.rs` checks this.

use ::alloc::collections::BTreeMap;
use ::alloc::vec::Vec;

use crate::decoder::{Decoder, Fields};
use crate::error::DecodeError;
use crate::field::{Field, Value};
use crate::types::FieldType;

use super::{OWNED_MAX_DEPTH, OwnedType, UnknownFields};

/// A field of an encoded message, which generated code merges into a member of a struct.
///
/// There is one method for each kind of member. The type argument `T` of a method is the protobuf
/// type of the field.
#[derive(Debug)]
pub struct EncodedField<'a> {
    number: u32,
    /// The value; `None` for a group.
    value: Option<Value<'a>>,
    /// The encoded tag and value.
    encoded: &'a [u8],
    /// The number of messages around the field, 1 to [`OWNED_MAX_DEPTH`].
    depth: usize,
}

// Generated code calls these methods once per field. They are not inlined: a schema has many
// messages, and inlining would make the code of each one large and slow to compile.
impl<'a> EncodedField<'a> {
    /// Takes the next field of a message from `fields`. `bytes` is the whole message.
    pub(super) fn take(
        fields: &mut Fields<'a>,
        bytes: &'a [u8],
        depth: usize,
    ) -> Result<Option<Self>, DecodeError> {
        let start = fields.offset();
        let taken = fields.take_field()?;
        Ok(taken.map(|(number, value)| EncodedField {
            number,
            value,
            encoded: &bytes[start..fields.offset()],
            depth,
        }))
    }

    /// Returns the number of the field.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Merges the field into a member without presence, which counts as set if it is not zero or
    /// empty. The new value replaces the old one.
    ///
    /// # Errors
    ///
    /// If the field is not a `T`.
    #[inline(never)]
    pub fn implicit<T: OwnedType>(&self, member: &mut T::Value) -> Result<(), DecodeError> {
        T::merge(member, self)
    }

    /// Sets an optional member to the value of the field. A message is merged into the message that
    /// is already set.
    ///
    /// # Errors
    ///
    /// If the field is not a `T`.
    #[inline(never)]
    pub fn optional<T: OwnedType>(&self, member: &mut Option<T::Value>) -> Result<(), DecodeError> {
        if member.is_none() {
            set_to_default(member, core::convert::identity);
        }
        match member {
            Some(value) => T::merge(value, self),
            None => Ok(()),
        }
    }

    /// Sets a oneof to the case of this field. A message is merged into the message that is already
    /// set in the same case.
    ///
    /// `case` makes the case from a value. `value` returns the value if the oneof has this case.
    ///
    /// # Errors
    ///
    /// If the field is not a `T`.
    #[inline(never)]
    pub fn oneof<T: OwnedType, E>(
        &self,
        member: &mut Option<E>,
        case: fn(T::Value) -> E,
        value: fn(&mut E) -> Option<&mut T::Value>,
    ) -> Result<(), DecodeError> {
        if member.as_mut().and_then(value).is_none() {
            set_to_default(member, case);
        }
        match member.as_mut().and_then(value) {
            Some(value) => T::merge(value, self),
            None => Ok(()),
        }
    }

    /// Appends one element, or all elements of a packed field.
    ///
    /// # Errors
    ///
    /// If the field is neither a `T` nor a packed field of `T`.
    #[inline(never)]
    pub fn repeated<T: OwnedType>(&self, member: &mut Vec<T::Value>) -> Result<(), DecodeError> {
        let Some(Value::Bytes(mut packed)) = self.value.filter(|_| T::PACKABLE) else {
            return T::merge(push_default(member), self);
        };
        while !packed.is_empty() {
            let malformed = DecodeError::MalformedPacked { field: self.number };
            let element = EncodedField {
                value: Some(T::take_packed(&mut packed).ok_or(malformed)?),
                ..*self
            };
            T::merge(push_default(member), &element)?;
        }
        Ok(())
    }

    /// Adds an entry to a map, and replaces an entry with the same key. A key or value that the
    /// encoded entry lacks is zero or empty.
    ///
    /// # Errors
    ///
    /// If the field is not a map entry with a key `K` and a value `V`.
    #[inline(never)]
    pub fn map<K: OwnedType<Value: Ord>, V: OwnedType>(
        &self,
        member: &mut BTreeMap<K::Value, V::Value>,
    ) -> Result<(), DecodeError> {
        let entry = self.bytes()?;
        let mut key = K::Value::default();
        let mut fields = Decoder::new(entry).fields();
        while let Some(field) = Self::take(&mut fields, entry, self.depth)? {
            if field.number == 1 {
                K::merge(&mut key, &field)?;
            }
        }
        // The value is created in the map. On the stack, each level of nesting would add a copy.
        let value = insert_default(member, key);
        let mut fields = Decoder::new(entry).fields();
        while let Some(field) = Self::take(&mut fields, entry, self.depth)? {
            if field.number == 2 {
                V::merge(value, &field)?;
            }
        }
        Ok(())
    }

    /// Appends the encoded field to the unknown fields.
    ///
    /// # Errors
    ///
    /// Never fails. It returns a `Result` only because all arms of a generated `match` must have
    /// the same type.
    pub fn keep(&self, unknown_fields: &mut UnknownFields) -> Result<(), DecodeError> {
        unknown_fields.push(self.encoded);
        Ok(())
    }

    /// Returns the value of the field as the scalar type `T`.
    pub(super) fn scalar<T: FieldType>(&self) -> Result<T::Value<'a>, DecodeError> {
        match self.value {
            Some(value) => T::from_field(Field {
                number: self.number,
                value,
            }),
            None => Err(DecodeError::WireTypeMismatch { field: self.number }),
        }
    }

    /// Reads the field as a message, and passes each field of this message to `merge_field`.
    pub(super) fn message_fields(
        &self,
        merge_field: &mut dyn FnMut(&EncodedField<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let bytes = self.bytes()?;
        if self.depth == OWNED_MAX_DEPTH {
            return Err(DecodeError::MessagesTooDeep { field: self.number });
        }
        each_field(bytes, self.depth + 1, merge_field)
    }

    fn bytes(&self) -> Result<&'a [u8], DecodeError> {
        self.scalar::<crate::types::Bytes>()
    }
}

/// Passes each field of a message at nesting level `depth` (1 is outermost) to `merge_field`.
///
/// This function is not generic over the message, so it is compiled only once.
pub(super) fn each_field(
    bytes: &[u8],
    depth: usize,
    merge_field: &mut dyn FnMut(&EncodedField<'_>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut fields = Decoder::new(bytes).fields();
    while let Some(field) = EncodedField::take(&mut fields, bytes, depth)? {
        merge_field(&field)?;
    }
    Ok(())
}

// These functions create a default value in their own stack frame, which is gone before the caller
// merges a nested message into the value. So deep nesting takes less stack.

#[inline(never)]
fn set_to_default<T: Default, E>(member: &mut Option<E>, case: fn(T) -> E) {
    *member = Some(case(T::default()));
}

#[inline(never)]
fn push_default<T: Default>(values: &mut Vec<T>) -> &mut T {
    values.push_mut(T::default())
}

#[inline(never)]
fn insert_default<K: Ord, V: Default>(map: &mut BTreeMap<K, V>, key: K) -> &mut V {
    let value = map.entry(key).or_default();
    *value = V::default();
    value
}
