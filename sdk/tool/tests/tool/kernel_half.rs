//! Traces with both halves: spans, and what the kernel says of their threads.

use support::kernel_trace::prev_state::{BLOCKED, PREEMPTED, RUNNABLE, SLEEPING};
use support::kernel_trace::{KernelTrace, SchedForm};
use tracezero::protos::{TrackDescriptor, TrackEvent, track_event};
use tracezero_kernel::protos::ftrace_stats::Phase;

/// The uuids of tracks.
pub(crate) const MAIN: u64 = 101;
pub(crate) const WORKER: u64 = 102;
pub(crate) const QUEUE: u64 = 103;

/// Numbers of system calls of x86_64.
pub(crate) const FUTEX: i64 = 202;
pub(crate) const FSYNC: i64 = 74;

/// Begins a trace of the process `shop`, which has a main thread, a worker, and a track.
pub(crate) fn shop() -> KernelTrace {
    let mut trace = KernelTrace::new(SchedForm::Compact);
    describe(&mut trace, 100, |track| {
        track.process(|process| {
            process.set_pid(10).set_process_name("shop");
        });
    });
    for (uuid, tid, name) in [(MAIN, 10, "main"), (WORKER, 11, "worker")] {
        describe(&mut trace, uuid, |track| {
            track.set_parent_uuid(100).thread(|thread| {
                thread.set_pid(10).set_tid(tid).set_thread_name(name);
            });
        });
    }
    describe(&mut trace, QUEUE, |track| {
        track.set_parent_uuid(100).set_name("queue");
    });
    trace
}

fn describe(trace: &mut KernelTrace, uuid: u64, write: impl FnOnce(&mut TrackDescriptor<'_>)) {
    trace.packet(|packet| {
        packet.track_descriptor(|track| {
            track.set_uuid(uuid);
            write(track);
        });
        packet.set_trusted_packet_sequence_id(2);
    });
}

/// Begins a span.
pub(crate) fn begin(trace: &mut KernelTrace, track: u64, time_ns: u64, name: &str, flow: u64) {
    event(trace, track, time_ns, |event| {
        event
            .set_type(track_event::Type::SLICE_BEGIN)
            .set_name(name);
        if flow != 0 {
            event.add_flow_ids(flow);
        }
    });
}

/// Ends a span.
pub(crate) fn end(trace: &mut KernelTrace, track: u64, time_ns: u64) {
    event(trace, track, time_ns, |event| {
        event.set_type(track_event::Type::SLICE_END);
    });
}

fn event(
    trace: &mut KernelTrace,
    track: u64,
    time_ns: u64,
    write: impl FnOnce(&mut TrackEvent<'_>),
) {
    trace.packet(|packet| {
        packet.set_timestamp(time_ns);
        packet.track_event(|event| {
            event.set_track_uuid(track);
            write(event);
        });
        packet.set_trusted_packet_sequence_id(track as u32);
    });
}

/// Encodes a trace in which the span `checkout` of 40 µs runs for 14 µs, waits for a lock that the
/// worker holds in its span `write index` for 20 µs, for the disk for 3 µs, and for a core for 3 µs,
/// of which another process has it for 2 µs.
pub(crate) fn waits() -> KernelTrace {
    let mut trace = shop();
    begin(&mut trace, MAIN, 1_000, "checkout", 0);
    end(&mut trace, MAIN, 41_000);
    begin(&mut trace, WORKER, 5_000, "write index", 0);
    begin(&mut trace, WORKER, 6_000, "compress", 0);
    end(&mut trace, WORKER, 7_000);
    end(&mut trace, WORKER, 35_000);
    trace.core(0, |core| {
        core.switch(500, 0, RUNNABLE, 10)
            .call(10_000, 10, FUTEX, [0x7f00_1000, 128, 2])
            .switch(11_000, 10, SLEEPING, 99)
            .switch(33_000, 99, PREEMPTED, 10)
            .call_end(33_500, 10, FUTEX)
            .call(35_000, 10, FSYNC, [3, 0, 0])
            .switch(36_000, 10, BLOCKED, 0)
            .interrupt(39_000, 0, 10, 0)
            .switch(40_000, 0, RUNNABLE, 10)
            .switch(50_000, 10, SLEEPING, 0);
    });
    trace.core(1, |core| {
        core.switch(600, 0, RUNNABLE, 11)
            .wake(31_000, 11, 10, 0)
            .switch(45_000, 11, SLEEPING, 0);
    });
    trace
}

/// Encodes a trace in which the core of `checkout` loses 1000 events in the last 10 of 40 µs.
pub(crate) fn lost() -> KernelTrace {
    let mut trace = shop();
    begin(&mut trace, MAIN, 1_000, "checkout", 0);
    end(&mut trace, MAIN, 41_000);
    for (phase, overrun) in [(Phase::START_OF_TRACE, 0), (Phase::END_OF_TRACE, 1000)] {
        trace.kernel_packet(|packet| {
            packet.ftrace_stats(|stats| {
                stats.set_phase(phase);
                stats.add_cpu_stats(|cpu| {
                    cpu.set_cpu(0).set_overrun(overrun);
                });
            });
        });
    }
    trace.core(0, |core| {
        core.switch(500, 0, RUNNABLE, 10).wake(31_000, 10, 11, 0);
    });
    trace.core(0, |core| {
        core.lost()
            .switch(60_000, 12, SLEEPING, 0)
            .switch(70_000, 0, RUNNABLE, 10);
    });
    trace
}
