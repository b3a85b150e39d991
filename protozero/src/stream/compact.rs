//! A value of at most 127 bytes that is put together in its place, before its length.

use core::fmt;
use core::marker::PhantomData;

use super::put::{put_at, put_compact_at};
use super::{DELIMITED_ROOM_BYTES, RangeSource, StreamWriter};
use crate::wire::MAX_COMPACT_BYTES;

/// A value on its way into a stream: see [`StreamWriter::append_delimited_by`].
///
/// Its address stays in a register while the parts are put, one check of room for each.
pub struct CompactValue<'r> {
    /// `begin <= at <= end`: behind what was put.
    at: *mut u8,
    begin: *mut u8,
    /// All bytes from `begin` to here, 127, are free bytes of a range that nobody but this value
    /// accesses while `'r` lasts.
    end: *mut u8,
    _range: PhantomData<&'r mut [u8]>,
}

impl CompactValue<'_> {
    /// How many bytes were put.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.at.addr() - self.begin.addr()
    }

    /// Whether nothing was put.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts the first `len` of `bytes`, if there is room for all of them. They are stored whole, which
    /// takes neither a loop nor a call; what is stored too much is written over later. Returns whether
    /// it did.
    #[inline(always)]
    pub fn put_some<const N: usize>(&mut self, bytes: &[u8; N], len: usize) -> bool {
        let fits = len <= N && N <= self.room();
        if fits {
            // SAFETY: there is room for N bytes, which nobody else accesses (invariant of `end`).
            unsafe { put_at(self.at, bytes) };
            // SAFETY: `len` is at most N, so this is at most `end`.
            self.at = unsafe { self.at.add(len) };
        }
        fits
    }

    /// Puts all of `bytes`, if there is room. Returns whether there was.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.room();
        if fits {
            // SAFETY: there is room for so many bytes, at most 127, which nobody else accesses
            // (invariant of `end`).
            self.at = unsafe { put_compact_at(self.at, bytes) };
        }
        fits
    }

    /// Replaces a byte that was put. Returns whether it was.
    #[inline(always)]
    pub fn replace(&mut self, offset: usize, byte: u8) -> bool {
        let is_there = offset < self.len();
        if is_there {
            // SAFETY: it lies between `begin` and `at`.
            let place = unsafe { self.begin.add(offset) };
            // SAFETY: as above; nobody else accesses it (invariant of `end`).
            unsafe { put_at(place, &[byte]) };
        }
        is_there
    }

    #[inline(always)]
    fn room(&self) -> usize {
        self.end.addr() - self.at.addr()
    }
}

impl fmt::Debug for CompactValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactValue")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<S: RangeSource> StreamWriter<S> {
    /// Appends a length of one byte and the value that `put` puts there, at most 127 bytes, if the
    /// current range has [`DELIMITED_ROOM_BYTES`] left, whatever it needs; so it is not full
    /// afterwards. Returns its length; `None` if there is not so much room, or if `put` returns false:
    /// then nothing was appended.
    ///
    /// ```
    /// use protozero::FixedSource;
    ///
    /// let mut memory = [0; 256];
    /// let mut stream = FixedSource::stream(&mut memory);
    /// let len = stream.append_delimited_by(|value| value.put_some(b"text..", 4) && value.put(b"!"));
    /// assert_eq!(len, Some(5));
    /// let none = stream.append_delimited_by(|value| value.put(&[0; 128]));
    /// assert_eq!(none, None);
    /// assert_eq!(stream.used_bytes(), 6);
    /// # drop(stream);
    /// assert_eq!(memory[..6], *b"\x05text!");
    /// ```
    #[inline(always)]
    pub fn append_delimited_by(
        &mut self,
        put: impl FnOnce(&mut CompactValue<'_>) -> bool,
    ) -> Option<usize> {
        if !self.has_room(DELIMITED_ROOM_BYTES) {
            return None;
        }
        // SAFETY: there is room for a length and for 127 bytes (invariant 1 of the stream).
        let begin = unsafe { self.cursor.add(1) };
        // SAFETY: as above.
        let end = unsafe { begin.add(MAX_COMPACT_BYTES) };
        // It holds on to the range as long as the stream is borrowed, and `put` can exchange it for no
        // other one: that would have to have the same lifetime, which no other one has.
        let mut value = CompactValue {
            at: begin,
            begin,
            end,
            _range: PhantomData,
        };
        if !put(&mut value) {
            return None;
        }
        let (at, len) = (value.at, value.len());
        // SAFETY: as above; the length is at most 127.
        unsafe { put_at(self.cursor, &[len as u8]) };
        self.cursor = at;
        Some(len)
    }
}
