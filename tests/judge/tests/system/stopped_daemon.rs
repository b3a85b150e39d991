//! A daemon that is stopped for a while, as on a machine that sleeps.

use std::time::{Duration, Instant};
use std::{env, thread};

use rustix::process::Signal;

use crate::machine::{Machine, judged};
use crate::programs::{RECORDING, TICKS};
use crate::recordings::EVERYTHING;
use crate::restarts::ticks;

/// The environment variable with the time for which the daemon is stopped, in milliseconds. The
/// default is 500.
const STOPPED_MS: &str = "TRACEZERO_SYSTEM_STOPPED_MS";

/// The period of flushes.
const FLUSH_PERIOD: Duration = Duration::from_millis(5);

#[test]
fn timers_do_not_catch_up_after_a_stop() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let stopped_for = env::var(STOPPED_MS).map_or(500, |it| it.parse().unwrap());
    let stopped_for = Duration::from_millis(stopped_for);
    let mut program = machine.program(TICKS);
    program.wait_for("connected");
    let begin = Instant::now();
    let flushes = format!("flush_period_ms: {}", FLUSH_PERIOD.as_millis());
    let recording = machine.record("stopped.pftrace", &format!("{flushes} {EVERYTHING}"));
    program.wait_for(RECORDING);
    machine.signal(Signal::STOP);
    thread::sleep(stopped_for);
    machine.signal(Signal::CONT);
    machine.wait_for_producers(1);
    let trace = recording.finish();
    let recorded_for = begin.elapsed() - stopped_for;
    assert!(ticks(&trace) > 0);
    let verdict = judged(&trace);
    let stats = verdict.trace_stats.as_ref().unwrap();
    // One is for a part of a period, one for the time of the stop, and one for the end.
    let flushes_max = recorded_for.as_millis() / FLUSH_PERIOD.as_millis() + 3;
    let flushes = u128::from(stats.flushes_requested());
    assert!(
        flushes <= flushes_max,
        "{flushes} flushes, {flushes_max} in time"
    );
}
