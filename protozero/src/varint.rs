//! Varints: numbers in groups of 7 bits, lowest group first, one group per byte. The topmost bit of
//! a byte is set if another byte follows.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

use crate::error::DecodeError;
use crate::wire::SLOT_BYTES;

/// The length of the longest varint in bytes, for a number of 64 bits.
pub const VARINT_MAX_BYTES: usize = 10;

/// Writes `value` to the front of `out` in its shortest form; returns the number of bytes.
///
/// ```
/// let mut bytes = [0; protozero::VARINT_MAX_BYTES];
/// let len = protozero::encode_varint(300, &mut bytes);
/// assert_eq!(bytes[..len], [0xac, 0x02]);
/// ```
pub fn encode_varint(mut value: u64, out: &mut [u8; VARINT_MAX_BYTES]) -> usize {
    let mut len = 0;
    while value >= 0x80 {
        out[len] = value as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    out[len] = value as u8;
    len + 1
}

/// Appends `value` to `out` in its shortest form.
///
/// ```
/// let mut bytes = Vec::new();
/// protozero::append_varint(300, &mut bytes);
/// assert_eq!(bytes, [0xac, 0x02]);
/// ```
#[cfg(feature = "alloc")]
#[inline]
pub fn append_varint(value: u64, out: &mut Vec<u8>) {
    if value >= 1 << 56 {
        return append_long_varint(value, out);
    }
    let (word, len) = spread_varint(value);
    let end = out.len() + len;
    // Appending the whole word is one store, where a copy of `len` bytes would be a call.
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(end);
}

/// Appends a varint of 9 or 10 bytes: an address, or a negative number.
#[cfg(feature = "alloc")]
#[inline(never)]
fn append_long_varint(value: u64, out: &mut Vec<u8>) {
    let (word, _) = spread_varint(value & ((1 << 56) - 1));
    let top = (value >> 56) as u8;
    let end = out.len() + if top < 0x80 { 9 } else { 10 };
    out.extend_from_slice(&(word | 0x8080_8080_8080_8080).to_le_bytes());
    out.extend_from_slice(&[top, 1]);
    out.truncate(end);
}

/// Returns the length of the shortest varint for `value`.
#[inline(always)]
pub(crate) const fn varint_len(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Splits off the varint at the front of `bytes`. Returns its value and the bytes behind it, or
/// `None` if the varint is incomplete or has more than 64 bits.
///
/// ```
/// assert_eq!(protozero::split_varint(&[0xac, 0x02, 7]), Some((300, &[7][..])));
/// assert_eq!(protozero::split_varint(&[0xac]), None);
/// ```
#[inline(always)]
#[must_use]
pub fn split_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    if let [byte @ ..0x80, rest @ ..] = bytes {
        return Some((u64::from(*byte), rest));
    }
    if let Some(word) = bytes.first_chunk()
        && let Some((value, len)) = gather_varint(u64::from_le_bytes(*word))
    {
        return Some((value, bytes.get(len..)?));
    }
    split_long_varint(bytes)
}

/// Splits off a varint of any length, even if `bytes` has fewer than 8 bytes in all.
#[inline(never)]
pub(crate) fn split_long_varint(mut bytes: &[u8]) -> Option<(u64, &[u8])> {
    let value = take_varint(&mut bytes, 0).ok()?;
    Some((value, bytes))
}

/// Takes a varint of at most 64 bits from the front of `rest`. Errors contain `offset`, the offset
/// of the field.
#[inline]
pub(crate) fn take_varint(rest: &mut &[u8], offset: usize) -> Result<u64, DecodeError> {
    let mut value = 0;
    for (index, &byte) in rest.iter().take(VARINT_MAX_BYTES).enumerate() {
        // The tenth byte may hold only bit 63.
        if index == VARINT_MAX_BYTES - 1 && byte > 1 {
            return Err(DecodeError::VarintTooLong { offset });
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *rest = &rest[index + 1..];
            return Ok(value);
        }
    }
    Err(DecodeError::Truncated { offset })
}

/// Encodes `length` as a varint padded to 4 bytes: the form in which a length is filled in late,
/// into space that was reserved for it.
///
/// The first byte is never 0. This distinguishes a filled length slot from a slot that still
/// contains zeros.
///
/// ```
/// assert_eq!(protozero::redundant_varint(7), [0x87, 0x80, 0x80, 0x00]);
/// ```
///
/// # Panics
///
/// In debug builds, if `length` needs more than 28 bits.
#[must_use]
pub const fn redundant_varint(length: u32) -> [u8; SLOT_BYTES] {
    debug_assert!(length < 1 << 28);
    // Computed as one word: four separate bytes would be stored one by one.
    (spread_groups(length) | 0x0080_8080).to_le_bytes()
}

/// Spreads the lowest 28 bits into 7-bit groups, one in each byte, without continuation bits.
#[inline(always)]
pub(crate) const fn spread_groups(value: u32) -> u32 {
    (value & 0x7f)
        | (value & 0x7f << 7) << 1
        | (value & 0x7f << 14) << 2
        | (value & 0x7f << 21) << 3
}

/// Encodes `value`, of up to 56 bits, as a varint in a little-endian word. Returns the word and the
/// length of the varint. For larger numbers, the result has no meaning.
///
/// There are no branches: three rounds of shift and mask spread the 7-bit groups to bytes.
///
/// ```
/// let (word, len) = protozero::spread_varint(300);
/// assert_eq!(word.to_le_bytes()[..len], [0xac, 0x02]);
/// ```
#[inline(always)]
#[must_use]
pub const fn spread_varint(value: u64) -> (u64, usize) {
    let halves = (value & 0x00ff_ffff_f000_0000) << 4 | (value & 0x0000_0000_0fff_ffff);
    let quarters = (halves & 0x0fff_c000_0fff_c000) << 2 | (halves & 0x0000_3fff_0000_3fff);
    let groups = (quarters & 0x3f80_3f80_3f80_3f80) << 1 | (quarters & 0x007f_007f_007f_007f);
    let unused_bits = (groups | 1).leading_zeros() & 0x38;
    let continuation = 0x0080_8080_8080_8080 >> unused_bits;
    (groups | continuation, 8 - unused_bits as usize / 8)
}

/// Decodes the varint that begins in the lowest byte of a little-endian word. Returns its value and
/// its length, or `None` if it does not end within the word. The inverse of [`spread_varint`].
#[inline(always)]
pub(crate) const fn gather_varint(word: u64) -> Option<(u64, usize)> {
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return None;
    }
    let up_to_end = ends ^ (ends - 1);
    let groups = word & up_to_end & 0x7f7f_7f7f_7f7f_7f7f;
    let quarters = (groups & 0x7f00_7f00_7f00_7f00) >> 1 | (groups & 0x007f_007f_007f_007f);
    let halves = (quarters & 0x3fff_0000_3fff_0000) >> 2 | (quarters & 0x0000_3fff_0000_3fff);
    let value = (halves & 0x0fff_ffff_0000_0000) >> 4 | (halves & 0x0fff_ffff);
    Some((value, ends.trailing_zeros() as usize / 8 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_varint_of_any_length_is_split_off_whatever_follows() {
        for bits in 0..64 {
            for value in [1_u64 << bits, (1 << bits) | 1, (1 << bits) - 1] {
                let mut bytes = [0xff; VARINT_MAX_BYTES + 8];
                let mut varint = [0; VARINT_MAX_BYTES];
                let len = encode_varint(value, &mut varint);
                bytes[..len].copy_from_slice(&varint[..len]);
                assert_eq!(split_varint(&bytes[..len]), Some((value, &[][..])));
                assert_eq!(split_varint(&bytes), Some((value, &bytes[len..])));
                assert_eq!(split_varint(&varint[..len - 1]), None);
            }
        }
    }

    #[cfg(feature = "alloc")]
    #[test]
    fn appending_agrees_with_the_loop_at_every_group_boundary() {
        for bits in 0..64 {
            for value in [1_u64 << bits, (1 << bits) | 1, (1 << bits) - 1, !0 >> bits] {
                let mut bytes = [0; VARINT_MAX_BYTES];
                let len = encode_varint(value, &mut bytes);
                let mut out = alloc::vec![7];
                append_varint(value, &mut out);
                assert_eq!(out[0], 7);
                assert_eq!(out[1..], bytes[..len], "{value:#x}");
            }
        }
    }

    #[test]
    fn varint_of_more_than_64_bits_is_rejected() {
        let with_last = |last| [[0xff; 9].as_slice(), &[last]].concat();
        assert_eq!(split_varint(&with_last(1)), Some((u64::MAX, &[][..])));
        for last in [2, 0x81] {
            assert_eq!(split_varint(&with_last(last)), None);
        }
    }

    #[test]
    fn redundant_varint_has_four_bytes_and_nonzero_first() {
        let cases = [
            (0, [0x80, 0x80, 0x80, 0x00]),
            (1, [0x81, 0x80, 0x80, 0x00]),
            (0x80, [0x80, 0x81, 0x80, 0x00]),
            (0x33_2211, [0x91, 0xc4, 0xcc, 0x01]),
            (0x0fff_ffff, [0xff, 0xff, 0xff, 0x7f]),
        ];
        for (length, bytes) in cases {
            assert_eq!(redundant_varint(length), bytes);
        }
    }

    #[test]
    fn spreading_agrees_with_the_loop_at_every_group_boundary() {
        for bits in 0..56 {
            for value in [1_u64 << bits, (1 << bits) - 1, (1 << bits) | 1] {
                let mut bytes = [0; VARINT_MAX_BYTES];
                let len = encode_varint(value, &mut bytes);
                assert_eq!(varint_len(value), len, "{value:#x}");
                let (word, spread_len) = spread_varint(value);
                assert_eq!(spread_len, len, "{value:#x}");
                assert_eq!(word.to_le_bytes()[..len], bytes[..len], "{value:#x}");
            }
        }
    }

    #[test]
    fn gathering_inverts_spreading_whatever_follows() {
        for bits in 0..56 {
            for value in [1_u64 << bits, (1 << bits) - 1, (1 << bits) | 1] {
                let (word, len) = spread_varint(value);
                assert_eq!(gather_varint(word), Some((value, len)), "{value:#x}");
                for follows in [u64::MAX, 0x0102_0304_0506_0708] {
                    let followed = word | follows.checked_shl(8 * len as u32).unwrap_or(0);
                    assert_eq!(gather_varint(followed), Some((value, len)), "{value:#x}");
                }
            }
        }
        assert_eq!(gather_varint(0x8080_8080_8080_8080), None);
        assert_eq!(gather_varint(u64::MAX), None);
    }
}
