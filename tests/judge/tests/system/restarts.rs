//! Daemons and programs that are killed or stopped.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{env, thread};

use judge::{ExtraSchema, Options, Value, Verdict, judge_with};
use rustix::process::Signal;

use crate::cut_proxy::CutProxy;
use crate::machine::{Daemon, Machine, judged, wait_until};
use crate::programs::{IDLE, IMPATIENT, IMPATIENT_LIMIT, INSTANTS, PATIENT, RECORDING, TICKS};
use crate::recordings::EVERYTHING;

/// The environment variable with the number of times that the daemon or a program is killed. The
/// default is 5. In long runs, 50 kills of the daemon take a minute, and 1,000 of a program a minute
/// and a half.
const KILLS: &str = "TRACEZERO_SYSTEM_KILLS";

/// How much more memory the side that lives on may have after the last kill than after a tenth of
/// them, in KiB. After 50 kills of the daemon it was 44, after 1,000 of a program 190.
pub const MORE_KIB: usize = 1024;

/// The size of the shared memory of a connection.
const MEMORY_BYTES: u64 = 4 << 20;

pub fn kills() -> usize {
    env::var(KILLS).map_or(5, |kills| kills.parse().unwrap())
}

/// The time for which the daemon is stopped.
const STOPPED_FOR: Duration = Duration::from_millis(400);

/// Returns an argument of all events with a name.
fn numbers_of(verdict: &Verdict, name: &str, arg: &str) -> Vec<u64> {
    let events = verdict.events_named(name);
    let numbers = events.map(|event| event.args[arg].as_u64().unwrap());
    numbers.collect()
}

/// Checks that the instants of a trace have no gap, and returns their number.
pub fn ticks(trace: &[u8]) -> usize {
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
    let mut program = machine.program(TICKS);
    program.wait_for("connected");
    let kills = kills();
    let mut after_a_tenth = None;
    for round in 0..kills {
        let recording = machine.record(&format!("{round}.pftrace"), EVERYTHING);
        machine.wait_for_producers(1);
        program.wait_for(RECORDING);
        assert!(ticks(&recording.finish()) > 0);
        program.wait_for(IDLE);
        // The program is recording when the daemon dies.
        let cut_off = machine.record("cut off.pftrace", EVERYTHING);
        program.wait_for(RECORDING);
        machine.restart();
        drop(cut_off);
        program.wait_for(IDLE);
        machine.wait_for_producers(1);
        if round == kills / 10 {
            after_a_tenth = Some(program.possessions());
        }
    }
    let now = program.possessions();
    now.check_level(after_a_tenth.unwrap(), MORE_KIB);
    // The thread that records keeps that of the last connection until it records again.
    assert!(program.shared_memory_bytes() <= MEMORY_BYTES);
}

/// Kills a program after a number of events. Returns the number of events that it has reported.
fn kill_after(machine: &Machine, proxy: &CutProxy, run: usize, events: u64) -> u64 {
    let mut program = machine.program_at(&proxy.socket, &run.to_string(), "reports");
    program.wait_for("connected");
    let mut reported = 0;
    let report = |line: &str| line.trim_end().parse::<u64>().ok();
    while reported < events {
        if let Some(index) = report(&program.line("a report")) {
            reported = index + 1;
        }
    }
    // The daemon cannot read the chunks of a writer that it does not know. That is a moment: no
    // thread that records waits for the socket.
    wait_until(|| proxy.writers() > run);
    // The last line may be cut off, and smaller than its number was.
    let rest = program.kill_and_read();
    rest.lines()
        .filter_map(report)
        .fold(reported, |last, it| last.max(it + 1))
}

