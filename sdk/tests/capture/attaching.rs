//! Threads and tasks that are attached to a capture.

use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;

use tracezero::testing::{CaptureHandle, Event, capture};
use tracezero::{TraceFuture as _, Track, async_span, begin, end, instant, span};

#[test]
fn only_threads_that_are_attached_are_captured() {
    let capture = capture();
    let handle = capture.handle();
    thread::spawn(move || {
        instant!("test", "before");
        let attached = handle.attach();
        instant!("test", "attached");
        drop(attached);
        instant!("test", "after");
    })
    .join()
    .unwrap();
    instant!("test", "here");
    let trace = capture.finish();
    trace.assert_no_loss().assert_well_formed();
    let names: Vec<&str> = trace.instants().map(Event::name).collect();
    assert_eq!(names, ["attached", "here"]);
}

#[test]
fn threads_are_started_attached() {
    let capture = capture();
    let spawned = capture.spawn(|| {
        instant!("test", "spawned");
        CaptureHandle::current()
    });
    assert_eq!(spawned.join().unwrap(), Some(capture.handle()));
    thread::scope(|scope| {
        let scoped = capture.handle().spawn_scoped(scope, || {
            instant!("test", "scoped");
            7
        });
        assert_eq!(scoped.join().unwrap(), 7);
        scope.spawn(|| {
            let _attached = capture.attach();
            instant!("test", "by reference");
        });
        scope.spawn(|| instant!("test", "elsewhere"));
    });
    let trace = capture.finish();
    for name in ["spawned", "scoped", "by reference"] {
        trace.instant(name).once();
    }
    trace.instant("elsewhere").never();
}

#[test]
fn work_sent_to_a_pool_belongs_to_the_senders_capture() {
    let (send, receive) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    let pool = thread::spawn(move || receive.into_iter().for_each(|work| work()));
    thread::scope(|scope| {
        for number in 0..8 {
            let send = send.clone();
            scope.spawn(move || {
                let capture = capture();
                let (tell, told) = mpsc::channel();
                for job in 0..20 {
                    let tell = tell.clone();
                    let work = capture.handle().wrap(move || {
                        drop(span!("pool", "job", number = number, job = job));
                        tell.send(()).unwrap();
                    });
                    send.send(Box::new(work)).unwrap();
                }
                drop(tell);
                assert_eq!(told.iter().count(), 20);
                let trace = capture.finish();
                trace.assert_no_loss().assert_well_formed();
                trace.span("job").times(20).assert_arg("number", number);
            });
        }
    });
    drop(send);
    pool.join().unwrap();
}

#[test]
fn reattached_thread_continues_its_sequence() {
    let capture = capture();
    let handle = capture.handle();
    thread::spawn(move || {
        let work = |step: u32| {
            let _attached = handle.attach();
            instant!("test", "step", step = step);
            if step == 0 {
                begin!("test", "whole");
            }
            if step == 2 {
                end!("test");
            }
        };
        (0..3).for_each(|step| {
            work(step);
            instant!("test", "not captured");
        });
    })
    .join()
    .unwrap();
    let trace = capture.finish();
    trace.assert_no_loss().assert_well_formed();
    trace.span("whole").once().assert_has_ended();
    trace.instant("step").inside("whole").times(2);
    trace.instant("not captured").never();
    // One sequence: the names were defined only once.
    assert_eq!(trace.report().unwrap().sequences.len(), 1);
}

/// A future that is ready at its third poll, and traces when it is dropped.
struct Task {
    polls: u32,
    track: Track,
}

impl Future for Task {
    type Output = u32;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
        self.polls += 1;
        let polls = self.polls;
        drop(span!("task", "poll", track: &self.track, polls = polls));
        if polls == 3 {
            Poll::Ready(polls)
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        instant!("task", "gone");
    }
}

#[test]
fn a_future_is_captured_whichever_threads_poll_it() {
    let capture = capture();
    let task = Task {
        polls: 0,
        track: Track::unique("task"),
    };
    let mut future = Box::pin(capture.handle().wrap_future(task));
    for expected in [Poll::Pending, Poll::Pending, Poll::Ready(3)] {
        let poll = move || {
            let polled = future
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
            instant!("task", "not captured");
            (polled, future)
        };
        let polled = thread::spawn(poll).join().unwrap();
        future = polled.1;
        assert_eq!(polled.0, expected);
    }
    thread::spawn(move || drop(future)).join().unwrap();
    let trace = capture.finish();
    trace.assert_no_loss().assert_well_formed();
    trace.span("poll").on_track("task").times(3);
    trace.instant("gone").once();
    trace.instant("not captured").never();
}

#[test]
fn a_span_of_a_future_ends_in_the_capture_that_it_began_in() {
    let outer = capture();
    let task = Task {
        polls: 0,
        track: Track::unique("task"),
    };
    let mut future = Box::pin(task.traced(async_span!("task", "whole")));
    let context = &mut Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(context).is_pending());
    let inner = self::capture();
    assert!(future.as_mut().poll(context).is_pending());
    let inner_trace = inner.finish();
    assert!(future.as_mut().poll(context).is_ready());
    let trace = outer.finish();
    inner_trace.assert_no_loss().assert_well_formed();
    inner_trace.span("whole").once().assert_has_ended();
    trace.assert_no_loss().assert_well_formed();
    trace.span("whole").once().assert_has_ended();
    trace.polls("whole").times(2).assert_has_ended();

    // Ends one capture, so that a later capture takes its slot.
    let first = self::capture();
    let later = std::future::poll_fn(|_| Poll::<()>::Pending);
    let mut future = Box::pin(later.traced(async_span!("task", "goes on")));
    assert!(future.as_mut().poll(context).is_pending());
    drop(first);
    let second = self::capture();
    assert!(future.as_mut().poll(context).is_pending());
    drop(future);
    let trace = second.finish();
    trace.assert_no_loss().assert_well_formed();
    trace.span("goes on").once().assert_has_ended();
    trace.polls("goes on").once().assert_has_ended();
}

#[test]
fn a_span_of_a_future_is_captured_with_its_polls() {
    let capture = capture();
    let task = || Task {
        polls: 0,
        track: Track::unique("task"),
    };
    let captured = task().traced(async_span!("task", "whole", number = 1));
    let mut future = Box::pin(capture.handle().wrap_future(captured));
    let mut other = Box::pin(task().traced(async_span!("task", "not captured")));
    loop {
        let poll = move || {
            let mut context = Context::from_waker(Waker::noop());
            let polled = future.as_mut().poll(&mut context);
            assert_eq!(other.as_mut().poll(&mut context), polled);
            (polled, future, other)
        };
        let polled = thread::spawn(poll).join().unwrap();
        (future, other) = (polled.1, polled.2);
        if polled.0.is_ready() {
            break;
        }
    }
    let trace = capture.finish();
    trace.assert_no_loss().assert_well_formed();
    let whole = trace
        .span("whole")
        .arg("number", 1)
        .once()
        .assert_has_ended()
        .single();
    assert_eq!(whole.thread(), None);
    trace.polls("whole").times(3);
    trace.span("not captured").never();
}
