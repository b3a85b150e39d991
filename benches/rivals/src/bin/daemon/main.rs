//! `daemon`: how many spans of tight loops can be read in a trace that Perfetto's daemon records.
//!
//! `daemon.sh` builds the programs, and runs this one. A decoder that is not ours counts the spans.
//! The trace processor counts those that have ended, if `PERFETTO_BIN` has it. It must not find more.

mod producer; // the program that records
mod recording; // one recording

use std::env;
use std::error::Error;
use std::path::Path;

use rivals::daemons::Programs;
use rivals::programs::with_folder;
use rivals::recorders::{Policy, Recorder, Sdk};

use recording::{Outcome, Plan};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The number of spans of all threads together.
const SPANS: u64 = 1_000_000;

const HEAD: &str = "\
| policy | threads | state cleared | SDK | ns per span and thread | waited | in the file | readable | of the file, least | losses marked | gaps | counted |
|---|---|---|---|---|---|---|---|---|---|---|---|";

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match &arguments[..] {
        ["record", sdk, threads, spans, memory @ ..] => {
            let kib = memory.first().map(|kib| kib.parse()).transpose()?;
            producer::record(sdk.parse()?, threads.parse()?, spans.parse()?, kib)
        }
        [runs] => table(runs.parse()?),
        _ => Err("usage: daemon RUNS".into()),
    }
}

fn table(runs: usize) -> Result<()> {
    let programs = Programs::of_environment()?;
    println!("{SPANS} spans, median of {runs} runs.\n\n{HEAD}");
    with_folder(&env::temp_dir(), "daemon", |scratch| {
        for plan in plans() {
            if plan.recorder.sdk != Sdk::Cpp || programs.cpp_producer.is_some() {
                println!("{}", row(&plan, runs, &programs, scratch)?);
            }
        }
        Ok(())
    })
}

/// Returns all rows of the table.
fn plans() -> impl Iterator<Item = Plan> {
    // Cleared state is what makes a trace with losses readable again, for the other SDKs.
    let cases = [
        (Policy::Drop, 1, 0),
        (Policy::Drop, 2, 0),
        (Policy::Drop, 1, 100),
        (Policy::Drop, 2, 100),
        (Policy::Wait, 1, 0),
        (Policy::Wait, 2, 0),
        (Policy::Default, 1, 0),
        (Policy::Default, 2, 0),
    ];
    cases
        .into_iter()
        .flat_map(|(policy, threads, clear_period_ms)| {
            let sdks = Sdk::ALL.into_iter().filter(move |sdk| sdk.can(policy));
            sdks.map(move |sdk| Plan {
                recorder: Recorder {
                    sdk,
                    policy,
                    threads,
                    spans: SPANS / threads as u64,
                },
                clear_period_ms,
            })
        })
}

fn row(plan: &Plan, runs: usize, programs: &Programs, scratch: &Path) -> Result<String> {
    let mut outcomes = (0..runs)
        .map(|_| plan.run(programs, scratch))
        .collect::<Result<Vec<Outcome>>>()?;
    for Outcome { spans, slices, .. } in &outcomes {
        let decodable = spans.decodable_begins.min(spans.decodable_ends);
        if slices.is_some_and(|slices| slices > decodable) {
            return Err(format!("{slices:?} slices, but {decodable} can be decoded").into());
        }
    }
    let share = |outcome: &Outcome| {
        100.0 * outcome.spans.decodable_begins as f64 / outcome.spans.begins.max(1) as f64
    };
    let least = outcomes.iter().map(share).fold(f64::INFINITY, f64::min);
    outcomes.sort_by_key(|outcome| outcome.spans.decodable_begins);
    let outcome = &outcomes[outcomes.len() / 2];
    let (waited, counted) = match outcome.own {
        Some((waited, losses)) => (format!("{} ms", waited.as_millis()), losses.to_string()),
        None => ("?".to_owned(), "?".to_owned()),
    };
    let cleared = match plan.clear_period_ms {
        0 => "never".to_owned(),
        period => format!("each {period} ms"),
    };
    Ok(format!(
        "| {} | {} | {cleared} | `{}` | {} | {waited} | {} | {} | {least:.1} % | {} | {} | {counted} |",
        plan.recorder.policy.name(),
        plan.recorder.threads,
        plan.recorder.sdk.name(),
        outcome.took.as_nanos() / u128::from(plan.recorder.spans),
        outcome.spans.begins,
        outcome.slices.unwrap_or(outcome.spans.decodable_begins),
        outcome.spans.marked_losses,
        outcome.spans.gaps,
    ))
}
