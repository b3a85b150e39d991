//! The processor time of a load while somebody records it, compared with the same load unrecorded.

use std::path::Path;
use std::thread;
use std::time::Duration;

use rivals::daemons::{Kind, Programs};
use rivals::programs::Running;
use rivals::usage::processor_time;

use crate::rates::recorder_name;
use crate::session::{Events, record};
use crate::switches::{self, Taken};
use crate::{Result, median, ms};

/// Loads: hand-overs per second, where 0 is as many as possible, and hand-overs in all.
const LOADS: [(u64, u64); 2] = [(100_000, 400_000), (0, 2_000_000)];

const HEAD: &str = "\
| switches per s, wanted | recorded by | switches per s | load, time per switch | load, processor time per switch | recorder and daemon |
|---|---|---|---|---|---|";

/// The recorder of the load.
#[derive(Clone, Copy, Debug)]
enum By {
    Nobody,
    Daemon(Kind),
    /// The command `tracezero record --kernel sched`, which is daemon and recorder.
    Command,
}

/// Prints the table.
pub fn table(runs: usize, programs: &Programs, scratch: &Path) -> Result<()> {
    println!("\n{HEAD}");
    for load in LOADS {
        let all = [
            By::Nobody,
            By::Daemon(Kind::Traced),
            By::Daemon(Kind::Tracezero),
            By::Command,
        ];
        let mut outcomes = all.map(|by| (by, Vec::new()));
        for _ in 0..runs {
            for (by, outcomes) in &mut outcomes {
                outcomes.push(by.run(load, programs, scratch)?);
            }
        }
        for (by, outcomes) in &outcomes {
            println!("{}", by.row(load, outcomes));
        }
    }
    Ok(())
}

impl By {
    /// Returns what the load takes, and the processor time of those who record.
    fn run(
        self,
        load: (u64, u64),
        programs: &Programs,
        scratch: &Path,
    ) -> Result<(Taken, Duration)> {
        match self {
            Self::Nobody => {
                let mut running =
                    Running::start(&mut switches::command(load.0, load.1)?, "the load")?;
                let taken = switches::let_run(&mut running)?;
                running.go_on()?;
                running.wait()?;
                Ok((taken, Duration::ZERO))
            }
            Self::Daemon(kind) => {
                let outcome = record(kind, Events::SchedGroup, load, programs, scratch)?;
                Ok((outcome.load, outcome.recorder + outcome.daemon))
            }
            Self::Command => {
                let mut command = programs.tracezero()?;
                command.args(["record", "--kernel", "sched", "--buffer", "1gb", "-o"]);
                command.arg(scratch.join("recording")).arg("--");
                let load = switches::command(load.0, load.1)?;
                command.arg(load.get_program()).args(load.get_args());
                let mut running = Running::start(&mut command, "tracezero record")?;
                let before = processor_time(running.id())?;
                let taken = switches::let_run(&mut running)?;
                thread::sleep(Duration::from_millis(200));
                let after = processor_time(running.id())?;
                running.go_on()?;
                running.wait()?;
                Ok((taken, after - before))
            }
        }
    }

    /// Returns a row of the table: the median of each figure.
    fn row(self, (rate, count): (u64, u64), outcomes: &[(Taken, Duration)]) -> String {
        let of = |figure: &dyn Fn(&(Taken, Duration)) -> f64| median(outcomes.iter().map(figure));
        let per_switch = |time: Duration| time.as_nanos() as f64 / count as f64;
        let rate = match rate {
            0 => "all".to_owned(),
            _ => rate.to_string(),
        };
        format!(
            "| {rate} | {} | {:.0} | {:.0} ns | {:.0} ns | {:.0} ms |",
            match self {
                Self::Nobody => "nobody",
                Self::Daemon(kind) => recorder_name(kind),
                Self::Command => "**`tracezero record --kernel`**",
            },
            of(&|(taken, _)| count as f64 / taken.time.as_secs_f64()),
            of(&|(taken, _)| per_switch(taken.time)),
            of(&|(taken, _)| per_switch(taken.processor)),
            of(&|(_, recording)| ms(*recording)),
        )
    }
}
