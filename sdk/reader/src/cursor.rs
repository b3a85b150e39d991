//! A fast decoder for the few fields that most packets have. [`protozero::Decoder`] decodes all
//! others.

use protozero::split_varint;

/// Reads encoded bytes from the front.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads the next byte. Returns `None` at the end.
    #[inline(always)]
    pub(super) const fn byte(&mut self) -> Option<u8> {
        let Some((byte, rest)) = self.rest.split_first() else {
            return None;
        };
        self.rest = rest;
        Some(*byte)
    }

    /// Reads the next varint. Returns `None` if it is incomplete or has more than 64 bits.
    #[inline(always)]
    pub(super) fn varint(&mut self) -> Option<u64> {
        let (value, rest) = split_varint(self.rest)?;
        self.rest = rest;
        Some(value)
    }

    /// Reads a length and as many bytes. Returns `None` if there are fewer.
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
    fn incomplete_values_are_none() {
        assert_eq!(Cursor::new(&[0xff; 20]).varint(), None);
        assert_eq!(Cursor::new(b"\x05four").bytes(), None);
        assert_eq!(Cursor::new(b"\x04four").bytes(), Some(&b"four"[..]));
    }
}
