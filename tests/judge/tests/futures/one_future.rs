//! One future in one session: how it can end, and the events that it records.

use std::cell::Cell;
use std::fmt;
use std::future::{self, Future};
use std::panic::{self, AssertUnwindSafe};
use std::task::Poll;

use judge::{EventKind, Value, async_span_named, async_spans_named, slices};
use perfetto_protos::trace_packet::TracePacket;
use tracezero::{EndingSpan, Flow, TraceFuture as _, Track, async_span, end, instant, span};

use crate::executor::{Task, on, pause};
use crate::recording::recorded;

async fn pauses(count: u32) -> u32 {
    for _ in 0..count {
        pause().await;
    }
    count
}

#[test]
fn future_is_one_slice_and_a_slice_per_poll() {
    let verdict = recorded(|| {
        let mut task = Task::new(pauses(3).traced(async_span!("test", "fetch")));
        assert!(task.poll_on("one").is_pending());
        assert!(task.poll_on("two").is_pending());
        assert!(task.poll_on("two").is_pending());
        assert_eq!(task.poll_on("three"), Poll::Ready(3));
    });
    let fetch = async_span_named(&verdict, "fetch");
    assert_eq!(fetch.threads(), ["one", "two", "two", "three"]);
    assert_eq!(fetch.slice.begin.track_name.as_deref(), Some("fetch"));
    assert_eq!(fetch.slice.begin.categories, ["test"]);
    assert!(fetch.slice.end_args().is_empty());
    assert_eq!(slices(&verdict).len(), 5);
}

#[test]
fn future_begins_at_its_first_poll() {
    let verdict = recorded(|| {
        let task = Task::new(pauses(0).traced(async_span!("test", "fetch")));
        instant!("test", "made");
        task.run();
    });
    let made = verdict.events_named("made").next().unwrap();
    let fetch = async_span_named(&verdict, "fetch");
    assert!(made.timestamp_ns <= fetch.slice.begin.timestamp_ns);
}

#[test]
fn a_future_that_is_never_polled_leaves_nothing() {
    let verdict = recorded(|| drop(Task::new(pauses(1).traced(async_span!("test", "fetch")))));
    assert!(verdict.events.is_empty(), "{verdict:?}");
}

#[test]
fn dropped_future_ends_as_cancelled() {
    let verdict = recorded(|| {
        let mut task = Task::new(pauses(2).traced(async_span!("test", "fetch", url = "/a")));
        assert!(task.poll_on("one").is_pending());
        on("two", || drop(task));
    });
    let fetch = async_span_named(&verdict, "fetch");
    assert_eq!(fetch.threads(), ["one"]);
    let end = fetch.slice.end.unwrap();
    assert_eq!(end.args["cancelled"], Value::Bool(true));
    assert_ne!(end.sequence_id, fetch.slice.begin.sequence_id);
}

#[test]
fn spans_held_by_dropped_future_end_before_it() {
    let verdict = recorded(|| {
        let inner = pauses(2).traced(async_span!("test", "inner"));
        let mut task = Task::new(inner.traced(async_span!("test", "outer")));
        assert!(task.poll().is_pending());
    });
    let (outer, inner) = (
        async_span_named(&verdict, "outer"),
        async_span_named(&verdict, "inner"),
    );
    assert!(outer.slice.contains(&inner.slice), "{outer:?} {inner:?}");
    assert_eq!(inner.slice.end_args(), ["cancelled"]);
}

#[test]
fn panicking_poll_ends_and_dropped_future_ends_as_panicked() {
    let verdict = recorded(|| {
        let failing = async {
            pause().await;
            let _span = span!("test", "inside");
            panic::resume_unwind(Box::new("on purpose"))
        };
        let mut task = Task::<()>::new(failing.traced(async_span!("test", "fetch")));
        assert!(task.poll().is_pending());
        assert!(panic::catch_unwind(AssertUnwindSafe(|| task.poll())).is_err());
        instant!("test", "caught");
        drop(task);
    });
    let fetch = async_span_named(&verdict, "fetch");
    let caught = verdict.events_named("caught").next().unwrap();
    let ends_ns = fetch
        .polls
        .iter()
        .map(|poll| poll.end.as_ref().unwrap().timestamp_ns);
    assert!(ends_ns.max().unwrap() <= caught.timestamp_ns);
    assert!(caught.timestamp_ns <= fetch.slice.end.as_ref().unwrap().timestamp_ns);
    assert_eq!(fetch.slice.end_args(), ["panicked"]);
}

