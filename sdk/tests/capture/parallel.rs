//! Captures that run in parallel.

use std::sync::Barrier;
use std::thread;

use tracezero::reader::TraceReader;
use tracezero::testing::{Trace, capture};
use tracezero::{InMemorySession, counter, instant, span};

/// So that the trace of a test is the same on every machine.
#[test]
fn captures_do_not_say_where_they_come_from() {
    tracezero::set_service("api", "1.2");
    let trace = capture().finish();
    let mut reader = TraceReader::new(trace.bytes());
    while reader.next().unwrap().is_some() {}
    assert_eq!(reader.identities(), []);
}

/// Records the events of one of many parallel captures.
fn work(number: u64, rounds: u64) {
    for round in 0..rounds {
        let _span = span!("work", "outer", number = number, round = round);
        let _inner = span!("work", "inner", number = number);
        counter!("work", "round", round);
        instant!("work", "done", number = number);
        thread::yield_now();
    }
}

/// Asserts that `trace` has the events of [`work`], and no others.
fn assert_is_work(trace: &Trace, number: u64, rounds: u64) {
    trace.assert_no_loss().assert_well_formed();
    let count = rounds as usize;
    trace.span("outer").arg("number", number).times(count);
    trace
        .span("inner")
        .directly_inside("outer")
        .arg("number", number)
        .times(count);
    trace
        .instant("done")
        .directly_inside("inner")
        .arg("number", number)
        .times(count);
    assert_eq!(trace.spans().count(), 2 * count);
    assert_eq!(trace.instants().count(), count);
    let values: Vec<f64> = (0..rounds).map(|round| round as f64).collect();
    assert_eq!(trace.counter("round").values(), values);
}

fn capture_work(number: u64, rounds: u64) {
    let capture = capture();
    work(number, rounds);
    assert_is_work(&capture.finish(), number, rounds);
}

/// Declares tests that the harness runs in parallel.
macro_rules! tests_at_once {
    ($($number:literal $name:ident)*) => {
        $(#[test]
        fn $name() {
            for round in 1..10 {
                capture_work($number, round);
            }
        })*
    };
}

#[rustfmt::skip]
mod at_once {
    use super::capture_work;

    tests_at_once! {
        0 t00 1 t01 2 t02 3 t03 4 t04 5 t05 6 t06 7 t07 8 t08 9 t09 10 t10 11 t11 12 t12 13 t13
        14 t14 15 t15 16 t16 17 t17 18 t18 19 t19 20 t20 21 t21 22 t22 23 t23 24 t24 25 t25 26 t26
        27 t27 28 t28 29 t29 30 t30 31 t31 32 t32 33 t33 34 t34 35 t35 36 t36 37 t37 38 t38 39 t39
        40 t40 41 t41 42 t42 43 t43 44 t44 45 t45 46 t46 47 t47 48 t48 49 t49 50 t50 51 t51 52 t52
        53 t53 54 t54 55 t55 56 t56 57 t57 58 t58 59 t59 60 t60 61 t61 62 t62 63 t63
    }
}

#[test]
fn threads_that_capture_at_once_see_their_own_events_alone() {
    const THREADS: u64 = 64;

    let all_capture = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let all_capture = &all_capture;
            scope.spawn(move || {
                let capture = capture();
                // Wait until all captures exist at once: there are more than slots for sessions.
                all_capture.wait();
                work(1000 + number, 50);
                all_capture.wait();
                assert_is_work(&capture.finish(), 1000 + number, 50);
            });
        }
    });
}

#[test]
fn a_session_records_what_is_captured_too() {
    let session = InMemorySession::start().unwrap();
    thread::scope(|scope| {
        for number in 2000..2008 {
            scope.spawn(move || {
                capture_work(number, 20);
                // These events belong to no capture.
                work(number, 20);
            });
        }
    });
    let (trace, report) = session.finish();
    // Threads of other tests may have an unfinished packet.
    let lost = report.losses.begun_packets() - report.losses.unfinished;
    assert_eq!(lost, 0, "{report}");
    let trace = Trace::read(trace).unwrap();
    for number in 2000..2008_u64 {
        trace
            .span("outer")
            .arg("number", number)
            .times(40)
            .assert_has_ended();
        trace
            .instant("done")
            .inside("outer")
            .arg("number", number)
            .times(40);
    }
}

#[test]
fn sessions_and_captures_start_and_end_while_others_go_on() {
    thread::scope(|scope| {
        for number in 3000..3004 {
            scope.spawn(move || {
                for _ in 0..50 {
                    capture_work(number, 3);
                }
            });
        }
        scope.spawn(|| {
            for number in 4000..4020_u64 {
                let session = InMemorySession::start().unwrap();
                work(number, 3);
                let trace = Trace::read(session.finish().0).unwrap();
                trace
                    .span("outer")
                    .arg("number", number)
                    .times(3)
                    .assert_has_ended();
            }
        });
    });
}
