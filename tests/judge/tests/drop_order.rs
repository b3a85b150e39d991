//! Guards of spans dropped in any order. In the trace, each span lasts exactly as long as its
//! guard, in several pieces if spans overlap without nesting.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::BTreeMap;
use std::mem;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use judge::{ExtraSchema, Options, Slice, Value, Verdict, judge_with, slices, slices_named};
use support::alone;
use tracezero::{
    BufferConfig, DataSourceConfig, InMemorySession, Span, TraceConfig, TraceFuture as _, Track,
    TrackEventConfig, async_span, begin, clock, end, instant, span,
};

fn session_of(events: &TrackEventConfig) -> InMemorySession {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(8192))
        .add_data_source(DataSourceConfig::new("track_event").track_event(events))
        .record_in_memory()
        .unwrap()
}

fn session() -> InMemorySession {
    session_of(&TrackEventConfig::new())
}

fn finish(session: InMemorySession) -> Verdict {
    finish_with(session, Options::default())
}

fn finish_with(session: InMemorySession, options: Options) -> Verdict {
    let (trace, report) = session.finish();
    assert_eq!(report.losses.total(), 0);
    judge_with(&trace, &ExtraSchema::new(), options).unwrap()
}

/// Returns the names and depths of all slices, in the order of their begins.
fn outline(verdict: &Verdict) -> Vec<(String, usize)> {
    let named = |slice: Slice| (slice.begin.name.unwrap_or_default(), slice.depth);
    slices(verdict).into_iter().map(named).collect()
}

fn outlined(expected: &[(&str, usize)]) -> Vec<(String, usize)> {
    let owned = |(name, depth): &(&str, usize)| ((*name).to_owned(), *depth);
    expected.iter().map(owned).collect()
}

/// Returns the time from the begin of the first piece to the end of the last piece of each name.
/// Asserts that the pieces of a name follow each other without a gap.
fn extents(verdict: &Verdict) -> BTreeMap<String, (u64, u64)> {
    let mut extents = BTreeMap::new();
    for slice in slices(verdict) {
        let (begin, end) = (slice.begin.timestamp_ns, slice.end.unwrap().timestamp_ns);
        let name = slice.begin.name.unwrap();
        let extent = extents.entry(name.clone()).or_insert((begin, begin));
        assert_eq!(extent.1, begin, "a gap in {name}");
        extent.1 = end;
    }
    extents
}

#[test]
fn fields_of_a_struct_end_as_they_are_dropped() {
    struct Job {
        _whole: Span,
        _part: Span,
    }
    let _guard = alone();
    let session = session();
    let job = Job {
        _whole: span!("app", "whole"),
        _part: span!("app", "part", number = 7),
    };
    drop(job);
    instant!("app", "after");
    let verdict = finish(session);
    assert_eq!(
        outline(&verdict),
        outlined(&[("whole", 0), ("part", 1), ("part", 0)])
    );
    let [whole, first, second] = <[_; 3]>::try_from(slices(&verdict)).unwrap();
    let end_ns = |slice: &Slice| slice.end.as_ref().unwrap().timestamp_ns;
    assert_eq!(end_ns(&whole), end_ns(&first));
    assert_eq!(end_ns(&whole), second.begin.timestamp_ns);
    assert!(end_ns(&second) > end_ns(&whole));
    assert!(second.begin.args.is_empty());
}

