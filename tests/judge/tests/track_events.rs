//! All that the macros accept: names, arguments, tracks, flows, times and fields.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::LazyLock;
use std::thread;

use judge::{Event, EventKind, ExtraSchema, Options, Value, Verdict, judge_with};
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::track_descriptor::TrackDescriptor;
use support::alone;
use tracezero::{
    ChildOrder, CounterTrack, Flow, InMemorySession, Track, Unit, begin, clock, counter, dict, end,
    instant, span,
};

use self::http::TrackEventExt as _; // adds `http_request` to an event

mod http {
    protozero::include_protos!("http");
}

/// Records `record` in a session, without other tests, and judges the trace.
fn recorded(record: impl FnOnce()) -> Verdict {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    record();
    let (trace, report) = session.finish();
    let extra = ExtraSchema::new().extensions("../../examples/protos/http.proto");
    let verdict = judge_with(&trace, &extra, Options::default())
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(report.events as usize, verdict.events.len());
    verdict
}

fn event<'a>(verdict: &'a Verdict, name: &'a str) -> &'a Event {
    let mut events = verdict.events_named(name);
    let event = events.next().unwrap_or_else(|| panic!("no event {name}"));
    assert!(events.next().is_none(), "{name} comes twice");
    event
}

fn descriptor(verdict: &Verdict, uuid: u64) -> &TrackDescriptor {
    let mut descriptors = verdict
        .packets
        .iter()
        .filter(|packet| packet.has_track_descriptor())
        .map(TracePacket::track_descriptor)
        .filter(|descriptor| descriptor.uuid() == uuid);
    descriptors.next().unwrap()
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn a_name_may_be_made_while_the_program_runs() {
    let verdict = recorded(|| {
        for number in 1..=2 {
            let _span = span!("names", format!("pass {number}"), number);
            instant!("names", String::from("a\0b"));
        }
        const NAME: &str = "constant";
        instant!("names", NAME);
    });
    assert_eq!(event(&verdict, "pass 1").args["number"], Value::Int(1));
    assert_eq!(event(&verdict, "pass 2").args["number"], Value::Int(2));
    assert_eq!(verdict.events_named("a\0b").count(), 2);
    assert_eq!(event(&verdict, "constant").categories, ["names"]);
}

#[test]
fn arguments_are_written_as_they_are_or_as_text() {
    let verdict = recorded(|| {
        let (path, error) = (Path::new("dir/a"), std::io::Error::other("broken"));
        let missing: Option<u8> = None;
        let array = [[1, 2], [3, 4]];
        instant!(
            "args",
            "all",
            path,
            %error,
            ?array,
            text = %format_args!("{}-{}", 1, 2),
            debug = ?Some("x"),
            "with space" = 'ü',
            wide = u128::MAX,
            some = Some(7_u8),
            missing,
            type = 1,
        );
        let by_name: BTreeMap<_, _> = [("one", 1), ("two", 2)].into();
        let nested = dict(|outer| {
            outer.add("list", &vec!["a", "b"]);
            outer.add(
                "inner",
                &dict(|inner| {
                    inner.add("yes", &true);
                }),
            );
        });
        instant!(
            "args",
            "structured",
            array,
            by_name,
            nested,
            empty = HashMap::<String, u8>::new()
        );
        instant!(
            "args",
            "address",
            at = std::ptr::without_provenance::<u8>(0x1234)
        );
    });
    let args = &event(&verdict, "all").args;
    assert_eq!(args["path"], text("dir/a"));
    assert_eq!(args["error"], text("broken"));
    assert_eq!(args["array"], text("[[1, 2], [3, 4]]"));
    assert_eq!(args["text"], text("1-2"));
    assert_eq!(args["debug"], text("Some(\"x\")"));
    assert_eq!(args["with space"], text("ü"));
    assert_eq!(args["wide"], text(&u128::MAX.to_string()));
    assert_eq!(args["some"], Value::Uint(7));
    assert_eq!(args["type"], Value::Int(1));
    assert!(args.contains_key("missing"));

    let args = &event(&verdict, "structured").args;
    let pair = |a, b| Value::Array(vec![Value::Int(a), Value::Int(b)]);
    assert_eq!(args["array"], Value::Array(vec![pair(1, 2), pair(3, 4)]));
    assert_eq!(args["by_name"].get("two"), Some(&Value::Int(2)));
    let nested = &args["nested"];
    let list = Value::Array(vec![text("a"), text("b")]);
    assert_eq!(nested.get("list"), Some(&list));
    let inner = nested.get("inner").unwrap();
    assert_eq!(inner.get("yes"), Some(&Value::Bool(true)));
    assert_eq!(event(&verdict, "address").args["at"].as_u64(), Some(0x1234));
}

#[test]
fn formatted_text_may_be_longer_than_a_chunk() {
    let long = "long ".repeat(10_000);
    let verdict = recorded(|| {
        instant!("args", "short", text = %"", after = 1);
        instant!("args", "long", text = %long, after = 2);
    });
    assert_eq!(event(&verdict, "short").args["text"], text(""));
    assert_eq!(event(&verdict, "long").args["text"], text(&long));
    assert_eq!(event(&verdict, "long").args["after"], Value::Int(2));
}

#[test]
fn arguments_are_evaluated_once_only_while_recording() {
    let mut evaluated = 0;
    let mut record = || {
        instant!(
            "lazy",
            "event",
            value = {
                evaluated += 1;
                evaluated
            }
        );
    };
    {
        let _guard = alone();
        record();
        let first = InMemorySession::start().unwrap();
        let second = InMemorySession::start().unwrap();
        record();
        drop((first, second));
    }
    assert_eq!(evaluated, 1);
}

#[test]
fn slices_that_begin_and_end_in_different_places_nest() {
    let verdict = recorded(|| {
        end!("slices"); // no slice is open: nothing is recorded
        begin!("slices", "outer", number = 1);
        begin!("slices", String::from("inner"));
        end!("slices", result = "fine");
        end!("slices");
    });
    let kinds: Vec<_> = verdict.events.iter().map(|event| event.kind).collect();
    let (begin, end) = (EventKind::SliceBegin, EventKind::SliceEnd);
    assert_eq!(kinds, [begin, begin, end, end]);
    assert_eq!(verdict.events[2].args["result"], text("fine"));
    assert!(verdict.open_spans.is_empty());
}

#[test]
fn a_span_ends_with_what_is_known_by_then() {
    let track = Track::new("elsewhere");
    let verdict = recorded(|| {
        let outer = span!("results", "outer");
        let inner = span!("results", "inner", number = 1);
        end!(inner, bytes = 1234_u64, state = ?Some("done"));
        let at_ns = clock::now_ns();
        end!(span!("results", "earlier", at: at_ns), at: at_ns + 5, delay = "none");
        let elsewhere = span!("results", "elsewhere", track: &track);
        let ended = thread::spawn(move || end!(elsewhere, result = "fine")).join();
        assert!(ended.is_ok());
        end!(outer);
    });
    let is_end = |event: &&Event| event.kind == EventKind::SliceEnd;
    let end_with = |arg: &str| {
        let mut ends = verdict.events.iter().filter(is_end);
        ends.find(|end| end.args.contains_key(arg)).unwrap()
    };
    assert_eq!(verdict.events.iter().filter(is_end).count(), 4);
    let inner = end_with("bytes");
    assert_eq!(inner.args["bytes"], Value::Uint(1234));
    assert_eq!(inner.args["state"], text("Some(\"done\")"));
    assert!(inner.categories.is_empty());
    let (earlier, began) = (end_with("delay"), event(&verdict, "earlier"));
    assert_eq!(earlier.timestamp_ns, began.timestamp_ns + 5);
    let (elsewhere, began) = (end_with("result"), event(&verdict, "elsewhere"));
    assert_eq!(elsewhere.track_uuid, began.track_uuid);
    assert!(verdict.open_spans.is_empty());
}

#[test]
fn a_span_that_ends_around_others_keeps_its_arguments() {
    let verdict = recorded(|| {
        let outer = span!("results", "outer");
        let _inner = span!("results", "inner");
        end!(outer, result = "fine");
    });
    let with_result = verdict
        .events
        .iter()
        .filter(|event| event.args.contains_key("result"));
    assert_eq!(with_result.count(), 1);
    // "inner" continues as a second piece.
    assert_eq!(verdict.events_named("inner").count(), 2);
    assert!(verdict.open_spans.is_empty());
}

/// A value whose formatting panics.
struct Panics;

impl std::fmt::Display for Panics {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("as expected")
    }
}

