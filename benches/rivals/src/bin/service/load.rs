//! Producers at full speed.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rivals::daemons::{Daemon, Kind, Programs, end_session};
use rivals::perfetto_trace::Spans;
use rivals::programs::Running;
use rivals::recorders::{MEMORY_KIB, Policy, Recorder, Sdk};
use rivals::usage::{Memory, processor_time};

use crate::{Result, median, ms};

/// The number of spans of all producers together.
const SPANS: u64 = 2_000_000;
/// The time in which producers connect, so that all of them begin at once.
const CONNECTS: Duration = Duration::from_millis(500);

const HEAD: &str = "\
| producers | policy | trace | daemon | processor, recording | in all | MB | MB per processor s | spans in the trace | readable | lost | lost, at most | M spans per processor s | peak memory | producers took |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// The place of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// A ring, which is read at the end.
    Ring,
    /// A file, which the daemon writes while it records.
    File,
}

/// A recording to make with both daemons.
#[derive(Clone, Copy, Debug)]
struct Plan {
    sdk: Sdk,
    producers: u64,
    policy: Policy,
    output: Output,
}

/// The figures of a recording.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// The daemon's processor time until the last producer was done.
    recording: Duration,
    /// The daemon's processor time until the trace was complete.
    in_all: Duration,
    bytes: u64,
    spans: Spans,
    peak_kib: u64,
    /// The time of the slowest producer.
    took: Duration,
}

/// Prints the table.
pub fn table(runs: usize, programs: &Programs, scratch: &Path) -> Result<()> {
    println!("\n{SPANS} spans, {MEMORY_KIB} KiB of shared memory.\n\n{HEAD}");
    for plan in plans() {
        if plan.sdk == Sdk::Cpp && programs.cpp_producer.is_none() {
            continue;
        }
        let mut outcomes = Kind::ALL.map(|kind| (kind, Vec::new()));
        for _ in 0..runs {
            for (kind, outcomes) in &mut outcomes {
                outcomes.push(plan.run(*kind, programs, scratch)?);
            }
        }
        for (kind, outcomes) in &outcomes {
            println!("{}", plan.row(*kind, outcomes));
        }
    }
    Ok(())
}

fn plans() -> impl Iterator<Item = Plan> {
    let of_sdk = |sdk| [(sdk, 1), (sdk, 4)];
    let producers = [Sdk::Cpp, Sdk::Tracezero].into_iter().flat_map(of_sdk);
    producers.flat_map(|(sdk, producers)| {
        let cases = [
            (Policy::Wait, Output::Ring),
            (Policy::Wait, Output::File),
            (Policy::Drop, Output::Ring),
            (Policy::Drop, Output::File),
        ];
        cases.map(|(policy, output)| Plan {
            sdk,
            producers,
            policy,
            output,
        })
    })
}

impl Plan {
    fn config(&self) -> String {
        let policy = self.policy.in_config();
        let output = match self.output {
            Output::Ring => "",
            Output::File => "write_into_file: true file_write_period_ms: 200",
        };
        format!(
            r#"
            buffers {{ size_kb: 262144 fill_policy: RING_BUFFER }}
            data_sources {{ config {{
                name: "track_event" {policy}
                track_event_config {{ enabled_categories: "test" }}
            }} }}
            producers {{ shm_size_kb: {MEMORY_KIB} page_size_kb: 4 }}
            {output}
            "#
        )
    }

    fn run(&self, kind: Kind, programs: &Programs, scratch: &Path) -> Result<Outcome> {
        let daemon = Daemon::start(kind, programs, scratch)?;
        let recorder = Recorder {
            sdk: self.sdk,
            policy: self.policy,
            threads: 1,
            spans: SPANS / self.producers,
        };
        let mut producers = (0..self.producers)
            .map(|_| daemon.producer(&mut recorder.command(programs)?, "a producer"))
            .collect::<Result<Vec<Running>>>()?;
        thread::sleep(CONNECTS);
        let before = processor_time(daemon.id())?;
        let session = daemon.session(&self.config())?;
        let mut took = Duration::ZERO;
        for producer in &mut producers {
            let figures = producer.line("done")?;
            let took_ns = figures.split_ascii_whitespace().next();
            let took_ns = took_ns.ok_or("no figures")?.parse()?;
            took = took.max(Duration::from_nanos(took_ns));
        }
        let recorded = processor_time(daemon.id())?;
        end_session(session)?;
        let complete = processor_time(daemon.id())?;
        let trace = daemon.trace();
        Ok(Outcome {
            recording: recorded - before,
            in_all: complete - before,
            bytes: fs::metadata(&trace)?.len(),
            spans: Spans::of_file(&trace)?,
            peak_kib: Memory::of(daemon.id())?.peak_kib,
            took,
        })
    }

    /// Returns a row of the table: the median of each figure.
    fn row(&self, kind: Kind, outcomes: &[Outcome]) -> String {
        let of = |figure: fn(&Outcome) -> f64| median(outcomes.iter().map(figure));
        let lost = outcomes.iter().map(|it| SPANS - it.spans.begins);
        let most_lost = lost.clone().max().unwrap_or_default();
        format!(
            "| {} {} | {} | {} | {} | {:.0} ms | {:.0} ms | {:.0} | {:.0} | {} | {} | {} | {} | {:.2} | {:.0} MiB | {:.0} ms |",
            self.producers,
            self.sdk.name(),
            self.policy.name(),
            match self.output {
                Output::Ring => "ring",
                Output::File => "file",
            },
            kind.name(),
            of(|it| ms(it.recording)),
            of(|it| ms(it.in_all)),
            of(|it| it.bytes as f64 / 1e6),
            of(|it| it.bytes as f64 / 1e6 / it.in_all.as_secs_f64()),
            of(|it| it.spans.begins as f64),
            of(|it| it.spans.decodable_begins as f64),
            share(median(lost)),
            share(most_lost),
            of(|it| it.spans.begins as f64 / 1e6 / it.in_all.as_secs_f64()),
            of(|it| it.peak_kib as f64 / 1024.0),
            of(|it| ms(it.took)),
        )
    }
}

/// Writes a number of spans as a share of all.
fn share(spans: u64) -> String {
    match spans {
        0 => "0".to_owned(),
        _ => format!("{:.1} %", 100.0 * spans as f64 / SPANS as f64),
    }
}
