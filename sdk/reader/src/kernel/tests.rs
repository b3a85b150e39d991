//! Tests of timelines, on traces made by hand. Most of them run on both forms of scheduling events.

use std::ops::Range;

use protozero::HeapBuffered;
use support::kernel_trace::prev_state::{BLOCKED, DEAD, PREEMPTED, RUNNABLE, SLEEPING};
use support::kernel_trace::{KernelTrace, SchedForm};
use tracezero_kernel::protos::{FtraceClock, KernelPacket, ftrace_stats};

use super::collect::KernelEvents;
use super::*;
use crate::{Record, TraceReader};

const BOTH: [SchedForm; 2] = [SchedForm::Compact, SchedForm::Verbose];

fn timelines(trace: &KernelTrace) -> KernelTimelines {
    collect(trace.bytes(), KernelEvents::new())
}

fn collect(trace: &[u8], mut events: KernelEvents) -> KernelTimelines {
    let mut reader = TraceReader::new(trace);
    while let Some(record) = reader.next().expect("a trace") {
        if let Record::Packet(_) = record {
            events.add(&reader);
        }
    }
    events.finish()
}

fn id(timelines: &KernelTimelines, tid: i32) -> ThreadId {
    let thread = timelines.threads().find(|thread| thread.tid == tid);
    thread.expect("the thread is in the trace").id
}

/// Formats the states of a thread from 0 to 100: the begin of each, a letter, and details.
fn states(timelines: &KernelTimelines, tid: i32) -> String {
    let states = timelines.states(id(timelines, tid), 0..100);
    let texts = states.map(|it| format!("{} {}", it.begin_ns, describe(timelines, &it)));
    Vec::from_iter(texts).join(", ")
}

fn describe(timelines: &KernelTimelines, interval: &ThreadInterval) -> String {
    let state = match interval.state {
        ThreadState::Running { cpu } => format!("runs on {cpu}"),
        ThreadState::Runnable {
            cpu,
            is_preempted: true,
        } => format!("R+{}", cpu.expect("the core it was on")),
        ThreadState::Runnable { cpu, .. } => cpu.map_or("R".to_owned(), |cpu| format!("R{cpu}")),
        ThreadState::Sleeping => "S".to_owned(),
        ThreadState::Blocked => "D".to_owned(),
        ThreadState::Dead => "X".to_owned(),
        ThreadState::Unknown { gap } => gap.map_or("?".to_owned(), |gap| format!("? gap {gap}")),
        state => format!("{state:?}"),
    };
    let call = interval.syscall.map_or_else(String::new, |call| {
        format!(" in {}", call.name().unwrap_or("a call"))
    });
    let wake = match interval.wake.map(|wake| wake.waker) {
        None => String::new(),
        Some(Waker::Interrupt) => " until interrupt".to_owned(),
        Some(Waker::Thread(waker)) => {
            let waker = timelines.thread(waker).expect("a thread");
            format!(" until {}", waker.tid)
        }
    };
    state + &call + &wake
}

/// Formats what a core does from 0 to 100.
fn core(timelines: &KernelTimelines, cpu: u32) -> String {
    let intervals = timelines.core(cpu, 0..100).map(|it| match it.activity {
        CpuActivity::Thread(id) => {
            let thread = timelines.thread(id).expect("a thread");
            format!("{} {}", it.begin_ns, thread.tid)
        }
        CpuActivity::Idle => format!("{} idle", it.begin_ns),
        CpuActivity::Unknown => format!("{} ?", it.begin_ns),
    });
    Vec::from_iter(intervals).join(", ")
}

