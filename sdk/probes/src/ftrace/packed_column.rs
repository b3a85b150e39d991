//! A packed field of varints that grows value by value.

use protozero::{VARINT_MAX_BYTES, encode_varint, spread_varint};

/// The number of bits whose varint fits into a word.
const WORD_BITS: u32 = 56;

/// The length from which on a column takes no more values.
pub(super) const COLUMN_FULL_BYTES: usize = 1 << 14;
/// Behind the last value, there is room for another one.
const COLUMN_BYTES: usize = COLUMN_FULL_BYTES + VARINT_MAX_BYTES;

/// The values of a packed field.
///
/// The memory has a fixed size, so that appending is a store and nothing else.
#[derive(Debug)]
pub(super) struct PackedColumn {
    bytes: Box<[u8; COLUMN_BYTES]>,
    /// Below [`COLUMN_FULL_BYTES`] before each value that is appended.
    len: usize,
}

impl Default for PackedColumn {
    fn default() -> Self {
        Self {
            bytes: Box::new([0; COLUMN_BYTES]),
            len: 0,
        }
    }
}

impl PackedColumn {
    /// Appends a value whose length differs from row to row. Returns its length. The column must be
    /// shorter than [`COLUMN_FULL_BYTES`].
    #[inline]
    pub(super) fn push(&mut self, value: u64) -> usize {
        if value >= 1 << WORD_BITS {
            return self.push_long(value);
        }
        let (word, len) = spread_varint(value);
        self.store(word.to_le_bytes(), len)
    }

    /// Does what [`push`](Self::push) does, for values that mostly take one byte.
    #[inline]
    pub(super) fn push_small(&mut self, value: u64) -> usize {
        match value {
            ..0x80 => self.store([value as u8], 1),
            _ => self.push(value),
        }
    }

    /// Returns the values.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    pub(super) const fn clear(&mut self) {
        self.len = 0;
    }

    #[cold]
    fn push_long(&mut self, value: u64) -> usize {
        let mut bytes = [0; VARINT_MAX_BYTES];
        let len = encode_varint(value, &mut bytes);
        self.store(bytes, len)
    }

    /// Stores `bytes`, of which `len` are the value.
    #[inline(always)]
    fn store<const N: usize>(&mut self, bytes: [u8; N], len: usize) -> usize {
        debug_assert!(self.len < COLUMN_FULL_BYTES && len <= N);
        // Tells the compiler that the bytes are within the memory.
        let start = self.len & (COLUMN_FULL_BYTES - 1);
        self.bytes[start..start + N].copy_from_slice(&bytes);
        self.len = start + len;
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_shortest_varints() {
        let mut column = PackedColumn::default();
        let mut expected = Vec::new();
        for shift in 0..64 {
            for value in [u64::MAX >> shift, 1 << shift] {
                let before = expected.len();
                protozero::append_varint(value, &mut expected);
                protozero::append_varint(value, &mut expected);
                let bytes = column.push(value) + column.push_small(value);
                assert_eq!(bytes, expected.len() - before, "{value:#x}");
            }
        }
        assert_eq!(column.as_bytes(), expected);
        column.clear();
        assert_eq!(column.as_bytes(), b"");
    }

    #[test]
    fn column_that_is_almost_full_takes_a_value_of_any_length() {
        let mut column = PackedColumn::default();
        while column.as_bytes().len() < COLUMN_FULL_BYTES - 1 {
            column.push_small(0);
        }
        assert_eq!(column.push(u64::MAX), 10);
        assert_eq!(column.as_bytes().len(), COLUMN_FULL_BYTES + 9);
        assert_eq!(column.as_bytes().last(), Some(&1));
    }
}
