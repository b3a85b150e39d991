//! Many tasks on the threads of a runtime: tasks move between threads, are cancelled, or never end.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use judge::async_spans_named;
use support::alone;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{self, JoinSet};
use tokio::time;
use tracezero::reader::{Outline, TraceReader};
use tracezero::{InMemorySession, TraceFuture as _, async_span, instant, span, trace};

use crate::endless::endless;
use crate::recording::recorded;
use crate::wandering::wander;

const TASKS: u32 = 200;
/// The number of tasks that continue until one of them has moved to another thread.
const WANDERERS: u32 = 8;
const STEPS: u32 = 10;

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(4)
        .thread_name("worker")
        .enable_time();
    builder.build().unwrap()
}

#[trace("test", args(step))]
async fn step(step: u32) {
    drop(span!("test", "work"));
    task::yield_now().await;
}

async fn steps() {
    for number in 0..STEPS {
        step(number).await;
        if number == STEPS / 2 {
            time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[test]
fn tasks_that_wander_between_the_threads_of_a_runtime_are_whole() {
    let verdict = recorded(|| {
        let runtime = runtime();
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            let has_wandered = Arc::default();
            for number in 0..TASKS {
                let has_wandered = Arc::clone(&has_wandered);
                let task = async move {
                    steps().await;
                    if number < WANDERERS {
                        wander(has_wandered).await;
                    }
                };
                tasks.spawn(task.traced(async_span!("test", "task", number)));
            }
            tasks.join_all().await;
        });
    });
    assert!(verdict.open_spans.is_empty());
    let (tasks, steps) = (
        async_spans_named(&verdict, "task"),
        async_spans_named(&verdict, "step"),
    );
    assert_eq!(tasks.len(), TASKS as usize);
    assert_eq!(steps.len(), (TASKS * STEPS) as usize);
    // A task is polled first, and again after each step, which yields once. The sleep need not add
    // a poll: it may be over before its first poll.
    let polls = STEPS as usize + 1;
    assert!(tasks.iter().all(|task| task.polls.len() >= polls));
    assert!(steps.iter().all(|step| step.polls.len() == 2));
    let has_wandered = |polls: &[judge::Slice]| {
        let tracks: HashSet<u64> = polls.iter().map(|poll| poll.begin.track_uuid).collect();
        tracks.len() > 1
    };
    assert!(tasks.iter().any(|task| has_wandered(&task.polls)));
}

#[test]
fn tasks_that_are_aborted_time_out_or_never_end_are_told_apart() {
    let verdict = recorded(|| {
        let runtime = runtime();
        runtime.block_on(async {
            for _ in 0..10 {
                let (endless, polls) = endless(0);
                let aborted = task::spawn(endless.traced(async_span!("test", "aborted")));
                polls.reach(1).await;
                aborted.abort();
                assert!(aborted.await.unwrap_err().is_cancelled());
            }
            let late = endless(0).0.traced(async_span!("test", "late"));
            assert!(time::timeout(Duration::from_millis(1), late).await.is_err());
            let (endless, polls) = endless(0);
            task::spawn(endless.traced(async_span!("test", "endless")));
            polls.reach(1).await;
            let failing = async { panic!("on purpose") };
            let failed = task::spawn(failing.traced(async_span!("test", "failed")));
            assert!(failed.await.unwrap_err().is_panic());
        });
        // Dropping the runtime ends the task.
        runtime
    });
    let aborted = async_spans_named(&verdict, "aborted");
    assert_eq!(aborted.len(), 10);
    for cancelled in aborted.iter().chain(&async_spans_named(&verdict, "late")) {
        assert_eq!(cancelled.slice.end_args(), ["cancelled"]);
    }
    let [failed] = &async_spans_named(&verdict, "failed")[..] else {
        panic!("{verdict:?}")
    };
    assert_eq!(failed.slice.end_args(), ["panicked"]);
    let [endless] = &async_spans_named(&verdict, "endless")[..] else {
        panic!("{verdict:?}")
    };
    assert!(endless.slice.end.is_none());
}

#[test]
fn an_outline_tells_nothing_of_the_threads_that_tasks_ran_on() {
    let outline = || {
        let _guard = alone();
        let session = InMemorySession::start().unwrap();
        let all = async {
            let mut tasks = JoinSet::new();
            for number in 0..20 {
                let task = async move {
                    step(number % 2).await;
                    instant!("test", "half-way");
                    step(2).await;
                };
                tasks.spawn(task.traced(async_span!("test", "task")));
            }
            step(3).await;
            tasks.join_all().await;
        };
        runtime().block_on(all.traced(async_span!("test", "all")));
        let (trace, _) = session.finish();
        let mut reader = TraceReader::new(trace.as_slice());
        Outline::read(&mut reader).unwrap().to_string()
    };
    let expected = "\
track \"all\"
  all
    step step=3
      work
    task x10
      step step=0
        work
      * half-way
      step step=2
        work
    task x10
      step step=1
        work
      * half-way
      step step=2
        work
";
    for _ in 0..20 {
        assert_eq!(outline(), expected);
    }
}
