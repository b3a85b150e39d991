//! How captures end, and threads that continue after the end.

use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tracezero::testing::{CaptureHandle, capture};
use tracezero::{instant, span};

#[test]
fn threads_may_keep_writing_after_capture_ends() {
    const WRITERS: usize = 4;
    /// The number of spans that each writer begins at least before the capture ends, and again
    /// after that.
    const SPANS: u64 = 1_000;
    /// The number of spans after which writers slow down, so that the ring holds all spans even if
    /// the capture ends late.
    const FAST_SPANS: u64 = 10_000;
    let stop = Arc::new(AtomicBool::new(false));
    let written: Arc<[AtomicU64; WRITERS]> = Arc::default();
    // Relaxed, here and in the writers: the counts order no other memory.
    let counts = || (*written).each_ref().map(|it| it.load(Ordering::Relaxed));
    let wait_for_more_than = |before: [u64; WRITERS]| {
        while !counts()
            .iter()
            .zip(before)
            .all(|(now, then)| *now > then + SPANS)
        {
            thread::yield_now();
        }
    };
    let capture = capture();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (stop, written) = (Arc::clone(&stop), Arc::clone(&written));
            capture.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let count = written[writer].fetch_add(1, Ordering::Relaxed);
                    let _span = span!("test", "write", count = count);
                    if count > FAST_SPANS {
                        thread::sleep(Duration::from_micros(100));
                    }
                }
                // The capture is over, but the guard still exists.
                CaptureHandle::current()
            })
        })
        .collect();
    wait_for_more_than([0; WRITERS]);
    let trace = capture.finish();
    instant!("test", "after");
    wait_for_more_than(counts());
    // Relaxed: a flag that orders no other memory.
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        assert_eq!(writer.join().unwrap(), None);
    }
    // A thread may have an unfinished packet when the capture ends.
    let losses = trace.report().unwrap().losses;
    assert_eq!(losses.total(), losses.unfinished, "{losses}");
    trace.span("write").at_least(WRITERS * SPANS as usize);
    trace.instant("after").never();
}

#[test]
fn a_capture_that_is_dropped_is_over() {
    let dropped = capture();
    let handle = dropped.handle();
    drop(dropped);
    assert_eq!(CaptureHandle::current(), None);
    let _attached = handle.attach();
    instant!("test", "nowhere");
    // The dropped capture does not affect a new capture.
    let capture = capture();
    instant!("test", "here");
    let trace = capture.finish();
    assert_eq!(trace.instants().count(), 1);
}

#[test]
fn a_test_that_panics_ends_its_capture_and_spans() {
    let outer = capture();
    let panicked = panic::catch_unwind(|| {
        let _inner = capture();
        let _span = span!("test", "of the inner one");
        panic!("as a test does that fails");
    });
    assert!(panicked.is_err());
    let panicked = panic::catch_unwind(|| {
        let _span = span!("test", "of the outer one");
        panic!("as a test does that expects it");
    });
    assert!(panicked.is_err());
    let trace = outer.finish();
    trace.assert_no_loss().assert_well_formed();
    trace.span("of the inner one").never();
    trace.span("of the outer one").once().assert_has_ended();
}

#[test]
fn a_thread_that_has_ended_is_in_the_trace() {
    let capture = capture();
    for number in 0..100 {
        let spawned = capture.spawn(move || drop(span!("test", "short", number = number)));
        spawned.join().unwrap();
    }
    let trace = capture.finish();
    trace.assert_no_loss().assert_well_formed();
    trace.span("short").times(100);
}

#[test]
fn trace_has_events_of_thread_inside_open_span() {
    let capture = capture();
    let (tell, told) = mpsc::channel();
    let (let_go, wait) = mpsc::channel::<()>();
    let sits = capture.spawn(move || {
        let _span = span!("test", "sits");
        instant!("test", "waits");
        tell.send(()).unwrap();
        let _ = wait.recv();
    });
    told.recv().unwrap();
    let trace = capture.finish();
    drop(let_go);
    sits.join().unwrap();
    trace.assert_no_loss();
    assert_eq!(trace.span("sits").once().single().duration(), None);
    trace.instant("waits").once().assert_inside("sits");
}
