//! Tracing in unusual places: threads that end, destructors, panics, and odd texts.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::cell::RefCell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use judge::{EventKind, ExtraSchema, Options, Value, Verdict, judge_with};
use perfetto_protos::profile_common::InternedString;
use support::alone;
use tracezero::protos::trace_packet::SequenceFlags;
use tracezero::{
    DataSource as _, InMemorySession, Report, counter, data_source, display, instant, span,
};

struct Packets;
data_source!(Packets, "com.example.packets");

#[test]
fn events_of_ended_and_panicked_threads_are_in_the_trace() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    for number in 0..200_u64 {
        let ended = thread::spawn(move || {
            let _span = span!("thread", "life", number = number);
            assert!(number % 2 == 0, "as is expected of this thread");
        });
        assert_eq!(ended.join().is_err(), number % 2 == 1);
    }
    let (verdict, report) = finished(session);
    assert_eq!(report.losses.total(), 0);
    assert_eq!(verdict.events_named("life").count(), 200);
    assert_eq!(count(&verdict, EventKind::SliceEnd), 200);
}

#[test]
fn sessions_record_older_and_newer_threads() {
    let _guard = alone();
    let (say, heard) = mpsc::channel::<()>();
    let (done, is_done) = mpsc::channel();
    let old = thread::spawn(move || {
        instant!("thread", "old", session = 0);
        done.send(()).unwrap();
        for () in heard {
            instant!("thread", "old", session = 1);
            done.send(()).unwrap();
        }
    });
    is_done.recv().unwrap();
    for _ in 0..3 {
        let session = InMemorySession::start().unwrap();
        say.send(()).unwrap();
        is_done.recv().unwrap();
        thread::spawn(|| instant!("thread", "new")).join().unwrap();
        let (verdict, report) = finished(session);
        assert_eq!((report.events, report.losses.total()), (2, 0));
        let old = verdict.events_named("old").next().unwrap();
        assert_eq!(old.args["session"], Value::Int(1));
        assert_eq!(verdict.events_named("new").count(), 1);
    }
    drop(say);
    old.join().unwrap();
}

/// A value that traces when it is dropped.
struct TracesLast(&'static str);

impl Drop for TracesLast {
    fn drop(&mut self) {
        let _span = span!("drop", "last", of = self.0);
        instant!("drop", "last words", of = self.0);
        counter!("drop", "dropped", 1);
    }
}

#[test]
fn destructors_trace_while_a_panic_unwinds() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let outcome = panic::catch_unwind(|| {
        let _around = span!("drop", "around");
        let _last = TracesLast("panic");
        panic!("as is expected of this test");
    });
    assert!(outcome.is_err());
    let (verdict, report) = finished(session);
    assert_eq!(report.losses.total(), 0);
    let essence: Vec<_> = verdict.events.iter().map(|it| it.kind).collect();
    let expected = [
        EventKind::SliceBegin,
        EventKind::SliceBegin,
        EventKind::Instant,
        EventKind::Counter,
        EventKind::SliceEnd,
        EventKind::SliceEnd,
    ];
    assert_eq!(essence, expected);
}

/// A value whose formatting panics.
struct Unprintable;

impl fmt::Display for Unprintable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("so far")?;
        let _last = TracesLast("formatter");
        panic!("as is expected of this formatter");
    }
}

#[test]
fn panic_in_an_open_packet_ends_only_that_packet() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    drop(TracesLast("makes its trace points known"));
    let long = "x".repeat(10_000);
    for _ in 0..10 {
        caught(|| instant!("panic", "in a formatter", text = display(&Unprintable)));
        caught(|| {
            drop(span!(
                "panic",
                "in a formatter",
                text = display(&Unprintable)
            ));
        });
        caught(|| {
            Packets::trace(|cx| {
                cx.packet(|packet| {
                    packet.for_testing(|event| {
                        event.set_str(&long);
                        panic!("as is expected of this packet");
                    });
                });
            });
        });
        drop(span!("panic", "goes on"));
    }
    let (verdict, report) = finished(session);
    assert_eq!(verdict.events_named("goes on").count(), 10);
    let custom = verdict.packets.iter().filter(|it| it.has_for_testing());
    assert_eq!(custom.count(), 10);
    assert_eq!(verdict.events_named("in a formatter").count(), 20);
    assert_eq!(verdict.open_spans, []);
    // `TracesLast` is dropped inside of the trace point that formats the argument. So its own trace
    // points are nested, and are lost: both ends of a span, an instant and a counter.
    assert_eq!(report.losses.total(), report.losses.nested);
    assert_eq!(report.losses.nested, 2 * 10 * 4);
}

fn caught(work: impl FnOnce()) {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_err();
}

