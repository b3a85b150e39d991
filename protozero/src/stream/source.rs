//! The interface between a stream and the source of its memory: [`RangeSource`] and its types.

use core::ptr;

use super::slots::OpenSlots;

/// The smallest range that a source may hand out, in bytes. A length slot must fit into it.
pub const RANGE_MIN_BYTES: usize = 4;

/// The largest range that a source may hand out, in bytes. This bounds how far a message can grow
/// between two checks of its length, because the length is checked at least once per range, but not
/// at each field.
pub const RANGE_MAX_BYTES: usize = 1 << 27;

/// A contiguous piece of memory to write to, or the end of all memory.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// Null for [`Range::NOWHERE`].
    pub(super) begin: *mut u8,
    pub(super) len: usize,
}

impl Range {
    /// The end of memory: the stream counts all further bytes and discards them. The stream calls
    /// the source again only after it gave up this range, for instance by
    /// [`StreamWriter::release_range`](super::StreamWriter::release_range).
    pub const NOWHERE: Self = Self {
        begin: ptr::null_mut(),
        len: 0,
    };

    /// Creates a range of `len` bytes from `begin`. Creating a range promises nothing. Returning a
    /// range from [`RangeSource::next_range`] promises that the range is valid.
    ///
    /// # Panics
    ///
    /// If `len` is not within [`RANGE_MIN_BYTES`] to [`RANGE_MAX_BYTES`].
    #[must_use]
    pub fn new(begin: *mut u8, len: usize) -> Self {
        assert!((RANGE_MIN_BYTES..=RANGE_MAX_BYTES).contains(&len));
        Self { begin, len }
    }
}

/// An identifier that a source chooses for a length slot in [`Outgoing::redirect`]. Only the source
/// interprets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PatchId(pub u32);

/// The destination of the length of a message that was still open when its range was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotTarget {
    /// The stream writes the length into the old range, which stays valid.
    InPlace,
    /// The stream passes the length to [`RangeSource::patch`].
    Patch(PatchId),
    /// The stream discards the length.
    Discard,
}

/// The range that the stream gives up, passed to [`RangeSource::next_range`].
#[derive(Debug)]
pub struct Outgoing<'a> {
    begin: *mut u8,
    used_bytes: usize,
    begin_position: u64,
    slots: &'a mut OpenSlots,
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(
        begin: *mut u8,
        used_bytes: usize,
        begin_position: u64,
        slots: &'a mut OpenSlots,
    ) -> Self {
        Self {
            begin,
            used_bytes,
            begin_position,
            slots,
        }
    }

    /// Returns the number of bytes written to the range, from its start. 0 if there was no range.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Sets the destination of the length for every open slot in this range. `target` gets the
    /// offset of each slot from the start of the range, from the outermost message inwards. Without
    /// this call, all slots are [`SlotTarget::InPlace`].
    pub fn redirect(&mut self, target: impl FnMut(usize) -> SlotTarget) {
        self.slots
            .leave_range(self.begin, self.begin_position, target);
    }
}

impl Drop for Outgoing<'_> {
    fn drop(&mut self) {
        // No effect if the source has already redirected the slots.
        self.redirect(|_| SlotTarget::InPlace);
    }
}

/// A source of the memory that a [`StreamWriter`](super::StreamWriter) writes to, range by range.
///
/// Only cold paths call the methods, `next_range` for instance when a range is used up. So messages
/// can hold the source as a trait object, and writing a field costs no virtual call.
///
/// ```
/// use std::slice::ChunksExactMut;
///
/// use protozero::{Outgoing, Range, RangeSource, StreamWriter};
///
/// /// Hands out the pieces of a slice, one after the other.
/// struct Pieces<'b>(ChunksExactMut<'b, u8>);
///
/// // SAFETY: each piece is handed out once, and is borrowed for longer than the source exists.
/// unsafe impl RangeSource for Pieces<'_> {
///     fn next_range(&mut self, _: Outgoing<'_>) -> Range {
///         let piece = self.0.next();
///         piece.map_or(Range::NOWHERE, |piece| Range::new(piece.as_mut_ptr(), piece.len()))
///     }
/// }
///
/// let mut memory = [0; 24];
/// let mut stream = StreamWriter::new(Pieces(memory.chunks_exact_mut(8)));
/// stream.message().append_string::<1>("two pieces");
/// assert_eq!(stream.written_bytes(), 12);
/// drop(stream);
/// assert_eq!(memory[..12], *b"\x0a\x0atwo pieces");
/// ```
///
/// # Safety
///
/// A returned range must be valid for reads and writes by the stream alone
/// - until the next call of `next_range`, or until the stream gives up its range with
///   [`StreamWriter::release_range`](super::StreamWriter::release_range), or is dropped, and
/// - as long as the source exists, if a slot of the range stays [`SlotTarget::InPlace`].
pub unsafe trait RangeSource {
    /// Takes back the current range and hands out the next one.
    fn next_range(&mut self, outgoing: Outgoing<'_>) -> Range;

    /// Receives the length of a message whose slot was redirected to [`SlotTarget::Patch`] with
    /// `patch`. The length is a 4-byte varint whose first byte is not 0.
    ///
    /// The default does nothing, for sources that never redirect slots.
    fn patch(&mut self, patch: PatchId, length: [u8; 4]) {
        let _ = (patch, length);
    }
}
