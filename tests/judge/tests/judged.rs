//! Sessions of all kinds. The judge checks that each trace obeys the rules of the format, and the
//! tests check that it has exactly the events that were recorded.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use judge::{Event, EventKind, ExtraSchema, Options, Value, Verdict, judge, judge_with};
use perfetto_protos::clock_snapshot::clock_snapshot::Clock;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::trace_stats::trace_stats::BufferStats;
use support::alone;
use tracezero::{
    BufferConfig, DataSource as _, DataSourceConfig, InMemorySession, Report, Session, TraceConfig,
    counter, data_source, instant, span,
};

use self::schema::TracePacketExt as _;

mod schema {
    protozero::include_protos!("render");
}

struct Frames;
data_source!(Frames, "com.example.frames");

#[test]
fn spans_nest_on_every_thread_under_its_name() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let threads: Vec<_> = (1..=4)
        .map(|number| named(format!("nesting-{number}"), || (0..50).for_each(nest_spans)))
        .collect();
    threads.into_iter().for_each(join);
    let (verdict, report) = in_memory(session);

    assert_eq!((report.events, report.losses.total()), (4 * 50 * 5, 0));
    let mut expected = Vec::new();
    for round in 0..50 {
        expected.push(begin("a", "outer", [("depth", 1), ("round", round)]));
        expected.push(begin("b", "inner", [("depth", 2), ("round", round)]));
        expected.push((
            EventKind::Instant,
            text("b"),
            text("point"),
            BTreeMap::new(),
        ));
        expected.push((EventKind::SliceEnd, None, None, BTreeMap::new()));
        expected.push((EventKind::SliceEnd, None, None, BTreeMap::new()));
    }
    for number in 1..=4 {
        let events = of_thread(&verdict, &format!("nesting-{number}"));
        assert_eq!(essence(&events), expected);
        assert!(events.is_sorted_by_key(|event| event.timestamp_ns));
        assert!(
            events
                .iter()
                .all(|event| event.sequence_id == events[0].sequence_id)
        );
    }
    assert_eq!(verdict.open_spans, []);
    assert_eq!(verdict.losses, []);
}

fn nest_spans(round: i32) {
    let _outer = span!("a", "outer", depth = 1, round = round);
    let _inner = span!("b", "inner", depth = 2, round = round);
    instant!("b", "point");
}

#[test]
fn arguments_of_every_type_keep_their_values() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    instant!(
        "args",
        "signed",
        i8 = i8::MIN,
        i16 = i16::MIN,
        i32 = i32::MIN,
        i64 = i64::MIN,
        isize = isize::MAX
    );
    instant!(
        "args",
        "unsigned",
        u8 = u8::MAX,
        u16 = u16::MAX,
        u32 = u32::MAX,
        u64 = u64::MAX,
        usize = usize::MIN
    );
    instant!(
        "args",
        "floats",
        f32 = -0.5_f32,
        f64 = f64::MAX,
        infinite = f64::INFINITY
    );
    let owned = "owned".repeat(1000);
    instant!(
        "args",
        "others",
        yes = true,
        no = false,
        text = "zero \0, umlaut ü",
        empty = "",
        owned = owned,
        borrowed = Cow::Borrowed("cow"),
        by_reference = &&7_u8
    );
    let (verdict, _) = in_memory(session);

    let args = |name| args_of(&verdict, name);
    let (int, uint) = (Value::Int, Value::Uint);
    assert_eq!(
        args("signed"),
        dict([
            ("i8", int(i64::from(i8::MIN))),
            ("i16", int(i64::from(i16::MIN))),
            ("i32", int(i64::from(i32::MIN))),
            ("i64", int(i64::MIN)),
            ("isize", int(i64::MAX)),
        ])
    );
    assert_eq!(
        args("unsigned"),
        dict([
            ("u8", uint(u64::from(u8::MAX))),
            ("u16", uint(u64::from(u16::MAX))),
            ("u32", uint(u64::from(u32::MAX))),
            ("u64", uint(u64::MAX)),
            ("usize", uint(0)),
        ])
    );
    assert_eq!(
        args("floats"),
        dict([
            ("f32", Value::Double(-0.5)),
            ("f64", Value::Double(f64::MAX)),
            ("infinite", Value::Double(f64::INFINITY)),
        ])
    );
    let string = |value: &str| Value::Text(value.to_owned());
    assert_eq!(
        args("others"),
        dict([
            ("yes", Value::Bool(true)),
            ("no", Value::Bool(false)),
            ("text", string("zero \0, umlaut ü")),
            ("empty", string("")),
            ("owned", string(&owned)),
            ("borrowed", string("cow")),
            ("by_reference", uint(7)),
        ])
    );
}