#[test]
fn thread_local_destructors_trace_while_writers_exist() {
    thread_local! {
        static BEFORE: RefCell<Option<TracesLast>> = const { RefCell::new(None) };
        static AFTER: RefCell<Option<TracesLast>> = const { RefCell::new(None) };
    }
    let _guard = alone();
    drop(TracesLast("makes its trace points known"));
    let session = InMemorySession::start().unwrap();
    for _ in 0..20 {
        let ends = thread::spawn(|| {
            // One of the two values is destroyed before the thread's writers, the other after them.
            BEFORE.set(Some(TracesLast("before")));
            instant!("drop", "alive");
            AFTER.set(Some(TracesLast("after")));
        });
        ends.join().unwrap();
    }
    let (verdict, report) = finished(session);
    assert_eq!(verdict.events_named("alive").count(), 20);
    let recorded = verdict.events_named("last words").count();
    assert_eq!(recorded, 20, "of those that have writers");
    assert_eq!(report.losses.total(), report.losses.nested);
    // Lost are the begin of a span, an instant, a counter, and the end of the span.
    assert_eq!(report.losses.nested, 20 * 4);
}

#[test]
fn texts_with_nul_and_invalid_utf8_are_recorded_unchanged() {
    const NOT_UTF8: &[u8] = b"\xff\xfe\x00\xc3(\xed\xa0\x80";
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let name = "dynamic\0name\u{10ffff}".to_owned();
    instant!(
        "cate\0gory",
        "na\0me",
        text = "te\0xt",
        last = "\0",
        empty = ""
    );
    instant!(
        "category",
        name.as_str(),
        text = String::from_utf8_lossy(NOT_UTF8).as_ref()
    );
    Packets::trace(|cx| {
        cx.packet(|packet| {
            packet.set_sequence_flags(SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED.0 as u32);
            packet.interned_data(|interned| {
                interned.add_debug_annotation_string_values(|string| {
                    string.set_iid(1).set_str(NOT_UTF8);
                });
            });
        });
    });
    let named = thread::Builder::new().name("thread \u{1f980} \u{202e}".to_owned());
    named
        .spawn(|| instant!("category", "elsewhere"))
        .unwrap()
        .join()
        .unwrap();
    let (verdict, report) = finished(session);
    assert_eq!((report.events, report.losses.total()), (3, 0));
    let text = |text: &str| Value::Text(text.to_owned());
    let first = verdict.events_named("na\0me").next().unwrap();
    assert_eq!(first.categories, ["cate\0gory"]);
    assert_eq!(first.args["text"], text("te\0xt"));
    assert_eq!(first.args["last"], text("\0"));
    assert_eq!(first.args["empty"], text(""));
    let second = verdict.events_named(&name).next().unwrap();
    assert_eq!(
        second.args["text"],
        text(&String::from_utf8_lossy(NOT_UTF8))
    );
    let bytes = verdict.packets.iter().flat_map(|packet| {
        let interned = &packet.interned_data.debug_annotation_string_values;
        interned.iter().map(InternedString::str)
    });
    assert_eq!(bytes.collect::<Vec<_>>(), [NOT_UTF8]);
    let elsewhere = verdict.events_named("elsewhere").next().unwrap();
    let thread_name = elsewhere.thread_name.as_deref();
    assert_eq!(thread_name, Some("thread \u{1f980} \u{202e}"));
}

/// The number of sessions in all, and the number of threads that start them.
const STARTS: usize = 10_000;
const STARTING_THREADS: usize = 4;

#[test]
fn ten_thousand_sessions_start_and_end_while_threads_trace() {
    let _guard = alone();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _span = span!("thread", "others");
                    thread::yield_now();
                }
            });
        }
        let starting: Vec<_> = (0..STARTING_THREADS)
            .map(|_| scope.spawn(|| (0..STARTS / STARTING_THREADS).for_each(start_and_finish)))
            .collect();
        let outcomes: Vec<_> = starting
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        is_over.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(Result::unwrap);
    });
}

fn start_and_finish(round: usize) {
    let session = InMemorySession::start().unwrap();
    instant!("thread", "own");
    if round.is_multiple_of(3) {
        return drop(session);
    }
    let (trace, report) = session.finish();
    assert!(report.events >= 1);
    // Other threads may have an unfinished packet.
    assert_eq!(report.losses.total(), report.losses.unfinished);
    assert_eq!(
        report.packets_begun,
        report.packets_read + report.losses.begun_packets()
    );
    assert_eq!(report.bytes, trace.len() as u64);
    if round % 100 == 1 {
        // Spans of the other threads.
        let options = Options {
            allow_open_spans: true,
            ..Options::default()
        };
        let verdict = accepted(&trace, options);
        assert!(verdict.events_named("own").count() >= 1);
    }
}

fn count(verdict: &Verdict, kind: EventKind) -> usize {
    let events = verdict.events.iter();
    events.filter(|event| event.kind == kind).count()
}

fn finished(session: InMemorySession) -> (Verdict, Report) {
    let (trace, report) = session.finish();
    (verdict(&trace), report)
}

fn verdict(trace: &[u8]) -> Verdict {
    accepted(trace, Options::default())
}

fn accepted(trace: &[u8], options: Options) -> Verdict {
    judge_with(trace, &ExtraSchema::new(), options).unwrap_or_else(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"))
    })
}
