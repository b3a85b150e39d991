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
use tracezero_core::crash_files::{ProcessFolder, Row, WriterRows};
use tracezero_core::ids::{BufferId, ChunkId, WriterId};

/// The counters of one writer, and of earlier writers with the same id and buffer. They are in the
/// table of writers, which survives the process if it has crash files.
///
/// Only the writer adds to them, so an addition is a load and a store. The writer counts a packet
/// as begun before the packet is counted anywhere else, here or in a trace buffer.
/// [`WriterCounters::counts`] reads the packets begun last. So a reader on another thread may see a
/// packet that is only counted as begun, but never a packet that is counted elsewhere and not as
/// begun.
#[derive(Clone, Debug)]
pub(super) struct WriterCounters(Row);

/// The position of a counter in a row.
const BEGUN: usize = 0;
const EMPTY: usize = 1;
const DROPPED: usize = 2;
const DROP_EPISODES: usize = 3;

impl WriterCounters {
    #[inline]
    pub(super) fn note_begun(&self) {
        add_one(&self.0.counters()[BEGUN]);
    }

    #[inline]
    pub(super) fn note_empty(&self) {
        add_one(&self.0.counters()[EMPTY]);
    }

    #[inline]
    pub(super) fn note_dropped(&self) {
        add_one(&self.0.counters()[DROPPED]);
    }

    #[inline]
    pub(super) fn note_drop_episode(&self) {
        add_one(&self.0.counters()[DROP_EPISODES]);
    }

    /// Returns the number of packets that were begun.
    #[inline]
    pub(super) fn packets_begun(&self) -> u64 {
        value(&self.0.counters()[BEGUN])
    }

    pub(super) fn counts(&self) -> PacketCounts {
        let counters = self.0.counters();
        let mut counts = PacketCounts::default();
        counts.packets_empty = value(&counters[EMPTY]);
        counts.packets_dropped = value(&counters[DROPPED]);
        counts.drop_episodes = value(&counters[DROP_EPISODES]);
        counts.packets_begun = value(&counters[BEGUN]);
        counts
    }
}

/// Adds one to a counter of the calling thread's writer.
#[inline]
fn add_one(counter: &AtomicU64) {
    // Release pairs with the acquire in `value`. The relaxed load reads what this thread stored, or
    // what the arbiter's lock has handed over from an earlier writer's thread.
    let count = counter.load(Ordering::Relaxed) + 1;
    counter.store(count, Ordering::Release);
}

#[inline]
fn value(counter: &AtomicU64) -> u64 {
    // Acquire pairs with the release in `add_one`: the reader sees what the writer counted before.
    counter.load(Ordering::Acquire)
}

type Key = (Option<WriterId>, BufferId);

/// The counters of all writers, living and dropped.
#[derive(Debug)]
pub(super) struct Accounts {
    rows: WriterRows,
    /// The accounts of each writer id and buffer. Only writers without an id can have several.
    accounts: HashMap<Key, Vec<Account>>,
    /// For each writer id and buffer, the name of the last thread that had a writer with them, if
    /// the thread has a name.
    thread_names: HashMap<Key, String>,
    /// The counters of living writers to buffers that are forgotten.
    forgotten: HashMap<AccountId, WriterCounters>,
    next_id: u64,
}

/// The counters of writers that came one after the other.
#[derive(Debug)]
struct Account {
    counters: WriterCounters,
    /// The writer that exists now.
    living: Option<AccountId>,
    /// The number of the first chunk of the next writer.
    next_chunk_id: ChunkId,
}

/// The identity of a living writer's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AccountId {
    key: Key,
    number: u64,
}

impl Accounts {
    /// Creates an empty table, in the crash files of the process if it has any.
    pub(super) fn new(folder: Option<Arc<ProcessFolder>>) -> Self {
        Self {
            rows: folder.map_or_else(WriterRows::default, WriterRows::of_folder),
            accounts: HashMap::new(),
            thread_names: HashMap::new(),
            forgotten: HashMap::new(),
            next_id: 0,
        }
    }

