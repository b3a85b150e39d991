//! A model of the trace buffer, slow and simple: a list of slots, each with its own copy of a
//! chunk. All searches are loops over everything.
//!
//! It has nothing in common with the code of the real buffer. A comment with "Rule:" marks each
//! rule that Perfetto's own buffer does not have.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};

mod losses;
mod reading;
mod token;
mod writing;

pub const FIRST_CONTINUES: u8 = 1;
pub const LAST_CONTINUES: u8 = 2;
pub const NEEDS_PATCH: u8 = 4;
const ABI_FLAGS: u8 = 7;

const PRESENT: u32 = 1;
const READ_GAP: u32 = 2 | PRESENT;
const CHUNK_CORRUPTED: u32 = 4 | PRESENT;
const ORPHAN_CONTINUATION: u32 = 8 | PRESENT;
const REASSEMBLY_GAP: u32 = 16 | PRESENT;
const BROKEN_CHAIN: u32 = 32 | PRESENT;
const OVERWRITE: u32 = 64 | PRESENT;
const WRITER_ABORT: u32 = 128 | PRESENT;

/// The producer and the writer.
pub type Key = (u32, u16);

/// The user and the process.
pub type Client = (Option<u32>, Option<u32>);

#[derive(Clone, Debug)]
pub struct Commit {
    pub key: Key,
    pub id: u32,
    pub client: Client,
    pub declared: u16,
    pub flags: u8,
    pub complete: bool,
    pub source: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct Patch {
    pub key: Key,
    pub id: u32,
    pub patches: Vec<(u16, [u8; 4])>,
    pub has_more: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub key: Key,
    pub client: Client,
    pub loss: u32,
    /// The slices of the packet. None is empty.
    pub slices: Vec<Vec<u8>>,
}

/// The number of packets by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub read: u64,
    pub unread: u64,
    pub overwritten: u64,
    pub discarded: u64,
    pub late: u64,
    pub gap: u64,
    pub broken_chain: u64,
    pub aborted: u64,
    pub corrupted: u64,
}

/// The counters by the names that scenarios use.
pub type Stats = BTreeMap<&'static str, u64>;

/// The count and the sum of each bucket.
pub type Histogram = [(u64, u64); 11];

#[derive(Clone, Debug)]
struct Chunk {
    key: Key,
    id: u32,
    payload: Vec<u8>,
    consumed: usize,
    flags: u8,
    incomplete: bool,
    aborted: bool,
    gap_checked: bool,
    /// The number of packets that begin in fragments that are not consumed, counted when the chunk
    /// was stored.
    unread_packets: u64,
}

#[derive(Clone, Debug)]
struct Slot {
    offset: u64,
    /// The room for payload. The size of the slot is this plus a header, rounded up.
    reserved: usize,
    /// The chunk; `None` if the slot is padding.
    chunk: Option<Chunk>,
}

#[derive(Clone, Debug, Default)]
struct Sequence {
    client: Client,
    /// All chunks that left, in the order in which they left: id, payload size, and whether
    /// incomplete.
    consumed: Vec<(u32, usize, bool)>,
    /// Losses that are not reported yet. The first value is the chunk from which on packets report
    /// the loss; `None` if the next packet does.
    losses: Vec<(Option<u32>, u32)>,
    stalled: bool,
    /// The time since which the sequence has no chunk.
    empty_since: Option<u64>,
}

/// The state of a sequence that outlives its chunks.
#[derive(Clone, Debug, Default)]
struct Account {
    counts: Counts,
    histogram: Option<Histogram>,
    noted: HashSet<u32>,
    newest_noted: Option<u32>,
    unfinished: Option<(u32, usize)>,
    /// The chunk that left last, if it was incomplete and the sequence was forgotten.
    interrupted: Option<(u32, usize, bool)>,
}

/// A chunk that room is being made for.
#[derive(Clone, Debug)]
struct Incoming {
    key: Key,
    id: u32,
    gap_checked: bool,
}

#[derive(Clone, Debug)]
pub struct Model {
    size: u64,
    discard: bool,
    sealed: bool,
    read_only: bool,
    write: u64,
    used: u64,
    /// The slots in the order of their offsets.
    slots: Vec<Slot>,
    sequences: HashMap<Key, Sequence>,
    accounts: HashMap<Key, Account>,
    pub stats: Stats,
    /// The offsets of the slots that this read cycle has still to visit.
    to_visit: Option<Vec<u64>>,
    /// The chunk that room is being made for.
    incoming: Option<Incoming>,
    emptied: u64,
    /// The packets that the last commit overwrote.
    pub overwritten: Vec<Packet>,
}

fn outer(reserved: usize) -> u64 {
    (16 + reserved as u64).div_ceil(16) * 16
}

/// Compares ids that wrap.
fn order(a: u32, b: u32) -> Ordering {
    match a.wrapping_sub(b) {
        0 => Ordering::Equal,
        ahead if ahead < 1 << 31 => Ordering::Greater,
        _ => Ordering::Less,
    }
}

