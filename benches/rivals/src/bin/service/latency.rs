//! The time from a commit until its chunk is free.

use std::env;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rivals::daemons::{Daemon, Kind, Programs, end_session};
use rivals::recorders::{Policy, Recorder, Sdk};

use crate::raw_producer::RawProducer;
use crate::{Result, median, us};

const COMMITS: usize = 10_000;
/// A program that records at full speed for longer than the measurement takes.
const FLOOD: Recorder = Recorder {
    sdk: Sdk::Tracezero,
    policy: Policy::Wait,
    threads: 1,
    spans: 1_000_000_000_000,
};
const DATA_SOURCE: &str = "bench.commits";

const CONFIG: &str = r#"
    buffers { size_kb: 65536 fill_policy: RING_BUFFER }
    buffers { size_kb: 65536 fill_policy: RING_BUFFER }
    data_sources { config { name: "bench.commits" target_buffer: 0 } }
    data_sources { config {
        name: "track_event" target_buffer: 1
        buffer_exhausted_policy: BUFFER_EXHAUSTED_STALL_THEN_DROP
    } }
    producers { shm_size_kb: 256 page_size_kb: 4 }
"#;

/// The times of the commits of one recording.
#[derive(Clone, Copy, Debug)]
struct Times {
    median: Duration,
    percentile_99: Duration,
    longest: Duration,
}

/// Prints the table.
pub fn table(runs: usize, programs: &Programs, scratch: &Path) -> Result<()> {
    println!("\nFrom a commit until its chunk of 4 KiB is free, {COMMITS} commits.\n");
    println!("| beside | daemon | median | 99th percentile | longest |\n|---|---|---|---|---|");
    for is_flooded in [false, true] {
        let mut times = Kind::ALL.map(|kind| (kind, Vec::new()));
        for _ in 0..runs {
            for (kind, times) in &mut times {
                times.push(measure(*kind, is_flooded, programs, scratch)?);
            }
        }
        for (kind, times) in &times {
            let of = |field: fn(&Times) -> Duration| us(median(times.iter().map(field)));
            println!(
                "| {} | {} | {:.1} µs | {:.1} µs | {:.0} µs |",
                if is_flooded {
                    "a producer at full speed"
                } else {
                    "nothing"
                },
                kind.name(),
                of(|times| times.median),
                of(|times| times.percentile_99),
                of(|times| times.longest),
            );
        }
    }
    Ok(())
}

fn measure(kind: Kind, is_flooded: bool, programs: &Programs, scratch: &Path) -> Result<Times> {
    let daemon = Daemon::start(kind, programs, scratch)?;
    let session = daemon.session(CONFIG)?;
    let mut flood = None;
    if is_flooded {
        let mut command = FLOOD.command(programs)?;
        let flood = flood.insert(daemon.producer(&mut command, "the flood")?);
        flood.line("started")?;
    }
    let mut command = Command::new(env::current_exe()?);
    command.args(["commit", &COMMITS.to_string()]);
    let mut producer = daemon.producer(&mut command, "the producer")?;
    let times = producer.line("done")?;
    producer.wait()?;
    drop(flood);
    end_session(session)?;
    let times: Vec<u64> = times
        .split_ascii_whitespace()
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    let [median, percentile_99, longest] = times[..] else {
        return Err("no figures".into());
    };
    Ok(Times {
        median: Duration::from_nanos(median),
        percentile_99: Duration::from_nanos(percentile_99),
        longest: Duration::from_nanos(longest),
    })
}

/// Commits one chunk after the other. Yields while it waits, because the daemon may need the same core.
pub fn commit(commits: usize) -> Result<()> {
    let mut producer = RawProducer::connect(DATA_SOURCE)?;
    producer.wait_until_started()?;
    let mut times = Vec::with_capacity(commits);
    for page_index in (0..producer.page_count()).cycle().take(commits) {
        let place = producer.fill(page_index)?;
        let start = Instant::now();
        producer.commit(place)?;
        while !producer.is_free(page_index) {
            thread::yield_now();
        }
        times.push(start.elapsed().as_nanos());
    }
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!("done {} {} {}", at(0.5), at(0.99), at(1.0));
    Ok(())
}
