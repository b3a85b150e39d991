//! The options of `TrackEventConfig`: other forms of timestamps, omitted parts of events, thread
//! times.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::thread;
use std::time::Duration;

use judge::{ExtraSchema, Options, Value, Verdict, judge_with};
use perfetto_protos::counter_descriptor::counter_descriptor::BuiltinCounterType;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::trace_packet_defaults::TracePacketDefaults;
use perfetto_protos::track_descriptor::TrackDescriptor;
use support::alone;
use tracezero::{
    BufferConfig, DataSourceConfig, Flow, TraceConfig, Track, TrackEventConfig, clock, counter,
    instant, span,
};

/// Ids of clocks: the trace clock, and the clock of a sequence with a unit of its own.
const BOOTTIME: u32 = 6;
const UNIT_CLOCK: u32 = 65;

#[test]
fn absolute_timestamps_use_the_trace_clock() {
    let events = TrackEventConfig::new().disable_incremental_timestamps();
    let (verdict, times) = timed_instants(&events, 100);
    assert_eq!(default_clocks(&verdict), [BOOTTIME]);
    for packet in events_of(&verdict) {
        assert!(packet.timestamp_clock_id.is_none());
        assert!(times.contains(&packet.timestamp()));
    }
    assert_within(&verdict, 1);
}

#[test]
fn absolute_timestamps_in_units_are_on_a_clock_of_the_sequence() {
    let events = TrackEventConfig::new()
        .disable_incremental_timestamps()
        .timestamp_unit(Duration::from_micros(1));
    let (verdict, times) = timed_instants(&events, 100);
    assert_eq!(default_clocks(&verdict), [UNIT_CLOCK]);
    let in_units = times.start() / 1000..=times.end() / 1000;
    for packet in events_of(&verdict) {
        assert!(packet.timestamp_clock_id.is_none());
        assert!(in_units.contains(&packet.timestamp()));
    }
    assert_within(&verdict, 1000);
}

#[test]
fn distances_in_units_do_not_drift_over_many_events() {
    for unit_ns in [1, 1000, 1_000_000] {
        let events = TrackEventConfig::new().timestamp_unit(Duration::from_nanos(unit_ns));
        let (verdict, _) = timed_instants(&events, 20_000);
        assert_within(&verdict, unit_ns);
        let distances = events_of(&verdict).filter(|packet| packet.timestamp_clock_id.is_none());
        assert_eq!(distances.count(), 20_000);
    }
}

#[test]
fn a_time_that_is_given_is_exact_whatever_the_unit() {
    for events in [
        TrackEventConfig::new().timestamp_unit(Duration::from_millis(1)),
        TrackEventConfig::new().disable_incremental_timestamps(),
    ] {
        let given_ns = clock::now_ns() - 1_234_567;
        let verdict = recorded(&events, || {
            instant!("times", "now");
            instant!("times", "given", at: given_ns);
        });
        let given = verdict.events_named("given").next().unwrap();
        assert_eq!(given.timestamp_ns, given_ns);
    }
}

#[test]
fn without_annotations_events_keep_all_but_their_arguments() {
    let events = TrackEventConfig::new().filter_debug_annotations();
    let flow = Flow::new();
    let verdict = recorded(&events, || {
        let _span = span!("filter", "span", secret = "password", flow: &flow);
        instant!("filter", "instant", secret = 42, other = "text");
    });
    assert_eq!(verdict.events.len(), 3);
    assert!(verdict.events.iter().all(|event| event.args.is_empty()));
    let span = verdict.events_named("span").next().unwrap();
    assert_eq!(span.flow_ids.len(), 1);
    let trace = format!("{:?}", events_of(&verdict).collect::<Vec<_>>());
    assert!(!trace.contains("secret") && !trace.contains("password"));
}

