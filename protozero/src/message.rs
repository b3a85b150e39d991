//! Messages that are being written: typed append methods, and nesting by borrowing.
//!
//! A nested message borrows its parent. Therefore code does not compile if it writes to the parent
//! while the child is open, or to a message that has ended. `protozero/src/lib.rs` has a
//! `compile_fail` example.

use crate::stream::{RangeSource, StreamWriter};
use crate::wire::{Tag, WireType, zigzag32, zigzag64};

/// A protobuf message that is being written.
///
/// Generated writers wrap a `Message`. Use it directly to write fields by their numbers, without a
/// schema.
///
/// A nested message ends when it is dropped. Until then it borrows its parent. If a nested message
/// is leaked (`mem::forget`), fields that the parent writes next become part of the nested message,
/// until the parent begins another message or ends. The stream stays well-formed.
///
/// Appending cannot fail. The [`RangeSource`] decides what happens when memory runs out. The format
/// has two limits, [`MESSAGES_MAX_DEPTH`](crate::MESSAGES_MAX_DEPTH) and
/// [`MESSAGE_MAX_BYTES`](crate::MESSAGE_MAX_BYTES).
///
/// Field numbers are constants from 1 to 2^29-1. Other numbers do not compile:
///
/// ```compile_fail
/// # let mut buffer = protozero::HeapBuffered::<protozero::Message>::new();
/// buffer.message().append_uint32::<0>(7);
/// ```
/// ```compile_fail
/// # let mut buffer = protozero::HeapBuffered::<protozero::Message>::new();
/// buffer.message().append_bytes::<{ 1 << 29 }>(&[7]);
/// ```
#[derive(Debug)]
pub struct Message<'w> {
    stream: &'w mut StreamWriter<dyn RangeSource + 'w>,
    /// The nesting depth: 0 for the root message, which has no length slot. A nested message has
    /// the slot with index `depth - 1`.
    depth: usize,
}

/// A type that writes one kind of message: a generated writer, or [`Message`] itself.
pub trait Writer {
    /// This writer type with lifetime `'w`.
    type At<'w>: Writer;

    /// The full name of the message in its schema, for instance `perfetto.protos.TracePacket`.
    const NAME: &'static str;

    /// Wraps an untyped message in this writer.
    fn from_message(message: Message<'_>) -> Self::At<'_>;
}

impl Writer for Message<'_> {
    type At<'w> = Message<'w>;
    const NAME: &'static str = "";

    fn from_message(message: Message<'_>) -> Message<'_> {
        message
    }
}

impl<S: RangeSource> StreamWriter<S> {
    /// Begins a message at the top level of the stream.
    #[inline]
    pub fn message(&mut self) -> Message<'_> {
        Message {
            stream: self,
            depth: 0,
        }
    }
}

/// Declares the append method of one scalar type.
macro_rules! scalar {
    ($method:ident, $proto:literal, $value:ty, $wire_type:ident, |$v:ident| $encode:expr) => {
        #[doc = concat!("Appends field number `FIELD` of protobuf type `", $proto, "`.")]
        #[inline]
        pub fn $method<const FIELD: u32>(&mut self, $v: $value) {
            scalar!(@ $wire_type, self.stream, const { Tag::new(FIELD, WireType::$wire_type) }, $encode);
        }
    };
    (@ Varint, $stream:expr, $tag:expr, $encoded:expr) => {
        $stream.append_varint($tag, $encoded)
    };
    (@ Fixed32, $stream:expr, $tag:expr, $encoded:expr) => {
        $stream.append_fixed($tag, $encoded)
    };
    (@ Fixed64, $stream:expr, $tag:expr, $encoded:expr) => {
        $stream.append_fixed($tag, $encoded)
    };
}