#[test]
fn counters_have_tracks_of_their_own_with_integers_or_floats() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    for value in [3, -4, 0] {
        counter!("count", "whole", value);
    }
    counter!("count", "large", u64::MAX);
    for value in [0.25, -1e300] {
        counter!("count", "broken", value);
    }
    // Writes the same counter on another thread.
    join(named("counting".to_owned(), || {
        counter!("count", "whole", 5);
    }));
    let (verdict, report) = in_memory(session);

    assert_eq!(report.events, 7);
    let values = |track: &str| -> Vec<Value> {
        let events = verdict.events.iter();
        let mut events: Vec<_> = events
            .filter(|event| event.track_name.as_deref() == Some(track))
            .collect();
        // The sequences of the threads have no fixed order in the file.
        events.sort_by_key(|event| event.timestamp_ns);
        events
            .into_iter()
            .map(|event| event.counter.clone().unwrap())
            .collect()
    };
    assert_eq!(values("whole"), [3, -4, 0, 5].map(Value::Int));
    assert_eq!(values("large"), [Value::Double(u64::MAX as f64)]);
    assert_eq!(values("broken"), [0.25, -1e300].map(Value::Double));
    let tracks: BTreeSet<_> = verdict
        .events
        .iter()
        .map(|event| event.track_uuid)
        .collect();
    assert_eq!(tracks.len(), 3, "a counter is one track for all threads");
}

#[test]
fn packets_of_many_chunks_arrive_whole_and_in_order() {
    const PASSES: u64 = 2000;
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let record =
                move || (0..20).for_each(|round| record_frame(thread * 100 + round, PASSES));
            named(format!("rendering-{thread}"), record)
        })
        .collect();
    threads.into_iter().for_each(join);
    let (verdict, report) = in_memory(session);

    assert_eq!((report.data_packets, report.losses.total()), (60, 0));
    assert!(report.bytes > 60 * 50_000, "{report}");
    let mut numbers = Vec::new();
    for custom in &verdict.custom {
        let frame = custom.fields.get("frame").unwrap();
        let number = frame.get("number").and_then(Value::as_u64).unwrap();
        assert_eq!(*frame, expected_frame(number, PASSES));
        numbers.push((custom.sequence_id, number));
    }
    numbers.sort_by_key(|(sequence_id, _)| *sequence_id);
    let mut expected: Vec<u64> = (0..3)
        .flat_map(|thread| (0..20).map(move |round| thread * 100 + round))
        .collect();
    // Sequences are numbered in the order in which the service first reads them.
    expected.sort_by_key(|number| {
        let first = numbers
            .iter()
            .find(|(_, other)| other / 100 == number / 100);
        first.map(|(sequence_id, _)| *sequence_id)
    });
    let numbers: Vec<u64> = numbers.into_iter().map(|(_, number)| number).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn events_of_ended_and_running_threads_are_in_the_trace() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    join(named("short".to_owned(), || instant!("life", "ended")));
    let (idle, release) = idle_after(|| instant!("life", "idle"), || instant!("life", "late"));
    let (verdict, report) = in_memory(session);
    release();
    join(idle);

    assert_eq!((report.events, report.losses.total()), (2, 0));
    assert_eq!(names(&verdict), ["ended", "idle"]);
    assert_eq!(verdict.events[1].thread_name.as_deref(), Some("idle"));
}

#[test]
fn open_span_is_in_its_trace_and_ends_in_no_later_one() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let (opened, is_opened) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let open = named("open".to_owned(), move || {
        let _span = span!("life", "open");
        opened.send(()).unwrap();
        released.recv().unwrap();
    });
    is_opened.recv().unwrap();
    let (trace, _) = session.finish();
    let options = Options {
        allow_open_spans: true,
        ..Options::default()
    };
    let verdict = accept(judge_with(&trace, &extra(), options));
    let open_spans: Vec<_> = verdict
        .open_spans
        .iter()
        .map(|span| span.name.clone())
        .collect();
    assert_eq!(open_spans, [text("open")]);

    let next = InMemorySession::start().unwrap();
    release.send(()).unwrap();
    join(open);
    let (verdict, report) = in_memory(next);
    assert_eq!((report.events, verdict.events.len()), (0, 0));
}

