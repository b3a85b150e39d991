//! Spans of `tracing` that are entered more than once, such as those of futures.

use std::future;
use std::task::Poll;

use judge::{
    AsyncSpan, Value, Verdict, async_span_named, async_spans_named, slice, slices, slices_named,
};
use tracezero::{AsyncSpans, InMemorySession};
use tracing::{Instrument as _, Span, info_span};

use crate::executor::{Task, on, pause};
use crate::recording::{alone, finish, recorded, recorded_by};

async fn pauses(count: u32) -> u32 {
    for _ in 0..count {
        pause().await;
    }
    count
}

/// Returns the parent of the track of an asynchronous span.
fn parent_track(verdict: &Verdict, span: &AsyncSpan) -> u64 {
    let uuid = span.slice.begin.track_uuid;
    let mut packets = verdict.packets.iter();
    let own = packets.find(|packet| packet.track_descriptor().uuid() == uuid);
    own.unwrap().track_descriptor().parent_uuid()
}

#[test]
fn future_is_one_slice_and_a_slice_per_poll() {
    let verdict = recorded(|| {
        let future = async {
            pause().await;
            drop(info_span!("inside").entered());
            pauses(2).await
        };
        let mut task = Task::new(future.instrument(info_span!("fetch", url = "/a")));
        drop(info_span!("before").entered());
        assert!(task.poll_on("one").is_pending());
        assert!(task.poll_on("two").is_pending());
        assert!(task.poll_on("two").is_pending());
        assert_eq!(task.poll_on("three"), Poll::Ready(2));
        on("four", || drop(task));
    });
    let fetch = async_span_named(&verdict, "fetch");
    // `tracing` enters the span of a future once more when the future is dropped.
    assert_eq!(fetch.threads(), ["one", "two", "two", "three", "four"]);
    assert_eq!(fetch.slice.begin.args["url"], Value::Text("/a".to_owned()));
    let before = slice(&verdict, "before").begin.timestamp_ns;
    assert!(before < fetch.slice.begin.timestamp_ns);
    let inside = slice(&verdict, "inside");
    assert_eq!(inside.depth, 1);
    assert!(fetch.polls[1].contains(&inside));
}

#[test]
fn known_async_span_begins_at_its_first_poll() {
    let verdict = recorded(|| {
        let fetch = || Task::new(pauses(1).instrument(info_span!("known", number = 1)));
        fetch().run();
        // This future is polled once, and never ends.
        let mut pending = fetch();
        assert!(pending.poll().is_pending());
        std::mem::forget(pending);
    });
    let [first, second] = <[AsyncSpan; 2]>::try_from(async_spans_named(&verdict, "known")).unwrap();
    assert!(first.slice.end.is_some());
    assert!(second.slice.end.is_none());
    assert_eq!(second.polls.len(), 1);
    assert_eq!(second.slice.begin.args["number"], Value::Int(1));
}

#[test]
fn nested_futures_have_nested_tracks() {
    let outer = || {
        let inner = || pauses(2).instrument(info_span!("inner"));
        async move {
            let _sync = info_span!("not in between").entered();
            drop(_sync);
            inner().await;
            inner().await;
        }
        .instrument(info_span!("outer"))
    };
    let verdict = recorded(|| {
        let mut tasks = [Task::new(outer()), Task::new(outer())];
        for pauses_left in (0..=4).rev() {
            for task in &mut tasks {
                assert_eq!(task.poll().is_pending(), pauses_left > 0);
            }
        }
    });
    let (outers, inners) = (
        async_spans_named(&verdict, "outer"),
        async_spans_named(&verdict, "inner"),
    );
    assert_eq!((outers.len(), inners.len()), (2, 4));
    for inner in &inners {
        let parent = parent_track(&verdict, inner);
        let outer = outers.iter().find(|it| it.slice.begin.track_uuid == parent);
        assert!(outer.unwrap().slice.contains(&inner.slice));
    }
}

