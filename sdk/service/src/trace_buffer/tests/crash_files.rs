//! Kills between two stores to the file of a ring.
//!
//! After each store of a commit, the files are copied, and recovered from the copy. Every packet
//! that the buffer had before and has afterwards must be there, once, and no packet that it has
//! neither before nor afterwards. A ring that streams also has those that were read and are not in
//! the trace file yet. (The packets of the commit itself may be missing: in a real
//! process they are still in the shared memory.)

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use protozero::HeapBuffered;
use support::Folder;
use tracezero_core::crash_files::{ProcessFolder, RingFile, SessionFolder};
use tracezero_core::protos::{TraceDecoder, TracePacket, TracePacketDecoder};
use tracezero_core::shm::Geometry;
use tracezero_crash::Leftover;

use super::*;

const RING_BYTES: u64 = 16 * 1024;

/// Random numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

/// A fragment with its size: a whole packet with this number.
fn fragment(number: u64, filler_bytes: u64) -> Vec<u8> {
    let mut packet = HeapBuffered::<TracePacket<'_>>::new();
    packet.message().for_testing(|event| {
        event.set_counter(number);
        event.set_str(&"x".repeat(filler_bytes as usize));
    });
    let packet = packet.to_vec();
    let mut bytes = Vec::new();
    protozero::append_varint(packet.len() as u64, &mut bytes);
    bytes.extend(packet);
    bytes
}

fn number_of(packet: &TracePacketDecoder<'_>) -> Option<u64> {
    packet.for_testing().unwrap()?.counter().unwrap()
}

/// The numbers of the packets in a buffer.
fn numbers_in(buffer: &TraceBuffer) -> BTreeSet<u64> {
    let mut copy = buffer.clone_read_only().unwrap();
    copy.begin_read();
    let mut numbers = BTreeSet::new();
    while let Some(packet) = copy.read_packet() {
        let bytes = packet.slices().collect::<Vec<_>>().concat();
        numbers.extend(number_of(&TracePacketDecoder::new(&bytes)));
    }
    numbers
}

/// Copies the folder of a process, recovers its session, and returns the numbers of the packets.
fn recovered(process: &Path, copies: &Path) -> Vec<u64> {
    let copy = copies.join("copy.tz");
    let _ = fs::remove_dir_all(copies);
    fs::create_dir_all(copy.join("s0")).unwrap();
    for folder in ["", "s0"] {
        for entry in fs::read_dir(process.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let to = copy.join(folder).join(path.file_name().unwrap());
                fs::copy(&path, to).unwrap();
            }
        }
    }
    let trace = copies.join("recovered.pftrace");
    let recovered = Leftover::open(&copy)
        .unwrap()
        .recover_session(0, &trace)
        .unwrap();
    assert_eq!(recovered.damages, [] as [&str; 0]);
    let bytes = fs::read(&trace).unwrap();
    let packets = TraceDecoder::new(&bytes).packet();
    packets
        .filter_map(|packet| number_of(&packet.unwrap()))
        .collect()
}

/// A chunk to be committed.
struct NewChunk {
    writer: u16,
    id: u32,
    fragments: Vec<Vec<u8>>,
    is_complete: bool,
}

impl NewChunk {
    /// Returns the numbers of the packets.
    fn numbers(&self) -> BTreeSet<u64> {
        const PACKET_TAG: &[u8] = &[0x0a];
        let packets = self.fragments.iter();
        let trace: Vec<u8> = packets.flat_map(|it| [PACKET_TAG, it].concat()).collect();
        let packets = TraceDecoder::new(&trace).packet();
        packets
            .filter_map(|packet| number_of(&packet.unwrap()))
            .collect()
    }

    fn commit_to(&self, buffer: &mut TraceBuffer) {
        let mut payload = self.fragments.concat();
        let open = u16::from(!self.is_complete);
        if !self.is_complete {
            // Room for what the writer adds.
            payload.resize(1000, 0);
        }
        buffer.commit_chunk(&UntrustedChunk {
            producer_id: ProducerId::new(1),
            client: ClientIdentity::default(),
            writer_id: WriterId(self.writer),
            chunk_id: ChunkId(self.id),
            fragment_count: self.fragments.len() as u16 + open,
            flags: ChunkFlags::NONE,
            complete: self.is_complete,
            payload: &payload,
        });
    }
}

/// Returns chunks of two writers: whole ones, and ones that come unfinished first.
fn chunks() -> Vec<NewChunk> {
    let mut random = Random(1);
    let mut chunks = Vec::new();
    let mut number = 0;
    for id in 0..80 {
        let mut packets = |count: u64, size_max: u64| -> Vec<Vec<u8>> {
            let packet = |_| {
                number += 1;
                fragment(number, random.below(size_max))
            };
            (0..count).map(packet).collect()
        };
        let chunk = |writer, fragments, is_complete| NewChunk {
            writer,
            id,
            fragments,
            is_complete,
        };
        chunks.push(chunk(1, packets(1 + u64::from(id) % 4, 600), true));
        let begin = packets(2, 100);
        let whole = [begin.clone(), packets(2, 100)].concat();
        chunks.push(chunk(2, begin, false));
        if id % 3 > 0 {
            // Grows in its slot, or is stored anew if its slot is near the write cursor.
            chunks.push(chunk(3, packets(1, 300), true));
        }
        chunks.push(chunk(2, whole, true));
    }
    chunks
}

