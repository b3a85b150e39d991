//! `kernel`: what it costs to record the kernel, with Perfetto's `traced_probes` and with ours.
//!
//! `kernel.sh` builds the programs, makes the kernel's tracer accessible, and runs this one. Both recorders take
//! turns in each run, with the same configuration, the same command that starts the session, and the same load. A
//! decoder that is not ours counts the events.

mod switches; // a load that switches threads
mod session; // a recording of the kernel
mod rates; // what a recorder takes, by the rate of switches
mod overhead; // what the load takes

use std::env;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use rivals::daemons::Programs;
use rivals::programs::with_folder;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Measures, and prints a table.
type Table = fn(runs: usize, programs: &Programs, scratch: &Path) -> Result<()>;

const TABLES: [(&str, Table); 2] = [("rates", rates::table), ("overhead", overhead::table)];

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match &arguments[..] {
        // The load: this program starts itself with these arguments.
        ["switches", per_second, count] => switches::run(per_second.parse()?, count.parse()?),
        [runs, tables @ ..] => measure(runs.parse()?, tables),
        [] => Err("usage: kernel RUNS [rates|overhead]..".into()),
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
    with_folder(&env::temp_dir(), "kernel", |scratch| {
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