#[test]
fn switches_and_wakings_make_states() {
    for form in BOTH {
        let mut trace = KernelTrace::new(form);
        trace.core(0, |core| {
            core.switch(10, 0, RUNNABLE, 7)
                .switch(30, 7, SLEEPING, 8)
                .wake(50, 8, 7, 0)
                .switch(55, 8, PREEMPTED, 7)
                .switch(60, 7, BLOCKED, 8)
                .interrupt(70, 8, 7, 0)
                .switch(80, 8, DEAD, 7)
                .switch(90, 7, RUNNABLE, 0);
        });
        let timelines = timelines(&trace);
        let who = match form {
            SchedForm::Compact => "interrupt",
            // The verbose form has no flags.
            SchedForm::Verbose => "8",
        };
        let expected = format!(
            "0 ?, 10 runs on 0, 30 S until 8, 50 R0, 55 runs on 0, 60 D until {who}, 70 R0, \
             80 runs on 0, 90 ?"
        );
        assert_eq!(states(&timelines, 7), expected, "{form:?}");
        let expected = "0 ?, 30 runs on 0, 55 R+0, 60 runs on 0, 80 X, 90 ?";
        assert_eq!(states(&timelines, 8), expected, "{form:?}");
        let expected = "0 ?, 10 7, 30 8, 55 7, 60 8, 80 7, 90 ?";
        assert_eq!(core(&timelines, 0), expected, "{form:?}");
        assert_eq!(timelines.range(), 10..90);
        assert_eq!(timelines.counts().switches, 6);
    }
}

#[test]
fn bundles_of_cores_are_merged_by_time() {
    for form in BOTH {
        let mut trace = KernelTrace::new(form);
        trace.core(0, |core| {
            core.switch(10, 0, RUNNABLE, 7)
                .switch(20, 7, SLEEPING, 0)
                .switch(60, 0, RUNNABLE, 7)
                .switch(70, 7, RUNNABLE, 0);
        });
        trace.core(1, |core| {
            core.switch(5, 0, RUNNABLE, 9)
                .wake(30, 9, 7, 1)
                .switch(40, 9, SLEEPING, 7)
                .switch(50, 7, PREEMPTED, 0);
        });
        let expected =
            "0 ?, 10 runs on 0, 20 S until 9, 30 R1, 40 runs on 1, 50 R+1, 60 runs on 0, 70 ?";
        assert_eq!(states(&timelines(&trace), 7), expected, "{form:?}");
    }
}

#[test]
fn waits_have_the_system_call_of_their_thread() {
    let mut trace = KernelTrace::new(SchedForm::Compact);
    trace.core(0, |core| {
        core.switch(10, 0, RUNNABLE, 7)
            // A call that does not wait, and one that does.
            .call(12, 7, 1, [1, 2, 3])
            .call_end(14, 7, 1)
            .switch(16, 7, PREEMPTED, 0)
            .switch(18, 0, RUNNABLE, 7)
            .call(20, 7, 202, [0x7f00, 128, 2])
            .switch(30, 7, SLEEPING, 8)
            .wake(40, 8, 7, 0)
            .switch(50, 8, SLEEPING, 7)
            .call_end(55, 7, 202)
            .switch(60, 7, SLEEPING, 0);
    });
    let timelines = timelines(&trace);
    let expected = "0 ?, 10 runs on 0, 16 R+0, 18 runs on 0, 30 S in futex until 8, 40 R0 in futex, \
                    50 runs on 0 in futex, 60 ?";
    assert_eq!(states(&timelines, 7), expected);
    assert_eq!(timelines.counts().calls, 2);
    let times = timelines.activities(id(&timelines, 7), 0..100);
    let times = Activity::ALL.map(|activity| times.of(activity));
    // Running, runnable, lock, blocked, sleeping, stopped, unknown.
    assert_eq!(times, [6 + 12 + 10, 2 + 10, 10, 0, 0, 0, 10 + 40]);
}

