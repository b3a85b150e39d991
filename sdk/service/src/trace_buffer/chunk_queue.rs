//! A queue of chunks in the order of their ids that stays cheap when they come in any order.

use std::collections::VecDeque;

use tracezero_core::ids::ChunkId;

use super::sequence::is_newer;
use super::slot::SlotId;

/// A chunk of a sequence that is in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueuedChunk {
    pub(super) id: ChunkId,
    pub(super) slot: SlotId,
}

impl Default for QueuedChunk {
    fn default() -> Self {
        Self {
            id: ChunkId(0),
            slot: SlotId::default(),
        }
    }
}

/// A chunk is put straight in its place if at most so many others must move for it.
const MOVES_MAX: usize = 1024;

/// Chunks of one sequence, in the order of their ids, of which none occurs twice.
///
/// A chunk that belongs far from both ends waits in a second, much smaller queue, so that it moves
/// only the few others that wait there. When about as many wait as the root of all there are, the
/// two are merged. Thereby a chunk that comes out of order moves a number of others that grows with
/// that root, whatever the order; a scrape, which disturbs the order near the end alone, gets by
/// with the first queue.
#[derive(Clone, Debug, Default)]
pub(super) struct ChunkQueue {
    chunks: VecDeque<QueuedChunk>,
    /// Those that are not merged yet.
    late: VecDeque<QueuedChunk>,
    /// How many chunks were moved for others.
    #[cfg(test)]
    moves: usize,
}

/// The position in `chunks` of the oldest one that is not older than `id`.
fn position_of(chunks: &VecDeque<QueuedChunk>, id: ChunkId) -> usize {
    chunks.partition_point(|chunk| is_newer(id, chunk.id))
}

impl ChunkQueue {
    /// Adds a chunk that is older than all others.
    pub(super) fn push_oldest(&mut self, chunk: QueuedChunk) {
        self.chunks.push_front(chunk);
    }

    /// Adds a chunk that is newer than all others.
    #[inline]
    pub(super) fn push_newest(&mut self, chunk: QueuedChunk) {
        self.chunks.push_back(chunk);
    }

    /// Adds a chunk in its place.
    pub(super) fn insert(&mut self, chunk: QueuedChunk) {
        let position = position_of(&self.chunks, chunk.id);
        let moves = position.min(self.chunks.len() - position);
        if moves <= MOVES_MAX {
            self.note_moves(moves);
            self.chunks.insert(position, chunk);
            return;
        }
        let position = position_of(&self.late, chunk.id);
        self.note_moves(position.min(self.late.len() - position));
        self.late.insert(position, chunk);
        if self.late.len() >= MOVES_MAX.max(self.chunks.len().isqrt()) {
            self.merge();
        }
    }

    /// Moves the late chunks in their places, from the newest on.
    fn merge(&mut self) {
        let mut unmoved = self.chunks.len();
        self.chunks.extend(&self.late);
        let mut free = self.chunks.len();
        while let Some(&late) = self.late.back() {
            free -= 1;
            self.note_moves(1);
            if unmoved > 0 && is_newer(self.chunks[unmoved - 1].id, late.id) {
                unmoved -= 1;
                self.chunks[free] = self.chunks[unmoved];
            } else {
                self.chunks[free] = late;
                self.late.pop_back();
            }
        }
    }

    /// Removes the oldest chunk.
    #[inline]
    pub(super) fn pop_oldest(&mut self) -> Option<QueuedChunk> {
        if let Some(late) = self.late.front()
            && (self.chunks.front()).is_none_or(|chunk| is_newer(chunk.id, late.id))
        {
            return self.late.pop_front();
        }
        self.chunks.pop_front()
    }

    /// The chunk with this id. Where no id is missing, its position follows from the newest one's.
    pub(super) fn find(&self, id: ChunkId) -> Option<QueuedChunk> {
        if let Some(newest) = self.chunks.back()
            && let behind = newest.id.0.wrapping_sub(id.0) as usize
            && let Some(position) = (self.chunks.len() - 1).checked_sub(behind)
            && self.chunks[position].id == id
        {
            return Some(self.chunks[position]);
        }
        [&self.chunks, &self.late]
            .into_iter()
            .filter_map(|chunks| chunks.get(position_of(chunks, id)))
            .find(|found| found.id == id)
            .copied()
    }

    /// All chunks, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = QueuedChunk> {
        let mut chunks = self.chunks.iter().peekable();
        let mut late = self.late.iter().peekable();
        std::iter::from_fn(move || {
            let is_late_next = match (chunks.peek(), late.peek()) {
                (Some(chunk), Some(late)) => is_newer(chunk.id, late.id),
                (chunk, _) => chunk.is_none(),
            };
            if is_late_next {
                late.next().copied()
            } else {
                chunks.next().copied()
            }
        })
    }

    #[cfg(test)]
    fn note_moves(&mut self, moves: usize) {
        self.moves += moves;
    }

    #[cfg(not(test))]
    #[inline]
    fn note_moves(&mut self, _: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids `0..count`, shuffled, on both sides of their wrap.
    fn shuffled(count: u32) -> impl Iterator<Item = QueuedChunk> {
        assert!(count.is_power_of_two());
        // Multiplication by an odd number permutes the numbers below a power of two.
        (0..count).map(move |i| QueuedChunk {
            id: ChunkId((i.wrapping_mul(0x9e37_79b1) & (count - 1)).wrapping_sub(count / 2)),
            slot: SlotId::default(),
        })
    }

    fn offsets(chunks: impl Iterator<Item = QueuedChunk>, count: u32) -> Vec<u32> {
        chunks
            .map(|chunk| chunk.id.0.wrapping_add(count / 2))
            .collect()
    }

    #[test]
    fn chunks_in_any_order_are_found_and_come_out_in_the_order_of_their_ids() {
        const COUNT: u32 = 1 << 14;
        let mut queue = ChunkQueue::default();
        for (stored, chunk) in shuffled(COUNT).enumerate() {
            assert_eq!(queue.find(chunk.id), None);
            queue.insert(chunk);
            if stored.is_multiple_of(500) {
                let known: Vec<_> = shuffled(COUNT).take(stored + 1).collect();
                assert!(known.iter().all(|chunk| queue.find(chunk.id).is_some()));
                let mut expected = offsets(known.into_iter(), COUNT);
                expected.sort_unstable();
                assert_eq!(offsets(queue.iter(), COUNT), expected);
            }
        }
        assert!(!queue.late.is_empty(), "some wait to be merged");
        let popped = std::iter::from_fn(|| queue.pop_oldest());
        assert!(offsets(popped, COUNT).into_iter().eq(0..COUNT));
    }

    #[test]
    fn chunks_out_of_order_move_few_others_however_many_there_are() {
        for count in [1 << 16, 1 << 18] {
            let mut queue = ChunkQueue::default();
            shuffled(count).for_each(|chunk| queue.insert(chunk));
            let moves_each = queue.moves / count as usize;
            assert!(moves_each < 2 * MOVES_MAX, "{moves_each} for {count}");
        }
        // As a scrape of a ring in which chunks lie in reverse order.
        let mut queue = ChunkQueue::default();
        for id in (0..1 << 16).rev() {
            queue.insert(QueuedChunk {
                id: ChunkId(id),
                slot: SlotId::default(),
            });
        }
        assert_eq!(queue.moves, 0);
    }
}
