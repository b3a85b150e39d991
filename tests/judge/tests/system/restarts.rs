//! Daemons and programs that are killed.

use std::thread;
use std::time::Duration;

use crate::machine::{Machine, judged};
use crate::recordings::EVERYTHING;

/// The number of times that the daemon or a program is killed.
const KILLS: usize = 5;

/// Checks that the instants of a trace have no gap, and returns their number.
fn ticks(trace: &[u8]) -> usize {
    let verdict = judged(trace);
    let numbers: Vec<u64> = verdict
        .events_named("tick")
        .map(|event| event.args["index"].as_u64().unwrap())
        .collect();
    for pair in numbers.windows(2) {
        assert_eq!(pair[0] + 1, pair[1], "a tick is missing or twice");
    }
    numbers.len()
}

#[test]
fn a_program_connects_again_to_a_new_daemon() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let mut program = machine.program("ticks");
    program.wait_for("connected");
    for round in 0..KILLS {
        let recording = machine.record(&format!("{round}.pftrace"), EVERYTHING);
        machine.wait_for_producers(1);
        thread::sleep(Duration::from_millis(100));
        assert!(ticks(&recording.finish()) > 10);
        // The program is recording when the daemon dies.
        let cut_off = machine.record("cut off.pftrace", EVERYTHING);
        thread::sleep(Duration::from_millis(50));
        machine.restart();
        drop(cut_off);
        machine.wait_for_producers(1);
    }
}

#[test]
fn what_a_killed_program_has_recorded_is_in_the_trace() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let recording = machine.record("killed.pftrace", EVERYTHING);
    for _ in 0..KILLS {
        let mut program = machine.program("ticks");
        program.wait_for("connected");
        thread::sleep(Duration::from_millis(100));
        program.kill();
    }
    machine.wait_for_producers(0);
    let trace = recording.finish();
    let verdict = judged(&trace);
    assert!(verdict.events_named("tick").count() > KILLS * 10);
}