fn assert_panics(end: impl FnOnce()) {
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(end)).is_err());
}

/// Returns the names of the slice events by time; ends have none.
fn outline(verdict: &Verdict) -> Vec<&str> {
    let events = verdict.events.iter();
    events
        .map(|event| match event.kind {
            EventKind::SliceBegin => event.name.as_deref().unwrap_or_default(),
            _ => "",
        })
        .collect()
}

#[test]
fn span_ends_in_every_session_if_formatting_panics() {
    let _guard = alone();
    let sessions = [(); 2].map(|()| InMemorySession::start().unwrap());
    let span = span!("results", "span");
    assert_panics(|| end!(span, result = %Panics));
    begin!("results", "by hand");
    assert_panics(|| end!("results", result = %Panics));
    drop(span!("results", "next"));
    for session in sessions {
        let (trace, _) = session.finish();
        let verdict = judge_with(&trace, &ExtraSchema::new(), Options::default()).unwrap();
        assert_eq!(outline(&verdict), ["span", "", "by hand", "", "next", ""]);
    }
}

#[test]
fn spans_inside_of_one_whose_result_panics_go_on() {
    let track = Track::new("elsewhere");
    let verdict = recorded(|| {
        let root = span!("results", "root");
        let outer = span!("results", "outer");
        let inner = span!("results", "inner");
        assert_panics(|| end!(outer, result = %Panics));
        drop((inner, root));
    });
    let around = ["root", "outer", "inner", "", "", "inner", "", ""];
    assert_eq!(outline(&verdict), around);
    let verdict = recorded(|| {
        let root = span!("results", "root", track: &track);
        let outer = span!("results", "outer", track: &track);
        let inner = span!("results", "inner", track: &track);
        assert_panics(|| end!(outer, result = %Panics));
        drop((inner, root));
    });
    assert_eq!(outline(&verdict), around);
}

