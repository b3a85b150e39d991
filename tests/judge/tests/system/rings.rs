//! Rings of the daemon that overwrite their oldest packets.

use judge::{ExtraSchema, Options, judge_with};

use crate::machine::Machine;
use crate::programs::MANY_EVENTS;

/// The least number of laps.
const LAPS: u64 = 20;

/// Laps a ring at full speed, and checks that what is left of it can be read, but for the oldest part
/// of this size.
#[track_caller]
fn check_lapped_ring(size_kb: u32, unreadable_max: f64, more: &str) {
    let Some(machine) = Machine::start() else {
        return;
    };
    // The writers wait for the daemon, so that the ring alone loses events.
    let config = format!(
        r#"buffers {{ size_kb: {size_kb} }}
           data_sources {{ config {{
             name: "track_event" buffer_exhausted_policy: BUFFER_EXHAUSTED_STALL_THEN_DROP
           }} }}
           {more}"#
    );
    let recording = machine.record("lapped.pftrace", &config);
    let mut program = machine.program("laps");
    program.wait_for("done");
    let options = Options {
        allow_unreadable_after_loss: true,
        ..Options::default()
    };
    // The judge objects to every event whose name is not defined.
    let verdict = judge_with(&recording.finish(), &ExtraSchema::new(), options).unwrap();
    let stats = &verdict.trace_stats.as_ref().unwrap().buffer_stats[0];
    let laps = stats.bytes_written() / (u64::from(size_kb) * 1024);
    assert!(laps >= LAPS, "{laps} laps");
    let numbers: Vec<u64> = verdict
        .events_named("one of many")
        .map(|event| event.args["index"].as_u64().unwrap())
        .collect();
    // The newest events are all there.
    let first = MANY_EVENTS - numbers.len() as u64;
    assert!(numbers.iter().copied().eq(first..MANY_EVENTS));
    let unreadable = verdict.unreadable_packets as f64;
    let part = unreadable / (unreadable + numbers.len() as f64);
    assert!(part <= unreadable_max, "{part} of the ring is unreadable");
}

#[test]
fn a_small_ring_that_has_lapped_can_be_read() {
    check_lapped_ring(256, 0.33, "");
}

#[test]
fn a_ring_that_has_lapped_can_be_read() {
    check_lapped_ring(1024, 0.1, "");
}

/// The daemon asks for clears as well, but none comes in time at full speed.
#[test]
fn a_lapped_ring_with_a_clear_period_can_be_read() {
    check_lapped_ring(
        256,
        0.33,
        "incremental_state_config { clear_period_ms: 1000 }",
    );
}
