//! One sequence: its chunks sorted by id, the chunk that precedes them, and its losses.
//!
//! Each loss is reported once, with the first packet behind it. Perfetto's own buffer has four
//! defects here. It does not report a gap that is crossed within one read. An old gap can destroy a
//! good packet. A read that is resumed reports a gap again. And aborts and overwrites can be
//! reported before the place of the loss. The scenarios in `tests/conformance/` were run on
//! Perfetto's own buffer. If one of them shows such a defect, its twin with the attribute `ideal`
//! takes its place.

use std::num::NonZeroU32;

use tracezero_core::ids::ChunkId;

use super::chunk_queue::{ChunkQueue, QueuedChunk};
use super::loss::LossMask;

/// The position of a sequence in the table of sequences. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SequenceIndex(NonZeroU32);

impl SequenceIndex {
    /// Creates the index of a position that counts from 0. A table has at most
    /// `SEQUENCES_PER_BUFFER_MAX` sequences, so `position` is less than 2^32 - 1.
    pub(super) fn new(position: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(position as u32))
    }

    #[inline]
    pub(super) fn position(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A chunk that left the sequence, read or evicted.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConsumedChunk {
    pub(super) id: ChunkId,
    pub(super) payload_bytes: u16,
    pub(super) was_incomplete: bool,
}

impl ConsumedChunk {
    /// Returns the chunk that reaches further: the newer one or, if both are the same chunk, the
    /// complete or longer one.
    pub(super) fn further(self, other: Self) -> Self {
        let reach = |chunk: &Self| (!chunk.was_incomplete, chunk.payload_bytes);
        if other.id.is_newer_than(self.id) || other.id == self.id && reach(&other) > reach(&self) {
            other
        } else {
            self
        }
    }
}

/// The number of chunks at the ends of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ends {
    #[default]
    None,
    /// One chunk, which is both the oldest and the newest.
    Same,
    Two,
}

/// The neighbors of a sequence in the list of empty sequences.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Links {
    pub(super) older: Option<SequenceIndex>,
    pub(super) newer: Option<SequenceIndex>,
}

/// The state of one sequence that concerns the order of its chunks.
///
/// With thousands of writers, the cost of storing and evicting a chunk is that of the cache lines
/// that are touched. This struct is one line. If there are at most two chunks, no other memory is
/// needed.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(super) struct Sequence {
    ends: Ends,
    /// True if the order of its ids is known: it had a chunk since it was last forgotten.
    pub(super) is_remembered: bool,
    /// Losses that the next packet must report.
    pending: LossMask,
    /// Losses behind a chunk that is still to be stored or read. The first packet after that chunk
    /// must report them. `NONE` unless a chunk older than `last_consumed` is in the buffer or about
    /// to be stored.
    pending_behind: LossMask,
    /// The oldest and the newest chunk in the buffer; valid as `ends` says.
    oldest: QueuedChunk,
    newest: QueuedChunk,
    /// The chunks between the oldest and the newest. The queue is allocated when there is such a
    /// chunk, and is empty unless `ends` is `Two`.
    between: Option<Box<ChunkQueue>>,
    /// The newest chunk that was consumed. It stays the same if an older chunk is read later.
    pub(super) last_consumed: Option<ConsumedChunk>,
    /// The id of an older chunk of this sequence while room is made for it.
    incoming: Option<ChunkId>,
    /// The read cycle in which the sequence is stalled.
    pub(super) stalled_in_cycle: u64,
    pub(super) links: Links,
}

impl Sequence {
    /// Forgets the order of the sequence. If the last consumed chunk was incomplete, it is to come
    /// again. Then `last_consumed` stays, because it says which part of the chunk is new.
    pub(super) fn forget(&mut self) {
        debug_assert_eq!(self.ends, Ends::None);
        *self = Self {
            last_consumed: self.last_consumed.filter(|last| last.was_incomplete),
            ..Self::default()
        };
    }

    /// Returns the number of chunks that the memory of the queue has room for.
    pub(super) fn queue_capacity(&self) -> usize {
        self.between
            .as_ref()
            .map_or(0, |between| between.capacity())
    }

