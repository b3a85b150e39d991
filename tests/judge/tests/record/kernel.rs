//! The kernel's half of a recording.

use std::collections::BTreeSet;

use judge::Verdict;
use perfetto_protos::ftrace_event::FtraceEvent;
use perfetto_protos::ftrace_event::ftrace_event::Event;
use perfetto_protos::thread_descriptor::ThreadDescriptor;
use perfetto_protos::trace_packet::trace_packet::Data;
use serde_json::Value;
use support::with_tracefs;

use crate::program::{SPANS, THREADS, command};
use crate::recording::{Recorded, Recording};

/// Makes tracefs available, as on machines where the system mounts it.
const MOUNT: &str =
    "mountpoint --quiet /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing";

/// Takes it away, as on machines where nobody mounts it, and in containers.
const UNMOUNT: &str = "umount /sys/kernel/tracing /sys/kernel/debug 2>/dev/null";

/// Records the program and the kernel. `None` if this user may not.
fn recorded(script: &str, options: &[&str]) -> Option<Recorded> {
    recorded_in_role("spans", script, options)
}

fn recorded_in_role(role: &str, script: &str, options: &[&str]) -> Option<Recorded> {
    let recording = Recording::start_after(script, options, &command(role))?;
    let recorded = recording.finish();
    assert_eq!(recorded.status.code(), Some(0), "{}", recorded.said);
    Some(recorded)
}

/// Returns the ids of threads that system calls were recorded of.
fn callers(verdict: &Verdict) -> BTreeSet<u32> {
    let packets = verdict.packets.iter();
    let bundles = packets.filter_map(|packet| match &packet.data {
        Some(Data::FtraceEvents(bundle)) => Some(bundle),
        _ => None,
    });
    let events = bundles.flat_map(|bundle| &bundle.event);
    let calls =
        events.filter(|it| matches!(it.event, Some(Event::SysEnter(_) | Event::SysExit(_))));
    calls.map(FtraceEvent::pid).collect()
}

/// Returns the ids of threads that the scheduler has switched to.
fn switched_to(verdict: &Verdict) -> BTreeSet<i32> {
    let packets = verdict.packets.iter();
    let bundles = packets.filter_map(|packet| match &packet.data {
        Some(Data::FtraceEvents(bundle)) => Some(bundle),
        _ => None,
    });
    let columns = bundles.filter_map(|bundle| bundle.compact_sched.as_ref());
    columns
        .flat_map(|columns| columns.switch_next_pid.clone())
        .collect()
}

/// Returns the ids of the threads that have recorded the program's spans.
fn threads_of_spans(verdict: &Verdict) -> BTreeSet<i32> {
    let descriptors = verdict
        .packets
        .iter()
        .filter_map(|packet| match &packet.data {
            Some(Data::TrackDescriptor(descriptor)) => descriptor.thread.as_ref(),
            _ => None,
        });
    let workers = descriptors.filter(|thread| thread.thread_name().starts_with("worker"));
    workers.map(ThreadDescriptor::tid).collect()
}

#[test]
fn program_and_kernel_are_in_one_trace() {
    with_tracefs(|| {
        let Some(recorded) = recorded(MOUNT, &["--kernel", "sched,syscalls"]) else {
            return;
        };
        let verdict = recorded.judged();
        let events = verdict.events_named("work").count();
        assert_eq!(events, THREADS * usize::try_from(SPANS).unwrap());
        let threads = threads_of_spans(&verdict);
        assert_eq!(threads.len(), THREADS);
        // Kernels in virtual machines leave out single switches, so not all of them.
        let switched_to = switched_to(&verdict);
        assert!(!threads.is_disjoint(&switched_to), "{}", recorded.said);
        let threads = threads.into_iter().map(i32::cast_unsigned).collect();
        assert!(callers(&verdict).is_superset(&threads));
        recorded.assert_says("60000 events of 1 process, ");
        recorded.assert_says("the kernel: ");
    });
}

#[test]
fn kernel_that_cannot_be_recorded_costs_nothing_else() {
    let Some(recorded) = recorded(UNMOUNT, &["--kernel", "sched"]) else {
        return;
    };
    let verdict = recorded.judged();
    assert!(switched_to(&verdict).is_empty());
    recorded.assert_says("run `mount -t tracefs nodev /sys/kernel/tracing` as root");
    recorded.assert_says("60000 events of 1 process, ");
}

#[test]
fn events_that_do_not_exist_are_named() {
    with_tracefs(|| {
        let options = ["--kernel", "sched,sched/no_such_event"];
        let Some(recorded) = recorded(MOUNT, &options) else {
            return;
        };
        recorded.assert_says(
            "the kernel: not recorded: sched/no_such_event: this kernel has no such event",
        );
    });
}

/// Records a program that waits for a known reason. Returns what `tracezero why` says of all its waits.
/// `None` if this user may not.
fn why(role: &str) -> Option<Value> {
    let recorded = recorded_in_role(role, MOUNT, &["--kernel", "sched,syscalls"])?;
    let answer: Value = serde_json::from_str(&recorded.asked(&["why", "--json", "wait"])).unwrap();
    let all = &answer["all"];
    let states = all["states_ns"].as_object().unwrap();
    let sum: u64 = states.values().map(|time| time.as_u64().unwrap()).sum();
    assert_eq!(Some(sum), all["total_ns"].as_u64(), "{answer}");
    Some(all.clone())
}

/// Returns the causes of a kind.
fn causes<'a>(answer: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let causes = answer["causes"].as_array().unwrap().iter();
    causes.filter(move |cause| cause["kind"] == kind)
}

#[test]
fn lock_is_blamed_on_the_span_that_held_it() {
    with_tracefs(|| {
        let Some(answer) = why("waits for a lock") else {
            return;
        };
        let mut wakers =
            causes(&answer, "lock").flat_map(|cause| cause["woken_by"].as_array().unwrap());
        let is_holder = |waker: &Value| {
            let thread = waker["thread"].as_str().unwrap();
            thread.starts_with("holder ") && waker["span"] == "hold"
        };
        assert!(wakers.any(is_holder), "{answer}");
    });
}

#[test]
fn disk_is_blamed_by_the_system_call() {
    with_tracefs(|| {
        let Some(answer) = why("waits for the disk") else {
            return;
        };
        let mut causes = causes(&answer, "blocked");
        assert!(causes.any(|cause| cause["call"] == "fsync"), "{answer}");
    });
}

#[test]
fn missing_core_is_blamed_on_those_that_had_it() {
    with_tracefs(|| {
        let Some(answer) = why("waits for a core") else {
            return;
        };
        let waited = answer["states_ns"]["runnable"].as_u64().unwrap();
        assert!(
            waited > answer["total_ns"].as_u64().unwrap() / 3,
            "{answer}"
        );
        let meanwhile =
            causes(&answer, "core").flat_map(|cause| cause["meanwhile"].as_array().unwrap());
        let mut threads = meanwhile.filter(|core| core["core"] == "thread");
        assert!(threads.next().is_some(), "{answer}");
    });
}
