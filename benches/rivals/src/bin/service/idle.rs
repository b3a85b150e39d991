//! The cost of many producers that write nothing.

use std::env;
use std::io;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rivals::daemons::{Daemon, Kind, Programs, end_session};
use rivals::usage::{Memory, processor_time, wakeups};

use crate::raw_producer::RawProducer;
use crate::{Result, median};

const PRODUCERS: u64 = 200;
const WATCHED: Duration = Duration::from_secs(20);
/// The time in which a daemon may finish what connections and sessions begin.
const SETTLES: Duration = Duration::from_secs(2);
const DATA_SOURCE: &str = "bench.idle";
/// The argument of producers that expect a session.
pub const SESSION: &str = "session";

const CONFIG: &str = r#"
    buffers { size_kb: 4096 fill_policy: RING_BUFFER }
    data_sources { config { name: "bench.idle" } }
"#;

/// The processor time, wake-ups and memory of an idle daemon.
#[derive(Clone, Copy, Debug)]
struct Taken {
    processor: f64,
    wakeups_per_s: f64,
    resident_kib: f64,
    virtual_kib: f64,
}

/// Prints the table.
pub fn table(runs: usize, programs: &Programs, scratch: &Path) -> Result<()> {
    println!(
        "\n{PRODUCERS} producers that write nothing, for {} s.\n",
        WATCHED.as_secs()
    );
    println!(
        "| session | daemon | of a core | wake-ups per s | resident per producer | virtual per producer |"
    );
    println!("|---|---|---|---|---|---|");
    for has_session in [false, true] {
        let mut taken = Kind::ALL.map(|kind| (kind, Vec::new()));
        for _ in 0..runs {
            for (kind, taken) in &mut taken {
                taken.push(measure(*kind, has_session, programs, scratch)?);
            }
        }
        for (kind, taken) in &taken {
            let of = |field: fn(&Taken) -> f64| median(taken.iter().map(field));
            println!(
                "| {} | {} | {:.4} % | {:.2} | {:.1} KiB | {:.1} KiB |",
                if has_session {
                    "records all of them"
                } else {
                    "none"
                },
                kind.name(),
                100.0 * of(|taken| taken.processor),
                of(|taken| taken.wakeups_per_s),
                of(|taken| taken.resident_kib),
                of(|taken| taken.virtual_kib),
            );
        }
    }
    Ok(())
}

fn measure(kind: Kind, has_session: bool, programs: &Programs, scratch: &Path) -> Result<Taken> {
    let daemon = Daemon::start(kind, programs, scratch)?;
    // The session begins before the first measurement of memory, so that its trace buffer is part
    // of both measurements.
    let session = has_session.then(|| daemon.session(CONFIG)).transpose()?;
    thread::sleep(SETTLES);
    let before = Memory::of(daemon.id())?;
    let mut command = Command::new(env::current_exe()?);
    let expects = if has_session { SESSION } else { "nothing" };
    command.args(["connect", &PRODUCERS.to_string(), expects]);
    let mut producers = daemon.producer(&mut command, "the producers")?;
    producers.line("started")?;
    thread::sleep(SETTLES);
    let memory = Memory::of(daemon.id())?;
    let (time, count) = (processor_time(daemon.id())?, wakeups(daemon.id())?);
    thread::sleep(WATCHED);
    let taken = processor_time(daemon.id())? - time;
    let count = wakeups(daemon.id())? - count;
    producers.go_on()?;
    producers.wait()?;
    session.map_or(Ok(()), end_session)?;
    let per_producer = |now: u64, before: u64| (now as f64 - before as f64) / PRODUCERS as f64;
    Ok(Taken {
        processor: taken.as_secs_f64() / WATCHED.as_secs_f64(),
        wakeups_per_s: count as f64 / WATCHED.as_secs_f64(),
        resident_kib: per_producer(memory.resident_kib, before.resident_kib),
        virtual_kib: per_producer(memory.virtual_kib, before.virtual_kib),
    })
}

/// Connects all producers, and keeps them connected until a line comes on the standard input.
pub fn connect(producers: usize, expects_session: bool) -> Result<()> {
    let mut producers = (0..producers)
        .map(|_| RawProducer::connect(DATA_SOURCE))
        .collect::<Result<Vec<_>>>()?;
    if expects_session {
        for producer in &mut producers {
            producer.wait_until_started()?;
        }
    }
    println!("started");
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}
