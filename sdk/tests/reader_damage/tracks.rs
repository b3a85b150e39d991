//! Findings about tracks and their descriptors.

use tracezero::reader::{Level, Rule};

use crate::edit::Content;
use crate::good_trace::{Trace, event, field};
use crate::verdict::{assert_error, findings};

const PARENT_UUID: u32 = 5;

#[test]
fn track_without_descriptor_is_found() {
    let mut trace = Trace::good();
    let lane = trace.track(trace.event("passed"));
    trace.packets.remove(trace.descriptor(lane));
    let words = format!("track {lane} has no descriptor");
    assert_error(&trace, trace.event("passed"), Rule::Track, &words);
}

#[test]
fn track_with_undescribed_parent_is_found() {
    let mut trace = Trace::good();
    let lane = trace.track(trace.event("passed"));
    let packet = trace.descriptor(lane);
    trace.packets[packet].edit(field::TRACK_DESCRIPTOR, |descriptor| {
        descriptor.set(PARENT_UUID, Content::Varint(4711));
    });
    let words = format!("track \"lane\" ({lane}) is under track 4711, which has no descriptor");
    assert_error(&trace, packet, Rule::TrackTree, &words);
}

#[test]
fn undescribed_parent_behind_a_loss_is_a_note() {
    let mut trace = Trace::good();
    let lane = trace.track(trace.event("passed"));
    let packet = trace.descriptor(lane);
    trace.packets[packet].set(field::PREVIOUS_PACKET_DROPPED, Content::Varint(1));
    trace.packets[packet].edit(field::TRACK_DESCRIPTOR, |descriptor| {
        descriptor.set(PARENT_UUID, Content::Varint(4711));
    });
    let found = findings(&trace.encode());
    let words = format!("track \"lane\" ({lane}) is under track 4711, which has no descriptor");
    let of_tree: Vec<_> = found
        .iter()
        .filter(|it| it.rule == Rule::TrackTree)
        .map(|it| (it.level, it.text.as_str()))
        .collect();
    assert_eq!(of_tree, [(Level::Note, words.as_str())]);
    assert!(found.iter().all(|it| it.level == Level::Note), "{found:#?}");
}

#[test]
fn track_that_is_its_own_parent_is_found() {
    let mut trace = Trace::good();
    let lane = trace.track(trace.event("passed"));
    let packet = trace.descriptor(lane);
    trace.packets[packet].edit(field::TRACK_DESCRIPTOR, |descriptor| {
        descriptor.set(PARENT_UUID, Content::Varint(lane));
    });
    let words = format!("track \"lane\" ({lane}) is its own ancestor");
    assert_error(&trace, packet, Rule::TrackTree, &words);
}

#[test]
fn too_deeply_nested_track_is_a_note() {
    let mut trace = Trace::good();
    let lane = trace.track(trace.event("passed"));
    let packet = trace.descriptor(lane);
    // Inserts the parents, the topmost first, at the position of the track's descriptor.
    for number in (0..64).rev() {
        let mut above = trace.packets[packet + 63 - number].clone();
        above.edit(field::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.set(1, Content::Varint(1000 + number as u64));
        });
        trace.packets.insert(packet + 63 - number, above);
        trace.packets[packet + 64 - number].edit(field::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.set(PARENT_UUID, Content::Varint(1000 + number as u64));
        });
    }
    let words =
        format!("track \"lane\" ({lane}) has 63 ancestors or more; only so many are checked");
    let found = findings(&trace.encode());
    assert!(
        found.iter().any(|finding| finding.text == words),
        "{found:#?}"
    );
    assert!(found.iter().all(|finding| finding.level == Level::Note));
}

#[test]
fn descriptor_without_uuid_is_found() {
    let mut trace = Trace::good();
    let lane = trace.track(trace.event("passed"));
    let packet = trace.descriptor(lane);
    trace.packets[packet].edit(field::TRACK_DESCRIPTOR, |descriptor| descriptor.remove(1));
    let found = findings(&trace.encode());
    let expected = [
        (Level::Error, Rule::Track, Some(packet as u64)),
        (
            Level::Error,
            Rule::Track,
            Some(trace.event("passed") as u64),
        ),
    ];
    let found: Vec<_> = found
        .iter()
        .map(|finding| (finding.level, finding.rule, finding.packet))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn counter_value_on_other_track_is_found() {
    let mut trace = Trace::good();
    let lane = trace.track(trace.event("passed"));
    let packet = trace.event_of_type(trace.event("send"), event::COUNTER);
    // The second of two values.
    let packet = packet + 1;
    trace.packets[packet].edit(field::TRACK_EVENT, |event| {
        event.set(event::TRACK_UUID, Content::Varint(lane));
    });
    let words = format!("a counter value is on track \"lane\" ({lane}), which is not a counter");
    assert_error(&trace, packet, Rule::Counter, &words);
}

#[test]
fn instant_on_counter_track_is_found() {
    let mut trace = Trace::good();
    let counter = trace.track(trace.event_of_type(trace.event("send"), event::COUNTER));
    let packet = trace.event("passed");
    trace.packets[packet].edit(field::TRACK_EVENT, |event| {
        event.set(event::TRACK_UUID, Content::Varint(counter));
    });
    let words =
        format!("a slice or an instant is on track \"queue\" ({counter}), which is a counter");
    assert_error(&trace, packet, Rule::Counter, &words);
}

#[test]
fn a_counter_event_without_a_value() {
    let mut trace = Trace::good();
    let packet = trace.event_of_type(trace.event("send"), event::COUNTER);
    trace.packets[packet].edit(field::TRACK_EVENT, |event| {
        event.remove(event::COUNTER_VALUE);
    });
    let words = "the packet is skipped: the counter event has no value";
    assert_error(&trace, packet, Rule::Counter, words);
}
