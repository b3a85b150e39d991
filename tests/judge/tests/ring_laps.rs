//! A ring that has lapped, so that its oldest chunks were overwritten. The rest is readable by
//! itself, with all names, categories, tracks and flows that it needs.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;
use std::thread;

use judge::{Event, ExtraSchema, Options, Value, Verdict, judge_with};
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::track_descriptor::TrackDescriptor;
use support::alone;
use tracezero::{
    BufferConfig, CounterTrack, DataSourceConfig, Flow, Report, TraceConfig, Track, counter,
    instant, span,
};

#[test]
fn newest_events_of_a_ring_are_readable_after_any_laps() {
    const EVENTS: i64 = 100_000;
    let (verdict, report) = recorded(&[64], || {
        for number in 0..EVENTS {
            instant!("test", "numbered", number = number);
            counter!("test", "count", number);
        }
    });
    let numbers: Vec<_> = verdict.events_named("numbered").map(number).collect();
    assert_most_readable(&verdict, &report);
    let first = EVENTS - numbers.len() as i64;
    assert_eq!(numbers, Vec::from_iter(first..EVENTS));
}

#[test]
fn all_forms_of_events_are_readable_in_what_is_left() {
    for size_kb in [64, 256, 1024] {
        let (verdict, report) = recorded(&[size_kb], || (0..laps(size_kb)).for_each(record));
        assert_most_readable(&verdict, &report);
        assert_eq!(check_rounds(&verdict, laps(size_kb)), 1, "{size_kb} KiB");
    }
}

/// Each ring holds two chunks or more. The newest chunk alone might have only a few bytes.
#[test]
fn a_ring_of_a_few_chunks_has_its_newest_chunks_readable() {
    for size_kb in [8, 12, 16, 32] {
        let (verdict, report) = recorded(&[size_kb], || (0..2_000).for_each(record));
        assert_eq!(check_rounds(&verdict, 2_000), 1, "{size_kb} KiB");
        assert!(
            verdict.events.len() as u64 * 2 >= report.events,
            "{size_kb} KiB: {} of {} events are readable",
            verdict.events.len(),
            report.events
        );
    }
}

#[test]
fn every_thread_defines_what_its_events_build_on() {
    const THREADS: usize = 4;
    for size_kb in [256, 1024] {
        let rounds = laps(size_kb) / THREADS as i64;
        let (verdict, report) = recorded(&[size_kb], || {
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    let worker = thread::Builder::new().name("worker".to_owned());
                    let work = || (0..rounds).for_each(record);
                    worker.spawn_scoped(scope, work).unwrap();
                }
            });
        });
        assert_most_readable(&verdict, &report);
        // The events of a thread that ended much earlier than the others are overwritten.
        assert!(check_rounds(&verdict, rounds) >= 1, "{size_kb} KiB");
        let workers = verdict.events_named("outer").map(|it| &it.thread_name);
        assert!(workers.flatten().all(|name| name == "worker"));
    }
}

#[test]
fn every_buffer_has_what_its_events_build_on() {
    let (verdict, report) = recorded(&[32, 1024], || (0..laps(1024)).for_each(record));
    assert_most_readable(&verdict, &report);
    assert_eq!(check_rounds(&verdict, laps(1024)), 2);
}

/// Returns the number of rounds after which a ring of this size has lapped about three times. A
/// round takes about 300 bytes.
fn laps(size_kb: u32) -> i64 {
    i64::from(size_kb) * 10
}

static DRAW: LazyLock<Track> = LazyLock::new(|| Track::new("GPU").child("draw"));
static BYTES: LazyLock<CounterTrack> = LazyLock::new(|| CounterTrack::under(&DRAW, "bytes"));

/// Records one event of each form, with the number of the round.
fn record(number: i64) {
    let flow = Flow::new();
    let request = Track::new("requests").unique_child("request");
    let _outer = span!("rounds, a,b.c", "outer", number, text = "some text");
    instant!("rounds", format!("pass {number}"), number);
    let _frame = span!("gpu", "frame", number, track: &DRAW);
    let _request = span!("net", "request", number, track: &request, flow: &flow);
    counter!("gpu", &BYTES, number);
    counter!("gpu", "rounds", number);
    instant!("net", "answer", number, last_flow: &flow);
}

