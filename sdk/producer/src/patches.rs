//! Lengths that become known after their chunk was returned.

use std::collections::VecDeque;

use protozero::PatchId;

use tracezero_core::commit::Patch;
use tracezero_core::ids::ChunkId;

/// The open length slots of one writer's returned chunks, oldest first. Those of one chunk stand
/// together.
///
/// A slot that is waiting has `data` of zeros; a length as a redundant varint never begins with 0.
#[derive(Debug, Default)]
pub(super) struct PatchList {
    slots: VecDeque<(ChunkId, Patch)>,
    /// Id of the front slot: slots that were taken out so far, modulo 2^32.
    front_id: u32,
}

impl PatchList {
    /// Appends a slot that waits for its length.
    pub(super) fn push(&mut self, chunk_id: ChunkId, offset_bytes: u16) -> PatchId {
        let id = self.front_id.wrapping_add(self.slots.len() as u32);
        let data = [0; 4];
        self.slots
            .push_back((chunk_id, Patch { offset_bytes, data }));
        PatchId(id)
    }

    /// Fills in the length of a slot. A slot that is not in the list is ignored.
    pub(super) fn fill(&mut self, id: PatchId, length: [u8; 4]) {
        debug_assert_ne!(length[0], 0);
        let index = id.0.wrapping_sub(self.front_id) as usize;
        if let Some((_, patch)) = self.slots.get_mut(index) {
            patch.data = length;
        }
    }

    /// Takes out the front slot if its length is known.
    pub(super) fn pop_ready(&mut self) -> Option<(ChunkId, Patch)> {
        if !self.is_front_ready() {
            return None;
        }
        self.front_id = self.front_id.wrapping_add(1);
        self.slots.pop_front()
    }

    /// Whether there is a front slot and its length is known.
    pub(super) fn is_front_ready(&self) -> bool {
        self.slots
            .front()
            .is_some_and(|(_, patch)| patch.data[0] != 0)
    }

    /// The chunk that the front slot belongs to.
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
    fn slots_leave_in_the_order_in_which_they_came_as_their_lengths_become_known() {
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
    fn the_length_of_a_slot_that_has_left_goes_nowhere() {
        let mut patches = PatchList::default();
        let left = patches.push(ChunkId(0), 0);
        patches.fill(left, length(1));
        patches.pop_ready().unwrap();
        patches.push(ChunkId(1), 0);
        patches.fill(left, length(9));
        assert_eq!(patches.pop_ready(), None);
    }
}
