//! Findings about timestamps and clocks.

use tracezero::reader::Rule;

use crate::edit::Content;
use crate::good_trace::{Trace, field};
use crate::verdict::assert_error;

const BOOTTIME: u64 = 6;

#[test]
fn undefined_sequence_clock_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    let start = trace.start(packet);
    trace.packets[start].remove(field::CLOCK_SNAPSHOT);
    let words = "the packet is skipped: its time is on clock 64, which no clock snapshot defines";
    assert_error(&trace, packet, Rule::Clock, words);
}

#[test]
fn sequence_clock_without_known_reference_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    let start = trace.start(packet);
    trace.packets[start].edit(field::CLOCK_SNAPSHOT, |snapshot| {
        // The first clock is BOOTTIME.
        snapshot.0.remove(0);
    });
    // Uses another clock, so that no event lacks a time.
    trace.packets[packet].set(field::TIMESTAMP_CLOCK_ID, Content::Varint(BOOTTIME));
    let words = "the snapshot defines clock 64, but has no clock whose time is known";
    assert_error(&trace, start, Rule::Clock, words);
}

#[test]
fn unknown_clock_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    trace.packets[packet].set(field::TIMESTAMP_CLOCK_ID, Content::Varint(40));
    let words = "the packet is skipped: its time is on clock 40, which no clock snapshot defines";
    assert_error(&trace, packet, Rule::Clock, words);
}

#[test]
fn event_without_time_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    trace.packets[packet].remove(field::TIMESTAMP);
    let words = "the packet is skipped: the event has no time";
    assert_error(&trace, packet, Rule::Event, words);
}

#[test]
fn overflowing_time_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    trace.packets[packet].set(field::TIMESTAMP, Content::Varint(u64::MAX));
    trace.packets[packet].remove(field::TIMESTAMP_CLOCK_ID);
    let words = "the packet is skipped: its time on clock 64 is out of range";
    assert_error(&trace, packet, Rule::Clock, words);
}
