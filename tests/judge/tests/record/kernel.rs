//! The kernel's half of a recording.

use std::collections::BTreeSet;

use judge::Verdict;
use perfetto_protos::ftrace_event::FtraceEvent;
use perfetto_protos::ftrace_event::ftrace_event::Event;
use perfetto_protos::thread_descriptor::ThreadDescriptor;
use perfetto_protos::trace_packet::trace_packet::Data;
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
    let recording = Recording::start_after(script, options, &command("spans"))?;
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
