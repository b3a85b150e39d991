//! Decoding and encoding of one value, for each protobuf type.

use ::alloc::string::String;
use ::alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use crate::error::DecodeError;
use crate::field::Value;
use crate::types::{self, FieldType};
use crate::wire::{WireType, zigzag32, zigzag64};

use super::{EncodedField, FieldEncoder, OwnedMessage};

/// A protobuf type whose values have an owned Rust type: a marker of [`types`](crate::types), an
/// [`Enum`], or a [`Nested`] message. No other type implements it.
pub trait OwnedType: sealed::Sealed {
    /// The Rust type of a value.
    type Value: Default;

    /// The wire type of a value that is not packed.
    const WIRE_TYPE: WireType;

    /// True if repeated fields of this type may be packed.
    const PACKABLE: bool;

    /// Replaces `value` with the value of a field. A message is merged into `value` instead.
    ///
    /// # Errors
    ///
    /// If the field is not of this type.
    fn merge(value: &mut Self::Value, field: &EncodedField<'_>) -> Result<(), DecodeError>;

    /// Takes one element from the payload of a packed field. Returns `None` if it is malformed.
    fn take_packed<'a>(packed: &mut &'a [u8]) -> Option<Value<'a>>;

    /// Appends a value without its tag.
    fn append(value: &Self::Value, fields: &mut FieldEncoder);

    /// Returns true if proto3 omits the value: it is zero or empty. Negative zero is not omitted.
    fn is_zero(value: &Self::Value) -> bool;
}

mod sealed {
    /// Keeps other crates from implementing [`OwnedType`](super::OwnedType).
    pub trait Sealed {}
}

/// Implements [`OwnedType`] for one scalar type.
macro_rules! scalar {
    ($marker:ident, $value:ty, Varint, |$v:ident| $encode:expr) => {
        scalar!(@ $marker, $value, Varint, true, |$v, fields| fields.varint($encode), $encode == 0);
    };
    ($marker:ident, $value:ty, $wire:ident, |$v:ident| $bits:expr) => {
        scalar!(@ $marker, $value, $wire, true,
            |$v, fields| fields.raw(&$v.to_le_bytes()), $bits == 0);
    };
    ($marker:ident, $value:ty, |$v:ident| $bytes:expr) => {
        scalar!(@ $marker, $value, LengthDelimited, false,
            |$v, fields| { fields.varint($v.len() as u64); fields.raw($bytes); }, $v.is_empty());
    };
    (@ $marker:ident, $value:ty, $wire:ident, $packable:literal,
        |$v:ident, $fields:ident| $append:expr, $is_zero:expr) => {
        impl sealed::Sealed for types::$marker {}

        impl OwnedType for types::$marker {
            type Value = $value;
            const WIRE_TYPE: WireType = WireType::$wire;
            const PACKABLE: bool = $packable;

            fn merge(value: &mut $value, field: &EncodedField<'_>) -> Result<(), DecodeError> {
                *value = field.scalar::<types::$marker>()?.into();
                Ok(())
            }

            fn take_packed<'a>(packed: &mut &'a [u8]) -> Option<Value<'a>> {
                <types::$marker as FieldType>::take_packed(packed)
            }

            fn append($v: &$value, $fields: &mut FieldEncoder) {
                $append;
            }

            fn is_zero($v: &$value) -> bool {
                $is_zero
            }
        }
    };
}

scalar!(Int32, i32, Varint, |v| i64::from(*v) as u64);
scalar!(Int64, i64, Varint, |v| *v as u64);
scalar!(Uint32, u32, Varint, |v| u64::from(*v));
scalar!(Uint64, u64, Varint, |v| *v);
scalar!(Sint32, i32, Varint, |v| u64::from(zigzag32(*v)));
scalar!(Sint64, i64, Varint, |v| zigzag64(*v));
scalar!(Bool, bool, Varint, |v| u64::from(*v));
scalar!(Fixed32, u32, Fixed32, |v| *v);
scalar!(Fixed64, u64, Fixed64, |v| *v);
scalar!(Sfixed32, i32, Fixed32, |v| *v);
scalar!(Sfixed64, i64, Fixed64, |v| *v);
scalar!(Float, f32, Fixed32, |v| v.to_bits());
scalar!(Double, f64, Fixed64, |v| v.to_bits());
scalar!(Str, String, |v| v.as_bytes());
scalar!(Bytes, Vec<u8>, |v| v);

/// The protobuf type of an enum whose generated newtype is `E`.
pub struct Enum<E>(PhantomData<fn() -> E>);

impl<E> sealed::Sealed for Enum<E> {}

impl<E: Default + Copy + From<i32> + Into<i32>> OwnedType for Enum<E> {
    type Value = E;
    const WIRE_TYPE: WireType = WireType::Varint;
    const PACKABLE: bool = true;

    fn merge(value: &mut E, field: &EncodedField<'_>) -> Result<(), DecodeError> {
        *value = field.scalar::<types::Int32>()?.into();
        Ok(())
    }

    fn take_packed<'a>(packed: &mut &'a [u8]) -> Option<Value<'a>> {
        <types::Int32 as FieldType>::take_packed(packed)
    }

    fn append(value: &E, fields: &mut FieldEncoder) {
        types::Int32::append(&(*value).into(), fields);
    }

    fn is_zero(value: &E) -> bool {
        (*value).into() == 0
    }
}

impl<E> fmt::Debug for Enum<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Enum")
    }
}

/// The protobuf type of a nested message whose generated struct is `M`.
pub struct Nested<M>(PhantomData<fn() -> M>);

impl<M> sealed::Sealed for Nested<M> {}

impl<M: OwnedMessage> OwnedType for Nested<M> {
    type Value = M;
    const WIRE_TYPE: WireType = WireType::LengthDelimited;
    const PACKABLE: bool = false;

    fn merge(value: &mut M, field: &EncodedField<'_>) -> Result<(), DecodeError> {
        field.message_fields(&mut |field| value.merge_field(field))
    }

    fn take_packed<'a>(_: &mut &'a [u8]) -> Option<Value<'a>> {
        None
    }

    fn append(value: &M, fields: &mut FieldEncoder) {
        let start = fields.begin_delimited();
        value.encode_fields(fields);
        fields.end_delimited(start);
    }

    /// Returns false: a message is written even if it is empty.
    fn is_zero(_: &M) -> bool {
        false
    }
}

impl<M> fmt::Debug for Nested<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nested")
    }
}
