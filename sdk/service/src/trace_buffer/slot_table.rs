//! The descriptors of all slots, in the order of the buffer: it starts behind the write cursor with the
//! oldest and ends before it with the newest.
//!
//! A descriptor takes 32 bytes, about one percent of a usual chunk. Chunks without fragments are the
//! limit: the descriptors of nothing but those take up to four times the memory they describe.

use std::fmt;

use super::slot::{Slot, SlotId};

/// A double-ended queue of slots in which an id leads straight to its slot.
///
/// `slots.len()` is zero or a power of two, so that ids and places wrap together. It grows with the
/// number of slots, into capacity that is there from the start: the allocator maps so much memory
/// without touching it.
pub(super) struct SlotTable {
    slots: Vec<Slot>,
    first: SlotId,
    /// No slot before this one holds a chunk. At most `end`, and never before `first`.
    held_from: SlotId,
    /// Behind the last one.
    end: SlotId,
}

impl fmt::Debug for SlotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slots", self.len())
    }
}

impl Clone for SlotTable {
    /// Without the capacity: a clone takes no chunks.
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            ..*self
        }
    }
}

impl SlotTable {
    /// An empty table for the slots of so much memory. It allocates later on only if slots are
    /// smaller, on average, than those of any sensible writer.
    pub(super) fn for_memory_of(size_bytes: u32) -> Self {
        const SLOT_BYTES_MEAN_MIN: usize = 64;
        let slots_max = (size_bytes as usize / SLOT_BYTES_MEAN_MIN).next_power_of_two();
        let mut slots = Vec::new();
        // Where the memory is refused, the table takes it bit by bit.
        let _ = slots.try_reserve_exact(slots_max);
        Self {
            slots,
            first: SlotId::default(),
            held_from: SlotId::default(),
            end: SlotId::default(),
        }
    }

    /// The oldest one.
    #[inline]
    pub(super) fn first(&self) -> SlotId {
        self.first
    }

    /// The one that [`first_held`](Self::first_held) found last, or a newer first one.
    #[cfg(test)]
    pub(super) fn held_from(&self) -> SlotId {
        self.held_from
    }

    /// The one behind the newest.
    #[inline]
    pub(super) fn end(&self) -> SlotId {
        self.end
    }

    #[inline]
    fn place(&self, id: SlotId) -> usize {
        id.place_among(self.slots.len())
    }

    #[inline]
    pub(super) fn get(&self, id: SlotId) -> &Slot {
        &self.slots[self.place(id)]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: SlotId) -> &mut Slot {
        let place = self.place(id);
        &mut self.slots[place]
    }

    pub(super) fn len(&self) -> usize {
        self.end.count_from(self.first) as usize
    }

    #[inline]
    pub(super) fn push_back(&mut self, slot: Slot) -> SlotId {
        if self.len() == self.slots.len() {
            self.grow();
        }
        let id = self.end;
        self.end = id.next();
        *self.get_mut(id) = slot;
        id
    }

    /// Puts padding in front.
    pub(super) fn push_front(&mut self, slot: Slot) {
        debug_assert!(slot.sequence.is_none());
        if self.len() == self.slots.len() {
            self.grow();
        }
        self.first = self.first.previous();
        *self.get_mut(self.first) = slot;
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Slot {
        debug_assert_ne!(self.first, self.end);
        let slot = *self.get(self.first);
        let next = self.first.next();
        if self.held_from == self.first {
            self.held_from = next;
        }
        self.first = next;
        slot
    }

    /// The first slot that holds a chunk. One that does not never does again.
    pub(super) fn first_held(&mut self) -> SlotId {
        while self.held_from != self.end && self.get(self.held_from).sequence.is_none() {
            self.held_from = self.held_from.next();
        }
        self.held_from
    }

    /// Doubles the table. Ends for good once the table holds as many slots as the memory has.
    #[cold]
    fn grow(&mut self) {
        const SLOTS_MIN: usize = 64;
        let former_len = self.slots.len();
        let len = (2 * former_len).max(SLOTS_MIN);
        self.slots
            .resize(len, Slot::padding(0, Slot::SIZE_MIN_BYTES));
        // A slot stays, or moves up by the former length: never to where another one still is.
        let mut id = self.first;
        while id != self.end {
            self.slots[id.place_among(len)] = self.slots[id.place_among(former_len)];
            id = id.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_to_their_slots_while_the_table_grows_and_ids_wrap() {
        let near_wrap = (0..100).fold(SlotId::default(), |id, _| id.previous());
        let mut table = SlotTable {
            slots: Vec::new(),
            first: near_wrap,
            held_from: near_wrap,
            end: near_wrap,
        };
        let mut ids = Vec::new();
        for offset in 0..300 {
            ids.push((table.push_back(Slot::padding(offset * 16, 16)), offset * 16));
            if offset % 3 == 0 {
                assert_eq!(table.pop_front().offset, ids.remove(0).1);
            }
            for &(id, offset) in &ids {
                assert_eq!(table.get(id).offset, offset);
            }
        }
    }
}
