//! Packed repeated fields: one length-delimited field whose payload is the elements, back to back.
//!
//! Elements are written straight to the stream. [`Message::begin_packed`] reserves a length slot,
//! so the number and size of the elements need not be known in advance. [`Message::append_packed`]
//! iterates over the elements twice instead, and writes the length first, in its shortest form.

use core::marker::PhantomData;

use crate::message::Message;
use crate::stream::{RangeSource, StreamWriter};
use crate::types;
use crate::varint::varint_len;
use crate::wire::{Tag, WireType, zigzag32, zigzag64};

/// A protobuf type whose repeated fields may be packed: every type in [`types`] except
/// [`Str`](types::Str) and [`Bytes`](types::Bytes). Write enums as [`Int32`](types::Int32).
pub trait PackedType: sealed::Element {}

/// A writer of one packed field, element by element. Dropping it ends the field.
///
/// ```
/// use protozero::{HeapBuffered, Message, types};
///
/// let mut buffer = HeapBuffered::<Message>::new();
/// let mut message = buffer.message();
/// let mut samples = message.begin_packed::<types::Sint32, 4>();
/// samples.push(-1);
/// samples.extend([1, 300]);
/// drop(samples);
/// drop(message);
/// assert_eq!(buffer.to_vec(), [0x22, 4, 1, 2, 0xd8, 4]);
/// ```
#[derive(Debug)]
pub struct PackedWriter<'m, T> {
    /// The payload, written like that of a nested message.
    payload: Message<'m>,
    element_type: PhantomData<fn() -> T>,
}

impl<T: PackedType> PackedWriter<'_, T> {
    /// Appends one element.
    #[inline]
    pub fn push(&mut self, value: T::Rust) {
        T::append(self.payload.stream(), value);
    }
}

impl<T: PackedType> Extend<T::Rust> for PackedWriter<'_, T> {
    #[inline]
    fn extend<I: IntoIterator<Item = T::Rust>>(&mut self, values: I) {
        for value in values {
            self.push(value);
        }
    }
}

impl Message<'_> {
    /// Begins the packed field number `FIELD`, whose elements are of type `T`. If no element
    /// follows, the field is written as an empty field.
    #[inline]
    pub fn begin_packed<T: PackedType, const FIELD: u32>(&mut self) -> PackedWriter<'_, T> {
        PackedWriter {
            payload: self.begin_nested::<FIELD>(),
            element_type: PhantomData,
        }
    }

    /// Appends the packed field number `FIELD` with elements of type `T`. The length is in its
    /// shortest form, as other serializers write it; to compute it, this method iterates over a
    /// clone of `values` first. Generated setters of packed fields call this method.
    ///
    /// Iterators over arrays and ranges, and adapters of them, are cheap to clone. For slices and
    /// vectors pass `values.iter().copied()`, because a clone of `vec::IntoIter` copies the vector.
    /// For an iterator that cannot be cloned, use [`Message::begin_packed`].
    ///
    /// If the iterator and its clone yield different elements, the field keeps the length that was
    /// computed. The field then holds the leading elements that fit, padded with zero bytes.
    ///
    /// ```
    /// use protozero::{HeapBuffered, Message, types};
    ///
    /// let mut buffer = HeapBuffered::<Message>::new();
    /// buffer.message().append_packed::<types::Fixed32, 1>(0..50);
    /// assert_eq!(buffer.to_vec()[..3], [0x0a, 0xc8, 0x01]);
    /// ```
    pub fn append_packed<T: PackedType, const FIELD: u32>(
        &mut self,
        values: impl IntoIterator<Item = T::Rust, IntoIter: Clone>,
    ) {
        let values = values.into_iter();
        let mut left: usize = values.clone().map(T::encoded_len).sum();
        let tag = const { Tag::new(FIELD, WireType::LengthDelimited) };
        let stream = self.stream();
        if !stream.append_length(tag, left) {
            return;
        }
        for value in values {
            let len = T::encoded_len(value);
            if len > left {
                break;
            }
            T::append(stream, value);
            left -= len;
        }
        for _ in 0..left {
            stream.append_raw(&[0]);
        }
    }
}

mod sealed {
    use super::{RangeSource, StreamWriter};

    /// The encoding of the elements of a packed field.
    pub trait Element {
        /// The Rust type of an element.
        type Rust: Copy;

        /// Returns the number of bytes that [`Element::append`] writes.
        fn encoded_len(value: Self::Rust) -> usize;

        /// Appends an element without a tag.
        fn append(stream: &mut StreamWriter<dyn RangeSource + '_>, value: Self::Rust);
    }
}

/// Implements [`PackedType`] for one marker, and its append methods, which take any iterator.
macro_rules! packed {
    ($marker:ident, $value:ty, varint |$v:ident| $encode:expr, $($methods:tt)*) => {
        impl sealed::Element for types::$marker {
            type Rust = $value;

            #[inline]
            fn encoded_len($v: $value) -> usize {
                varint_len($encode)
            }

            #[inline]
            fn append(stream: &mut StreamWriter<dyn RangeSource + '_>, $v: $value) {
                stream.append_bare_varint($encode);
            }
        }
        packed!(@methods $marker, $value, $($methods)*);
    };
    ($marker:ident, $value:ty, fixed, $($methods:tt)*) => {
        impl sealed::Element for types::$marker {
            type Rust = $value;

            #[inline]
            fn encoded_len(_: $value) -> usize {
                size_of::<$value>()
            }

            #[inline]
            fn append(stream: &mut StreamWriter<dyn RangeSource + '_>, value: $value) {
                stream.append_raw(&value.to_le_bytes());
            }
        }
        packed!(@methods $marker, $value, $($methods)*);
    };
    (@methods $marker:ident, $value:ty, $($method:ident $proto:literal),+) => {
        impl PackedType for types::$marker {}

        impl Message<'_> {
            $(
                #[doc = concat!(
                    "Appends the packed field number `FIELD` with elements of protobuf type `",
                    $proto, "`. Without elements, an empty field is written."
                )]
                pub fn $method<const FIELD: u32>(
                    &mut self,
                    values: impl IntoIterator<Item = $value>,
                ) {
                    self.begin_packed::<types::$marker, FIELD>().extend(values);
                }
            )+
        }
    };
}

packed!(Int32, i32, varint |v| i64::from(v) as u64,
    append_packed_int32 "int32", append_packed_enum "enum");
packed!(Int64, i64, varint |v| v as u64, append_packed_int64 "int64");
packed!(Uint32, u32, varint |v| u64::from(v), append_packed_uint32 "uint32");
packed!(Uint64, u64, varint |v| v, append_packed_uint64 "uint64");
packed!(Sint32, i32, varint |v| u64::from(zigzag32(v)), append_packed_sint32 "sint32");
packed!(Sint64, i64, varint |v| zigzag64(v), append_packed_sint64 "sint64");
packed!(Bool, bool, varint |v| u64::from(v), append_packed_bool "bool");
packed!(Fixed32, u32, fixed, append_packed_fixed32 "fixed32");
packed!(Fixed64, u64, fixed, append_packed_fixed64 "fixed64");
packed!(Sfixed32, i32, fixed, append_packed_sfixed32 "sfixed32");
packed!(Sfixed64, i64, fixed, append_packed_sfixed64 "sfixed64");
packed!(Float, f32, fixed, append_packed_float "float");
packed!(Double, f64, fixed, append_packed_double "double");
