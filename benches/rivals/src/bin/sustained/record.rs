//! One recording: threads in tight loops, and the system's statistics of them.

use std::fmt;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::str::FromStr;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::sdks::{self, FileRecording, Sdk};

/// A text of 16 bytes.
const TEXT: &str = "sixteen bytes ..";

/// The measurements of a recording. It is printed as one line, and parsed from it.
#[derive(Debug, Default)]
pub struct Measurements {
    /// The number of spans that the threads have made.
    pub spans: u64,
    /// The time from the first span to the last.
    pub seconds: f64,
    /// The total time in which threads neither ran nor waited for a core.
    pub blocked_seconds: f64,
    /// The time to stop recording and finish the file.
    pub finishing_seconds: f64,
    /// The peak memory of the process.
    pub peak_memory_kib: u64,
}

/// The measurements of one thread.
struct ThreadMeasurements {
    spans: u64,
    blocked: Duration,
}

pub fn record(sdk: Sdk, threads: usize, seconds: u64, file: &Path) -> Measurements {
    match sdk {
        Sdk::Tracezero => record_with::<sdks::Tracezero>(threads, seconds, file),
        Sdk::Perfetto => record_with::<sdks::PerfettoSdk>(threads, seconds, file),
        Sdk::PerfettoLarge => record_with::<sdks::PerfettoSdkLarge>(threads, seconds, file),
        Sdk::TracingChrome => record_with::<sdks::TracingChrome>(threads, seconds, file),
        Sdk::Fastrace => record_with::<sdks::Fastrace>(threads, seconds, file),
        Sdk::Dial9 => record_with::<sdks::Dial9>(threads, seconds, file),
    }
}

fn record_with<R: FileRecording>(threads: usize, seconds: u64, file: &Path) -> Measurements {
    let recording = R::start(file);
    let all_there = Barrier::new(threads);
    let start = Instant::now();
    let made: Vec<ThreadMeasurements> = thread::scope(|scope| {
        let all_there = &all_there;
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(move || {
                    all_there.wait();
                    make_spans::<R>(Duration::from_secs(seconds))
                })
            })
            .collect();
        let join = |worker: thread::ScopedJoinHandle<'_, ThreadMeasurements>| {
            worker.join().expect("no panic")
        };
        workers.into_iter().map(join).collect()
    });
    let recorded_for = start.elapsed();
    recording.finish();
    Measurements {
        spans: made.iter().map(|made| made.spans).sum(),
        seconds: recorded_for.as_secs_f64(),
        blocked_seconds: made.iter().map(|made| made.blocked.as_secs_f64()).sum(),
        finishing_seconds: (start.elapsed() - recorded_for).as_secs_f64(),
        peak_memory_kib: peak_memory_kib(),
    }
}

fn make_spans<R: FileRecording>(duration: Duration) -> ThreadMeasurements {
    let (start, scheduled) = (Instant::now(), scheduled());
    let mut spans = 0;
    while start.elapsed() < duration {
        R::batch(spans, black_box(TEXT));
        spans += sdks::BATCH;
    }
    ThreadMeasurements {
        spans,
        blocked: start
            .elapsed()
            .saturating_sub(self::scheduled() - scheduled),
    }
}

/// Returns the time in which this thread was running or waiting for a core.
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

impl fmt::Display for Measurements {
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

impl FromStr for Measurements {
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
