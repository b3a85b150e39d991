//! The service stays within a budget of memory, however long hostile producers flood it. This test has
//! a process of its own, because it looks at the memory of the whole process.
//!
//! The budget is the sum of limits. Tests in `src/scenarios/` reach each of them.

use std::sync::Arc;
use std::time::Duration;

use protozero::HeapBuffered;
use support::{IgnoringProducer, numbers, resident_bytes};
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig, Trigger, TriggerConfig, TriggerMode};
use tracezero_config::LocalChoices;
use tracezero_core::commit::{ChunkToMove, CommitRequest, ServiceEndpoint};
use tracezero_core::coordination::{DataSourceDescriptor, ServiceControl};
use tracezero_core::ids::{BufferId, ChunkId, FlushId, InstanceId, SessionId, WriterId};
use tracezero_core::protos::TracePacket;
use tracezero_core::shm::{
    ChunkFlags, Geometry, NewChunk, PageLayout, ProducerMemory, shared_memory,
};
use tracezero_service::trace_buffer::ClientIdentity;
use tracezero_service::{
    ConnectRequest, Limits, Machine, ProducerEndpoint, Recording, Service, SessionOwner,
    SessionRequest,
};

const MIB: usize = 1 << 20;

/// The ring of the session that records the hostile producers.
const RING_BYTES: usize = 4 * MIB;
/// The order and counts of each sequence in the buffer, and its id and counts in the reader.
const SEQUENCES_BYTES: usize = 65_536 * 768;
/// The descriptors of the data sources of one connection.
const DESCRIPTORS_BYTES: usize = 4 * MIB;
/// The schemas of data sources that are gone, in one session.
const SCHEMAS_BYTES: usize = 64 * MIB;
/// The memory of the test itself, such as the trace, and memory that the allocator keeps free.
const OTHER_BYTES: usize = 32 * MIB;
const BUDGET_BYTES: usize =
    RING_BYTES + SEQUENCES_BYTES + DESCRIPTORS_BYTES + SCHEMAS_BYTES + OTHER_BYTES;

/// The amount by which the memory may grow in the last round.
const LAST_ROUND_MAX_BYTES: usize = 8 * MIB;

/// The number of rounds of all floods.
const ROUNDS: usize = 3;

struct Owner;

impl SessionOwner for Owner {}

/// A connection whose chunks the test writes itself.
struct Connection {
    memory: ProducerMemory,
    endpoint: ProducerEndpoint,
}

impl Connection {
    fn new(service: &Arc<Service>, name: &str, data_source: &str) -> Self {
        let geometry = Geometry::new(4096, 4096).expect("a page");
        let (memory, service_memory) = shared_memory(geometry).expect("a page");
        let client = ClientIdentity::default();
        let endpoint = service.connect_producer(ConnectRequest::new(
            name,
            client,
            service_memory,
            Arc::new(IgnoringProducer),
        ));
        let endpoint = endpoint.expect("nobody is locked out");
        let registered = endpoint.register_data_source(DataSourceDescriptor {
            name: data_source.to_owned(),
            ..DataSourceDescriptor::default()
        });
        registered.expect("the first one");
        Self { memory, endpoint }
    }

    fn commit(&self, target_buffer: BufferId, header: NewChunk, fragment: &[u8]) {
        let layout = PageLayout::Fourteen;
        let chunk = self.memory.acquire_for_writing(0, layout, header);
        let mut chunk = chunk.expect("all chunks are free");
        chunk.append_packet(fragment);
        let place = chunk.complete();
        self.endpoint.commit(&CommitRequest {
            chunks_to_move: vec![ChunkToMove::new(place, target_buffer)],
            chunks_to_patch: Vec::new(),
        });
    }
}

/// Encodes a packet with this number.
fn packet(number: u64) -> Vec<u8> {
    let mut packet = HeapBuffered::<TracePacket<'_>>::new();
    packet.message().for_testing(|event| {
        event.set_counter(number);
    });
    packet.to_vec()
}

fn session(service: &Service, config: TraceConfig) -> (SessionId, BufferId) {
    let message = tracezero_config::decode(&config.encode()).expect("a correct one");
    let recording = Recording::new(&message, &LocalChoices::default());
    let session = service.enable(SessionRequest {
        recording: Arc::new(recording.expect("a correct one")),
        uid: 0,
        owner: Arc::new(Owner),
        writes_into_file: false,
        wake: None,
        crash_files: None,
    });
    let session = session.expect("the first ones");
    (session, service.buffers(session)[0].id)
}

