//! Arguments whose annotation fits into a register, which most do: they are put together there, and
//! their length is known before it is written.

use crate::protos::{DebugAnnotation, TrackEvent};

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

/// Appends an annotation whose value is a varint in field `FIELD`. Returns whether it was short
/// enough.
#[inline(always)]
pub(super) fn append_varint<const FIELD: u32>(
    event: &mut TrackEvent<'_>,
    name_iid: u32,
    value: u64,
) -> bool {
    if name_iid > SHORT_IID_MAX || value >= 1 << 21 {
        return false;
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
    let fields = head(3 + len, name_iid) | tag << 32 | varint << 40;
    let message = event.as_message_mut();
    message.append_some_raw(fields.to_le_bytes(), 5 + len as usize);
    true
}

/// Appends an annotation whose value is a float. Returns whether it was short enough.
#[inline(always)]
pub(super) fn append_double(event: &mut TrackEvent<'_>, name_iid: u32, value: f64) -> bool {
    if name_iid > SHORT_IID_MAX {
        return false;
    }
    let tag = const { tag(DebugAnnotation::DOUBLE_VALUE_FIELD_NUMBER, FIXED64) };
    let message = event.as_message_mut();
    message.append_some_raw((head(11, name_iid) | tag << 32).to_le_bytes(), 5);
    message.append_some_raw(value.to_le_bytes(), 8);
    true
}

/// Appends an annotation whose value is a text. Returns whether it was short enough.
#[inline(always)]
pub(super) fn append_text(event: &mut TrackEvent<'_>, name_iid: u32, text: &str) -> bool {
    if name_iid > SHORT_IID_MAX || text.len() > SHORT_TEXT_MAX_BYTES {
        return false;
    }
    let len = text.len() as u64;
    let tag = const { tag(DebugAnnotation::STRING_VALUE_FIELD_NUMBER, LENGTH_DELIMITED) };
    let fields = head(4 + len, name_iid) | tag << 32 | len << 40;
    let message = event.as_message_mut();
    message.append_some_raw(fields.to_le_bytes(), 6);
    message.append_raw(text.as_bytes());
    true
}

#[cfg(test)]
mod tests {
    use protozero::HeapBuffered;

    use super::*;

    fn encoded(write: impl FnOnce(&mut TrackEvent<'_>)) -> Vec<u8> {
        let mut event = HeapBuffered::<TrackEvent>::new();
        write(&mut event.message());
        event.to_vec()
    }

    #[test]
    fn short_annotations_are_those_that_the_writers_write_and_long_ones_are_refused() {
        for name_iid in [1, 0x7f, 0x80] {
            let bits = (0..=21).flat_map(|bits| [1 << bits, (1 << bits) - 1]);
            for value in bits.chain([u64::MAX]) {
                const FIELD: u32 = DebugAnnotation::UINT_VALUE_FIELD_NUMBER;
                let mut fits = false;
                let short = encoded(|event| fits = append_varint::<FIELD>(event, name_iid, value));
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

            let mut fits = false;
            let short = encoded(|event| fits = append_double(event, name_iid, -0.5));
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
                let mut fits = false;
                let short = encoded(|event| fits = append_text(event, name_iid, &text));
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
