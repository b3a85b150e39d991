//! Findings about events: types, slices, flows, arguments and their schema.

use tracezero::reader::{Level, Rule};

use crate::edit::{Content, Message};
use crate::good_trace::{Trace, event, field};
use crate::verdict::{assert_error, assert_finding};

const BOOTTIME: u64 = 6;

#[test]
fn event_without_type_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    trace.packets[packet].edit(field::TRACK_EVENT, |event| event.remove(event::TYPE));
    let words = "the packet is skipped: the event has no type";
    assert_error(&trace, packet, Rule::Event, words);
}

#[test]
fn an_end_without_a_begin() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    trace.packets[packet].edit(field::TRACK_EVENT, |event| {
        event.set(event::TYPE, Content::Varint(event::SLICE_END));
    });
    let defaults = trace.packets[trace.start(packet)].message(field::DEFAULTS);
    let defaults = defaults.and_then(|defaults| defaults.message(field::TRACK_EVENT));
    let track = defaults.and_then(|defaults| defaults.number(event::TRACK_UUID));
    let words = format!(
        "an end on track \"short\" ({}) has no begin",
        track.expect("a track")
    );
    assert_error(&trace, packet, Rule::Nesting, &words);
}

#[test]
fn slice_without_end_is_a_note() {
    let mut trace = Trace::good();
    let packet = trace.event("answer");
    let end = trace.event_of_type(packet, event::SLICE_END);
    trace.packets.remove(end);
    let defaults = trace.packets[trace.start(packet)].message(field::DEFAULTS);
    let defaults = defaults.and_then(|defaults| defaults.message(field::TRACK_EVENT));
    let track = defaults.and_then(|defaults| defaults.number(event::TRACK_UUID));
    let words = format!(
        "\"answer\" on track \"answering\" ({}) has no end",
        track.expect("a track")
    );
    assert_finding(&trace, packet, Level::Note, Rule::Nesting, &words);
}

#[test]
fn backward_time_on_a_thread_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("parse");
    trace.packets[packet].set(field::TIMESTAMP, Content::Varint(1));
    trace.packets[packet].set(field::TIMESTAMP_CLOCK_ID, Content::Varint(BOOTTIME));
    let found = crate::verdict::findings(&trace.encode());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].rule, Rule::TimeOrder);
    assert_eq!(found[0].packet, Some(packet as u64));
    assert!(found[0].text.starts_with("time runs backwards by "));
}

#[test]
fn slice_that_ends_before_its_begin_is_found() {
    let mut trace = Trace::good();
    let begin = trace.event("answer");
    let packet = trace.event_of_type(begin, event::SLICE_END);
    trace.packets[packet].set(field::TIMESTAMP, Content::Varint(1));
    trace.packets[packet].set(field::TIMESTAMP_CLOCK_ID, Content::Varint(BOOTTIME));
    let found = crate::verdict::findings(&trace.encode());
    let found: Vec<_> = found
        .iter()
        .map(|finding| (finding.level, finding.rule, finding.packet))
        .collect();
    let at = Some(packet as u64);
    let expected = [
        (Level::Error, Rule::TimeOrder, at),
        (Level::Error, Rule::Nesting, at),
    ];
    assert_eq!(found, expected);
}

#[test]
fn flow_with_one_event_is_a_note() {
    let mut trace = Trace::good();
    let packet = trace.event("send");
    let event = trace.packets[packet].message(field::TRACK_EVENT);
    let flow = event.and_then(|event| {
        event.0.iter().find_map(|field| match field {
            (event::FLOW_IDS, Content::Fixed64(id)) => Some(*id),
            _ => None,
        })
    });
    let answer = trace.event("answer");
    trace.packets[answer].edit(field::TRACK_EVENT, |event| {
        assert!(event.has(event::TERMINATING_FLOW_IDS));
        event.remove(event::TERMINATING_FLOW_IDS);
    });
    let words = format!("flow {} has only this event", flow.expect("a flow"));
    assert_finding(&trace, packet, Level::Note, Rule::Flow, &words);
}

#[test]
fn argument_of_wrong_wire_type_is_found() {
    const DEBUG_ANNOTATIONS: u32 = 4;
    const STRING_VALUE: u32 = 6;

    let mut trace = Trace::good();
    let packet = trace.event("read");
    trace.packets[packet].edit(field::TRACK_EVENT, |event| {
        event.edit(DEBUG_ANNOTATIONS, |arg| {
            arg.set(STRING_VALUE, Content::Varint(1));
        });
    });
    let words = "field 6 of DebugAnnotation has the wrong wire type";
    assert_error(&trace, packet, Rule::Decoding, words);
}

#[test]
fn malformed_schema_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    let file = Message(vec![(2, Content::Bytes(b"package".to_vec()))]);
    let set = Message(vec![(1, Content::Bytes(file.encode()))]);
    let descriptor = Message(vec![(1, Content::Bytes(set.encode()))]);
    let mut inserted = Message::default();
    inserted.set(field::SEQUENCE_ID, Content::Varint(1));
    inserted.set(
        field::EXTENSION_DESCRIPTOR,
        Content::Bytes(descriptor.encode()),
    );
    trace.packets.insert(packet, inserted);
    let words = "a file of the schema has no name";
    assert_error(&trace, packet, Rule::Schema, words);
}
