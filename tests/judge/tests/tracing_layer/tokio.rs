//! Many tasks on the threads of a runtime: tasks move between threads, are cancelled, or never end.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use judge::{AsyncSpan, async_spans_named};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{self, JoinSet};
use tokio::time;
use tracezero::InMemorySession;
use tracezero::reader::{Outline, TraceReader};
use tracing::{Instrument as _, info, info_span, instrument};

use crate::endless::endless;
use crate::recording::{alone, recorded};
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

#[instrument]
async fn step(number: u32) {
    info!("work");
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
                tasks.spawn(task.instrument(info_span!("task", number)));
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
    // a poll: it may be over before its first poll. `tracing` enters the span once more when the
    // task is dropped, which counts as a poll.
    let polls = STEPS as usize + 2;
    assert!(tasks.iter().all(|task| task.polls.len() >= polls));
    assert!(steps.iter().all(|step| step.polls.len() == 3));
    let has_wandered = |span: &AsyncSpan| {
        let tracks = span.polls.iter().map(|poll| poll.begin.track_uuid);
        tracks.collect::<HashSet<u64>>().len() > 1
    };
    assert!(tasks.iter().any(has_wandered));
    assert_eq!(verdict.events_named("work").count(), steps.len());
}

#[test]
fn tasks_that_are_aborted_or_never_end_are_told_apart() {
    let verdict = recorded(|| {
        let runtime = runtime();
        runtime.block_on(async {
            for _ in 0..10 {
                let (endless, polls) = endless(0);
                let aborted = task::spawn(endless.instrument(info_span!("aborted")));
                polls.reach(1).await;
                aborted.abort();
                assert!(aborted.await.unwrap_err().is_cancelled());
            }
            let (endless, polls) = endless(1);
            task::spawn(endless.instrument(info_span!("endless")));
            polls.reach(2).await;
            let failing = async {
                task::yield_now().await;
                panic!("on purpose")
            };
            let failed = task::spawn(failing.instrument(info_span!("failed")));
            assert!(failed.await.unwrap_err().is_panic());
        });
        // Dropping the runtime ends the task.
        runtime
    });
    let ended = |name| -> Vec<bool> {
        let spans = async_spans_named(&verdict, name);
        spans.iter().map(|it| it.slice.end.is_some()).collect()
    };
    assert_eq!(ended("aborted"), [true; 10]);
    assert_eq!(ended("failed"), [true]);
    assert_eq!(ended("endless"), [false]);
}

#[test]
fn an_outline_tells_nothing_of_the_threads_that_tasks_ran_on() {
    #[instrument]
    async fn half(number: u32) {
        task::yield_now().await;
        info!("work");
    }
    let outline = || {
        let _guard = alone();
        let session = InMemorySession::start().unwrap();
        let all = async {
            let mut tasks = JoinSet::new();
            for number in 0..20 {
                let task = async move {
                    half(number % 2).await;
                    half(2).await;
                };
                tasks.spawn(task.instrument(info_span!("part")));
            }
            half(3).await;
            tasks.join_all().await;
        };
        runtime().block_on(all.instrument(info_span!("all")));
        let (trace, _) = session.finish();
        let mut reader = TraceReader::new(trace.as_slice());
        Outline::read(&mut reader).unwrap().to_string()
    };
    // Registers the call sites.
    outline();
    let expected = "\
track \"all\"
  all
    half number=3
      * work level=\"INFO\"
    part x10
      half number=0
        * work level=\"INFO\"
      half number=2
        * work level=\"INFO\"
    part x10
      half number=1
        * work level=\"INFO\"
      half number=2
        * work level=\"INFO\"
";
    for _ in 0..20 {
        assert_eq!(outline(), expected);
    }
}
