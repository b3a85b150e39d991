//! A trace buffer that is slow and simple: a list of slots, each with its own copy of a chunk, and
//! loops over all of it wherever something is looked for.
//!
//! It knows nothing of how the real buffer works. Where it follows a rule that the original
//! implementation of this buffer does not have, a comment says "Rule:".

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};

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

/// Producer and writer.
pub type Key = (u16, u16);

/// User and process.
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
    /// None is empty.
    pub slices: Vec<Vec<u8>>,
}

/// Packets by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub read: u64,
    pub unread: u64,
    pub overwritten: u64,
    pub discarded: u64,
    pub gap: u64,
    pub broken_chain: u64,
    pub aborted: u64,
    pub corrupted: u64,
}

/// Counters by the names that the scenarios use.
pub type Stats = BTreeMap<&'static str, u64>;

/// Count and sum per bucket.
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
    /// First fragments that are not consumed, as counted when the chunk was stored.
    unread_packets: u64,
}

#[derive(Clone, Debug)]
struct Slot {
    offset: u64,
    /// Of payload; the slot takes a header more, rounded up.
    reserved: usize,
    /// `None` is padding.
    chunk: Option<Chunk>,
}

#[derive(Clone, Debug, Default)]
struct Sequence {
    client: Client,
    /// All chunks that left, oldest first by time.
    consumed: Vec<(u32, usize, bool)>,
    /// What was lost and is not told yet: the chunk whose packets tell it first, if not the very
    /// next packet does, and why.
    losses: Vec<(Option<u32>, u32)>,
    stalled: bool,
    /// Since when it has no chunk.
    empty_since: Option<u64>,
}

/// What outlives the chunks of a sequence.
#[derive(Clone, Debug, Default)]
struct Account {
    counts: Counts,
    histogram: Option<Histogram>,
    noted: HashSet<u32>,
    newest_noted: Option<u32>,
    unfinished: Option<(u32, usize)>,
}

/// A chunk that room is being made for.
#[derive(Clone, Debug)]
struct Incoming {
    key: Key,
    id: u32,
    gap_checked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Read,
    Evict,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    Begin,
    Continue,
    End,
}

enum Token {
    Fragment { start: usize, end: usize },
    End,
    Aborted,
    Malformed,
}

/// A fragment that was looked at: its slot, its kind, and where it lies in the payload.
#[derive(Clone, Copy)]
struct Fragment {
    slot: usize,
    kind: Kind,
    start: usize,
    end: usize,
}

#[derive(PartialEq, Eq)]
enum Outcome {
    Done,
    NotYet,
    Gap,
    Corrupted,
    BrokenChain,
    Aborted,
}

