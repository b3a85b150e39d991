//! Rows as bytes: numbers as varints, keys as differences to the row before.

use protozero::{append_varint, split_varint};

/// What rows are ordered by.
pub(crate) type Key = (u64, u64);

/// Appends the numbers of a row.
#[derive(Debug)]
pub(crate) struct RowWriter<'b> {
    bytes: &'b mut Vec<u8>,
}

/// Reads the numbers of a row.
#[derive(Debug)]
pub(crate) struct RowReader<'b> {
    bytes: &'b [u8],
}

impl<'b> RowWriter<'b> {
    /// Creates a writer of a row with this key, behind a row with the key `previous`.
    pub(crate) fn new(bytes: &'b mut Vec<u8>, key: Key, previous: Key) -> Self {
        let mut writer = Self { bytes };
        // Keys of a run never decrease.
        writer.uint(key.0.wrapping_sub(previous.0));
        writer.int(key.1.wrapping_sub(previous.1).cast_signed());
        writer
    }

    #[inline]
    pub(crate) fn uint(&mut self, value: u64) {
        append_varint(value, self.bytes);
    }

    /// Appends a number that is near zero.
    #[inline]
    pub(crate) fn int(&mut self, value: i64) {
        self.uint((value << 1 ^ value >> 63).cast_unsigned());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.uint(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

impl<'b> RowReader<'b> {
    /// Creates a reader of rows.
    pub(crate) const fn new(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    /// Reads the key of a row behind a row with the key `previous`.
    pub(crate) fn key(&mut self, previous: Key) -> Option<Key> {
        Some((
            previous.0.wrapping_add(self.uint()?),
            previous.1.wrapping_add(self.int()?.cast_unsigned()),
        ))
    }

    #[inline]
    pub(crate) fn uint(&mut self) -> Option<u64> {
        let (value, rest) = split_varint(self.bytes)?;
        self.bytes = rest;
        Some(value)
    }

    #[inline]
    pub(crate) fn int(&mut self) -> Option<i64> {
        let value = self.uint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let length = self.uint()?.try_into().ok()?;
        let (text, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    /// Returns the number of bytes that have not been read.
    pub(crate) const fn left(&self) -> usize {
        self.bytes.len()
    }
}
