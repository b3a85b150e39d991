//! `service`: what Perfetto's daemon costs, and what the daemon of tracezero costs, with the same producers.
//!
//! `service.sh` builds the programs, and runs this one. Both daemons take turns in each run. The command
//! `perfetto` starts all sessions and takes all traces. A decoder that is not ours counts the spans.

mod usage; // processor time, memory and wake-ups of a process
mod raw_producer; // a producer that commits chunks by itself
mod load; // producers at full speed
mod latency; // from a commit until its chunk is free
mod idle; // many producers, and nobody writes

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rivals::daemons::Programs;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match &arguments[..] {
        // The programs that this one starts.
        ["commit", commits] => latency::commit(commits.parse()?),
        ["connect", producers, expects] => {
            idle::connect(producers.parse()?, *expects == idle::SESSION)
        }
        [runs, tables @ ..] => measure(runs.parse()?, tables),
        [] => Err("usage: service RUNS [load|latency|idle]..".into()),
    }
}

fn measure(runs: usize, tables: &[&str]) -> Result<()> {
    let programs = Programs::of_environment()?;
    let scratch = env::temp_dir().join(format!("service-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    println!("Medians of {runs} runs.");
    let done = tables_in(&scratch, runs, tables, &programs);
    fs::remove_dir_all(&scratch)?;
    done
}

fn tables_in(scratch: &Path, runs: usize, tables: &[&str], programs: &Programs) -> Result<()> {
    let is_wanted = |table| tables.is_empty() || tables.contains(&table);
    if is_wanted("load") {
        load::table(runs, programs, scratch)?;
    }
    if is_wanted("latency") {
        latency::table(runs, programs, scratch)?;
    }
    if is_wanted("idle") {
        idle::table(runs, programs, scratch)?;
    }
    Ok(())
}

/// Returns the median.
fn median<T: Copy + PartialOrd>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_by(|one, other| one.partial_cmp(other).expect("figures are comparable"));
    values[values.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