    /// Creates the counters of a writer that the calling thread gets.
    pub(super) fn open(
        &mut self,
        writer_id: Option<WriterId>,
        target_buffer: BufferId,
    ) -> (AccountId, WriterCounters) {
        let key = (writer_id, target_buffer);
        let number = self.next_id;
        self.next_id += 1;
        let id = AccountId { key, number };
        let thread = thread::current();
        match thread.name() {
            Some(name) => self.thread_names.insert(key, name.to_owned()),
            None => self.thread_names.remove(&key),
        };
        let accounts = self.accounts.entry(key).or_default();
        let counters = match accounts.iter_mut().find(|it| it.living.is_none()) {
            Some(account) => {
                account.living = Some(id);
                let WriterCounters(row) = &account.counters;
                row.set_name(thread.name());
                row.set_key(writer_id, target_buffer, true);
                account.counters.clone()
            }
            None => {
                let row = self.rows.take(writer_id, target_buffer, thread.name());
                let counters = WriterCounters(row);
                accounts.push(Account {
                    counters: counters.clone(),
                    living: Some(id),
                    next_chunk_id: ChunkId(0),
                });
                counters
            }
        };
        (id, counters)
    }

    /// Returns the id of the first chunk of a new writer.
    ///
    /// For a buffer, all writers that have had the same writer id are one sequence. So the new
    /// writer continues the numbering of the last one that wrote to the same buffer. Smaller chunk
    /// ids would look like late chunks, larger ones like a loss.
    pub(super) fn next_chunk_id(&self, writer_id: WriterId, target_buffer: BufferId) -> ChunkId {
        let earlier = self.accounts.get(&(Some(writer_id), target_buffer));
        let account = earlier.and_then(|accounts| accounts.first());
        account.map_or(ChunkId(0), |account| account.next_chunk_id)
    }

    /// Keeps the counts of a dropped writer and, if it had a writer id, its next chunk id.
    pub(super) fn close(&mut self, id: AccountId, next_chunk_id: Option<ChunkId>) {
        if let Some(WriterCounters(row)) = self.forgotten.remove(&id) {
            return self.rows.give_back(row);
        }
        let accounts = self.accounts.get_mut(&id.key);
        let account = accounts.and_then(|it| it.iter_mut().find(|it| it.living == Some(id)));
        if let Some(account) = account {
            account.living = None;
            account.next_chunk_id = next_chunk_id.unwrap_or(account.next_chunk_id);
            let WriterCounters(row) = &account.counters;
            row.set_key(id.key.0, id.key.1, false);
        }
    }

    /// Returns the totals of all writers, in no particular order.
    pub(super) fn totals(&self) -> Vec<WriterTotals> {
        let of_key = |(key, accounts): (&Key, &Vec<Account>)| {
            let mut counts = PacketCounts::default();
            for account in accounts {
                counts += account.counters.counts();
            }
            WriterTotals {
                writer_id: key.0,
                target_buffer: key.1,
                thread_name: self.thread_names.get(key).cloned(),
                counts,
            }
        };
        self.accounts.iter().map(of_key).collect()
    }

    /// Forgets the counts of all writers to `target_buffer`, dropped or living.
    pub(super) fn forget_buffer(&mut self, target_buffer: BufferId) {
        self.thread_names
            .retain(|(_, buffer), _| *buffer != target_buffer);
        let is_forgotten = |&(_, buffer): &Key, _: &mut Vec<Account>| buffer == target_buffer;
        for (_, accounts) in self.accounts.extract_if(is_forgotten) {
            for account in accounts {
                match account.living {
                    // The writer goes on counting in its row.
                    Some(id) => drop(self.forgotten.insert(id, account.counters)),
                    None => self.rows.give_back(account.counters.0),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_dropped_and_living_writers_of_one_id() {
        let mut accounts = Accounts::new(None);
        let buffer = BufferId(3);
        for _ in 0..2 {
            let (id, counters) = accounts.open(Some(WriterId(1)), buffer);
            counters.note_begun();
            counters.note_begun();
            counters.note_dropped();
            accounts.close(id, None);
            accounts.close(id, None);
        }
        let (_living, counters) = accounts.open(Some(WriterId(1)), buffer);
        counters.note_begun();
        counters.note_empty();
        let mut counts = PacketCounts::default();
        counts.packets_begun = 5;
        counts.packets_empty = 1;
        counts.packets_dropped = 2;
        let expected = WriterTotals {
            writer_id: Some(WriterId(1)),
            target_buffer: buffer,
            thread_name: thread::current().name().map(str::to_owned),
            counts,
        };
        assert_eq!(accounts.totals(), std::slice::from_ref(&expected));
        accounts.forget_buffer(BufferId(4));
        assert_eq!(accounts.totals(), [expected]);
        accounts.forget_buffer(buffer);
        assert_eq!(accounts.totals(), []);
    }

    #[test]
    fn next_writer_of_an_id_continues_its_chunk_numbers() {
        let mut accounts = Accounts::new(None);
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