#[test]
fn end_arguments_are_on_the_end_of_the_span() {
    let verdict = recorded(|| {
        let fetch = pauses(2).traced(async_span!("test", "fetch", url = "/a"));
        Task::new(fetch.end_with(|count, span| end!(span, count, twice = count * 2))).run();
        let plain = pauses(0).traced(async_span!("test", "plain"));
        Task::new(plain.end_with(|_, _| {})).run();
    });
    let fetch = async_span_named(&verdict, "fetch");
    assert_eq!(fetch.slice.end_args(), ["count", "twice"]);
    assert_eq!(fetch.slice.end.unwrap().args["twice"], Value::Uint(4));
    assert!(fetch.polls.iter().all(|poll| poll.end_args().is_empty()));
    assert!(
        async_span_named(&verdict, "plain")
            .slice
            .end_args()
            .is_empty()
    );
}

#[test]
fn panic_while_ending_a_future_still_leaves_an_end() {
    let verdict = recorded(|| {
        let panics = |_: &u32, _: EndingSpan<'_>| panic::resume_unwind(Box::new("on purpose"));
        let before = pauses(0)
            .traced(async_span!("test", "before"))
            .end_with(panics);
        let during = pauses(0).traced(async_span!("test", "during"));
        let during = during.end_with(|_, span| end!(span, count = 1, text = %Panics));
        let run = |mut task: Task<u32>| panic::catch_unwind(AssertUnwindSafe(|| task.poll()));
        assert!(run(Task::new(before)).is_err());
        assert!(run(Task::new(during)).is_err());
    });
    assert_eq!(
        async_span_named(&verdict, "before").slice.end_args(),
        ["panicked"]
    );
    let during = async_span_named(&verdict, "during").slice.end.unwrap();
    assert_eq!(during.args["count"], Value::Int(1));
}

/// A value whose formatting panics.
struct Panics;

impl fmt::Display for Panics {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic::resume_unwind(Box::new("on purpose"))
    }
}

#[test]
fn unfinished_future_is_an_open_slice_with_ended_polls() {
    let mut task = Task::new(future::pending::<()>().traced(async_span!("test", "fetch")));
    let verdict = recorded(|| {
        assert!(task.poll_on("one").is_pending());
        assert!(task.poll_on("two").is_pending());
    });
    let fetch = async_span_named(&verdict, "fetch");
    assert!(fetch.slice.end.is_none());
    assert!(fetch.polls.iter().all(|poll| poll.end.is_some()));
    assert_eq!(verdict.open_spans.len(), 1);
}

#[test]
fn spans_inside_of_a_future_lie_within_its_polls() {
    let verdict = recorded(|| {
        let work = async {
            drop(span!("test", "before"));
            pause().await;
            drop(span!("test", "after"));
        };
        let mut task = Task::new(work.traced(async_span!("test", "fetch")));
        assert!(task.poll_on("one").is_pending());
        assert!(task.poll_on("two").is_ready());
    });
    let polls = async_span_named(&verdict, "fetch").polls;
    for (name, poll) in ["before", "after"].into_iter().zip(&polls) {
        let slices = slices(&verdict);
        let mut inside = slices.iter();
        let inside = inside.find(|slice| slice.begin.name.as_deref() == Some(name));
        assert!(poll.contains(inside.unwrap()), "{name}");
        assert_eq!(inside.unwrap().begin.track_uuid, poll.begin.track_uuid);
    }
}

#[test]
fn span_has_macro_arguments_and_future_borrows_none() {
    fn task(url: &str, cause: &Flow, parent: &Track) -> Task<u32> {
        let error = std::io::Error::other("no luck");
        Task::new(pauses(1).traced(async_span!(
            "http",
            "fetch",
            url,
            %error,
            attempt = 3,
            flow: cause,
            track: parent,
            fields: |event| {
                event.source_location(|location| {
                    location.set_line_number(7);
                });
            },
        )))
    }
    let (cause, parent) = (Flow::new(), Track::new("connection"));
    let verdict = recorded(|| {
        assert_eq!(task(&String::from("/a"), &cause, &parent).run(), 1);
    });
    let fetch = async_span_named(&verdict, "fetch");
    let begin = &fetch.slice.begin;
    assert_eq!(begin.args["url"], Value::Text("/a".to_owned()));
    assert_eq!(begin.args["error"], Value::Text("no luck".to_owned()));
    assert_eq!(begin.args["attempt"], Value::Int(3));
    assert_eq!(begin.flow_ids.len(), 2);
    assert_eq!(begin.flow_ids[0], cause.id());
    assert_eq!(begin.source_location.as_ref().unwrap().line_number(), 7);
    assert!(fetch.polls.iter().all(|poll| poll.begin.args.is_empty()));
    let descriptor = verdict
        .packets
        .iter()
        .map(TracePacket::track_descriptor)
        .find(|descriptor| descriptor.uuid() == begin.track_uuid);
    assert_eq!(descriptor.unwrap().parent_uuid(), parent.uuid());
}

