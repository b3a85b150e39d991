//! Producers that write packets which they must not write: with fields of the service, in the name of
//! others, malformed, or without an end. An honest producer's packets stay as they are.

use std::cell::Cell;
use std::collections::BTreeSet;

use protozero::append_varint;
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::commit::Patch;
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::protos::TracePacket;
use tracezero_core::protos::trace_packet::Data;
use tracezero_core::shm::{ChunkFlags, NewChunk, PageLayout};
use tracezero_producer::TraceWriter;

use super::harness::{ReadTrace, TestProducer, TestSession, World, packet as text_packet, write};
use super::manual_producer::{ManualProducer, header};

const HOSTILE: &str = "hostile";
const HONEST: &str = "honest";
/// The number of the honest producer's packets.
const HONEST_PACKETS: usize = 100;
/// The first id that any producer gives to a writer.
const WRITER: WriterId = WriterId(1);

/// A producer that writes its chunks itself. Its only writer has the id that the honest producer's
/// writer has, too.
struct Hostile {
    producer: ManualProducer,
    next_chunk: Cell<u32>,
}

impl Hostile {
    fn connect(world: &World) -> Self {
        Self {
            producer: world.manual_producer(HOSTILE, 1),
            next_chunk: Cell::new(0),
        }
    }

    /// Commits a chunk with these fragments.
    fn commit(&self, target: BufferId, flags: ChunkFlags, fragments: &[&[u8]]) -> ChunkId {
        let chunk_id = ChunkId(self.next_chunk.get());
        self.next_chunk.set(chunk_id.0 + 1);
        let header = NewChunk {
            flags,
            ..header(WRITER, chunk_id)
        };
        let layout = match fragments.iter().all(|fragment| fragment.len() < 2) {
            true => PageLayout::Fourteen,
            false => PageLayout::One,
        };
        let mut chunk = self.producer.chunk(0, layout, header);
        fragments.iter().for_each(|it| chunk.append_packet(it));
        self.producer.commit(chunk.complete(), target);
        chunk_id
    }

    /// Writes a packet, first between others in a chunk, then in two chunks.
    fn write(&self, target: BufferId, packet: &[u8]) {
        let good = &text_packet(HOSTILE)[..];
        self.commit(target, ChunkFlags::NONE, &[good, packet, good]);
        let (begin, end) = packet.split_at(packet.len() / 2);
        self.commit(target, ChunkFlags::LAST_PACKET_CONTINUES, &[good, begin]);
        self.commit(target, ChunkFlags::FIRST_PACKET_CONTINUES, &[end, good]);
    }

    /// The number of times that [`Self::write`] writes the packet.
    const WRITES: usize = 2;
    /// The number of valid packets that [`Self::write`] writes beside it.
    const BESIDE: usize = 4;

    fn patch(&self, target_buffer: BufferId, chunk_id: ChunkId, patches: &[Patch]) {
        self.producer
            .patch(WRITER, chunk_id, target_buffer, patches.to_vec());
    }
}

/// A session that records an honest and a hostile producer into one buffer.
struct Shared {
    session: TestSession,
    target: BufferId,
    honest: TestProducer,
    writer: TraceWriter,
    written: usize,
    hostile: Hostile,
}

impl Shared {
    fn new(world: &World) -> Self {
        let honest = world.producer(HONEST);
        honest.register(HONEST);
        let hostile = Hostile::connect(world);
        let session = world.session(
            TraceConfig::empty()
                .add_buffer(BufferConfig::ring(64 << 10))
                .add_data_source(DataSourceConfig::new(HONEST))
                .add_data_source(DataSourceConfig::new(HOSTILE)),
        );
        let writer = honest.writer(HONEST);
        Self {
            target: world.service.buffers(session.id)[0].id,
            session,
            honest,
            writer,
            written: 0,
            hostile,
        }
    }

    /// Writes a packet of the honest producer.
    fn write_honest(&mut self) {
        write(&mut self.writer, &format!("{HONEST} {}", self.written));
        self.written += 1;
    }

    /// Writes a packet of the hostile producer, among packets of the honest one.
    fn write(&mut self, packet: &[u8]) {
        self.hostile.write(self.target, packet);
        if self.written < HONEST_PACKETS {
            self.write_honest();
        }
    }

