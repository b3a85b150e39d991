//! The protobuf wire format as pure functions: tags, varints, zigzag, padded lengths.

/// Bytes of a length slot: every nested length is reserved as a 4-byte varint.
pub(crate) const SLOT_BYTES: usize = 4;
/// Longest encoding of a 64-bit varint.
pub(crate) const MAX_VARINT_BYTES: usize = 10;
/// Longest encoding of a tag: field numbers have 29 bits, wire types 3.
pub(crate) const MAX_TAG_BYTES: usize = 5;
/// Largest field number that a tag can hold.
pub(crate) const MAX_FIELD_NUMBER: u32 = (1 << 29) - 1;
/// Longest message whose length fits into the one byte that is reserved for it.
pub(crate) const MAX_COMPACT_BYTES: usize = 127;

/// How the value that follows a tag is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireType {
    /// Groups of 7 bits, lowest first.
    Varint = 0,
    /// 8 bytes, little-endian.
    Fixed64 = 1,
    /// A varint length, then that many bytes.
    LengthDelimited = 2,
    /// Start of a group; the decoder skips groups.
    StartGroup = 3,
    /// End of a group.
    EndGroup = 4,
    /// 4 bytes, little-endian.
    Fixed32 = 5,
}

/// A tag, encoded at compile time. `FIELD` is checked when the constant is evaluated.
#[derive(Clone, Copy)]
pub(crate) struct Tag {
    /// Only the first `len` bytes count.
    bytes: [u8; MAX_TAG_BYTES],
    len: usize,
}

impl Tag {
    pub(crate) const fn new(field: u32, wire_type: WireType) -> Self {
        assert!(
            field >= 1 && field <= MAX_FIELD_NUMBER,
            "protobuf field numbers are 1 to 2^29-1"
        );
        let mut rest = field << 3 | wire_type as u32;
        let mut bytes = [0; MAX_TAG_BYTES];
        let mut len = 0;
        while rest >= 0x80 {
            bytes[len] = rest as u8 | 0x80;
            rest >>= 7;
            len += 1;
        }
        bytes[len] = rest as u8;
        Self {
            bytes,
            len: len + 1,
        }
    }

    #[inline(always)]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// `length` as a varint padded to 4 bytes, the form in which late lengths are filled in.
///
/// The first byte is never 0, so a filled slot can be told from a zeroed one.
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
    // As one word, because four bytes would be stored one by one.
    (spread_groups(length) | 0x0080_8080).to_le_bytes()
}

/// The 7-bit groups of the lowest 28 bits, one in each byte, without continuation bits.
#[inline(always)]
pub(crate) const fn spread_groups(value: u32) -> u32 {
    (value & 0x7f)
        | (value & 0x7f << 7) << 1
        | (value & 0x7f << 14) << 2
        | (value & 0x7f << 21) << 3
}

/// Writes `value` to the front of `out` in its shortest form; returns the number of bytes.
pub(crate) fn encode_varint(mut value: u64, out: &mut [u8; MAX_VARINT_BYTES]) -> usize {
    let mut len = 0;
    while value >= 0x80 {
        out[len] = value as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    out[len] = value as u8;
    len + 1
}

/// Bytes of the shortest varint for `value`.
#[inline(always)]
pub(crate) const fn varint_len(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// The bytes of a varint of up to 56 bits as a little-endian word, and how many of them count.
///
/// Without branches: the 7-bit groups are spread to bytes by three rounds of shift and mask.
#[inline(always)]
pub(crate) const fn spread_varint(value: u64) -> (u64, usize) {
    debug_assert!(value < 1 << 56);
    let halves = (value & 0x00ff_ffff_f000_0000) << 4 | (value & 0x0000_0000_0fff_ffff);
    let quarters = (halves & 0x0fff_c000_0fff_c000) << 2 | (halves & 0x0000_3fff_0000_3fff);
    let groups = (quarters & 0x3f80_3f80_3f80_3f80) << 1 | (quarters & 0x007f_007f_007f_007f);
    let unused_bits = (groups | 1).leading_zeros() & 0x38;
    let continuation = 0x0080_8080_8080_8080 >> unused_bits;
    (groups | continuation, 8 - unused_bits as usize / 8)
}

/// The value and the length of the varint that begins in the lowest byte of a little-endian word, if
/// it ends there, too. What [`spread_varint`] does, the other way round.
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

#[inline(always)]
pub(crate) const fn zigzag32(value: i32) -> u32 {
    (value << 1 ^ value >> 31) as u32
}

#[inline(always)]
pub(crate) const fn zigzag64(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[inline(always)]
pub(crate) const fn unzigzag32(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

#[inline(always)]
pub(crate) const fn unzigzag64(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_match_their_hand_computed_bytes() {
        let cases: [(u32, WireType, &[u8]); 5] = [
            (1, WireType::Varint, &[0x08]),
            (0x7f, WireType::Fixed64, &[0xf9, 0x07]),
            (0x80, WireType::LengthDelimited, &[0x82, 0x08]),
            (0x4000, WireType::Fixed32, &[0x85, 0x80, 0x08]),
            (
                MAX_FIELD_NUMBER,
                WireType::Varint,
                &[0xf8, 0xff, 0xff, 0xff, 0x0f],
            ),
        ];
        for (field, wire_type, bytes) in cases {
            assert_eq!(Tag::new(field, wire_type).as_bytes(), bytes);
        }
    }

    #[test]
    fn redundant_varints_have_four_bytes_and_a_first_byte_that_is_not_zero() {
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
                let mut bytes = [0; MAX_VARINT_BYTES];
                let len = encode_varint(value, &mut bytes);
                assert_eq!(varint_len(value), len, "{value:#x}");
                let (word, spread_len) = spread_varint(value);
                assert_eq!(spread_len, len, "{value:#x}");
                assert_eq!(word.to_le_bytes()[..len], bytes[..len], "{value:#x}");
            }
        }
    }

    #[test]
    fn gathering_takes_back_spreading_whatever_follows() {
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

    #[test]
    fn zigzag_round_trips_the_extremes() {
        for value in [0, -1, 1, -2, i32::MAX, i32::MIN, -i32::MAX] {
            assert_eq!(unzigzag32(zigzag32(value)), value);
            assert_eq!(u64::from(zigzag32(value)), zigzag64(i64::from(value)));
        }
        for value in [i64::MAX, i64::MIN, -9_000_000_000, 9_000_000_000] {
            assert_eq!(unzigzag64(zigzag64(value)), value);
        }
        assert_eq!(zigzag32(i32::MIN), u32::MAX);
        assert_eq!(zigzag32(-2), 3);
    }
}
