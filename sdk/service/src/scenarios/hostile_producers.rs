//! Producers that write into the buffers of sessions that do not record them. Each takes part in a
//! session of its own, so that flushes scrape its memory.

use std::sync::Arc;

use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::commit::Patch;
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::shm::{CHUNKS_PER_PAGE_MAX, PageLayout, WritableChunk};

use crate::{CentralBuffer, SessionOwner, SessionRequest};

use super::floods::flood_size;
use super::harness::{TestProducer, TestSession, World, packet, recording, write};
use super::manual_producer::{ManualProducer, header};

/// All ids that a buffer can have.
fn all_ids() -> impl Iterator<Item = BufferId> {
    (1..=u16::MAX).map(BufferId)
}

fn config(data_source: &str) -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(4096))
        .add_data_source(DataSourceConfig::new(data_source))
}

/// A session that records an honest producer alone.
struct Victim {
    producer: TestProducer,
    session: TestSession,
}

impl Victim {
    fn new(world: &World) -> Self {
        let producer = world.producer("honest");
        producer.register("honest");
        let session = world.session(config("honest"));
        let mut writer = producer.writer("honest");
        write(&mut writer, "first");
        Self { producer, session }
    }

    /// Checks that the trace has what the honest producer has written, and nothing else.
    #[track_caller]
    fn assert_untouched(&self) {
        let mut writer = self.producer.writer("honest");
        write(&mut writer, "last");
        self.session.disable();
        assert_eq!(self.session.read().texts(), ["first", "last"]);
    }
}

const HOSTILE: &str = "hostile";

/// Connects a hostile producer with memory of so many pages.
fn connect(world: &World, pages: u32) -> ManualProducer {
    world.manual_producer(HOSTILE, pages)
}

/// Begins a chunk that has a finished packet. `number` is that of the chunk in the memory.
fn chunk(hostile: &ManualProducer, number: u32, writer_id: WriterId) -> WritableChunk {
    let page_index = number / u32::from(CHUNKS_PER_PAGE_MAX);
    let header = header(writer_id, ChunkId(0));
    let mut chunk = hostile.chunk(page_index, PageLayout::Fourteen, header);
    chunk.append_packet(&packet("hostile"));
    chunk.publish_finished();
    chunk
}

/// Commits a chunk with a packet.
fn commit(hostile: &ManualProducer, writer_id: WriterId, target_buffer: BufferId) {
    let place = chunk(hostile, 0, writer_id).complete();
    hostile.commit(place, target_buffer);
}

#[test]
fn commits_to_foreign_buffers_are_refused() {
    let world = World::new();
    let victim = Victim::new(&world);
    let hostile = connect(&world, 1);
    for target in all_ids() {
        commit(&hostile, WriterId(1), target);
    }
    assert_eq!(victim.session.stats().chunks_discarded, u64::from(u16::MAX));
    victim.assert_untouched();
}

#[test]
fn patches_for_foreign_buffers_are_refused() {
    let world = World::new();
    let victim = Victim::new(&world);
    let hostile = connect(&world, 1);
    for target_buffer in all_ids() {
        let patch = Patch {
            offset_bytes: 0,
            data: [0x80, 0x80, 0x80, 0],
        };
        hostile.patch(WriterId(1), ChunkId(0), target_buffer, vec![patch]);
    }
    let stats = victim.session.stats();
    assert_eq!(stats.patches_discarded, u64::from(u16::MAX));
    victim.assert_untouched();
}

#[test]
fn flushes_scrape_nothing_into_foreign_buffers() {
    let world = World::new();
    let victim = Victim::new(&world);
    let hostile = connect(&world, 1);
    let own = world.session(config(HOSTILE));
    let chunk = chunk(&hostile, 0, WriterId(1));
    for target in all_ids() {
        hostile.register_writer(WriterId(1), target);
        own.flush(0);
        victim.session.flush(0);
    }
    // It did write, if only to its own buffer.
    assert_eq!(own.read().texts(), ["hostile"]);
    victim.assert_untouched();
    drop(chunk);
}