#[test]
fn sessions_one_after_the_other_have_their_own_events_each() {
    let _guard = alone();
    let (to_worker, rounds) = mpsc::channel::<u32>();
    let (done, is_done) = mpsc::channel();
    // A thread that outlives all sessions, and holds a chunk when each of them ends.
    let worker = named("lasting".to_owned(), move || {
        for round in rounds {
            trace_round(round);
            done.send(()).unwrap();
        }
    });
    for round in 0..10 {
        let session = InMemorySession::start().unwrap();
        trace_round(round);
        // In every other session, the worker records nothing.
        let with_worker = round % 2 == 0;
        if with_worker {
            to_worker.send(round).unwrap();
            is_done.recv().unwrap();
        }
        let (verdict, report) = in_memory(session);

        let events = if with_worker { 8 } else { 4 };
        assert_eq!(verdict.events.len(), events, "round {round}");
        assert_eq!((report.events, report.losses.total()), (events as u64, 0));
        for event in verdict.events_named("round") {
            assert_eq!(
                event.args,
                dict([("number", Value::Uint(u64::from(round)))])
            );
        }
        let counts = verdict
            .events
            .iter()
            .filter_map(|event| event.counter.clone());
        assert!(counts.eq(vec![Value::Int(i64::from(round)); events / 4]));
    }
    drop(to_worker);
    join(worker);
}

fn trace_round(round: u32) {
    let _span = span!("round", "round", number = round);
    instant!("round", "within");
    counter!("round", "rounds", round);
}

#[test]
fn sessions_at_the_same_time_record_what_each_is_configured_for() {
    let _guard = alone();
    let for_events = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(256).named("events"))
        .add_data_source(DataSourceConfig::new("track_event").target_name("events"))
        .record_in_memory()
        .unwrap();
    let for_frames = TraceConfig::empty()
        .add_buffer(BufferConfig::discard(64))
        .add_buffer(BufferConfig::ring(1024).named("frames"))
        .add_data_source(DataSourceConfig::new("com.example.frames").target_index(1))
        .record_in_memory()
        .unwrap();
    let for_all = InMemorySession::start().unwrap();
    instant!("at once", "first");
    record_frame(1, 10);
    instant!("at once", "second");
    record_frame(2, 3000);

    let (events, _) = in_memory(for_events);
    assert_eq!(names(&events), ["first", "second"]);
    assert_eq!(events.custom.len(), 0);
    let buffers = &events.trace_config.as_ref().unwrap().buffers;
    assert_eq!((buffers.len(), buffers[0].size_kb()), (1, 256));

    // The other sessions continue.
    instant!("at once", "third");
    let (frames, report) = in_memory(for_frames);
    assert_eq!((frames.events.len(), report.data_packets), (0, 2));
    assert_eq!(frame_numbers(&frames), [1, 2]);
    let stats = frames.trace_stats.as_ref().unwrap();
    let written: Vec<_> = stats
        .buffer_stats
        .iter()
        .map(BufferStats::bytes_written)
        .collect();
    assert!(written[0] == 0 && written[1] > 50_000, "{written:?}");

    let (all, report) = in_memory(for_all);
    assert_eq!(names(&all), ["first", "second", "third"]);
    assert_eq!(frame_numbers(&all), [1, 2]);
    assert_eq!((report.events, report.data_packets), (3, 2));
    assert_eq!(report.losses.total(), 0);
}

#[test]
fn session_started_within_a_span_sees_no_part_of_it() {
    let _guard = alone();
    let early = InMemorySession::start().unwrap();
    let outer = span!("overlap", "outer");
    let late = InMemorySession::start().unwrap();
    drop(span!("overlap", "inner"));
    drop(outer);
    let (late, _) = in_memory(late);
    assert_eq!(names(&late), ["inner"]);
    assert_eq!(late.events.len(), 2);
    let (early, _) = in_memory(early);
    assert_eq!(names(&early), ["outer", "inner"]);
    assert_eq!(early.events.len(), 4);
}

