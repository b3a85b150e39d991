//! What is in the traces of the daemon.

use std::collections::BTreeMap;

use judge::Verdict;

use crate::machine::{Machine, judged};
use crate::programs::{BY_ENVIRONMENT, EVENTS_OF_A_LIFE, INSTANTS, SHORT_LIVES, SPANS, TICKS};

/// Records all track events.
pub const EVERYTHING: &str =
    r#"buffers { size_kb: 65536 } data_sources { config { name: "track_event" } }"#;

#[test]
fn all_spans_of_three_threads_are_in_the_trace() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let mut program = machine.program("spans");
    program.wait_for("connected");
    let recording = machine.record("spans.pftrace", EVERYTHING);
    program.wait_for("done");
    let verdict = judged(&recording.finish());
    let mut begun: BTreeMap<&str, u64> = BTreeMap::new();
    for event in verdict.events_named("work") {
        *begun
            .entry(event.track_name.as_deref().unwrap())
            .or_default() += 1;
    }
    assert_eq!(
        begun,
        BTreeMap::from([
            ("worker 0", SPANS),
            ("worker 1", SPANS),
            ("worker 2", SPANS)
        ])
    );
    program.go_on();
    program.wait();
}

#[test]
fn the_command_knows_the_producer_and_its_data_sources() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let mut program = machine.program(TICKS);
    program.wait_for("connected");
    machine.wait_for_producers(1);
    let query = machine.query();
    assert!(query.contains("tracezero 0"), "{query}");
    program.kill();
    machine.wait_for_producers(0);
}

#[test]
fn a_producer_that_comes_later_is_in_the_trace() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let recording = machine.record("first.pftrace", EVERYTHING);
    let mut program = machine.program("spans");
    program.wait_for("done");
    let verdict = judged(&recording.finish());
    assert_eq!(verdict.events_named("work").count() as u64, 3 * SPANS);
    program.go_on();
    program.wait();
}

#[test]
fn events_of_threads_that_sleep_are_in_the_trace() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let recording = machine.record("sleepers.pftrace", EVERYTHING);
    let mut program = machine.program("sleepers");
    program.wait_for("done");
    let verdict = judged(&recording.finish());
    assert_eq!(
        verdict.events_named("before sleep").count() as u64,
        3 * INSTANTS
    );
}

#[test]
fn events_of_ten_thousand_short_threads_are_in_the_trace() {
    let Some(machine) = Machine::start() else {
        return;
    };
    // The daemon writes the file itself. It cannot send what it knows of so many writers to the
    // command, which ends with "IPC Frame too large".
    let config = format!("{EVERYTHING} write_into_file: true file_write_period_ms: 60000");
    let recording = machine.record("lives.pftrace", &config);
    let mut program = machine.program("short lives");
    program.wait_for("done");
    let verdict = judged(&recording.finish());
    let mut indices: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for event in verdict.events_named("of a short life") {
        let [number, index] = ["number", "index"].map(|arg| event.args[arg].as_u64().unwrap());
        indices.entry(number).or_default().push(index);
    }
    assert!(indices.keys().copied().eq(0..SHORT_LIVES));
    for (number, indices) in indices {
        assert!(
            indices.into_iter().eq(0..EVENTS_OF_A_LIFE),
            "thread {number}"
        );
    }
    program.go_on();
    program.wait();
}

#[test]
fn each_session_has_what_it_has_chosen() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let choice = |category: &str| {
        format!(
            r#"buffers {{ size_kb: 4096 }}
               data_sources {{ config {{
                 name: "track_event"
                 track_event_config {{
                   disabled_categories: "*" enabled_categories: "{category}" enabled_categories: "both"
                 }}
               }} }}"#
        )
    };
    let mut program = machine.program("both");
    program.wait_for("connected");
    let other = machine.record("other.pftrace", &choice("another"));
    let recording = machine.record("system.pftrace", &choice("system"));
    program.wait_for("done");
    let trace = judged(&recording.finish());
    let counts = |trace: &Verdict| {
        ["for both", "for its own", "for the daemon"].map(|name| trace.events_named(name).count())
    };
    assert_eq!(counts(&trace), [1000, 0, 1000]);
    assert_eq!(counts(&judged(&other.finish())), [1000, 0, 0]);
    program.go_on();
    program.wait();
}

#[test]
fn the_environment_connects_a_program_that_has_no_line_for_it() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let recording = machine.record("environment.pftrace", EVERYTHING);
    let mut program = machine.program(BY_ENVIRONMENT);
    program.wait_for("done");
    let verdict = judged(&recording.finish());
    assert_eq!(verdict.events_named("tick").count(), 100);
    program.go_on();
    program.wait();
}
