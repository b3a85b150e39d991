//! The root slot: a length slot outside any message, for the length of a whole root message.

use super::put::{put_at, put_compact_at};
use super::{DELIMITED_ROOM_BYTES, RangeSource, StreamWriter};
use crate::wire::{COMPACT_MAX_BYTES, SLOT_BYTES};

/// The length slot outside any message.
#[derive(Clone, Copy)]
pub(super) enum RootSlot {
    /// There is no slot, or its range was given up.
    None,
    /// A slot of one byte, with this payload address.
    Compact(*mut u8),
    /// A slot of 4 bytes, with this payload address.
    Grown(*mut u8),
}

impl<S: RangeSource> StreamWriter<S> {
    /// Reserves the root slot: a length slot outside any message. A stream has at most one root
    /// slot at a time.
    ///
    /// Fill in the slot with [`StreamWriter::close_slot`]. If the range is given up before that,
    /// the slot stays behind as 4 zero bytes in the old range, and the range's owner must fill it
    /// in. After the end of memory ([`Range::NOWHERE`](super::Range::NOWHERE)), no slot is
    /// reserved.
    #[inline]
    pub fn append_slot(&mut self) {
        let is_outermost = self.slots.len() == 0 && matches!(self.root_slot, RootSlot::None);
        if is_outermost && self.has_room(SLOT_BYTES) {
            self.reserve_root_slot();
        } else {
            self.append_slot_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn append_slot_slow(&mut self) {
        self.end_messages();
        self.give_up_root_slot();
        if self.make_room_for_slot() {
            self.reserve_root_slot();
        }
    }

    /// Appends the root slot. There must be room for it.
    #[inline(always)]
    fn reserve_root_slot(&mut self) {
        self.advance_over_slot();
        self.root_slot = RootSlot::Compact(self.cursor);
    }

    /// Fills in the root slot with a length of one byte. Returns the size of slot and payload
    /// together.
    ///
    /// Does nothing and returns `None` if the slot is not in the current range, if more than
    /// `compact_max` bytes follow it, or if a message is open.
    ///
    /// # Panics
    ///
    /// If `compact_max` exceeds 127.
    #[inline]
    pub fn close_short_slot(&mut self, compact_max: usize) -> Option<usize> {
        assert!(compact_max <= COMPACT_MAX_BYTES);
        let RootSlot::Compact(payload) = self.root_slot else {
            return None;
        };
        let len = self.distance(payload);
        if self.slots.len() != 0 || len > compact_max {
            return None;
        }
        self.root_slot = RootSlot::None;
        self.close_compact(payload, len);
        Some(1 + len)
    }

    /// Ends all open messages and fills in the root slot. Returns the size of slot and payload
    /// together, or `None` if the slot is not in the current range.
    ///
    /// The length takes one byte, or 4 bytes if more than `compact_max` bytes follow the slot.
    ///
    /// # Panics
    ///
    /// If `compact_max` exceeds 127.
    #[cold]
    pub fn close_slot(&mut self, compact_max: usize) -> Option<usize> {
        self.end_messages();
        self.close_short_slot(compact_max).or_else(|| {
            self.grow_slots();
            let RootSlot::Grown(payload) = self.root_slot else {
                return None;
            };
            self.root_slot = RootSlot::None;
            Some(SLOT_BYTES + self.close_grown(payload))
        })
    }

    /// Appends a length of one byte and `bytes`. Returns whether it appended them.
    ///
    /// Appends nothing if `bytes` has more than 127 bytes, or if the current range has fewer than
    /// [`DELIMITED_ROOM_BYTES`] left. The second condition does not depend on the length of
    /// `bytes`. It guarantees that the range is not full afterwards.
    #[inline(always)]
    pub fn append_delimited(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= COMPACT_MAX_BYTES && self.has_room(DELIMITED_ROOM_BYTES);
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
    /// Leaves the root slot as 4 zero bytes; the range's owner fills it in.
    pub(super) fn give_up_root_slot(&mut self) {
        self.grow_slots();
        self.root_slot = RootSlot::None;
    }
}
