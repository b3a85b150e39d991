//! A program that records until it ends in one of many ways, and the test that watches it.
//!
//! The program prints a line after each event. A test that reads these lines knows which events
//! were recorded before it sends a signal.

use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use judge::{ExtraSchema, Options, Verdict, judge_with};
use rustix::process::{Pid, Signal, kill_process};
use support::wait_for;
use tracezero::instant;
use tracezero::reader::{Level, check};

use crate::own_process::process;

/// The environment variable with the way in which the program must end.
const MODE: &str = "TRACEZERO_TEST_MODE";

/// The time between events.
const EVENT_PERIOD: Duration = Duration::from_micros(100);

/// Returns the way in which this program must end.
pub fn mode_of_process() -> String {
    env::var(MODE).unwrap_or_default()
}

/// Prints that the session has started.
pub fn say_started() {
    say("started");
}

/// Records an event, and prints its number.
pub fn trace_event(number: u64) {
    instant!("endings", "event", number = number);
    say(&number.to_string());
}

/// Records an event of at least `bytes` bytes, and prints its number.
pub fn trace_large_event(number: u64, bytes: usize) {
    instant!(
        "endings",
        "event",
        number = number,
        filling = "x".repeat(bytes)
    );
    say(&number.to_string());
}

/// Records events until `is_over` returns true.
pub fn trace_until(is_over: impl FnMut(u64) -> bool) {
    call_until(trace_event, is_over);
}

/// Calls `trace` with the number of each event until `is_over` returns true.
pub fn call_until(trace: impl Fn(u64), mut is_over: impl FnMut(u64) -> bool) {
    for number in 1.. {
        if is_over(number) {
            return;
        }
        trace(number);
        thread::sleep(EVENT_PERIOD);
    }
}

/// Prints a line. Does not use `println`, whose output the test harness captures.
fn say(line: &str) {
    // The reader may be gone.
    let _ = io::stdout().write_all(format!("\n{line}\n").as_bytes());
    let _ = io::stdout().flush();
}

/// A running program.
pub struct RunningProgram {
    child: Child,
    path: PathBuf,
    /// The number of the last event that the program has printed.
    traced: Arc<AtomicU64>,
    lines: thread::JoinHandle<()>,
}

/// The result of a program that has ended.
#[derive(Clone, Debug)]
pub struct EndedProgram {
    pub status: ExitStatus,
    /// The lines that the SDK wrote to standard error.
    pub said: Vec<String>,
    pub path: PathBuf,
    /// The number of the last event that the program has printed.
    pub traced: u64,
}

impl RunningProgram {
    /// Runs the ignored test `role` of this executable, and waits until its session has started.
    pub fn start(role: &str, mode: &str, path: &Path) -> Self {
        let mut child = process(role, path)
            .env(MODE, mode)
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let started = lines.find(|line| line.as_ref().is_ok_and(|line| line == "started"));
        assert!(started.is_some(), "{mode}: it ended before it started");
        let traced = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&traced);
        let lines = thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Ok(number) = line.parse() {
                    // Relaxed: a count that orders no other memory.
                    counted.store(number, Ordering::Relaxed);
                }
            }
        });
        Self {
            child,
            path: path.to_owned(),
            traced,
            lines,
        }
    }

    /// Returns the number of the last event that was recorded before now.
    pub fn traced(&self) -> u64 {
        self.traced.load(Ordering::Relaxed)
    }

    /// Sends a signal.
    pub fn send(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until the program has ended.
    pub fn wait(mut self) -> EndedProgram {
        let Some(status) = wait_for(|| self.child.try_wait().unwrap()) else {
            self.child.kill().unwrap();
            panic!("the program hangs");
        };
        self.lines.join().unwrap();
        let said = BufReader::new(self.child.stderr.take().unwrap()).lines();
        let said = said.map(Result::unwrap);
        EndedProgram {
            status,
            said: said.filter(|line| line.contains("tracezero")).collect(),
            path: self.path,
            traced: self.traced.load(Ordering::Relaxed),
        }
    }
}

impl EndedProgram {
    /// Asserts, with a foreign library, that the file has all events up to `last`, and that the
    /// events after it have no gap. Returns the number of events.
    pub fn assert_has_events_until(&self, last: u64) -> u64 {
        let verdict = self.verdict();
        let args = verdict
            .events_named("event")
            .map(|event| &event.args["number"]);
        let numbers: Vec<String> = args.map(|number| format!("{number:?}")).collect();
        let expected = (1..=numbers.len() as u64).map(|number| format!("Uint({number})"));
        assert_eq!(numbers, expected.collect::<Vec<_>>());
        assert!(numbers.len() as u64 >= last, "{} of {last}", numbers.len());
        numbers.len() as u64
    }

    pub fn verdict(&self) -> Verdict {
        let options = Options {
            allow_open_spans: true,
            allow_early_end: true,
            ..Options::default()
        };
        let trace = fs::read(&self.path).unwrap();
        judge_with(&trace, &ExtraSchema::new(), options).unwrap_or_else(|problems| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            panic!("{}", lines.join("\n"))
        })
    }

    /// Returns the errors that the SDK's checker finds in the file.
    pub fn check_errors(&self) -> Vec<String> {
        errors_in(&self.path)
    }

    pub fn signal(&self) -> Option<Signal> {
        self.status.signal().and_then(Signal::from_named_raw)
    }
}

/// Returns the errors that the SDK's checker finds in the file at `path`.
pub fn errors_in(path: &Path) -> Vec<String> {
    let mut errors = Vec::new();
    let file = fs::File::open(path).unwrap();
    check(file, |finding| {
        if finding.level == Level::Error {
            errors.push(finding.text.clone());
        }
    })
    .unwrap();
    errors
}