    /// Ends the session. Checks the packets that each producer has in the trace, and who they say
    /// that they are from.
    #[track_caller]
    fn assert_exact(mut self, hostile_packets: usize, invalid_packets: usize) {
        while self.written < HONEST_PACKETS {
            self.write_honest();
        }
        drop(self.writer);
        self.session.disable();
        let trace = self.session.read();
        assert_eq!(self.session.stats().invalid_packets, invalid_packets as u64);
        let texts = trace.texts();
        let (honest, hostile): (Vec<_>, Vec<_>) = texts.into_iter().partition(|it| it != HOSTILE);
        let expected = (0..HONEST_PACKETS).map(|number| format!("{HONEST} {number}"));
        assert!(honest.into_iter().eq(expected));
        assert_eq!(hostile.len(), hostile_packets);
        // The client of each, as the harness connects it: user and process.
        let honest = authors(&trace, |text| text != HOSTILE);
        assert_eq!(honest.users, [1000].into());
        assert_eq!(honest.processes, [1001].into());
        let hostile = authors(&trace, |text| text == HOSTILE);
        assert_eq!(hostile.users, [-1].into());
        assert!(hostile.processes.is_empty());
        let sequences: BTreeSet<u32> = honest
            .sequences
            .union(&hostile.sequences)
            .copied()
            .collect();
        assert_eq!(sequences, [2, 3].into(), "one for each");
        assert_eq!((honest.sequences.len(), hostile.sequences.len()), (1, 1));
        // Everything else in the trace is the service's.
        let data = trace
            .packets()
            .into_iter()
            .filter(|packet| !matches!(packet.data().unwrap(), Some(Data::ForTesting(_))));
        for packet in data {
            assert_eq!(packet.trusted_packet_sequence_id().unwrap(), Some(1));
        }
        drop(self.honest);
    }
}

/// The sequences, users and processes that packets name as their writers.
#[derive(Debug, Default)]
struct Authors {
    sequences: BTreeSet<u32>,
    users: BTreeSet<i32>,
    processes: BTreeSet<i32>,
}

/// Returns the authors of the test packets whose texts are meant.
fn authors(trace: &ReadTrace, is_meant: impl Fn(&str) -> bool) -> Authors {
    let mut authors = Authors::default();
    for packet in trace.packets() {
        let Some(Data::ForTesting(event)) = packet.data().unwrap() else {
            continue;
        };
        if is_meant(event.str().unwrap().unwrap_or_default()) {
            let sequence = packet.trusted_packet_sequence_id().unwrap();
            authors
                .sequences
                .insert(sequence.expect("each packet has one"));
            authors.users.extend(packet.trusted_uid().unwrap());
            authors.processes.extend(packet.trusted_pid().unwrap());
        }
    }
    authors
}

/// The fields that only the service may write.
const RESERVED: [u64; 12] = [3, 10, 33, 35, 36, 50, 69, 79, 98, 124, 125, 133];

/// Encodes a field: a tag, and a value of its wire type.
fn field(number: u64, wire_type: u64) -> Vec<u8> {
    let mut field = Vec::new();
    append_varint(number << 3 | wire_type, &mut field);
    field.extend_from_slice(match wire_type {
        0 => &[1],
        1 => &[1; 8],
        2 => &[2, 8, 1],
        5 => &[1; 4],
        _ => &[],
    });
    field
}

/// A timestamp, as it is in front of most packets.
const TIMESTAMP: [u8; 3] = [0x40, 0x85, 1];

#[test]
fn packets_with_fields_of_the_service_are_left_out() {
    let world = World::new();
    let mut shared = Shared::new(&world);
    let mut written = 0;
    for number in RESERVED {
        for wire_type in [0, 1, 2, 5] {
            let reserved = field(number, wire_type);
            // The tag takes one byte more than it needs.
            let mut overlong = reserved.clone();
            let last_of_tag = overlong.iter().position(|byte| byte & 0x80 == 0).unwrap();
            overlong[last_of_tag] |= 0x80;
            overlong.insert(last_of_tag + 1, 0);
            let valid = text_packet("never in the trace");
            for forged in [
                reserved.clone(),
                overlong,
                [&TIMESTAMP, &reserved[..]].concat(),
                [&valid[..], &reserved].concat(),
                [&reserved[..], &valid].concat(),
            ] {
                shared.write(&forged);
                written += 1;
            }
        }
    }
    let invalid = written * Hostile::WRITES;
    assert_eq!(invalid, RESERVED.len() * 4 * 5 * 2);
    shared.assert_exact(written * Hostile::BESIDE, invalid);
}