/// The crash files of a session, and what a recovery finds in them.
struct Crash {
    folder: Folder,
    process: Arc<ProcessFolder>,
    session: Arc<SessionFolder>,
    looks: usize,
}

impl Crash {
    fn new() -> Self {
        let folder = Folder::empty();
        let geometry = Geometry::new(4096, 4096).unwrap();
        let process = ProcessFolder::create(folder.path(), "test", geometry).unwrap();
        let session = SessionFolder::create(&process).unwrap();
        Self {
            folder,
            process,
            session,
            looks: 0,
        }
    }

    /// Does `work` on a buffer. Checks what a recovery finds after each of its stores, beside the
    /// packets `read` that were read from the buffer, and are not in the trace file yet. Packets
    /// `written` are in the trace file, and may be in the ring, too.
    fn check(
        &mut self,
        buffer: &mut TraceBuffer,
        read: &BTreeSet<u64>,
        written: &BTreeSet<u64>,
        work: impl FnOnce(&mut TraceBuffer),
    ) {
        let before = numbers_in(buffer);
        let found: Rc<RefCell<Vec<Vec<u64>>>> = Rc::default();
        let (path, copies): (PathBuf, PathBuf) =
            (self.process.path().into(), self.folder.file("copies"));
        let look = {
            let found = Rc::clone(&found);
            move || found.borrow_mut().push(recovered(&path, &copies))
        };
        at_stores::call(look, || work(buffer));
        let after = numbers_in(buffer);
        for numbers in found.take() {
            self.looks += 1;
            let all: BTreeSet<u64> = numbers.iter().copied().collect();
            assert_eq!(all.len(), numbers.len(), "a packet is twice: {numbers:?}");
            let kept = before.intersection(&after).chain(read).copied();
            let missing: Vec<u64> = kept.filter(|number| !all.contains(number)).collect();
            assert_eq!(missing, [], "missing");
            let is_known = |number: &u64| {
                let sets = [&before, &after, read, written];
                sets.iter().any(|set| set.contains(number))
            };
            let unknown: Vec<u64> = all.into_iter().filter(|it| !is_known(it)).collect();
            assert_eq!(unknown, [], "unknown");
        }
        assert_consistent(buffer);
    }
}

#[test]
fn a_kill_between_two_stores_loses_and_doubles_nothing() {
    // The second ring has fewer slots than there is room for.
    for (slots_max, chunk_count, looks_min) in [(4096, usize::MAX, 800), (12, 100, 300)] {
        let mut crash = Crash::new();
        let buffer = TraceBuffer::in_crash_file(&crash.session, 0, RING_BYTES, FillPolicy::Ring);
        let mut buffer = buffer.unwrap();
        buffer.ring.limit_slots(slots_max);
        let none = BTreeSet::new();
        for chunk in chunks().into_iter().take(chunk_count) {
            crash.check(&mut buffer, &none, &none, |buffer| chunk.commit_to(buffer));
        }
        assert!(crash.looks > looks_min, "{}", crash.looks);
    }
}

#[test]
fn a_kill_loses_nothing_of_a_ring_that_grows_and_shrinks() {
    const SEGMENT_SHIFT: u32 = 13;
    const SEGMENTS_MAX: u32 = 16;
    let mut crash = Crash::new();
    let file = RingFile::create(&crash.session, 0, 1 << SEGMENT_SHIFT, false).unwrap();
    let ring = Ring::growing_in_file(SEGMENT_SHIFT, SEGMENTS_MAX, file).unwrap();
    let mut buffer = TraceBuffer::of_ring(ring, FillPolicy::Ring);
    let mut random = Random(2);
    let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
    let (mut peak_bytes, mut least_bytes) = (0, u64::MAX);
    for chunk in chunks() {
        // Packets of the chunk that were read before it grew are in the shared memory, too.
        let in_memory = chunk.numbers();
        let only_in_ring = read.difference(&in_memory).copied().collect();
        let known = written.union(&in_memory).copied().collect();
        crash.check(&mut buffer, &only_in_ring, &known, |buffer| {
            chunk.commit_to(buffer);
        });
        peak_bytes = peak_bytes.max(buffer.size_bytes());
        match random.below(12) {
            // A part of the packets is read, or all of them.
            turn @ (0 | 1) => {
                buffer.begin_read();
                let count = [random.below(20), u64::MAX][turn as usize];
                for _ in 0..count {
                    let Some(packet) = buffer.read_packet() else {
                        break;
                    };
                    let bytes = packet.slices().collect::<Vec<_>>().concat();
                    read.extend(number_of(&TracePacketDecoder::new(&bytes)));
                }
            }
            // The trace file gets the packets that were read.
            2 => {
                written.append(&mut read);
                crash.check(&mut buffer, &read, &written, |buffer| {
                    buffer.note_written();
                    while buffer.shrink() {}
                    drop(buffer.take_removed_segments());
                });
                least_bytes = least_bytes.min(buffer.size_bytes());
            }
            _ => {}
        }
    }
    assert!(peak_bytes > 3 << SEGMENT_SHIFT, "{peak_bytes}");
    assert!(least_bytes < peak_bytes, "{least_bytes} of {peak_bytes}");
    assert!(crash.looks > 800, "{}", crash.looks);
}