#[test]
fn call_of_one_thread_is_not_that_of_the_next() {
    let mut trace = KernelTrace::new(SchedForm::Compact);
    trace.core(0, |core| {
        core.switch(10, 0, RUNNABLE, 7)
            .call(12, 7, 74, [3, 0, 0])
            .switch(20, 7, BLOCKED, 8)
            .switch(30, 8, SLEEPING, 0)
            .switch(40, 0, RUNNABLE, 9);
    });
    let timelines = timelines(&trace);
    let expected = "0 ?, 10 runs on 0, 20 D in fsync, 40 ?";
    assert_eq!(states(&timelines, 7), expected);
    assert_eq!(states(&timelines, 8), "0 ?, 20 runs on 0, 30 S, 40 ?");
}

#[test]
fn new_threads_are_runnable_and_numbers_are_used_again() {
    for form in BOTH {
        let mut trace = KernelTrace::new(form);
        trace.core(0, |core| {
            core.switch(5, 0, RUNNABLE, 7)
                .new_thread(10, 7, 8, false)
                .switch(20, 7, SLEEPING, 8)
                .new_thread(25, 8, 9, true)
                .switch(30, 8, DEAD, 0)
                .rename(35, 0, 8, "worker")
                .free(40, 0, 8)
                .switch(50, 0, RUNNABLE, 7)
                .new_thread(60, 7, 8, true)
                .switch(70, 7, SLEEPING, 8)
                .switch(80, 8, SLEEPING, 0);
        });
        let timelines = timelines(&trace);
        let with_number = |tid| timelines.threads().filter(move |thread| thread.tid == tid);
        let [first, second] = Vec::from_iter(with_number(8))[..] else {
            panic!("two threads had number 8");
        };
        assert_eq!(states(&timelines, 8), "0 ?, 10 R, 20 runs on 0, 30 X, 40 ?");
        assert_eq!((first.begin_ns, first.end_ns, first.pid), (10, 40, Some(8)));
        assert_eq!(timelines.names().text(first.name), "worker");
        // Its parent began before the trace, and so its process is not known.
        assert_eq!((second.begin_ns, second.end_ns, second.pid), (60, 80, None));
        assert_eq!(timelines.names().text(second.name), "thread-8");
        let third = with_number(9).next().expect("the thread of the first one");
        assert_eq!(third.pid, Some(8));
        let found = [5, 39, 40, 90].map(|time_ns| timelines.find_thread(8, 8, time_ns));
        let second_of_unknown = Some(second.id);
        assert_eq!(
            found,
            [
                Some(first.id),
                Some(first.id),
                second_of_unknown,
                second_of_unknown
            ]
        );
    }
}

#[test]
fn lost_events_make_states_unknown_not_wrong() {
    for form in BOTH {
        let mut trace = KernelTrace::new(form);
        trace.core(1, |core| {
            core.switch(1, 0, RUNNABLE, 5).switch(90, 5, SLEEPING, 0);
        });
        trace.core(0, |core| {
            core.switch(2, 0, RUNNABLE, 6)
                .switch(10, 6, SLEEPING, 7)
                .switch(20, 7, SLEEPING, 8)
                .wake(22, 8, 9, 0);
        });
        trace.core(0, |core| {
            // Thread 6 has run in between: nothing has woken it.
            core.lost()
                .wake(60, 4, 7, 0)
                .switch(70, 4, SLEEPING, 6)
                .switch(80, 6, RUNNABLE, 9)
                .switch(85, 9, SLEEPING, 8);
        });
        let timelines = timelines(&trace);
        let gaps = Vec::from_iter(
            timelines
                .gaps()
                .iter()
                .map(|gap| (gap.cpu, gap.begin_ns, gap.end_ns)),
        );
        assert_eq!(gaps, [(0, 22, 60)]);
        // It ran on the core that lost events.
        assert_eq!(
            states(&timelines, 8),
            "0 ?, 20 runs on 0, 22 ? gap 0, 85 runs on 0, 90 ?"
        );
        // It slept, was woken in time, and may have run while events are missing.
        let waker = match form {
            SchedForm::Compact => "",
            SchedForm::Verbose => " until 4",
        };
        let expected = "0 ?, 10 runs on 0, 20 S, 22 ? gap 0";
        let expected = format!("{expected}{waker}, 60 R0, 90 ?");
        assert_eq!(states(&timelines, 7), expected, "{form:?}");
        assert_eq!(
            states(&timelines, 6),
            "0 ?, 2 runs on 0, 10 S, 22 ? gap 0, 70 runs on 0, 80 R0, 90 ?"
        );
        assert_eq!(
            states(&timelines, 9),
            "0 ?, 22 ? gap 0, 60 R0, 80 runs on 0, 85 S, 90 ?"
        );
        // It ran elsewhere all the time.
        assert_eq!(states(&timelines, 5), "0 ?, 1 runs on 1, 90 ?");
        let running = match form {
            SchedForm::Compact => "22 ?",
            // Thread 4 ran from the first event after the gap on.
            SchedForm::Verbose => "22 ?, 60 4",
        };
        let expected = format!("0 ?, 2 6, 10 7, 20 8, {running}, 70 6, 80 9, 85 8, 90 ?");
        assert_eq!(core(&timelines, 0), expected, "{form:?}");
    }
}

