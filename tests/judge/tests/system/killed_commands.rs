//! Commands that are killed, producers that are stopped, and a daemon that is asked to end.

use std::io::Read as _;

use judge::{ExtraSchema, Options, judge_with};
use rustix::process::{Pid, Signal, kill_process};

use crate::machine::{Daemon, Machine, judged, wait_until};
use crate::programs::{IDLE, RECORDING, SPANS, TICKS};
use crate::recordings::EVERYTHING;
use crate::restarts::ticks;
use crate::running::Program;

/// The amount by which the daemon's memory may grow while commands are killed, in KiB. The buffer of
/// each session is larger.
const MORE_KIB: usize = 8 * 1024;

/// Short timeouts, since a producer does not answer.
const SHORT: &str = "flush_timeout_ms: 200 data_source_stop_timeout_ms: 200";

/// Waits until the session of a killed command is gone, and checks that the next one is exact. The
/// program is idle.
#[track_caller]
fn check_after_kill(machine: &Machine, program: &mut Program) {
    wait_until(|| machine.has_sessions(0));
    machine.wait_for_producers(1);
    let recording = machine.record("next", EVERYTHING);
    program.wait_for(RECORDING);
    assert!(ticks(&recording.finish()) > 0);
    program.wait_for(IDLE);
}

#[test]
fn a_killed_command_leaves_no_session_in_any_phase() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let mut program = machine.program(TICKS);
    program.wait_for("connected");
    check_after_kill(&machine, &mut program);
    let before = machine.possessions();

    let triggers = r#"trigger_config {
        trigger_mode: START_TRACING trigger_timeout_ms: 60000 triggers { name: "a" }
    }"#;
    let configured = machine.record("configured", &format!("{EVERYTHING} {triggers}"));
    machine.wait_for_session("CONFIGURED");
    configured.kill();
    check_after_kill(&machine, &mut program);

    let started = machine.record("started", EVERYTHING);
    program.wait_for(RECORDING);
    started.kill();
    program.wait_for(IDLE);
    check_after_kill(&machine, &mut program);

    // The flush waits for the program.
    let flushing = machine.record("flushing", EVERYTHING);
    program.wait_for(RECORDING);
    program.stop();
    flushing.signal(Signal::INT);
    wait_until(|| flushing.said(|line| line.contains("disabling tracing")));
    flushing.kill();
    wait_until(|| machine.has_sessions(0));
    program.signal(Signal::CONT);
    program.wait_for(IDLE);
    check_after_kill(&machine, &mut program);

    // The stop waits for the program.
    let config = format!("{EVERYTHING} flush_timeout_ms: 100");
    let stopping = machine.record("stopping", &config);
    program.wait_for(RECORDING);
    program.stop();
    stopping.signal(Signal::INT);
    machine.wait_for_session("STOP_WAIT");
    stopping.kill();
    wait_until(|| machine.has_sessions(0));
    program.signal(Signal::CONT);
    program.wait_for(IDLE);
    check_after_kill(&machine, &mut program);

    machine.check_level(before, MORE_KIB);
}

#[test]
fn a_command_that_is_killed_as_it_reads_leaves_no_session() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let args = ["--txt", "-c", "-", "-o", "-"];
    let mut perfetto = machine.perfetto_with(&args, EVERYTHING.as_bytes());
    let mut program = machine.program("laps");
    program.wait_for("done");
    let before = machine.possessions();
    kill_process(Pid::from_child(&perfetto), Signal::INT).unwrap();
    // The pipe is full long before the command has read everything.
    let mut trace = perfetto.stdout.take().unwrap();
    trace.read_exact(&mut [0]).unwrap();
    assert!(perfetto.try_wait().unwrap().is_none());
    perfetto.kill().unwrap();
    perfetto.wait().unwrap();
    wait_until(|| machine.has_sessions(0));
    // The daemon had filled a buffer before.
    machine.check_level(before, 0);
    program.go_on();
    program.wait();
}

/// A flush and a stop fail after their times. Both are counted, and the other producer's data are
/// whole.
#[test]
fn a_stopped_producer_delays_the_end_for_a_while() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let mut stopped = machine.program_called("stopped", TICKS);
    stopped.wait_for("connected");
    let mut program = machine.program("spans");
    let recording = machine.record("stopped", &format!("{EVERYTHING} {SHORT}"));
    program.wait_for("done");
    stopped.wait_for(RECORDING);
    stopped.stop();
    let trace = recording.finish();
    let verdict = judged(&trace);
    assert_eq!(verdict.events_named("work").count() as u64, 3 * SPANS);
    let stats = verdict.trace_stats.as_ref().unwrap();
    assert!(stats.flushes_failed() >= 1, "{stats:?}");
    machine.wait_for_producers(2);
    program.go_on();
    program.wait();
    stopped.signal(Signal::CONT);
    stopped.wait_for(IDLE);
    check_after_kill(&machine, &mut stopped);
}

/// `traced` ends at once, and leaves a file without what it has not written.
#[test]
fn a_daemon_that_is_asked_to_end_completes_its_files() {
    if Daemon::of_this_run() == Daemon::Traced {
        return;
    }
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let mut program = machine.program("spans");
    // The file would be written much later.
    let config = format!("{EVERYTHING} write_into_file: true file_write_period_ms: 600000");
    let recording = machine.record("file", &config);
    program.wait_for("done");
    machine.signal(Signal::TERM);
    assert!(machine.wait_for_end().success());
    let trace = recording.wait();
    let options = Options::default();
    let verdict = judge_with(&trace, &ExtraSchema::new(), options).unwrap();
    assert_eq!(verdict.events_named("work").count() as u64, 3 * SPANS);
    assert!(verdict.losses.is_empty());
    for socket in ["producer", "consumer"] {
        assert!(!machine.file(socket).exists(), "{socket}");
    }
    program.go_on();
    program.wait();
}
