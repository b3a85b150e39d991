//! Encoded bytes, read one after the other: for the few fields that most packets have. All others are
//! left to [`protozero::Decoder`].

/// Reads bytes from the front.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next byte; `None` at the end.
    #[inline(always)]
    pub(super) const fn byte(&mut self) -> Option<u8> {
        let Some((byte, rest)) = self.rest.split_first() else {
            return None;
        };
        self.rest = rest;
        Some(*byte)
    }

    /// The next varint; `None` if it does not end, or has more than 64 bits.
    #[inline(always)]
    pub(super) fn varint(&mut self) -> Option<u64> {
        let byte = self.byte()?;
        if byte < 0x80 {
            return Some(u64::from(byte));
        }
        self.long_varint(byte)
    }

    #[inline]
    fn long_varint(&mut self, first: u8) -> Option<u64> {
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.byte()?;
            // The tenth byte holds the topmost bit alone.
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
            shift += 7;
        }
    }

    /// The next bytes that a length stands before; `None` if there are not so many.
    #[inline(always)]
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_all_lengths_are_read() {
        for bits in 0..64 {
            for value in [1_u64 << bits, (1 << bits) | 1, (1 << bits) - 1] {
                let mut bytes = Vec::new();
                let mut rest = value;
                while rest >= 0x80 {
                    bytes.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                bytes.push(rest as u8);
                assert_eq!(Cursor::new(&bytes).varint(), Some(value));
                assert_eq!(Cursor::new(&bytes[..bytes.len() - 1]).varint(), None);
            }
        }
    }

    #[test]
    fn what_is_too_long_is_nothing() {
        assert_eq!(Cursor::new(&[0xff; 20]).varint(), None);
        assert_eq!(Cursor::new(b"\x05four").bytes(), None);
        assert_eq!(Cursor::new(b"\x04four").bytes(), Some(&b"four"[..]));
    }
}
