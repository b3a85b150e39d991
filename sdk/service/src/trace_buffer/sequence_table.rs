//! All sequences of a buffer. Finds a sequence by producer and writer, and limits how many
//! sequences there are, and how many without chunks are remembered.

use std::ops::{Index, IndexMut};

use super::ReadPosition;
use super::account::{Account, HotAccount};
use super::chunk::ClientIdentity;
use super::chunk_queue::QueuedChunk;
use super::chunk_window::ChunkWindow;
use super::evict::EvictedChunk;
use super::key_map::{KeyMap, SequenceKey};
use super::loss::LossMask;
use super::sequence::{ConsumedChunk, Links, Sequence, SequenceIndex};

/// The maximum number of sequences that a buffer ever has. Each takes about 500 bytes for as long as
/// the buffer lives. The producers of one buffer can have far more writers: each connection has up
/// to 32,767, and producers can connect again and again.
pub(super) const SEQUENCES_PER_BUFFER_MAX: usize = 65_536;

/// The number of empty sequences that stay remembered when others are forgotten.
const EMPTY_SEQUENCES_KEPT: u32 = 1024;

/// The number of empty sequences above which some are forgotten.
const EMPTY_SEQUENCES_MAX: u32 = 1152;

/// The sequences, by index and by key.
///
/// A sequence gets its index with its first chunk and keeps it, because its counts must outlive its
/// chunks. Forgetting a sequence drops only the order of its ids, by which gaps and duplicates are
/// detected.
#[derive(Clone, Debug)]
pub(super) struct SequenceTable {
    sequences: Vec<Sequence>,
    /// The account of each sequence, at the same position.
    accounts: Vec<Account>,
    indexes: KeyMap,
    /// The sequence that was looked up last. Chunks of one writer often follow each other.
    latest: Option<(SequenceKey, SequenceIndex)>,
    /// The list of remembered sequences without chunks, in the order in which they became empty.
    empty: EmptyList,
    /// The number of chunks stored in the buffer at which the memory of queues is looked at next.
    trims_at_chunk: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct EmptyList {
    oldest: Option<SequenceIndex>,
    newest: Option<SequenceIndex>,
    len: u32,
}

impl SequenceTable {
    pub(super) fn new() -> Self {
        Self {
            sequences: Vec::new(),
            accounts: Vec::new(),
            indexes: KeyMap::default(),
            latest: None,
            empty: EmptyList::default(),
            trims_at_chunk: 0,
        }
    }

    /// Returns the sequence of a writer; `None` if it never had a chunk.
    pub(super) fn find(&self, key: SequenceKey) -> Option<SequenceIndex> {
        match self.latest {
            Some((latest, index)) if latest == key => Some(index),
            _ => self.indexes.get(key),
        }
    }

    /// Returns the sequence of a writer. Creates it if needed. Returns `None` if there are
    /// [`SEQUENCES_PER_BUFFER_MAX`] others already.
    #[inline]
    pub(super) fn find_or_add(&mut self, key: SequenceKey) -> Option<SequenceIndex> {
        if let Some((latest, index)) = self.latest
            && latest == key
        {
            return Some(index);
        }
        let index = match self.indexes.get(key) {
            Some(index) => index,
            None => self.add(key)?,
        };
        self.latest = Some((key, index));
        Some(index)
    }

    #[cold]
    fn add(&mut self, key: SequenceKey) -> Option<SequenceIndex> {
        if self.sequences.len() >= SEQUENCES_PER_BUFFER_MAX {
            return None;
        }
        let index = SequenceIndex::new(self.sequences.len());
        self.sequences.push(Sequence::default());
        self.accounts
            .push(Account::new(key.producer_id(), key.writer_id()));
        self.indexes.insert(key, index);
        Some(index)
    }

    /// Starts remembering the order of a sequence, unless it is remembered already.
    #[inline]
    pub(super) fn remember(&mut self, index: SequenceIndex, client: &ClientIdentity) {
        if !self[index].is_remembered {
            self[index].is_remembered = true;
            self.account_mut(index).hot.client = *client;
            self.append_to_empty(index);
        }
    }

    /// Inserts a chunk into its sequence. Returns whether the sequence already has newer chunks.
    #[inline]
    pub(super) fn insert(&mut self, index: SequenceIndex, chunk: QueuedChunk) -> bool {
        if self[index].front().is_none() {
            self.remove_from_empty(index);
        }
        self[index].insert(chunk)
    }

