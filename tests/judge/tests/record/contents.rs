//! What the traces have.

use std::collections::{BTreeMap, BTreeSet};

use judge::{Options, Verdict};
use support::Folder;

use crate::program::{PACKETS, SPANS, THREADS, command};
use crate::recording::{Recorded, config_file};

/// Returns the process of each sequence.
fn processes(verdict: &Verdict) -> BTreeMap<u32, i32> {
    let packets = verdict.packets.iter();
    let of_processes = packets.filter(|packet| packet.trusted_pid() > 0);
    of_processes
        .map(|packet| (packet.trusted_packet_sequence_id(), packet.trusted_pid()))
        .collect()
}

/// Counts the events of a name by process.
fn events_by_process(verdict: &Verdict, name: &str) -> Vec<usize> {
    let processes = processes(verdict);
    let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
    for event in verdict.events_named(name) {
        *counts.entry(processes[&event.sequence_id]).or_default() += 1;
    }
    counts.into_values().collect()
}

#[test]
fn a_program_is_recorded_from_its_first_event_on() {
    for _ in 0..5 {
        let recorded = Recorded::of(&[], &command("spans"));
        assert_eq!(recorded.status.code(), Some(0), "{}", recorded.said);
        let verdict = recorded.judged();
        // Begins and ends.
        let mut indices: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for event in verdict.events_named("work") {
            let index = event.args["index"].as_u64().unwrap();
            indices.entry(event.sequence_id).or_default().push(index);
        }
        assert_eq!(indices.len(), THREADS);
        let all: Vec<u64> = (0..SPANS).collect();
        assert!(indices.into_values().all(|indices| indices == all));
        let names: BTreeSet<_> = verdict
            .events
            .iter()
            .filter_map(|event| event.thread_name.clone())
            .collect();
        assert_eq!(names.len(), THREADS, "{names:?}");
        recorded.assert_says("60000 events of 1 process, ");
        recorded.assert_says(", 0 lost: ");
    }
}

#[test]
fn a_data_source_that_is_not_named_is_recorded() {
    let recorded = Recorded::of(&[], &command("packets"));
    assert_eq!(recorded.status.code(), Some(0), "{}", recorded.said);
    let verdict = recorded.judged();
    let packets = verdict.packets.iter();
    let numbers = packets.filter(|packet| packet.has_for_testing());
    let numbers = numbers.map(|packet| packet.for_testing().seq_value());
    assert!(numbers.map(u64::from).eq(0..PACKETS));
    recorded.assert_says(&format!("{PACKETS} packets of 1 process, "));
}

#[test]
fn all_programs_that_a_program_starts_are_recorded() {
    let recorded = Recorded::of(&[], &command("parent"));
    assert_eq!(recorded.status.code(), Some(0), "{}", recorded.said);
    let verdict = recorded.judged();
    let spans = THREADS * SPANS as usize;
    assert_eq!(events_by_process(&verdict, "work"), [spans]);
    assert_eq!(events_by_process(&verdict, "one"), [1]);
    assert_eq!(events_by_process(&verdict, "parent begins"), [1]);
    assert_eq!(events_by_process(&verdict, "parent ends"), [1]);
    assert_eq!(verdict.events_named("of the fork").count(), 0);
    let pids: BTreeSet<i32> = processes(&verdict).into_values().collect();
    assert_eq!(pids.len(), 3);
    let descriptors = verdict.packets.iter();
    let descriptors = descriptors.map(perfetto_protos::trace_packet::TracePacket::track_descriptor);
    let named: BTreeSet<i32> = descriptors
        .filter(|descriptor| !descriptor.process.process_name().is_empty())
        .map(|descriptor| descriptor.process.pid())
        .collect();
    assert_eq!(named, pids);
    recorded.assert_says("60003 events of 3 processes, ");
    recorded.assert_says("recorded nothing: a fork records once it executes a program");
}

#[test]
fn the_report_counts_the_events_that_readers_decode() {
    let recorded = Recorded::of(&["--buffer", "16kb"], &command("spans"));
    let options = Options {
        allow_unreadable_after_loss: true,
        allow_open_spans: true,
        ..Options::default()
    };
    let verdict = recorded.judged_with(options);
    let written = 2 * THREADS * SPANS as usize;
    assert!(verdict.events.len() < written, "nothing was lost");
    recorded.assert_says(&format!("{} events of 1 process, ", verdict.events.len()));
    recorded.assert_says("overwritten");
    recorded.assert_says("--buffer");
}

#[test]
fn only_chosen_categories_are_recorded() {
    let recorded = Recorded::of(&["--categories", "other,more"], &command("spans"));
    assert_eq!(recorded.judged().events.len(), 0);
    recorded.assert_says("1 process connected, and had no event of the categories other, more");
    let recorded = Recorded::of(&["--categories", "other,test"], &command("one event"));
    assert_eq!(recorded.judged().events_named("one").count(), 1);
}

#[test]
fn a_configuration_file_replaces_the_options() {
    let folder = Folder::empty();
    let config = config_file(
        &folder,
        "buffers { size_kb: 4096 } data_sources { config { name: 'track_event' } }",
    );
    let options = ["-c", config.to_str().unwrap()];
    let recorded = Recorded::of(&options, &command("one event"));
    assert_eq!(recorded.judged().events_named("one").count(), 1);
    // Data sources that it does not name are not recorded.
    let recorded = Recorded::of(&options, &command("packets"));
    let verdict = recorded.judged();
    assert!(
        !verdict
            .packets
            .iter()
            .any(perfetto_protos::trace_packet::TracePacket::has_for_testing)
    );

    let config = config_file(&folder, "buffers { size_kb: 0 }");
    let recorded = Recorded::of(&["-c", config.to_str().unwrap()], &command("one event"));
    assert_eq!(recorded.status.code(), Some(2));
    recorded.assert_says("error: the daemon refuses: buffers[0]: size_kb is 0");
    assert!(!recorded.has_file());
}

#[test]
fn a_ring_of_a_configuration_has_the_newest_events() {
    let folder = Folder::empty();
    let config = config_file(
        &folder,
        "buffers { size_kb: 512 } data_sources { config { name: 'track_event' } }",
    );
    let recorded = Recorded::of(&["-c", config.to_str().unwrap()], &command("spans"));
    let options = Options {
        allow_unreadable_after_loss: true,
        allow_open_spans: true,
        ..Options::default()
    };
    let verdict = recorded.judged_with(options);
    let events = verdict.events.len();
    let written = 2 * THREADS * SPANS as usize;
    assert!(events > 1000 && events < written, "{events} of {written}");
    let mut works = verdict.events_named("work");
    assert!(works.any(|event| event.args["index"].as_u64() == Some(SPANS - 1)));
    recorded.assert_says(" older ones overwritten, ");
}
