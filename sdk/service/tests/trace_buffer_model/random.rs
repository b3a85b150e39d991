//! Random operations on a buffer: by correct writers, by scrapers, and by hostile producers.

use crate::model::{Commit, FIRST_CONTINUES, Key, LAST_CONTINUES, NEEDS_PATCH, Patch};

/// A small, deterministic random number generator. A seed gives the same run everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        (!items.is_empty()).then(|| &items[self.below(items.len())])
    }
}

#[derive(Clone, Debug)]
pub enum Operation {
    Commit(Commit),
    Patch(Patch),
    BeginRead,
    Read,
    /// Clones the buffer, reads everything in the clone, and drops it.
    Clone,
}

/// A buffer and the operations on it. Operations do not refer to each other, so any part of a run
/// is a run, too.
#[derive(Clone, Debug)]
pub struct Run {
    pub size: u64,
    pub discard: bool,
    /// True if an observer sees overwritten packets.
    pub observed: bool,
    pub operations: Vec<Operation>,
}

struct Writer {
    key: Key,
    client: (Option<u32>, Option<u32>),
    next_id: u32,
    may_jump: bool,
    /// True if the latest chunk ended in the middle of a packet.
    is_open: bool,
    /// The latest chunks in their complete form.
    recent: Vec<Commit>,
}

/// Creates the run of a seed. Each run has its own mixture of operations.
pub fn run(seed: u64) -> Run {
    let random = &mut Random::new(seed);
    // Some runs have so many sequences that some are forgotten.
    let is_crowd = seed % 512 == 77;
    let size = match random.below(10) {
        _ if is_crowd => 32 * 1024,
        0 => 1 + random.below(20_000) as u64,
        1..4 => 8192,
        _ => 4096,
    };
    let writer_count = if is_crowd { 1400 } else { 1 + random.below(4) };
    let mut writers: Vec<Writer> = (0..writer_count)
        .map(|i| Writer {
            key: (1 + ((i % 2) << 16) as u32, 1 + (i / 2) as u16),
            client: (Some(1000 + i as u32), random.percent(80).then_some(7)),
            next_id: (random.below(60) as u32).wrapping_sub(30),
            may_jump: true,
            is_open: false,
            recent: Vec::new(),
        })
        .collect();
    let mut run = Run {
        size,
        discard: random.percent(20),
        observed: random.percent(50),
        operations: Vec::new(),
    };
    let length = if is_crowd {
        5000
    } else {
        50 + random.below(350)
    };
    let max_fragment = *random
        .pick(&[12, 40, 150, 700, 2500])
        .expect("there are some");
    let hostility = *random.pick(&[0, 0, 5, 25]).expect("there are some");
    let reading = *random.pick(&[2, 10, 40]).expect("there are some");
    while run.operations.len() < length {
        let writer = random.below(writers.len());
        let writer = &mut writers[writer];
        let operations = &mut run.operations;
        if random.percent(hostility) {
            hostile(random, writer, operations);
        } else if random.percent(reading) {
            operations.push(Operation::BeginRead);
            let reads_max = if random.percent(50) { 4 } else { 40 };
            let reads = random.below(reads_max);
            operations.extend((0..reads).map(|_| Operation::Read));
        } else {
            match random.below(20) {
                0..10 => {
                    let commit = writer.next_chunk(random, max_fragment);
                    operations.push(Operation::Commit(commit));
                }
                10..14 => scrape(random, writer, operations, max_fragment),
                14..16 => complete(random, writer, operations),
                16..18 => patch(random, writer, operations),
                18 => drop(writer.next_chunk(random, max_fragment)),
                _ if random.percent(20) => operations.push(Operation::Clone),
                _ => operations.push(Operation::BeginRead),
            }
        }
    }
    run
}

impl Writer {
    /// Creates the next chunk of a correct writer.
    fn next_chunk(&mut self, random: &mut Random, max_fragment: usize) -> Commit {
        let mut commit = Commit {
            key: self.key,
            id: self.next_id,
            client: self.client,
            declared: 0,
            flags: if self.is_open { FIRST_CONTINUES } else { 0 },
            complete: true,
            source: Vec::new(),
        };
        self.next_id = self.next_id.wrapping_add(1);
        let fragments = if random.percent(5) {
            0
        } else {
            1 + random.below(4)
        };
        for _ in 0..fragments {
            let len = if random.percent(10) {
                0
            } else {
                random.below(max_fragment)
            };
            append_fragment(random, &mut commit, len);
        }
        self.is_open = fragments > 0 && random.percent(40);
        if self.is_open {
            commit.flags |= LAST_CONTINUES;
            commit.flags |= if random.percent(30) { NEEDS_PATCH } else { 0 };
        }
        if random.percent(5) {
            commit.source.extend([0xff, 0xff, 0xff, 0x7f]);
            commit.declared += 1;
            commit.flags &= !(LAST_CONTINUES | NEEDS_PATCH);
            self.is_open = false;
        }
        // Old bytes behind the fragments.
        let stale = random.below(40);
        commit.source.extend(vec![0; stale]);
        if self.recent.len() == 8 {
            self.recent.remove(0);
        }
        self.recent.push(commit.clone());
        commit
    }
}