    /// Removes the oldest chunk of a sequence and notes it as consumed.
    #[inline]
    pub(super) fn pop_front(&mut self, index: SequenceIndex, consumed: ConsumedChunk) {
        self.account_mut(index).hot.accounted.note(
            consumed.id,
            consumed.payload_bytes,
            !consumed.was_incomplete,
        );
        self[index].pop_front(consumed);
        if self[index].front().is_none() {
            self.append_to_empty(index);
        }
    }

    /// Adds a sequence of another table. There, chunks up to `reached` were consumed or stored.
    /// `unreported` are the losses that no packet there has reported or can report.
    pub(super) fn continue_after(
        &mut self,
        account: &Account,
        reached: ConsumedChunk,
        unreported: LossMask,
    ) {
        let HotAccount {
            producer_id,
            writer_id,
            client,
            ..
        } = &account.hot;
        // There is room: the other table has no more sequences, and this one had none.
        let Some(index) = self.find_or_add(SequenceKey::new(*producer_id, *writer_id)) else {
            return;
        };
        self.remember(index, client);
        self[index].last_consumed = Some(reached);
        self[index].add_loss(reached.id, unreported);
        let hot = &mut self.account_mut(index).hot;
        hot.accounted = account.hot.accounted;
        hot.accounted
            .note(reached.id, reached.payload_bytes, !reached.was_incomplete);
        if account.counts.discarded > 0 {
            // The earlier buffer was full and has no later packet that could report the gap.
            self[index].add_loss(reached.id, LossMask::READ_GAP);
        }
    }

    /// Adds a sequence of which everything up to `position` was read. Does nothing if there are too
    /// many sequences.
    pub(super) fn continue_at(
        &mut self,
        key: SequenceKey,
        client: &ClientIdentity,
        position: ReadPosition,
    ) {
        let ReadPosition {
            chunk_id,
            chunk_bytes,
            read,
        } = position;
        let Some(index) = self.find_or_add(key) else {
            return;
        };
        self.remember(index, client);
        self[index].last_consumed = Some(ConsumedChunk {
            id: chunk_id,
            payload_bytes: chunk_bytes,
            was_incomplete: true,
        });
        let account = self.account_mut(index);
        account.counts.read = read;
        account.hot.accounted = ChunkWindow::up_to(chunk_id, chunk_bytes);
    }

    /// Adds a sequence of which everything up to `chunk` was overwritten, or continues it there if it was
    /// read less far. Does nothing if there are too many sequences.
    pub(super) fn continue_behind(
        &mut self,
        client: &ClientIdentity,
        chunk: &EvictedChunk,
        folded: u64,
    ) {
        let key = SequenceKey::new(chunk.producer_id, chunk.writer_id);
        let Some(index) = self.find_or_add(key) else {
            return;
        };
        self.remember(index, client);
        let evicted = ConsumedChunk {
            id: chunk.chunk_id,
            payload_bytes: chunk.payload_bytes,
            was_incomplete: true,
        };
        let last = self[index].last_consumed;
        let reached = last.map_or(evicted, |last| last.further(evicted));
        self[index].last_consumed = Some(reached);
        let end = |chunk: ConsumedChunk| (chunk.id, chunk.payload_bytes);
        if last.map(end) != Some(end(reached)) {
            self[index].add_loss(reached.id, LossMask::OVERWRITE);
        }
        let account = self.account_mut(index);
        account.counts.folded = folded;
        account.hot.overwritten = chunk.lost;
        account.hot.accounted = ChunkWindow::up_to(reached.id, reached.payload_bytes);
    }

    /// Forgets the sequences that have been empty longest, if there are too many.
    #[inline]
    pub(super) fn forget_stale(&mut self) {
        if self.empty.len > EMPTY_SEQUENCES_MAX {
            self.forget_all_but(EMPTY_SEQUENCES_KEPT);
        }
    }

    #[cold]
    fn forget_all_but(&mut self, kept: u32) {
        while self.empty.len > kept
            && let Some(index) = self.empty.oldest
        {
            self.remove_from_empty(index);
            self[index].forget();
        }
    }

