//! Sessions that start and end while a future is in progress. Each shows the part of the future
//! that it saw.

use std::future;
use std::panic::{self, AssertUnwindSafe};

use judge::{Verdict, async_span_named};
use support::alone;
use tracezero::{
    BufferConfig, DataSourceConfig, Flow, InMemorySession, TraceConfig, TraceFuture as _,
    TrackEventConfig, async_span,
};

use crate::executor::{Task, pause};
use crate::recording::verdict;

fn session(events: &TrackEventConfig) -> InMemorySession {
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(256))
        .add_data_source(DataSourceConfig::new("track_event").track_event(events));
    config.record_in_memory().unwrap()
}

fn finish(session: InMemorySession) -> Verdict {
    verdict(&session.finish().0)
}

async fn pauses(count: u32) {
    for _ in 0..count {
        pause().await;
    }
}

#[test]
fn a_session_that_starts_later_shows_the_future_from_then_on() {
    let _guard = alone();
    let mut task = Task::new(pauses(3).traced(async_span!("test", "fetch", number = 1)));
    assert!(task.poll().is_pending());
    let session = InMemorySession::start().unwrap();
    assert!(task.poll_on("one").is_pending());
    assert!(task.poll_on("two").is_pending());
    assert!(task.poll_on("one").is_ready());
    let verdict = finish(session);
    let fetch = async_span_named(&verdict, "fetch");
    assert_eq!(fetch.threads(), ["one", "two", "one"]);
    assert!(fetch.slice.end_args().is_empty());
    assert!(fetch.slice.begin.args.is_empty(), "nobody recorded it then");
}

#[test]
fn name_made_without_session_is_its_expression_text() {
    let _guard = alone();
    let number = 7;
    let task = Task::new(pauses(1).traced(async_span!("test", format!("job {number}"))));
    let session = InMemorySession::start().unwrap();
    task.run();
    let verdict = finish(session);
    assert_eq!(
        async_span_named(&verdict, r#"format!("job {number}")"#)
            .polls
            .len(),
        2
    );
}

#[test]
fn each_of_two_sessions_shows_what_it_has_seen() {
    let _guard = alone();
    let first = InMemorySession::start().unwrap();
    let mut task = Task::new(pauses(4).traced(async_span!("test", "fetch", number = 1)));
    assert!(task.poll_on("one").is_pending());
    let second = InMemorySession::start().unwrap();
    assert!(task.poll_on("two").is_pending());
    let first = finish(first);
    assert!(task.poll_on("three").is_pending());
    drop(task);
    let second = finish(second);

    let (first, second) = (
        async_span_named(&first, "fetch"),
        async_span_named(&second, "fetch"),
    );
    assert_eq!(first.threads(), ["one", "two"]);
    assert!(first.slice.end.is_none());
    assert_eq!(second.threads(), ["two", "three"]);
    assert_eq!(second.slice.end_args(), ["cancelled"]);
    for life in [&first.slice, &second.slice] {
        assert_eq!(
            life.begin.args["number"].as_u64(),
            Some(1),
            "it was recorded"
        );
    }
}

#[test]
fn consecutive_sessions_show_one_span_each() {
    let _guard = alone();
    let mut task = Task::new(future::pending::<()>().traced(async_span!("test", "fetch")));
    for _ in 0..20 {
        let session = InMemorySession::start().unwrap();
        assert!(task.poll_on("one").is_pending());
        assert!(task.poll_on("two").is_pending());
        assert_eq!(
            async_span_named(&finish(session), "fetch").threads(),
            ["one", "two"]
        );
    }
}

#[test]
fn session_in_reused_slot_sees_no_end_of_older_span() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let mut task = Task::new(pauses(1).traced(async_span!("test", "fetch")));
    assert!(task.poll().is_pending());
    drop(session);
    let next = InMemorySession::start().unwrap();
    drop(task);
    assert!(finish(next).events.is_empty());
}

#[test]
fn session_without_begin_records_no_end() {
    let _guard = alone();
    let (off, on) = (
        TrackEventConfig::new().disable("*"),
        TrackEventConfig::new(),
    );
    let first = session(&on);
    let mut task = Task::new(pauses(9).traced(async_span!("test", "fetch")));
    assert!(task.poll().is_pending());
    drop(first);
    // `in_its_place` gets the slot of the first session, and records nothing until its categories
    // are changed. `second` records from the next poll on.
    let in_its_place = session(&off);
    let second = session(&on);
    assert!(task.poll().is_pending());
    in_its_place.control().choose_categories(&on).unwrap();
    assert!(task.poll().is_pending());
    drop(task);
    for (session, polls) in [(in_its_place, 1), (second, 2)] {
        let verdict = finish(session);
        let fetch = async_span_named(&verdict, "fetch");
        assert_eq!(fetch.polls.len(), polls);
        assert_eq!(fetch.slice.end_args(), ["cancelled"]);
    }
}

#[test]
fn disabled_category_hides_polls_and_not_the_end() {
    let _guard = alone();
    let (off, on) = (
        TrackEventConfig::new().disable("*"),
        TrackEventConfig::new(),
    );
    let session = session(&on);
    let mut ends_unseen = Task::new(pauses(1).traced(async_span!("test", "ends unseen")));
    let mut goes_on = Task::new(pauses(2).traced(async_span!("test", "goes on")));
    assert!(ends_unseen.poll().is_pending());
    assert!(goes_on.poll().is_pending());
    session.control().choose_categories(&off).unwrap();
    assert!(ends_unseen.poll().is_ready());
    assert!(goes_on.poll().is_pending());
    session.control().choose_categories(&on).unwrap();
    assert!(goes_on.poll().is_ready());

    let verdict = finish(session);
    let (ends_unseen, goes_on) = (
        async_span_named(&verdict, "ends unseen"),
        async_span_named(&verdict, "goes on"),
    );
    assert_eq!(ends_unseen.polls.len(), 1);
    assert!(ends_unseen.slice.end_args().is_empty());
    assert_eq!(goes_on.polls.len(), 2);
    assert!(goes_on.slice.end_args().is_empty());
}

#[test]
fn future_panics_with_disabled_category_and_ends_as_panicked() {
    let _guard = alone();
    let session = session(&TrackEventConfig::new());
    let failing = async {
        pause().await;
        panic::resume_unwind(Box::new("on purpose"))
    };
    let mut task = Task::<()>::new(failing.traced(async_span!("test", "fetch")));
    assert!(task.poll().is_pending());
    let off = TrackEventConfig::new().disable("*");
    session.control().choose_categories(&off).unwrap();
    assert!(panic::catch_unwind(AssertUnwindSafe(|| task.poll())).is_err());
    drop(task);
    let verdict = finish(session);
    assert_eq!(
        async_span_named(&verdict, "fetch").slice.end_args(),
        ["panicked"]
    );
}

#[test]
fn a_session_without_arguments_gets_flows_and_no_arguments() {
    let _guard = alone();
    let session = session(&TrackEventConfig::new().filter_debug_annotations());
    let cause = Flow::new();
    let span = async_span!("test", "fetch", flow: &cause, url = "/a", flow: &cause);
    let mut task = Task::new(pauses(1).traced(span));
    assert!(task.poll().is_pending());
    drop(task);
    let verdict = finish(session);
    let life = async_span_named(&verdict, "fetch").slice;
    assert_eq!(life.begin.flow_ids[..2], [cause.id(); 2]);
    assert!(life.begin.args.is_empty() && life.end_args().is_empty());
}