fn append_fragment(random: &mut Random, commit: &mut Commit, len: usize) {
    let header_len = if len < 1 << 7 && random.percent(60) {
        1
    } else {
        4
    };
    for i in 0..header_len {
        let more = u8::from(i + 1 < header_len) << 7;
        commit.source.push((len >> (7 * i)) as u8 & 0x7f | more);
    }
    let letter = b'a' + random.below(26) as u8;
    commit.source.extend(vec![letter; len]);
    commit.declared += 1;
}

/// Adds a scrape, which finds the latest chunks of a writer in any order. The last one is
/// incomplete.
fn scrape(
    random: &mut Random,
    writer: &mut Writer,
    operations: &mut Vec<Operation>,
    max_fragment: usize,
) {
    let mut found: Vec<Commit> = (0..1 + random.below(4))
        .map(|_| writer.next_chunk(random, max_fragment))
        .collect();
    if let Some(last) = found.last_mut()
        && random.percent(70)
    {
        last.complete = false;
        last.declared = random.below(usize::from(last.declared) + 1) as u16;
    }
    while !found.is_empty() {
        let commit = found.swap_remove(random.below(found.len()));
        operations.push(Operation::Commit(commit));
    }
}

/// Commits a chunk again, complete or scraped.
fn complete(random: &mut Random, writer: &mut Writer, operations: &mut Vec<Operation>) {
    // In most cases this is the latest chunk, which was incomplete.
    let recent = if random.percent(60) {
        writer.recent.last()
    } else {
        random.pick(&writer.recent)
    };
    let Some(mut commit) = recent.cloned() else {
        return;
    };
    if random.percent(30) {
        commit.complete = false;
        commit.declared -= random.below(usize::from(commit.declared) + 1) as u16;
    }
    operations.push(Operation::Commit(commit));
}

fn patch(random: &mut Random, writer: &mut Writer, operations: &mut Vec<Operation>) {
    let Some(recent) = random.pick(&writer.recent) else {
        return;
    };
    let mut patches = Vec::new();
    while random.percent(30) {
        let offset = if random.percent(10) {
            random.below(1 << 16)
        } else {
            random.below(recent.source.len() + 1)
        };
        // If these bytes replace the size of a fragment, the new size is rarely valid.
        let data = if random.percent(50) {
            *b"PTCH"
        } else {
            [random.below(5) as u8; 4]
        };
        patches.push((offset as u16, data));
    }
    operations.push(Operation::Patch(Patch {
        key: writer.key,
        id: recent.id,
        patches,
        has_more: random.percent(20),
    }));
}

/// Adds an operation of a hostile producer.
fn hostile(random: &mut Random, writer: &mut Writer, operations: &mut Vec<Operation>) {
    let recent = random.pick(&writer.recent).cloned();
    match (random.below(8), recent) {
        (0..2, Some(mut commit)) => {
            commit.flags ^= 1 << random.below(8);
            operations.push(Operation::Commit(commit));
        }
        (2, Some(mut commit)) => {
            let kept = random.below(commit.source.len() + 1);
            commit.source.truncate(kept);
            operations.push(Operation::Commit(commit));
        }
        (3, Some(mut commit)) => {
            for _ in 0..1 + random.below(3) {
                let len = random.below(50);
                append_fragment(random, &mut commit, len);
            }
            commit.declared += random.below(3) as u16;
            commit.complete = random.percent(50);
            operations.push(Operation::Commit(commit));
        }
        (4, _) => operations.push(Operation::Patch(Patch {
            key: writer.key,
            id: writer.next_id.wrapping_sub(random.below(40) as u32),
            patches: vec![(
                random.below(30) as u16,
                (random.next() as u32).to_le_bytes(),
            )],
            has_more: random.percent(50),
        })),
        (5, _) if writer.may_jump && random.percent(20) => {
            // Do this only once, so that all ids of a run lie within half of the id space.
            // Otherwise the ids would have no order, and the buffer needs one.
            writer.may_jump = false;
            writer.next_id = writer.next_id.wrapping_add(1 << 30);
        }
        _ => {
            let len = match random.below(40) {
                0 => random.below(70_000),
                1..8 => random.below(3000),
                _ => random.below(60),
            };
            // Small values are often valid sizes, large ones never are.
            let bytes = [0, 1, 2, 5, 0x80, 0x81, 0xff, random.next() as u8];
            let declared_max = if random.percent(90) { 12 } else { 1 << 16 };
            operations.push(Operation::Commit(Commit {
                key: writer.key,
                id: writer
                    .next_id
                    .wrapping_add(random.below(24) as u32)
                    .wrapping_sub(16),
                client: (None, None),
                declared: random.below(declared_max) as u16,
                flags: random.next() as u8,
                complete: random.percent(60),
                source: (0..len).map(|_| bytes[random.below(8)]).collect(),
            }));
        }
    }
}
