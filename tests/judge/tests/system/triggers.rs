//! Triggers that programs activate.

use crate::machine::{Machine, judged};
use crate::programs::{INSTANTS, TRIGGER};

/// Returns the configuration of a session that waits for the trigger.
fn config(mode: &str, stop_delay_ms: u32) -> String {
    format!(
        r#"buffers {{ size_kb: 4096 }}
           data_sources {{ config {{ name: "track_event" }} }}
           trigger_config {{
             trigger_mode: {mode} trigger_timeout_ms: 60000
             triggers {{ name: "{TRIGGER}" stop_delay_ms: {stop_delay_ms} }}
           }}"#
    )
}

/// Checks that a trace has the events of these rounds, and no others.
#[track_caller]
fn check_rounds(trace: &[u8], rounds: &[u64]) {
    let verdict = judged(trace);
    let events = verdict.events_named("around a trigger");
    let numbers = events.map(|it| ["round", "index"].map(|arg| it.args[arg].as_u64().unwrap()));
    let expected = rounds
        .iter()
        .flat_map(|round| (0..INSTANTS).map(|index| [*round, index]));
    assert_eq!(Vec::from_iter(numbers), Vec::from_iter(expected));
}

#[test]
fn a_trigger_starts_a_session() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let mut program = machine.program("start trigger");
    program.wait_for("connected");
    // The session is ended by hand: how long the program takes must not matter.
    let recording = machine.record("started.pftrace", &config("START_TRACING", 60_000));
    machine.wait_for_session("CONFIGURED");
    program.go_on();
    program.wait_for("done");
    check_rounds(&recording.finish(), &[1]);
    program.go_on();
    program.wait();
}

#[test]
fn a_trigger_stops_a_session() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let recording = machine.record("stopped.pftrace", &config("STOP_TRACING", 1));
    let mut program = machine.program("stop trigger");
    check_rounds(&recording.wait(), &[0]);
    program.wait_for("done");
    program.go_on();
    program.wait();
}

#[test]
fn triggers_clone_a_session_that_goes_on() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let recording = machine.record("cloned.pftrace", &config("CLONE_SNAPSHOT", 1));
    let mut program = machine.program("clone trigger");
    check_rounds(&recording.clone_number(0), &[0]);
    program.go_on();
    check_rounds(&recording.clone_number(1), &[0, 1]);
    program.go_on();
    program.wait_for("done");
    // Such a session is read through its clones alone.
    assert!(recording.finish().is_empty());
    program.go_on();
    program.wait();
}
