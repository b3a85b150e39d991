//! The judge accepts a right trace, resolves it, and refuses a trace that breaks any one rule.
//!
//! The traces are built with the same foreign library that the judge reads them with.

use judge::{EventKind, ExtraSchema, Options, Problem, Rule, Value, Verdict, judge, judge_with};
use perfetto_protos::clock_snapshot::ClockSnapshot;
use perfetto_protos::clock_snapshot::clock_snapshot::Clock;
use perfetto_protos::counter_descriptor::CounterDescriptor;
use perfetto_protos::debug_annotation::{DebugAnnotation, DebugAnnotationName};
use perfetto_protos::interned_data::InternedData;
use perfetto_protos::process_descriptor::ProcessDescriptor;
use perfetto_protos::profile_common::InternedString;
use perfetto_protos::source_location::SourceLocation;
use perfetto_protos::system_info::SystemInfo;
use perfetto_protos::test_event::TestEvent;
use perfetto_protos::thread_descriptor::ThreadDescriptor;
use perfetto_protos::trace::Trace;
use perfetto_protos::trace_config::TraceConfig;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::trace_packet_defaults::TracePacketDefaults;
use perfetto_protos::trace_stats::TraceStats;
use perfetto_protos::trace_stats::trace_stats::BufferStats;
use perfetto_protos::trace_uuid::TraceUuid;
use perfetto_protos::track_descriptor::TrackDescriptor;
use perfetto_protos::track_event::track_event::Type;
use perfetto_protos::track_event::{EventCategory, EventName, TrackEvent, TrackEventDefaults};
use protobuf::{EnumOrUnknown, Message, MessageField};

const CUSTOM_PROTO: &str = "protos/custom.proto";

const CLEARED: u32 = 1;
const NEEDED: u32 = 2;

const MONOTONIC: u32 = 3;
const BOOTTIME: u32 = 6;
const INCREMENTAL: u32 = 64;
const ABSOLUTE: u32 = 65;

const PROCESS_TRACK: u64 = 5;
const THREAD_TRACK: u64 = 7;
const COUNTER_TRACK: u64 = 9;

/// Indexes of the packets of `good_trace`.
const GLOBAL_CLOCKS: usize = 0;
const CONFIG: usize = 1;
const DEFAULTS: usize = 4;
const COUNTER_TRACK_DESCRIPTOR: usize = 7;
const BEGIN: usize = 8;
const INSTANT: usize = 9;
const COUNTER: usize = 10;
const COUNTER_AGAIN: usize = 11;
const END: usize = 12;
const TEST_PACKET: usize = 13;

#[test]
fn a_right_trace_is_accepted_and_resolved() {
    let verdict = accepted(&good_trace());

    assert_eq!(verdict.packets.len(), 15);
    assert_eq!(
        verdict.packets_per_sequence,
        [(1, 5), (2, 9), (3, 1)].into()
    );
    assert_eq!(verdict.open_spans, []);
    assert_eq!(verdict.losses, []);
    assert_eq!(verdict.trace_config.unwrap().duration_ms(), 500);
    assert_eq!(verdict.trace_stats.unwrap().total_buffers(), 1);

    let [begin, instant, counter, counter_again, end] = &verdict.events[..] else {
        panic!("{:#?}", verdict.events)
    };
    assert_eq!(begin.kind, EventKind::SliceBegin);
    assert_eq!(begin.sequence_id, 2);
    assert_eq!(begin.timestamp_ns, 2_010_000);
    assert_eq!(begin.track_name.as_deref(), Some("worker"));
    assert_eq!(begin.thread_name.as_deref(), Some("worker"));
    assert_eq!(begin.categories, ["io"]);
    assert_eq!(begin.name.as_deref(), Some("read_file"));
    assert_eq!(
        begin.args,
        [("path".to_owned(), Value::Text("Cargo.toml".to_owned()))].into()
    );
    assert_eq!(begin.source_location.as_ref().unwrap().file_name(), "io.rs");
    assert_eq!(instant.kind, EventKind::Instant);
    assert_eq!(
        instant.timestamp_ns, 2_005_000,
        "an absolute time on the sequence's other clock"
    );
    assert_eq!(counter.kind, EventKind::Counter);
    assert_eq!(counter.timestamp_ns, 2_011_000);
    assert_eq!(counter.counter, Some(Value::Int(100)));
    assert_eq!(
        counter_again.counter,
        Some(Value::Int(70)),
        "the sum of the differences"
    );
    assert_eq!(end.kind, EventKind::SliceEnd);
    assert_eq!(end.timestamp_ns, 2_015_000);
}