#[test]
fn what_a_killed_program_has_recorded_is_in_the_trace() {
    let Some(machine) = Machine::start() else {
        return;
    };
    // The proxy cuts nothing, but knows when the daemon knows a writer.
    let proxy = CutProxy::start(machine.file("proxy"), machine.producer_socket(), None);
    let kills = kills();
    // Each recording has a part of the kills, so that its buffer is large enough.
    let runs = Vec::from_iter(0..kills);
    let mut after_a_tenth = None;
    for part in runs.chunks(kills.div_ceil(10).max(5)) {
        let recording = machine.record("killed.pftrace", EVERYTHING);
        // From right after the connection to more than a chunk of events.
        let events_of = |run: usize| (run as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        let reported = part
            .iter()
            .map(|run| kill_after(&machine, &proxy, *run, events_of(*run)));
        let reported: Vec<_> = reported.collect();
        machine.wait_for_producers(0);
        let verdict = judged(&recording.finish());
        let mut recorded: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for event in verdict.events_named("reported") {
            let [run, index] = ["run", "index"].map(|arg| event.args[arg].as_u64().unwrap());
            recorded.entry(run).or_default().push(index);
        }
        for (run, reported) in part.iter().zip(reported) {
            let numbers = recorded.remove(&(*run as u64)).unwrap_or_default();
            let len = numbers.len() as u64;
            assert!(numbers.into_iter().eq(0..len), "run {run}: a gap");
            // The program was killed before the report of an event, or of the part of one.
            assert!(
                (reported..=reported + 1).contains(&len),
                "run {run}: {reported} events reported, {len} in the trace"
            );
        }
        let before = *after_a_tenth.get_or_insert_with(|| machine.possessions());
        machine.check_level(before, MORE_KIB);
    }
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
    let proxy = CutProxy::start(machine.file("proxy"), machine.producer_socket(), None);
    let mut program = machine.program_at(&proxy.socket, "program", "forks");
    program.wait_for("forked");
    wait_until(|| proxy.writers() > 0);
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

/// The figures of a program that has recorded while the daemon was stopped.
struct Run {
    events: u64,
    /// The longest time of an event.
    longest: Duration,
    dropped: u64,
    drop_episodes: u64,
    waited: Duration,
    trace: Vec<u8>,
}

/// Stops the daemon for a while, as a program records at full speed.
fn with_a_stopped_daemon(machine: &Machine, kind: &str, policy: &str) -> Run {
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
    // The daemon has gone on, and soon takes what waits.
    machine.query();
    thread::sleep(Duration::from_millis(50));
    program.go_on();
    let [events, longest_us, dropped, drop_episodes, waited_us] = program.numbers()[..] else {
        panic!("no numbers");
    };
    Run {
        events,
        longest: Duration::from_micros(longest_us),
        dropped,
        drop_episodes,
        waited: Duration::from_micros(waited_us),
        trace: recording.finish(),
    }
}

/// Checks that a trace has gaps, a mark for each loss that the program has counted, and all events
/// that the program has not counted as lost.
#[track_caller]
fn assert_losses_are_marked(run: &Run) {
    let options = Options {
        allow_unreadable_after_loss: true,
        ..Options::default()
    };
    let verdict = judge_with(&run.trace, &ExtraSchema::new(), options).unwrap();
    assert_eq!(verdict.unreadable_packets, 0);
    let numbers: Vec<u64> = numbers_of(&verdict, "fast", "count");
    let pairs = numbers.windows(2);
    let gaps = pairs.filter(|pair| pair[0] + 1 != pair[1]).count();
    let missing = run.events - numbers.len() as u64;
    assert!(missing > 0 && gaps > 0, "nothing was dropped");
    // A packet that starts the state again may be dropped as well, once in each episode.
    let dropped = missing..=missing + run.drop_episodes;
    assert!(
        dropped.contains(&run.dropped),
        "{} packets, {dropped:?}",
        run.dropped
    );
    // For `traced`, the first packet of the sequence comes after a loss as well.
    let of_first = u64::from(Daemon::of_this_run() == Daemon::Traced);
    let marks = verdict.losses.len() as u64 - of_first;
    assert_eq!(marks, run.drop_episodes, "{:?}", verdict.losses);
}

#[test]
fn a_stopped_daemon_delays_no_event_that_may_be_dropped() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let policy = "buffer_exhausted_policy: BUFFER_EXHAUSTED_DROP";
    let run = with_a_stopped_daemon(&machine, "fast", policy);
    // The machine may be busy.
    assert!(run.longest < STOPPED_FOR / 2, "{:?}", run.longest);
    assert_eq!(run.waited, Duration::ZERO);
    assert_losses_are_marked(&run);
}

#[test]
fn a_stopped_daemon_delays_a_thread_until_the_limit() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let run = with_a_stopped_daemon(&machine, IMPATIENT, "");
    // The machine may be busy.
    let limits = IMPATIENT_LIMIT..STOPPED_FOR;
    assert!(limits.contains(&run.longest), "{:?}", run.longest);
    assert!(run.waited >= IMPATIENT_LIMIT, "{:?}", run.waited);
    assert_losses_are_marked(&run);
}

#[test]
fn writers_that_wait_lose_nothing_while_the_daemon_is_stopped() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let policy = "buffer_exhausted_policy: BUFFER_EXHAUSTED_STALL_THEN_DROP";
    let run = with_a_stopped_daemon(&machine, PATIENT, policy);
    assert!(
        run.longest > STOPPED_FOR / 4,
        "no event has waited: {:?}",
        run.longest
    );
    assert!(run.waited > STOPPED_FOR / 4, "{:?}", run.waited);
    assert_eq!((run.dropped, run.drop_episodes), (0, 0));
    let numbers = numbers_of(&judged(&run.trace), "fast", "count");
    assert!(
        numbers.into_iter().eq(0..run.events),
        "{} events",
        run.events
    );
}
