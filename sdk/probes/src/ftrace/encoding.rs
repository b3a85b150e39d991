//! Fields of protobuf messages, appended to a buffer by numbers that are known at run time only.

use protozero::{VARINT_MAX_BYTES, WireType, append_varint, encode_varint};

/// The longest message whose length fits into the slot of one byte.
const SLOT_MAX: usize = 127;

/// A field's tag, encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// The bytes of the tag, the first one lowest. Those above are 0.
    word: u32,
    /// 1 to 4.
    len: u8,
}

impl Tag {
    /// Returns the tag of a number.
    pub(crate) const fn number(field: u32) -> Self {
        Self::new(field, WireType::Varint)
    }

    /// Returns the tag of a text, of bytes or of a message.
    pub(crate) const fn delimited(field: u32) -> Self {
        Self::new(field, WireType::LengthDelimited)
    }

    const fn new(field: u32, wire_type: WireType) -> Self {
        debug_assert!(field >= 1 && field < 1 << 25, "the tag has at most 4 bytes");
        let mut rest = field << 3 | wire_type as u32;
        let (mut word, mut len) = (0, 0);
        while rest >= 0x80 && len < 3 {
            word |= (rest & 0x7f | 0x80) << (8 * len);
            rest >>= 7;
            len += 1;
        }
        word |= (rest & 0x7f) << (8 * len);
        Self { word, len: len + 1 }
    }

    #[inline(always)]
    fn append(self, out: &mut Vec<u8>) {
        append_some(out, self.word.to_le_bytes(), usize::from(self.len));
    }

    /// Appends the tag and one byte: a number or a length below 128.
    #[inline(always)]
    fn append_with(self, byte: u8, out: &mut Vec<u8>) {
        let field = u64::from(self.word) | u64::from(byte) << (8 * self.len);
        append_some(out, field.to_le_bytes(), usize::from(self.len) + 1);
    }
}

/// Appends a number of any integer type but the zigzag ones. A signed value is extended to 64 bits.
#[inline(always)]
pub(crate) fn append_number(out: &mut Vec<u8>, tag: Tag, value: u64) {
    if value < 0x80 {
        tag.append_with(value as u8, out);
    } else {
        tag.append(out);
        append_varint(value, out);
    }
}

/// Appends a text or bytes.
#[inline]
pub(crate) fn append_bytes(out: &mut Vec<u8>, tag: Tag, value: &[u8]) {
    append_number(out, tag, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends the text in the 16 bytes of a thread's name, up to its NUL.
#[inline(always)]
pub(crate) fn append_name(out: &mut Vec<u8>, tag: Tag, name: [u8; 16]) {
    let len = name_len(name);
    tag.append_with(len as u8, out);
    append_some(out, name, len);
}

/// A message whose fields are being appended.
#[must_use = "the message has no length before its end"]
#[derive(Debug)]
pub(crate) struct Nested {
    /// Where the message's fields begin, behind a slot of one byte.
    start: usize,
}

/// Appends the tag of a message. The message has the fields that are appended until
/// [`end_nested`].
#[inline(always)]
pub(crate) fn begin_nested(out: &mut Vec<u8>, tag: Tag) -> Nested {
    tag.append_with(0, out);
    Nested { start: out.len() }
}

/// Fills in the length of the message.
#[inline(always)]
pub(crate) fn end_nested(out: &mut Vec<u8>, nested: Nested) {
    let len = out.len() - nested.start;
    if len > SLOT_MAX {
        grow_slot(out, nested.start, len);
    } else {
        out[nested.start - 1] = len as u8;
    }
}

/// Moves the fields of a long message, to make room for its length.
#[cold]
fn grow_slot(out: &mut Vec<u8>, start: usize, len: usize) {
    let mut length = [0; VARINT_MAX_BYTES];
    let length_bytes = encode_varint(len as u64, &mut length);
    out.splice(start - 1..start, length[..length_bytes].iter().copied());
}

/// Appends the first `len` bytes of `bytes`. Appending all and taking back the rest is a store of
/// fixed size, where a copy of `len` bytes would be a call.
#[inline(always)]
fn append_some<const N: usize>(out: &mut Vec<u8>, bytes: [u8; N], len: usize) {
    let end = out.len() + len;
    out.extend_from_slice(&bytes);
    out.truncate(end);
}

/// Returns the number of bytes before the first NUL.
#[inline(always)]
fn name_len(name: [u8; 16]) -> usize {
    const LOW: u128 = u128::from_le_bytes([0x01; 16]);
    const HIGH: u128 = u128::from_le_bytes([0x80; 16]);
    let word = u128::from_le_bytes(name);
    // The lowest bit that is set belongs to the first NUL; those above it may be wrong.
    let nuls = word.wrapping_sub(LOW) & !word & HIGH;
    (nuls.trailing_zeros() / 8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_match_their_hand_computed_bytes() {
        let mut out = Vec::new();
        append_number(&mut out, Tag::number(1), 300);
        append_number(&mut out, Tag::number(16), 127);
        append_number(&mut out, Tag::number(65536), u64::MAX);
        append_bytes(&mut out, Tag::delimited(2), b"ab");
        let expected = b"\x08\xac\x02\x80\x01\x7f\x80\x80\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x02ab";
        assert_eq!(out, expected);
    }

    #[test]
    fn name_ends_at_its_first_nul() {
        for len in 0..=16 {
            let mut name = [0x80; 16];
            if len < 16 {
                name[len] = 0;
            }
            if len < 14 {
                name[len + 1] = 1;
                name[len + 2] = 0;
            }
            let mut out = Vec::new();
            append_name(&mut out, Tag::delimited(1), name);
            let mut expected = Vec::new();
            append_bytes(&mut expected, Tag::delimited(1), &name[..len]);
            assert_eq!(out, expected, "{name:?}");
        }
    }

    #[test]
    fn slot_grows_with_the_message() {
        for len in [0, 1, 127, 128, 16_383, 16_384, 100_000] {
            let fields: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut out = vec![9];
            let nested = begin_nested(&mut out, Tag::delimited(3));
            out.extend_from_slice(&fields);
            end_nested(&mut out, nested);
            let mut expected = vec![9];
            append_bytes(&mut expected, Tag::delimited(3), &fields);
            assert!(out == expected, "{len}");
        }
    }

    #[test]
    fn nested_slots_grow_one_in_the_other() {
        let mut out = Vec::new();
        let outer = begin_nested(&mut out, Tag::delimited(1));
        let inner = begin_nested(&mut out, Tag::delimited(2));
        out.extend_from_slice(&[7; 126]);
        end_nested(&mut out, inner);
        end_nested(&mut out, outer);
        let mut expected = vec![0x0a, 0x80, 0x01, 0x12, 126];
        expected.extend_from_slice(&[7; 126]);
        assert_eq!(out, expected);
    }
}
