//! The slot outside any message: for the length of a whole packet.

use super::put::{put_at, put_compact_at};
use super::{DELIMITED_ROOM_BYTES, RangeSource, StreamWriter};
use crate::wire::{MAX_COMPACT_BYTES, SLOT_BYTES};

/// The slot outside any message.
#[derive(Clone, Copy)]
pub(super) enum Frame {
    /// There is none, or its range was given up.
    None,
    /// Of one byte, with this payload address.
    Compact(*mut u8),
    /// Of 4 bytes, with this payload address.
    Grown(*mut u8),
}

impl<S: RangeSource> StreamWriter<S> {
    /// Reserves a length slot outside any message, of which there is one at a time.
    ///
    /// Fill it in with [`StreamWriter::close_slot`]. One that is not filled in, because the range was
    /// given up before, is left to its owner as 4 bytes of 0, in the place where it was reserved.
    /// Where memory has ended ([`Range::NOWHERE`](super::Range::NOWHERE)), there is no slot.
    #[inline]
    pub fn append_slot(&mut self) {
        let is_outermost = self.slots.len() == 0 && matches!(self.frame, Frame::None);
        if is_outermost && self.has_room(SLOT_BYTES) {
            self.reserve_frame();
        } else {
            self.append_slot_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn append_slot_slow(&mut self) {
        self.end_messages();
        self.give_up_frame();
        if self.make_room_for_slot() {
            self.reserve_frame();
        }
    }

    /// Appends the slot of the frame, for which there must be room.
    #[inline(always)]
    fn reserve_frame(&mut self) {
        self.advance_over_slot();
        self.frame = Frame::Compact(self.cursor);
    }

    /// Fills in the slot outside any message with a length of one byte, if no message is open and at
    /// most `compact_max` bytes follow the slot, all in the current range. Returns how many bytes slot
    /// and payload take together. If it returns `None`, nothing was done.
    ///
    /// # Panics
    ///
    /// If `compact_max` exceeds 127.
    #[inline]
    pub fn close_short_slot(&mut self, compact_max: usize) -> Option<usize> {
        assert!(compact_max <= MAX_COMPACT_BYTES);
        let Frame::Compact(payload) = self.frame else {
            return None;
        };
        let len = self.distance(payload);
        if self.slots.len() != 0 || len > compact_max {
            return None;
        }
        self.frame = Frame::None;
        self.close_compact(payload, len);
        Some(1 + len)
    }

    /// Fills in the slot outside any message, if it lies in the current range, and ends messages that
    /// are still open. If more than `compact_max` bytes follow the slot, the length takes 4 bytes.
    /// Returns how many bytes slot and payload take together.
    ///
    /// # Panics
    ///
    /// If `compact_max` exceeds 127.
    #[cold]
    pub fn close_slot(&mut self, compact_max: usize) -> Option<usize> {
        self.end_messages();
        self.close_short_slot(compact_max).or_else(|| {
            self.grow_slots();
            let Frame::Grown(payload) = self.frame else {
                return None;
            };
            self.frame = Frame::None;
            Some(SLOT_BYTES + self.close_grown(payload))
        })
    }

    /// Appends a length of one byte and that many `bytes`, if they are at most 127 and the current
    /// range has [`DELIMITED_ROOM_BYTES`] left, whatever they need; so it is not full afterwards.
    /// Returns whether it did.
    #[inline(always)]
    pub fn append_delimited(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= MAX_COMPACT_BYTES && self.has_room(DELIMITED_ROOM_BYTES);
        if fits {
            // SAFETY: there is room for a length and for 127 bytes (invariant 1).
            let bytes_at = unsafe { put_at(self.cursor, &[bytes.len() as u8]) };
            // SAFETY: as above.
            self.cursor = unsafe { put_compact_at(bytes_at, bytes) };
        }
        fits
    }
}

impl<S: RangeSource + ?Sized> StreamWriter<S> {
    /// Leaves the slot outside any message to its owner.
    pub(super) fn give_up_frame(&mut self) {
        self.grow_slots();
        self.frame = Frame::None;
    }
}
