//! Spans that are entered more than once: futures.

use std::future;
use std::task::Poll;

use judge::{Picture, Value, Verdict, picture, pictures, slice, slices, slices_named};
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

/// The track that the life's track lies under.
fn parent_track(verdict: &Verdict, picture: &Picture) -> u64 {
    let uuid = picture.life.begin.track_uuid;
    let mut packets = verdict.packets.iter();
    let own = packets.find(|packet| packet.track_descriptor().uuid() == uuid);
    own.unwrap().track_descriptor().parent_uuid()
}

#[test]
fn a_future_is_one_slice_from_its_first_poll_to_its_end_and_one_on_each_thread_that_polls_it() {
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
    let fetch = picture(&verdict, "fetch");
    // Dropped futures are entered once more.
    assert_eq!(fetch.threads(), ["one", "two", "two", "three", "four"]);
    assert_eq!(fetch.life.begin.args["url"], Value::Text("/a".to_owned()));
    let before = slice(&verdict, "before").begin.timestamp_ns;
    assert!(before < fetch.life.begin.timestamp_ns);
    let inside = slice(&verdict, "inside");
    assert_eq!(inside.depth, 1);
    assert!(fetch.polls[1].contains(&inside));
}

#[test]
fn what_is_known_to_be_asynchronous_has_its_life_from_the_first_poll_on() {
    let verdict = recorded(|| {
        let fetch = || Task::new(pauses(1).instrument(info_span!("known", number = 1)));
        fetch().run();
        // It is polled once, and never ends.
        let mut pending = fetch();
        assert!(pending.poll().is_pending());
        std::mem::forget(pending);
    });
    let [first, second] = <[Picture; 2]>::try_from(pictures(&verdict, "known")).unwrap();
    assert!(first.life.end.is_some());
    assert!(second.life.end.is_none());
    assert_eq!(second.polls.len(), 1);
    assert_eq!(second.life.begin.args["number"], Value::Int(1));
}

#[test]
fn futures_in_futures_have_their_tracks_below_those_of_the_outer_ones() {
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
    let (outers, inners) = (pictures(&verdict, "outer"), pictures(&verdict, "inner"));
    assert_eq!((outers.len(), inners.len()), (2, 4));
    for inner in &inners {
        let parent = parent_track(&verdict, inner);
        let outer = outers.iter().find(|it| it.life.begin.track_uuid == parent);
        assert!(outer.unwrap().life.contains(&inner.life));
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
    let (parent, child) = (picture(&verdict, "parent"), picture(&verdict, "child"));
    assert_eq!(parent_track(&verdict, &child), parent.life.begin.track_uuid);
    let root = picture(&verdict, "root");
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
    let dropped = picture(&verdict, "dropped");
    let after = slice(&verdict, "after").begin.timestamp_ns;
    assert!(dropped.life.end.unwrap().timestamp_ns <= after);
}

#[test]
fn values_that_are_recorded_in_a_later_poll_are_in_the_end_of_the_life() {
    let verdict = recorded(|| {
        let span = info_span!("answer", early = 1, bytes = tracing::field::Empty);
        let future = async {
            pause().await;
            Span::current().record("bytes", 17);
        };
        Task::new(future.instrument(span)).run();
    });
    let answer = picture(&verdict, "answer");
    assert_eq!(answer.life.begin.args.keys().collect::<Vec<_>>(), ["early"]);
    assert_eq!(answer.life.end.unwrap().args["bytes"], Value::Int(17));
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
    assert_eq!(picture(&verdict, "later").threads(), ["one", "two"]);
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
        [first, second, third].map(|verdict| picture(&verdict, "two sessions"));
    assert_eq!(first.threads(), ["one", "two", "three"]);
    assert!(first.life.end.is_none());
    assert_eq!(second.threads(), ["three", "four", "five"]);
    assert_eq!(third.threads(), ["four", "five"]);
    assert!(second.life.end.is_some() && third.life.end.is_some());
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
