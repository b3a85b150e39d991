//! Spans of the `tracing` crate in captures.

use std::future;
use std::mem;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use tracezero::testing::{Event, Trace, capture};
use tracezero::{InMemorySession, TracingLayer, layer};
use tracing::{Instrument as _, info_span, subscriber};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;

/// Runs `work` with `layer` as the layer of this thread.
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
    trace
        .span("run{system=physics}")
        .times(2)
        .assert_has_ended();
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
        // The layer knows from the second poll on that the span is asynchronous.
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
            // This span is asynchronous, so the spans around it might be, too.
            let inside = info_span!("inside");
            inside.in_scope(|| ());
            inside.in_scope(|| ());
            drop(inside);
            // Drops the innermost span first.
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

/// Polls a future until it is ready.
fn complete<R>(future: impl Future<Output = R>) -> R {
    let mut future = pin!(future);
    let context = &mut Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(context) {
            return result;
        }
    }
}

/// Is pending at its first poll, and ready at its second.
async fn pause() {
    let mut is_first = true;
    future::poll_fn(|_| match mem::take(&mut is_first) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}

/// Returns everything about the captured spans that must be equal in each run: all except times and
/// flow ids.
fn told(trace: &Trace) -> Vec<String> {
    let events = trace.spans();
    events
        .map(|event| {
            let args: Vec<_> = event.args().collect();
            let (thread, flows) = (event.thread().is_some(), event.flows().len());
            format!("{} {args:?} {thread} {flows}", event.name())
        })
        .collect()
}

#[test]
fn capture_is_independent_of_earlier_events() {
    let run = || {
        let entered_now_and_then = |number: u32, times| {
            let span = info_span!("span", number);
            (0..times).for_each(|_| span.in_scope(|| ()));
        };
        let capture = capture();
        for times in [1, 2, 1] {
            entered_now_and_then(1, times);
        }
        let outer = info_span!("outer", number = 2);
        complete(async { pause().instrument(info_span!("inner")).await }.instrument(outer));
        capture.finish()
    };
    with(layer(), || {
        let first = run();
        assert_eq!(told(&first), told(&run()));
        // The spans are the same during a session, and while other tests capture.
        let session = InMemorySession::start().unwrap();
        assert_eq!(told(&first), told(&run()));
        drop(session);
        for _ in 0..100 {
            assert_eq!(told(&first), told(&run()));
        }
    });
}

#[test]
fn only_the_first_slice_on_a_thread_has_arguments() {
    for _ in 0..2 {
        let trace = with(layer(), || {
            let capture = capture();
            complete(pause().instrument(info_span!("fetch", url = "/a")));
            capture.finish()
        });
        trace.span("fetch").once().assert_arg("url", "/a");
        let polls = trace.polls("fetch").times(3);
        let with_args: Vec<bool> = polls.iter().map(|it| it.arg("url").is_some()).collect();
        assert_eq!(with_args, [true, false, false]);
    }
}

#[test]
fn a_span_that_was_entered_before_the_capture_is_new_to_it() {
    let trace = with(layer(), || {
        let session = InMemorySession::start().unwrap();
        let span = info_span!("early", number = 1);
        span.in_scope(|| ());
        let capture = capture();
        span.in_scope(|| ());
        drop(span);
        drop(session);
        capture.finish()
    });
    trace.span("early").once().assert_arg("number", 1);
    assert_eq!(names(&trace), ["early"]);
}
