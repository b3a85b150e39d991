//! Counts what became of every packet that a writer began.
//!
//! For each writer, *begun = dropped + empty + first fragments in chunks*. Once a packet's first
//! fragment is finished in a chunk, the packet is accounted for by its trace buffer: if a part of
//! the packet is lost later, the service counts this loss.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tracezero_core::coordination::{PacketCounts, WriterTotals};
use tracezero_core::ids::{BufferId, ChunkId, WriterId};

/// The counters of one writer.
///
/// Only the writer adds to them, so an addition is a load and a store. The writer counts a packet
/// as begun before the packet is counted anywhere else, here or in a trace buffer.
/// [`WriterCounters::counts`] reads `packets_begun` last. So a reader on another thread may see a
/// packet that is only counted as begun, but never a packet that is counted elsewhere and not as
/// begun.
#[derive(Debug, Default)]
pub(super) struct WriterCounters {
    pub(super) packets_begun: Counter,
    pub(super) packets_empty: Counter,
    pub(super) packets_dropped: Counter,
    pub(super) drop_episodes: Counter,
}

/// A number that one thread adds to, and other threads read.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(super) fn add_one(&self) {
        // Release pairs with the acquire in `value`. The relaxed load reads what this thread
        // stored.
        self.0
            .store(self.0.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    #[inline]
    pub(super) fn value(&self) -> u64 {
        // Acquire pairs with the release in `add_one`: the reader sees what the writer counted
        // before.
        self.0.load(Ordering::Acquire)
    }
}

impl WriterCounters {
    pub(super) fn counts(&self) -> PacketCounts {
        let packets_empty = self.packets_empty.value();
        let packets_dropped = self.packets_dropped.value();
        let drop_episodes = self.drop_episodes.value();
        PacketCounts {
            packets_begun: self.packets_begun.value(),
            packets_empty,
            packets_dropped,
            drop_episodes,
        }
    }
}

type Key = (Option<WriterId>, BufferId);

/// The counters of all writers, living and dropped.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    living: HashMap<AccountId, (Key, Arc<WriterCounters>)>,
    gone: HashMap<Key, DroppedWriters>,
    /// For each writer id and buffer, the name of the last thread that had a writer with them, if
    /// the thread has a name.
    thread_names: HashMap<Key, String>,
    next_id: u64,
}

/// The counts and numbering that dropped writers leave to the next one with the same id and buffer.
#[derive(Clone, Copy, Debug)]
struct DroppedWriters {
    counts: PacketCounts,
    next_chunk_id: ChunkId,
}

impl Default for DroppedWriters {
    fn default() -> Self {
        Self {
            counts: PacketCounts::default(),
            next_chunk_id: ChunkId(0),
        }
    }
}

/// The identity of a living writer's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AccountId(u64);

impl Accounts {
    /// Creates the counters of a writer that the calling thread gets.
    pub(super) fn open(
        &mut self,
        writer_id: Option<WriterId>,
        target_buffer: BufferId,
    ) -> (AccountId, Arc<WriterCounters>) {
        let id = AccountId(self.next_id);
        self.next_id += 1;
        let key = (writer_id, target_buffer);
        let counters = Arc::new(WriterCounters::default());
        self.living.insert(id, (key, Arc::clone(&counters)));
        match thread::current().name() {
            Some(name) => self.thread_names.insert(key, name.to_owned()),
            None => self.thread_names.remove(&key),
        };
        (id, counters)
    }

    /// Returns the id of the first chunk of a new writer.
    ///
    /// For a buffer, all writers that have had the same writer id are one sequence. So the new
    /// writer continues the numbering of the last one that wrote to the same buffer. Smaller chunk
    /// ids would look like late chunks, larger ones like a loss.
    pub(super) fn next_chunk_id(&self, writer_id: WriterId, target_buffer: BufferId) -> ChunkId {
        let gone = self.gone.get(&(Some(writer_id), target_buffer));
        gone.map_or(ChunkId(0), |gone| gone.next_chunk_id)
    }

    /// Keeps the counts of a dropped writer and, if it had a writer id, its next chunk id.
    pub(super) fn close(&mut self, id: AccountId, next_chunk_id: Option<ChunkId>) {
        if let Some((key, counters)) = self.living.remove(&id) {
            let gone = self.gone.entry(key).or_default();
            gone.counts += counters.counts();
            gone.next_chunk_id = next_chunk_id.unwrap_or(gone.next_chunk_id);
        }
    }

    /// Returns the totals of all writers, in no particular order.
    pub(super) fn totals(&self) -> Vec<WriterTotals> {
        let gone = self.gone.iter().map(|(key, gone)| (*key, gone.counts));
        let mut totals: HashMap<Key, PacketCounts> = gone.collect();
        for (key, counters) in self.living.values() {
            *totals.entry(*key).or_default() += counters.counts();
        }
        totals
            .into_iter()
            .map(|(key, counts)| WriterTotals {
                writer_id: key.0,
                target_buffer: key.1,
                thread_name: self.thread_names.get(&key).cloned(),
                counts,
            })
            .collect()
    }

    /// Forgets the counts of all writers to `target_buffer`, dropped or living. Otherwise, living
    /// writers would leave their counts here when they are dropped.
    pub(super) fn forget_buffer(&mut self, target_buffer: BufferId) {
        self.gone.retain(|(_, buffer), _| *buffer != target_buffer);
        self.thread_names
            .retain(|(_, buffer), _| *buffer != target_buffer);
        self.living
            .retain(|_, ((_, buffer), _)| *buffer != target_buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_dropped_and_living_writers_of_one_id() {
        let mut accounts = Accounts::default();
        let buffer = BufferId(3);
        for _ in 0..2 {
            let (id, counters) = accounts.open(Some(WriterId(1)), buffer);
            counters.packets_begun.add_one();
            counters.packets_begun.add_one();
            counters.packets_dropped.add_one();
            accounts.close(id, None);
            accounts.close(id, None);
        }
        let (_living, counters) = accounts.open(Some(WriterId(1)), buffer);
        counters.packets_begun.add_one();
        counters.packets_empty.add_one();
        let expected = WriterTotals {
            writer_id: Some(WriterId(1)),
            target_buffer: buffer,
            thread_name: thread::current().name().map(str::to_owned),
            counts: PacketCounts {
                packets_begun: 5,
                packets_empty: 1,
                packets_dropped: 2,
                drop_episodes: 0,
            },
        };
        assert_eq!(accounts.totals(), std::slice::from_ref(&expected));
        accounts.forget_buffer(BufferId(4));
        assert_eq!(accounts.totals(), [expected]);
        accounts.forget_buffer(buffer);
        assert_eq!(accounts.totals(), []);
    }

    #[test]
    fn next_writer_of_an_id_continues_its_chunk_numbers() {
        let mut accounts = Accounts::default();
        let id = WriterId(1);
        for (buffer, first, next) in [(3, 0, 7), (4, 0, 2), (3, 7, 9), (4, 2, 2), (3, 9, 9)] {
            let buffer = BufferId(buffer);
            assert_eq!(accounts.next_chunk_id(id, buffer), ChunkId(first));
            let (account, _) = accounts.open(Some(id), buffer);
            accounts.close(account, Some(ChunkId(next)));
        }
        accounts.forget_buffer(BufferId(3));
        assert_eq!(accounts.next_chunk_id(id, BufferId(3)), ChunkId(0));
        assert_eq!(accounts.next_chunk_id(id, BufferId(4)), ChunkId(2));
    }
}