#[test]
fn ends_of_sessions_scrape_nothing_into_foreign_buffers() {
    let world = World::new();
    let hostile = connect(&world, 1);
    let own = world.session(config(HOSTILE));
    let victim = Victim::new(&world);
    let target = victim.producer.setup("honest").1.target_buffer;
    hostile.register_writer(WriterId(1), target);
    let chunk = chunk(&hostile, 0, WriterId(1));
    own.disable();
    assert!(own.read().texts().is_empty());
    victim.assert_untouched();
    drop(chunk);
}

#[test]
fn disconnecting_scrapes_nothing_into_foreign_buffers() {
    /// The number of writers of a connection, each with a chunk that it holds.
    const WRITERS: u16 = 16_384;
    let world = World::new();
    let victim = Victim::new(&world);
    let own = world.session(config(HOSTILE));
    let ids: Vec<_> = all_ids().collect();
    for ids in ids.chunks(WRITERS.into()) {
        let pages = ids.len().div_ceil(CHUNKS_PER_PAGE_MAX.into()) as u32;
        let hostile = connect(&world, pages);
        let chunks: Vec<_> = (0..)
            .zip(ids)
            .map(|(number, target)| {
                let writer_id = WriterId(number + 1);
                hostile.register_writer(writer_id, *target);
                chunk(&hostile, number.into(), writer_id)
            })
            .collect();
        drop(hostile.endpoint);
        drop(chunks);
    }
    // It did write, if only to its own buffer.
    assert_eq!(own.read().texts(), ["hostile"]);
    victim.assert_untouched();
}

#[test]
fn writers_commit_to_the_buffer_that_they_are_registered_for() {
    let world = World::new();
    let hostile = connect(&world, 1);
    let two_buffers = config(HOSTILE)
        .add_buffer(BufferConfig::ring(4096))
        .add_data_source(DataSourceConfig::new(HOSTILE).target_index(1));
    let own = world.session(two_buffers);
    let [first, second] = &world.service.buffers(own.id)[..] else {
        panic!("two buffers");
    };
    hostile.register_writer(WriterId(1), first.id);
    commit(&hostile, WriterId(1), second.id);
    assert_eq!(own.stats().chunks_discarded, 1);
    commit(&hostile, WriterId(1), first.id);
    assert_eq!(own.stats().chunks_discarded, 1);
    own.disable();
    assert_eq!(own.read().texts(), ["hostile"]);
}

#[test]
fn writers_have_ids_from_1_to_32767() {
    let world = World::new();
    let hostile = connect(&world, 1);
    let own = world.session(config(HOSTILE));
    let target = world.service.buffers(own.id)[0].id;
    for (id, refused) in [(0, 1), (1, 1), (0x7fff, 1), (0x8000, 2), (0xffff, 3)] {
        hostile.register_writer(WriterId(id), target);
        commit(&hostile, WriterId(id), target);
        assert_eq!(own.stats().chunks_discarded, refused, "{id}");
    }
    own.disable();
    assert_eq!(own.read().texts(), ["hostile", "hostile"]);
}

#[test]
fn many_connections_do_not_end_the_service() {
    /// More than 16 bits can number.
    const CONNECTIONS: u32 = 70_000;
    let world = World::new();
    let victim = Victim::new(&world);
    for _ in 0..CONNECTIONS {
        drop(connect(&world, 1));
    }
    let late = world.producer("late");
    late.register("late");
    let session = world.session(config("late"));
    write(&mut late.writer("late"), "in the trace");
    session.disable();
    assert_eq!(session.read().texts(), ["in the trace"]);
    victim.assert_untouched();
}

/// The number of ids that writers of one connection can have.
const WRITER_IDS: u16 = 0x7fff;

