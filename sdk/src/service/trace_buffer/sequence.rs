//! One sequence: its chunks in the order of their ids, what precedes them, and its losses.

use std::collections::VecDeque;

use crate::ids::{ChunkId, ProducerId, WriterId};

use super::chunk::ClientIdentity;
use super::chunk_window::ChunkWindow;
use super::loss::LossMask;
use super::ring::SlotId;
use super::stats::{ChunkPayloadHistogram, PacketCounts};

/// Place of a sequence in the table of sequences; never reused for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SequenceIndex(pub(super) u32);

/// Whether `a` is newer than `b`, for ids that wrap at 2^32.
#[inline]
pub(super) fn is_newer(a: ChunkId, b: ChunkId) -> bool {
    a != b && a.0.wrapping_sub(b.0) < 1 << 31
}

/// A chunk of a sequence that is in the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedChunk {
    pub(super) id: ChunkId,
    pub(super) slot: SlotId,
}

/// The newest chunk that left the sequence, read or evicted.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConsumedChunk {
    pub(super) id: ChunkId,
    pub(super) payload_bytes: u16,
    pub(super) was_incomplete: bool,
}

/// What one writer wrote.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) producer_id: ProducerId,
    pub(super) writer_id: WriterId,
    /// As it came with the first chunk since the sequence was last forgotten.
    pub(super) client: ClientIdentity,
    /// Chunks in the buffer, oldest id first. No id occurs twice.
    chunks: VecDeque<QueuedChunk>,
    /// Never moves back, even if a chunk older than it is read later.
    pub(super) last_consumed: Option<ConsumedChunk>,
    /// Losses that the next packet reports.
    pending: LossMask,
    /// Losses behind chunks that are yet to be read: the next packet of a chunk not older than
    /// `last_consumed` reports them.
    pending_behind: LossMask,
    /// While room is made for an older chunk of this very sequence: its id.
    incoming: Option<ChunkId>,
    /// The read cycle in which the sequence cannot go on.
    pub(super) stalled_in_cycle: u64,
    pub(super) counts: PacketCounts,
    pub(super) histogram: ChunkPayloadHistogram,
    /// Chunks whose packets are in `counts`.
    pub(super) accounted: ChunkWindow,
}

impl Sequence {
    pub(super) fn new(producer_id: ProducerId, writer_id: WriterId) -> Self {
        Self {
            producer_id,
            writer_id,
            client: ClientIdentity::default(),
            chunks: VecDeque::new(),
            last_consumed: None,
            pending: LossMask::NONE,
            pending_behind: LossMask::NONE,
            incoming: None,
            stalled_in_cycle: 0,
            counts: PacketCounts::default(),
            histogram: ChunkPayloadHistogram::default(),
            accounted: ChunkWindow::default(),
        }
    }

    /// Drops what is known about the order of the sequence; what was counted stays.
    pub(super) fn forget(&mut self) {
        debug_assert!(self.chunks.is_empty());
        self.chunks = VecDeque::new();
        self.last_consumed = None;
        self.pending = LossMask::NONE;
        self.pending_behind = LossMask::NONE;
        self.stalled_in_cycle = 0;
    }

    #[inline]
    pub(super) fn front(&self) -> Option<QueuedChunk> {
        self.chunks.front().copied()
    }

    #[inline]
    pub(super) fn back(&self) -> Option<QueuedChunk> {
        self.chunks.back().copied()
    }

    /// The chunk at a position, counted from the oldest.
    pub(super) fn chunk(&self, position: usize) -> Option<QueuedChunk> {
        self.chunks.get(position).copied()
    }

    pub(super) fn chunks(&self) -> impl Iterator<Item = QueuedChunk> {
        self.chunks.iter().copied()
    }

    /// The chunk with this id. Does not depend on how many there are: where no id is missing, its
    /// position follows from the newest one's.
    pub(super) fn find(&self, id: ChunkId) -> Option<QueuedChunk> {
        let (oldest, newest) = (self.front()?, self.back()?);
        if is_newer(oldest.id, id) || is_newer(id, newest.id) {
            return None;
        }
        let behind = newest.id.0.wrapping_sub(id.0) as usize;
        if let Some(position) = (self.chunks.len() - 1).checked_sub(behind)
            && self.chunks[position].id == id
        {
            return self.chunk(position);
        }
        self.chunk(self.position_of(id))
            .filter(|found| found.id == id)
    }

    /// The position of the oldest chunk that is not older than `id`.
    fn position_of(&self, id: ChunkId) -> usize {
        self.chunks.partition_point(|chunk| is_newer(id, chunk.id))
    }

    /// Puts a chunk in its place; returns whether newer ones are there already.
    #[inline]
    pub(super) fn insert(&mut self, chunk: QueuedChunk) -> bool {
        match self.back() {
            Some(newest) if !is_newer(chunk.id, newest.id) => {
                self.chunks.insert(self.position_of(chunk.id), chunk);
                true
            }
            _ => {
                self.chunks.push_back(chunk);
                false
            }
        }
    }

