//! The trace has the schemas of data sources, which the daemon does not know.

use std::collections::BTreeSet;

use judge::{ExtraSchema, Options, judge_with};
use protobuf::Message as _;

use crate::machine::Machine;
use crate::programs::SAMPLES;

/// Records a data source with a schema of its own.
const SAMPLES_CONFIG: &str =
    r#"buffers { size_kb: 4096 } data_sources { config { name: "com.example.samples" } }"#;

#[test]
fn a_trace_of_the_daemon_has_the_schema_of_each_data_source() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let recording = machine.record("samples.pftrace", SAMPLES_CONFIG);
    let mut program = machine.program("samples");
    program.wait_for("done");
    let trace = recording.finish();
    let extra = ExtraSchema::new().extensions("../../examples/protos/memory.proto");
    let options = Options {
        allow_unreadable_after_loss: true,
        ..Options::default()
    };
    let verdict = judge_with(&trace, &extra, options).unwrap();
    assert_eq!(verdict.events_named("sample").count() as u64, SAMPLES);
    let written = protozero::include_descriptor_set!("memory");
    let packets = verdict.packets.iter();
    let described = packets.filter(|packet| packet.has_extension_descriptor());
    let described: Vec<_> = described.collect();
    for packet in &described {
        let set = &packet.extension_descriptor().extension_set;
        assert_eq!(set.write_to_bytes().unwrap(), written);
    }
    // The schema comes again and again into a ring, so it comes from one writer.
    assert!(described.len() >= 2, "{}", described.len());
    let sequence =
        |packet: &&perfetto_protos::trace_packet::TracePacket| packet.trusted_packet_sequence_id();
    let sequences: BTreeSet<u32> = described.iter().map(sequence).collect();
    assert_eq!(sequences.len(), 1);
    program.go_on();
    program.wait();
}
