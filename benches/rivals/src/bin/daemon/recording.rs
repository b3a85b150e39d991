//! One recording: a daemon, a program that records, and the command that takes the trace.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rivals::daemons::{Daemon, Kind, Programs, end_session};
use rivals::perfetto_trace::Spans;
use rivals::recorders::{MEMORY_KIB, Policy, Recorder};

use crate::Result;

/// A recording to make.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub recorder: Recorder,
    /// The period at which the daemon makes writers clear their incremental state, in ms; 0 for never.
    pub clear_period_ms: u32,
}

/// The figures of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The time of the slowest thread.
    pub took: Duration,
    pub spans: Spans,
    /// The SDK's own figures, if it has them: the time that threads waited, and the number of times
    /// that they lost events.
    pub own: Option<(Duration, u64)>,
    /// The slices that the trace processor finds, if there is one.
    pub slices: Option<u64>,
}

impl Plan {
    fn config(&self) -> String {
        let policy = self.recorder.policy.in_config();
        let memory = match self.recorder.policy {
            Policy::Default => String::new(),
            _ => format!("producers {{ shm_size_kb: {MEMORY_KIB} page_size_kb: 4 }}"),
        };
        // The buffer is so large that nothing is overwritten.
        format!(
            r#"
            buffers {{ size_kb: 1048576 }}
            data_sources {{ config {{
                name: "track_event" {policy}
                track_event_config {{ enabled_categories: "test" }}
            }} }}
            incremental_state_config {{ clear_period_ms: {} }}
            {memory}
            "#,
            self.clear_period_ms
        )
    }

    /// Records, and counts what is in the trace. Files go to `folder`.
    pub fn run(&self, programs: &Programs, folder: &Path) -> Result<Outcome> {
        let daemon = Daemon::start(Kind::Traced, programs, folder)?;
        let mut producer = self.recorder.command(programs)?;
        let mut producer = daemon.producer(&mut producer, "the producer")?;
        let session = daemon.session(&self.config())?;
        producer.line("started")?;
        let figures = producer.line("done")?;
        end_session(session)?;
        producer.go_on()?;
        producer.wait()?;

        let figures: Vec<u64> = figures
            .split_ascii_whitespace()
            .map(str::parse)
            .collect::<std::result::Result<_, _>>()?;
        let (&took_ns, own) = figures.split_first().ok_or("no figures")?;
        let own = match own {
            [waited_ns, losses] => Some((Duration::from_nanos(*waited_ns), *losses)),
            _ => None,
        };
        Ok(Outcome {
            took: Duration::from_nanos(took_ns),
            spans: Spans::of_file(&daemon.trace())?,
            own,
            slices: slices(programs, &daemon.trace())?,
        })
    }
}

/// Counts the finished slices by the trace processor, if the folder has it.
fn slices(programs: &Programs, trace: &Path) -> Result<Option<u64>> {
    let program = programs.perfetto.join("trace_processor_shell");
    if !program.exists() {
        return Ok(None);
    }
    let query = trace.with_extension("sql");
    fs::write(
        &query,
        "select count(*) as slices from slice where name = 'work' and dur >= 0;",
    )?;
    let output = Command::new(program)
        .arg("-q")
        .arg(&query)
        .arg(trace)
        .output()?;
    let output = String::from_utf8(output.stdout)?;
    let slices = output.lines().last().ok_or("no slices")?.parse()?;
    Ok(Some(slices))
}
