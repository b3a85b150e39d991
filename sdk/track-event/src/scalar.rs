//! Values of arguments that one field of an annotation holds. Most of these annotations fit into a
//! register: they are put together there, and their length is known before it is written.

use protozero::CompactValue;

use tracezero_core::protos::{DebugAnnotation, TrackEvent};

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;

/// Names beyond this take more than one byte.
const SHORT_IID_MAX: u32 = 0x7f;
/// Longest text with which an annotation has no more than 127 bytes.
const SHORT_TEXT_MAX_BYTES: usize = 0x7f - 4;

/// Field and wire type of one of the first 15 fields.
const fn tag(field_number: u32, wire_type: u32) -> u64 {
    assert!(field_number < 16);
    (field_number << 3 | wire_type) as u64
}

/// The first bytes of an annotation of `len` bytes: its tag and length, and the name.
#[inline(always)]
fn head(len: u64, name_iid: u32) -> u64 {
    const ANNOTATION: u64 = tag(TrackEvent::DEBUG_ANNOTATIONS_FIELD_NUMBER, LENGTH_DELIMITED);
    const NAME: u64 = tag(DebugAnnotation::NAME_IID_FIELD_NUMBER, VARINT);
    ANNOTATION | len << 8 | NAME << 16 | u64::from(name_iid) << 24
}

const BOOL: u32 = DebugAnnotation::BOOL_VALUE_FIELD_NUMBER;
const INT: u32 = DebugAnnotation::INT_VALUE_FIELD_NUMBER;
const UINT: u32 = DebugAnnotation::UINT_VALUE_FIELD_NUMBER;

/// A value that one field of an annotation holds.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Scalar<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(&'a str),
}

impl<'a> Scalar<'a> {
    /// Its annotation, if that fits into a register.
    #[inline(always)]
    pub(super) fn short(self, name_iid: u32) -> Option<ShortArg<'a>> {
        match self {
            Self::Bool(value) => varint::<BOOL>(name_iid, u64::from(value)),
            // A negative number is a very large one: its varint has ten bytes.
            Self::Int(value) => varint::<INT>(name_iid, value as u64),
            Self::Uint(value) => varint::<UINT>(name_iid, value),
            Self::Double(value) => double(name_iid, value),
            Self::Text(value) => text(name_iid, value),
        }
    }

    /// Puts its annotation into an event that is put together. Returns whether it fits.
    #[inline(always)]
    pub(super) fn put(self, name_iid: u32, event: &mut CompactValue<'_>) -> bool {
        match self {
            Self::Bool(value) => put(varint::<BOOL>(name_iid, u64::from(value)), event),
            Self::Int(value) => put_number::<INT>(name_iid, value as u64, event),
            Self::Uint(value) => put_number::<UINT>(name_iid, value, event),
            Self::Double(value) => put(double(name_iid, value), event),
            Self::Text(value) => put(text(name_iid, value), event),
        }
    }
}

/// An annotation that fits into a register, but for the end of some: that of a text, and the value of
/// a float.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortArg<'a> {
    fields: u64,
    /// How many bytes of `fields` count.
    len: usize,
    rest: Rest<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Rest<'a> {
    None,
    Double([u8; 8]),
    Text(&'a [u8]),
}

/// Bits of a varint that have room in the register, behind the other fields.
const LOW_BITS: u32 = 3 * 7;

/// An annotation whose value is a varint in field `FIELD`, if it is short enough.
#[inline(always)]
fn varint<const FIELD: u32>(name_iid: u32, value: u64) -> Option<ShortArg<'static>> {
    if name_iid > SHORT_IID_MAX || value >= 1 << LOW_BITS {
        return None;
    }
    let (varint, len) = match value {
        ..0x80 => (value, 1),
        0x80..0x4000 => (0x80 | value & 0x7f | value >> 7 << 8, 2),
        _ => (
            0x8080 | value & 0x7f | (value >> 7 & 0x7f) << 8 | value >> 14 << 16,
            3,
        ),
    };
    let tag = const { tag(FIELD, VARINT) };
    Some(ShortArg {
        fields: head(3 + len, name_iid) | tag << 32 | varint << 40,
        len: 5 + len as usize,
        rest: Rest::None,
    })
}