#[test]
fn every_span_lasts_as_long_as_its_guard() {
    let _guard = alone();
    // Few guards, many guards, more than fit without allocating, and guards that are dropped in the
    // order in which they began.
    for (seed, open_max, rounds, is_queue) in [
        (1, 4, 1000, false),
        (2, 12, 1000, false),
        (3, 70, 500, false),
        (4, 3, 1000, true),
        (5, 40, 500, true),
    ] {
        let session = session();
        let mut random = Random(seed);
        let mut now_ns = clock::now_ns();
        let mut open: Vec<(String, u64, Span)> = Vec::new();
        let mut expected = BTreeMap::new();
        for round in 0..rounds {
            now_ns += 10;
            let closes = open.len() == open_max || round > rounds - open_max;
            if !closes && random.below(5) < 3 {
                let name = format!("span {round}");
                let span = span!("app", &name, at: now_ns);
                open.push((name, now_ns, span));
            } else if !open.is_empty() {
                let at = match random.below(3) {
                    _ if is_queue => 0,
                    0 => open.len() - 1,
                    1 => 0,
                    _ => random.below(open.len()),
                };
                let (name, begin_ns, span) = open.remove(at);
                span.end_at(now_ns);
                expected.insert(name, (begin_ns, now_ns));
            }
        }
        for (name, begin_ns, span) in open {
            now_ns += 10;
            span.end_at(now_ns);
            expected.insert(name, (begin_ns, now_ns));
        }
        // No state of the earlier guards is left.
        span!("app", "last", at: now_ns + 1).end_at(now_ns + 2);
        expected.insert("last".to_owned(), (now_ns + 1, now_ns + 2));
        let verdict = finish(session);
        assert_eq!(extents(&verdict), expected);
        assert_eq!(slices_named(&verdict, "last")[0].depth, 0);
    }
}

/// Assigning to a variable creates the new guard before it drops the old one.
#[test]
fn consecutive_spans_in_one_variable_leave_nothing_behind() {
    const SPANS: u64 = 100_000;
    let _guard = alone();
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(1024))
        .record_all()
        .record_in_memory()
        .unwrap();
    let outer = span!("app", "outer");
    let mut state = span!("app", "state", number = 0);
    for number in 1..SPANS {
        state = span!("app", "state", number);
    }
    drop(state);
    drop(outer);
    let (_, report) = session.finish();
    // No span was nested too deeply.
    assert!(report.warnings.is_empty(), "{report}");
}

#[test]
fn a_vector_of_guards_makes_two_pieces_of_each() {
    const COUNT: usize = 100;
    let _guard = alone();
    let oldest_first = |guards: Vec<Span>| drop(guards);
    let newest_first = |guards: Vec<Span>| {
        let mut guards = guards.into_iter();
        drop(guards.next());
        guards.rev().for_each(drop);
    };
    for drop_all in [oldest_first, newest_first] {
        let session = session();
        let begins = (0..COUNT).map(|number| span!("app", format!("item {number}")));
        drop_all(begins.collect());
        let verdict = finish(session);
        assert_eq!(extents(&verdict).len(), COUNT);
        assert!(slices(&verdict).len() <= 3 * COUNT);
    }
}

#[test]
fn guards_that_change_places_end_their_own_spans() {
    let _guard = alone();
    let session = session();
    let mut outer = span!("app", "outer");
    {
        let mut inner = span!("app", "inner");
        mem::swap(&mut outer, &mut inner);
    }
    drop(outer);
    let verdict = finish(session);
    assert_eq!(
        outline(&verdict),
        outlined(&[("outer", 0), ("inner", 1), ("inner", 0)])
    );
}

#[test]
fn a_guard_that_is_forgotten_ends_no_other_span() {
    let _guard = alone();
    let session = session();
    {
        let _outer = span!("app", "outer");
        mem::forget(span!("app", "forgotten"));
    }
    let options = Options {
        allow_open_spans: true,
        ..Options::default()
    };
    let verdict = finish_with(session, options);
    assert!(slices_named(&verdict, "outer")[0].end.is_some());
    let open = slices(&verdict).into_iter().filter(|it| it.end.is_none());
    assert_eq!(
        open.map(|it| it.begin.name.unwrap()).collect::<Vec<_>>(),
        ["forgotten"]
    );
}