#[test]
fn arguments_of_an_end_are_evaluated_for_recorded_spans_alone() {
    let mut made = 0;
    let mut make = || {
        made += 1;
        made
    };
    let _guard = alone();
    let unseen = span!("results", "unseen");
    let session = InMemorySession::start().unwrap();
    end!(unseen, result = make());
    let seen = span!("results", "seen");
    end!(seen, result = make());
    assert_eq!(made, 1);
    assert_eq!(session.finish().1.events, 2);
}

#[test]
fn an_event_belongs_to_all_categories_of_its_group() {
    let verdict = recorded(|| instant!("io, slow,io.cache", "grouped"));
    let categories = &event(&verdict, "grouped").categories;
    assert_eq!(categories, &["io", "slow", "io.cache"]);
}

#[test]
fn track_descriptors_have_parents_and_child_order() {
    let gpu = Track::new("GPU")
        .children(ChildOrder::Explicit)
        .description("what the GPU does");
    let queue = gpu.numbered_child("queue", 7).rank(2);
    let verdict = recorded(|| {
        instant!("tracks", "on queue", track: &queue);
        instant!("tracks", "on process", track: &Track::process());
        instant!("tracks", "on thread", track: &Track::current_thread());
        instant!("tracks", "by default");
        instant!("tracks", "global", track: &Track::global("weather"));
    });
    let on_queue = event(&verdict, "on queue");
    assert_eq!(on_queue.track_uuid, queue.uuid());
    assert_eq!(on_queue.track_name.as_deref(), Some("queue"));
    let described = descriptor(&verdict, queue.uuid());
    assert_eq!(described.parent_uuid(), gpu.uuid());
    assert_eq!(described.sibling_order_rank(), 2);
    let described = descriptor(&verdict, gpu.uuid());
    assert_eq!(described.parent_uuid(), Track::process().uuid());
    assert!(described.child_ordering.is_some());
    let uuid = |name| event(&verdict, name).track_uuid;
    assert_eq!(uuid("on process"), Track::process().uuid());
    assert_eq!(uuid("on thread"), uuid("by default"));
    let global = descriptor(&verdict, uuid("global"));
    assert_eq!(
        (global.parent_uuid.is_none(), global.static_name()),
        (true, "weather")
    );
}

#[test]
fn overlapping_slices_have_own_tracks_and_any_thread_ends_them() {
    let verdict = recorded(|| {
        let spans: Vec<_> = (0..10)
            .map(|number| span!("async", "request", number, track: &Track::unique("request")))
            .collect();
        thread::scope(|scope| {
            for span in spans {
                scope.spawn(move || drop(span));
            }
        });
    });
    let begins: Vec<_> = verdict.events_named("request").collect();
    assert_eq!(begins.len(), 10);
    for begin in begins {
        let on_track = |event: &&Event| event.track_uuid == begin.track_uuid;
        let events: Vec<_> = verdict.events.iter().filter(on_track).collect();
        assert_eq!(events.len(), 2);
        let end = events
            .iter()
            .find(|event| event.kind == EventKind::SliceEnd);
        assert_ne!(end.unwrap().sequence_id, begin.sequence_id);
        assert!(end.unwrap().timestamp_ns >= begin.timestamp_ns);
    }
}