#[test]
fn file_session_writes_what_memory_session_returns() {
    let _guard = alone();
    let path = scratch("streams.pftrace");
    let in_file = Session::record_to_file(&path).unwrap();
    let mirror = InMemorySession::start().unwrap();
    let threads: Vec<_> = (0..2)
        .map(|number| {
            let work = move || {
                for round in 0..5_000_u64 {
                    let _span = span!("stream", "work", round = round);
                    counter!("stream", "round", round);
                }
                record_frame(number, 2000);
            };
            named(format!("streaming-{number}"), work)
        })
        .collect();
    threads.into_iter().for_each(join);
    let report = in_file.finish().unwrap();
    let (mirrored, mirror_report) = in_memory(mirror);

    assert_eq!((report.events, report.data_packets), (2 * 3 * 5_000, 2));
    assert_eq!(report.losses.total(), 0, "{report}");
    assert_eq!(report.path.as_deref(), Some(path.as_path()));
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(report.bytes, bytes.len() as u64);
    let streamed = accept(judge(&bytes, &extra()));
    assert_eq!(
        (report.events, report.data_packets),
        (mirror_report.events, mirror_report.data_packets)
    );
    for number in 0..2 {
        let name = format!("streaming-{number}");
        let events = essence(&of_thread(&streamed, &name));
        assert_eq!(events.len(), 10_000);
        assert!(events == essence(&of_thread(&mirrored, &name)));
    }
    std::fs::remove_file(path).unwrap();
}

/// Field numbers of [`TracePacket`].
const TRACE_PROVENANCE: u32 = 124;
const TRACE_ATTRIBUTES: u32 = 126;
const RECORDING_BOUNDARY: u32 = 1991;

/// In this order: clocks, sync marker, configuration, UUID, begin of the recording, provenance,
/// system info, attributes, lifecycle events; the recorded packets; the statistics, and the end of the
/// recording.
#[test]
fn services_packets_begin_and_end_a_trace() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    instant!("frame", "of main");
    join(named("second".to_owned(), || {
        instant!("frame", "of second");
    }));
    let (verdict, _) = in_memory(session);

    // The service's packets come before and after all others.
    let of_writers = |packet: &TracePacket| packet.trusted_packet_sequence_id() != 1;
    let packets = &verdict.packets;
    let begin = packets.iter().position(of_writers).unwrap();
    let end = packets.iter().rposition(of_writers).unwrap() + 1;
    let (preamble, recorded, epilogue) = (&packets[..begin], &packets[begin..end], &packets[end..]);
    assert!(preamble[0].has_clock_snapshot());
    assert!(preamble[1].has_synchronization_marker());
    assert!(preamble[2].has_trace_config());
    assert!(preamble[3].has_trace_uuid());
    // The published schema does not know the provenance and attributes yet, and never the SDK's own extensions.
    let has_unknown =
        |packet: &TracePacket, field| packet.special_fields.unknown_fields().get(field).is_some();
    assert!(has_unknown(&preamble[4], RECORDING_BOUNDARY));
    assert!(has_unknown(&preamble[5], TRACE_PROVENANCE));
    assert!(preamble[6].has_system_info());
    assert!(has_unknown(&preamble[7], TRACE_ATTRIBUTES));
    let events = &preamble[8..];
    assert!(events[0].service_event().tracing_started());
    assert!(events[1].service_event().all_data_sources_started());
    assert!(events.last().unwrap().service_event().tracing_disabled());
    assert!(epilogue[0].service_event().read_tracing_buffers_completed());
    assert!(epilogue[1].has_trace_stats());
    assert!(has_unknown(&epilogue[2], RECORDING_BOUNDARY));
    assert_eq!(epilogue.len(), 3);
    for packet in preamble.iter().chain(epilogue) {
        assert!(packet.has_trusted_uid());
        if !packet.has_synchronization_marker() {
            assert_eq!(packet.timestamp_clock_id(), 6, "BOOTTIME");
        }
    }
    let clocks = preamble[0].clock_snapshot();
    let ids: Vec<_> = clocks.clocks.iter().map(Clock::clock_id).collect();
    assert_eq!(ids[0], 6, "the trace clock comes first");
    assert_eq!(ids.len(), 6);

    // The sequences of writers get the ids 2, 3, .. in the order in which their first packets are
    // read.
    let mut met = Vec::new();
    for packet in recorded {
        let id = packet.trusted_packet_sequence_id();
        let is_new = !met.contains(&id);
        assert_eq!(packet.first_packet_on_sequence(), is_new);
        // A track belongs to the process of the packet that describes it.
        assert_eq!(
            packet.trusted_pid == Some(std::process::id() as i32),
            is_new || packet.has_track_descriptor()
        );
        if is_new {
            met.push(id);
        }
    }
    assert_eq!(met, [2, 3]);
    assert!(recorded.iter().any(TracePacket::has_track_event));
}