#[test]
fn names_that_are_no_literals_can_be_left_out() {
    let events = TrackEventConfig::new().filter_dynamic_event_names();
    let verdict = recorded(&events, || {
        let _span = span!("filter", format!("user {}", 7), number = 7);
        instant!("filter", "literal");
    });
    let names: Vec<_> = verdict
        .events
        .iter()
        .filter_map(|event| event.name.as_deref())
        .collect();
    assert_eq!(names, ["FILTERED", "literal"]);
    assert_eq!(verdict.events[0].args["number"], Value::Int(7));
}

#[test]
fn events_on_the_track_of_their_thread_carry_its_processor_time() {
    let events = TrackEventConfig::new().thread_time_sampling(Duration::ZERO);
    let verdict = recorded(&events, || {
        {
            let _busy = span!("time", "busy");
            work();
        }
        {
            let _idle = span!("time", "idle");
            thread::sleep(Duration::from_millis(20));
        }
        instant!("time", "elsewhere", track: &Track::new("elsewhere"));
        counter!("time", "counter", 1);
        instant!("time", "then", at: clock::now_ns());
    });
    let times: Vec<_> = events_of(&verdict)
        .map(|packet| packet.track_event().extra_counter_values.clone())
        .collect();
    let [busy, busy_end, idle, idle_end, rest @ ..] = times.as_slice() else {
        panic!("two spans: {times:?}");
    };
    assert_eq!((busy.len(), idle.len()), (1, 1));
    assert!(busy_end[0] >= 1_000_000, "{times:?}");
    assert!((0..10_000_000).contains(&idle_end[0]), "{times:?}");
    assert!(
        rest.iter().all(Vec::is_empty),
        "of other tracks or times: {rest:?}"
    );

    let counter = thread_time_track(&verdict);
    assert_eq!(counter.static_name(), "thread_time");
    assert_eq!(counter.parent_uuid(), verdict.events[0].track_uuid);
    assert!(counter.counter.is_incremental());
}

#[test]
fn thread_times_are_in_units_and_read_once_a_period() {
    let events = TrackEventConfig::new()
        .timestamp_unit(Duration::from_micros(1))
        .thread_time_sampling(Duration::from_secs(3600));
    let verdict = recorded(&events, || {
        for _ in 0..10 {
            instant!("time", "sampled");
            work();
        }
    });
    let times: Vec<i64> = events_of(&verdict)
        .flat_map(|packet| packet.track_event().extra_counter_values.clone())
        .collect();
    assert_eq!(times.len(), 10);
    assert!(times[1..].iter().all(|&time| time == 0), "{times:?}");
    assert_eq!(thread_time_track(&verdict).counter.unit_multiplier(), 1000);
}

#[test]
fn a_ring_that_laps_can_be_read_in_every_form() {
    let unit = TrackEventConfig::new().timestamp_unit(Duration::from_nanos(100));
    for events in [
        unit.clone(),
        unit.clone().disable_incremental_timestamps(),
        unit.thread_time_sampling(Duration::from_millis(1)),
    ] {
        let config = config(&events, 64);
        let verdict = recorded_with(config, || {
            for number in 0..20_000 {
                let _span = span!("laps", "span", number = number);
            }
        });
        let spans = verdict.events_named("span").count();
        assert!((100..19_000).contains(&spans), "{spans}");
    }
}

#[test]
fn sessions_at_the_same_time_have_a_form_each_and_keep_it() {
    let _guard = alone();
    let usual = config(&TrackEventConfig::new(), 1024)
        .record_in_memory()
        .unwrap();
    let absolute = TrackEventConfig::new().disable_incremental_timestamps();
    let other = config(&absolute, 1024).record_in_memory().unwrap();
    instant!("forms", "first");
    // Changing the categories does not change the form of timestamps.
    other
        .control()
        .choose_categories(&TrackEventConfig::new())
        .unwrap();
    thread::scope(|scope| {
        scope.spawn(|| instant!("forms", "second"));
    });
    let [usual, other] = [usual, other].map(|session| {
        let trace = session.finish().0;
        judge_with(&trace, &ExtraSchema::new(), Options::default()).unwrap()
    });
    assert_eq!(default_clocks(&other), [BOOTTIME, BOOTTIME]);
    // A set, because events of two threads have no order.
    let times = |verdict: &Verdict| -> BTreeSet<u64> {
        let events = verdict.events.iter();
        events.map(|event| event.timestamp_ns).collect()
    };
    assert_eq!(times(&usual).len(), 2);
    assert_eq!(times(&usual), times(&other));
}