#[test]
fn times_of_another_global_clock_are_converted_by_its_snapshot() {
    let mut packets = good_trace();
    packets[INSTANT].timestamp_clock_id = Some(MONOTONIC);
    packets[INSTANT].timestamp = Some(2_000_000);
    assert_eq!(accepted(&packets).events[1].timestamp_ns, 2_100_000);
}

#[test]
fn bytes_that_do_not_decode_are_refused() {
    let mut bytes = encoded(&good_trace());
    bytes.truncate(bytes.len() - 1);
    assert_rule(judge(&bytes, &ExtraSchema::new()), Rule::Decodes);

    let not_a_packet = [0x12, 0];
    assert_rule(judge(&not_a_packet, &ExtraSchema::new()), Rule::Decodes);

    let name_is_not_utf8 = [0x0a, 5, 0x5a, 3, 0xba, 0x01, 1, 0xff];
    assert_rule(judge(&name_is_not_utf8, &ExtraSchema::new()), Rule::Decodes);
}

#[test]
fn compressed_packets_are_refused() {
    let mut packets = good_trace();
    packets[TEST_PACKET].set_compressed_packets(vec![1, 2, 3]);
    assert_refused(&packets, TEST_PACKET, Rule::Decodes);
}

#[test]
fn an_unknown_field_is_refused_however_deep() {
    let mut packets = good_trace();
    packets[TEST_PACKET]
        .special_fields
        .mut_unknown_fields()
        .add_varint(999, 1);
    assert_refused(&packets, TEST_PACKET, Rule::KnownFields);

    let mut packets = good_trace();
    let argument = &mut packets[BEGIN].mut_track_event().debug_annotations[0];
    argument
        .special_fields
        .mut_unknown_fields()
        .add_varint(999, 1);
    assert_refused(&packets, BEGIN, Rule::KnownFields);
}

#[test]
fn a_known_field_of_another_wire_type_is_refused() {
    let mut packets = good_trace();
    packets[TEST_PACKET]
        .special_fields
        .mut_unknown_fields()
        .add_fixed64(8, 1);
    assert_refused(&packets, TEST_PACKET, Rule::KnownFields);
}

#[test]
fn an_unknown_enum_value_is_refused() {
    let mut packets = good_trace();
    packets[INSTANT].mut_track_event().type_ = Some(EnumOrUnknown::from_i32(77));
    assert_refused(&packets, INSTANT, Rule::KnownFields);
}

#[test]
fn fields_that_perfetto_published_later_are_accepted() {
    let mut packets = good_trace();
    let provenance = vec![0x12, 4, 0x0a, 2, 0x08, 2];
    packets[CONFIG]
        .special_fields
        .mut_unknown_fields()
        .add_length_delimited(124, provenance);
    let mut stats = BufferStats::new();
    stats.special_fields.mut_unknown_fields().add_varint(20, 3);
    packets
        .last_mut()
        .unwrap()
        .mut_trace_stats()
        .buffer_stats
        .push(stats);
    accepted(&packets);

    let broken_provenance = vec![0x12, 4, 0x0a, 2, 0x18, 2];
    packets[CONFIG]
        .special_fields
        .mut_unknown_fields()
        .add_length_delimited(124, broken_provenance);
    assert_refused(&packets, CONFIG, Rule::KnownFields);
}

