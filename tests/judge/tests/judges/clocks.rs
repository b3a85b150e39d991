//! The judge converts timestamps of any clock to the trace clock.

use judge::Rule;

use crate::traces::{
    ABSOLUTE, DEFAULTS, GLOBAL_CLOCKS, INSTANT, MONOTONIC, TEST_PACKET, accepted, assert_refused,
    good_trace,
};

#[test]
fn times_of_another_global_clock_are_converted_by_its_snapshot() {
    let mut packets = good_trace();
    packets[INSTANT].timestamp_clock_id = Some(MONOTONIC);
    packets[INSTANT].timestamp = Some(2_000_000);
    assert_eq!(accepted(&packets).events[1].timestamp_ns, 2_100_000);
}

#[test]
fn a_time_of_a_clock_without_a_snapshot_is_refused() {
    let mut packets = good_trace();
    packets[INSTANT].timestamp_clock_id = Some(2);
    assert_refused(&packets, INSTANT, Rule::Clock);

    let mut packets = good_trace();
    packets[GLOBAL_CLOCKS].mut_clock_snapshot().clocks.remove(0);
    packets[DEFAULTS].mut_clock_snapshot().clocks.remove(0);
    assert_refused(&packets, TEST_PACKET, Rule::Clock);
}

#[test]
fn a_time_of_a_clock_of_another_sequence_is_refused() {
    let mut packets = good_trace();
    packets[TEST_PACKET].timestamp_clock_id = Some(ABSOLUTE);
    assert_refused(&packets, TEST_PACKET, Rule::Clock);
}

#[test]
fn sequence_clock_without_global_clock_is_refused() {
    let mut packets = good_trace();
    packets[DEFAULTS].mut_clock_snapshot().clocks.remove(0);
    assert_refused(&packets, DEFAULTS, Rule::Clock);
}