    /// Gives back the memory of the queue that is not in use.
    pub(super) fn trim_queue(&mut self) {
        if let Some(between) = &mut self.between {
            between.shrink_to_fit();
        }
    }

    #[inline]
    pub(super) fn front(&self) -> Option<QueuedChunk> {
        (self.ends != Ends::None).then_some(self.oldest)
    }

    #[inline]
    pub(super) fn back(&self) -> Option<QueuedChunk> {
        (self.ends != Ends::None).then_some(self.newest)
    }

    /// Returns all chunks, oldest first.
    pub(super) fn chunks(&self) -> impl Iterator<Item = QueuedChunk> {
        let between = self.between.iter().flat_map(|between| between.iter());
        let newest = (self.ends == Ends::Two).then_some(self.newest);
        self.front().into_iter().chain(between).chain(newest)
    }

    /// Returns the chunk with this id.
    pub(super) fn find(&self, id: ChunkId) -> Option<QueuedChunk> {
        let (oldest, newest) = (self.front()?, self.back()?);
        if newest.id == id {
            return Some(newest);
        }
        if oldest.id == id {
            return Some(oldest);
        }
        if oldest.id.is_newer_than(id) || id.is_newer_than(newest.id) {
            return None;
        }
        self.between.as_ref()?.find(id)
    }

    /// Inserts a chunk at its place in the order. Returns whether the sequence already has newer
    /// chunks.
    #[inline]
    pub(super) fn insert(&mut self, chunk: QueuedChunk) -> bool {
        match self.ends {
            Ends::None => {
                (self.oldest, self.newest) = (chunk, chunk);
                self.ends = Ends::Same;
                return false;
            }
            _ if !chunk.id.is_newer_than(self.newest.id) => {
                self.insert_out_of_order(chunk);
                return true;
            }
            Ends::Same => {}
            Ends::Two => {
                let between = self.between.get_or_insert_default();
                between.push_newest(self.newest);
            }
        }
        self.newest = chunk;
        self.ends = Ends::Two;
        false
    }

    fn insert_out_of_order(&mut self, chunk: QueuedChunk) {
        if chunk.id.is_newer_than(self.oldest.id) {
            self.between.get_or_insert_default().insert(chunk);
            return;
        }
        if self.ends == Ends::Two {
            let between = self.between.get_or_insert_default();
            between.push_oldest(self.oldest);
        }
        self.oldest = chunk;
        self.ends = Ends::Two;
    }

    /// Removes the oldest chunk and notes it as consumed.
    #[inline]
    pub(super) fn pop_front(&mut self, consumed: ConsumedChunk) {
        self.remove_oldest();
        if let Some(last) = self.last_consumed {
            if last.id.is_newer_than(consumed.id) {
                // The removed chunk arrived after `last`, a newer chunk, was evicted. So `last`
                // stays the newest consumed chunk. All further packets are behind `last`, unless
                // another chunk older than `last` is in the buffer.
                if self
                    .front()
                    .is_none_or(|next| !last.id.is_newer_than(next.id))
                {
                    self.pending |= std::mem::take(&mut self.pending_behind);
                }
                return;
            }
            if let Some(incoming) = self.incoming
                && consumed.id.is_newer_than(incoming)
                && incoming.is_newer_than(last.id.next())
            {
                // Note the gap before the incoming chunk now: after this removal, its predecessor
                // is no longer known.
                self.add_loss(incoming, LossMask::READ_GAP);
            }
        }
        self.last_consumed = Some(consumed);
    }

    #[inline]
    fn remove_oldest(&mut self) {
        if self.ends != Ends::Two {
            self.ends = Ends::None;
        } else if let Some(between) = &mut self.between
            && let Some(next) = between.pop_oldest()
        {
            self.oldest = next;
        } else {
            self.oldest = self.newest;
            self.ends = Ends::Same;
        }
    }