/// Floods the service like a hostile user who runs one process after the other. `round` makes
/// schemas different from those of earlier rounds.
fn flood(service: &Arc<Service>, target: BufferId, round: u64) {
    let connect = || Connection::new(service, &"n".repeat(MIB), "hostile");
    let header = |writer, chunk, flags| NewChunk {
        writer_id: WriterId(writer),
        chunk_id: ChunkId(chunk),
        flags,
    };
    // Connections, and all writer ids of some of them.
    (0..1000).for_each(|_| drop(connect()));
    for _ in 0..2 {
        let connection = connect();
        for id in 1..=0x7fff {
            let endpoint = &connection.endpoint;
            endpoint.register_writer(WriterId(id), target, &Arc::default());
            connection.commit(target, header(id, 0, ChunkFlags::NONE), &[0x40, 5]);
        }
    }
    // A packet without an end, in chunks of one byte.
    let connection = connect();
    let mut flags = ChunkFlags::LAST_PACKET_CONTINUES;
    for chunk in 0..20_000 {
        connection.commit(target, header(1, chunk, flags), &[7]);
        flags = flags.union(ChunkFlags::FIRST_PACKET_CONTINUES);
    }
    // Data sources whose schemas a trace must have, and data sources that no session asks for.
    let endpoint = &connection.endpoint;
    let register = |name: String, number: u64, schema_bytes| {
        let mut schema = vec![0; schema_bytes];
        schema[..8].copy_from_slice(&number.to_le_bytes());
        endpoint.register_data_source(DataSourceDescriptor {
            name,
            extension_descriptors: schema.into(),
            ..DataSourceDescriptor::default()
        })
    };
    for number in 0..40 {
        let is_registered = register("hostile".to_owned(), 40 * round + number, MIB).is_ok();
        assert!(is_registered);
        endpoint.unregister_data_source("hostile");
    }
    // The one that the connection began with was the first to go.
    endpoint.unregister_data_source("hostile");
    let registered = (0..100).filter(|&number| register("other".to_owned(), number, MIB).is_ok());
    assert_eq!(registered.count(), 3, "the fourth has a name, too");
    assert!(register("n".repeat(MIB), 0, 8).is_err());
    let too_long = "n".repeat(1000);
    for number in 0..10_000 {
        endpoint.activate_triggers(&["go", too_long.as_str()]);
        endpoint.acknowledge_flush(FlushId(u64::MAX - number));
        endpoint.notify_started(InstanceId(number));
    }
}

#[test]
fn floods_stay_within_the_budget() {
    let service = Service::new(Arc::new(Machine), Limits::default());
    let honest = Connection::new(&service, "honest", "honest");
    let ring = |data_source| {
        TraceConfig::empty()
            .add_buffer(BufferConfig::ring((RING_BYTES / 1024) as u32))
            .add_data_source(DataSourceConfig::new(data_source))
    };
    let (victim, victims_buffer) = session(&service, ring("honest"));
    let day = Duration::from_secs(86_400);
    let triggers =
        TriggerConfig::new(TriggerMode::CloneSnapshot, day).add_trigger(Trigger::new("go"));
    let (own, target) = session(&service, ring("hostile").triggers(triggers));
    let process = std::process::id();
    let before_bytes = resident_bytes(process);
    let mut grown_bytes = Vec::new();
    for round in 0..ROUNDS as u64 {
        let header = NewChunk {
            writer_id: WriterId(1),
            chunk_id: ChunkId(round as u32),
            flags: ChunkFlags::NONE,
        };
        honest.commit(victims_buffer, header, &packet(round));
        flood(&service, target, round);
        service.read(own, &mut Vec::new());
        assert!(service.stats(own).is_some());
        grown_bytes.push(resident_bytes(process).saturating_sub(before_bytes));
    }
    let most = grown_bytes.iter().copied().max().unwrap_or_default();
    assert!(most <= BUDGET_BYTES, "{grown_bytes:?} of {BUDGET_BYTES}");
    // The second round has reached all limits.
    let [.., second, last] = grown_bytes[..] else {
        panic!("{ROUNDS} rounds");
    };
    assert!(last <= second + LAST_ROUND_MAX_BYTES, "{grown_bytes:?}");
    let stats = service.stats(own).unwrap();
    let buffer = &stats.buffers[0];
    assert!(buffer.chunks_discarded > 0 && stats.instances_refused > 0);
    assert!(stats.data_sources_refused > 0 && stats.triggers_ignored > 0);
    service.disable(victim);
    let mut trace = Vec::new();
    service.read(victim, &mut trace);
    assert!((0..ROUNDS as u64).eq(numbers(&trace)));
}