#[test]
fn only_fields_of_the_service_are_reserved() {
    let world = World::new();
    let mut shared = Shared::new(&world);
    const FIELDS: u64 = 200;
    for number in 1..=FIELDS {
        shared.write(&field(number, 0));
    }
    // Inside of a message, they are fields of the data source.
    let inside = RESERVED.map(|number| field(number, 2)).concat();
    let mut nested = Vec::new();
    append_varint(
        u64::from(TracePacket::FOR_TESTING_FIELD_NUMBER) << 3 | 2,
        &mut nested,
    );
    append_varint(inside.len() as u64, &mut nested);
    nested.extend(inside);
    (shared.hostile).commit(shared.target, ChunkFlags::NONE, &[&nested]);
    let invalid = RESERVED.len() * Hostile::WRITES;
    shared.session.disable();
    shared.session.read();
    let valid = FIELDS as usize * (Hostile::WRITES + Hostile::BESIDE) - invalid + 1;
    let counts = world.service.read_counts(shared.session.id);
    assert_eq!(counts.packets, (valid + shared.written) as u64);
    assert_eq!(shared.session.stats().invalid_packets, invalid as u64);
}

#[test]
fn malformed_packets_are_left_out() {
    let mut malformed: Vec<Vec<u8>> = vec![
        // Field numbers 0 and 2^29, the same with the highest tag of 64 bits, and a tag of 65 bits.
        field(0, 0),
        field(0, 2),
        field(1 << 29, 0),
        field(1 << 29, 2),
        field(u64::MAX >> 3, 0),
        [&[0xff; 9][..], &[2, 1]].concat(),
        // A tag without an end, and values that reach beyond the packet, into the service's fields.
        vec![0x80],
        vec![0x40],
        vec![0x40, 0x80],
        vec![0x39, 1, 2, 3, 4, 5, 6, 7],
        vec![0x3d, 1, 2, 3],
        vec![0x5a],
        vec![0x5a, 1],
        vec![0x5a, 0xff, 0xff, 0xff, 0xff, 0x0f],
        [&[0x5a][..], &[0xff; 9], &[1]].concat(),
        // A varint of more than 64 bits.
        [&[0x40][..], &[0xff; 9], &[2]].concat(),
    ];
    // Groups, with and without an end, also around a field of the service; and wire types that
    // do not exist.
    for number in [11, 900, 10] {
        malformed.extend([3, 4, 6, 7].map(|wire_type| field(number, wire_type)));
        let group = [field(number, 3), field(79, 0), field(number, 4)];
        malformed.push(group.concat());
    }
    let valid = text_packet("never in the trace");
    let behind_valid: Vec<Vec<u8>> = malformed
        .iter()
        .map(|it| [&valid[..], it].concat())
        .collect();
    let world = World::new();
    let mut shared = Shared::new(&world);
    let packets: Vec<_> = malformed.into_iter().chain(behind_valid).collect();
    packets.iter().for_each(|packet| shared.write(packet));
    shared.assert_exact(
        packets.len() * Hostile::BESIDE,
        packets.len() * Hostile::WRITES,
    );
}

#[test]
fn producer_cannot_write_in_the_name_of_another() {
    let world = World::new();
    let mut shared = Shared::new(&world);
    // The honest producer's sequence may come first or second.
    shared.write_honest();
    let event = text_packet("never in the trace");
    let mut written = 0;
    let claims = [
        TracePacket::TRUSTED_PACKET_SEQUENCE_ID_FIELD_NUMBER,
        TracePacket::TRUSTED_UID_FIELD_NUMBER,
        TracePacket::TRUSTED_PID_FIELD_NUMBER,
    ];
    for number in claims {
        for id in [0, 1, 2, 3, 1000, 1001, u64::from(u32::MAX), u64::MAX] {
            let mut claim = Vec::new();
            append_varint(u64::from(number) << 3, &mut claim);
            append_varint(id, &mut claim);
            shared.write(&[&event[..], &claim].concat());
            shared.write(&[&claim[..], &event].concat());
            written += 2;
        }
    }
    shared.assert_exact(written * Hostile::BESIDE, written * Hostile::WRITES);
}

#[test]
fn patches_make_no_fields_of_the_service_and_reach_no_other_sequence() {
    let world = World::new();
    let mut shared = Shared::new(&world);
    shared.write_honest();
    let Shared {
        hostile,
        session,
        target,
        ..
    } = &shared;
    hostile.next_chunk.set(1000);
    // Two fields of two bytes become a sequence id. Their packet's size is in front of them.
    let before = [0x10, 1, 0x10, 1];
    let chunk = hostile.commit(*target, ChunkFlags::NEEDS_PATCHING, &[&before]);
    let forged = Patch {
        offset_bytes: 1,
        data: [0x50, 2, 0x50, 2],
    };
    hostile.patch(*target, chunk, &[forged]);
    let stats = session.stats().buffers[0];
    assert_eq!((stats.patches_succeeded, stats.patches_failed), (1, 0));
    // The honest writer has the same id, and its chunk is in the buffer.
    session.flush(0);
    (0..100).for_each(|chunk| hostile.patch(*target, ChunkId(chunk), &[forged]));
    let stats = session.stats().buffers[0];
    assert_eq!(stats.chunks_written, 2);
    assert_eq!((stats.patches_succeeded, stats.patches_failed), (1, 100));
    hostile.commit(*target, ChunkFlags::NONE, &[&text_packet(HOSTILE)]);
    shared.assert_exact(1, 1);
}

