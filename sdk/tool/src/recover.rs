//! Makes traces of the crash files of processes.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tracezero_crash::{
    Leftover, LivingProcess, RecoverError, RecoveredTrace, default_directory, leftovers, living,
};

use crate::Outcome;
use crate::error::ToolError;
use crate::output::{file_of_session, stdout};
use crate::table::Table;
use crate::units::{bytes, duration, plural};

/// Makes traces of what killed processes left behind
///
/// A process that records with crash files (`TraceConfig::crash_safe`) and is killed leaves a folder.
/// The trace of each session in it has every packet that was finished, and the counts of those that
/// were lost. Folders of processes that still run are passed over.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: tracezero recover --delete -o traces/\n\nExit status: 1 if crash files are \
                  damaged: what is sound is in the trace."
)]
pub(crate) struct Args {
    /// Folders of processes, or directories with such folders [default: the directory for crash
    /// files of this user]
    folders: Vec<PathBuf>,
    /// The directory for traces, or the trace file if there is only one session [default: .]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// List what was left behind, and write nothing
    #[arg(long, conflicts_with_all = ["output", "delete"])]
    list: bool,
    /// Remove the crash files of each process whose traces were written
    #[arg(long)]
    delete: bool,
    /// Take copies of what processes record that still run, instead
    #[arg(long, conflicts_with = "delete")]
    live: bool,
}

/// A process that recorded, or still records.
enum Found {
    Dead(Leftover),
    Living(LivingProcess),
}

impl Found {
    fn path(&self) -> &Path {
        match self {
            Self::Dead(process) => process.path(),
            Self::Living(process) => process.path(),
        }
    }

    fn process_name(&self) -> &str {
        match self {
            Self::Dead(process) => process.process_name(),
            Self::Living(process) => process.process_name(),
        }
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Dead(process) => process.pid(),
            Self::Living(process) => process.pid(),
        }
    }

    fn started(&self) -> SystemTime {
        match self {
            Self::Dead(process) => process.started(),
            Self::Living(process) => process.started(),
        }
    }

    fn session_count(&self) -> usize {
        match self {
            Self::Dead(process) => process.session_count(),
            Self::Living(process) => process.session_count(),
        }
    }

    fn is_of_earlier_boot(&self) -> bool {
        matches!(self, Self::Dead(process) if process.is_of_earlier_boot())
    }

    /// Writes the only trace into `file`, or all traces into `directory`.
    fn write(
        &self,
        file: Option<&Path>,
        directory: &Path,
    ) -> Result<Vec<RecoveredTrace>, RecoverError> {
        match (self, file) {
            (Self::Dead(process), Some(file)) => Ok(vec![process.recover_session(0, file)?]),
            (Self::Living(process), Some(file)) => Ok(vec![process.copy_session(0, file)?]),
            (Self::Dead(process), None) => process.recover_into(directory),
            (Self::Living(process), None) => process.copy_into(directory),
        }
    }
}

impl From<RecoverError> for ToolError {
    fn from(error: RecoverError) -> Self {
        Self::Recover(error)
    }
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let found = find(&args.folders, args.live)?;
    if found.is_empty() {
        eprintln!(
            "{}",
            match args.live {
                true => "no process that runs has crash files",
                false => "no killed process has left crash files",
            }
        );
        return Ok(Outcome::Fine);
    }
    if args.list {
        list(&found).map_err(ToolError::Output)?;
        return Ok(Outcome::Fine);
    }
    let mut outcome = Outcome::Fine;
    let sessions = found.iter().map(Found::session_count).sum();
    let file = file_of_session(args.output.as_deref(), sessions)?;
    let directory = args.output.clone().unwrap_or_else(|| PathBuf::from("."));
    for process in found {
        if process.is_of_earlier_boot() {
            eprintln!(
                "{}: from before the machine was started again; the end may be missing",
                process.path().display()
            );
        }
        for trace in process.write(file, &directory)? {
            report(&trace);
            if !trace.damages.is_empty() {
                outcome = Outcome::Findings;
            }
        }
        if let Found::Dead(leftover) = process
            && args.delete
        {
            leftover.delete()?;
        }
    }
    Ok(outcome)
}

/// Returns the processes in these folders and directories: dead ones, or living ones.
fn find(folders: &[PathBuf], are_living: bool) -> Result<Vec<Found>, ToolError> {
    let in_directory = |directory: &Path| -> Result<Vec<Found>, RecoverError> {
        Ok(match are_living {
            true => living(directory)?.into_iter().map(Found::Living).collect(),
            false => leftovers(directory)?.into_iter().map(Found::Dead).collect(),
        })
    };
    if folders.is_empty() {
        return Ok(in_directory(&default_directory())?);
    }
    let mut found = Vec::new();
    for folder in folders {
        if folder.join("meta").exists() {
            found.push(match are_living {
                true => Found::Living(LivingProcess::open(folder)?),
                false => Found::Dead(Leftover::open(folder)?),
            });
        } else if folder.is_dir() {
            found.extend(in_directory(folder)?);
        } else {
            return Err(ToolError::Usage(format!(
                "{} is not a directory",
                folder.display()
            )));
        }
    }
    Ok(found)
}

fn list(found: &[Found]) -> std::io::Result<()> {
    let mut table = Table::new(&["process", "folder"], &["pid", "started", "sessions"]);
    for process in found {
        let age = SystemTime::now().duration_since(process.started());
        let age = age.map_or(0, |age| age.as_nanos() as u64);
        table.row([
            process.process_name().to_owned(),
            process.path().display().to_string(),
            process.pid().to_string(),
            format!("{} ago", duration(age)),
            process.session_count().to_string(),
        ]);
    }
    table.print(&mut stdout())
}

/// Says what is in a trace, and what is not.
fn report(trace: &RecoveredTrace) {
    let lost = plural(trace.lost_packets(), "packet");
    let folded = match trace.folded_packets() {
        0 => String::new(),
        folded => format!(", {folded} folded into states"),
    };
    eprintln!(
        "{}: {}, {}{folded}, {lost} lost",
        trace.path.display(),
        plural(trace.packets, "packet"),
        bytes(trace.size_bytes),
    );
    for damage in &trace.damages {
        eprintln!("  damaged: {damage}");
    }
}