impl<'w> Message<'w> {
    // A negative value of a signed type or an enum always takes 10 bytes, because it is
    // sign-extended to 64 bits first.
    scalar!(append_int32, "int32", i32, Varint, |v| i64::from(v) as u64);
    scalar!(append_int64, "int64", i64, Varint, |v| v as u64);
    scalar!(append_uint32, "uint32", u32, Varint, |v| u64::from(v));
    scalar!(append_uint64, "uint64", u64, Varint, |v| v);
    scalar!(append_sint32, "sint32", i32, Varint, |v| u64::from(
        zigzag32(v)
    ));
    scalar!(append_sint64, "sint64", i64, Varint, |v| zigzag64(v));
    scalar!(append_bool, "bool", bool, Varint, |v| u64::from(v));
    scalar!(append_enum, "enum", i32, Varint, |v| i64::from(v) as u64);
    scalar!(append_fixed32, "fixed32", u32, Fixed32, |v| v.to_le_bytes());
    scalar!(append_fixed64, "fixed64", u64, Fixed64, |v| v.to_le_bytes());
    scalar!(append_sfixed32, "sfixed32", i32, Fixed32, |v| v
        .to_le_bytes());
    scalar!(append_sfixed64, "sfixed64", i64, Fixed64, |v| v
        .to_le_bytes());
    scalar!(append_float, "float", f32, Fixed32, |v| v.to_le_bytes());
    scalar!(append_double, "double", f64, Fixed64, |v| v.to_le_bytes());

    /// Appends field number `FIELD` of protobuf type `string`.
    #[inline]
    pub fn append_string<const FIELD: u32>(&mut self, value: &str) {
        self.append_bytes::<FIELD>(value.as_bytes());
    }

    /// Appends field number `FIELD` of protobuf type `bytes`.
    #[inline]
    pub fn append_bytes<const FIELD: u32>(&mut self, value: &[u8]) {
        self.stream
            .append_bytes(const { length_delimited(FIELD) }, value);
    }

    /// Appends one `bytes` or `string` field number `FIELD`, whose value is the concatenation of
    /// `pieces`.
    pub fn append_scattered_bytes<const FIELD: u32>(&mut self, pieces: &[&[u8]]) {
        self.stream
            .append_bytes_split(const { length_delimited(FIELD) }, pieces);
    }

    /// Appends fields that are already encoded. The bytes are not checked.
    pub fn append_raw(&mut self, fields: &[u8]) {
        self.stream.append_raw(fields);
    }

    /// Appends fields that are already encoded: the first `len` bytes of `fields`, at most 8. Use
    /// it for short fields that were assembled in a register: unused bytes cost nothing.
    ///
    /// ```
    /// let mut message = protozero::HeapBuffered::<protozero::Message>::new();
    /// // Field 1 is 300 and field 2 is 7, in five bytes.
    /// message.message().append_some_raw(0x0710_02ac_08_u64.to_le_bytes(), 5);
    /// assert_eq!(message.to_vec(), [0x08, 0xac, 0x02, 0x10, 0x07]);
    /// ```
    #[inline]
    pub fn append_some_raw(&mut self, fields: [u8; 8], len: usize) {
        self.stream.append_some(fields, len);
    }

    /// Begins a nested message as field number `FIELD`. The message ends when the returned
    /// `Message` is dropped.
    #[inline]
    pub fn begin_nested<const FIELD: u32>(&mut self) -> Message<'_> {
        self.stream
            .begin_message(const { length_delimited(FIELD) }, self.depth);
        Message {
            stream: &mut *self.stream,
            depth: self.depth + 1,
        }
    }

    /// Returns the stream, for the elements of a packed field.
    #[inline(always)]
    pub(crate) fn stream(&mut self) -> &mut StreamWriter<dyn RangeSource + 'w> {
        self.stream
    }
}

impl Drop for Message<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.stream.end_message(self.depth);
    }
}

const fn length_delimited(field: u32) -> Tag {
    Tag::new(field, WireType::LengthDelimited)
}
