//! `service`: what Perfetto's daemon costs, and what the daemon of tracezero costs, with the same producers.
//!
//! `service.sh` builds the programs, and runs this one. Both daemons take turns in each run. The command
//! `perfetto` starts all sessions and takes all traces. A decoder that is not ours counts the spans.

mod raw_producer; // a producer that commits chunks by itself
mod load; // producers at full speed
mod latency; // from a commit until its chunk is free
mod idle; // many producers, and nobody writes

use std::env;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use rivals::daemons::Programs;
use rivals::programs::with_folder;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Measures, and prints a table.
type Table = fn(runs: usize, programs: &Programs, scratch: &Path) -> Result<()>;

const TABLES: [(&str, Table); 3] = [
    ("load", load::table),
    ("latency", latency::table),
    ("idle", idle::table),
];

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

fn measure(runs: usize, names: &[&str]) -> Result<()> {
    let known = TABLES.map(|(name, _)| name);
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        let known = known.join(", ");
        return Err(format!("{name}: not a table; the tables are {known}").into());
    }
    let programs = Programs::of_environment()?;
    println!("Medians of {runs} runs.");
    with_folder(&env::temp_dir(), "service", |scratch| {
        for (name, table) in TABLES {
            if names.is_empty() || names.contains(&name) {
                table(runs, &programs, scratch)?;
            }
        }
        Ok(())
    })
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