#[test]
fn declared_extensions_are_decoded() {
    let mut packets = good_trace();
    let sample = vec![0x08, 200, 9, 0x12, 2, 87, 12, 0x1a, 1, b'a'];
    packets[TEST_PACKET]
        .special_fields
        .mut_unknown_fields()
        .add_length_delimited(1900, sample);
    let event = packets[INSTANT].mut_track_event();
    event
        .special_fields
        .mut_unknown_fields()
        .add_length_delimited(9900, b"GET /".to_vec());
    assert_refused(&packets, TEST_PACKET, Rule::KnownFields);

    let extra = ExtraSchema::new().extensions(CUSTOM_PROTO);
    let verdict = judge(&encoded(&packets), &extra).unwrap();
    let [request, sample] = &verdict.custom[..] else {
        panic!("{:#?}", verdict.custom)
    };
    assert_eq!(request.extended, "perfetto.protos.TrackEvent");
    assert_eq!(
        request.fields.get("request").unwrap().as_str(),
        Some("GET /")
    );
    assert_eq!((sample.packet, sample.sequence_id), (TEST_PACKET, 3));
    assert_eq!(sample.timestamp_ns, Some(3_000_000));
    assert_eq!(
        sample.fields.get("gpu_sample.mhz").unwrap().as_u64(),
        Some(1224)
    );
    assert_eq!(
        sample
            .fields
            .get("gpu_sample.load_percent.1")
            .unwrap()
            .as_u64(),
        Some(12)
    );
    assert_eq!(
        sample.fields.get("gpu_sample.adapter").unwrap().as_str(),
        Some("a")
    );
}

