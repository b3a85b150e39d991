//! Where frames begin and end in a stream of bytes: each is a length and so many bytes.

use std::fmt;

/// The size of the length before a frame, in bytes.
const LENGTH_BYTES: usize = 4;

/// The maximum size of a frame, in bytes, without its length.
pub const FRAME_MAX_BYTES: usize = 128 * 1024 - LENGTH_BYTES;

/// The size of the buffer before much arrives, in bytes.
const FIRST_BUFFER_BYTES: usize = 4 * 1024;

/// A frame that is longer than [`FRAME_MAX_BYTES`]. The stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTooLong {
    /// The size that the peer has announced.
    pub size_bytes: u32,
}

impl fmt::Display for FrameTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the peer has announced a frame of {} bytes; the maximum is {FRAME_MAX_BYTES}",
            self.size_bytes
        )
    }
}

impl std::error::Error for FrameTooLong {}

/// Cuts a stream into frames.
///
/// Its memory grows while what is received fills it, up to the largest frame: a daemon has many
/// connections, and most of them carry little.
///
/// ```
/// use tracezero_ipc::frame::{FrameReader, append_frame};
///
/// let mut stream = Vec::new();
/// append_frame(&mut stream, b"one");
/// append_frame(&mut stream, b"two");
///
/// let mut reader = FrameReader::new();
/// let room = reader.room();
/// room[..stream.len()].copy_from_slice(&stream);
/// reader.received(stream.len());
/// assert_eq!(reader.next_frame(), Ok(Some(&b"one"[..])));
/// assert_eq!(reader.next_frame(), Ok(Some(&b"two"[..])));
/// assert_eq!(reader.next_frame(), Ok(None));
/// ```
#[derive(Debug)]
pub struct FrameReader {
    /// At most as large as the largest frame with its length.
    buffer: Vec<u8>,
    /// The bytes that were received and not handed out: `buffer[start..end]`.
    start: usize,
    end: usize,
    /// True if there was no room for more when bytes were last received.
    was_filled: bool,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameReader {
    /// Creates a reader at the begin of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self {
            buffer: vec![0; FIRST_BUFFER_BYTES],
            start: 0,
            end: 0,
            was_filled: false,
        }
    }

    /// Returns the memory for further bytes. It is not empty if [`next_frame`](Self::next_frame) has
    /// returned `None` before.
    pub fn room(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if std::mem::take(&mut self.was_filled) {
            let size_bytes = (2 * self.buffer.len()).min(LENGTH_BYTES + FRAME_MAX_BYTES);
            self.buffer.resize(size_bytes, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Notes that the first `len` bytes of the [`room`](Self::room) were received.
    ///
    /// # Panics
    ///
    /// If there is not so much room.
    pub fn received(&mut self, len: usize) {
        assert!(
            len <= self.buffer.len() - self.end,
            "no room for {len} bytes"
        );
        self.end += len;
        self.was_filled = self.end == self.buffer.len();
    }

    /// Returns the next frame, or `None` if more bytes are needed. Skips empty frames.
    ///
    /// # Errors
    ///
    /// If the next frame is too long. Every later call returns the same error.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameTooLong> {
        loop {
            let present = &self.buffer[self.start..self.end];
            let Some((length, rest)) = present.split_first_chunk() else {
                return Ok(None);
            };
            let size_bytes = u32::from_le_bytes(*length);
            let size = size_bytes as usize;
            if size > FRAME_MAX_BYTES {
                return Err(FrameTooLong { size_bytes });
            }
            if rest.len() < size {
                return Ok(None);
            }
            let start = self.start + LENGTH_BYTES;
            self.start = start + size;
            if size > 0 {
                return Ok(Some(&self.buffer[start..start + size]));
            }
        }
    }
}

/// Appends a frame to a stream.
///
/// # Panics
///
/// If the frame is longer than [`FRAME_MAX_BYTES`]: the peer would end the connection.
pub fn append_frame(stream: &mut Vec<u8>, frame: &[u8]) {
    assert!(frame.len() <= FRAME_MAX_BYTES, "a frame is too long");
    stream.extend_from_slice(&(frame.len() as u32).to_le_bytes());
    stream.extend_from_slice(frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the frames of a stream that arrives in pieces of this size.
    fn frames(stream: &[u8], piece_bytes: usize) -> Result<Vec<Vec<u8>>, FrameTooLong> {
        let mut reader = FrameReader::new();
        let mut frames = Vec::new();
        let mut rest = stream;
        loop {
            while let Some(frame) = reader.next_frame()? {
                frames.push(frame.to_vec());
            }
            let room = reader.room();
            let len = piece_bytes.min(rest.len()).min(room.len());
            if len == 0 {
                return Ok(frames);
            }
            room[..len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
            reader.received(len);
        }
    }

    #[test]
    fn frames_are_the_same_however_the_stream_is_split() {
        let sizes = [1, 0, 127, 5000, FRAME_MAX_BYTES, 0, FRAME_MAX_BYTES - 1, 3];
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (index, size) in sizes.into_iter().enumerate() {
            let frame = vec![index as u8; size];
            append_frame(&mut stream, &frame);
            if size > 0 {
                expected.push(frame);
            }
        }
        for piece_bytes in [1, 7, 4096, 131_072, usize::MAX] {
            assert_eq!(frames(&stream, piece_bytes).unwrap(), expected);
        }
    }

    #[test]
    fn memory_grows_with_what_arrives_up_to_the_largest_frame() {
        let mut reader = FrameReader::new();
        let mut small = Vec::new();
        append_frame(&mut small, &[1; FIRST_BUFFER_BYTES / 2]);
        for _ in 0..100 {
            reader.room()[..small.len()].copy_from_slice(&small);
            reader.received(small.len());
            assert_eq!(reader.next_frame(), Ok(Some(&small[LENGTH_BYTES..])));
        }
        assert_eq!(reader.room().len(), FIRST_BUFFER_BYTES);
        for _ in 0..100 {
            let len = reader.room().len();
            // These are empty frames.
            reader.room().fill(0);
            reader.received(len);
            assert_eq!(reader.next_frame(), Ok(None));
        }
        assert_eq!(reader.room().len(), LENGTH_BYTES + FRAME_MAX_BYTES);
    }

    #[test]
    fn a_frame_that_is_cut_off_does_not_appear() {
        let mut stream = Vec::new();
        append_frame(&mut stream, b"abc");
        for len in 0..stream.len() {
            assert_eq!(frames(&stream[..len], 2), Ok(vec![]));
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_an_error_at_once() {
        for size_bytes in [FRAME_MAX_BYTES as u32 + 1, 0xffff_fffd] {
            let stream = size_bytes.to_le_bytes();
            assert_eq!(frames(&stream, 4), Err(FrameTooLong { size_bytes }));
        }
    }
}