/// Checks that the rounds of each sequence continue to the last of `rounds`, and that nothing is
/// missing from their events. Returns the number of sequences.
fn check_rounds(verdict: &Verdict, rounds: i64) -> usize {
    let tracks = Tracks::of(verdict);
    // Checks only sequences that still have an event `outer`, the first one of a round. In the
    // others, even the begin of the last round is overwritten.
    let outers = verdict.events_named("outer");
    let sequences: BTreeSet<_> = outers.map(|event| event.sequence_id).collect();
    for &sequence in &sequences {
        let named = |name: &'static str| {
            let of_sequence = |event: &&Event| event.sequence_id == sequence;
            // Threads share the track of frames. If one slice ends while another is open inside it,
            // the other continues as a further piece, without arguments.
            let is_first_piece = |event: &&Event| event.args.contains_key("number");
            let events = verdict.events_named(name).filter(of_sequence);
            let events = events.filter(is_first_piece);
            let by_number: BTreeMap<_, _> = events.map(|event| (number(event), event)).collect();
            let first = rounds - by_number.len() as i64;
            assert!(!by_number.is_empty(), "{name}");
            assert!(by_number.keys().copied().eq(first..rounds), "{name}");
            by_number
        };
        for outer in named("outer").values() {
            assert_eq!(outer.categories, ["rounds", "a", "b.c"]);
            assert_eq!(outer.args["text"], Value::Text("some text".to_owned()));
            assert!(outer.thread_name.is_some());
        }
        for frame in named("frame").values() {
            assert_eq!(tracks.path(frame), ["GPU", "draw"]);
        }
        let answers = named("answer");
        for (number, request) in named("request") {
            assert_eq!(tracks.path(request), ["requests", "request"]);
            let answer = answers[&number];
            assert_eq!(request.flow_ids, answer.terminating_flow_ids);
        }
        check_others(verdict, &tracks, sequence, rounds);
    }
    sequences.len()
}

/// Checks the events with dynamic names, and the counters.
fn check_others(verdict: &Verdict, tracks: &Tracks<'_>, sequence: u32, rounds: i64) {
    let mut values = HashMap::<_, Vec<_>>::new();
    for event in &verdict.events {
        if event.sequence_id != sequence {
            continue;
        }
        if let Some(name) = &event.name
            && name.starts_with("pass")
        {
            assert_eq!(*name, format!("pass {}", number(event)));
            values.entry(vec!["pass"]).or_default().push(number(event));
        } else if let Some(value) = &event.counter {
            let path = tracks.path(event);
            values
                .entry(path)
                .or_default()
                .push(value.as_i64().unwrap());
        }
    }
    for path in [vec!["pass"], vec!["GPU", "draw", "bytes"], vec!["rounds"]] {
        let values = values.remove(&path).unwrap_or_else(|| panic!("{path:?}"));
        let first = rounds - values.len() as i64;
        assert!(values.into_iter().eq(first..rounds), "{path:?}");
    }
    assert!(values.is_empty(), "{:?}", values.keys());
}

fn number(event: &Event) -> i64 {
    event.args["number"].as_i64().unwrap()
}

/// The descriptors that are left in a trace.
struct Tracks<'v>(HashMap<u64, &'v TrackDescriptor>);

impl<'v> Tracks<'v> {
    fn of(verdict: &'v Verdict) -> Self {
        let packets = verdict.packets.iter();
        let described = packets.filter(|packet| packet.has_track_descriptor());
        Self(
            described
                .map(TracePacket::track_descriptor)
                .map(|descriptor| (descriptor.uuid(), descriptor))
                .collect(),
        )
    }

    /// Returns the names of an event's track and of its parents, below the process.
    fn path(&self, event: &Event) -> Vec<&'v str> {
        let mut names = Vec::new();
        let mut descriptor = self.0[&event.track_uuid];
        while descriptor.process.is_none() {
            names.insert(
                0,
                match descriptor.has_static_name() {
                    true => descriptor.static_name(),
                    false => descriptor.name(),
                },
            );
            descriptor = self.0[&descriptor.parent_uuid()];
        }
        names
    }
}

/// Records into rings of these sizes, each of which gets all events and laps, and judges the rest.
fn recorded(sizes_kb: &[u32], record: impl FnOnce()) -> (Verdict, Report) {
    let _guard = alone();
    let mut config = TraceConfig::empty();
    for size_kb in sizes_kb {
        let name = format!("{size_kb} KiB");
        config = config
            .add_buffer(BufferConfig::ring(*size_kb).named(&name))
            .add_data_source(DataSourceConfig::new("track_event").target_name(&name));
    }
    let session = config.record_in_memory().unwrap();
    record();
    let (trace, report) = session.finish();
    let overwritten = report
        .sequences
        .iter()
        .filter(|it| it.overwritten > 0)
        .count();
    assert!(overwritten >= sizes_kb.len(), "{report:#}");

    let options = Options {
        allow_unreadable_after_loss: true,
        // If a thread ends its slice on a track that other threads use, it begins their open slices
        // anew, as further pieces. The ends of these pieces may be overwritten before the begins,
        // if their chunks were committed earlier.
        allow_open_spans: report.sequences.len() > sizes_kb.len(),
        ..Options::default()
    };
    let verdict = judge_with(&trace, &ExtraSchema::new(), options)
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    (verdict, report)
}

/// Asserts that at most the oldest quarter of the events cannot be read.
fn assert_most_readable(verdict: &Verdict, report: &Report) {
    assert!(
        verdict.events.len() as u64 >= report.events * 7 / 10,
        "{} of {} events are readable",
        verdict.events.len(),
        report.events
    );
}
