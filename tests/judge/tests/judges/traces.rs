//! A correct trace, whose packets tests change, and assertions about the judge's answer.

use judge::{ExtraSchema, Problem, Rule, Verdict, judge};
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
use perfetto_protos::trace_uuid::TraceUuid;
use perfetto_protos::track_descriptor::TrackDescriptor;
use perfetto_protos::track_event::track_event::Type;
use perfetto_protos::track_event::{EventCategory, EventName, TrackEvent, TrackEventDefaults};
use protobuf::{Message, MessageField};

pub const CLEARED: u32 = 1;
pub const NEEDED: u32 = 2;

pub const MONOTONIC: u32 = 3;
pub const BOOTTIME: u32 = 6;
pub const INCREMENTAL: u32 = 64;
pub const ABSOLUTE: u32 = 65;

pub const PROCESS_TRACK: u64 = 5;
pub const THREAD_TRACK: u64 = 7;
pub const COUNTER_TRACK: u64 = 9;

/// Indexes of the packets of `good_trace`.
pub const GLOBAL_CLOCKS: usize = 0;
pub const CONFIG: usize = 1;
pub const DEFAULTS: usize = 4;
pub const COUNTER_TRACK_DESCRIPTOR: usize = 7;
pub const BEGIN: usize = 8;
pub const INSTANT: usize = 9;
pub const COUNTER: usize = 10;
pub const COUNTER_AGAIN: usize = 11;
pub const END: usize = 12;
pub const TEST_PACKET: usize = 13;

pub fn accepted(packets: &[TracePacket]) -> Verdict {
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

/// Asserts that the judge reports the packet at `index` by `rule`.
#[track_caller]
pub fn assert_refused(packets: &[TracePacket], index: usize, rule: Rule) {
    let problems = judge(&encoded(packets), &ExtraSchema::new()).expect_err("a problem");
    assert!(
        problems
            .iter()
            .any(|problem| problem.packet == Some(index) && problem.rule == rule),
        "no {rule:?} in packet {index}: {problems:#?}"
    );
}

#[track_caller]
pub fn assert_rule(result: Result<Verdict, Vec<Problem>>, rule: Rule) {
    let problems = result.expect_err("a problem");
    assert!(
        problems.iter().any(|problem| problem.rule == rule),
        "no {rule:?}: {problems:#?}"
    );
}

pub fn encoded(packets: &[TracePacket]) -> Vec<u8> {
    let mut trace = Trace::new();
    trace.packet = packets.to_vec();
    trace.write_to_bytes().expect("a trace encodes")
}

/// Builds a correct trace: the service's first packets, a thread with a span, an instant and a
/// counter, and a test packet.
pub fn good_trace() -> Vec<TracePacket> {
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

pub fn with(mut packet: TracePacket, change: impl FnOnce(&mut TracePacket)) -> TracePacket {
    change(&mut packet);
    packet
}

pub fn packet(sequence_id: u32) -> TracePacket {
    with(TracePacket::new(), |p| {
        p.set_trusted_packet_sequence_id(sequence_id);
    })
}

/// Builds the first packet of a sequence. It clears the incremental state, and sets the sequence's
/// clocks, one of them the default, and the default track.
pub fn defaults_packet() -> TracePacket {
    with(clear(2_000), |p| p.first_packet_on_sequence = Some(true))
}

/// Builds a later clear of the same sequence.
pub fn clear_again() -> TracePacket {
    clear(2_020)
}

pub fn clear(now_units: u64) -> TracePacket {
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

pub fn snapshot(readings: &[(u32, u64, Option<bool>, Option<u64>)]) -> ClockSnapshot {
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

pub fn track_descriptors() -> [TrackDescriptor; 3] {
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

pub fn event(kind: Type) -> TrackEvent {
    let mut event = TrackEvent::new();
    event.set_type(kind);
    event
}

pub fn counter_event(difference: i64) -> TrackEvent {
    let mut event = event(Type::TYPE_COUNTER);
    event.set_track_uuid(COUNTER_TRACK);
    event.set_counter_value(difference);
    event
}

pub fn event_packet(timestamp: u64, event: TrackEvent) -> TracePacket {
    with(packet(2), |p| {
        p.sequence_flags = Some(NEEDED);
        p.timestamp = Some(timestamp);
        p.set_track_event(event);
    })
}

pub fn argument(name_iid: u64, string_value_iid: u64) -> DebugAnnotation {
    let mut argument = DebugAnnotation::new();
    argument.set_name_iid(name_iid);
    argument.set_string_value_iid(string_value_iid);
    argument
}

pub fn interned() -> InternedData {
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
