//! The descriptors of all slots in buffer order: from the oldest slot, which the write cursor
//! reaches next, to the newest slot, which the cursor has just passed.
//!
//! A descriptor takes 32 bytes, about one percent of a typical chunk. The smallest slot takes 16
//! bytes, so the descriptors of chunks without fragments would take more memory than the slots. The
//! number of slots is limited, so that they take at most about as much ([`slots_max`]).

use std::fmt;

use super::slot::{Slot, SlotId};

/// The minimum mean size of the slots of a full table.
const SLOT_BYTES_MEAN_MIN: usize = 64;

/// Returns the maximum number of slots in this much memory: `SLOTS_PER_BUFFER_MAX`. Memory of 64 KiB
/// or less may have as many as fit in.
fn slots_max(size_bytes: u32) -> usize {
    const SLOTS_SMALL_BUFFER: usize = 4096;
    (size_bytes as usize / SLOT_BYTES_MEAN_MIN).max(SLOTS_SMALL_BUFFER)
}

/// A double-ended queue of slots, in which the position of a slot follows from its id.
///
/// `slots.len()` is zero or a power of two, so that ids and positions wrap together. The length
/// grows with the number of slots, within a capacity that is reserved at the start. The allocator
/// maps memory for the whole capacity without touching it.
pub(super) struct SlotTable {
    slots: Vec<Slot>,
    first: SlotId,
    /// A slot before which no slot holds a chunk. At least `first` and at most `end`.
    held_from: SlotId,
    /// The id behind the newest slot.
    end: SlotId,
    /// The maximum number of slots.
    slots_max: usize,
}

impl fmt::Debug for SlotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slots", self.len())
    }
}

impl Clone for SlotTable {
    /// Clones without the spare capacity, because a clone of the buffer accepts no chunks.
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            ..*self
        }
    }
}

impl SlotTable {
    /// Creates an empty table for the slots of this much memory. The table of a buffer of less than
    /// 256 KiB allocates again if its slots are smaller than those of any reasonable writer.
    pub(super) fn for_memory_of(size_bytes: u32) -> Self {
        let reserved = (size_bytes as usize / SLOT_BYTES_MEAN_MIN).next_power_of_two();
        let mut slots = Vec::new();
        // If the memory is refused, the table allocates as it grows.
        let _ = slots.try_reserve_exact(reserved);
        Self {
            slots,
            first: SlotId::default(),
            held_from: SlotId::default(),
            end: SlotId::default(),
            slots_max: slots_max(size_bytes),
        }
    }

    /// Returns the oldest slot.
    #[inline]
    pub(super) fn first(&self) -> SlotId {
        self.first
    }

    /// Returns the slot that [`first_held`](Self::first_held) found last, or `first` if that is
    /// newer.
    #[cfg(test)]
    pub(super) fn held_from(&self) -> SlotId {
        self.held_from
    }

    /// Returns the id behind the newest slot.
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

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.end.count_from(self.first) as usize
    }

    /// Returns true if no slot can be added.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.slots_max
    }

    /// Returns the maximum number of slots.
    pub(super) fn slots_max(&self) -> usize {
        self.slots_max
    }

    /// Lowers the maximum number of slots.
    #[cfg(test)]
    pub(super) fn limit(&mut self, slots_max: usize) {
        self.slots_max = slots_max;
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

    /// Adds padding at the front.
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

    /// Returns the first slot that holds a chunk. Continues where the last search stopped, because
    /// a slot that has become padding stays padding.
    pub(super) fn first_held(&mut self) -> SlotId {
        while self.held_from != self.end && self.get(self.held_from).sequence.is_none() {
            self.held_from = self.held_from.next();
        }
        self.held_from
    }

    /// Doubles the table. The table stops growing when it has room for the maximum number of slots.
    #[cold]
    fn grow(&mut self) {
        const SLOTS_MIN: usize = 64;
        let former_len = self.slots.len();
        let len = (2 * former_len).max(SLOTS_MIN);
        self.slots
            .resize(len, Slot::padding(0, Slot::SIZE_MIN_BYTES));
        // Each slot keeps its position or moves up by the former length, so it never overwrites
        // another one.
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
    fn slots_are_found_by_id_while_table_grows_and_ids_wrap() {
        let near_wrap = (0..100).fold(SlotId::default(), |id, _| id.previous());
        let mut table = SlotTable {
            slots: Vec::new(),
            first: near_wrap,
            held_from: near_wrap,
            end: near_wrap,
            slots_max: usize::MAX,
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
