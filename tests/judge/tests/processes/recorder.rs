//! A program that records until it ends in one of many ways, and whoever watches it.
//!
//! The program writes a line for each event that it has traced. So whoever reads these lines knows of
//! events that were traced before it sends a signal.

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

/// Says how the program is to end.
const MODE: &str = "TRACEZERO_TEST_MODE";

/// How far apart events are.
const EVENT_PERIOD: Duration = Duration::from_micros(100);

/// What the program is told to do.
pub fn mode_of_process() -> String {
    env::var(MODE).unwrap_or_default()
}

/// Says that the session has started.
pub fn say_started() {
    say("started");
}

/// Traces an event, and says so.
pub fn trace_event(number: u64) {
    instant!("endings", "event", number = number);
    say(&number.to_string());
}

/// Traces an event of at least so many bytes, and says so.
pub fn trace_large_event(number: u64, bytes: usize) {
    instant!(
        "endings",
        "event",
        number = number,
        filling = "x".repeat(bytes)
    );
    say(&number.to_string());
}

/// Traces events until `is_over`.
pub fn trace_until(is_over: impl FnMut(u64) -> bool) {
    call_until(trace_event, is_over);
}

/// Calls `trace` with the number of each event until `is_over`.
pub fn call_until(trace: impl Fn(u64), mut is_over: impl FnMut(u64) -> bool) {
    for number in 1.. {
        if is_over(number) {
            return;
        }
        trace(number);
        thread::sleep(EVENT_PERIOD);
    }
}

/// Writes a line. Not by `println`, which the test harness shares.
fn say(line: &str) {
    // Nobody may be left to read it.
    let _ = io::stdout().write_all(format!("\n{line}\n").as_bytes());
    let _ = io::stdout().flush();
}

/// A program that runs.
pub struct Running {
    child: Child,
    path: PathBuf,
    /// The number of the last event that it is known to have traced.
    traced: Arc<AtomicU64>,
    lines: thread::JoinHandle<()>,
}

/// What is left of a program.
#[derive(Clone, Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// Lines of the SDK on standard error.
    pub said: Vec<String>,
    pub path: PathBuf,
    /// Events that were traced, as far as the program came to say so.
    pub traced: u64,
}

impl Running {
    /// Runs the test `role` of this executable, and waits until its session has started.
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
                    // Relaxed: a count, ordered with nothing.
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

    /// The number of the last event that was traced before now.
    pub fn traced(&self) -> u64 {
        self.traced.load(Ordering::Relaxed)
    }

    /// Sends a signal.
    pub fn send(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until it has ended.
    pub fn wait(mut self) -> Ended {
        let Some(status) = wait_for(|| self.child.try_wait().unwrap()) else {
            self.child.kill().unwrap();
            panic!("the program hangs");
        };
        self.lines.join().unwrap();
        let said = BufReader::new(self.child.stderr.take().unwrap()).lines();
        let said = said.map(Result::unwrap);
        Ended {
            status,
            said: said.filter(|line| line.contains("tracezero")).collect(),
            path: self.path,
            traced: self.traced.load(Ordering::Relaxed),
        }
    }
}

impl Ended {
    /// Asserts that the file has all events up to this number, and goes on without a gap, by the word of
    /// a foreign library. Returns how many there are.
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

    /// What the checker calls errors.
    pub fn check_errors(&self) -> Vec<String> {
        errors_in(&self.path)
    }

    pub fn signal(&self) -> Option<Signal> {
        self.status.signal().and_then(Signal::from_named_raw)
    }
}

/// What the checker calls errors in the file at `path`.
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
