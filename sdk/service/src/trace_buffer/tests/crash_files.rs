//! Kills between two stores to the file of a ring.
//!
//! After each store of a commit, the files are copied, and recovered from the copy. Every packet
//! that the buffer had before and has afterwards must be there, once, and no packet that it has
//! neither before nor afterwards. A ring that streams also has those that were read and are not in
//! the trace file yet. (The packets of the commit itself may be missing: in a real
//! process they are still in the shared memory.) If the ring keeps a state, each packet is either there
//! or part of the state.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use parking_lot::Mutex;
use protozero::{HeapBuffered, Value};
use support::Folder;
use tracezero_core::crash_files::{ProcessFolder, RingFile, SessionFolder};
use tracezero_core::protos::{
    TestEvent, TestEventDecoder, TraceDecoder, TracePacket, TracePacketDecoder, VmCursorEnum,
    VmInstruction, VmProgram, vm_instruction,
};
use tracezero_core::shm::Geometry;
use tracezero_crash::{Leftover, RecoveredTrace};

use super::*;
use crate::folded_state::{FoldedStates, FoldingObserver};
use crate::state_log::LoggedWriters;

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

/// The numbers of packets that a recovery finds.
#[derive(Debug)]
struct Recovered {
    in_trace: Vec<u64>,
    /// The numbers of the packets in the state.
    folded: Vec<u64>,
}

/// Copies the folder of a process, and recovers its session.
fn recover(process: &Path, copies: &Path) -> RecoveredTrace {
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
    recovered
}

/// Returns the packets that a recovery finds.
fn recovered(process: &Path, copies: &Path) -> Recovered {
    let bytes = fs::read(recover(process, copies).path).unwrap();
    let mut recovered = Recovered {
        in_trace: Vec::new(),
        folded: Vec::new(),
    };
    for packet in TraceDecoder::new(&bytes).packet() {
        let packet = packet.unwrap();
        recovered.in_trace.extend(number_of(&packet));
        if let Some(vms) = packet.protovms().unwrap() {
            for instance in vms.instance() {
                let state = instance.unwrap().state().unwrap().unwrap();
                recovered.folded.extend(folded_numbers(&state));
            }
        }
    }
    recovered
}

/// Returns the numbers of the packets in a state of [`keep_every_packet`], which has each packet as an
/// element of its own.
fn folded_numbers(state: &TracePacketDecoder<'_>) -> Vec<u64> {
    let events = state.fields().map(Result::unwrap);
    let events = events.filter(|field| field.number == TracePacket::FOR_TESTING_FIELD_NUMBER);
    let number = |event: protozero::Field<'_>| {
        let Value::Bytes(event) = event.value else {
            panic!("{event:?}");
        };
        TestEventDecoder::new(event).counter().unwrap()
    };
    events.filter_map(number).collect()
}