    /// Gives back memory of queues if they have far more than for the `chunks_max` chunks that can
    /// be in the buffer. Otherwise each sequence would keep the memory for as many chunks as it ever
    /// had. Looks at the sequences only if as many chunks were stored meanwhile.
    pub(super) fn trim_queues(&mut self, chunks_written: u64, chunks_max: usize) {
        /// The factor by which queues may be larger than needed. A queue that has become full
        /// doubles its memory.
        const CAPACITY_FACTOR: usize = 4;
        if chunks_written < self.trims_at_chunk {
            return;
        }
        self.trims_at_chunk = chunks_written + chunks_max.max(self.sequences.len()) as u64;
        if self.queue_capacity() > CAPACITY_FACTOR * chunks_max {
            self.sequences.iter_mut().for_each(Sequence::trim_queue);
        }
    }

    /// Returns the number of chunks that the memory of all queues has room for.
    pub(super) fn queue_capacity(&self) -> usize {
        self.sequences.iter().map(Sequence::queue_capacity).sum()
    }

    #[inline]
    pub(super) fn account(&self, index: SequenceIndex) -> &Account {
        &self.accounts[index.position()]
    }

    #[inline]
    pub(super) fn account_mut(&mut self, index: SequenceIndex) -> &mut Account {
        &mut self.accounts[index.position()]
    }

    pub(super) fn accounts_mut(&mut self) -> impl Iterator<Item = &mut Account> {
        self.accounts.iter_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Sequence, &Account)> {
        self.sequences.iter().zip(&self.accounts)
    }

    fn append_to_empty(&mut self, index: SequenceIndex) {
        let older = self.empty.newest.replace(index);
        self[index].links = Links { older, newer: None };
        match older {
            Some(older) => self[older].links.newer = Some(index),
            None => self.empty.oldest = Some(index),
        }
        self.empty.len += 1;
    }

    fn remove_from_empty(&mut self, index: SequenceIndex) {
        let Links { older, newer } = std::mem::take(&mut self[index].links);
        match older {
            Some(older) => self[older].links.newer = newer,
            None => self.empty.oldest = newer,
        }
        match newer {
            Some(newer) => self[newer].links.older = older,
            None => self.empty.newest = older,
        }
        self.empty.len -= 1;
    }
}

impl Index<SequenceIndex> for SequenceTable {
    type Output = Sequence;

    #[inline]
    fn index(&self, index: SequenceIndex) -> &Sequence {
        &self.sequences[index.position()]
    }
}

impl IndexMut<SequenceIndex> for SequenceTable {
    #[inline]
    fn index_mut(&mut self, index: SequenceIndex) -> &mut Sequence {
        &mut self.sequences[index.position()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_buffer::slot::SlotId;
    use tracezero_core::ids::{ChunkId, ProducerId, WriterId};

    fn use_once(table: &mut SequenceTable, writer: u16) {
        let key = SequenceKey::new(ProducerId::new(1), WriterId(writer));
        let index = table.find_or_add(key).unwrap();
        table.remember(index, &ClientIdentity::default());
        let id = ChunkId(0);
        table.insert(
            index,
            QueuedChunk {
                id,
                slot: SlotId::default(),
            },
        );
        table.pop_front(
            index,
            ConsumedChunk {
                id,
                payload_bytes: 0,
                was_incomplete: false,
            },
        );
    }

    #[test]
    fn the_sequences_that_are_empty_for_longest_are_forgotten() {
        let mut table = SequenceTable::new();
        for writer in 1..=1152 {
            use_once(&mut table, writer);
        }
        use_once(&mut table, 1);
        table.forget_stale();
        assert!(
            table
                .iter()
                .all(|(sequence, _)| sequence.last_consumed.is_some())
        );
        use_once(&mut table, 1153);
        table.forget_stale();
        let forgotten: Vec<u16> = table
            .iter()
            .filter(|(sequence, _)| sequence.last_consumed.is_none())
            .map(|(_, account)| account.hot.writer_id.0)
            .collect();
        assert_eq!(forgotten, (2..=130).collect::<Vec<_>>());
    }

    #[test]
    fn a_sequence_keeps_its_index() {
        let mut table = SequenceTable::new();
        let key = |i| SequenceKey::new(ProducerId::new(i), WriterId(7));
        let indexes: Vec<_> = (0..100).map(|i| table.find_or_add(key(i))).collect();
        for (i, &index) in (0..).zip(&indexes) {
            assert!(index.is_some());
            assert_eq!(table.find(key(i)), index);
            assert_eq!(table.find_or_add(key(i)), index);
        }
        assert_eq!(
            table.find(SequenceKey::new(ProducerId::new(7), WriterId(8))),
            None
        );
    }
}