/// An annotation whose value is too long for [`varint`].
#[derive(Clone, Copy, Debug)]
struct LongVarint {
    /// All fields, and the first three bytes of the value.
    fields: [u8; 8],
    rest: [u8; 8],
    /// How many bytes of `rest` count.
    rest_len: usize,
}

/// An annotation whose value is a varint in field `FIELD`, and too long for [`varint`].
//
// Not inlined: it would stand at every call site with a number, most of which are small. By value: an
// event that is put together stays in registers.
#[cold]
#[inline(never)]
fn long_varint<const FIELD: u32>(name_iid: u32, value: u64) -> Option<LongVarint> {
    let high = value >> LOW_BITS;
    if name_iid > SHORT_IID_MAX || high == 0 {
        return None;
    }
    let tag = const { tag(FIELD, VARINT) };
    let low = ALL_CONTINUE & 0xff_ffff | spread(value & ((1 << LOW_BITS) - 1));
    let rest_len = (u64::BITS - high.leading_zeros()).div_ceil(7);
    let rest_continues = ALL_CONTINUE & ((1 << (8 * (rest_len - 1))) - 1);
    let fields = head(6 + u64::from(rest_len), name_iid) | tag << 32 | low << 40;
    Some(LongVarint {
        fields: fields.to_le_bytes(),
        rest: (spread(high) | rest_continues).to_le_bytes(),
        rest_len: rest_len as usize,
    })
}

#[inline(always)]
fn put(short: Option<ShortArg<'_>>, event: &mut CompactValue<'_>) -> bool {
    short.is_some_and(|short| short.put(event))
}

#[inline(always)]
fn put_number<const FIELD: u32>(name_iid: u32, value: u64, event: &mut CompactValue<'_>) -> bool {
    match varint::<FIELD>(name_iid, value) {
        Some(short) => short.put(event),
        None => long_varint::<FIELD>(name_iid, value).is_some_and(|long| long.put(event)),
    }
}

impl LongVarint {
    /// Puts it into an event that is put together. Returns whether there is room.
    #[inline(always)]
    fn put(self, event: &mut CompactValue<'_>) -> bool {
        event.put_some(&self.fields, self.fields.len()) && event.put_some(&self.rest, self.rest_len)
    }
}

/// What makes a varint of more than these bytes of the bytes of a number.
const ALL_CONTINUE: u64 = 0x8080_8080_8080_8080;

/// A number of at most 56 bits, 7 of them in each byte.
#[inline(always)]
fn spread(number: u64) -> u64 {
    let in_halves = number & 0x0fff_ffff | (number & 0x00ff_ffff_f000_0000) << 4;
    let in_quarters = in_halves & 0x0000_3fff_0000_3fff | (in_halves & 0x0fff_c000_0fff_c000) << 2;
    in_quarters & 0x007f_007f_007f_007f | (in_quarters & 0x3f80_3f80_3f80_3f80) << 1
}

/// An annotation whose value is a float, if it is short enough.
#[inline(always)]
fn double(name_iid: u32, value: f64) -> Option<ShortArg<'static>> {
    if name_iid > SHORT_IID_MAX {
        return None;
    }
    let tag = const { tag(DebugAnnotation::DOUBLE_VALUE_FIELD_NUMBER, FIXED64) };
    Some(ShortArg {
        fields: head(11, name_iid) | tag << 32,
        len: 5,
        rest: Rest::Double(value.to_le_bytes()),
    })
}

/// An annotation whose value is a text, if it is short enough.
#[inline(always)]
fn text(name_iid: u32, text: &str) -> Option<ShortArg<'_>> {
    if name_iid > SHORT_IID_MAX || text.len() > SHORT_TEXT_MAX_BYTES {
        return None;
    }
    let len = text.len() as u64;
    let tag = const { tag(DebugAnnotation::STRING_VALUE_FIELD_NUMBER, LENGTH_DELIMITED) };
    Some(ShortArg {
        fields: head(4 + len, name_iid) | tag << 32 | len << 40,
        len: 6,
        rest: Rest::Text(text.as_bytes()),
    })
}

