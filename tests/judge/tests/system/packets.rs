//! Packets of the programs' own data sources.

use judge::Verdict;
use perfetto_protos::test_event::TestEvent;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::trace_packet::trace_packet::Data;

use crate::machine::{Machine, judged};
use crate::programs::NUMBERS;

/// Returns the test packets of a trace.
fn test_packets(verdict: &Verdict) -> impl Iterator<Item = (&TracePacket, &TestEvent)> {
    verdict
        .packets
        .iter()
        .filter_map(|packet| match &packet.data {
            Some(Data::ForTesting(event)) => Some((packet, event)),
            _ => None,
        })
}

#[test]
fn a_data_source_reached_in_a_session_records_from_then_on() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let mut program = machine.program("late numbers");
    program.wait_for("connected");
    let config = r#"
        buffers { size_kb: 4096 }
        data_sources { config { name: "track_event" } }
        data_sources { config { name: "com.example.numbers" } }
    "#;
    let recording = machine.record("late.pftrace", config);
    program.wait_for("done");
    let verdict = judged(&recording.finish());
    let numbers: Vec<u64> = test_packets(&verdict)
        .map(|(_, event)| event.counter())
        .collect();
    assert_eq!(numbers, Vec::from_iter(0..NUMBERS));
    for name in ["before the data source", "after the numbers"] {
        assert_eq!(verdict.events_named(name).count(), 1, "{name}");
    }
    program.go_on();
    program.wait();
}
