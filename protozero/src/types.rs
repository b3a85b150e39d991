//! Marker types, one per protobuf type, that convert the value of a field into a Rust value.
//!
//! The markers are type arguments of [`Decoder::last`](crate::Decoder::last) and
//! [`Decoder::repeated`](crate::Decoder::repeated). Decode an enum as [`Int32`] and a nested
//! message as [`Bytes`].

use crate::error::DecodeError;
use crate::field::{Field, Value, take_array};
use crate::varint::take_varint;
use crate::wire::{unzigzag32, unzigzag64};

/// A protobuf type, named by its marker type. Only the markers in this module implement it.
pub trait FieldType: sealed::Sealed {
    /// The Rust type of a value.
    type Value<'a>;

    /// True if repeated fields of this type may be packed.
    const PACKABLE: bool;

    /// Converts the value of a field.
    ///
    /// # Errors
    ///
    /// If the field has the wrong wire type, or its bytes are not a value of this type.
    fn from_field<'a>(field: Field<'a>) -> Result<Self::Value<'a>, DecodeError>;

    /// Takes one element from the payload of a packed field. Returns `None` if it is malformed.
    #[doc(hidden)]
    fn take_packed<'a>(packed: &mut &'a [u8]) -> Option<Value<'a>>;
}

mod sealed {
    /// Keeps other crates from implementing [`FieldType`](super::FieldType).
    pub trait Sealed {}
}

/// Declares the marker of one scalar type.
macro_rules! scalar {
    ($name:ident, $proto:literal, $value:ty, $wire:ident, |$raw:ident| $convert:expr) => {
        #[doc = concat!("Protobuf type `", $proto, "`.")]
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}

        impl sealed::Sealed for $name {}

        impl FieldType for $name {
            type Value<'a> = $value;
            const PACKABLE: bool = true;

            #[inline]
            fn from_field(field: Field<'_>) -> Result<$value, DecodeError> {
                match field.value {
                    Value::$wire($raw) => Ok($convert),
                    _ => Err(DecodeError::WireTypeMismatch {
                        field: field.number,
                    }),
                }
            }

            #[inline]
            fn take_packed<'a>(packed: &mut &'a [u8]) -> Option<Value<'a>> {
                scalar!(@take $wire, packed).ok().map(Value::$wire)
            }
        }
    };
    (@take Varint, $packed:expr) => {
        take_varint($packed, 0)
    };
    (@take Fixed32, $packed:expr) => {
        take_array($packed, 0).map(u32::from_le_bytes)
    };
    (@take Fixed64, $packed:expr) => {
        take_array($packed, 0).map(u64::from_le_bytes)
    };
}

// 32-bit integers keep the low 32 bits of the varint: negative values are encoded with 64 bits.
scalar!(Int32, "int32", i32, Varint, |raw| raw as i32);
scalar!(Int64, "int64", i64, Varint, |raw| raw as i64);
scalar!(Uint32, "uint32", u32, Varint, |raw| raw as u32);
scalar!(Uint64, "uint64", u64, Varint, |raw| raw);
scalar!(Sint32, "sint32", i32, Varint, |raw| unzigzag32(raw as u32));
scalar!(Sint64, "sint64", i64, Varint, |raw| unzigzag64(raw));
scalar!(Bool, "bool", bool, Varint, |raw| raw != 0);
scalar!(Fixed32, "fixed32", u32, Fixed32, |raw| raw);
scalar!(Fixed64, "fixed64", u64, Fixed64, |raw| raw);
scalar!(Sfixed32, "sfixed32", i32, Fixed32, |raw| raw as i32);
scalar!(Sfixed64, "sfixed64", i64, Fixed64, |raw| raw as i64);
scalar!(Float, "float", f32, Fixed32, |raw| f32::from_bits(raw));
scalar!(Double, "double", f64, Fixed64, |raw| f64::from_bits(raw));

/// Protobuf type `bytes`, and nested messages.
#[derive(Clone, Copy, Debug)]
pub enum Bytes {}

impl sealed::Sealed for Bytes {}

impl FieldType for Bytes {
    type Value<'a> = &'a [u8];
    const PACKABLE: bool = false;

    #[inline]
    fn from_field<'a>(field: Field<'a>) -> Result<&'a [u8], DecodeError> {
        match field.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(DecodeError::WireTypeMismatch {
                field: field.number,
            }),
        }
    }

    fn take_packed<'a>(_: &mut &'a [u8]) -> Option<Value<'a>> {
        None
    }
}

/// Protobuf type `string`. A string that is not UTF-8 is an error. To read it nevertheless, decode
/// the field as [`Bytes`].
#[derive(Clone, Copy, Debug)]
pub enum Str {}

impl sealed::Sealed for Str {}

impl FieldType for Str {
    type Value<'a> = &'a str;
    const PACKABLE: bool = false;

    #[inline]
    fn from_field<'a>(field: Field<'a>) -> Result<&'a str, DecodeError> {
        core::str::from_utf8(Bytes::from_field(field)?).map_err(|_| DecodeError::InvalidUtf8 {
            field: field.number,
        })
    }

    fn take_packed<'a>(_: &mut &'a [u8]) -> Option<Value<'a>> {
        None
    }
}
