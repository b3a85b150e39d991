//! The processor time and losses of a recorder, by the rate of switches.

use std::path::Path;

use rivals::daemons::{Kind, Programs};

use crate::session::{BUFFER_KIB, Events, Outcome, record};
use crate::{Result, median, ms};

/// Hand-overs per second; 0 is as many as possible.
const RATES: [(Events, &[u64]); 2] = [
    (Events::Compact, &[10_000, 100_000, 400_000, 0]),
    (Events::Verbose, &[10_000, 100_000, 0]),
];
/// How long the load runs, if its rate is given.
const SECONDS: u64 = 4;
/// The number of hand-overs at full speed.
const COUNT: u64 = 2_000_000;

const HEAD: &str = "\
| events | switches per s, wanted | recorder | switches per s | events in the file | lost in the kernel, worst | packets lost, worst | recorder | in all | per event | daemon | bytes per event |
|---|---|---|---|---|---|---|---|---|---|---|---|";

/// Prints the table.
pub fn table(runs: usize, programs: &Programs, scratch: &Path) -> Result<()> {
    println!("\n{BUFFER_KIB} KiB for each CPU.\n\n{HEAD}");
    for (events, rates) in RATES {
        for &rate in rates {
            let count = if rate == 0 { COUNT } else { rate * SECONDS };
            let mut outcomes = Kind::ALL.map(|kind| (kind, Vec::new()));
            for _ in 0..runs {
                for (kind, outcomes) in &mut outcomes {
                    outcomes.push(record(*kind, events, (rate, count), programs, scratch)?);
                }
            }
            for (kind, outcomes) in &outcomes {
                println!("{}", row(*kind, events, (rate, count), outcomes));
            }
        }
    }
    Ok(())
}

/// Returns a row of the table: the median of each figure.
fn row(kind: Kind, events: Events, (rate, count): (u64, u64), outcomes: &[Outcome]) -> String {
    let of = |figure: &dyn Fn(&Outcome) -> f64| median(outcomes.iter().map(figure));
    let worst = |figure: fn(&Outcome) -> u64| outcomes.iter().map(figure).max().unwrap_or_default();
    let rate = match rate {
        0 => "all".to_owned(),
        _ => rate.to_string(),
    };
    format!(
        "| {} | {rate} | {} | {:.0} | {:.0} | {} | {} | {:.0} ms | {:.0} ms | {:.0} ns | {:.0} ms | {:.2} |",
        events.name(),
        recorder_name(kind),
        of(&|it| count as f64 / it.load.time.as_secs_f64()),
        of(&|it| it.events.events as f64),
        worst(|it| it.events.lost_in_kernel),
        worst(|it| it.events.marked_losses),
        of(&|it| ms(it.recorder)),
        of(&|it| ms(it.recorder_in_all)),
        of(&|it| it.recorder.as_nanos() as f64 / it.events.events as f64),
        of(&|it| ms(it.daemon)),
        of(&|it| it.bytes as f64 / it.events.events as f64),
    )
}

/// Returns the name of a recorder, as tables show it.
pub fn recorder_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Traced => "`traced_probes`",
        Kind::Tracezero => "**`tracezero probes`**",
    }
}
