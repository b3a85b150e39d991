//! Spans of the `tracing` crate in captures.

use std::future;
use std::task::{Context, Poll, Waker};
use std::thread;

use tracezero::testing::{Event, Trace, capture};
use tracezero::{TracingLayer, layer};
use tracing::{Instrument as _, info_span, subscriber};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;

/// Has spans of this thread go through `layer` meanwhile.
fn with<R>(layer: TracingLayer, work: impl FnOnce() -> R) -> R {
    subscriber::with_default(registry().with(layer), work)
}

fn names(trace: &Trace) -> Vec<&str> {
    trace.assert_no_loss().assert_well_formed();
    trace.spans().map(Event::name).collect()
}

#[test]
fn a_span_that_is_split_goes_on_in_the_capture_that_it_began_in() {
    let (outer_trace, inner_trace) = with(layer(), || {
        let outer = capture();
        let around = info_span!("around").entered();
        let inside = info_span!("inside").entered();
        let inner = capture();
        drop(around);
        let inner_trace = inner.finish();
        drop(inside);
        (outer.finish(), inner_trace)
    });
    assert_eq!(names(&inner_trace), [""; 0]);
    assert_eq!(names(&outer_trace), ["around", "inside", "inside"]);
}

#[test]
fn a_span_that_is_split_goes_on_by_its_name() {
    let trace = with(layer().name_fields(["system"]), || {
        let capture = capture();
        let around = info_span!("around").entered();
        let inside = info_span!("run", system = "physics").entered();
        drop(around);
        drop(inside);
        capture.finish()
    });
    trace.span("run{system=physics}").times(2).has_ended();
    assert_eq!(names(&trace).len(), 3);
}

#[test]
fn a_future_goes_on_in_the_capture_that_it_began_in() {
    let (outer_trace, inner_trace) = with(layer(), || {
        let mut polls = 0;
        let third_time = future::poll_fn(move |_| {
            polls += 1;
            if polls == 3 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        let outer = capture();
        // Known to be asynchronous from its second poll on.
        let mut future = Box::pin(third_time.instrument(info_span!("whole")));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(context).is_pending());
        assert!(future.as_mut().poll(context).is_pending());
        let inner = capture();
        let polled = info_span!("inside").in_scope(|| future.as_mut().poll(context));
        assert!(polled.is_ready());
        let inner_trace = inner.finish();
        drop(future);
        (outer.finish(), inner_trace)
    });
    assert_eq!(names(&inner_trace), ["inside", "whole"]);
    outer_trace.assert_no_loss().assert_well_formed();
    let whole = outer_trace.span("whole").has_ended().all();
    let lives = whole.iter().filter(|span| span.thread().is_none());
    assert_eq!(lives.count(), 1);
}

#[test]
fn spans_may_nest_deeper_than_the_stack() {
    const DEPTH: usize = 4_000;
    let work = || {
        with(layer(), || {
            let capture = capture();
            let around: Vec<_> = (0..DEPTH).map(|_| info_span!("around").entered()).collect();
            // Asynchronous: those around it may be as well.
            let inside = info_span!("inside");
            inside.in_scope(|| ());
            inside.in_scope(|| ());
            drop(inside);
            // From the inside out.
            around.into_iter().rev().for_each(drop);
            capture.finish()
        })
    };
    let thread = thread::Builder::new().stack_size(512 * 1024);
    let trace = thread.spawn(work).unwrap().join().unwrap();
    trace.assert_no_loss().assert_well_formed();
    let lives = trace.span("inside").all();
    assert_eq!(lives.iter().filter(|it| it.thread().is_none()).count(), 1);
}
