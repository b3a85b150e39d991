//! A window that moves over the bytes of a trace.

use std::io::{self, Read};

/// The number of bytes that are read at once.
const READ_BYTES: usize = 256 * 1024;

/// A stream of bytes. Only the part that is being decoded is in memory.
#[derive(Debug)]
pub(super) struct ByteStream<R> {
    source: R,
    /// The bytes before `start` have been consumed. The bytes `start..end` are available. The bytes
    /// from `end` on are room for further bytes of the source.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The position in the stream of the buffer's first byte.
    buffer_offset: u64,
    has_ended: bool,
}

impl<R> ByteStream<R> {
    pub(super) const fn new(source: R) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            buffer_offset: 0,
            has_ended: false,
        }
    }

    /// Returns the bytes that have been read and not consumed.
    #[inline(always)]
    pub(super) fn available(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Returns the position in the stream of the next byte.
    #[inline(always)]
    pub(super) const fn offset(&self) -> u64 {
        self.buffer_offset + self.start as u64
    }

    /// Returns the last `len` consumed bytes. They are available until more is read.
    #[inline(always)]
    pub(super) fn consumed(&self, len: usize) -> &[u8] {
        &self.buffer[self.start - len..self.start]
    }

    #[inline(always)]
    pub(super) fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.end - self.start, "only what is available");
        self.start += len;
    }

    /// Makes the last `len` consumed bytes available again. Must be called before more is read.
    pub(super) fn step_back(&mut self, len: usize) {
        self.start -= len;
    }

    /// Replaces the whole stream by the bytes that `fill` appends to an empty vector.
    pub(super) fn replace(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        self.buffer.clear();
        fill(&mut self.buffer);
        self.start = 0;
        self.end = self.buffer.len();
        self.buffer_offset = 0;
        self.has_ended = true;
    }
}

impl<R: Read> ByteStream<R> {
    /// Reads until at least `len` bytes are available. Returns false if the stream ends before
    /// that.
    pub(super) fn want(&mut self, len: usize) -> io::Result<bool> {
        while self.end - self.start < len {
            if self.has_ended {
                return Ok(false);
            }
            self.make_room();
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.has_ended = true,
                Ok(read_bytes) => self.end += read_bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Makes room behind `end`. The buffer grows with the bytes that have arrived, not with the
    /// length that a packet claims.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.buffer_offset += self.start as u64;
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.end < READ_BYTES / 2 {
            let len = (2 * self.buffer.len()).max(READ_BYTES);
            self.buffer.resize(len, 0);
        }
    }
}