    /// Removes the oldest chunk and makes it the one that precedes the rest.
    #[inline]
    pub(super) fn pop_front(&mut self, consumed: ConsumedChunk) {
        self.chunks.pop_front();
        self.accounted.note(
            consumed.id,
            consumed.payload_bytes,
            !consumed.was_incomplete,
        );
        if let Some(last) = self.last_consumed {
            if is_newer(last.id, consumed.id) {
                // Evicted before an older one arrived, it stays ahead of that.
                return;
            }
            if let Some(incoming) = self.incoming
                && is_newer(consumed.id, incoming)
                && is_newer(incoming, last.id.next())
            {
                // The last moment at which what precedes the chunk to come is known.
                self.add_loss(incoming, LossMask::READ_GAP);
            }
        }
        self.last_consumed = Some(consumed);
    }

    /// Looks at what precedes the oldest chunk, which starts to be consumed now. Each chunk needs
    /// this once.
    #[inline]
    pub(super) fn check_gap(&mut self, id: ChunkId) {
        let last = self.last_consumed.map(|last| last.id);
        // The chunk that is about to be stored may belong between.
        let incoming = self.incoming.filter(|&incoming| {
            is_newer(id, incoming) && last.is_none_or(|last| is_newer(incoming, last))
        });
        let Some(predecessor) = incoming.or(last) else {
            return;
        };
        // An older id is no gap: a chunk that was consumed while it was incomplete comes back, or
        // newer ones were evicted before it arrived.
        if is_newer(id, predecessor.next()) {
            self.add_loss(id, LossMask::READ_GAP);
        }
    }

    /// Lets the losses behind older chunks come up if `id`, the oldest chunk, is behind them: it
    /// follows the newest consumed one, or is the rest of that.
    #[inline]
    pub(super) fn reach(&mut self, id: ChunkId) {
        if !self.pending_behind.is_empty()
            && self.incoming.is_none()
            && self.last_consumed.is_none_or(|last| !is_newer(last.id, id))
        {
            self.pending |= std::mem::take(&mut self.pending_behind);
        }
    }

    /// Notes a loss at or directly before the chunk `at`.
    pub(super) fn add_loss(&mut self, at: ChunkId, cause: LossMask) {
        let next_to_read = self.incoming.or(self.front().map(|front| front.id));
        match next_to_read {
            Some(next) if is_newer(at, next) => self.pending_behind |= cause,
            _ => self.pending |= cause,
        }
    }

    /// The losses that precede the packet that goes now.
    pub(super) fn losses(&self) -> LossMask {
        self.pending
    }

    /// The losses that precede the packet that is delivered now. They are reported with it.
    #[inline]
    pub(super) fn take_losses(&mut self) -> LossMask {
        std::mem::take(&mut self.pending)
    }

    /// Announces the chunk that room is made for, if newer ones may have to go for it.
    #[inline]
    pub(super) fn expect(&mut self, id: ChunkId) {
        self.incoming = self
            .back()
            .filter(|newest| is_newer(newest.id, id))
            .map(|_| id);
    }

    /// Ends [`Sequence::expect`].
    #[inline]
    pub(super) fn expect_none(&mut self) {
        self.incoming = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::trace_buffer::ring::SlotId;

    fn sequence(ids: &[u32]) -> Sequence {
        let mut sequence = Sequence::new(ProducerId(1), WriterId(1));
        for &id in ids {
            sequence.insert(QueuedChunk {
                id: ChunkId(id),
                slot: SlotId::default(),
            });
        }
        sequence
    }

    fn ids(sequence: &Sequence) -> Vec<u32> {
        sequence.chunks().map(|chunk| chunk.id.0).collect()
    }

    #[test]
    fn newer_means_less_than_half_the_id_space_ahead() {
        assert!(is_newer(ChunkId(1), ChunkId(0)));
        assert!(is_newer(ChunkId(0), ChunkId(u32::MAX)));
        assert!(!is_newer(ChunkId(0), ChunkId(0)));
        assert!(!is_newer(ChunkId(0), ChunkId(1)));
        assert!(is_newer(ChunkId((1 << 31) - 1), ChunkId(0)));
        assert!(!is_newer(ChunkId(1 << 31), ChunkId(0)));
    }

    #[test]
    fn chunks_are_kept_in_the_order_of_ids_that_wrap() {
        let max = u32::MAX;
        assert_eq!(ids(&sequence(&[max - 1, 1, 0, max])), [max - 1, max, 0, 1]);
    }

    #[test]
    fn chunks_are_found_with_and_without_missing_ids() {
        let sequence = sequence(&[u32::MAX, 0, 1, 4, 9]);
        for id in [u32::MAX, 0, 1, 4, 9] {
            assert_eq!(
                sequence.find(ChunkId(id)).map(|chunk| chunk.id),
                Some(ChunkId(id))
            );
        }
        for id in [u32::MAX - 1, 2, 3, 5, 8, 10, 1 << 31] {
            assert!(sequence.find(ChunkId(id)).is_none(), "{id}");
        }
    }

    #[test]
    fn the_chunk_that_is_about_to_be_stored_fills_its_gap() {
        for (evicted, lost_behind) in [(3, LossMask::NONE), (4, LossMask::READ_GAP)] {
            let mut sequence = sequence(&[evicted]);
            sequence.expect(ChunkId(2));
            sequence.check_gap(ChunkId(evicted));
            assert_eq!(
                (sequence.pending, sequence.pending_behind),
                (LossMask::NONE, lost_behind)
            );
        }
    }
}