#[test]
fn a_message_declared_for_a_field_is_decoded_and_checked_for_unknown_fields() {
    let extra = ExtraSchema::new()
        .packet_field(1901, CUSTOM_PROTO, "judge.test.GpuSample")
        .track_event_field(9901, CUSTOM_PROTO, "judge.test.GpuSample");
    let mut packets = good_trace();
    packets[TEST_PACKET]
        .special_fields
        .mut_unknown_fields()
        .add_length_delimited(1901, vec![8, 5]);
    let event = packets[INSTANT].mut_track_event();
    event
        .special_fields
        .mut_unknown_fields()
        .add_length_delimited(9901, vec![8, 6]);
    let verdict = judge(&encoded(&packets), &extra).unwrap();
    let mhz = verdict
        .custom
        .iter()
        .map(|custom| custom.fields.get("gpu_sample.mhz").unwrap());
    assert_eq!(
        mhz.map(|mhz| mhz.as_u64().unwrap()).collect::<Vec<_>>(),
        [6, 5]
    );

    let unknown_field_inside = vec![0x20, 5];
    let unknown = packets[TEST_PACKET].special_fields.mut_unknown_fields();
    unknown.add_length_delimited(1901, unknown_field_inside);
    let result = judge(&encoded(&packets), &extra);
    assert_rule(result, Rule::KnownFields);
}

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
fn needing_incremental_state_after_a_loss_is_refused_until_the_next_clear() {
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
fn an_id_defined_before_a_clear_or_on_another_sequence_is_refused() {
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
fn a_clock_of_a_sequence_that_is_tied_to_no_global_clock_is_refused() {
    let mut packets = good_trace();
    packets[DEFAULTS].mut_clock_snapshot().clocks.remove(0);
    assert_refused(&packets, DEFAULTS, Rule::Clock);
}

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
fn a_track_without_a_descriptor_is_refused_unless_it_is_the_global_one() {
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

#[test]
fn data_before_any_part_of_the_preamble_is_refused() {
    for missing in GLOBAL_CLOCKS..DEFAULTS {
        let mut packets = good_trace();
        let preamble = packets.remove(missing);
        assert_refused(&packets, DEFAULTS - 1, Rule::Preamble);
        packets.push(preamble);
        assert_refused(&packets, DEFAULTS - 1, Rule::Preamble);
    }
}

#[test]
fn an_empty_trace_lacks_the_preamble() {
    let problems = judge(&[], &ExtraSchema::new()).unwrap_err();
    assert_eq!(problems.len(), 4);
    assert!(
        problems
            .iter()
            .all(|problem| problem.rule == Rule::Preamble)
    );
}

#[test]
fn a_problem_says_where_it_is() {
    let mut packets = good_trace();
    packets[INSTANT].mut_track_event().set_track_uuid(1234);
    let problems = judge(&encoded(&packets), &ExtraSchema::new()).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "packet 9, sequence 2, TrackDescriptor: track 1234 has no descriptor"
    );
}

fn accepted(packets: &[TracePacket]) -> Verdict {
    judge(&encoded(packets), &ExtraSchema::new()).unwrap_or_else(|problems| {
        panic!(
            "{}",
            problems
                .iter()
                .map(|p| format!("{p}\n"))
                .collect::<String>()
        )
    })
}

/// The judge objects to the packet at `index` by `rule`.
#[track_caller]
fn assert_refused(packets: &[TracePacket], index: usize, rule: Rule) {
    let problems = judge(&encoded(packets), &ExtraSchema::new()).expect_err("a problem");
    assert!(
        problems
            .iter()
            .any(|problem| problem.packet == Some(index) && problem.rule == rule),
        "no {rule:?} in packet {index}: {problems:#?}"
    );
}

#[track_caller]
fn assert_rule(result: Result<Verdict, Vec<Problem>>, rule: Rule) {
    let problems = result.expect_err("a problem");
    assert!(
        problems.iter().any(|problem| problem.rule == rule),
        "no {rule:?}: {problems:#?}"
    );
}

fn encoded(packets: &[TracePacket]) -> Vec<u8> {
    let mut trace = Trace::new();
    trace.packet = packets.to_vec();
    trace.write_to_bytes().expect("a trace encodes")
}

/// The service's introduction, a thread with a span, an instant and a counter, and a test packet.
fn good_trace() -> Vec<TracePacket> {
    let mut config = TraceConfig::new();
    config.set_duration_ms(500);
    let mut stats = TraceStats::new();
    stats.set_total_buffers(1);
    let global_clocks = snapshot(&[
        (BOOTTIME, 1_000_000, None, None),
        (MONOTONIC, 900_000, None, None),
    ]);
    let mut packets = vec![
        with(packet(1), |p| p.set_clock_snapshot(global_clocks)),
        with(packet(1), |p| p.set_trace_config(config)),
        with(packet(1), |p| p.set_trace_uuid(TraceUuid::new())),
        with(packet(1), |p| p.set_system_info(SystemInfo::new())),
        defaults_packet(),
    ];
    packets.extend(track_descriptors().map(|descriptor| {
        with(packet(2), |p| {
            p.sequence_flags = Some(NEEDED);
            p.set_track_descriptor(descriptor);
        })
    }));
    packets.extend([
        with(event_packet(10, event(Type::TYPE_SLICE_BEGIN)), |p| {
            let event = p.mut_track_event();
            event.category_iids.push(1);
            event.set_name_iid(1);
            event.set_source_location_iid(1);
            event.debug_annotations.push(argument(1, 1));
            p.interned_data = MessageField::some(interned());
        }),
        with(event_packet(2_005, event(Type::TYPE_INSTANT)), |p| {
            p.timestamp_clock_id = Some(ABSOLUTE);
        }),
        event_packet(1, counter_event(100)),
        event_packet(1, counter_event(-30)),
        event_packet(3, event(Type::TYPE_SLICE_END)),
        with(packet(3), |p| {
            p.first_packet_on_sequence = Some(true);
            p.timestamp = Some(3_000_000);
            p.set_for_testing(TestEvent::new());
        }),
        with(packet(1), |p| p.set_trace_stats(stats)),
    ]);
    packets
}

fn with(mut packet: TracePacket, change: impl FnOnce(&mut TracePacket)) -> TracePacket {
    change(&mut packet);
    packet
}

fn packet(sequence_id: u32) -> TracePacket {
    with(TracePacket::new(), |p| {
        p.set_trusted_packet_sequence_id(sequence_id);
    })
}

/// A clear: the sequence's clocks, one of them the default, and the default track.
fn defaults_packet() -> TracePacket {
    with(clear(2_000), |p| p.first_packet_on_sequence = Some(true))
}

/// A later clear of the same sequence.
fn clear_again() -> TracePacket {
    clear(2_020)
}

fn clear(now_units: u64) -> TracePacket {
    let mut event_defaults = TrackEventDefaults::new();
    event_defaults.set_track_uuid(THREAD_TRACK);
    let mut defaults = TracePacketDefaults::new();
    defaults.set_timestamp_clock_id(INCREMENTAL);
    defaults.track_event_defaults = MessageField::some(event_defaults);
    with(packet(2), |p| {
        p.sequence_flags = Some(CLEARED);
        p.trace_packet_defaults = MessageField::some(defaults);
        p.set_clock_snapshot(snapshot(&[
            (BOOTTIME, 1_000 * now_units, None, None),
            (INCREMENTAL, now_units, Some(true), Some(1_000)),
            (ABSOLUTE, now_units, None, Some(1_000)),
        ]));
    })
}

fn snapshot(readings: &[(u32, u64, Option<bool>, Option<u64>)]) -> ClockSnapshot {
    let mut snapshot = ClockSnapshot::new();
    for &(clock_id, timestamp, is_incremental, unit_multiplier_ns) in readings {
        let mut clock = Clock::new();
        clock.clock_id = Some(clock_id);
        clock.timestamp = Some(timestamp);
        clock.is_incremental = is_incremental;
        clock.unit_multiplier_ns = unit_multiplier_ns;
        snapshot.clocks.push(clock);
    }
    snapshot
}

fn track_descriptors() -> [TrackDescriptor; 3] {
    let mut process = TrackDescriptor::new();
    process.set_uuid(PROCESS_TRACK);
    process.process = MessageField::some(ProcessDescriptor::new());
    let mut thread = TrackDescriptor::new();
    thread.set_uuid(THREAD_TRACK);
    thread.set_parent_uuid(PROCESS_TRACK);
    let mut thread_descriptor = ThreadDescriptor::new();
    thread_descriptor.set_thread_name("worker".to_owned());
    thread.thread = MessageField::some(thread_descriptor);
    let mut counter = TrackDescriptor::new();
    counter.set_uuid(COUNTER_TRACK);
    counter.set_parent_uuid(THREAD_TRACK);
    counter.set_name("open_files".to_owned());
    let mut counter_descriptor = CounterDescriptor::new();
    counter_descriptor.set_is_incremental(true);
    counter.counter = MessageField::some(counter_descriptor);
    [process, thread, counter]
}

fn event(kind: Type) -> TrackEvent {
    let mut event = TrackEvent::new();
    event.set_type(kind);
    event
}

fn counter_event(difference: i64) -> TrackEvent {
    let mut event = event(Type::TYPE_COUNTER);
    event.set_track_uuid(COUNTER_TRACK);
    event.set_counter_value(difference);
    event
}

fn event_packet(timestamp: u64, event: TrackEvent) -> TracePacket {
    with(packet(2), |p| {
        p.sequence_flags = Some(NEEDED);
        p.timestamp = Some(timestamp);
        p.set_track_event(event);
    })
}

fn argument(name_iid: u64, string_value_iid: u64) -> DebugAnnotation {
    let mut argument = DebugAnnotation::new();
    argument.set_name_iid(name_iid);
    argument.set_string_value_iid(string_value_iid);
    argument
}

fn interned() -> InternedData {
    let mut category = EventCategory::new();
    category.set_iid(1);
    category.set_name("io".to_owned());
    let mut name = EventName::new();
    name.set_iid(1);
    name.set_name("read_file".to_owned());
    let mut argument_name = DebugAnnotationName::new();
    argument_name.set_iid(1);
    argument_name.set_name("path".to_owned());
    let mut text = InternedString::new();
    text.set_iid(1);
    text.set_str(b"Cargo.toml".to_vec());
    let mut location = SourceLocation::new();
    location.set_iid(1);
    location.set_file_name("io.rs".to_owned());
    let mut interned = InternedData::new();
    interned.event_categories.push(category);
    interned.event_names.push(name);
    interned.debug_annotation_names.push(argument_name);
    interned.debug_annotation_string_values.push(text);
    interned.source_locations.push(location);
    interned
}
