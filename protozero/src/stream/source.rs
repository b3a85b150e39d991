//! Where the stream's memory comes from: the trait, and what passes through it.

use core::ptr;

use super::slots::OpenSlots;

/// Smallest range that a source may hand out: a length slot must fit into one.
pub const MIN_RANGE_BYTES: usize = 4;

/// Largest range that a source may hand out. Message lengths are checked when a range is used up,
/// so this bounds how far a message can grow between two checks.
pub const MAX_RANGE_BYTES: usize = 1 << 27;

/// A stretch of memory to write to, or the end of all memory.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// Null for [`Range::NOWHERE`].
    pub(super) begin: *mut u8,
    pub(super) len: usize,
}

impl Range {
    /// There is no more memory. What the stream writes from now on is counted and goes nowhere,
    /// until it gives up this range; the source is not asked again before.
    pub const NOWHERE: Self = Self {
        begin: ptr::null_mut(),
        len: 0,
    };

    /// `len` bytes from `begin`. Making one promises nothing; returning it from
    /// [`RangeSource::next_range`] does.
    ///
    /// # Panics
    ///
    /// If `len` is not within [`MIN_RANGE_BYTES`] to [`MAX_RANGE_BYTES`].
    #[must_use]
    pub fn new(begin: *mut u8, len: usize) -> Self {
        assert!((MIN_RANGE_BYTES..=MAX_RANGE_BYTES).contains(&len));
        Self { begin, len }
    }
}

/// Names a length slot that a source took over with [`Outgoing::redirect`]. Its meaning is the
/// source's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatchId(pub u32);

/// What happens to the length of a message that was still open when its range was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotTarget {
    /// The old range stays where it is: the length is written there.
    InPlace,
    /// The length goes to [`RangeSource::patch`].
    Patch(PatchId),
    /// Nobody wants the length any more.
    Discard,
}

/// The range that is given up, as its source sees it.
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

    /// Bytes written to the range, from its start. 0 if there was no range yet.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Asks, for every open length slot that lies in this range, from the outermost message
    /// inwards, where its length shall go. The closure gets the slot's offset from the start of
    /// the range. Slots that are never asked about stay [`SlotTarget::InPlace`].
    pub fn redirect(&mut self, target: impl FnMut(usize) -> SlotTarget) {
        self.slots
            .leave_range(self.begin, self.begin_position, target);
    }
}

impl Drop for Outgoing<'_> {
    fn drop(&mut self) {
        // Without effect if the source has redirected the slots already.
        self.redirect(|_| SlotTarget::InPlace);
    }
}

/// Provides the memory that a [`StreamWriter`](super::StreamWriter) writes to, range by range.
///
/// Both methods are called from cold paths only, the first one when a range is used up. So messages hold the
/// source as a trait object, and no field costs a virtual call.
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

    /// Takes the length of a message whose slot was redirected to `patch`, as a 4-byte varint
    /// whose first byte is not 0.
    ///
    /// Sources that never redirect have nothing to do here.
    fn patch(&mut self, patch: PatchId, length: [u8; 4]) {
        let _ = (patch, length);
    }
}
