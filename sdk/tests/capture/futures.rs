//! Spans of futures, and their polls.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::{future, mem, thread};

use tracezero::testing::{CaptureHandle, Event, Trace, capture};
use tracezero::{TraceFuture as _, async_span, instant, span, trace};

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future until it is ready.
fn complete<R>(future: impl Future<Output = R>) -> R {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = poll_once(future.as_mut()) {
            return result;
        }
    }
}

/// Polls a future until it is ready, by turns on this thread and on other threads.
fn complete_on_many<R: Send>(future: impl Future<Output = R> + Send) -> R {
    let handle = CaptureHandle::current().unwrap();
    let mut future = pin!(future);
    loop {
        let future = &mut future;
        let poll = move || poll_once(future.as_mut());
        let polled = thread::scope(|scope| handle.spawn_scoped(scope, poll).join().unwrap());
        if let Poll::Ready(result) = polled {
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

#[trace("test", args(a, b), result)]
async fn add(a: u32, b: u32) -> u32 {
    pause().await;
    let _carry = span!("test", "carry");
    instant!("test", "added");
    a + b
}

#[trace("test")]
async fn add_later() -> u32 {
    pause().await;
    let sum = add(1, 2).await;
    instant!("test", "in between");
    add(sum, 3).await
}

fn captured(work: impl FnOnce()) -> Trace {
    let capture = capture();
    work();
    let trace = capture.finish();
    trace.assert_no_loss().assert_well_formed();
    trace
}

#[test]
fn a_future_is_one_span_and_has_its_polls_besides() {
    let trace = captured(|| assert_eq!(complete(add_later()), 6));
    trace.span("add_later").once();
    trace.span("add").times(2);
    trace
        .span("add")
        .arg("a", 3)
        .once()
        .assert_arg("b", 3)
        .assert_arg("result", 6);
    trace
        .polls("add_later")
        .times(4)
        .assert_on_thread("this thread");
    let polls = trace
        .polls("add")
        .times(4)
        .assert_inside("add")
        .assert_inside("add_later");
    assert!(polls.iter().all(|poll| poll.args().count() == 0));
    assert_eq!(trace.spans().filter(|it| it.name() == "add").count(), 2);
    let life = trace.span("add").arg("a", 1).once().single();
    assert_eq!(life.polls().count(), 2);
    assert!(
        life.polls()
            .all(|poll| poll.parent().unwrap().start_ns() == life.start_ns())
    );
}

#[test]
fn events_in_a_poll_are_inside_the_future() {
    let trace = captured(|| assert_eq!(complete_on_many(add_later()), 6));
    trace
        .span("carry")
        .times(2)
        .assert_directly_inside("add")
        .assert_inside("add_later");
    trace
        .instant("added")
        .times(2)
        .assert_directly_inside("carry")
        .assert_inside("add_later");
    trace
        .instant("in between")
        .once()
        .assert_directly_inside("add_later");
    let around = trace.instant("added").times(2).iter().next().unwrap();
    let names: Vec<_> = around.ancestors().map(Event::name).collect();
    assert_eq!(names, ["carry", "add", "add_later"]);
}

#[test]
fn a_future_is_inside_of_those_whose_tracks_are_above_its_own() {
    let trace = captured(|| assert_eq!(complete(add_later()), 6));
    trace.span("add_later").once().assert_at_top();
    trace
        .span("add")
        .on_track("add")
        .times(2)
        .assert_directly_inside("add_later");
    let life = trace.span("add_later").once().single();
    let inside: Vec<_> = life.children().map(Event::name).collect();
    assert_eq!(inside, ["add", "in between", "add"]);
}

#[test]
fn future_that_outlives_its_parent_is_at_top() {
    let trace = captured(|| {
        let mut task = None;
        let parent = async {
            let mut child = Box::pin(pause().traced(async_span!("test", "child")));
            assert!(poll_once(child.as_mut()).is_pending());
            task = Some(child);
        };
        complete(parent.traced(async_span!("test", "parent")));
        complete(task.unwrap());
    });
    trace.span("child").once().assert_at_top();
}

#[test]
fn slice_is_a_poll_only_of_an_open_span_of_its_name() {
    let trace = captured(|| {
        let flow = tracezero::Flow::new();
        let track = tracezero::Track::new("jobs");
        let job = span!("test", "job", track: &track, flow: &flow);
        drop(span!("test", "job", flow: &flow));
        drop(span!("test", "step", flow: &flow));
        drop(span!("test", "job"));
        drop(job);
        drop(span!("test", "job", flow: &flow));
    });
    trace.polls("job").once().assert_on_thread("this thread");
    trace.span("job").times(3);
    trace.span("step").once().assert_at_top();
    trace.polls("step").never();
}

#[test]
fn an_open_future_has_its_polls_and_what_is_inside() {
    let capture = capture();
    let mut task = Box::pin(add_later());
    for _ in 0..3 {
        assert!(poll_once(task.as_mut()).is_pending());
    }
    let trace = capture.finish();
    drop(task);
    trace.span("add").times(2).assert_inside("add_later");
    trace.polls("add_later").times(3);
    assert_eq!(trace.span("add_later").has_ended().all().len(), 0);
}

#[test]
fn future_without_parent_track_is_inside_its_first_poll() {
    let mut later = Box::pin(add_later());
    let trace = captured(|| {
        let made_before = add(1, 2);
        let outer = async { made_before.await + 1 };
        {
            let _main = span!("test", "main");
            assert_eq!(complete(outer.traced(async_span!("test", "outer"))), 4);
            assert!(poll_once(later.as_mut()).is_pending());
        }
        assert_eq!(complete(later.as_mut()), 6);
    });
    trace.span("outer").once().assert_directly_inside("main");
    trace
        .span("add")
        .arg("a", 1)
        .directly_inside("outer")
        .once();
    trace.instant("added").inside("main").once();
    // `later` was polled first inside `main`, but continued after `main` had ended.
    trace.span("add_later").once().assert_at_top();
}
