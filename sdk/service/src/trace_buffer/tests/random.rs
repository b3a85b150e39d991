//! Random tests of the buffer: with correct writers, whose packets are all accounted for, and with
//! hostile ones.

use super::*;

/// A small, deterministic random number generator. A seed gives the same run everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns a number below `bound` in most cases, otherwise any number.
    fn mostly_below(&mut self, bound: usize) -> u16 {
        let bound = if self.percent(10) { 1 << 16 } else { bound };
        self.below(bound) as u16
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

/// Gives every second buffer a limit of slots that it reaches.
fn limit_slots(buffer: &mut TraceBuffer, random: &mut Random) {
    if random.percent(50) {
        buffer.ring.limit_slots(1 + random.below(40));
    }
}

/// Returns the bytes of a writer's packet: its serial number, then bytes that follow from it.
fn packet_bytes(writer: u16, serial: u32) -> Vec<u8> {
    let mut random = Random(u64::from(writer) << 32 | u64::from(serial));
    let len = if random.percent(10) {
        random.below(1500)
    } else {
        random.below(120)
    };
    let mut bytes = serial.to_le_bytes().to_vec();
    bytes.extend((0..len).map(|_| random.next() as u8));
    bytes
}

#[derive(Clone, Debug)]
struct TestChunk {
    id: ChunkId,
    flags: ChunkFlags,
    /// The end of each fragment in `payload`, and whether a packet begins with it.
    fragments: Vec<(usize, bool)>,
    payload: Vec<u8>,
}

impl TestChunk {
    fn begun(&self, fragments: usize) -> u64 {
        self.fragments[..fragments]
            .iter()
            .filter(|(_, begins)| *begins)
            .count() as u64
    }

    fn commit(&self, buffer: &mut TraceBuffer, writer: u16, declared: usize, complete: bool) {
        buffer.commit_chunk(&UntrustedChunk {
            producer_id: ProducerId::new(1),
            client: ClientIdentity::default(),
            writer_id: WriterId(writer),
            chunk_id: self.id,
            fragment_count: declared as u16,
            flags: self.flags,
            complete,
            payload: &self.payload,
        });
    }
}

/// A correct writer.
struct TestWriter {
    id: u16,
    writes_large_chunks: bool,
    next_chunk: ChunkId,
    next_serial: u32,
    /// The rest of the packet in which the last chunk ended.
    open: Vec<u8>,
    /// A chunk that was scraped and is not committed yet, and the number of fragments that were
    /// seen.
    scraped: Option<(TestChunk, usize)>,
    /// The number of packets that began in committed fragments.
    begun: u64,
    /// Chunks that wait for patches.
    unpatched: Vec<ChunkId>,
    /// The serial number of the last packet that was read.
    read_serial: Option<u32>,
    read: u64,
}

impl TestWriter {
    fn new(id: u16) -> Self {
        Self {
            id,
            writes_large_chunks: id == 1,
            next_chunk: ChunkId(u32::MAX - 20),
            next_serial: 0,
            open: Vec::new(),
            scraped: None,
            begun: 0,
            unpatched: Vec::new(),
            read_serial: None,
            read: 0,
        }
    }

    fn next_chunk(&mut self, random: &mut Random) -> TestChunk {
        let mut flags = ChunkFlags::default();
        if !self.open.is_empty() {
            flags = flags.union(ChunkFlags::FIRST_PACKET_CONTINUES);
        }
        let mut chunk = TestChunk {
            id: self.next_chunk,
            flags,
            fragments: Vec::new(),
            payload: Vec::new(),
        };
        self.next_chunk = self.next_chunk.next();
        let mut room = 1 + random.below(if self.writes_large_chunks { 1800 } else { 500 });
        let is_given_up = !self.open.is_empty() && random.percent(5);
        loop {
            if is_given_up || self.open.is_empty() && random.percent(2) {
                // The writer gives the packet up, and the mark for that ends the chunk.
                self.next_serial += u32::from(!is_given_up);
                self.open.clear();
                chunk.payload.extend([0xff, 0xff, 0xff, 0x7f]);
                chunk.fragments.push((chunk.payload.len(), false));
                break;
            }
            let begins = self.open.is_empty();
            if begins {
                self.open = packet_bytes(self.id, self.next_serial);
                self.next_serial += 1;
            }
            let len = self.open.len().min(room);
            room -= len;
            let rest = self.open.split_off(len);
            let header_len = if len < 1 << 7 && random.percent(50) {
                1
            } else {
                4
            };
            for i in 0..header_len {
                chunk
                    .payload
                    .push((len >> (7 * i)) as u8 & 0x7f | u8::from(i + 1 < header_len) << 7);
            }
            chunk.payload.append(&mut self.open);
            chunk.fragments.push((chunk.payload.len(), begins));
            self.open = rest;
            if !self.open.is_empty() {
                chunk.flags = chunk.flags.union(ChunkFlags::LAST_PACKET_CONTINUES);
                if random.percent(20) {
                    chunk.flags = chunk.flags.union(ChunkFlags::NEEDS_PATCHING);
                    self.unpatched.push(chunk.id);
                }
                break;
            }
            if room == 0 || random.percent(10) {
                break;
            }
        }
        // Bytes behind the fragments, which the buffer must ignore.
        chunk
            .payload
            .resize(chunk.payload.len() + random.below(40), 0xee);
        chunk
    }

    /// Commits a complete chunk. `seen` of its fragments were committed before.
    fn commit(&mut self, buffer: &mut TraceBuffer, chunk: &TestChunk, seen: usize) {
        let all = chunk.fragments.len();
        chunk.commit(buffer, self.id, all, true);
        self.begun += chunk.begun(all) - chunk.begun(seen);
    }

    /// Commits what a scrape sees of a chunk: its fragments before a random one.
    fn scrape(
        &mut self,
        buffer: &mut TraceBuffer,
        chunk: TestChunk,
        seen: usize,
        random: &mut Random,
    ) {
        let visible = seen + random.below(chunk.fragments.len() - seen);
        chunk.commit(buffer, self.id, visible + 1, false);
        self.begun += chunk.begun(visible) - chunk.begun(seen);
        self.scraped = Some((chunk, visible));
    }

    fn take_packet(&mut self, bytes: &[u8], loss: LossMask) {
        let serial = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        assert!(
            bytes == packet_bytes(self.id, serial),
            "packet {serial} is broken"
        );
        if let Some(previous) = self.read_serial {
            assert!(serial > previous, "packet {serial} after {previous}");
            assert_eq!(
                loss.is_empty(),
                serial == previous + 1,
                "packet {serial} after {previous} with {loss:?}"
            );
        }
        self.read_serial = Some(serial);
        self.read += 1;
    }

    fn check_account(&self, buffer: &TraceBuffer) {
        let counts = buffer
            .packet_counts(ProducerId::new(1), WriterId(self.id))
            .unwrap_or_default();
        assert_eq!(
            counts.committed(),
            self.begun,
            "writer {}: {counts:?}",
            self.id
        );
        assert_eq!(counts.read, self.read);
    }
}

fn read_packets(buffer: &mut TraceBuffer, writers: &mut [TestWriter], max: usize) {
    buffer.begin_read();
    for _ in 0..max {
        let Some(packet) = buffer.read_packet() else {
            break;
        };
        let bytes = packet.slices().collect::<Vec<_>>().concat();
        assert_eq!(bytes.len(), packet.len_bytes());
        let loss = packet.loss();
        let writer = usize::from(packet.origin().writer_id.0) - 1;
        writers[writer].take_packet(&bytes, loss);
    }
}

/// Three writers share a buffer. Chunks are skipped, scraped, committed out of order and patched
/// late. Readers stop at random places.
fn run_account(seed: u64) {
    let mut random = Random(seed);
    let policy = if random.percent(75) {
        FillPolicy::Ring
    } else {
        FillPolicy::Discard
    };
    let size_bytes = 4096 * (1 + random.below(8) as u64);
    let mut buffer = TraceBuffer::new(size_bytes, policy).unwrap();
    limit_slots(&mut buffer, &mut random);
    let mut writers = [1, 2, 3].map(TestWriter::new);
    for _ in 0..300 {
        let writer = &mut writers[random.below(3)];
        match random.below(20) {
            0..8 => match writer.scraped.take() {
                Some((chunk, seen)) if random.percent(30) => {
                    writer.scrape(&mut buffer, chunk, seen, &mut random);
                }
                Some((chunk, seen)) => writer.commit(&mut buffer, &chunk, seen),
                None => {
                    let chunk = writer.next_chunk(&mut random);
                    writer.commit(&mut buffer, &chunk, 0);
                }
            },
            // A scrape finds the writer's chunks in any order. The last one is incomplete.
            8..10 if writer.scraped.is_none() => {
                let mut chunks: Vec<_> = (0..1 + random.below(4))
                    .map(|_| writer.next_chunk(&mut random))
                    .collect();
                let newest = chunks.last().map(|chunk| chunk.id);
                while !chunks.is_empty() {
                    let chunk = chunks.swap_remove(random.below(chunks.len()));
                    if Some(chunk.id) == newest {
                        writer.scrape(&mut buffer, chunk, 0, &mut random);
                    } else {
                        writer.commit(&mut buffer, &chunk, 0);
                        // The scrape has committed the chunk. Now its producer commits it, too.
                        writer.commit(&mut buffer, &chunk, chunk.fragments.len());
                    }
                }
            }
            10 if writer.scraped.is_none() => drop(writer.next_chunk(&mut random)),
            11..16 => {
                for id in std::mem::take(&mut writer.unpatched) {
                    buffer.patch_chunk(ProducerId::new(1), WriterId(writer.id), id, &[], false);
                }
            }
            _ => {
                let max = random.below(40);
                read_packets(&mut buffer, &mut writers, max);
            }
        }
        assert_consistent(&buffer);
        if random.percent(1) {
            assert_consistent(&buffer.clone_read_only().unwrap());
        }
        for writer in &writers {
            writer.check_account(&buffer);
        }
    }
}

#[test]
fn every_packet_is_read_in_order_or_counted_as_lost() {
    for seed in 0..500 {
        let run = std::panic::catch_unwind(|| run_account(seed));
        assert!(run.is_ok(), "with seed {seed}");
    }
}

#[test]
fn hostile_chunks_and_patches_only_move_counters() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let policy = if random.percent(75) {
            FillPolicy::Ring
        } else {
            FillPolicy::Discard
        };
        let mut buffer = TraceBuffer::new(8192, policy).unwrap();
        limit_slots(&mut buffer, &mut random);
        for _ in 0..300 {
            let writer_id = WriterId(random.below(3) as u16);
            let far = if random.percent(5) {
                random.next() as u32
            } else {
                0
            };
            let chunk_id = ChunkId((random.below(12) as u32).wrapping_sub(6).wrapping_add(far));
            match random.below(10) {
                0..7 => {
                    let len = match random.below(50) {
                        0 => random.below(70_000),
                        1..10 => random.below(3000),
                        _ => random.below(60),
                    };
                    // Small values are often valid sizes, large ones never are.
                    let bytes: [u8; 8] = [0, 1, 2, 5, 0x80, 0x81, 0xff, random.next() as u8];
                    let payload: Vec<u8> = (0..len).map(|_| bytes[random.below(8)]).collect();
                    buffer.commit_chunk(&UntrustedChunk {
                        producer_id: ProducerId::new(0),
                        client: ClientIdentity::default(),
                        writer_id,
                        chunk_id,
                        fragment_count: random.mostly_below(12),
                        flags: ChunkFlags::from_bits(random.next() as u8),
                        complete: random.percent(60),
                        payload: &payload,
                    });
                }
                7 => {
                    let patches: Vec<Patch> = (0..random.below(4))
                        .map(|_| Patch {
                            offset_bytes: random.mostly_below(40),
                            data: (random.next() as u32).to_le_bytes(),
                        })
                        .collect();
                    let has_more_patches = random.percent(50);
                    buffer.patch_chunk(
                        ProducerId::new(0),
                        writer_id,
                        chunk_id,
                        &patches,
                        has_more_patches,
                    );
                }
                _ => {
                    if random.percent(5) {
                        let mut clone = buffer.clone_read_only().unwrap();
                        clone.begin_read();
                        while clone.read_packet().is_some() {}
                        assert_consistent(&clone);
                    }
                    buffer.begin_read();
                    for _ in 0..random.below(20) {
                        if let Some(packet) = buffer.read_packet() {
                            let len_bytes: usize = packet.slices().map(<[u8]>::len).sum();
                            assert_eq!(len_bytes, packet.len_bytes());
                        }
                    }
                }
            }
            assert_consistent(&buffer);
        }
    }
}