/// Returns a program that keeps each packet, by its number.
fn keep_every_packet() -> Vec<u8> {
    const EVENT: u32 = TracePacket::FOR_TESTING_FIELD_NUMBER;
    const NUMBER: u32 = TestEvent::COUNTER_FIELD_NUMBER;
    let mut buffer = HeapBuffered::<VmProgram<'_>>::new();
    let mut program = buffer.message();
    let from_event = |fields: &[u32], out: &mut VmInstruction<'_>| {
        out.set_abort_level(vm_instruction::AbortLevel::SKIP_CURRENT_INSTRUCTION_AND_BREAK_OUTER);
        out.select(|select| {
            for field in fields {
                select.add_relative_path(|component| {
                    component.set_field_id(*field);
                });
            }
        });
    };
    program.add_instructions(|out| {
        from_event(&[EVENT, NUMBER], out);
        out.add_nested_instructions(|out| {
            out.reg_load(|load| {
                load.set_dst_register(0);
            });
        });
    });
    program.add_instructions(|out| {
        from_event(&[EVENT], out);
        out.add_nested_instructions(|out| {
            out.select(|select| {
                select.set_cursor(VmCursorEnum::VM_CURSOR_DST);
                select.set_create_if_not_exist(true);
                select.add_relative_path(|component| {
                    component.set_field_id(EVENT);
                });
                select.add_relative_path(|component| {
                    component.set_map_key_field_id(NUMBER);
                    component.set_register_to_match(0);
                });
            });
            out.add_nested_instructions(|out| {
                out.merge(|_| {});
            });
        });
    });
    drop(program);
    buffer.to_vec()
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

    /// Returns a ring that folds every packet with a number.
    fn folding_ring(&self) -> (TraceBuffer, Arc<Mutex<FoldedStates>>) {
        let buffer = TraceBuffer::in_crash_file(&self.session, 0, RING_BYTES, FillPolicy::Ring);
        let mut buffer = buffer.unwrap();
        let mut states = FoldedStates::default();
        assert!(states.add(ProducerId::new(1), "numbered", &keep_every_packet(), 1024));
        states.log(buffer.crash_file().unwrap(), LoggedWriters::new());
        let states = Arc::new(Mutex::new(states));
        buffer.observe_overwrites(FoldingObserver(Arc::clone(&states)));
        (buffer, states)
    }

    /// Does `work`. Returns what a recovery finds after each of its stores.
    fn recovered_at_stores(&mut self, work: impl FnOnce()) -> Vec<Recovered> {
        let found: Rc<RefCell<Vec<Recovered>>> = Rc::default();
        let (path, copies): (PathBuf, PathBuf) =
            (self.process.path().into(), self.folder.file("copies"));
        let look = {
            let found = Rc::clone(&found);
            move || found.borrow_mut().push(recovered(&path, &copies))
        };
        at_stores::call(look, work);
        let found = found.take();
        self.looks += found.len();
        found
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
        let found = self.recovered_at_stores(|| work(buffer));
        let after = numbers_in(buffer);
        for Recovered {
            in_trace: numbers, ..
        } in found
        {
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
fn after_a_kill_each_packet_is_in_the_trace_or_in_the_state() {
    let mut crash = Crash::new();
    let (mut buffer, states) = crash.folding_ring();
    let mut known = BTreeSet::new();
    for chunk in chunks_of_which_some_are_evicted_unfinished() {
        let new = chunk.numbers();
        for Recovered { in_trace, folded } in
            crash.recovered_at_stores(|| chunk.commit_to(&mut buffer))
        {
            let mut all = [in_trace, folded].concat();
            all.sort_unstable();
            let twice = all.windows(2).find(|pair| pair[0] == pair[1]);
            assert_eq!(twice, None, "in the trace and in the state");
            let missing = known.iter().find(|it| all.binary_search(it).is_err());
            assert_eq!(missing, None, "neither in the trace nor in the state");
        }
        known.extend(new);
    }
    assert!(crash.looks > 800, "{}", crash.looks);
    let state = &states.lock().states()[0].state;
    let folded = folded_numbers(&TracePacketDecoder::new(state));
    assert!(folded.len() > 400, "{} packets were folded", folded.len());
}

#[test]
fn a_recovery_knows_how_many_packets_a_ring_has_folded_and_lost() {
    // Whole packets without a number, which the program refuses.
    const REFUSED: [&[u8]; 2] = [b"\x02\x40\x01", b"\x02\x40\x02"];
    let crash = Crash::new();
    let (mut buffer, _states) = crash.folding_ring();
    for id in 0..600 {
        let mut fragments = REFUSED.map(<[u8]>::to_vec).to_vec();
        // At last, there are only chunks of which nothing is folded.
        if id < 150 {
            fragments.push(fragment(id.into(), 300));
        }
        fragments.resize(10, REFUSED[0].to_vec());
        let chunk = NewChunk {
            writer: 1,
            id,
            fragments,
            is_complete: true,
        };
        chunk.commit_to(&mut buffer);
        if !matches!(id, 90 | 599) {
            continue;
        }
        let counts = buffer.packet_counts(ProducerId::new(1), WriterId(1));
        let counts = counts.unwrap();
        assert!(counts.folded > 20 && counts.overwritten > 200, "{counts:?}");
        let trace = recover(crash.process.path(), &crash.folder.file("copies"));
        let account = &trace.sequences[0];
        assert_eq!(
            (account.folded, account.overwritten, account.read),
            (counts.folded, counts.overwritten, counts.unread)
        );
    }
}

/// Returns chunks, among them some that are overwritten before their writer has filled them.
fn chunks_of_which_some_are_evicted_unfinished() -> Vec<NewChunk> {
    const FIRST_NUMBER: u64 = 1_000_000;
    let mut all = Vec::new();
    for (index, chunk) in chunks().into_iter().enumerate() {
        let turn = index as u64 % 60;
        if turn == 0 || turn == 59 {
            let id = (index / 60) as u32;
            let numbers = FIRST_NUMBER + u64::from(id) * 10..;
            let count = if turn == 0 { 2 } else { 4 };
            all.push(NewChunk {
                writer: 4,
                id,
                fragments: numbers.take(count).map(|it| fragment(it, 20)).collect(),
                is_complete: turn == 59,
            });
        }
        all.push(chunk);
    }
    all
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