#[test]
fn thread_that_leaves_a_core_it_never_got_was_in_an_unknown_state() {
    let mut trace = KernelTrace::new(SchedForm::Verbose);
    trace.core(0, |core| {
        core.switch(10, 0, RUNNABLE, 7)
            .switch(20, 7, SLEEPING, 0)
            .switch(50, 7, BLOCKED, 8)
            .switch(60, 8, SLEEPING, 0);
    });
    let timelines = timelines(&trace);
    assert_eq!(states(&timelines, 7), "0 ?, 10 runs on 0, 20 ?, 50 D, 60 ?");
    assert_eq!(timelines.counts().missing_switches, 1);
}

#[test]
fn missing_switch_is_noticed_by_the_thread_that_runs() {
    let mut trace = KernelTrace::new(SchedForm::Compact);
    trace.core(0, |core| {
        core.switch(10, 0, RUNNABLE, 7)
            .switch(20, 7, SLEEPING, 0)
            .interrupt(30, 0, 7, 0)
            // Thread 7 has got the core in between.
            .call(40, 7, 202, [0x7f00, 128, 2])
            .switch(50, 7, SLEEPING, 8)
            .switch(60, 8, SLEEPING, 8);
    });
    let timelines = timelines(&trace);
    let expected =
        "0 ?, 10 runs on 0, 20 S until interrupt, 30 ?, 40 runs on 0, 50 S in futex, 60 ?";
    assert_eq!(states(&timelines, 7), expected);
    assert_eq!(
        core(&timelines, 0),
        "0 ?, 10 7, 20 idle, 30 ?, 40 7, 50 8, 60 ?"
    );
    assert_eq!(timelines.counts().missing_switches, 2);
}

#[test]
fn thread_ran_until_the_last_event_before_a_missing_switch() {
    let mut trace = KernelTrace::new(SchedForm::Compact);
    trace.core(0, |core| {
        core.switch(10, 0, RUNNABLE, 7)
            // An event of no use but for the thread that has it.
            .event(20, 7, |event| {
                event.print(|_| {});
            })
            .free(40, 8, 6)
            .switch(50, 8, SLEEPING, 0);
    });
    let timelines = timelines(&trace);
    assert_eq!(states(&timelines, 7), "0 ?, 10 runs on 0, 20 ?, 50 ?");
    assert_eq!(states(&timelines, 8), "0 ?, 40 runs on 0, 50 ?");
    assert_eq!(timelines.counts().missing_switches, 1);
}