#[test]
fn future_name_may_be_made_at_run_time() {
    let verdict = recorded(|| {
        for number in 1..=2 {
            let span = async_span!("test", format!("job {number}"), number);
            assert_eq!(Task::new(pauses(number).traced(span)).run(), number);
        }
    });
    for number in 1..=2 {
        let job = async_span_named(&verdict, &format!("job {number}"));
        assert_eq!(job.polls.len(), number + 1);
        assert_eq!(job.slice.begin.track_name, job.slice.begin.name);
        assert_eq!(job.slice.begin.args["number"].as_u64(), Some(number as u64));
    }
}

#[test]
fn arguments_are_evaluated_once_and_where_the_macro_stands() {
    let evaluations = Cell::new(0);
    let verdict = recorded(|| {
        let evaluated = || {
            evaluations.set(evaluations.get() + 1);
            evaluations.get()
        };
        let task = Task::new(pauses(3).traced(async_span!("test", "fetch", count = evaluated())));
        assert_eq!(evaluations.get(), 1);
        task.run();
    });
    assert_eq!(evaluations.get(), 1);
    assert_eq!(async_span_named(&verdict, "fetch").polls.len(), 4);
}

#[test]
fn an_argument_may_make_spans_of_futures_while_it_is_formatted() {
    struct Nested;
    impl std::fmt::Display for Nested {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let span = async_span!("test", "inner", text = "inner text");
            write!(f, "{}", Task::new(pauses(0).traced(span)).run())
        }
    }
    let verdict = recorded(|| {
        Task::new(pauses(1).traced(async_span!("test", "outer", value = %Nested))).run();
    });
    let (outer, inner) = (
        async_span_named(&verdict, "outer"),
        async_span_named(&verdict, "inner"),
    );
    assert_eq!(outer.slice.begin.args["value"], Value::Text("0".to_owned()));
    let text = Value::Text("inner text".to_owned());
    assert_eq!(inner.slice.begin.args["text"], text);
}

#[test]
fn futures_that_overlap_have_tracks_of_their_own() {
    let verdict = recorded(|| {
        let task = || Task::new(pauses(1).traced(async_span!("test", "fetch")));
        let (mut first, mut second) = (task(), task());
        assert!(first.poll().is_pending());
        assert!(second.poll().is_pending());
        assert!(first.poll().is_ready());
        assert!(second.poll().is_ready());
    });
    let [first, second] = &async_spans_named(&verdict, "fetch")[..] else {
        panic!("{verdict:?}")
    };
    assert_ne!(first.slice.begin.track_uuid, second.slice.begin.track_uuid);
}

#[test]
fn traced_future_keeps_its_traits_and_grows_little() {
    fn is_send_and_sync<T: Send + Sync + 'static>(_: &T) {}
    fn size_of_output_of<F: Future>(_: &F) -> usize {
        size_of::<F>()
    }
    let plain = future::ready([0_u64; 9]);
    let plain_bytes = size_of_output_of(&plain);
    let traced = plain.traced(async_span!("test", "fetch"));
    is_send_and_sync(&traced);
    assert_eq!(size_of_val(&traced) - plain_bytes, 7 * size_of::<usize>());
}

#[test]
fn slices_of_a_future_are_begins_and_ends_only() {
    let verdict = recorded(|| {
        Task::new(pauses(1).traced(async_span!("test", "fetch"))).run();
    });
    let kinds = verdict.events.iter().map(|event| event.kind);
    assert!(kinds.eq([
        EventKind::SliceBegin,
        EventKind::SliceBegin,
        EventKind::SliceEnd,
        EventKind::SliceBegin,
        EventKind::SliceEnd,
        EventKind::SliceEnd,
    ]));
}
