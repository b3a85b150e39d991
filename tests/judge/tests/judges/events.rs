//! The judge's rules for slices, counters and their tracks.

use judge::{ExtraSchema, Options, Rule, Value, judge_with};
use perfetto_protos::track_event::track_event::Type;

use crate::traces::{
    ABSOLUTE, BEGIN, COUNTER, COUNTER_AGAIN, COUNTER_TRACK, COUNTER_TRACK_DESCRIPTOR, DEFAULTS,
    END, INSTANT, TEST_PACKET, THREAD_TRACK, accepted, assert_refused, encoded, event, good_trace,
};

#[test]
fn an_end_without_a_begin_is_refused() {
    let mut packets = good_trace();
    packets[INSTANT]
        .mut_track_event()
        .set_type(Type::TYPE_SLICE_END);
    packets[INSTANT].timestamp = Some(2_012);
    assert_refused(&packets, END, Rule::Spans);
}

#[test]
fn an_open_span_is_refused_or_listed() {
    let mut packets = good_trace();
    packets[END].mut_track_event().set_type(Type::TYPE_INSTANT);
    assert_refused(&packets, BEGIN, Rule::Spans);

    let options = Options {
        allow_open_spans: true,
        ..Options::default()
    };
    let verdict = judge_with(&encoded(&packets), &ExtraSchema::new(), options).unwrap();
    let [open] = &verdict.open_spans[..] else {
        panic!("{:#?}", verdict.open_spans)
    };
    assert_eq!(
        (open.packet, open.track_uuid, open.begin_ns),
        (BEGIN, THREAD_TRACK, 2_010_000)
    );
    assert_eq!(open.name.as_deref(), Some("read_file"));
}

#[test]
fn an_end_before_its_begin_is_refused() {
    let mut packets = good_trace();
    packets[END].timestamp_clock_id = Some(ABSOLUTE);
    packets[END].timestamp = Some(2_009);
    assert_refused(&packets, END, Rule::Spans);
}

#[test]
fn time_running_backwards_on_a_track_is_refused() {
    let mut packets = good_trace();
    for (index, kind, units) in [
        (INSTANT, Type::TYPE_SLICE_BEGIN, 2_012),
        (COUNTER, Type::TYPE_SLICE_END, 2_013),
        (COUNTER_AGAIN, Type::TYPE_INSTANT, 2_013),
        (END, Type::TYPE_SLICE_END, 2_012),
    ] {
        packets[index].timestamp_clock_id = Some(ABSOLUTE);
        packets[index].timestamp = Some(units);
        packets[index].set_track_event(event(kind));
    }
    assert_refused(&packets, END, Rule::Spans);
    packets[END].timestamp = Some(2_013);
    accepted(&packets);
}

#[test]
fn a_span_may_end_on_another_sequence() {
    let mut packets = good_trace();
    packets[END].set_trusted_packet_sequence_id(3);
    packets[END].sequence_flags = None;
    packets[END].timestamp = Some(2_500_000);
    packets[END].mut_track_event().set_track_uuid(THREAD_TRACK);
    packets[TEST_PACKET].first_packet_on_sequence = None;
    let end = packets.remove(END);
    packets.insert(DEFAULTS, end);
    accepted(&packets);
}

#[test]
fn track_without_descriptor_is_refused_except_global() {
    let mut packets = good_trace();
    packets[INSTANT].mut_track_event().set_track_uuid(1234);
    assert_refused(&packets, INSTANT, Rule::TrackDescriptor);
    packets[INSTANT].mut_track_event().set_track_uuid(0);
    accepted(&packets);
}

#[test]
fn a_counter_event_on_another_kind_of_track_is_refused() {
    let mut packets = good_trace();
    packets[COUNTER]
        .mut_track_event()
        .set_track_uuid(THREAD_TRACK);
    assert_refused(&packets, COUNTER, Rule::Counter);
}

#[test]
fn a_counter_event_without_a_value_is_refused() {
    let mut packets = good_trace();
    packets[COUNTER].mut_track_event().counter_value_field = None;
    assert_refused(&packets, COUNTER, Rule::Counter);
}

#[test]
fn extra_counter_values_need_counter_tracks() {
    let mut packets = good_trace();
    packets[BEGIN]
        .mut_track_event()
        .extra_counter_values
        .push(1);
    assert_refused(&packets, BEGIN, Rule::Counter);
    packets[BEGIN]
        .mut_track_event()
        .extra_counter_track_uuids
        .push(THREAD_TRACK);
    assert_refused(&packets, BEGIN, Rule::Counter);
    packets[BEGIN].mut_track_event().extra_counter_track_uuids[0] = COUNTER_TRACK;
    accepted(&packets);
}

#[test]
fn counters_that_are_not_incremental_keep_their_values() {
    let mut packets = good_trace();
    let descriptor = packets[COUNTER_TRACK_DESCRIPTOR].mut_track_descriptor();
    descriptor.counter.as_mut().unwrap().is_incremental = None;
    packets[COUNTER_AGAIN]
        .mut_track_event()
        .set_double_counter_value(0.5);
    let verdict = accepted(&packets);
    assert_eq!(verdict.events[3].counter, Some(Value::Double(0.5)));
}

#[test]
fn an_event_without_a_time_or_a_type_is_refused() {
    let mut packets = good_trace();
    packets[INSTANT].timestamp = None;
    assert_refused(&packets, INSTANT, Rule::Event);

    let mut packets = good_trace();
    packets[INSTANT].mut_track_event().type_ = None;
    assert_refused(&packets, INSTANT, Rule::Event);
}