#[derive(Clone, Debug)]
pub struct Model {
    size: u64,
    discard: bool,
    sealed: bool,
    read_only: bool,
    write: u64,
    used: u64,
    /// In the order of their offsets.
    slots: Vec<Slot>,
    sequences: HashMap<Key, Sequence>,
    accounts: HashMap<Key, Account>,
    pub stats: Stats,
    /// What is left to visit in this read cycle, by offset.
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

/// Orders ids that wrap.
fn order(a: u32, b: u32) -> Ordering {
    match a.wrapping_sub(b) {
        0 => Ordering::Equal,
        ahead if ahead < 1 << 31 => Ordering::Greater,
        _ => Ordering::Less,
    }
}

fn token(payload: &[u8], at: usize) -> Token {
    if at >= payload.len() {
        return Token::End;
    }
    let mut size: u128 = 0;
    let mut read = 0;
    loop {
        if read == 10 || at + read == payload.len() {
            return Token::Malformed;
        }
        let byte = payload[at + read];
        size |= u128::from(byte & 0x7f) << (7 * read);
        read += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let size = size as u64;
    let start = at + read;
    if size == 0x0fff_ffff {
        Token::Aborted
    } else if size > (payload.len() - start) as u64 {
        Token::Malformed
    } else {
        Token::Fragment {
            start,
            end: start + size as usize,
        }
    }
}

fn kind(payload: &[u8], flags: u8, at: usize, end: usize) -> Kind {
    let continues = at == 0 && flags & FIRST_CONTINUES != 0;
    let continued = end == payload.len() && flags & LAST_CONTINUES != 0;
    match (continues, continued) {
        (false, false) => Kind::Whole,
        (false, true) => Kind::Begin,
        (true, true) => Kind::Continue,
        (true, false) => Kind::End,
    }
}

fn is_packet(kind: Kind, len: usize) -> bool {
    kind == Kind::Begin || kind == Kind::Whole && len > 0
}

/// Packets that begin at or behind `at`.
fn packets_from(payload: &[u8], mut at: usize, flags: u8) -> u64 {
    let mut packets = 0;
    while let Token::Fragment { start, end } = token(payload, at) {
        packets += u64::from(is_packet(kind(payload, flags, at, end), end - start));
        at = end;
    }
    packets
}

/// Whether a packet that begins in the chunk `id` tells a loss.
fn is_told(first_told: Option<u32>, id: u32) -> bool {
    first_told.is_none_or(|at| order(at, id) != Ordering::Greater)
}

impl Account {
    fn record(&mut self, len: usize) {
        let bounds = [8, 32, 128, 512, 1024, 2048, 4096, 8192, 12288, 16384];
        let bucket = bounds.iter().position(|&bound| len <= bound).unwrap_or(10);
        let histogram = self.histogram.get_or_insert_default();
        histogram[bucket].0 += 1;
        histogram[bucket].1 += len as u64;
    }

    /// Rule: what of a refused chunk is lost is counted, but not what an earlier copy of the chunk
    /// brought. Copies are told from late chunks among the latest 128 ids of a writer, and one
    /// chunk per writer may be unfinished.
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

    /// Number and bytes of the chunks that were not read to their end.
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

    /// The slots of a sequence, oldest id first.
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

    // ---- Writing ----

    pub fn commit(&mut self, commit: &Commit) {
        self.to_visit = None;
        self.overwritten.clear();
        let key = commit.key;
        self.accounts.entry(key).or_default();
        let (mut declared, mut flags) = (commit.declared, commit.flags);
        if !commit.complete && declared > 0 {
            declared -= 1;
            flags &= !(LAST_CONTINUES | NEEDS_PATCH);
        }
        let mut len = 0;
        let (mut aborted, mut malformed) = (false, false);
        for _ in 0..declared {
            match token(&commit.source, len) {
                Token::Fragment { end, .. } => len = end,
                Token::Aborted => {
                    aborted = true;
                    break;
                }
                Token::End | Token::Malformed => {
                    malformed = true;
                    break;
                }
            }
        }
        let payload = &commit.source[..len];
        if self.sealed || self.read_only {
            self.count("chunks_discarded", 1);
            return self.refuse(commit, payload, flags);
        }
        if malformed {
            self.count("abi_violations", 1);
        }
        let reserved = if commit.complete {
            len
        } else {
            commit.source.len()
        };
        if reserved > 65535 || outer(reserved) > self.size {
            self.count("abi_violations", 1);
            return self.refuse(commit, payload, flags);
        }
        self.accounts.entry(key).or_default().record(len);
        let now = self.emptied;
        self.sequences.entry(key).or_insert_with(|| Sequence {
            client: commit.client,
            empty_since: Some(now),
            ..Sequence::default()
        });
        if aborted {
            self.count("trace_writer_packet_loss", 1);
        }

        let mut consumed = 0;
        if let Some((last, last_len, was_incomplete)) = self.newest_consumed(key)
            && order(commit.id, last) != Ordering::Greater
        {
            let comes_again = commit.id == last && was_incomplete;
            if comes_again && last_len < len {
                consumed = last_len;
            } else {
                // Rule: the loss of an aborted packet is told behind the chunk, not before it, so
                // also if the mark of it is all that comes.
                if comes_again && commit.complete && aborted {
                    self.lose(key, commit.id, WRITER_ABORT);
                }
                self.count("chunks_discarded", 1);
                return self.refuse(commit, payload, flags);
            }
        }
        let queue = self.queue(key);
        if let Some(&present) = queue.iter().find(|&&slot| self.chunk(slot).id == commit.id) {
            let chunk = self.chunk(present);
            let grows = len > chunk.payload.len();
            if len < chunk.payload.len()
                || len > self.slots[present].reserved
                || chunk.flags & ABI_FLAGS & !flags != 0
            {
                return self.count("abi_violations", 1);
            }
            let is_drained = chunk.consumed == chunk.payload.len();
            let is_front = queue[0] == present;
            if chunk.incomplete
                && is_drained
                && commit.complete
                && grows
                && is_front
                && !self.discard
            {
                consumed = chunk.payload.len();
                self.count("chunks_relocated", 1);
                self.check_gap(present);
                self.erase(present);
            } else {
                let chunk = self.chunk_mut(present);
                chunk.incomplete &= !commit.complete;
                chunk.aborted |= aborted;
                if grows {
                    chunk.payload = payload.to_vec();
                    chunk.flags |= flags;
                    chunk.unread_packets = packets_from(payload, chunk.consumed, chunk.flags);
                    self.count("chunks_rewritten", 1);
                }
                return;
            }
        }

        let size = outer(reserved);
        if size > self.tail() && self.discard {
            self.sealed = true;
            self.count("chunks_discarded", 1);
            return self.refuse(commit, payload, flags);
        }
        self.incoming = Some(Incoming {
            key,
            id: commit.id,
            gap_checked: false,
        });
        if size > self.tail() {
            self.evict_until(self.used);
            self.write = 0;
            self.count("write_wrap_count", 1);
        }
        let end = self.write + size;
        self.evict_until(end);
        let incoming = self.incoming.take();
        self.cover(end);
        let newer_are_there = self
            .chunks_of(key)
            .any(|(_, chunk)| order(chunk.id, commit.id) == Ordering::Greater);
        self.count("chunks_committed_out_of_order", u64::from(newer_are_there));
        let slot = Slot {
            offset: self.write,
            reserved,
            chunk: Some(Chunk {
                key,
                id: commit.id,
                payload: payload.to_vec(),
                consumed,
                flags,
                incomplete: !commit.complete,
                aborted,
                gap_checked: incoming.is_some_and(|incoming| incoming.gap_checked),
                unread_packets: packets_from(payload, consumed, flags),
            }),
        };
        self.slots.push(slot);
        self.slots.sort_by_key(|slot| slot.offset);
        self.write = end;
        self.used = self.used.max(end);
        self.count("chunks_written", 1);
        self.count("bytes_written", size);
        self.sequence(key).empty_since = None;
        self.forget_stale();
    }

    fn refuse(&mut self, commit: &Commit, payload: &[u8], flags: u8) {
        let present = self
            .chunks_of(commit.key)
            .find(|(_, chunk)| chunk.id == commit.id)
            .map(|(_, chunk)| (chunk.payload.len(), chunk.incomplete));
        let account = self.accounts.entry(commit.key).or_default();
        let Some(mut news) = account.news(commit.id) else {
            return;
        };
        match present {
            Some((_, false)) => return,
            Some((len, true)) => news = news.max(len),
            None => {}
        }
        account.counts.discarded += packets_from(payload, news, flags);
        let len = payload.len().min(65535).max(news);
        account.note(commit.id, len, commit.complete);
    }

    /// Clears the slots that start before `end`, from the write cursor on.
    fn evict_until(&mut self, end: u64) {
        let ahead = self.write..end;
        for slot in 0..self.slots.len() {
            if !ahead.contains(&self.slots[slot].offset) {
                continue;
            }
            let Some(chunk) = &self.slots[slot].chunk else {
                let size = outer(self.slots[slot].reserved);
                self.count("padding_bytes_cleared", size);
                continue;
            };
            let key = chunk.key;
            while let Some((id, packet)) = self.next_packet(key, slot, Mode::Evict) {
                self.overwritten.push(packet);
                self.lose(key, id, OVERWRITE);
            }
        }
    }

    /// Removes the slots between the write cursor and `end`, which are padding, and makes padding
    /// of what sticks out.
    fn cover(&mut self, end: u64) {
        let write = self.write;
        let covered = |slot: &Slot| (write..end).contains(&slot.offset);
        let last = self.slots.iter().rfind(|slot| covered(slot)).cloned();
        self.slots.retain(|slot| !covered(slot));
        if let Some(last) = last {
            assert!(last.chunk.is_none(), "evicted before it is covered");
            let rest = (last.offset + outer(last.reserved)).saturating_sub(end);
            if rest > 0 {
                self.count("padding_bytes_written", rest);
                self.slots.push(Slot {
                    offset: end,
                    reserved: rest as usize - 16,
                    chunk: None,
                });
            }
        }
    }

    fn forget_stale(&mut self) {
        let mut empty: Vec<(u64, Key)> = self
            .sequences
            .iter()
            .filter_map(|(&key, sequence)| Some((sequence.empty_since?, key)))
            .collect();
        if empty.len() <= 1152 {
            return;
        }
        empty.sort_unstable();
        for (_, key) in &empty[..empty.len() - 1024] {
            self.sequences.remove(key);
        }
    }

    pub fn patch(&mut self, patch: &Patch) -> bool {
        self.to_visit = None;
        let found = self
            .chunks_of(patch.key)
            .find(|(_, chunk)| chunk.id == patch.id)
            .map(|(slot, _)| slot);
        let Some(slot) = found.filter(|_| !self.read_only) else {
            self.count("patches_failed", 1);
            return false;
        };
        for &(offset, data) in &patch.patches {
            let offset = usize::from(offset);
            let payload = &mut self.chunk_mut(slot).payload;
            if offset + 4 > payload.len() {
                self.count("patches_failed", 1);
                return false;
            }
            payload[offset..offset + 4].copy_from_slice(&data);
        }
        self.count("patches_succeeded", patch.patches.len() as u64);
        if !patch.has_more {
            self.chunk_mut(slot).flags &= !NEEDS_PATCH;
        }
        true
    }

    // ---- Reading ----

    pub fn begin_read(&mut self) {
        for sequence in self.sequences.values_mut() {
            sequence.stalled = false;
        }
        let offsets = || self.slots.iter().map(|slot| slot.offset);
        let old = offsets().filter(|&offset| offset >= self.write);
        let new = offsets().filter(|&offset| offset < self.write);
        self.to_visit = Some(old.chain(new).collect());
    }

    /// Rule: nothing comes after a write before the next `begin_read`.
    pub fn read(&mut self) -> Option<Packet> {
        while let Some(&visited) = self.to_visit.as_ref()?.first() {
            let slot = self
                .slots
                .iter()
                .position(|slot| slot.offset == visited)
                .expect("slots stay while they are read");
            if let Some(chunk) = &self.slots[slot].chunk {
                let key = chunk.key;
                if !self.sequence(key).stalled
                    && let Some((id, packet)) = self.next_packet(key, slot, Mode::Read)
                {
                    self.sequence(key)
                        .losses
                        .retain(|&(at, _)| !is_told(at, id));
                    return Some(packet);
                }
            }
            self.to_visit.as_mut()?.remove(0);
        }
        None
    }

    /// The next packet of a sequence up to the chunk in the slot `target`, and the chunk it begins
    /// in.
    fn next_packet(&mut self, key: Key, target: usize, mode: Mode) -> Option<(u32, Packet)> {
        loop {
            let front = *self.queue(key).first()?;
            self.check_gap(front);
            let id = self.chunk(front).id;
            let Some(fragment) = self.unread_fragment(front) else {
                let chunk = self.chunk(front);
                if chunk.incomplete && mode == Mode::Read {
                    // Rule: what is corrupt here is told when the chunk goes, once.
                    self.sequence(key).stalled = true;
                    return None;
                }
                let (aborted, unread_packets) = (chunk.aborted, chunk.unread_packets);
                if chunk.consumed < chunk.payload.len() {
                    self.lose(key, id, CHUNK_CORRUPTED);
                }
                if aborted {
                    // Rule: told behind what the chunk holds, where it happened.
                    self.lose(key, id, WRITER_ABORT);
                }
                self.counts_mut(key).corrupted += unread_packets;
                self.erase(front);
                if front == target {
                    return None;
                }
                continue;
            };
            let mut fragments = vec![fragment];
            match fragment.kind {
                Kind::Whole => {
                    self.consume(fragment, mode);
                    if fragment.start == fragment.end {
                        continue;
                    }
                }
                Kind::Continue | Kind::End => {
                    self.consume(fragment, mode);
                    self.lose(key, id, ORPHAN_CONTINUATION);
                    continue;
                }
                Kind::Begin => {
                    let outcome = self.collect(key, &mut fragments);
                    let is_done = outcome == Outcome::Done;
                    let name = if is_done {
                        "readaheads_succeeded"
                    } else {
                        "readaheads_failed"
                    };
                    self.count(name, 1);
                    if outcome == Outcome::NotYet && mode == Mode::Read {
                        self.sequence(key).stalled = true;
                        return None;
                    }
                    for &fragment in &fragments {
                        self.consume(fragment, mode);
                    }
                    if !is_done {
                        let counts = self.counts_mut(key);
                        let (count, cause) = match outcome {
                            Outcome::Done | Outcome::NotYet => (&mut counts.overwritten, OVERWRITE),
                            Outcome::Gap => (&mut counts.gap, REASSEMBLY_GAP),
                            Outcome::Corrupted => (&mut counts.corrupted, CHUNK_CORRUPTED),
                            Outcome::BrokenChain => (&mut counts.broken_chain, BROKEN_CHAIN),
                            Outcome::Aborted => (&mut counts.aborted, BROKEN_CHAIN),
                        };
                        *count += 1;
                        self.lose(key, id, cause);
                        continue;
                    }
                }
            }
            let counts = self.counts_mut(key);
            match mode {
                Mode::Read => counts.read += 1,
                Mode::Evict => counts.overwritten += 1,
            }
            let slices = fragments
                .iter()
                .filter(|fragment| fragment.start < fragment.end)
                .map(|fragment| {
                    self.chunk(fragment.slot).payload[fragment.start..fragment.end].to_vec()
                })
                .collect();
            let sequence = &self.sequences[&key];
            let losses = sequence.losses.iter().filter(|&&(at, _)| is_told(at, id));
            let packet = Packet {
                key,
                client: sequence.client,
                loss: losses.fold(0, |mask, (_, cause)| mask | cause),
                slices,
            };
            return Some((id, packet));
        }
    }

    /// Finds the fragments that continue the packet.
    fn collect(&self, key: Key, fragments: &mut Vec<Fragment>) -> Outcome {
        let queue = self.queue(key);
        let begin = self.chunk(queue[0]);
        if begin.flags & NEEDS_PATCH != 0 {
            return Outcome::NotYet;
        }
        let mut aborted = begin.aborted;
        for pair in queue.windows(2) {
            let (previous, chunk) = (self.chunk(pair[0]), self.chunk(pair[1]));
            // Rule: a gap counts here only if it lies inside the packet.
            if chunk.id != previous.id.wrapping_add(1) {
                return Outcome::Gap;
            }
            match self.unread_fragment(pair[1]) {
                Some(fragment) => match fragment.kind {
                    // Rule: patches concern the last fragment of a chunk. Only if that is the
                    // continuation does the packet wait for them.
                    Kind::Continue if chunk.flags & NEEDS_PATCH != 0 => return Outcome::NotYet,
                    Kind::Continue => fragments.push(fragment),
                    Kind::End => {
                        fragments.push(fragment);
                        return Outcome::Done;
                    }
                    Kind::Whole | Kind::Begin if aborted => return Outcome::Aborted,
                    Kind::Whole | Kind::Begin => return Outcome::BrokenChain,
                },
                None if chunk.consumed < chunk.payload.len() => return Outcome::Corrupted,
                // Rule: the continuation may be what the unfinished chunk does not show yet.
                None if chunk.incomplete => return Outcome::NotYet,
                None => {}
            }
            aborted |= chunk.aborted;
        }
        Outcome::NotYet
    }

    fn unread_fragment(&self, slot: usize) -> Option<Fragment> {
        let Chunk {
            payload,
            flags,
            consumed,
            ..
        } = self.chunk(slot);
        match token(payload, *consumed) {
            Token::Fragment { start, end } => Some(Fragment {
                slot,
                kind: kind(payload, *flags, *consumed, end),
                start,
                end,
            }),
            Token::End | Token::Aborted | Token::Malformed => None,
        }
    }

    fn consume(&mut self, fragment: Fragment, mode: Mode) {
        let size = outer(self.slots[fragment.slot].reserved);
        let chunk = self.chunk_mut(fragment.slot);
        chunk.consumed = fragment.end;
        if is_packet(fragment.kind, fragment.end - fragment.start) {
            chunk.unread_packets = chunk.unread_packets.saturating_sub(1);
        }
        if chunk.consumed == chunk.payload.len() {
            let (chunks, bytes) = match mode {
                Mode::Read => ("chunks_read", "bytes_read"),
                Mode::Evict => ("chunks_overwritten", "bytes_overwritten"),
            };
            self.count(chunks, 1);
            self.count(bytes, size);
        }
    }

    // ---- Order and losses ----

    /// Rule: the newest of all, even if an older one left later.
    fn newest_consumed(&self, key: Key) -> Option<(u32, usize, bool)> {
        let consumed = &self.sequences.get(&key)?.consumed;
        let newest = |a: &&(u32, usize, bool), b: &&(u32, usize, bool)| order(a.0, b.0);
        // Of several copies of one chunk, the last.
        consumed.iter().max_by(newest).copied()
    }

    /// Rule: every chunk is looked at once, when it is first in its sequence: ids are missing if
    /// the newest one before it, of those that left or are being stored, is not its predecessor.
    fn check_gap(&mut self, slot: usize) {
        let chunk = self.chunk_mut(slot);
        if std::mem::replace(&mut chunk.gap_checked, true) {
            return;
        }
        let (key, id) = (chunk.key, chunk.id);
        if self.is_behind_gap(key, id) {
            self.lose(key, id, READ_GAP);
        }
    }

    /// Rule: with the first chunk behind it that goes, a chunk that is being stored has nothing
    /// more to wait for: what is missing before it is noted then.
    fn check_gap_before_incoming(&mut self, gone: &Chunk) {
        if let Some(incoming) = &mut self.incoming
            && incoming.key == gone.key
            && order(gone.id, incoming.id) == Ordering::Greater
            && !incoming.gap_checked
        {
            incoming.gap_checked = true;
            let id = incoming.id;
            if self.is_behind_gap(gone.key, id) {
                self.lose(gone.key, id, READ_GAP);
            }
        }
    }

    fn is_behind_gap(&self, key: Key, id: u32) -> bool {
        let left = self.sequences[&key].consumed.iter().map(|&(id, ..)| id);
        if left.clone().any(|other| other == id) {
            // It comes again.
            return false;
        }
        left.chain(self.incoming_of(key))
            .filter(|&other| order(other, id) == Ordering::Less)
            .max_by(|&a, &b| order(a, b))
            .is_some_and(|predecessor| predecessor.wrapping_add(1) != id)
    }

    /// The chunk of this sequence that room is being made for.
    fn incoming_of(&self, key: Key) -> Option<u32> {
        let incoming = self.incoming.as_ref()?;
        (incoming.key == key).then_some(incoming.id)
    }

    /// Rule: a loss is told with the first packet behind it. If it happens behind a chunk that is
    /// yet to be read or is just being stored, that is one of the chunk `at` or of a later one.
    fn lose(&mut self, key: Key, at: u32, cause: u32) {
        let unread = self.chunks_of(key).map(|(_, chunk)| chunk.id);
        let is_behind = unread
            .chain(self.incoming_of(key))
            .any(|id| order(id, at) == Ordering::Less);
        let first_told = is_behind.then_some(at);
        self.sequence(key).losses.push((first_told, cause));
    }

    /// Takes the oldest chunk out of its sequence.
    fn erase(&mut self, slot: usize) {
        let chunk = self.slots[slot].chunk.take().expect("a chunk");
        self.check_gap_before_incoming(&chunk);
        let (len, complete) = (chunk.payload.len(), !chunk.incomplete);
        self.accounts
            .entry(chunk.key)
            .or_default()
            .note(chunk.id, len, complete);
        let is_empty = self.queue(chunk.key).is_empty();
        self.emptied += u64::from(is_empty);
        let now = self.emptied;
        let sequence = self.sequence(chunk.key);
        sequence.consumed.push((chunk.id, len, chunk.incomplete));
        if is_empty {
            sequence.empty_since = Some(now);
        }
    }
}
