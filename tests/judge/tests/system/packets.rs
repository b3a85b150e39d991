//! Packets of the programs' own data sources.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use judge::Verdict;
use perfetto_protos::test_event::TestEvent;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::trace_packet::trace_packet::Data;

use crate::machine::{Machine, judged};
use crate::programs::{LONG_PACKET_BYTES, NUMBERS, PAYLOAD_BYTES, payload};

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

/// The sizes of the shared memory in KiB, apart from a single page and two pages.
const MEMORY_KIB: [u32; 3] = [256, 4096, 32 * 1024];

/// Records packets of all sizes with pages of one size, over memories of all sizes at once. Checks
/// every payload, in a buffer of the daemon's first kind and in one of its second kind.
#[track_caller]
fn check_payloads(page_kib: u32) {
    let Some(machine) = Machine::start() else {
        return;
    };
    // Without waiting, a packet that is longer than the memory is lost.
    let mut config = r#"
        buffers { size_kb: 262144 }
        buffers { size_kb: 262144 experimental_mode: TRACE_BUFFER_V2 }
        data_sources { config {
            name: "com.example.payloads" target_buffer: 0
            buffer_exhausted_policy: BUFFER_EXHAUSTED_STALL_THEN_DROP
        } }
        data_sources { config {
            name: "com.example.payloads" target_buffer: 1
            buffer_exhausted_policy: BUFFER_EXHAUSTED_STALL_THEN_DROP
        } }
    "#
    .to_owned();
    let memories = [page_kib, 2 * page_kib].into_iter().chain(MEMORY_KIB);
    let mut programs = BTreeMap::new();
    for memory_kib in memories {
        let name = format!("memory of {memory_kib} KiB");
        writeln!(
            config,
            r#"producers {{ producer_name: "{name}" shm_size_kb: {memory_kib} page_size_kb: {page_kib} }}"#
        )
        .unwrap();
        let program = machine.program_called(&name, "payloads");
        programs.insert(program.id(), (name, memory_kib, program));
    }
    for (_, _, program) in programs.values_mut() {
        program.wait_for("connected");
    }
    let recording = machine.record("payloads.pftrace", &config);
    for (name, memory_kib, program) in programs.values_mut() {
        program.wait_for("done");
        let given = program.shared_memory_bytes();
        assert_eq!(given, u64::from(*memory_kib) * 1024, "{name}");
    }
    let verdict = judged(&recording.finish());
    // `traced` names the process in each packet, our daemon in the first one of each sequence.
    let named = verdict.packets.iter().filter(|it| it.has_trusted_pid());
    let processes: BTreeMap<u32, u32> = named
        .map(|it| {
            let process = it.trusted_pid().cast_unsigned();
            (it.trusted_packet_sequence_id(), process)
        })
        .collect();
    // The numbers in the packets of each sequence. Each program has two sequences, because it
    // writes to two buffers.
    let mut sequences: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
    for (packet, event) in test_packets(&verdict) {
        let sequence_id = packet.trusted_packet_sequence_id();
        let process = processes[&sequence_id];
        let key = (process, sequence_id);
        sequences.entry(key).or_default().push(event.counter());
        let text = event.payload.single_string();
        let is_same = text == payload(event.counter() as usize);
        let name = &programs[&process].0;
        assert!(is_same, "packet {} of the {name}", event.counter());
    }
    assert_eq!(sequences.len(), 2 * programs.len());
    for ((process, _), numbers) in sequences {
        let expected = Vec::from_iter(0..PAYLOAD_BYTES.len() as u64);
        assert_eq!(numbers, expected, "{}", programs[&process].0);
    }
}

#[test]
fn packets_of_all_sizes_pass_pages_of_4_kib() {
    check_payloads(4);
}

#[test]
fn packets_of_all_sizes_pass_pages_of_8_kib() {
    check_payloads(8);
}

#[test]
fn packets_of_all_sizes_pass_pages_of_16_kib() {
    check_payloads(16);
}

#[test]
fn packets_of_all_sizes_pass_pages_of_32_kib() {
    check_payloads(32);
}

#[test]
fn a_packet_that_fills_the_queue_of_a_connection_is_read() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let config = r#"
        buffers { size_kb: 65536 }
        data_sources { config {
            name: "com.example.payloads"
            buffer_exhausted_policy: BUFFER_EXHAUSTED_STALL_THEN_DROP
        } }
    "#;
    let recording = machine.record("long.pftrace", config);
    let mut program = machine.program("long packet");
    program.wait_for("done");
    let verdict = judged(&recording.finish());
    let lens: Vec<usize> = test_packets(&verdict)
        .map(|(_, event)| event.str().len())
        .collect();
    assert_eq!(lens, [LONG_PACKET_BYTES]);
    program.go_on();
    program.wait();
}
