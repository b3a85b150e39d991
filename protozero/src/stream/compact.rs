//! Values of at most 127 bytes that are assembled in place, before their length is known.

use core::fmt;
use core::marker::PhantomData;

use super::put::{put_at, put_compact_at};
use super::{DELIMITED_ROOM_BYTES, RangeSource, StreamWriter};
use crate::wire::COMPACT_MAX_BYTES;

/// A short value that is being written to a stream: see [`StreamWriter::append_delimited_by`].
///
/// The current address stays in a register while parts are written. Each part needs one check of
/// room.
pub struct CompactValue<'r> {
    /// The end of the written bytes: `begin <= at <= end`.
    at: *mut u8,
    begin: *mut u8,
    /// The end of the room. The 127 bytes from `begin` to `end` are free bytes of a range that only
    /// this value accesses during `'r`.
    end: *mut u8,
    _range: PhantomData<&'r mut [u8]>,
}

impl CompactValue<'_> {
    /// Returns the number of bytes written.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.at.addr() - self.begin.addr()
    }

    /// Returns true if no bytes were written.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the first `len` bytes of `bytes`, if there is room for all `N` bytes. Returns whether
    /// it wrote them.
    ///
    /// All `N` bytes are stored, which takes neither a loop nor a call. Later writes overwrite the
    /// bytes behind `len`.
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

    /// Writes all of `bytes`, if there is room. Returns whether it wrote them.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.room();
        if fits {
            // SAFETY: `bytes` fits into the room, so it has at most 127 bytes, and nobody else
            // accesses the room (invariant of `end`).
            self.at = unsafe { put_compact_at(self.at, bytes) };
        }
        fits
    }

    /// Replaces the byte at `offset`, if it has been written. Returns whether it has.
    #[inline(always)]
    pub fn replace(&mut self, offset: usize, byte: u8) -> bool {
        let is_there = offset < self.len();
        if is_there {
            // SAFETY: the byte lies between `begin` and `at`.
            let place = unsafe { self.begin.add(offset) };
            // SAFETY: as above; nobody else accesses the byte (invariant of `end`).
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
    /// Appends a length of one byte and the value that `put` writes, at most 127 bytes. Returns the
    /// length of the value.
    ///
    /// Appends nothing and returns `None` if `put` returns false, or if the current range has fewer
    /// than [`DELIMITED_ROOM_BYTES`] left. The second condition does not depend on the size of the
    /// value. It guarantees that the range is not full afterwards.
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
        let end = unsafe { begin.add(COMPACT_MAX_BYTES) };
        // The value borrows the range as long as the stream is borrowed. `put` cannot swap the
        // value for one that points into another range, because no other value has the same
        // lifetime.
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
