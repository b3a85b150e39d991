//! The schema of a data source, in the traces that contain its packets.

use std::time::Duration;

use support::{Folder, is_whole, wait_until};
use tracezero::protos::{TraceDecoder, TracePacketDecoder};
use tracezero::{
    BufferConfig, BuiltinDataSources, DataSource as _, DataSourceConfig, Error, InMemorySession,
    TraceConfig, data_source,
};

use super::probe::{Probe, alone, assert_well_formed, recording};

/// A `FileDescriptorSet` of one file without declarations.
const SCHEMA: &[u8] = b"\x0a\x0b\x0a\x09gpu.proto";
const NAME: &str = "com.example.described";

struct Described;
data_source!(Described, NAME, SCHEMA);

/// Another data source with the same schema.
struct Sibling;
data_source!(Sibling, "com.example.sibling", SCHEMA);

fn write() {
    Described::trace(|cx| {
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_counter(1);
            });
        });
    });
}

/// Returns the file names of the schemas in a trace, and `-` for each packet of a data source.
fn outline(trace: &[u8]) -> Vec<String> {
    let name = |packet: TracePacketDecoder<'_>| {
        if packet.for_testing().unwrap().is_some() {
            return Some("-".to_owned());
        }
        let schema = packet.extension_descriptor().unwrap()?.extension_set();
        assert_eq!(packet.trusted_packet_sequence_id(), Ok(Some(1)));
        let file = schema.unwrap()?.file().next()?;
        Some(file.unwrap().name().unwrap()?.to_owned())
    };
    assert_well_formed(trace);
    let packets = TraceDecoder::new(trace).packet();
    packets.filter_map(|packet| name(packet.unwrap())).collect()
}

fn config() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(64))
        .add_data_source(DataSourceConfig::new(NAME))
        .add_data_source(DataSourceConfig::new("com.example.sibling"))
}

#[test]
fn a_trace_carries_a_schema_once_and_before_its_packets() -> Result<(), Error> {
    let _alone = alone();
    Described::register();
    Sibling::register();
    for _ in 0..2 {
        let session = config().record_in_memory()?;
        write();
        write();
        assert_eq!(outline(&session.finish().0), ["gpu.proto", "-", "-"]);
    }
    Ok(())
}

#[test]
fn a_ring_that_has_lapped_does_not_lose_a_schema() -> Result<(), Error> {
    const PACKETS: usize = 20_000;
    let _alone = alone();
    let session = config().record_in_memory()?;
    (0..PACKETS).for_each(|_| write());
    let outline = outline(&session.finish().0);
    assert_eq!(outline[0], "gpu.proto");
    assert!(outline.len() < PACKETS, "the ring has not lapped");
    Ok(())
}

#[test]
fn a_snapshot_carries_the_schema_and_so_does_the_session() -> Result<(), Error> {
    let _alone = alone();
    let session = config().record_in_memory()?;
    write();
    let snapshot = session.control().snapshot()?;
    assert_eq!(outline(&snapshot.into_trace()), ["gpu.proto", "-"]);
    assert_eq!(outline(&session.finish().0), ["gpu.proto", "-"]);
    Ok(())
}

#[test]
fn growing_file_gets_schema_once_when_data_source_registers() -> Result<(), Error> {
    struct Late;
    data_source!(
        Late,
        "com.example.described_late",
        b"\x0a\x0c\x0a\x0alate.proto"
    );
    let _alone = alone();
    let folder = Folder::empty();
    let path = folder.file("trace.pftrace");
    let session = config()
        .add_data_source(DataSourceConfig::new("com.example.described_late"))
        .file_write_period(Duration::from_millis(10))
        .record_to_file(&path)?;
    let has_grown_to = |names: &[&str]| {
        wait_until(|| {
            let trace = std::fs::read(&path).unwrap();
            // Its last packet may be incomplete, since the file is being written.
            is_whole(&trace) && outline(&trace) == names
        });
    };
    write();
    has_grown_to(&["gpu.proto", "-"]);
    Late::register();
    write();
    has_grown_to(&["gpu.proto", "-", "late.proto", "-"]);
    session.finish()?;
    let trace = std::fs::read(&path).unwrap();
    assert_eq!(outline(&trace), ["gpu.proto", "-", "late.proto", "-"]);
    Ok(())
}

#[test]
fn a_configuration_may_leave_schemas_out() -> Result<(), Error> {
    let _alone = alone();
    let builtin = BuiltinDataSources::new().without_extension_descriptors();
    let session = config().builtin_data_sources(builtin).record_in_memory()?;
    write();
    assert_eq!(outline(&session.finish().0), ["-"]);
    Ok(())
}

#[test]
fn a_session_without_the_data_source_has_no_schema() -> Result<(), Error> {
    let _alone = alone();
    let other = recording("a").record_in_memory()?;
    let all = InMemorySession::start()?;
    Probe::write(1);
    write();
    assert_eq!(outline(&other.finish().0), ["-"]);
    assert_eq!(outline(&all.finish().0)[..1], ["gpu.proto"]);
    Ok(())
}
