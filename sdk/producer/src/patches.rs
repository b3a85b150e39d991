//! Lengths that become known after their chunk was returned.

use std::collections::VecDeque;

use protozero::PatchId;

use tracezero_core::commit::Patch;
use tracezero_core::ids::ChunkId;

/// The open length slots of one writer's returned chunks, oldest first. The slots of a chunk are
/// next to each other.
///
/// The `data` of a slot whose length is still unknown is all zeros. A known length is a redundant
/// varint, which never begins with 0.
#[derive(Debug, Default)]
pub(super) struct PatchList {
    slots: VecDeque<(ChunkId, Patch)>,
    /// The id of the front slot: the number of slots removed so far, modulo 2^32.
    front_id: u32,
}

impl PatchList {
    /// Appends a slot whose length is still unknown.
    pub(super) fn push(&mut self, chunk_id: ChunkId, offset_bytes: u16) -> PatchId {
        let id = self.front_id.wrapping_add(self.slots.len() as u32);
        let data = [0; 4];
        self.slots
            .push_back((chunk_id, Patch { offset_bytes, data }));
        PatchId(id)
    }

    /// Sets the length of a slot. Ignores a slot that is not in the list.
    pub(super) fn fill(&mut self, id: PatchId, length: [u8; 4]) {
        debug_assert_ne!(length[0], 0);
        let index = id.0.wrapping_sub(self.front_id) as usize;
        if let Some((_, patch)) = self.slots.get_mut(index) {
            patch.data = length;
        }
    }

    /// Removes and returns the front slot, if its length is known.
    pub(super) fn pop_ready(&mut self) -> Option<(ChunkId, Patch)> {
        if !self.is_front_ready() {
            return None;
        }
        self.front_id = self.front_id.wrapping_add(1);
        self.slots.pop_front()
    }

    /// Returns true if there is a front slot and its length is known.
    pub(super) fn is_front_ready(&self) -> bool {
        self.slots
            .front()
            .is_some_and(|(_, patch)| patch.data[0] != 0)
    }

    /// Returns the chunk of the front slot.
    pub(super) fn front_chunk_id(&self) -> Option<ChunkId> {
        self.slots.front().map(|(chunk_id, _)| *chunk_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(value: u8) -> [u8; 4] {
        protozero::redundant_varint(u32::from(value))
    }

    #[test]
    fn slots_leave_in_order_once_their_lengths_are_known() {
        let mut patches = PatchList::default();
        assert_eq!(patches.pop_ready(), None);
        for round in 0..3 {
            assert_eq!(patches.front_chunk_id(), None);
            let ids = [(1, 10), (1, 20), (2, 5)]
                .map(|(chunk_id, offset)| patches.push(ChunkId(chunk_id), offset));
            assert_eq!(patches.front_chunk_id(), Some(ChunkId(1)));
            patches.fill(ids[1], length(2));
            assert!(!patches.is_front_ready());
            assert_eq!(patches.pop_ready(), None);
            patches.fill(ids[0], length(round));
            let first = patches.pop_ready().unwrap();
            assert_eq!(first.0, ChunkId(1));
            assert_eq!(first.1.offset_bytes, 10);
            assert_eq!(first.1.data, length(round));
            assert_eq!(patches.pop_ready().unwrap().1.offset_bytes, 20);
            assert_eq!(patches.pop_ready(), None);
            patches.fill(ids[2], length(3));
            assert_eq!(patches.pop_ready().unwrap().0, ChunkId(2));
        }
    }

    #[test]
    fn a_slot_keeps_its_id_while_earlier_ones_leave() {
        let mut patches = PatchList {
            front_id: u32::MAX - 500, // wraps on the way
            ..PatchList::default()
        };
        let ids: Vec<_> = (0..1000)
            .map(|offset| patches.push(ChunkId(7), offset))
            .collect();
        for id in &ids[..990] {
            patches.fill(*id, length(1));
            assert!(patches.pop_ready().is_some());
        }
        for id in &ids[990..] {
            patches.fill(*id, length(id.0 as u8));
        }
        for (offset, id) in (990..).zip(&ids[990..]) {
            let (_, patch) = patches.pop_ready().unwrap();
            assert_eq!(patch.offset_bytes, offset);
            assert_eq!(patch.data, length(id.0 as u8));
        }
    }

    #[test]
    fn length_of_a_removed_slot_is_ignored() {
        let mut patches = PatchList::default();
        let left = patches.push(ChunkId(0), 0);
        patches.fill(left, length(1));
        patches.pop_ready().unwrap();
        patches.push(ChunkId(1), 0);
        patches.fill(left, length(9));
        assert_eq!(patches.pop_ready(), None);
    }
}
