//! Tests of what a trace says about itself: the origin of its packets, its statistics, its
//! identity.

use crate::trace_buffer::ChunkPayloadHistogram;
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::protos::trace_packet::Data;

use super::harness::{ReadTrace, SERVICE_UID, World, write};

fn three_buffers() -> TraceConfig {
    ["a", "b", "c"]
        .iter()
        .enumerate()
        .fold(TraceConfig::empty(), |config, (index, name)| {
            let data_source = DataSourceConfig::new(*name).target_index(index);
            config
                .add_buffer(BufferConfig::ring(128))
                .add_data_source(data_source)
        })
}

/// Returns the sequence id, user, process and text of each packet of a writer.
fn origins(trace: &ReadTrace) -> Vec<(u32, Option<i32>, Option<i32>, String)> {
    let packets = trace.packets();
    let origin = packets
        .iter()
        .filter_map(|packet| match packet.data().unwrap() {
            Some(Data::ForTesting(event)) => Some((
                packet.trusted_packet_sequence_id().unwrap().unwrap(),
                packet.trusted_uid().unwrap(),
                packet.trusted_pid().unwrap(),
                event.str().unwrap().unwrap().to_owned(),
            )),
            _ => None,
        });
    origin.collect()
}

#[test]
fn sequences_have_ids_from_2_and_name_their_writer_once() {
    let world = World::new();
    let (p, q) = (world.producer_of("p", 1001), world.producer_of("q", 1002));
    p.register("a");
    q.register("a");
    let session = world.session(three_buffers());
    let mut writers = [p.writer("a"), p.writer("a"), q.writer("a")];
    for writer in &mut writers {
        write(writer, "first");
        write(writer, "second");
        writer.flush();
    }
    session.disable();
    let trace = session.read();
    let (first, second) = ("first".to_owned(), "second".to_owned());
    assert_eq!(
        origins(&trace),
        [
            (2, Some(1001), Some(1002), first.clone()),
            (2, None, None, second.clone()),
            (3, Some(1001), Some(1002), first.clone()),
            (3, None, None, second.clone()),
            (4, Some(1002), Some(1003), first),
            (4, None, None, second),
        ]
    );
    for packet in trace.packets() {
        if packet.trusted_packet_sequence_id().unwrap() == Some(1) {
            assert_eq!(packet.trusted_uid().unwrap(), Some(SERVICE_UID as i32));
        }
    }
}

#[test]
fn statistics_tell_the_sizes_of_chunks_by_sequence_and_buffer() {
    let world = World::new();
    let producer = world.producer("p");
    for name in ["a", "b", "c"] {
        producer.register(name);
    }
    let session = world.session(three_buffers());
    for (name, sizes) in [("b", [100, 900]), ("c", [400, 1900])] {
        let mut writer = producer.writer(name);
        for size in sizes {
            write(&mut writer, &"x".repeat(size));
            writer.flush();
        }
    }
    session.disable();
    let trace = session.read();
    let stats = trace.data().into_iter().find_map(|data| match data {
        Data::TraceStats(stats) => Some(stats),
        _ => None,
    });
    let stats = stats.unwrap();
    let bounds: Vec<i64> = stats
        .chunk_payload_histogram_def()
        .map(|it| it.unwrap())
        .collect();
    assert_eq!(bounds, ChunkPayloadHistogram::BOUNDS_BYTES.map(i64::from));
    let writers: Vec<_> = stats
        .writer_stats()
        .map(|writer| {
            let writer = writer.unwrap();
            let counts = writer.chunk_payload_histogram_counts();
            let buckets: Vec<i64> = bounds
                .iter()
                .zip(counts)
                .filter(|(_, count)| *count.as_ref().unwrap() > 0)
                .map(|(&bound, _)| bound)
                .collect();
            let sequence = writer.sequence_id().unwrap().unwrap();
            (sequence, writer.buffer().unwrap().unwrap(), buckets)
        })
        .collect();
    assert_eq!(writers, [(2, 1, vec![128, 1024]), (3, 2, vec![512, 2048])]);
}

fn uuid(trace: &ReadTrace) -> (i64, i64) {
    let uuid = trace.data().into_iter().find_map(|data| match data {
        Data::TraceUuid(uuid) => Some((uuid.msb().unwrap()?, uuid.lsb().unwrap()?)),
        _ => None,
    });
    uuid.expect("a trace has one")
}

#[test]
fn a_trace_has_the_uuid_of_its_configuration() {
    let world = World::new();
    let session = world.session(three_buffers().trace_uuid(0x1234, -5));
    assert_eq!(uuid(&session.read()), (0x1234, -5));
}

#[test]
fn a_trace_without_a_configured_uuid_has_a_random_one() {
    let world = World::new();
    let traces = [(); 2].map(|()| world.session(three_buffers()).read());
    let [first, second] = traces.each_ref().map(uuid);
    assert_ne!(first, second);
    assert!(first.0 != 0 && first.1 != 0);
}

#[test]
fn provenance_lists_sequences_by_buffer_and_producer() {
    let world = World::new();
    let (p, q) = (world.producer("p"), world.producer("q"));
    p.register("a");
    q.register("c");
    let session = world.session(three_buffers());
    for mut writer in [p.writer("a"), p.writer("a"), q.writer("c")] {
        write(&mut writer, "x");
    }
    session.disable();
    let trace = session.read();
    let provenance = trace.data().into_iter().find_map(|data| match data {
        Data::TraceProvenance(provenance) => Some(provenance),
        _ => None,
    });
    let buffers: Vec<Vec<_>> = provenance
        .unwrap()
        .buffers()
        .map(|buffer| {
            let buffer = buffer.unwrap();
            let sequences = buffer.sequences().map(|sequence| {
                let sequence = sequence.unwrap();
                (sequence.id().unwrap(), sequence.producer_id().unwrap())
            });
            sequences.collect()
        })
        .collect();
    let sequence = |id, producer| (Some(id), Some(producer));
    assert_eq!(
        buffers,
        [
            vec![sequence(2, 1), sequence(3, 1)],
            vec![],
            vec![sequence(4, 2)]
        ]
    );
    let sequences: Vec<u32> = origins(&trace).iter().map(|origin| origin.0).collect();
    assert_eq!(sequences, [2, 3, 4], "the packets say the same");
}