    /// Checks for a gap before the oldest chunk, which is about to be consumed. Must be called once
    /// for each chunk.
    #[inline]
    pub(super) fn check_gap(&mut self, id: ChunkId) {
        let last = self.last_consumed.map(|last| last.id);
        // The chunk that is about to be stored may belong between `last` and `id`.
        let incoming = self.incoming.filter(|&incoming| {
            id.is_newer_than(incoming) && last.is_none_or(|last| incoming.is_newer_than(last))
        });
        let Some(predecessor) = incoming.or(last) else {
            return;
        };
        // An older id is not a gap: an incomplete chunk that was consumed comes again, or newer
        // chunks were evicted before this one arrived.
        if id.is_newer_than(predecessor.next()) {
            self.add_loss(id, LossMask::READ_GAP);
        }
    }

    /// Returns true if the losses in `pending_behind` precede the chunk `id`, which must be the
    /// oldest.
    fn is_behind_losses(&self, id: ChunkId) -> bool {
        self.last_consumed
            .is_none_or(|last| !last.id.is_newer_than(id))
    }

    /// Notes a loss at the chunk `at` or directly before it.
    pub(super) fn add_loss(&mut self, at: ChunkId, cause: LossMask) {
        let next_to_read = self.incoming.or(self.front().map(|front| front.id));
        match next_to_read {
            Some(next) if at.is_newer_than(next) => self.pending_behind |= cause,
            _ => self.pending |= cause,
        }
    }

    /// Returns the losses that precede a packet of the chunk `id`, which must be the oldest chunk.
    pub(super) fn losses_before(&self, id: ChunkId) -> LossMask {
        if self.is_behind_losses(id) {
            self.pending | self.pending_behind
        } else {
            self.pending
        }
    }

    /// Returns the losses that no packet in the buffer can report.
    pub(super) fn unreported_losses(&self) -> LossMask {
        match self.front() {
            Some(_) => LossMask::NONE,
            None => self.pending | self.pending_behind,
        }
    }

    /// Takes the losses that must be reported with the packet that is delivered now.
    #[inline]
    pub(super) fn take_losses(&mut self) -> LossMask {
        std::mem::take(&mut self.pending)
    }

    /// Notes that room is being made for the chunk `id`, if the sequence has newer chunks. These
    /// may be evicted to make that room.
    #[inline]
    pub(super) fn expect(&mut self, id: ChunkId) {
        self.incoming = self
            .back()
            .filter(|newest| newest.id.is_newer_than(id))
            .map(|_| id);
    }

    /// Undoes [`Sequence::expect`].
    #[inline]
    pub(super) fn expect_none(&mut self) {
        self.incoming = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_buffer::slot::SlotId;

    fn sequence(ids: &[u32]) -> Sequence {
        let mut sequence = Sequence::default();
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
    fn state_used_by_every_commit_fills_one_cache_line() {
        assert_eq!(size_of::<Sequence>(), 64);
    }

    #[test]
    fn newer_means_less_than_half_the_id_space_ahead() {
        assert!(ChunkId(1).is_newer_than(ChunkId(0)));
        assert!(ChunkId(0).is_newer_than(ChunkId(u32::MAX)));
        assert!(!ChunkId(0).is_newer_than(ChunkId(0)));
        assert!(!ChunkId(0).is_newer_than(ChunkId(1)));
        assert!(ChunkId((1 << 31) - 1).is_newer_than(ChunkId(0)));
        assert!(!ChunkId(1 << 31).is_newer_than(ChunkId(0)));
    }

    #[test]
    fn chunks_are_kept_in_the_order_of_ids_that_wrap() {
        let max = u32::MAX;
        assert_eq!(ids(&sequence(&[max - 1, 1, 0, max])), [max - 1, max, 0, 1]);
    }

    #[test]
    fn chunks_leave_from_the_oldest_on_and_may_come_again() {
        let mut sequence = sequence(&[5, 3, 4, 1]);
        for left in [[3, 4, 5].as_slice(), &[4, 5], &[5], &[]] {
            sequence.remove_oldest();
            assert_eq!(ids(&sequence), left);
            let ends = [sequence.front(), sequence.back()].map(|end| end.map(|chunk| chunk.id.0));
            assert_eq!(ends, [left.first().copied(), left.last().copied()]);
        }
        for id in [7, 6, 8] {
            sequence.insert(QueuedChunk {
                id: ChunkId(id),
                slot: SlotId::default(),
            });
        }
        assert_eq!(ids(&sequence), [6, 7, 8]);
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
