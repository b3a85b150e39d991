//! Findings about sequences: who wrote a packet, and which earlier packets it depends on.

use tracezero::reader::{Level, Rule};

use crate::edit::Content;
use crate::good_trace::{Trace, field};
use crate::verdict::{assert_error, assert_finding};

#[test]
fn event_without_sequence_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    trace.packets[packet].remove(field::SEQUENCE_ID);
    let words = "the packet has no sequence id";
    assert_error(&trace, packet, Rule::Sequence, words);
}

#[test]
fn second_first_packet_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    let before =
        (0..packet).filter(|before| trace.sequence_id(*before) == trace.sequence_id(packet));
    let before = before.count();
    trace.packets[packet].set(field::FIRST_PACKET, Content::Varint(1));
    let words =
        format!("the packet is flagged as the first of its sequence, but {before} come before it");
    assert_error(&trace, packet, Rule::FirstPacket, &words);
}

#[test]
fn reused_writer_id_gives_a_second_first_packet_that_clears() {
    let mut trace = Trace::good();
    let first = trace.start(trace.event("ready"));
    let mut again = trace.packets[first].clone();
    again.remove(field::TRACK_DESCRIPTOR);
    trace.packets.push(again);
    let packet = trace.packets.len() - 1;
    let before =
        (0..packet).filter(|before| trace.sequence_id(*before) == trace.sequence_id(packet));
    let words = format!(
        "the packet is flagged as the first of its sequence, but {} come before it",
        before.count()
    );
    assert_finding(&trace, packet, Level::Note, Rule::FirstPacket, &words);
}

#[test]
fn sequence_without_clear_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    let start = trace.start(packet);
    trace.packets[start].remove(field::SEQUENCE_FLAGS);
    let words = "the packet is skipped: it needs definitions that are not in the trace";
    assert_error(&trace, packet, Rule::IncrementalState, words);
}

#[test]
fn event_without_needs_state_flag_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("parse");
    trace.packets[packet].remove(field::SEQUENCE_FLAGS);
    let words = "the event depends on interned ids without SEQ_NEEDS_INCREMENTAL_STATE";
    assert_error(&trace, packet, Rule::IncrementalState, words);
}

#[test]
fn loss_of_unknown_cause_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    let bits = Content::Varint(1 | 1 << 20);
    trace.packets[packet].set(field::PREVIOUS_PACKET_DROPPED, bits);
    let words = "a loss has unknown causes: bits 0x100000";
    assert_error(&trace, packet, Rule::Loss, words);
}

#[test]
fn unreadable_events_after_a_loss_are_notes() {
    let mut trace = Trace::good();
    let packet = trace.event("answer");
    trace.packets[packet].set(field::PREVIOUS_PACKET_DROPPED, Content::Varint(65));
    let found = crate::verdict::findings(&trace.encode());
    assert!(
        found.iter().all(|finding| finding.level == Level::Note),
        "{found:#?}"
    );
    assert_eq!(found[0].rule, Rule::Loss);
    assert_eq!(
        found[0].text,
        "packets before this one are missing: OVERWRITE"
    );
    // One note for the begin and the end of the slice, and one for the flow, which has one event
    // left.
    let rules: Vec<_> = found[1..].iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, [Rule::IncrementalState, Rule::Flow]);
}

#[test]
fn sequence_without_beginning_is_a_note() {
    let mut trace = Trace::good();
    let start = trace.start(trace.event("ready"));
    trace.packets[start].remove(field::FIRST_PACKET);
    let words = "the beginning of the sequence is not in the trace";
    assert_finding(&trace, start, Level::Note, Rule::Loss, words);
}

#[test]
fn field_of_wrong_wire_type_is_found() {
    let mut trace = Trace::good();
    let start = trace.start(trace.event("ready"));
    trace.packets[start].set(field::TRUSTED_PID, Content::Fixed32(1));
    let words = "field 79 of the packet has the wrong wire type";
    assert_error(&trace, start, Rule::Decoding, words);
}