#[test]
fn flows_join_the_events_that_name_them() {
    let (flow, other) = (Flow::new(), Flow::for_process(17));
    let verdict = recorded(|| {
        instant!("flows", "first", flow: &flow, flow: &other);
        let _span = span!("flows", "then", number = 1, flow: &flow);
        instant!("flows", "last", last_flow: &flow, last_flow: &Flow::for_process(17));
    });
    assert_eq!(event(&verdict, "first").flow_ids, [flow.id(), other.id()]);
    assert_eq!(event(&verdict, "then").flow_ids, [flow.id()]);
    let last = event(&verdict, "last");
    assert_eq!(last.terminating_flow_ids, [flow.id(), other.id()]);
    assert_ne!(flow, Flow::new());
}

#[test]
fn a_time_that_is_given_is_kept_and_leaves_the_others_alone() {
    let now_ns = clock::now_ns();
    let verdict = recorded(|| {
        instant!("times", "before");
        instant!("times", "given", at: now_ns - 1_000_000);
        instant!("times", "future", at: now_ns + 60_000_000_000);
        counter!("times", "given", 3, at: now_ns - 5);
        let span = span!("times", "span", at: now_ns + 10, size = 3);
        span.end_at(now_ns + 20);
        instant!("times", "after");
    });
    let at = |name| event(&verdict, name).timestamp_ns;
    assert_eq!(at("given"), now_ns - 1_000_000);
    assert_eq!(at("future"), now_ns + 60_000_000_000);
    assert_eq!(at("span"), now_ns + 10);
    let ends = |event: &&Event| event.kind == EventKind::SliceEnd;
    let end = verdict.events.iter().find(ends).unwrap();
    assert_eq!(end.timestamp_ns, now_ns + 20);
    let counters = |event: &&Event| event.kind == EventKind::Counter;
    let counter = verdict.events.iter().find(counters).unwrap();
    assert_eq!(counter.timestamp_ns, now_ns - 5);
    assert!(now_ns <= at("before") && at("before") <= at("after"));
    assert!(at("after") < now_ns + 30_000_000_000);
}

#[test]
fn counters_have_units_and_parents() {
    static HEAP: LazyLock<CounterTrack> = LazyLock::new(|| {
        CounterTrack::under(&Track::new("memory"), "heap")
            .unit(Unit::Bytes)
            .multiplier(1024)
            .rank(3)
    });
    let speed = CounterTrack::new(format!("speed of {}", "disk")).unit(Unit::Named("MB/s".into()));
    let verdict = recorded(|| {
        counter!("memory", &HEAP, 12);
        counter!("disk", &speed, 0.5);
    });
    let heap = descriptor(&verdict, HEAP.track().uuid());
    assert_eq!(heap.parent_uuid(), Track::new("memory").uuid());
    assert_eq!(heap.counter.unit_multiplier(), 1024);
    assert_eq!(heap.sibling_order_rank(), 3);
    let speed = descriptor(&verdict, speed.track().uuid());
    assert_eq!(
        (speed.name(), speed.counter.unit_name()),
        ("speed of disk", "MB/s")
    );
    let values: Vec<_> = verdict
        .events
        .iter()
        .map(|event| event.counter.clone())
        .collect();
    assert_eq!(values, [Some(Value::Int(12)), Some(Value::Double(0.5))]);
}

#[test]
fn fields_of_a_schema_of_ones_own_are_on_the_event() {
    let verdict = recorded(|| {
        let status = 404;
        instant!("http", "request", path = "/", fields: |event| {
            event.http_request(|request| {
                request.set_method("GET").set_status(status);
                request.add_header_names("accept");
            });
        });
    });
    let [custom] = &verdict.custom[..] else {
        panic!("{:?}", verdict.custom)
    };
    assert_eq!(custom.extended, "perfetto.protos.TrackEvent");
    let request = custom.fields.get("http_request").unwrap();
    assert_eq!(request.get("status").and_then(Value::as_u64), Some(404));
    assert_eq!(event(&verdict, "request").args["path"], text("/"));
}

#[test]
fn more_tracks_than_a_sequence_remembers_are_all_described() {
    let verdict = recorded(|| {
        for number in 0..5000 {
            drop(span!("many", "short", track: &Track::new("many").numbered_child("n", number)));
        }
    });
    assert_eq!(verdict.events_named("short").count(), 5000);
}
