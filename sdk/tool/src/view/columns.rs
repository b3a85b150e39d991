//! Encodes numbers as varints: 7 bits per byte, the least significant first, as in protobuf.

use std::io::{self, Write};

use protozero::{VARINT_MAX_BYTES, encode_varint};

/// Writes a number in 1 to 10 bytes.
pub(crate) fn write_varint(out: &mut impl Write, value: u64) -> io::Result<()> {
    let mut bytes = [0; VARINT_MAX_BYTES];
    let length = encode_varint(value, &mut bytes);
    out.write_all(&bytes[..length])
}

/// Maps signed numbers to unsigned ones so that small numbers of both signs stay small: 0, -1, 1,
/// -2 become 0, 1, 2, 3.
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// Writes the number of values, then each value.
pub(crate) fn write_list(
    out: &mut impl Write,
    values: impl ExactSizeIterator<Item = u64>,
) -> io::Result<()> {
    write_varint(out, values.len() as u64)?;
    write_column(out, values)
}

/// Writes each value. The reader of the page knows how many there are.
pub(crate) fn write_column(
    out: &mut impl Write,
    values: impl Iterator<Item = u64>,
) -> io::Result<()> {
    values
        .into_iter()
        .try_for_each(|value| write_varint(out, value))
}

/// Writes each value as the difference from the one before, the first from 0.
pub(crate) fn write_differences(
    out: &mut impl Write,
    values: impl Iterator<Item = i64>,
) -> io::Result<()> {
    let mut before = 0_i64;
    for value in values {
        write_varint(out, zigzag(value.wrapping_sub(before)))?;
        before = value;
    }
    Ok(())
}

/// Decodes columns, as the page does.
#[cfg(test)]
pub(crate) mod decoding {
    pub(crate) struct Columns<'a>(pub(crate) &'a [u8]);

    impl Columns<'_> {
        pub(crate) fn varint(&mut self) -> u64 {
            let mut value = 0;
            for shift in (0..).step_by(7) {
                let (byte, rest) = self.0.split_first().unwrap();
                self.0 = rest;
                value |= u64::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            value
        }

        pub(crate) fn column(&mut self, count: u64) -> Vec<u64> {
            (0..count).map(|_| self.varint()).collect()
        }

        pub(crate) fn list(&mut self) -> Vec<u64> {
            let count = self.varint();
            self.column(count)
        }

        pub(crate) fn text(&mut self, length: u64) -> String {
            let (text, rest) = self.0.split_at(length as usize);
            self.0 = rest;
            String::from_utf8(text.to_vec()).unwrap()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_have_seven_bits_per_byte() {
        let bytes = |value| {
            let mut out = Vec::new();
            write_varint(&mut out, value).unwrap();
            out
        };
        assert_eq!(bytes(0), [0]);
        assert_eq!(bytes(127), [127]);
        assert_eq!(bytes(300), [0xac, 0x02]);
        assert_eq!(bytes(u64::MAX).len(), 10);
    }

    #[test]
    fn differences_have_both_signs() {
        let mut out = Vec::new();
        write_differences(&mut out, [5, 3, 4].into_iter()).unwrap();
        assert_eq!(out, [10, 3, 2]);
        assert_eq!(zigzag(i64::MIN), u64::MAX);
    }
}