#[test]
fn too_many_writers_are_refused_and_others_go_on() {
    /// One more than the ids of two connections and one honest writer fill.
    const CONNECTIONS: u64 = 3;
    const SEQUENCES_MAX: u64 = 65_536;
    let world = World::new();
    let honest = world.producer("honest");
    honest.register("honest");
    let both = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(16 * 1024))
        .add_data_source(DataSourceConfig::new("honest"))
        .add_data_source(DataSourceConfig::new(HOSTILE));
    let session = world.session(both);
    let mut writer = honest.writer("honest");
    write(&mut writer, "first");
    session.flush(0);
    let target = world.service.buffers(session.id)[0].id;
    for _ in 0..CONNECTIONS {
        let hostile = connect(&world, 1);
        for id in 1..=WRITER_IDS {
            commit(&hostile, WriterId(id), target);
        }
    }
    write(&mut writer, "last");
    drop(writer);
    let refused = CONNECTIONS * u64::from(WRITER_IDS) + 1 - SEQUENCES_MAX;
    let stats = session.stats();
    assert_eq!(stats.buffers[0].chunks_discarded, refused);
    assert_eq!(stats.sequences.len() as u64, SEQUENCES_MAX);
    session.disable();
    let trace = session.read();
    let mut texts = trace.texts();
    texts.retain(|text| text != "hostile");
    assert_eq!(texts, ["first", "last"]);
    // No sequence came into being while packets were read.
    assert_eq!(session.stats().sequences.len() as u64, SEQUENCES_MAX);
}

#[test]
fn each_of_128_buffers_limits_its_writers() {
    const BUFFERS: usize = 128;
    const CONNECTIONS: u64 = 3;
    const SEQUENCES_MAX: u64 = 65_536;
    let attacked = (flood_size() / 5_000).clamp(2, BUFFERS);
    let world = World::new();
    let victim = Victim::new(&world);
    let config = (0..BUFFERS).fold(TraceConfig::empty(), |config, index| {
        config
            .add_buffer(BufferConfig::ring(64))
            .add_data_source(DataSourceConfig::new(HOSTILE).target_index(index))
    });
    let own = world.session(config);
    let targets = world.service.buffers(own.id);
    for _ in 0..CONNECTIONS {
        let hostile = connect(&world, 1);
        for id in 1..=WRITER_IDS {
            for target in &targets[..attacked] {
                commit(&hostile, WriterId(id), target.id);
            }
        }
        for target in &targets[attacked..] {
            commit(&hostile, WriterId(1), target.id);
        }
    }
    let refused = CONNECTIONS * u64::from(WRITER_IDS) - SEQUENCES_MAX;
    let counts = |buffer: &Arc<CentralBuffer>| {
        buffer.with(|buffer| {
            let sequences = buffer.all_packet_counts().count();
            (sequences as u64, buffer.stats().chunks_discarded)
        })
    };
    let (limited, others) = targets.split_at(attacked);
    for buffer in limited {
        assert_eq!(counts(buffer), (SEQUENCES_MAX, refused));
    }
    // The limit of one buffer takes nothing from another.
    for buffer in others {
        assert_eq!(counts(buffer), (CONNECTIONS, 0));
    }
    own.disable();
    assert!(!own.read().texts().is_empty());
    victim.assert_untouched();
}

#[test]
fn writers_that_are_gone_are_not_told_of_losses() {
    struct Owner;
    impl SessionOwner for Owner {}
    let world = World::new();
    let session = world.service.enable(SessionRequest {
        recording: Arc::new(recording(&config(HOSTILE)).unwrap()),
        uid: 0,
        owner: Arc::new(Owner),
        writes_into_file: true,
        wake: Some(Arc::new(|| ())),
        crash_files: None,
    });
    let buffer = Arc::clone(&world.service.buffers(session.unwrap())[0]);
    for _ in 0..3 {
        let hostile = connect(&world, 1);
        (1..=100).for_each(|id| hostile.register_writer(WriterId(id), buffer.id));
        assert_eq!(buffer.told_writers(), 100);
        // Registered again, for a buffer that does not exist.
        hostile.register_writer(WriterId(1), BufferId(u16::MAX));
        assert_eq!(buffer.told_writers(), 99);
    }
    assert_eq!(buffer.told_writers(), 0);
}
