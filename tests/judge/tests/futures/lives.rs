//! One session, one future: what becomes of it, and what is written of it.

use std::cell::Cell;
use std::fmt;
use std::future::{self, Future};
use std::panic::{self, AssertUnwindSafe};
use std::task::Poll;

use judge::{EventKind, Value, picture, pictures, slices};
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
fn a_future_is_one_slice_over_all_threads_and_a_slice_on_each_that_polls_it() {
    let verdict = recorded(|| {
        let mut task = Task::new(pauses(3).traced(async_span!("test", "fetch")));
        assert!(task.poll_on("one").is_pending());
        assert!(task.poll_on("two").is_pending());
        assert!(task.poll_on("two").is_pending());
        assert_eq!(task.poll_on("three"), Poll::Ready(3));
    });
    let fetch = picture(&verdict, "fetch");
    assert_eq!(fetch.threads(), ["one", "two", "two", "three"]);
    assert_eq!(fetch.life.begin.track_name.as_deref(), Some("fetch"));
    assert_eq!(fetch.life.begin.categories, ["test"]);
    assert!(fetch.life.end_args().is_empty());
    assert_eq!(slices(&verdict).len(), 5);
}

#[test]
fn it_begins_when_it_is_polled_first() {
    let verdict = recorded(|| {
        let task = Task::new(pauses(0).traced(async_span!("test", "fetch")));
        instant!("test", "made");
        task.run();
    });
    let made = verdict.events_named("made").next().unwrap();
    let fetch = picture(&verdict, "fetch");
    assert!(made.timestamp_ns <= fetch.life.begin.timestamp_ns);
}

#[test]
fn a_future_that_is_never_polled_leaves_nothing() {
    let verdict = recorded(|| drop(Task::new(pauses(1).traced(async_span!("test", "fetch")))));
    assert!(verdict.events.is_empty(), "{verdict:?}");
}

#[test]
fn a_future_that_is_dropped_before_it_is_done_ends_there_as_cancelled() {
    let verdict = recorded(|| {
        let mut task = Task::new(pauses(2).traced(async_span!("test", "fetch", url = "/a")));
        assert!(task.poll_on("one").is_pending());
        on("two", || drop(task));
    });
    let fetch = picture(&verdict, "fetch");
    assert_eq!(fetch.threads(), ["one"]);
    let end = fetch.life.end.unwrap();
    assert_eq!(end.args["cancelled"], Value::Bool(true));
    assert_ne!(end.sequence_id, fetch.life.begin.sequence_id);
}

#[test]
fn what_a_dropped_future_holds_ends_before_it() {
    let verdict = recorded(|| {
        let inner = pauses(2).traced(async_span!("test", "inner"));
        let mut task = Task::new(inner.traced(async_span!("test", "outer")));
        assert!(task.poll().is_pending());
    });
    let (outer, inner) = (picture(&verdict, "outer"), picture(&verdict, "inner"));
    assert!(outer.life.contains(&inner.life), "{outer:?} {inner:?}");
    assert_eq!(inner.life.end_args(), ["cancelled"]);
}

#[test]
fn a_poll_that_panics_ends_and_the_future_ends_as_panicked_when_it_is_dropped() {
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
    let fetch = picture(&verdict, "fetch");
    let caught = verdict.events_named("caught").next().unwrap();
    let ends_ns = fetch
        .polls
        .iter()
        .map(|poll| poll.end.as_ref().unwrap().timestamp_ns);
    assert!(ends_ns.max().unwrap() <= caught.timestamp_ns);
    assert!(caught.timestamp_ns <= fetch.life.end.as_ref().unwrap().timestamp_ns);
    assert_eq!(fetch.life.end_args(), ["panicked"]);
}

#[test]
fn arguments_of_an_end_are_at_the_end_of_the_life() {
    let verdict = recorded(|| {
        let fetch = pauses(2).traced(async_span!("test", "fetch", url = "/a"));
        Task::new(fetch.end_with(|count, span| end!(span, count, twice = count * 2))).run();
        let plain = pauses(0).traced(async_span!("test", "plain"));
        Task::new(plain.end_with(|_, _| {})).run();
    });
    let fetch = picture(&verdict, "fetch");
    assert_eq!(fetch.life.end_args(), ["count", "twice"]);
    assert_eq!(fetch.life.end.unwrap().args["twice"], Value::Uint(4));
    assert!(fetch.polls.iter().all(|poll| poll.end_args().is_empty()));
    assert!(picture(&verdict, "plain").life.end_args().is_empty());
}

#[test]
fn a_panic_in_what_ends_a_future_leaves_an_end() {
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
    assert_eq!(picture(&verdict, "before").life.end_args(), ["panicked"]);
    let during = picture(&verdict, "during").life.end.unwrap();
    assert_eq!(during.args["count"], Value::Int(1));
}

/// Formatting it panics.
struct Panics;

impl fmt::Display for Panics {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic::resume_unwind(Box::new("on purpose"))
    }
}

#[test]
fn a_future_that_never_ends_is_an_open_slice_with_polls_that_have_ended() {
    let mut task = Task::new(future::pending::<()>().traced(async_span!("test", "fetch")));
    let verdict = recorded(|| {
        assert!(task.poll_on("one").is_pending());
        assert!(task.poll_on("two").is_pending());
    });
    let fetch = picture(&verdict, "fetch");
    assert!(fetch.life.end.is_none());
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
    let polls = picture(&verdict, "fetch").polls;
    for (name, poll) in ["before", "after"].into_iter().zip(&polls) {
        let slices = slices(&verdict);
        let mut inside = slices.iter();
        let inside = inside.find(|slice| slice.begin.name.as_deref() == Some(name));
        assert!(poll.contains(inside.unwrap()), "{name}");
        assert_eq!(inside.unwrap().begin.track_uuid, poll.begin.track_uuid);
    }
}

#[test]
fn its_life_carries_what_the_macro_is_given_and_the_future_borrows_none_of_it() {
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
    let fetch = picture(&verdict, "fetch");
    let begin = &fetch.life.begin;
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
fn its_name_may_be_made_at_run_time() {
    let verdict = recorded(|| {
        for number in 1..=2 {
            let span = async_span!("test", format!("job {number}"), number);
            assert_eq!(Task::new(pauses(number).traced(span)).run(), number);
        }
    });
    for number in 1..=2 {
        let job = picture(&verdict, &format!("job {number}"));
        assert_eq!(job.polls.len(), number + 1);
        assert_eq!(job.life.begin.track_name, job.life.begin.name);
        assert_eq!(job.life.begin.args["number"].as_u64(), Some(number as u64));
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
    assert_eq!(picture(&verdict, "fetch").polls.len(), 4);
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
    let (outer, inner) = (picture(&verdict, "outer"), picture(&verdict, "inner"));
    assert_eq!(outer.life.begin.args["value"], Value::Text("0".to_owned()));
    let text = Value::Text("inner text".to_owned());
    assert_eq!(inner.life.begin.args["text"], text);
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
    let [first, second] = &pictures(&verdict, "fetch")[..] else {
        panic!("{verdict:?}")
    };
    assert_ne!(first.life.begin.track_uuid, second.life.begin.track_uuid);
}

#[test]
fn a_future_with_a_span_is_what_it_was_but_for_a_few_words() {
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
fn its_slices_have_begins_and_ends_alone() {
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