#[test]
fn events_may_be_lost_behind_bundles_that_are_missing() {
    let mut trace = KernelTrace::new(SchedForm::Verbose);
    trace.core(0, |core| {
        core.switch(10, 0, RUNNABLE, 7);
    });
    trace.core(0, |core| {
        core.after(30)
            .lost()
            .switch(50, 8, SLEEPING, 7)
            .switch(60, 7, SLEEPING, 0);
    });
    let timelines = timelines(&trace);
    let gaps = timelines.gaps().iter().map(|it| (it.begin_ns, it.end_ns));
    assert_eq!(Vec::from_iter(gaps), [(10, 30), (30, 50)]);
    // Thread 8 may have got the core at any time.
    assert_eq!(core(&timelines, 0), "0 ?, 10 ?, 30 ?, 50 7, 60 ?");
}

#[test]
fn bundles_that_are_missing_leave_a_gap() {
    let mut trace = KernelTrace::new(SchedForm::Compact);
    // The bundles before the first one are missing, too.
    trace.core(0, |core| {
        core.after(5).switch(10, 0, RUNNABLE, 7);
    });
    trace.core(0, |core| {
        core.after(10).switch(20, 7, RUNNABLE, 8);
    });
    trace.core(0, |core| {
        core.after(40)
            .switch(50, 9, SLEEPING, 7)
            .switch(60, 7, SLEEPING, 0);
    });
    let timelines = timelines(&trace);
    let gaps = Vec::from_iter(
        timelines
            .gaps()
            .iter()
            .map(|gap| (gap.begin_ns, gap.end_ns)),
    );
    assert_eq!(gaps, [(0, 5), (20, 40)]);
    assert_eq!(states(&timelines, 8), "0 ?, 20 ? gap 1, 60 ?");
    assert_eq!(
        states(&timelines, 7),
        "0 ?, 10 runs on 0, 20 R0, 20 ? gap 1".replace("20 R0, ", "")
            + ", 40 R0, 50 runs on 0, 60 ?"
    );
}

#[test]
fn many_gaps_cut_a_state_into_few_pieces() {
    let mut trace = KernelTrace::new(SchedForm::Compact);
    trace.core(0, |core| {
        core.switch(1, 0, RUNNABLE, 7).switch(2, 7, SLEEPING, 8);
    });
    for round in 1..=1000 {
        trace.core(0, |core| {
            core.lost().switch(100 * round, 8, RUNNABLE, 8);
            core.switch(100 * round + 10, 8, RUNNABLE, 8);
        });
    }
    trace.core(1, |core| {
        core.switch(200_000, 0, RUNNABLE, 9).wake(200_001, 9, 7, 1);
    });
    let timelines = timelines(&trace);
    let states = Vec::from_iter(timelines.states(id(&timelines, 7), 0..300_000));
    assert!(states.len() < 200, "{}", states.len());
    assert_eq!(
        states.iter().map(|it| it.end_ns - it.begin_ns).sum::<u64>(),
        300_000
    );
    let in_the_middle = |it: &&ThreadInterval| it.begin_ns <= 50_000 && 50_000 < it.end_ns;
    let state = states.iter().find(in_the_middle).map(|it| it.state);
    assert!(
        matches!(state, Some(ThreadState::Unknown { gap: Some(_) })),
        "{state:?}"
    );
}

#[test]
fn first_core_of_a_thread_is_that_of_its_first_event() {
    let mut trace = KernelTrace::new(SchedForm::Compact);
    trace.core(0, |core| {
        core.call(10, 7, 35, [0; 3])
            .switch(20, 7, SLEEPING, 0)
            .switch(30, 0, RUNNABLE, 8);
    });
    let expected = "0 ?, 10 runs on 0, 20 S in nanosleep, 30 ?";
    assert_eq!(states(&timelines(&trace), 7), expected);
}