impl Account {
    fn record(&mut self, len: usize) {
        let bounds = [8, 32, 128, 512, 1024, 2048, 4096, 8192, 12288, 16384];
        let bucket = bounds.iter().position(|&bound| len <= bound).unwrap_or(10);
        let histogram = self.histogram.get_or_insert_default();
        histogram[bucket].0 += 1;
        histogram[bucket].1 += len as u64;
    }

    /// Returns the offset from which on the packets of a chunk were not counted yet.
    ///
    /// Rule: packets lost with a refused chunk count, except for those that an earlier copy
    /// brought. Copies are recognized among the latest 128 ids of a writer, and one chunk of a
    /// writer may be incomplete.
    fn news(&self, id: u32) -> Option<usize> {
        if let Some((unfinished, len)) = self.unfinished
            && unfinished == id
        {
            return Some(len);
        }
        let Some(newest) = self.newest_noted else {
            return Some(0);
        };
        if order(id, newest) == Ordering::Greater {
            return Some(0);
        }
        let is_known = newest.wrapping_sub(id) >= 128 || self.noted.contains(&id);
        (!is_known).then_some(0)
    }

    fn note(&mut self, id: u32, len: usize, complete: bool) {
        if self
            .newest_noted
            .is_none_or(|newest| order(id, newest) == Ordering::Greater)
        {
            self.newest_noted = Some(id);
        }
        self.noted.insert(id);
        if !complete {
            self.unfinished = Some((id, len));
        } else if self
            .unfinished
            .is_some_and(|(unfinished, _)| unfinished == id)
        {
            self.unfinished = None;
        }
    }
}

impl Model {
    pub fn new(size: u64, discard: bool) -> Self {
        Self {
            size: size.max(1).div_ceil(4096) * 4096,
            discard,
            sealed: false,
            read_only: false,
            write: 0,
            used: 0,
            slots: Vec::new(),
            sequences: HashMap::new(),
            accounts: HashMap::new(),
            stats: Stats::new(),
            to_visit: None,
            incoming: None,
            emptied: 0,
            overwritten: Vec::new(),
        }
    }

    pub fn clone_read_only(&self) -> Self {
        let mut clone = self.clone();
        clone.read_only = true;
        clone.to_visit = None;
        for reset in [
            "bytes_read",
            "chunks_read",
            "readaheads_succeeded",
            "readaheads_failed",
        ] {
            clone.stats.remove(reset);
        }
        clone
    }

    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn tail(&self) -> u64 {
        self.size - self.write
    }

    pub fn histogram(&self, key: Key) -> Option<Histogram> {
        self.accounts.get(&key)?.histogram
    }

    pub fn counts(&self, key: Key) -> Option<Counts> {
        let unread = self.chunks_of(key).map(|(_, chunk)| chunk.unread_packets);
        let account = self.accounts.get(&key)?;
        Some(Counts {
            unread: unread.sum(),
            ..account.counts
        })
    }

    /// Returns the number and the bytes of the chunks that were not completely read.
    pub fn unread_chunks(&self) -> (u64, u64) {
        let mut unread = (0, 0);
        for slot in &self.slots {
            if let Some(chunk) = &slot.chunk
                && (chunk.consumed < chunk.payload.len() || chunk.payload.is_empty())
            {
                unread.0 += 1;
                unread.1 += outer(slot.reserved);
            }
        }
        unread
    }

    fn count(&mut self, name: &'static str, more: u64) {
        *self.stats.entry(name).or_default() += more;
    }

    fn chunks_of(&self, key: Key) -> impl Iterator<Item = (usize, &Chunk)> {
        let chunks = self.slots.iter().enumerate();
        chunks
            .filter_map(|(i, slot)| Some((i, slot.chunk.as_ref()?)))
            .filter(move |(_, chunk)| chunk.key == key)
    }

    /// Returns the slots of a sequence, oldest id first.
    fn queue(&self, key: Key) -> Vec<usize> {
        let mut queue: Vec<(u32, usize)> = self
            .chunks_of(key)
            .map(|(slot, chunk)| (chunk.id, slot))
            .collect();
        queue.sort_by(|a, b| order(a.0, b.0));
        queue.into_iter().map(|(_, slot)| slot).collect()
    }

    fn chunk(&self, slot: usize) -> &Chunk {
        self.slots[slot].chunk.as_ref().expect("a chunk")
    }

    fn chunk_mut(&mut self, slot: usize) -> &mut Chunk {
        self.slots[slot].chunk.as_mut().expect("a chunk")
    }

    fn sequence(&mut self, key: Key) -> &mut Sequence {
        self.sequences.get_mut(&key).expect("a sequence")
    }

    fn counts_mut(&mut self, key: Key) -> &mut Counts {
        &mut self.accounts.entry(key).or_default().counts
    }
}