fn config(events: &TrackEventConfig, size_kb: u32) -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(size_kb))
        .add_data_source(DataSourceConfig::new("track_event").track_event(events))
}

fn recorded(events: &TrackEventConfig, record: impl FnOnce()) -> Verdict {
    recorded_with(config(events, 8192), record)
}

fn recorded_with(config: TraceConfig, record: impl FnOnce()) -> Verdict {
    let _guard = alone();
    let session = config.record_in_memory().unwrap();
    record();
    let (trace, _) = session.finish();
    let options = Options {
        allow_unreadable_after_loss: true,
        ..Options::default()
    };
    judge_with(&trace, &ExtraSchema::new(), options).unwrap_or_else(|all| panic!("{all:#?}"))
}

/// Records `count` instants, each with the time just before it as an argument. Returns the verdict,
/// and a range of time in which all instants were recorded.
fn timed_instants(
    events: &TrackEventConfig,
    count: usize,
) -> (Verdict, std::ops::RangeInclusive<u64>) {
    let begin_ns = clock::now_ns();
    let verdict = recorded(events, || {
        for _ in 0..count {
            instant!("times", "timed", not_before_ns = clock::now_ns());
        }
    });
    assert_eq!(verdict.events_named("timed").count(), count);
    (verdict, begin_ns..=clock::now_ns())
}

/// Asserts that each event's timestamp is less than a unit away from the event's true time. The
/// true time lies between the time in the event's argument and the time in the next event's
/// argument.
fn assert_within(verdict: &Verdict, unit_ns: u64) {
    let events: Vec<(u64, u64)> = verdict
        .events_named("timed")
        .map(|event| match event.args["not_before_ns"] {
            Value::Uint(not_before_ns) => (not_before_ns, event.timestamp_ns),
            _ => panic!("{event:?}"),
        })
        .collect();
    for (number, pair) in events.windows(2).enumerate() {
        let [(not_before_ns, timestamp_ns), (not_after_ns, next_ns)] = *pair else {
            panic!("windows of two");
        };
        let place = format!("event {number}: {pair:?}");
        assert!(timestamp_ns + unit_ns > not_before_ns, "{place}");
        assert!(timestamp_ns < not_after_ns + unit_ns, "{place}");
        assert!(timestamp_ns <= next_ns, "{place}");
    }
}

fn events_of(verdict: &Verdict) -> impl Iterator<Item = &TracePacket> {
    verdict
        .packets
        .iter()
        .filter(|packet| packet.has_track_event())
}

/// Returns the default clock of each clear of incremental state.
fn default_clocks(verdict: &Verdict) -> Vec<u32> {
    let defaults = verdict
        .packets
        .iter()
        .filter_map(|packet| packet.trace_packet_defaults.as_ref());
    defaults
        .map(TracePacketDefaults::timestamp_clock_id)
        .collect()
}

fn thread_time_track(verdict: &Verdict) -> &TrackDescriptor {
    let is_thread_time = |track: &&TrackDescriptor| {
        track.counter.type_() == BuiltinCounterType::COUNTER_THREAD_TIME_NS
    };
    let mut tracks = verdict
        .packets
        .iter()
        .filter(|packet| packet.has_track_descriptor());
    tracks
        .find_map(|packet| Some(packet.track_descriptor()).filter(is_thread_time))
        .unwrap()
}

/// Keeps the processor busy for at least a million nanoseconds: no processor counts to ten million
/// faster.
fn work() {
    for number in 0..10_000_000_u64 {
        black_box(number);
    }
}