#[test]
fn broken_bundle_leaves_a_gap() {
    let mut trace = KernelTrace::new(SchedForm::Compact);
    trace.core(0, |core| {
        core.switch(10, 0, RUNNABLE, 7).switch(20, 7, SLEEPING, 8);
    });
    trace.kernel_packet(|packet| {
        packet.ftrace_events(|bundle| {
            bundle.set_cpu(0);
            bundle.compact_sched(|compact| {
                // A switch without its thread.
                compact
                    .set_switch_timestamp([30, 5])
                    .set_switch_prev_state([1, 1]);
            });
        });
    });
    trace.core(0, |core| {
        core.switch(50, 9, SLEEPING, 7).switch(60, 7, SLEEPING, 0);
    });
    let timelines = timelines(&trace);
    assert_eq!(timelines.counts().malformed, 1);
    assert_eq!(
        states(&timelines, 7),
        "0 ?, 10 runs on 0, 20 ? gap 0, 50 runs on 0, 60 ?"
    );
}

#[test]
fn bundles_without_a_core_or_clock_are_counted() {
    let mut trace = KernelTrace::new(SchedForm::Verbose);
    for (cpu, clock) in [(2000, FtraceClock::UNSPECIFIED), (0, FtraceClock::UNKNOWN)] {
        trace.kernel_packet(|packet| {
            packet.ftrace_events(|bundle| {
                bundle.set_cpu(cpu).set_ftrace_clock(clock);
            });
        });
    }
    let counts = timelines(&trace).counts();
    assert_eq!(
        (counts.bundles, counts.malformed, counts.unknown_clock),
        (2, 1, 1)
    );
    assert!(timelines(&trace).range().is_empty());
}

#[test]
fn times_of_other_clocks_are_converted() {
    let mut trace = KernelTrace::new(SchedForm::Verbose);
    trace.kernel_packet(|packet| {
        packet.ftrace_events(|bundle| {
            bundle.set_cpu(0).set_ftrace_clock(FtraceClock::LOCAL);
            bundle.set_ftrace_timestamp(1_000).set_boot_timestamp(40);
            for (time, prev, next) in [(980, 0, 7), (990, 7, 0)] {
                bundle.add_event(|event| {
                    event.set_timestamp(time).set_pid(prev as u32);
                    event.sched_switch(|it| {
                        it.set_prev_pid(prev).set_next_pid(next);
                    });
                });
            }
        });
    });
    assert_eq!(core(&timelines(&trace), 0), "0 ?, 20 7, 30 ?");
}

#[test]
fn threads_are_found_by_the_numbers_of_their_namespace() {
    let mut trace = KernelTrace::new(SchedForm::Compact);
    trace.core(0, |core| {
        core.switch(10, 0, RUNNABLE, 500)
            .switch(20, 500, SLEEPING, 501)
            .switch(30, 501, SLEEPING, 12);
    });
    trace.kernel_packet(|packet| {
        packet.process_tree(|tree| {
            tree.add_processes(|it| {
                it.set_pid(500).add_nspid(11).add_cmdline("/bin/shop");
            });
            tree.add_processes(|it| {
                it.set_pid(9).add_cmdline("other");
            });
            tree.add_threads(|it| {
                it.set_tid(501).set_tgid(500).add_nstid(12).set_name("w");
            });
            tree.add_threads(|it| {
                it.set_tid(12).set_tgid(9).set_name("x");
            });
        });
    });
    let timelines = timelines(&trace);
    let tid = |pid, tid| {
        let id = timelines.find_thread(pid, tid, 15)?;
        timelines.thread(id).map(|thread| thread.tid)
    };
    assert_eq!(tid(500, 501), Some(501));
    assert_eq!(tid(11, 11), Some(500));
    assert_eq!(tid(11, 12), Some(501));
    assert_eq!(tid(9, 12), Some(12));
    assert_eq!(tid(8, 12), None);
    let main = timelines.thread(id(&timelines, 500)).expect("a thread");
    let names = [main.name, main.process_name].map(|name| timelines.names().text(name));
    assert_eq!(names, ["thread-500", "shop"]);
}

