//! Nested captures, and spans that begin in one capture and end in another.

use std::thread;

use tracezero::testing::{CaptureHandle, Event, Trace, capture};
use tracezero::{Track, instant, span};

fn names(trace: &Trace) -> Vec<&str> {
    trace.assert_no_loss().assert_well_formed();
    let mut names: Vec<_> = trace.spans().chain(trace.instants()).collect();
    names.sort_by_key(|event| event.start_ns());
    names.into_iter().map(Event::name).collect()
}

#[test]
fn an_inner_capture_takes_over_until_it_ends() {
    let outer = capture();
    instant!("test", "before");
    let inner = capture();
    assert_eq!(CaptureHandle::current(), Some(inner.handle()));
    instant!("test", "inside");
    assert_eq!(names(&inner.finish()), ["inside"]);
    assert_eq!(CaptureHandle::current(), Some(outer.handle()));
    instant!("test", "after");
    assert_eq!(names(&outer.finish()), ["before", "after"]);
    assert_eq!(CaptureHandle::current(), None);
}

#[test]
fn guards_may_go_in_any_order() {
    let (one, two) = (capture(), capture());
    let (first, second) = (one.handle(), two.handle());
    thread::spawn(move || {
        let to_first = first.attach();
        let to_second = second.attach();
        drop(to_first);
        instant!("test", "second");
        let to_first = first.attach();
        drop(to_second);
        instant!("test", "first");
        drop(to_first);
        instant!("test", "nobody");
    })
    .join()
    .unwrap();
    assert_eq!(names(&two.finish()), ["second"]);
    assert_eq!(names(&one.finish()), ["first"]);
}

#[test]
fn an_outer_capture_may_end_first() {
    let outer = capture();
    let inner = capture();
    assert_eq!(names(&outer.finish()), [""; 0]);
    instant!("test", "inside");
    assert_eq!(names(&inner.finish()), ["inside"]);
    assert_eq!(CaptureHandle::current(), None);
}

#[test]
fn a_span_ends_in_the_capture_that_it_began_in() {
    let before = span!("test", "before all");
    let outer = capture();
    drop(before);
    let of_outer = span!("test", "outer");
    let inner = capture();
    let of_inner = span!("test", "inner");
    drop(of_outer);
    let inner = {
        let handle = inner.handle();
        let trace = thread::spawn(move || {
            let attached = handle.attach();
            let of_thread = span!("test", "of thread");
            drop(attached);
            drop(of_thread);
        });
        trace.join().unwrap();
        drop(of_inner);
        inner.finish()
    };
    let after = span!("test", "after");
    let mut expected = names(&inner);
    expected.sort_unstable();
    assert_eq!(expected, ["inner", "of thread"]);
    drop(after);
    assert_eq!(names(&outer.finish()), ["outer", "after"]);
}

#[test]
fn a_span_of_no_capture_ends_in_none() {
    let capture = capture();
    let handle = capture.handle();
    thread::spawn(move || {
        let free = span!("test", "free");
        let _attached = handle.attach();
        let captured = span!("test", "captured");
        drop(free);
        instant!("test", "inside");
        drop(captured);
    })
    .join()
    .unwrap();
    let trace = capture.finish();
    assert_eq!(names(&trace), ["captured", "inside"]);
    trace.instant("inside").once().assert_inside("captured");
}

#[test]
fn a_span_on_a_track_ends_in_its_capture_from_any_thread() {
    let capture = capture();
    let span = span!("test", "request", track: &Track::unique("requests"));
    thread::spawn(move || drop(span)).join().unwrap();
    assert_eq!(names(&capture.finish()), ["request"]);
}
