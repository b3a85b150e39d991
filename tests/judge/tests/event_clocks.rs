//! Events that take their time from the processor's counter are where they would be by the system's
//! clock, in the same order.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use judge::{Event, ExtraSchema, Value, Verdict, judge};
use tracezero::{Clock, InMemorySession, TscError, clock, instant, span};

/// How far the clocks may be apart. It takes microseconds at most; the rest is for busy machines.
const TOLERANCE_NS: u64 = 100_000;

/// Sessions and the clock are of the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Events take their time from the counter as long as this lives.
struct Counter;

impl Counter {
    /// `None` if this machine has no counter to rely on; then nothing has changed.
    fn start() -> Option<Self> {
        match Clock::Tsc.use_for_events() {
            Ok(()) => {
                assert_eq!(Clock::of_events(), Clock::Tsc);
                Some(Self)
            }
            Err(error) => {
                assert!(!matches!(error, TscError::Unsteady), "{error}");
                assert_eq!(Clock::of_events(), Clock::Boottime);
                None
            }
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        Clock::Boottime.use_for_events().unwrap();
        assert_eq!(Clock::of_events(), Clock::Boottime);
    }
}

#[test]
fn for_three_seconds_events_are_where_the_system_clock_sees_them() {
    let _guard = alone();
    let Some(_counter) = Counter::start() else {
        return;
    };
    let session = InMemorySession::start().unwrap();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(3) {
        instant!("clocks", "after", time = clock::now_ns());
        thread::sleep(Duration::from_micros(500));
        instant!("clocks", "between");
        instant!("clocks", "before", time = clock::now_ns());
    }
    let verdict = verdict(session);
    assert!(verdict.events.len() > 1_000);
    for event in &verdict.events {
        let Some(Value::Uint(read_ns)) = event.args.get("time") else {
            continue;
        };
        // The event's time was taken right before that of its argument, or a little longer before
        // where the thread was interrupted.
        assert!(event.timestamp_ns < read_ns + TOLERANCE_NS, "{event:?}");
    }
    // An argument's time is before that of the next event, however the thread was interrupted.
    for pair in verdict.events.windows(2) {
        if let Some(Value::Uint(read_ns)) = pair[0].args.get("time") {
            assert!(*read_ns < pair[1].timestamp_ns + TOLERANCE_NS, "{pair:?}");
        }
    }
}

#[test]
fn events_of_threads_that_wait_for_each_other_are_in_order() {
    let _guard = alone();
    let Some(_counter) = Counter::start() else {
        return;
    };
    let session = InMemorySession::start().unwrap();
    let (to_other, from_one) = mpsc::channel();
    let (to_one, from_other) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in from_one {
                instant!("clocks", "ball", number = number);
                to_one.send(number + 1).unwrap();
            }
        });
        let mut number = 0_u64;
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(500) {
            instant!("clocks", "ball", number = number);
            to_other.send(number + 1).unwrap();
            number = from_other.recv().unwrap();
        }
        drop(to_other);
    });
    let verdict = verdict(session);
    let mut balls: Vec<_> = verdict.events_named("ball").collect();
    assert!(balls.len() > 100);
    balls.sort_by_key(|event| number_of(event));
    assert!(balls.is_sorted_by_key(|event| event.timestamp_ns));
}

#[test]
fn the_clock_changes_while_threads_trace_and_their_events_stay_in_order() {
    let _guard = alone();
    let Some(counter) = Counter::start() else {
        return;
    };
    let session = InMemorySession::start().unwrap();
    let is_over = AtomicBool::new(false);
    let all_trace = Barrier::new(3);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                drop(span!("clocks", "span"));
                all_trace.wait();
                while !is_over.load(Ordering::Relaxed) {
                    let _span = span!("clocks", "span");
                    thread::sleep(Duration::from_micros(20));
                }
            });
        }
        all_trace.wait();
        for _ in 0..100 {
            Clock::Boottime.use_for_events().unwrap();
            thread::sleep(Duration::from_millis(1));
            Clock::Tsc.use_for_events().unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop(counter);
    let verdict = verdict(session);
    assert_eq!(
        verdict.packets_per_sequence.len(),
        3,
        "two threads and the service"
    );
    for sequence_id in verdict.packets_per_sequence.keys() {
        let events = verdict.events.iter();
        let of_it = events.filter(|event| event.sequence_id == *sequence_id);
        assert!(of_it.is_sorted_by_key(|event| event.timestamp_ns));
    }
}

fn number_of(event: &Event) -> u64 {
    match event.args["number"] {
        Value::Uint(number) => number,
        ref other => panic!("{other:?}"),
    }
}

fn verdict(session: InMemorySession) -> Verdict {
    let (trace, report) = session.finish();
    assert_eq!(report.losses.total(), 0);
    judge(&trace, &ExtraSchema::new()).unwrap_or_else(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"))
    })
}
