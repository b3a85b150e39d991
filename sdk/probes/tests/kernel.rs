//! Records this kernel, in sessions of this process.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::BTreeSet;
use std::fs;
use std::thread;

use support::{alone, with_tracefs};
use tracezero::protos::TraceDecoder;
use tracezero::reader::{Level, check};
use tracezero::{BufferConfig, InMemorySession, Losses, TraceConfig};
use tracezero_probes::protos::{FtraceEventBundleDecoder, KernelPacketDecoder};
use tracezero_probes::{EventGroup, Ftrace, KernelConfig};

fn start(kernel: &KernelConfig) -> InMemorySession {
    tracezero_probes::register();
    let config = TraceConfig::empty().add_buffer(BufferConfig::ring(16 * 1024));
    kernel.add_to(config).record_in_memory().unwrap()
}

/// Ends a session. Returns its trace, which must be sound.
fn finish(session: InMemorySession) -> Vec<u8> {
    let (trace, report) = session.finish();
    assert_eq!(report.losses, Losses::default(), "{report}");
    let checked = check(&*trace, |finding| {
        assert!(finding.level == Level::Note, "{finding}");
    });
    checked.unwrap();
    trace
}

/// Calls `look` with each bundle of a trace.
fn bundles(trace: &[u8], mut look: impl FnMut(&FtraceEventBundleDecoder<'_>)) {
    for packet in TraceDecoder::new(trace).packet() {
        let packet = packet.unwrap();
        let packet = KernelPacketDecoder::new(packet.as_decoder().bytes());
        if let Some(bundle) = packet.ftrace_events().unwrap() {
            look(&bundle);
        }
    }
}

/// Returns the threads whose ends are in a trace.
///
/// Not those that CPUs have switched to: kernels in virtual machines leave out single switches.
fn ended(trace: &[u8]) -> BTreeSet<i32> {
    let mut threads = BTreeSet::new();
    bundles(trace, |bundle| {
        for event in bundle.event() {
            if let Some(exit) = event.unwrap().sched_process_exit().unwrap() {
                threads.insert(exit.pid().unwrap().unwrap());
            }
        }
    });
    threads
}

/// Runs a thread that ends soon. Returns its id.
fn short_thread() -> i32 {
    let thread = thread::spawn(|| rustix::thread::gettid().as_raw_pid());
    thread.join().unwrap()
}

#[test]
fn two_sessions_have_their_own_events() {
    with_tracefs(|| {
        let _alone = alone();
        let one = start(&KernelConfig::new().group(EventGroup::Sched));
        let first = short_thread();
        let other = start(&KernelConfig::new().group(EventGroup::Sched));
        let second = short_thread();
        let of_one = ended(&finish(one));
        let third = short_thread();
        let of_other = ended(&finish(other));
        assert!(
            of_one.contains(&first) && of_one.contains(&second),
            "{first}, {second} in {of_one:?}"
        );
        assert!(
            !of_other.contains(&first),
            "it ended before the session began"
        );
        assert!(
            of_other.contains(&second) && of_other.contains(&third),
            "{second}, {third} in {of_other:?}"
        );
    });
}

#[test]
fn tracer_of_the_machine_stays_as_it_is_and_instances_go() {
    with_tracefs(|| {
        let _alone = alone();
        let state = || {
            [
                "tracing_on",
                "trace_clock",
                "buffer_size_kb",
                "set_event",
                "current_tracer",
            ]
            .map(|file| fs::read_to_string(format!("/sys/kernel/tracing/{file}")).unwrap())
        };
        // Other tests have theirs.
        let is_ours = |name: &str| name.contains(&format!("_{}_", std::process::id()));
        let instances = || {
            let entries = fs::read_dir("/sys/kernel/tracing/instances").unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| is_ours(name)).count()
        };
        let before = state();
        let session = start(&KernelConfig::new().group(EventGroup::Sched));
        assert_eq!(instances(), 1);
        finish(session);
        assert_eq!(instances(), 0);
        assert_eq!(state(), before);
    });
}

#[test]
fn only_chosen_system_calls_are_recorded() {
    with_tracefs(|| {
        let _alone = alone();
        let session = start(&KernelConfig::new().syscall("sys_getppid"));
        for _ in 0..100 {
            let _ = rustix::process::getppid();
            let _ = rustix::process::getuid();
        }
        let trace = finish(session);
        let mut ids = BTreeSet::new();
        let mut count = 0;
        bundles(&trace, |bundle| {
            for event in bundle.event() {
                if let Some(enter) = event.unwrap().sys_enter().unwrap() {
                    ids.insert(enter.id().unwrap().unwrap());
                    count += 1;
                }
            }
        });
        assert_eq!(ids.len(), 1, "{ids:?}");
        assert!(count >= 100, "{count}");
    });
}

#[test]
fn texts_of_programs_are_recorded() {
    with_tracefs(|| {
        let _alone = alone();
        let session = start(&KernelConfig::new().event("ftrace/print"));
        let written = fs::write("/sys/kernel/tracing/trace_marker", "I|7|hello");
        let trace = finish(session);
        let mut texts = Vec::new();
        bundles(&trace, |bundle| {
            for event in bundle.event() {
                if let Some(print) = event.unwrap().print().unwrap() {
                    texts.push(print.buf().unwrap().unwrap().to_owned());
                }
            }
        });
        written.unwrap();
        let can_copy = fs::exists("/sys/kernel/tracing/options/copy_trace_marker");
        match can_copy.unwrap() {
            true => assert_eq!(texts, ["I|7|hello\n"]),
            // Kernels before 6.16 give the texts to the tracer of the machine alone.
            false => assert_eq!(texts, <[&str; 0]>::default()),
        }
    });
}

#[test]
fn trace_says_why_there_are_no_events() {
    let _alone = alone();
    if Ftrace::check().is_ok() {
        // `with_tracefs` has mounted it.
        return;
    }
    let session = start(&KernelConfig::new().group(EventGroup::Sched));
    let trace = finish(session);
    let mut reasons = Vec::new();
    for packet in TraceDecoder::new(&trace).packet() {
        let packet = packet.unwrap();
        let packet = KernelPacketDecoder::new(packet.as_decoder().bytes());
        if let Some(stats) = packet.ftrace_stats().unwrap() {
            reasons.extend(
                stats
                    .failed_ftrace_events()
                    .map(|it| it.unwrap().to_owned()),
            );
        }
    }
    let reason = Ftrace::check().unwrap_err().to_string();
    assert!(reasons[0].starts_with(&reason), "{reasons:?}");
}
