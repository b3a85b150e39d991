//! Outlines: texts for snapshot tests.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::{future, mem, thread};

use tracezero::testing::{CaptureHandle, Trace, capture};
use tracezero::{
    CounterTrack, TraceFuture as _, Track, async_span, begin, counter, debug, dict, instant, span,
    trace,
};

#[derive(Debug)]
struct Key(#[expect(dead_code, reason = "it is printed")] u32);

fn outline_of(work: impl FnOnce()) -> String {
    let capture = capture();
    work();
    let trace = capture.finish();
    trace.assert_no_loss();
    let outline = trace.outline();
    // The outline is equal if the trace is read from bytes.
    assert_eq!(
        Trace::read(trace.bytes())
            .unwrap()
            .outline()
            .lines()
            .count(),
        outline.lines().count()
    );
    outline
}

#[test]
fn an_outline_is_what_happened_without_times_and_ids() {
    let outline = outline_of(|| {
        for key in ["a", "b", "b"] {
            let _read = span!("io", "read", key = key, hit = key == "a", share = 0.5);
            for _ in 0..2 {
                drop(span!(
                    "io",
                    "disk_read",
                    request = dict(|dict| {
                        dict.add("path", "/");
                        dict.add("sizes", &[1_u64, 2]);
                    })
                ));
            }
            instant!("io", "done", key = debug(&Key(3)));
        }
        for value in [1, 2, 1, 0] {
            counter!("io", "queue", value);
        }
        counter!("io", &CounterTrack::new("a load"), 0.25);
        drop(span!("io", "job", track: &Track::new("jobs")));
        instant!("io", "for all", track: &Track::process());
        begin!("io", "never ends");
    });
    let expected = r#"this thread
  read key="a" hit=true share=0.5
    disk_read request={path="/", sizes=[1, 2]} x2
    * done key="Key(3)"
  read key="b" hit=false share=0.5 x2
    disk_read request={path="/", sizes=[1, 2]} x2
    * done key="Key(3)"
  never ends (not ended)
process
  * for all
track "jobs"
  job
counter "a load": 0.25
counter "queue": 1 2 1 0
"#;
    assert_eq!(outline, expected);
}

#[test]
fn an_outline_does_not_depend_on_which_thread_came_first() {
    let expected = r#"this thread
  * started
thread
  * unnamed
thread "odd"
  work number=1
    step
thread "worker" x3
  work
    step
"#;
    for turn in 0..20 {
        let outline = outline_of(|| {
            let handle = tracezero::testing::CaptureHandle::current().unwrap();
            instant!("test", "started");
            thread::scope(|scope| {
                let mut names = vec!["worker", "worker", "odd", "worker", ""];
                names.rotate_left(turn % 5);
                for name in names {
                    let work = handle.wrap(move || {
                        let _work = match name {
                            "" => return instant!("test", "unnamed"),
                            "odd" => span!("test", "work", number = 1),
                            _ => span!("test", "work"),
                        };
                        drop(span!("test", "step"));
                    });
                    let thread = match name {
                        "" => thread::Builder::new(),
                        name => thread::Builder::new().name(name.to_owned()),
                    };
                    thread.spawn_scoped(scope, work).unwrap();
                }
            });
        });
        // A thread without a name may get the name of its process or of its parent.
        assert_eq!(without_inherited_name(&outline), expected);
    }
}

/// Replaces names that the system gave to threads without a name.
fn without_inherited_name(outline: &str) -> String {
    let line = |line: &str| {
        let is_known = ["thread \"odd\"", "thread \"worker\""]
            .iter()
            .any(|it| line.starts_with(it));
        let line = if line.starts_with("thread") && !is_known {
            "thread"
        } else {
            line
        };
        format!("{line}\n")
    };
    outline.lines().map(line).collect()
}

#[test]
fn packets_with_a_schema_of_their_own_are_counted() {
    use tracezero::{DataSource, data_source};

    struct Outlined;
    data_source!(Outlined, "com.example.outlined");

    let outline = outline_of(|| {
        for _ in 0..3 {
            Outlined::trace(|cx| {
                cx.packet(|packet| {
                    packet.for_testing(|event| {
                        event.set_str("beat");
                    });
                });
            });
        }
    });
    assert!(outline.contains("packets with field 900: 3\n"), "{outline}");
}

#[test]
fn a_trace_without_events_has_an_empty_outline() {
    assert_eq!(outline_of(|| ()), "");
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

#[trace("test", args(url))]
async fn fetch(url: &str) {
    drop(span!("test", "parse"));
    pause().await;
    instant!("test", "received");
}

#[trace("test")]
async fn fetch_all() {
    fetch("/b").await;
    instant!("test", "in between");
    fetch("/a").await;
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls tasks until all are ready. Each step polls the `turn`-th of the tasks that are left, on a
/// new thread or on this one.
fn run(mut tasks: Vec<Task>, mut turn: usize) {
    let handle = CaptureHandle::current().unwrap();
    while !tasks.is_empty() {
        let index = turn % tasks.len();
        let task = &mut tasks[index];
        let mut poll = move || {
            let context = &mut Context::from_waker(Waker::noop());
            task.as_mut().poll(context).is_ready()
        };
        let is_done = match turn % 3 {
            0 => poll(),
            _ => thread::scope(|scope| handle.spawn_scoped(scope, poll).join().unwrap()),
        };
        if is_done {
            drop(tasks.remove(index));
        }
        turn = turn * 5 / 3 + 1;
        turn %= 1000;
    }
}

#[test]
fn outline_of_futures_is_independent_of_polling_threads() {
    let expected = r#"this thread
  * started
track "fetch_all" x3
  fetch_all
    fetch url="/b"
      parse
      * received
    * in between
    fetch url="/a"
      parse
      * received
"#;
    for turn in 0..20 {
        let outline = outline_of(|| {
            instant!("test", "started");
            let task = || -> Task { Box::pin(fetch_all()) };
            run(vec![task(), task(), task()], turn);
        });
        assert_eq!(outline, expected, "{turn}");
    }
}

#[test]
fn spawned_tasks_come_last_in_their_future() {
    let expected = r#"track "parent"
  parent
    * started
    fetch url="/awaited"
      parse
      * received
    fetch url="/a"
      parse
      * received
    fetch url="/b" x2
      parse
      * received
"#;
    for turn in 0..20 {
        let outline = outline_of(|| {
            let tasks: RefCell<Vec<Task>> = RefCell::default();
            let mut parent = Box::pin(
                async {
                    // A task's place in the outline is where it is created.
                    tasks.borrow_mut().extend(["/b", "/a", "/b"].map(|url| {
                        let task = async move {
                            drop(span!("test", "parse"));
                            pause().await;
                            instant!("test", "received");
                        };
                        let span = async_span!("test", "fetch", url = url);
                        Box::pin(task.traced(span)) as Task
                    }));
                    instant!("test", "started");
                    fetch("/awaited").await;
                    pause().await;
                }
                .traced(async_span!("test", "parent")),
            );
            let context = &mut Context::from_waker(Waker::noop());
            for _ in 0..2 {
                assert!(parent.as_mut().poll(context).is_pending());
            }
            run(tasks.take(), turn);
            assert!(parent.as_mut().poll(context).is_ready());
        });
        assert_eq!(outline, expected, "{turn}");
    }
}

#[test]
fn outline_keeps_open_spans_in_place() {
    let capture = capture();
    let mut task: Task = Box::pin(fetch_all());
    let context = &mut Context::from_waker(Waker::noop());
    assert!(task.as_mut().poll(context).is_pending());
    assert!(task.as_mut().poll(context).is_pending());
    let trace = capture.finish();
    drop(task);
    let expected = r#"track "fetch_all"
  fetch_all (not ended)
    fetch url="/b"
      parse
      * received
    * in between
    fetch url="/a" (not ended)
      parse
"#;
    assert_eq!(trace.outline(), expected);
}

#[test]
fn task_that_outlives_its_parent_has_its_own_track() {
    let outline = outline_of(|| {
        let task: RefCell<Option<Task>> = RefCell::default();
        let parent = async {
            let span = async_span!("test", "child");
            let mut child: Task = Box::pin(pause().traced(span));
            assert!(
                future::poll_fn(|context| Poll::Ready(child.as_mut().poll(context).is_pending()))
                    .await
            );
            *task.borrow_mut() = Some(child);
        };
        let mut parent = Box::pin(parent.traced(async_span!("test", "parent")));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(parent.as_mut().poll(context).is_ready());
        run(vec![task.take().unwrap()], 0);
    });
    let expected = r#"track "parent"
  parent
  track "child"
    child
"#;
    assert_eq!(outline, expected);
}

#[test]
fn slice_with_flow_is_a_poll_only_while_its_span_is_open() {
    let outline = outline_of(|| {
        let (flow, track) = (tracezero::Flow::new(), Track::new("jobs"));
        let job = span!("test", "job", track: &track, flow: &flow);
        {
            let _poll = span!("test", "job", flow: &flow);
            drop(span!("test", "step", flow: &flow));
        }
        drop(job);
        drop(span!("test", "job", flow: &flow));
    });
    let expected = r#"this thread
  job
track "jobs"
  job
    step
"#;
    assert_eq!(outline, expected);
}

#[test]
fn events_in_a_poll_after_the_future_are_on_the_thread() {
    let outline = outline_of(|| {
        let (flow, track) = (tracezero::Flow::new(), Track::new("jobs"));
        let job = span!("test", "job", track: &track, flow: &flow);
        let _poll = span!("test", "job", flow: &flow);
        drop(job);
        instant!("test", "late");
    });
    assert_eq!(outline, "this thread\n  * late\ntrack \"jobs\"\n  job\n");
}

/// Creates a task that ends after the tasks that it spawned. Each of them spawns another one,
/// except the last.
fn chain(length: u32, spawned: &Arc<Mutex<Vec<Task>>>) -> Task {
    let spawned = Arc::clone(spawned);
    let task = async move {
        if let Some(length) = length.checked_sub(1) {
            let next = chain(length, &spawned);
            spawned.lock().unwrap().push(next);
            return pause().await;
        }
        let spans: Vec<_> = (0..500).map(|_| span!("test", "step")).collect();
        spans.into_iter().rev().for_each(drop);
    };
    Box::pin(task.traced(async_span!("test", "task")))
}

#[test]
fn too_deep_future_is_counted_in_its_parent() {
    let outline = outline_of(|| {
        let spawned = Arc::default();
        let mut tasks = vec![chain(20, &spawned)];
        let context = &mut Context::from_waker(Waker::noop());
        while let Some(newest) = tasks.last_mut() {
            if newest.as_mut().poll(context).is_ready() {
                tasks.pop();
            }
            tasks.append(&mut spawned.lock().unwrap());
        }
    });
    let lines = |text: &str| outline.lines().filter(|line| line.trim() == text).count();
    // The last task and the steps in it have 501 levels. An outline shows at most 512 levels, so
    // the last 12 tasks are left out.
    assert_eq!(
        (lines("task"), lines(".. task x1")),
        (21 - 12, 1),
        "{outline}"
    );
    assert_eq!(lines("step"), 0);
}

#[test]
fn future_without_parent_track_is_where_it_was_first_polled() {
    let outline = outline_of(|| {
        let made_before: Task = Box::pin(fetch("/b"));
        let outer = async {
            made_before.await;
            fetch("/a").await;
        };
        let _main = span!("test", "main");
        run(
            vec![Box::pin(outer.traced(async_span!("test", "outer")))],
            0,
        );
    });
    let expected = r#"this thread
  main
    outer
      fetch url="/b"
        parse
        * received
      fetch url="/a"
        parse
        * received
"#;
    assert_eq!(outline, expected);
}
