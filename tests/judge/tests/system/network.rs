//! A daemon on a port of the network: commits carry the bytes of chunks.

use crate::machine::{Machine, judged};
use crate::programs::{INSTANTS, SPANS};
use crate::recordings::EVERYTHING;

#[test]
fn all_spans_reach_a_daemon_over_the_network() {
    let Some(machine) = Machine::start_on_network() else {
        return;
    };
    let recording = machine.record("network.pftrace", EVERYTHING);
    let mut program = machine.program("spans");
    program.wait_for("done");
    let verdict = judged(&recording.finish());
    assert_eq!(verdict.events_named("work").count() as u64, 3 * SPANS);
    program.go_on();
    program.wait();
}

#[test]
fn events_of_threads_that_sleep_reach_a_daemon_over_the_network() {
    let Some(machine) = Machine::start_on_network() else {
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