impl ShortArg<'_> {
    /// Appends it to an event.
    #[inline(always)]
    pub(super) fn append_to(self, event: &mut TrackEvent<'_>) {
        let message = event.as_message_mut();
        message.append_some_raw(self.fields.to_le_bytes(), self.len);
        match self.rest {
            Rest::None => {}
            Rest::Double(bytes) => message.append_some_raw(bytes, bytes.len()),
            Rest::Text(bytes) => message.append_raw(bytes),
        }
    }

    /// Puts it into an event that is put together. Returns whether there is room.
    #[inline(always)]
    fn put(self, event: &mut CompactValue<'_>) -> bool {
        event.put_some(&self.fields.to_le_bytes(), self.len)
            && match self.rest {
                Rest::None => true,
                Rest::Double(bytes) => event.put_some(&bytes, bytes.len()),
                Rest::Text(bytes) => event.put(bytes),
            }
    }
}

#[cfg(test)]
mod tests {
    use protozero::{FixedSource, HeapBuffered};

    use super::*;

    fn encoded(write: impl FnOnce(&mut TrackEvent<'_>)) -> Vec<u8> {
        let mut event = HeapBuffered::<TrackEvent>::new();
        write(&mut event.message());
        event.to_vec()
    }

    /// What both ways of writing it write; nothing if it is too long.
    fn short(arg: Option<ShortArg<'_>>) -> Vec<u8> {
        let Some(arg) = arg else {
            return vec![];
        };
        let appended = encoded(|event| arg.append_to(event));
        let mut memory = [0; 256];
        let mut stream = FixedSource::stream(&mut memory);
        let len = stream.append_delimited_by(|value| arg.put(value));
        // One of the longest texts leaves no room for the eight bytes before it.
        if let Some(len) = len {
            drop(stream);
            assert_eq!(memory[1..=len], appended);
        } else {
            assert!(appended.len() > 0x7f);
        }
        appended
    }

    #[test]
    fn short_annotations_are_those_that_the_writers_write_and_long_ones_are_refused() {
        for name_iid in [1, 0x7f, 0x80] {
            let bits = (0..64).flat_map(|bits| [1 << bits, (1 << bits) - 1]);
            for value in bits.chain([u64::MAX, 0x0123_4567_89ab_cdef]) {
                const FIELD: u32 = DebugAnnotation::UINT_VALUE_FIELD_NUMBER;
                let short = varint::<FIELD>(name_iid, value);
                let (fits, short) = (short.is_some(), self::short(short));
                assert_eq!(fits, name_iid < 0x80 && value < 1 << 21);
                let expected = encoded(|event| {
                    event.add_debug_annotations(|annotation| {
                        annotation
                            .set_name_iid(name_iid.into())
                            .set_uint_value(value);
                    });
                });
                assert_eq!(short, if fits { expected } else { vec![] });
            }

            let short = double(name_iid, -0.5);
            let (fits, short) = (short.is_some(), self::short(short));
            assert_eq!(fits, name_iid < 0x80);
            let expected = encoded(|event| {
                event.add_debug_annotations(|annotation| {
                    annotation
                        .set_name_iid(name_iid.into())
                        .set_double_value(-0.5);
                });
            });
            assert_eq!(short, if fits { expected } else { vec![] });

            for len in [0, 1, 16, 123, 124] {
                let text = "x".repeat(len);
                let short = self::text(name_iid, &text);
                let (fits, short) = (short.is_some(), self::short(short));
                assert_eq!(fits, name_iid < 0x80 && len <= 123);
                let expected = encoded(|event| {
                    event.add_debug_annotations(|annotation| {
                        annotation
                            .set_name_iid(name_iid.into())
                            .set_string_value(&text);
                    });
                });
                assert_eq!(short, if fits { expected } else { vec![] });
            }
        }
    }
}