#[test]
fn request_has_at_most_1024_patches_for_a_chunk() {
    const PATCHES_MAX: usize = 1024;
    let world = World::new();
    let shared = Shared::new(&world);
    let packet = text_packet(HOSTILE);
    let flags = ChunkFlags::NEEDS_PATCHING;
    let chunk = shared.hostile.commit(shared.target, flags, &[&packet]);
    let unchanged = Patch {
        offset_bytes: 1,
        data: *packet.first_chunk().unwrap(),
    };
    for (count, refused) in [(PATCHES_MAX + 1, 1), (PATCHES_MAX, 1)] {
        let patches = vec![unchanged; count];
        shared.hostile.patch(shared.target, chunk, &patches);
        assert_eq!(shared.session.stats().patches_discarded, refused);
    }
    let stats = shared.session.stats().buffers[0];
    assert_eq!(stats.patches_succeeded, PATCHES_MAX as u64);
    shared.assert_exact(1, 0);
}

#[test]
fn packet_without_an_end_takes_no_more_than_its_buffer() {
    const RING_KIB: u32 = 256;
    /// A buffer stores one chunk for each 64 bytes at most.
    const SLOTS_MAX: u64 = RING_KIB as u64 * 1024 / 64;
    const CHUNKS: u64 = 4 * SLOTS_MAX;
    let goes_on = ChunkFlags::LAST_PACKET_CONTINUES;
    for fragment in [&[][..], &[7]] {
        let world = World::new();
        let honest = world.producer(HONEST);
        honest.register(HONEST);
        let ring = |source| {
            TraceConfig::empty()
                .add_buffer(BufferConfig::ring(RING_KIB))
                .add_data_source(DataSourceConfig::new(source))
        };
        let victim = world.session(ring(HONEST));
        let hostile = Hostile::connect(&world);
        let own = world.session(ring(HOSTILE));
        let buffer = &world.service.buffers(own.id)[0];
        let mut writer = honest.writer(HONEST);
        let mut honest_texts = Vec::new();
        let (mut written, mut reads) = (0, 0);
        hostile.commit(buffer.id, goes_on, &[fragment]);
        for number in 1..CHUNKS {
            let in_the_middle = goes_on.union(ChunkFlags::FIRST_PACKET_CONTINUES);
            hostile.commit(buffer.id, in_the_middle, &[fragment]);
            if number % 1024 == 0 {
                let (unread, used_bytes, stats) = buffer.with(|buffer| {
                    (
                        buffer.storage_balance().unread,
                        buffer.used_bytes(),
                        *buffer.stats(),
                    )
                });
                assert!(unread.chunks <= SLOTS_MAX && used_bytes <= stats.buffer_size);
                // Before the ring is full, each read waits for the packet's end.
                reads += u64::from(number < SLOTS_MAX);
                assert!(own.read().texts().is_empty());
                write(&mut writer, &written.to_string());
                written += 1;
                honest_texts.extend(victim.read().texts());
            }
        }
        hostile.commit(buffer.id, ChunkFlags::NONE, &[&text_packet(HOSTILE)]);
        own.disable();
        let trace = own.read();
        assert_eq!(trace.texts(), [HOSTILE]);
        let after_loss = trace.packets().into_iter().find_map(|packet| {
            matches!(packet.data().unwrap(), Some(Data::ForTesting(_)))
                .then(|| packet.previous_packet_dropped().unwrap())
        });
        assert!(after_loss.flatten().is_some_and(|mask| mask != 0));
        let stats = own.stats();
        assert_eq!(stats.sequences.len(), 1);
        assert_eq!(stats.sequences[0].lost(), 1, "{}", stats.sequences[0]);
        // Chunks of the packet are looked at once for each read, and once when the ring overwrites
        // its begin, and not for each other chunk.
        let tried = stats.buffers[0].readaheads_failed;
        assert!(tried <= reads + 2, "{tried} of {reads}");
        drop(writer);
        victim.disable();
        honest_texts.extend(victim.read().texts());
        assert!(
            (0..written)
                .map(|number| number.to_string())
                .eq(honest_texts)
        );
    }
}
