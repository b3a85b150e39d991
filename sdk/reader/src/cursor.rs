//! Encoded bytes, read one after the other: for the few fields that most packets have. All others are
//! left to [`protozero::Decoder`].

use protozero::split_varint;

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
        let (value, rest) = split_varint(self.rest)?;
        self.rest = rest;
        Some(value)
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
    fn what_is_too_long_is_nothing() {
        assert_eq!(Cursor::new(&[0xff; 20]).varint(), None);
        assert_eq!(Cursor::new(b"\x05four").bytes(), None);
        assert_eq!(Cursor::new(b"\x04four").bytes(), Some(&b"four"[..]));
    }
}
