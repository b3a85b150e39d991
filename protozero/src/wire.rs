//! The protobuf wire format as pure functions: tags and zigzag.

/// The maximum nesting depth of groups that the decoder can skip.
pub const GROUPS_MAX_DEPTH: usize = 100;

/// The size in bytes of a length slot that has grown: a varint padded to 4 bytes.
pub(crate) const SLOT_BYTES: usize = 4;
/// The longest encoding of a tag: field numbers have 29 bits, wire types 3.
pub(crate) const TAG_MAX_BYTES: usize = 5;
/// The largest field number that a tag can hold.
pub(crate) const FIELD_NUMBER_MAX: u32 = (1 << 29) - 1;
/// The size of the longest message whose length fits into a compact slot of one byte.
pub(crate) const COMPACT_MAX_BYTES: usize = 127;

/// The layout of the value that follows a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireType {
    /// A number in groups of 7 bits, lowest group first.
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

/// A tag, encoded at compile time. The field number is checked when the constant is evaluated.
#[derive(Clone, Copy)]
pub(crate) struct Tag {
    /// The encoded tag in the first `len` bytes.
    bytes: [u8; TAG_MAX_BYTES],
    len: usize,
}

impl Tag {
    pub(crate) const fn new(field: u32, wire_type: WireType) -> Self {
        assert!(
            field >= 1 && field <= FIELD_NUMBER_MAX,
            "protobuf field numbers are 1 to 2^29-1"
        );
        let mut rest = field << 3 | wire_type as u32;
        let mut bytes = [0; TAG_MAX_BYTES];
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
                FIELD_NUMBER_MAX,
                WireType::Varint,
                &[0xf8, 0xff, 0xff, 0xff, 0x0f],
            ),
        ];
        for (field, wire_type, bytes) in cases {
            assert_eq!(Tag::new(field, wire_type).as_bytes(), bytes);
        }
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
