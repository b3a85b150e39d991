//! One recording: threads in tight loops, and what the system says of them.

use std::fmt;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::str::FromStr;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::sdks::{self, FileRecording, Sdk};

/// 16 bytes.
const TEXT: &str = "sixteen bytes ..";

/// The figures of a recording. Printed, it is one line, from which it can be parsed.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Spans that threads have made.
    pub spans: u64,
    /// From the first of them to the last.
    pub seconds: f64,
    /// How long threads neither ran nor waited for a core, in sum.
    pub blocked_seconds: f64,
    /// How long it took to stop recording and finish the file.
    pub finishing_seconds: f64,
    /// The most memory that the process ever had.
    pub peak_memory_kib: u64,
}

/// The figures of one thread.
struct Made {
    spans: u64,
    blocked: Duration,
}

pub fn record(sdk: Sdk, threads: usize, seconds: u64, file: &Path) -> Recorded {
    match sdk {
        Sdk::Tracezero => record_with::<sdks::Tracezero>(threads, seconds, file),
        Sdk::PerfettoSdk => record_with::<sdks::PerfettoSdk>(threads, seconds, file),
        Sdk::PerfettoSdkLarge => record_with::<sdks::PerfettoSdkLarge>(threads, seconds, file),
        Sdk::TracingChrome => record_with::<sdks::TracingChrome>(threads, seconds, file),
        Sdk::Fastrace => record_with::<sdks::Fastrace>(threads, seconds, file),
        Sdk::Dial9 => record_with::<sdks::Dial9>(threads, seconds, file),
    }
}

fn record_with<R: FileRecording>(threads: usize, seconds: u64, file: &Path) -> Recorded {
    let recording = R::start(file);
    let all_there = Barrier::new(threads);
    let start = Instant::now();
    let made: Vec<Made> = thread::scope(|scope| {
        let all_there = &all_there;
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(move || {
                    all_there.wait();
                    make_spans::<R>(Duration::from_secs(seconds))
                })
            })
            .collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Made>| worker.join().expect("no panic");
        workers.into_iter().map(join).collect()
    });
    let recorded_for = start.elapsed();
    recording.finish();
    Recorded {
        spans: made.iter().map(|made| made.spans).sum(),
        seconds: recorded_for.as_secs_f64(),
        blocked_seconds: made.iter().map(|made| made.blocked.as_secs_f64()).sum(),
        finishing_seconds: (start.elapsed() - recorded_for).as_secs_f64(),
        peak_memory_kib: peak_memory_kib(),
    }
}

fn make_spans<R: FileRecording>(duration: Duration) -> Made {
    let (start, scheduled) = (Instant::now(), scheduled());
    let mut spans = 0;
    while start.elapsed() < duration {
        R::batch(spans, black_box(TEXT));
        spans += sdks::BATCH;
    }
    Made {
        spans,
        blocked: start
            .elapsed()
            .saturating_sub(self::scheduled() - scheduled),
    }
}

/// How long this thread has been running, or waiting for a core.
fn scheduled() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("statistics of the thread");
    let times = text.split_whitespace().take(2);
    times
        .map(|ns| Duration::from_nanos(ns.parse().expect("nanoseconds")))
        .sum()
}

fn peak_memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the process's status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|kib| kib.parse().ok()).expect("the peak")
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} {} {}",
            self.spans,
            self.seconds,
            self.blocked_seconds,
            self.finishing_seconds,
            self.peak_memory_kib
        )
    }
}

impl FromStr for Recorded {
    type Err = Box<dyn std::error::Error>;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let words: Vec<_> = line.split_whitespace().collect();
        let [spans, seconds, blocked, finishing, peak] = &words[..] else {
            return Err(format!("not the line of a recording: {line}").into());
        };
        Ok(Self {
            spans: spans.parse()?,
            seconds: seconds.parse()?,
            blocked_seconds: blocked.parse()?,
            finishing_seconds: finishing.parse()?,
            peak_memory_kib: peak.parse()?,
        })
    }
}
