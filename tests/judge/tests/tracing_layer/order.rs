//! Spans that are exited in any order, on any threads. The slices of each thread still nest.

use std::thread;

use judge::{slices, slices_named};
use tracezero::InMemorySession;
use tracing::{info_span, span::EnteredSpan};

use crate::recording::{alone, finish, recorded, recorded_by};

#[test]
fn span_exited_before_its_inner_span_splits_the_inner_span() {
    let verdict = recorded(|| {
        let (outer, inner) = (info_span!("outer"), info_span!("inner"));
        let outer = outer.enter();
        let inner = inner.enter();
        drop(outer);
        drop(inner);
    });
    let [outer, first, second] = <[_; 3]>::try_from(slices(&verdict)).unwrap();
    assert_eq!(outer.begin.name.as_deref(), Some("outer"));
    assert_eq!((first.depth, second.depth), (1, 0));
    assert_eq!(first.begin.name, second.begin.name);
    let end_ns = |slice: &judge::Slice| slice.end.as_ref().unwrap().timestamp_ns;
    assert_eq!(end_ns(&outer), end_ns(&first));
    assert_eq!(end_ns(&outer), second.begin.timestamp_ns);
    assert_eq!(first.begin.track_uuid, second.begin.track_uuid);
}

#[test]
fn split_span_continues_only_where_its_begin_was_seen() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let outer = info_span!("outer").entered();
    let inner = info_span!("inner").entered();
    drop(session);
    // This session gets the slot of the first one.
    let next = InMemorySession::start().unwrap();
    drop(outer);
    drop(inner);
    assert!(finish(next).events.is_empty());
}

#[test]
fn spans_that_are_left_in_any_order_are_in_slices_that_nest() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let verdict = recorded(|| {
        let mut state = 1_u64;
        // xorshift64.
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % limit as u64) as usize
        };
        let mut entered: Vec<EnteredSpan> = Vec::new();
        for _ in 0..2000 {
            if entered.len() < 6 && below(2) == 0 {
                entered.push(match NAMES[below(4)] {
                    "a" => info_span!("a").entered(),
                    "b" => info_span!("b").entered(),
                    "c" => info_span!("c").entered(),
                    _ => info_span!("d").entered(),
                });
            } else if !entered.is_empty() {
                drop(entered.remove(below(entered.len())));
            }
        }
    });
    // `slices` and the judge check that each end belongs to the innermost slice.
    let slices = slices(&verdict);
    assert!(slices.len() > 1000);
    assert!(verdict.open_spans.is_empty());
    assert!(slices.iter().all(|slice| slice.depth < 6));
}

#[test]
fn span_entered_twice_at_once_is_two_slices() {
    let verdict = recorded(|| {
        let span = info_span!("twice");
        let outer = span.enter();
        let inner = span.enter();
        drop(inner);
        drop(outer);
    });
    let slices = slices_named(&verdict, "twice");
    let on_thread = slices
        .iter()
        .filter(|slice| slice.begin.thread_name.is_some());
    let depths: Vec<_> = on_thread.map(|slice| slice.depth).collect();
    assert_eq!(depths, [0, 1]);
    assert!(verdict.open_spans.is_empty());
}

#[test]
fn span_entered_by_many_threads_is_a_slice_on_each() {
    let verdict = recorded(|| {
        let span = info_span!("shared");
        thread::scope(|scope| {
            for number in 0..4 {
                let named = thread::Builder::new().name(format!("thread {number}"));
                let enter_often = || (0..50).for_each(|_| span.in_scope(|| ()));
                named.spawn_scoped(scope, enter_often).unwrap();
            }
        });
    });
    let slices = slices_named(&verdict, "shared");
    let lives = slices
        .iter()
        .filter(|slice| slice.begin.thread_name.is_none());
    assert_eq!((lives.count(), slices.len()), (1, 201));
    assert!(verdict.open_spans.is_empty());
}

#[test]
fn the_spans_of_two_subscribers_on_one_thread_nest() {
    use tracing_subscriber::layer::SubscriberExt as _;
    let verdict = recorded_by(tracezero::layer(), || {
        let outer = info_span!("of the first");
        let _outer = outer.enter();
        let second = tracing_subscriber::registry().with(tracezero::layer());
        tracing::subscriber::with_default(second, || {
            // Each registry numbers its spans by itself, so this span has the same id as `outer`.
            drop(info_span!("of the second").entered());
        });
    });
    let [first, second] = <[_; 2]>::try_from(slices(&verdict)).unwrap();
    assert_eq!((first.depth, second.depth), (0, 1));
    assert!(first.contains(&second));
    assert!(verdict.open_spans.is_empty());
}
