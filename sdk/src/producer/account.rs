//! What became of every packet that a writer began.
//!
//! For each writer, *begun = dropped + empty + first fragments in chunks*: a packet belongs to the
//! central buffer from the moment on when its first fragment stands in a chunk as a fragment. What
//! is lost of it after that, the buffer counts.

use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ids::{BufferId, WriterId};

/// Counters of one writer.
///
/// The writer alone adds to them, so a load and a store make an addition. Relaxed throughout: each
/// counter stands for itself. Whoever wants totals that agree synchronizes with the writer first,
/// for instance by ending it.
#[derive(Debug, Default)]
pub(super) struct WriterCounters {
    pub(super) packets_begun: Counter,
    pub(super) packets_empty: Counter,
    pub(super) packets_dropped: Counter,
    pub(super) drop_episodes: Counter,
}

/// A number that one thread adds to, and others look at.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(super) fn add_one(&self) {
        self.0
            .store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl WriterCounters {
    pub(super) fn counts(&self) -> PacketCounts {
        PacketCounts {
            packets_begun: self.packets_begun.value(),
            packets_empty: self.packets_empty.value(),
            packets_dropped: self.packets_dropped.value(),
            drop_episodes: self.drop_episodes.value(),
        }
    }
}

/// What became of the packets of one writer, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Packets that were begun.
    pub packets_begun: u64,
    /// Packets without a single field. Readers skip them.
    pub packets_empty: u64,
    /// Packets of which nothing reached a chunk: begun while the shared memory was exhausted, or
    /// given up in their first fragment.
    pub packets_dropped: u64,
    /// How often a writer ran out of shared memory.
    pub drop_episodes: u64,
}

impl AddAssign for PacketCounts {
    fn add_assign(&mut self, other: Self) {
        self.packets_begun += other.packets_begun;
        self.packets_empty += other.packets_empty;
        self.packets_dropped += other.packets_dropped;
        self.drop_episodes += other.drop_episodes;
    }
}

/// The packets that went to one central buffer under one writer id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterTotals {
    /// The id, which several writers may have had one after the other. `None` for writers that
    /// got none, and dropped everything.
    pub writer_id: Option<WriterId>,
    /// The buffer.
    pub target_buffer: BufferId,
    /// What became of the packets.
    pub counts: PacketCounts,
}

type Key = (Option<WriterId>, BufferId);

/// The counters of all writers, living and gone.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    living: HashMap<AccountId, (Key, Arc<WriterCounters>)>,
    gone: HashMap<Key, PacketCounts>,
    next_id: u64,
}

/// Names one writer's account as long as the writer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AccountId(u64);

impl Accounts {
    pub(super) fn open(
        &mut self,
        writer_id: Option<WriterId>,
        target_buffer: BufferId,
    ) -> (AccountId, Arc<WriterCounters>) {
        let id = AccountId(self.next_id);
        self.next_id += 1;
        let counters = Arc::new(WriterCounters::default());
        self.living
            .insert(id, ((writer_id, target_buffer), Arc::clone(&counters)));
        (id, counters)
    }

    /// Keeps the counts of a writer that is gone.
    pub(super) fn close(&mut self, id: AccountId) {
        if let Some((key, counters)) = self.living.remove(&id) {
            *self.gone.entry(key).or_default() += counters.counts();
        }
    }

    /// All writers' totals, in no particular order.
    pub(super) fn totals(&self) -> Vec<WriterTotals> {
        let mut totals = self.gone.clone();
        for (key, counters) in self.living.values() {
            *totals.entry(*key).or_default() += counters.counts();
        }
        totals
            .into_iter()
            .map(|((writer_id, target_buffer), counts)| WriterTotals {
                writer_id,
                target_buffer,
                counts,
            })
            .collect()
    }

    /// Forgets the writers to `target_buffer`: those that are gone, and those that still live and
    /// would leave their counts behind later.
    pub(super) fn forget_buffer(&mut self, target_buffer: BufferId) {
        self.gone.retain(|(_, buffer), _| *buffer != target_buffer);
        self.living
            .retain(|_, ((_, buffer), _)| *buffer != target_buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_an_id_sums_writers_that_are_gone_and_the_living_one() {
        let mut accounts = Accounts::default();
        let buffer = BufferId(3);
        for _ in 0..2 {
            let (id, counters) = accounts.open(Some(WriterId(1)), buffer);
            counters.packets_begun.add_one();
            counters.packets_begun.add_one();
            counters.packets_dropped.add_one();
            accounts.close(id);
            accounts.close(id);
        }
        let (_living, counters) = accounts.open(Some(WriterId(1)), buffer);
        counters.packets_begun.add_one();
        counters.packets_empty.add_one();
        let expected = WriterTotals {
            writer_id: Some(WriterId(1)),
            target_buffer: buffer,
            counts: PacketCounts {
                packets_begun: 5,
                packets_empty: 1,
                packets_dropped: 2,
                drop_episodes: 0,
            },
        };
        assert_eq!(accounts.totals(), [expected]);
        accounts.forget_buffer(BufferId(4));
        assert_eq!(accounts.totals(), [expected]);
        accounts.forget_buffer(buffer);
        assert_eq!(accounts.totals(), []);
    }
}