#[test]
fn a_session_shows_pieces_of_what_it_has_seen_begin() {
    let _guard = alone();
    let first = session();
    let before = session_of(&TrackEventConfig::new().disable("quiet"));
    let outer = span!("app", "outer");
    let between = session();
    let quiet = span!("quiet", "quiet");
    let inner = span!("app", "inner");
    drop(outer);
    drop(quiet);
    drop(inner);

    let pieces = outlined(&[
        ("outer", 0),
        ("quiet", 1),
        ("inner", 2),
        ("quiet", 0),
        ("inner", 1),
        ("inner", 0),
    ]);
    assert_eq!(outline(&finish(first)), pieces);
    let without_quiet = outlined(&[("outer", 0), ("inner", 1), ("inner", 0)]);
    assert_eq!(outline(&finish(before)), without_quiet);
    let without_outer = outlined(&[("quiet", 0), ("inner", 1), ("inner", 0)]);
    assert_eq!(outline(&finish(between)), without_outer);
}

#[test]
fn many_guards_of_different_sessions_end_as_they_are_dropped() {
    let _guard = alone();
    let first = session();
    let mut guards: Vec<Span> = Vec::new();
    let add = |guards: &mut Vec<Span>, names: std::ops::Range<usize>| {
        guards.extend(names.map(|number| span!("app", format!("item {number}"))));
    };
    add(&mut guards, 0..20);
    let second = session();
    add(&mut guards, 20..40);
    drop(guards);
    assert_eq!(extents(&finish(first)).len(), 40);
    assert_eq!(extents(&finish(second)).len(), 20);
}

#[test]
fn nothing_goes_on_in_a_session_that_came_later() {
    let _guard = alone();
    let first = session();
    let outer = span!("app", "outer");
    let inner = span!("app", "inner");
    drop(first);
    // This session gets the slot of the first one.
    let next = session();
    drop(outer);
    drop(inner);
    assert!(finish(next).events.is_empty());
}

#[test]
fn a_slice_without_a_guard_goes_on_behind_a_guard() {
    let _guard = alone();
    let session = session();
    {
        let _outer = span!("app", "outer");
        begin!("app", "by hand", url = "/");
    }
    {
        let _next = span!("app", "next");
        end!("app", bytes = 7);
        // There is no open slice left to end.
        end!("app");
    }
    let verdict = finish(session);
    let expected = [
        ("outer", 0),
        ("by hand", 1),
        ("by hand", 0),
        ("next", 1),
        ("next", 0),
    ];
    assert_eq!(outline(&verdict), outlined(&expected));
    let by_hand = slices_named(&verdict, "by hand");
    assert_eq!(by_hand[1].end_args(), ["bytes"]);
    let next = slices_named(&verdict, "next");
    assert_eq!(
        by_hand[1].end.as_ref().unwrap().timestamp_ns,
        next[1].begin.timestamp_ns
    );
}

#[test]
fn a_guard_across_an_await_goes_on_between_polls() {
    async fn work() {
        let _held = span!("app", "held");
        let mut is_first = true;
        std::future::poll_fn(|_| match mem::take(&mut is_first) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }
    let _guard = alone();
    let session = session();
    let mut future = pin!(work().traced(async_span!("app", "future")));
    let context = &mut Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(context).is_pending());
    instant!("app", "between");
    assert!(future.as_mut().poll(context).is_ready());
    let verdict = finish(session);
    let on_thread = slices(&verdict).into_iter();
    let on_thread = on_thread.filter(|slice| slice.begin.thread_name.is_some());
    let names: Vec<_> = on_thread
        .map(|slice| (slice.begin.name.unwrap(), slice.depth))
        .collect();
    let expected = [
        ("future", 0),
        ("held", 1),
        ("held", 0),
        ("future", 1),
        ("future", 0),
    ];
    assert_eq!(names, outlined(&expected));
}

#[test]
fn a_span_that_ends_before_an_inner_one_began_is_not_split() {
    let _guard = alone();
    let session = session();
    let start_ns = clock::now_ns();
    let outer = span!("app", "outer", at: start_ns);
    let inner = span!("app", "inner", at: start_ns + 20);
    outer.end_at(start_ns + 10);
    inner.end_at(start_ns + 30);
    // A begin and an end per span. Not judged: the judge rejects times that run backwards.
    assert_eq!(session.finish().1.events, 4);
}

