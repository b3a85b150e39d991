//! Events with times of the processor's counter are in the same order as by the system's clock, and
//! at the same times within a bound.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use judge::{Event, ExtraSchema, Value, Verdict, judge};
use support::alone;
use tracezero::{Clock, InMemorySession, TscError, clock, instant, span};

/// The maximal difference of the clocks, as documented at `Clock::Tsc`.
const BOUND_NS: u64 = 10_000;

/// A guard: events take their time from the processor's counter until it is dropped.
struct Counter;

impl Counter {
    /// Switches to the counter. Returns `None`, and changes nothing, if this machine has no
    /// reliable counter.
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
fn for_three_seconds_events_are_where_the_system_clock_is() {
    let _guard = alone();
    let Some(_counter) = Counter::start() else {
        return;
    };
    let session = InMemorySession::start().unwrap();
    let started = Instant::now();
    // The system's time right before and after each event.
    let mut around_ns = Vec::new();
    while started.elapsed() < Duration::from_secs(3) {
        let before_ns = clock::now_ns();
        instant!("clocks", "between", number = around_ns.len());
        around_ns.push((before_ns, clock::now_ns()));
        // Some events follow at once, some after a pause without events.
        if around_ns.len().is_multiple_of(4) {
            thread::sleep(Duration::from_micros(500));
        }
    }
    let verdict = verdict(session);
    let mut count = 0;
    for event in verdict.events_named("between") {
        let (before_ns, after_ns) = around_ns[number_of(event) as usize];
        let possible = before_ns - BOUND_NS..=after_ns + BOUND_NS;
        assert!(
            possible.contains(&event.timestamp_ns),
            "{possible:?}: {event:?}"
        );
        count += 1;
    }
    assert_eq!(count, around_ns.len());
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
        // Play at least 1,000 rounds and for at least 100 ms: some machines play many more rounds
        // in 100 ms, others take much longer for 1,000 rounds. In 100 ms, the conversion from
        // counter values to times changes several times.
        let started = Instant::now();
        while number < 1_000 || started.elapsed() < Duration::from_millis(100) {
            instant!("clocks", "ball", number = number);
            to_other.send(number + 1).unwrap();
            number = from_other.recv().unwrap();
        }
        drop(to_other);
    });
    let verdict = verdict(session);
    let mut balls: Vec<_> = verdict.events_named("ball").collect();
    assert!(balls.len() >= 1_000);
    balls.sort_by_key(|event| number_of(event));
    assert!(balls.is_sorted_by_key(|event| event.timestamp_ns));
}

#[test]
fn events_stay_ordered_while_the_clock_changes() {
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