#[test]
fn losses_come_from_statistics() {
    let mut trace = KernelTrace::new(SchedForm::Compact);
    for (phase, overrun) in [
        (ftrace_stats::Phase::START_OF_TRACE, 7),
        (ftrace_stats::Phase::END_OF_TRACE, 1007),
    ] {
        trace.kernel_packet(|packet| {
            packet.ftrace_stats(|stats| {
                stats.set_phase(phase);
                stats.add_cpu_stats(|cpu| {
                    cpu.set_cpu(1).set_overrun(overrun);
                });
            });
        });
    }
    let losses = timelines(&trace).losses().to_vec();
    assert_eq!(
        Vec::from_iter(losses.iter().map(|it| (it.cpu, it.events))),
        [(1, 1000)]
    );
}

#[test]
fn events_beyond_the_limit_make_the_rest_unknown() {
    let mut trace = KernelTrace::new(SchedForm::Compact);
    trace.core(0, |core| {
        for round in 0..10 {
            core.switch(10 * round + 1, 8, RUNNABLE, 7);
            core.switch(10 * round + 5, 7, RUNNABLE, 8);
        }
    });
    let timelines = collect(trace.bytes(), KernelEvents::with_limit(6));
    // Four switches, and two names of threads.
    assert_eq!(
        states(&timelines, 7),
        "0 ?, 1 runs on 0, 5 R0, 11 runs on 0, 15 R0, 21 ?"
    );
    assert_eq!(timelines.counts().left_out, 16);
}

#[test]
fn packets_of_other_machines_are_ignored() {
    let mut trace = KernelTrace::new(SchedForm::Compact);
    let mut packet = HeapBuffered::<KernelPacket<'_>>::new();
    {
        let mut message = packet.message();
        message.ftrace_events(|bundle| {
            bundle.set_cpu(0);
        });
        // `machine_id`.
        message.as_message_mut().append_uint32::<98>(1);
    }
    trace.add(&packet.to_vec());
    assert_eq!(timelines(&trace).counts(), KernelCounts::default());
}

#[test]
fn any_cut_and_any_changed_byte_is_safe_and_states_stay_whole() {
    for form in BOTH {
        let mut trace = KernelTrace::new(form);
        trace.core(0, |core| {
            core.switch(10, 0, RUNNABLE, 7)
                .call(15, 7, 202, [1, 128, 2])
                .switch(30, 7, SLEEPING, 8)
                .wake(50, 8, 7, 0)
                .new_thread(52, 8, 9, true)
                .switch(55, 8, PREEMPTED, 7);
        });
        trace.core(1, |core| {
            core.lost()
                .after(12)
                .switch(20, 0, RUNNABLE, 9)
                .switch(70, 9, SLEEPING, 0);
        });
        let bytes = trace.bytes();
        let cuts = (0..bytes.len()).map(|end| bytes[..end].to_vec());
        let changed = (0..bytes.len()).flat_map(|at| {
            [0x00, 0x01, 0x7f, 0xff].map(|byte| {
                let mut bytes = bytes.to_vec();
                bytes[at] = byte;
                bytes
            })
        });
        for bytes in cuts.chain(changed) {
            let mut reader = TraceReader::new(&bytes[..]);
            let mut events = KernelEvents::new();
            while let Ok(Some(record)) = reader.next() {
                if let Record::Packet(_) = record {
                    events.add(&reader);
                }
            }
            let timelines = events.finish();
            for thread in timelines.threads() {
                let mut end_ns = 0;
                for interval in timelines.states(thread.id, 0..1000) {
                    assert_eq!(interval.begin_ns, end_ns);
                    assert!(interval.end_ns > interval.begin_ns);
                    end_ns = interval.end_ns;
                }
                assert_eq!(end_ns, 1000);
                let times = timelines.activities(thread.id, 3..950);
                assert_eq!(times.total_ns(), 947);
                let backwards = Range { start: 9, end: 3 };
                assert_eq!(timelines.states(thread.id, backwards).count(), 0);
            }
        }
    }
}
