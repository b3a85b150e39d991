use std::time::Duration;

use super::harness::{ReadTrace, World, write};
use super::trace_file::TraceFile;
use crate::{CloneSource, FileEnd};
use tracezero::{BufferConfig, Compression, DataSourceConfig, TraceConfig};

fn config(compression: Compression) -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(512))
        .add_data_source(DataSourceConfig::new("ds"))
        .compression(compression)
}

/// Returns the compressions that this build supports.
fn ways() -> Vec<Compression> {
    let mut ways = Vec::new();
    if cfg!(feature = "deflate") {
        ways.push(Compression::Deflate);
    }
    if cfg!(feature = "zstd") {
        ways.extend([1, 19].map(|level| Compression::Zstd { level }));
    }
    ways
}

/// Returns the trace inside a compressed trace. All packets must be compressed in this way.
fn unpacked(trace: &ReadTrace, way: Compression) -> ReadTrace {
    let mut bytes = Vec::new();
    for packet in trace.packets() {
        let unpacked: Vec<u8> = match way {
            #[cfg(feature = "deflate")]
            Compression::Deflate => inflate(packet.compressed_packets().unwrap().unwrap()),
            #[cfg(feature = "zstd")]
            Compression::Zstd { .. } => {
                let compressed = packet.zstd_compressed_packets().unwrap();
                zstd::decode_all(compressed.unwrap()).unwrap()
            }
            other => panic!("{other:?} compresses nothing: {packet:?}"),
        };
        bytes.extend(unpacked);
    }
    ReadTrace::of(bytes)
}

#[cfg(feature = "deflate")]
fn inflate(compressed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut decoder = flate2::read::ZlibDecoder::new(compressed);
    std::io::copy(&mut decoder, &mut bytes).unwrap();
    bytes
}

#[test]
fn all_packets_of_a_compressed_trace_are_compressed() {
    for way in ways() {
        let world = World::new();
        let producer = world.producer("p");
        producer.register("ds");
        let session = world.session(config(way));
        let mut writer = producer.writer("ds");
        let texts: Vec<String> = (0..100).map(|number| format!("{number:0>1000}")).collect();
        texts.iter().for_each(|text| write(&mut writer, text));
        session.disable();
        let trace = session.read();
        assert!(
            trace.bytes.len() < 20_000,
            "{way:?}: {} bytes",
            trace.bytes.len()
        );
        let unpacked = unpacked(&trace, way);
        assert_eq!(unpacked.texts(), texts, "{way:?}");
        assert!(unpacked.events().contains(&"tracing_disabled"), "{way:?}");
    }
}

#[test]
fn files_and_clones_are_compressed_as_well() {
    for way in ways() {
        let world = World::new();
        let producer = world.producer("p");
        producer.register("ds");
        let (file, clone_file) = (TraceFile::new(), TraceFile::new());
        let config = config(way)
            .write_into_file()
            .file_write_period(Duration::from_millis(100));
        let session = world.file_session(config.clone(), file.output());
        let mut writer = producer.writer("ds");
        write(&mut writer, "one");
        writer.flush();
        world.advance_ms(100);
        session.writes().unwrap();
        write(&mut writer, "two");
        let source = CloneSource::Id(session.id);
        let pending = world.begin_clone_into(source, 0, None, Some(clone_file.output()));
        session.writes().unwrap();
        pending.finish().unwrap().writes_once().unwrap();
        session.disable();
        session.writes().unwrap();
        for file in [file, clone_file] {
            assert_eq!(
                unpacked(&file.read(), way).texts(),
                ["one", "two"],
                "{way:?}"
            );
        }

        let in_memory = world.session(self::config(way));
        let mut writer = producer.writer("ds");
        write(&mut writer, "three");
        let clone = world.begin_clone(CloneSource::Id(in_memory.id), 0);
        let trace = clone.finish().unwrap().read();
        assert_eq!(unpacked(&trace, way).texts(), ["three"], "{way:?}");
    }
}

#[test]
fn compressed_file_stays_below_its_limit() {
    for way in ways() {
        let world = World::new();
        let producer = world.producer("p");
        producer.register("ds");
        let file = TraceFile::new();
        let config = config(way).write_into_file().max_file_size_bytes(10);
        let session = world.file_session(config, file.output());
        write(&mut producer.writer("ds"), "too much");
        session.disable();
        session.writes().unwrap();
        assert!(file.read().is_empty());
        assert_eq!(world.service.read_counts(session.id).packets, 0);
        assert_eq!(
            world.service.file_size(session.id),
            (0, Some(FileEnd::Full))
        );
    }
}
