//! Arguments whose value fits into one field of a debug annotation. Most of these annotations are
//! encoded in one register, so their length is known before they are written.

use protozero::CompactValue;

use tracezero_core::protos::{DebugAnnotation, TrackEvent};

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;

/// The largest name iid that takes one byte.
const SHORT_IID_MAX: u32 = 0x7f;
/// The longest text of an annotation of at most 127 bytes.
const SHORT_TEXT_MAX_BYTES: usize = 0x7f - 4;

/// Returns the tag of one of the first 15 fields.
const fn tag(field_number: u32, wire_type: u32) -> u64 {
    assert!(field_number < 16);
    (field_number << 3 | wire_type) as u64
}

/// Returns the first bytes of an annotation of `len` bytes: tag, length and name iid.
#[inline(always)]
fn head(len: u64, name_iid: u32) -> u64 {
    const ANNOTATION: u64 = tag(TrackEvent::DEBUG_ANNOTATIONS_FIELD_NUMBER, LENGTH_DELIMITED);
    const NAME: u64 = tag(DebugAnnotation::NAME_IID_FIELD_NUMBER, VARINT);
    ANNOTATION | len << 8 | NAME << 16 | u64::from(name_iid) << 24
}

const BOOL: u32 = DebugAnnotation::BOOL_VALUE_FIELD_NUMBER;
const INT: u32 = DebugAnnotation::INT_VALUE_FIELD_NUMBER;
const UINT: u32 = DebugAnnotation::UINT_VALUE_FIELD_NUMBER;

/// A value that fits into one field of a debug annotation.
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
    /// Returns the encoded annotation, if it is short.
    #[inline(always)]
    pub(super) fn short(self, name_iid: u32) -> Option<ShortArg<'a>> {
        match self {
            Self::Bool(value) => varint::<BOOL>(name_iid, u64::from(value)),
            // A negative number is cast to a very large one; its varint has ten bytes.
            Self::Int(value) => varint::<INT>(name_iid, value as u64),
            Self::Uint(value) => varint::<UINT>(name_iid, value),
            Self::Double(value) => double(name_iid, value),
            Self::Text(value) => text(name_iid, value),
        }
    }

    /// Writes the annotation into the packet of a short event. Returns false if it does not fit.
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

/// An encoded annotation. All fits into `fields`, except for the bytes of a text or a float, which
/// follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortArg<'a> {
    fields: u64,
    /// The number of valid bytes in `fields`.
    len: usize,
    rest: Rest<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Rest<'a> {
    None,
    Double([u8; 8]),
    Text(&'a [u8]),
}

/// The number of bits of a varint that fit into the register after the other fields.
const LOW_BITS: u32 = 3 * 7;

/// Encodes an annotation whose value is a varint in field `FIELD`; `None` if it is too long.
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

/// An encoded annotation whose value is too long for [`varint`].
#[derive(Clone, Copy, Debug)]
struct LongVarint {
    /// All fields, and the first three bytes of the value.
    fields: [u8; 8],
    rest: [u8; 8],
    /// The number of valid bytes in `rest`.
    rest_len: usize,
}

/// Encodes an annotation whose value is a varint in field `FIELD` that is too long for [`varint`].
//
// Not inlined: most numbers are small, and this code would be repeated at every call site with a
// number. Returned by value, so that a packet that is encoded in one go stays in registers.
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
    /// Writes the annotation into the packet of a short event. Returns false if there is no room.
    #[inline(always)]
    fn put(self, event: &mut CompactValue<'_>) -> bool {
        event.put_some(&self.fields, self.fields.len()) && event.put_some(&self.rest, self.rest_len)
    }
}

/// The continuation bits of all bytes of a varint.
const ALL_CONTINUE: u64 = 0x8080_8080_8080_8080;

/// Spreads a number of at most 56 bits over the bytes, 7 bits in each.
#[inline(always)]
fn spread(number: u64) -> u64 {
    let in_halves = number & 0x0fff_ffff | (number & 0x00ff_ffff_f000_0000) << 4;
    let in_quarters = in_halves & 0x0000_3fff_0000_3fff | (in_halves & 0x0fff_c000_0fff_c000) << 2;
    in_quarters & 0x007f_007f_007f_007f | (in_quarters & 0x3f80_3f80_3f80_3f80) << 1
}

/// Encodes an annotation whose value is a float, if the name iid is short enough.
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

/// Encodes an annotation whose value is a text; `None` if it is too long.
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
    /// Appends the annotation to an event.
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

    /// Writes the annotation into the packet of a short event. Returns false if there is no room.
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

    /// Returns the bytes of `arg`, and checks that both ways to write it agree; nothing for `None`.
    fn short(arg: Option<ShortArg<'_>>) -> Vec<u8> {
        let Some(arg) = arg else {
            return vec![];
        };
        let appended = encoded(|event| arg.append_to(event));
        let mut memory = [0; 256];
        let mut stream = FixedSource::stream(&mut memory);
        let len = stream.append_delimited_by(|value| arg.put(value));
        // The annotations of the longest texts do not fit: with tag, length and name, they have
        // more than the 127 bytes of a `CompactValue`.
        if let Some(len) = len {
            drop(stream);
            assert_eq!(memory[1..=len], appended);
        } else {
            assert!(appended.len() > 0x7f);
        }
        appended
    }

    #[test]
    fn short_annotations_match_the_writers_long_ones_are_refused() {
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
