//! The judge's rules for packets that depend on earlier packets of their sequence.

use judge::{EventKind, ExtraSchema, Options, Rule, judge, judge_with};
use perfetto_protos::track_event::{EventName, TrackEvent};

use crate::traces::{
    BEGIN, BOOTTIME, CLEARED, DEFAULTS, END, INSTANT, NEEDED, TEST_PACKET, accepted, argument,
    assert_refused, clear_again, encoded, good_trace,
};

#[test]
fn a_packet_without_a_sequence_is_refused() {
    let mut packets = good_trace();
    packets[TEST_PACKET].optional_trusted_packet_sequence_id = None;
    assert_refused(&packets, TEST_PACKET, Rule::SequenceId);
    packets[TEST_PACKET].set_trusted_packet_sequence_id(0);
    assert_refused(&packets, TEST_PACKET, Rule::SequenceId);
}

#[test]
fn service_and_producers_may_not_use_each_others_sequences() {
    let mut packets = good_trace();
    packets[TEST_PACKET].set_trusted_packet_sequence_id(1);
    assert_refused(&packets, TEST_PACKET, Rule::SequenceId);

    let mut packets = good_trace();
    packets
        .last_mut()
        .unwrap()
        .set_trusted_packet_sequence_id(3);
    assert_refused(&packets, packets.len() - 1, Rule::SequenceId);
}

#[test]
fn only_the_first_packet_of_a_sequence_may_be_flagged_so() {
    let mut packets = good_trace();
    packets[INSTANT].first_packet_on_sequence = Some(true);
    assert_refused(&packets, INSTANT, Rule::FirstPacket);
}

#[test]
fn needing_incremental_state_before_a_clear_is_refused() {
    let mut packets = good_trace();
    packets[TEST_PACKET].sequence_flags = Some(NEEDED);
    assert_refused(&packets, TEST_PACKET, Rule::IncrementalState);
}

#[test]
fn definitions_before_a_clear_are_refused() {
    let mut packets = good_trace();
    packets[DEFAULTS].sequence_flags = None;
    assert_refused(&packets, DEFAULTS, Rule::IncrementalState);
}

#[test]
fn depending_on_definitions_without_saying_so_is_refused() {
    for index in [BEGIN, INSTANT, END] {
        let mut packets = good_trace();
        packets[index].sequence_flags = None;
        assert_refused(&packets, index, Rule::IncrementalState);
    }
}

#[test]
fn needing_lost_incremental_state_is_refused_until_clear() {
    let mut packets = good_trace();
    packets[INSTANT].previous_packet_dropped = Some(true);
    assert_refused(&packets, INSTANT, Rule::IncrementalState);

    packets.insert(INSTANT, clear_again());
    packets[INSTANT].previous_packet_dropped = Some(true);
    packets[INSTANT + 1].previous_packet_dropped = None;
    let verdict = accepted(&packets);
    assert_eq!(verdict.losses.len(), 1);
    assert_eq!(
        (verdict.losses[0].packet, verdict.losses[0].sequence_id),
        (INSTANT, 2)
    );
}

#[test]
fn packets_that_a_loss_made_unreadable_can_be_left_out() {
    let mut packets = good_trace();
    packets[INSTANT].previous_packet_dropped = Some(true);
    let options = Options {
        allow_open_spans: true,
        allow_unreadable_after_loss: true,
        ..Options::default()
    };
    let verdict = judge_with(&encoded(&packets), &ExtraSchema::new(), options).unwrap();
    assert_eq!(verdict.unreadable_packets, END - INSTANT + 1);
    assert_eq!(verdict.events.len(), 1);
    assert_eq!(verdict.open_spans.len(), 1);
}

#[test]
fn an_end_whose_begin_was_lost_can_be_ignored() {
    let mut packets = good_trace();
    packets[BEGIN] = clear_again();
    packets[BEGIN].previous_packet_dropped = Some(true);
    assert_refused(&packets, END, Rule::Spans);

    let options = Options {
        allow_unreadable_after_loss: true,
        ..Options::default()
    };
    let verdict = judge_with(&encoded(&packets), &ExtraSchema::new(), options).unwrap();
    assert_eq!(verdict.unreadable_packets, 0);
    assert_eq!(verdict.events.last().unwrap().kind, EventKind::SliceEnd);
}

#[test]
fn the_reasons_of_a_loss_are_read_as_a_mask() {
    let mut bytes = encoded(&good_trace()[..4]);
    let lossy = [0x50, 2, 0xd0, 0x02, 0x81, 0x02];
    bytes.extend([0x0a, u8::try_from(lossy.len()).unwrap()]);
    bytes.extend(lossy);
    let verdict = judge(&bytes, &ExtraSchema::new()).unwrap();
    assert_eq!(verdict.losses[0].reasons, 257);
}

#[test]
fn an_id_that_is_not_defined_is_refused() {
    let undefined: [fn(&mut TrackEvent); 6] = [
        |event| event.category_iids.push(2),
        |event| event.set_name_iid(2),
        |event| event.debug_annotations[0].set_name_iid(2),
        |event| event.debug_annotations[0].set_string_value_iid(2),
        |event| event.debug_annotations[0].dict_entries.push(argument(2, 1)),
        |event| event.set_source_location_iid(2),
    ];
    for change in undefined {
        let mut packets = good_trace();
        change(packets[BEGIN].mut_track_event());
        assert_refused(&packets, BEGIN, Rule::Interning);
    }
}

#[test]
fn id_from_before_a_clear_or_another_sequence_is_refused() {
    let mut packets = good_trace();
    packets[INSTANT].mut_track_event().set_name_iid(1);
    accepted(&packets);

    let mut elsewhere = packets[INSTANT].clone();
    elsewhere.set_trusted_packet_sequence_id(3);
    elsewhere.sequence_flags = Some(CLEARED);
    elsewhere.timestamp_clock_id = Some(BOOTTIME);
    packets.push(elsewhere);
    assert_refused(&packets, packets.len() - 1, Rule::Interning);

    let mut packets = good_trace();
    packets[INSTANT].mut_track_event().set_name_iid(1);
    packets.insert(INSTANT, clear_again());
    assert_refused(&packets, INSTANT + 1, Rule::Interning);
}

#[test]
fn an_id_may_be_defined_again_with_the_same_value_only() {
    let mut packets = good_trace();
    packets[INSTANT].interned_data = packets[BEGIN].interned_data.clone();
    accepted(&packets);

    packets[INSTANT].interned_data.as_mut().unwrap().event_names[0].set_name("other".to_owned());
    assert_refused(&packets, INSTANT, Rule::Interning);
}

#[test]
fn a_definition_without_an_id_is_refused() {
    let mut packets = good_trace();
    packets[BEGIN]
        .interned_data
        .as_mut()
        .unwrap()
        .event_names
        .push(EventName::new());
    assert_refused(&packets, BEGIN, Rule::Interning);
}
