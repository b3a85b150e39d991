//! Daemons and programs that are killed or stopped.

use std::thread;
use std::time::Duration;

use judge::{ExtraSchema, Options, Value, Verdict, judge_with};
use rustix::process::Signal;

use crate::machine::{Machine, judged};
use crate::programs::{INSTANTS, PATIENT};
use crate::recordings::EVERYTHING;

/// The number of times that the daemon or a program is killed.
const KILLS: usize = 5;
/// The time for which the daemon is stopped.
const STOPPED_FOR: Duration = Duration::from_millis(400);

/// The daemon reads the memory of a killed program only if it knows the writer. Nothing tells when it
/// does.
const UNTIL_KNOWN: Duration = Duration::from_millis(200);

/// Returns an argument of all events with a name.
fn numbers_of(verdict: &Verdict, name: &str, arg: &str) -> Vec<u64> {
    let events = verdict.events_named(name);
    let numbers = events.map(|event| event.args[arg].as_u64().unwrap());
    numbers.collect()
}

/// Checks that the instants of a trace have no gap, and returns their number.
fn ticks(trace: &[u8]) -> usize {
    let numbers = numbers_of(&judged(trace), "tick", "index");
    for pair in numbers.windows(2) {
        assert_eq!(pair[0] + 1, pair[1], "a tick is missing or twice");
    }
    numbers.len()
}

#[test]
fn a_program_connects_again_to_a_new_daemon() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let mut program = machine.program("ticks");
    program.wait_for("connected");
    for round in 0..KILLS {
        let recording = machine.record(&format!("{round}.pftrace"), EVERYTHING);
        machine.wait_for_producers(1);
        thread::sleep(Duration::from_millis(100));
        assert!(ticks(&recording.finish()) > 10);
        // The program is recording when the daemon dies.
        let cut_off = machine.record("cut off.pftrace", EVERYTHING);
        thread::sleep(Duration::from_millis(50));
        machine.restart();
        drop(cut_off);
        machine.wait_for_producers(1);
    }
}

#[test]
fn what_a_killed_program_has_recorded_is_in_the_trace() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let recording = machine.record("killed.pftrace", EVERYTHING);
    for _ in 0..KILLS {
        let mut program = machine.program("ticks");
        program.wait_for("connected");
        thread::sleep(Duration::from_millis(100));
        program.kill();
    }
    machine.wait_for_producers(0);
    let trace = recording.finish();
    let verdict = judged(&trace);
    assert!(verdict.events_named("tick").count() > KILLS * 10);
}

/// Lets programs record and exit at once, ten times.
#[track_caller]
fn exits_lose_nothing(machine: &Machine) {
    const PROGRAMS: usize = 10;
    let recording = machine.record("exits.pftrace", EVERYTHING);
    for _ in 0..PROGRAMS {
        machine.program("exits").wait();
    }
    let verdict = judged(&recording.finish());
    let ticks = verdict.events_named("tick").count();
    assert_eq!(ticks, PROGRAMS * INSTANTS as usize);
}

#[test]
fn a_program_that_exits_at_once_loses_nothing() {
    let Some(machine) = Machine::start() else {
        return;
    };
    exits_lose_nothing(&machine);
}

#[test]
fn a_program_that_exits_at_once_loses_nothing_over_the_network() {
    let Some(machine) = Machine::start_on_network() else {
        return;
    };
    exits_lose_nothing(&machine);
}

#[test]
fn a_forked_child_records_nothing_and_keeps_no_connection() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let recording = machine.record("forked.pftrace", EVERYTHING);
    let mut program = machine.program("forks");
    program.wait_for("forked");
    thread::sleep(UNTIL_KNOWN);
    program.kill();
    // The child lives for some seconds.
    machine.wait_for_producers(0);
    let verdict = judged(&recording.finish());
    let texts: Vec<_> = verdict
        .events_named("forked in")
        .map(|event| event.args["by"].clone())
        .collect();
    assert_eq!(texts, [Value::Text("parent".to_owned())]);
    assert_eq!(verdict.events_named("after the fork").count(), 1000);
}

/// Stops the daemon for a while, as a program records at full speed. Returns the number of events
/// that the program has recorded, the longest time of one, and the trace.
fn with_a_stopped_daemon(machine: &Machine, kind: &str, policy: &str) -> (u64, Duration, Vec<u8>) {
    // Memory that is full long before the daemon goes on.
    let config = format!(
        r#"
        buffers {{ size_kb: 262144 }}
        data_sources {{ config {{ name: "track_event" {policy} }} }}
        producers {{ producer_name: "program" shm_size_kb: 64 page_size_kb: 4 }}
        "#
    );
    let recording = machine.record("stopped.pftrace", &config);
    let mut program = machine.program(kind);
    program.wait_for("started");
    machine.signal(Signal::STOP);
    thread::sleep(STOPPED_FOR);
    machine.signal(Signal::CONT);
    thread::sleep(Duration::from_millis(50));
    program.go_on();
    let [count, longest_us] = program.numbers()[..] else {
        panic!("no numbers");
    };
    let trace = recording.finish();
    (count, Duration::from_micros(longest_us), trace)
}

/// Checks that a trace has gaps, and a mark of a loss at each.
#[track_caller]
fn assert_losses_are_marked(count: u64, trace: &[u8]) {
    let options = Options {
        allow_unreadable_after_loss: true,
        ..Options::default()
    };
    let verdict = judge_with(trace, &ExtraSchema::new(), options).unwrap();
    assert_eq!(verdict.unreadable_packets, 0);
    let numbers: Vec<u64> = numbers_of(&verdict, "fast", "count");
    let pairs = numbers.windows(2);
    let gaps = pairs.filter(|pair| pair[0] + 1 != pair[1]).count();
    let dropped = count - numbers.len() as u64;
    assert!(
        dropped > 0 && gaps > 0,
        "{count} events: nothing was dropped"
    );
    // The first packet of the sequence counts as one.
    assert!(
        verdict.losses.len() > gaps,
        "{gaps} gaps, {:?}",
        verdict.losses
    );
}

#[test]
fn a_stopped_daemon_delays_no_event_that_may_be_dropped() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let policy = "buffer_exhausted_policy: BUFFER_EXHAUSTED_DROP";
    let (count, longest, trace) = with_a_stopped_daemon(&machine, "fast", policy);
    // The machine may be busy.
    assert!(longest < STOPPED_FOR / 2, "{longest:?}");
    assert_losses_are_marked(count, &trace);
}

#[test]
fn a_stopped_daemon_delays_a_thread_for_100_ms_by_default() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let (count, longest, trace) = with_a_stopped_daemon(&machine, "fast", "");
    // The machine may be busy.
    let limits = Duration::from_millis(100)..STOPPED_FOR;
    assert!(limits.contains(&longest), "{longest:?}");
    assert_losses_are_marked(count, &trace);
}

#[test]
fn writers_that_wait_lose_nothing_while_the_daemon_is_stopped() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let policy = "buffer_exhausted_policy: BUFFER_EXHAUSTED_STALL_THEN_DROP";
    let (count, longest, trace) = with_a_stopped_daemon(&machine, PATIENT, policy);
    assert!(
        longest > STOPPED_FOR / 4,
        "no event has waited: {longest:?}"
    );
    let numbers = numbers_of(&judged(&trace), "fast", "count");
    assert!(numbers.into_iter().eq(0..count), "{count} events");
}
