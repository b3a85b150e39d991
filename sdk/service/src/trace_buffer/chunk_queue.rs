//! A queue of chunks sorted by id. Inserting stays cheap, whatever the order in which the chunks
//! come.

use std::collections::VecDeque;

use tracezero_core::ids::ChunkId;

use super::slot::SlotId;

/// A chunk of a sequence, in the buffer.
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

/// The maximum number of chunks that are moved to insert one at its place in the main queue.
const MOVES_MAX: usize = 1024;

/// The chunks of one sequence, sorted by id, without duplicates.
///
/// A chunk that belongs far from both ends goes into a second, much smaller queue, so that it moves
/// only few others. When the length of the second queue reaches the square root of the first
/// queue's length, the two queues are merged. So the number of moves per chunk grows at most with
/// this square root. A scrape disturbs the order only near the end, and needs only the first queue.
#[derive(Clone, Debug, Default)]
pub(super) struct ChunkQueue {
    chunks: VecDeque<QueuedChunk>,
    /// Chunks that are not yet merged into `chunks`.
    late: VecDeque<QueuedChunk>,
    /// The number of moves of chunks so far.
    #[cfg(test)]
    moves: usize,
}

/// Returns the position of the oldest chunk in `chunks` that is not older than `id`.
fn position_of(chunks: &VecDeque<QueuedChunk>, id: ChunkId) -> usize {
    chunks.partition_point(|chunk| id.is_newer_than(chunk.id))
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

    /// Adds a chunk at its place in the order.
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

    /// Moves the late chunks to their places, the newest first.
    fn merge(&mut self) {
        let mut unmoved = self.chunks.len();
        self.chunks.extend(&self.late);
        let mut free = self.chunks.len();
        while let Some(&late) = self.late.back() {
            free -= 1;
            self.note_moves(1);
            if unmoved > 0 && self.chunks[unmoved - 1].id.is_newer_than(late.id) {
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
            && (self.chunks.front()).is_none_or(|chunk| chunk.id.is_newer_than(late.id))
        {
            return self.late.pop_front();
        }
        self.chunks.pop_front()
    }

    /// Returns the number of chunks that the memory has room for.
    pub(super) fn capacity(&self) -> usize {
        self.chunks.capacity() + self.late.capacity()
    }

    /// Gives back memory that is not in use.
    pub(super) fn shrink_to_fit(&mut self) {
        self.chunks.shrink_to_fit();
        self.late.shrink_to_fit();
    }

    /// Returns the chunk with this id. If no id is missing, its position is computed from the
    /// newest id.
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

    /// Returns all chunks, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = QueuedChunk> {
        let mut chunks = self.chunks.iter().peekable();
        let mut late = self.late.iter().peekable();
        std::iter::from_fn(move || {
            let is_late_next = match (chunks.peek(), late.peek()) {
                (Some(chunk), Some(late)) => chunk.id.is_newer_than(late.id),
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

    /// Returns `count` consecutive ids, shuffled, on both sides of the wrap.
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
    fn chunks_inserted_in_any_order_come_out_by_id() {
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
    fn chunks_out_of_order_move_few_others() {
        for count in [1 << 16, 1 << 18] {
            let mut queue = ChunkQueue::default();
            shuffled(count).for_each(|chunk| queue.insert(chunk));
            let moves_each = queue.moves / count as usize;
            assert!(moves_each < 2 * MOVES_MAX, "{moves_each} for {count}");
        }
        // Insert in reverse order, as a scrape does if chunks lie in the shared memory in that
        // order.
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