#[test]
fn an_explicit_parent_counts_and_not_the_span_around() {
    let verdict = recorded(|| {
        let parent = info_span!("parent");
        parent.in_scope(|| ());
        parent.in_scope(|| ());
        let around = info_span!("around");
        around.in_scope(|| {
            let child = info_span!(parent: &parent, "child");
            Task::new(pauses(1).instrument(child)).run();
            let root = info_span!(parent: None, "root");
            Task::new(pauses(1).instrument(root)).run();
        });
    });
    let (parent, child) = (
        async_span_named(&verdict, "parent"),
        async_span_named(&verdict, "child"),
    );
    assert_eq!(
        parent_track(&verdict, &child),
        parent.slice.begin.track_uuid
    );
    let root = async_span_named(&verdict, "root");
    assert_eq!(
        parent_track(&verdict, &root),
        parent_track(&verdict, &parent)
    );
}

#[test]
fn a_future_that_is_dropped_before_it_is_done_ends_there() {
    let verdict = recorded(|| {
        let pending = future::pending::<()>().instrument(info_span!("dropped"));
        let mut task = Task::new(pending);
        assert!(task.poll_on("one").is_pending());
        on("two", || drop(task));
        drop(info_span!("after").entered());
    });
    let dropped = async_span_named(&verdict, "dropped");
    let after = slice(&verdict, "after").begin.timestamp_ns;
    assert!(dropped.slice.end.unwrap().timestamp_ns <= after);
}

#[test]
fn values_recorded_in_a_later_poll_are_on_the_end() {
    let verdict = recorded(|| {
        let span = info_span!("answer", early = 1, bytes = tracing::field::Empty);
        let future = async {
            pause().await;
            Span::current().record("bytes", 17);
        };
        Task::new(future.instrument(span)).run();
    });
    let answer = async_span_named(&verdict, "answer");
    assert_eq!(
        answer.slice.begin.args.keys().collect::<Vec<_>>(),
        ["early"]
    );
    assert_eq!(answer.slice.end.unwrap().args["bytes"], Value::Int(17));
}

#[test]
fn a_session_that_starts_later_shows_the_span_from_then_on() {
    let _guard = alone();
    let mut task = Task::new(pauses(3).instrument(info_span!("later")));
    assert!(task.poll().is_pending());
    let session = InMemorySession::start().unwrap();
    assert!(task.poll_on("one").is_pending());
    assert!(task.poll_on("two").is_pending());
    let verdict = finish(session);
    assert_eq!(
        async_span_named(&verdict, "later").threads(),
        ["one", "two"]
    );
    drop(task);
}

#[test]
fn each_of_two_sessions_shows_what_it_has_seen() {
    let _guard = alone();
    let first = InMemorySession::start().unwrap();
    let mut task = Task::new(pauses(9).instrument(info_span!("two sessions")));
    assert!(task.poll_on("one").is_pending());
    assert!(task.poll_on("two").is_pending());
    let second = InMemorySession::start().unwrap();
    assert!(task.poll_on("three").is_pending());
    let first = finish(first);
    let third = InMemorySession::start().unwrap();
    assert!(task.poll_on("four").is_pending());
    on("five", || drop(task));
    let (second, third) = (finish(second), finish(third));
    let [first, second, third] =
        [first, second, third].map(|verdict| async_span_named(&verdict, "two sessions"));
    assert_eq!(first.threads(), ["one", "two", "three"]);
    assert!(first.slice.end.is_none());
    assert_eq!(second.threads(), ["three", "four", "five"]);
    assert_eq!(third.threads(), ["four", "five"]);
    assert!(second.slice.end.is_some() && third.slice.end.is_some());
}

#[test]
fn tracks_of_their_own_can_be_left_out() {
    let layer = tracezero::layer().async_spans(AsyncSpans::OnThreads);
    let verdict = recorded_by(layer, || {
        for _ in 0..2 {
            let span = info_span!("on threads", number = 1);
            Task::new(pauses(1).instrument(span)).run();
        }
    });
    let polls = slices_named(&verdict, "on threads");
    assert_eq!((polls.len(), slices(&verdict).len()), (6, 6));
    for poll in polls {
        assert!(poll.begin.thread_name.is_some());
        assert!(poll.begin.flow_ids.is_empty());
        assert_eq!(poll.begin.args["number"], Value::Int(1));
    }
}
