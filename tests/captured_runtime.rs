//! Runtimes whose threads join a capture when they start.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::mem;

use tokio::runtime::{Builder, Runtime};
use tracezero::testing::{Trace, capture};
use tracezero::{CaptureHandle, TraceFuture as _, async_span, instant, span, trace};

const TASKS: usize = 50;

/// Builds a runtime as a library does, without knowing about tests.
fn runtime() -> Runtime {
    let capture = CaptureHandle::current();
    Builder::new_multi_thread()
        .worker_threads(4)
        .on_thread_start(move || mem::forget(capture.map(CaptureHandle::attach)))
        .build()
        .unwrap()
}

#[trace("jobs", args(number))]
async fn job(number: usize) {
    tokio::task::yield_now().await;
    instant!("jobs", "in a task");
    let blocking = move || drop(span!("jobs", "blocking", number));
    tokio::task::spawn_blocking(blocking).await.unwrap();
}

async fn do_all() {
    let spawn = |number| tokio::spawn(job(number));
    let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn assert_is_whole(trace: &Trace) {
    trace.assert_no_loss().assert_well_formed();
    trace.span("job").times(TASKS).assert_has_ended();
    trace.instant("in a task").times(TASKS).assert_inside("job");
    trace.span("blocking").times(TASKS);
    for number in 0..TASKS {
        trace.span("job").arg("number", number as u64).once();
        trace.span("blocking").arg("number", number as u64).once();
    }
}

#[test]
fn all_threads_of_a_runtime_are_attached_when_they_start() {
    let capture = capture();
    let runtime = runtime();
    runtime.block_on(do_all().traced(async_span!("jobs", "all")));
    drop(runtime);
    let trace = capture.finish();
    assert_is_whole(&trace);
    trace.span("all").once().assert_has_ended();
}

#[test]
fn a_test_attaches_the_threads_of_a_runtime_that_it_builds() {
    let capture = capture();
    let handle = capture.handle();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(move || mem::forget(handle.attach()))
        .build()
        .unwrap();
    runtime.block_on(do_all());
    // The threads still run, and are attached.
    let trace = capture.finish();
    assert_is_whole(&trace);

    // They belong to no capture now, until a task is wrapped by one.
    let later = self::capture();
    runtime.block_on(do_all());
    let wrapped = later.handle().wrap_future(job(7));
    runtime.block_on(runtime.spawn(wrapped)).unwrap();
    drop(runtime);
    let trace = later.finish();
    trace.assert_no_loss().assert_well_formed();
    trace.span("job").once().assert_arg("number", 7);
    trace.instant("in a task").once();
    trace.span("blocking").never();
}

#[test]
fn runtimes_of_tests_that_run_at_once_see_nothing_of_each_other() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(all_threads_of_a_runtime_are_attached_when_they_start);
        }
    });
}

#[test]
fn without_a_capture_there_is_nothing_to_attach_to() {
    assert_eq!(CaptureHandle::current(), None);
    runtime().block_on(do_all());
}