#[test]
fn guards_on_one_track_end_their_own_spans() {
    let _guard = alone();
    let session = session();
    let queue = Track::new("queue");
    let outer = span!("app", "outer", track: &queue);
    let inner = thread::scope(|scope| {
        let begin = scope.spawn(|| span!("app", format!("inner {}", 1), track: &queue));
        begin.join().unwrap()
    });
    thread::spawn(move || drop(outer)).join().unwrap();
    instant!("app", "between", track: &queue);
    drop(inner);
    let verdict = finish(session);
    let expected = [("outer", 0), ("inner 1", 1), ("inner 1", 0)];
    assert_eq!(outline(&verdict), outlined(&expected));
    assert!(
        slices(&verdict)
            .iter()
            .all(|slice| slice.begin.thread_name.is_none())
    );
}

#[test]
fn every_span_on_a_track_lasts_as_long_as_its_guard() {
    let _guard = alone();
    for (seed, open_max) in [(4, 3), (5, 15)] {
        let session = session();
        let track = Track::unique("shared");
        let mut random = Random(seed);
        let mut now_ns = clock::now_ns();
        let mut open = Vec::new();
        let mut expected = BTreeMap::new();
        for round in 0..500 {
            now_ns += 10;
            let closes = open.len() == open_max || round > 500 - open_max;
            if !closes && random.below(2) == 0 {
                let name = format!("span {round}");
                let span = span!("app", &name, track: &track, at: now_ns);
                open.push((name, now_ns, span));
            } else if !open.is_empty() {
                let (name, begin_ns, span) = open.remove(random.below(open.len()));
                span.end_at(now_ns);
                expected.insert(name, (begin_ns, now_ns));
            }
        }
        // Ends the oldest span first.
        for (name, begin_ns, span) in open {
            now_ns += 10;
            span.end_at(now_ns);
            expected.insert(name, (begin_ns, now_ns));
        }
        assert_eq!(extents(&finish(session)), expected);
    }
}

#[test]
fn a_vector_of_guards_on_a_track_makes_two_pieces_of_each() {
    let _guard = alone();
    let session = session();
    let track = Track::unique("shared");
    let begin = |number| span!("app", format!("item {number}"), track: &track);
    drop(Vec::from_iter((0..100).map(begin)));
    let verdict = finish(session);
    assert_eq!(extents(&verdict).len(), 100);
    assert!(slices(&verdict).len() <= 200);
}

#[test]
fn slices_without_guards_share_a_track_with_guards() {
    let _guard = alone();
    let session = session();
    let track = Track::unique("shared");
    begin!("app", "around", track: &track);
    let outer = span!("app", "outer", track: &track);
    begin!("app", "inside", track: &track);
    drop(outer);
    end!("app", track: &track, of = "inside");
    let last = span!("app", "last", track: &track);
    end!("app", track: &track, of = "around");
    drop(last);
    let verdict = finish(session);
    let expected = [
        ("around", 0),
        ("outer", 1),
        ("inside", 2),
        ("inside", 1),
        ("last", 1),
        ("last", 0),
    ];
    assert_eq!(outline(&verdict), outlined(&expected));
    let ended = |name: &str| slices_named(&verdict, name).pop().unwrap().end.unwrap();
    for name in ["around", "inside"] {
        assert_eq!(ended(name).args["of"], Value::Text(name.to_owned()));
    }
}

#[test]
fn spans_of_tracing_and_guards_end_in_any_order() {
    use tracing_subscriber::layer::SubscriberExt as _;
    let _guard = alone();
    let subscriber = tracing_subscriber::registry().with(tracezero::layer());
    tracing::subscriber::with_default(subscriber, || {
        let session = session();
        let guard = span!("app", "guard");
        let entered = tracing::info_span!("entered", number = 7).entered();
        drop(guard);
        let last = span!("app", "last");
        drop(entered);
        drop(last);
        let expected = [
            ("guard", 0),
            ("entered", 1),
            ("entered", 0),
            ("last", 1),
            ("last", 0),
        ];
        assert_eq!(outline(&finish(session)), outlined(&expected));
    });
}

/// xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}
