//! Fields of an encoded message into members of a struct.
//!
//! A message that nests deeper than `MAX_OWNED_DEPTH` (100) is an error, not a stack overflow.
//! `tests/generated/tests/owned/recursion.rs` checks this.

use ::alloc::collections::BTreeMap;
use ::alloc::vec::Vec;

use crate::decoder::{Decoder, Fields};
use crate::error::DecodeError;
use crate::field::{Field, Value};
use crate::types::FieldType;

use super::{MAX_OWNED_DEPTH, OwnedType, UnknownFields};

/// A field of an encoded message, on its way into a member of a struct.
///
/// There is a method for each kind of member; its type argument is the protobuf type.
#[derive(Debug)]
pub struct EncodedField<'a> {
    number: u32,
    /// A group has none.
    value: Option<Value<'a>>,
    /// Tag and value.
    encoded: &'a [u8],
    /// How many messages are around it, 1 to [`MAX_OWNED_DEPTH`].
    depth: usize,
}

// Generated code calls these once per field. They are not inlined, because of the many messages of
// a schema each would become large, and slow to compile.
impl<'a> EncodedField<'a> {
    /// The next field of a message whose bytes are `bytes`.
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

    /// The field's number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Replaces a value that counts as set if it is not zero or empty.
    ///
    /// # Errors
    ///
    /// If the field is not a `T`.
    #[inline(never)]
    pub fn implicit<T: OwnedType>(&self, member: &mut T::Value) -> Result<(), DecodeError> {
        T::merge(member, self)
    }

    /// Sets a value; a message is merged with what is there.
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

    /// Sets a oneof to one of its cases; a message is merged with what is there.
    ///
    /// `case` makes the case of its value, and `value` finds the value in the case.
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

    /// Appends an element, or all those of a packed field.
    ///
    /// # Errors
    ///
    /// If the field is neither a `T` nor, where `T` can be packed, several.
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

    /// Adds an entry, in place of one with the same key. A key or value that is not there is zero
    /// or empty.
    ///
    /// # Errors
    ///
    /// If the field is not an entry of a `K` and a `V`.
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
        // The value is made in its place: on the stack, a large one would be there once per level.
        let value = insert_default(member, key);
        let mut fields = Decoder::new(entry).fields();
        while let Some(field) = Self::take(&mut fields, entry, self.depth)? {
            if field.number == 2 {
                V::merge(value, &field)?;
            }
        }
        Ok(())
    }

    /// Keeps the field as it is.
    ///
    /// # Errors
    ///
    /// None; as the other methods, it can end an arm of a match.
    pub fn keep(&self, unknown_fields: &mut UnknownFields) -> Result<(), DecodeError> {
        unknown_fields.push(self.encoded);
        Ok(())
    }

    /// The field as one of a scalar type.
    pub(super) fn scalar<T: FieldType>(&self) -> Result<T::Value<'a>, DecodeError> {
        match self.value {
            Some(value) => T::from_field(Field {
                number: self.number,
                value,
            }),
            None => Err(DecodeError::WireTypeMismatch { field: self.number }),
        }
    }

    /// Hands the fields of the message that this field is to `merge_field`.
    pub(super) fn message_fields(
        &self,
        merge_field: &mut dyn FnMut(&EncodedField<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let bytes = self.bytes()?;
        if self.depth == MAX_OWNED_DEPTH {
            return Err(DecodeError::MessagesTooDeep { field: self.number });
        }
        each_field(bytes, self.depth + 1, merge_field)
    }

    fn bytes(&self) -> Result<&'a [u8], DecodeError> {
        self.scalar::<crate::types::Bytes>()
    }
}

/// Hands the fields of a message that is number `depth` of those inside each other to `merge_field`.
///
/// Not generic over the message, so that it is compiled once.
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

// These make a default in a frame of their own, which is gone when the value is merged into.

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