fn named(name: String, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name).spawn(work).unwrap()
}

fn join(thread: JoinHandle<()>) {
    thread.join().unwrap();
}

/// Starts a thread that calls `first`, and calls `then` once the returned function releases it.
fn idle_after(
    first: impl FnOnce() + Send + 'static,
    then: impl FnOnce() + Send + 'static,
) -> (JoinHandle<()>, impl FnOnce()) {
    let (done, is_done) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let idle = named("idle".to_owned(), move || {
        first();
        done.send(()).unwrap();
        released.recv().unwrap();
        then();
    });
    is_done.recv().unwrap();
    (idle, move || release.send(()).unwrap())
}

fn record_frame(number: u64, passes: u64) {
    Frames::trace(|cx| {
        let now = cx.now_ns();
        cx.packet(|packet| {
            packet.set_timestamp(now);
            packet.frame(|frame| {
                frame.set_number(number as u32);
                for pass in 0..passes {
                    frame.add_passes(|out| {
                        out.set_name(&pass_name(number, pass))
                            .set_duration_ns(pass * pass);
                    });
                }
                frame.set_triangles((0..passes).map(|pass| (number * pass) as u32));
            });
        });
    });
}

fn pass_name(number: u64, pass: u64) -> String {
    "x".repeat(((number + pass) % 40) as usize)
}

fn expected_frame(number: u64, passes: u64) -> Value {
    let pass = |pass| {
        Value::Dict(dict([
            ("name", Value::Text(pass_name(number, pass))),
            ("duration_ns", Value::Uint(pass * pass)),
        ]))
    };
    let triangles = (0..passes).map(|pass| Value::Uint(number * pass));
    Value::Dict(dict([
        ("number", Value::Uint(number)),
        ("passes", Value::Array((0..passes).map(pass).collect())),
        ("triangles", Value::Array(triangles.collect())),
    ]))
}

fn extra() -> ExtraSchema {
    ExtraSchema::new().extensions("../../examples/protos/render.proto")
}

fn in_memory(session: InMemorySession) -> (Verdict, Report) {
    let (trace, report) = session.finish();
    assert_eq!(report.bytes, trace.len() as u64);
    assert_eq!(
        report.packets_begun,
        report.packets_read + report.losses.begun_packets()
    );
    (accept(judge(&trace, &extra())), report)
}

fn accept(judged: Result<Verdict, Vec<judge::Problem>>) -> Verdict {
    judged.unwrap_or_else(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"))
    })
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn of_thread<'v>(verdict: &'v Verdict, name: &str) -> Vec<&'v Event> {
    let events = verdict.events.iter();
    events
        .filter(|event| event.thread_name.as_deref() == Some(name))
        .collect()
}

/// The parts of an event that are given at the trace point.
type Essence = (
    EventKind,
    Option<String>,
    Option<String>,
    BTreeMap<String, Value>,
);

fn essence(events: &[&Event]) -> Vec<Essence> {
    let of = |event: &&Event| {
        assert!(event.categories.len() <= 1);
        let category = event.categories.first().cloned();
        (event.kind, category, event.name.clone(), event.args.clone())
    };
    events.iter().map(of).collect()
}

fn begin<const N: usize>(category: &str, name: &str, args: [(&str, i64); N]) -> Essence {
    let args = dict(args.map(|(name, value)| (name, Value::Int(value))));
    (EventKind::SliceBegin, text(category), text(name), args)
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn dict<const N: usize>(entries: [(&str, Value); N]) -> BTreeMap<String, Value> {
    entries
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn args_of(verdict: &Verdict, name: &str) -> BTreeMap<String, Value> {
    let mut events = verdict.events_named(name);
    let args = events.next().unwrap().args.clone();
    assert!(events.next().is_none());
    args
}

fn names(verdict: &Verdict) -> Vec<&str> {
    let events = verdict.events.iter();
    events.filter_map(|event| event.name.as_deref()).collect()
}

fn frame_numbers(verdict: &Verdict) -> Vec<u64> {
    let number = |custom: &judge::Custom| custom.fields.get("frame.number")?.as_u64();
    verdict
        .custom
        .iter()
        .map(|custom| number(custom).unwrap())
        .collect()
}
