//! Encodes bytes as base64 with padding, as in RFC 4648.

use std::io::{self, Write};

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// The number of bytes that are encoded at a time; a multiple of 3.
const PIECE_BYTES: usize = 3 * 1024;

/// A writer that encodes as base64. Call [`Base64Writer::finish`] to write the last letters.
#[derive(Debug)]
pub(crate) struct Base64Writer<W: Write> {
    out: W,
    /// Bytes that are not encoded yet; fewer than `PIECE_BYTES` between calls.
    waiting: Vec<u8>,
    letters: u64,
}

impl<W: Write> Base64Writer<W> {
    pub(crate) fn new(out: W) -> Self {
        Self {
            out,
            waiting: Vec::with_capacity(PIECE_BYTES),
            letters: 0,
        }
    }

    /// Ends the text. Returns its number of letters.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.write_waiting()?;
        Ok(self.letters)
    }

    fn write_waiting(&mut self) -> io::Result<()> {
        let mut text = Vec::with_capacity(PIECE_BYTES / 3 * 4);
        for group in self.waiting.chunks(3) {
            let mut bytes = [0; 3];
            bytes[..group.len()].copy_from_slice(group);
            let bits = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
            for place in 0..4 {
                let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
                text.push(if place > group.len() { b'=' } else { letter });
            }
        }
        self.letters += text.len() as u64;
        self.waiting.clear();
        self.out.write_all(&text)
    }
}

impl<W: Write> Write for Base64Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PIECE_BYTES - self.waiting.len());
        self.waiting.extend_from_slice(&bytes[..taken]);
        if self.waiting.len() == PIECE_BYTES {
            self.write_waiting()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base64(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        let mut writer = Base64Writer::new(&mut out);
        writer.write_all(bytes).unwrap();
        let letters = writer.finish().unwrap();
        assert_eq!(letters, out.len() as u64);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_examples_of_the_rfc_hold() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"foo"), "Zm9v");
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
    }

    #[test]
    fn padding_comes_at_the_end_alone() {
        let text = base64(&vec![0xff; PIECE_BYTES * 2 + 1]);
        assert_eq!(text.len(), PIECE_BYTES / 3 * 8 + 4);
        assert!(text.ends_with("/w=="));
        assert!(!text.trim_end_matches('=').contains('='));
    }
}
