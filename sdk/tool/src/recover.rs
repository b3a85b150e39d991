//! Makes traces of what killed processes left behind.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tracezero_crash::{Leftover, RecoverError, RecoveredTrace, default_directory, leftovers};

use crate::Outcome;
use crate::error::ToolError;
use crate::output::stdout;
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
}

impl From<RecoverError> for ToolError {
    fn from(error: RecoverError) -> Self {
        Self::Recover(error)
    }
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let found = find(&args.folders)?;
    if found.is_empty() {
        eprintln!("no killed process has left crash files");
        return Ok(Outcome::Fine);
    }
    if args.list {
        list(&found).map_err(ToolError::Output)?;
        return Ok(Outcome::Fine);
    }
    let mut outcome = Outcome::Fine;
    let file = output_file(args.output.as_deref(), &found)?;
    let directory = args.output.clone().unwrap_or_else(|| PathBuf::from("."));
    for leftover in found {
        let traces = match file {
            Some(file) => vec![leftover.recover_session(0, file)?],
            None => leftover.recover_into(&directory)?,
        };
        for trace in traces {
            report(&trace);
            if !trace.damages.is_empty() {
                outcome = Outcome::Findings;
            }
        }
        if args.delete {
            leftover.delete()?;
        }
    }
    Ok(outcome)
}

/// Returns what dead processes left in these folders and directories.
fn find(folders: &[PathBuf]) -> Result<Vec<Leftover>, ToolError> {
    if folders.is_empty() {
        return Ok(leftovers(default_directory())?);
    }
    let mut found = Vec::new();
    for folder in folders {
        if folder.join("meta").exists() {
            found.push(Leftover::open(folder)?);
        } else if folder.is_dir() {
            found.extend(leftovers(folder)?);
        } else {
            return Err(ToolError::Usage(format!(
                "{} is not a directory",
                folder.display()
            )));
        }
    }
    Ok(found)
}

/// Returns the file for the only trace, or `None` if `output` names a directory.
fn output_file<'a>(
    output: Option<&'a Path>,
    found: &[Leftover],
) -> Result<Option<&'a Path>, ToolError> {
    let is_directory =
        |path: &&Path| path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let Some(file) = output.filter(|path| !is_directory(path)) else {
        return Ok(None);
    };
    let sessions: usize = found.iter().map(Leftover::session_count).sum();
    if sessions != 1 {
        return Err(ToolError::Usage(format!(
            "{} sessions do not fit into one file; name a directory: -o {}/",
            sessions,
            file.display()
        )));
    }
    Ok(Some(file))
}

fn list(found: &[Leftover]) -> std::io::Result<()> {
    let mut table = Table::new(&["process", "folder"], &["pid", "started", "sessions"]);
    for leftover in found {
        let age = SystemTime::now().duration_since(leftover.started());
        let age = age.map_or(0, |age| age.as_nanos() as u64);
        table.row([
            leftover.process_name().to_owned(),
            leftover.path().display().to_string(),
            leftover.pid().to_string(),
            format!("{} ago", duration(age)),
            leftover.session_count().to_string(),
        ]);
    }
    table.print(&mut stdout())
}

/// Says what is in a trace, and what is not.
fn report(trace: &RecoveredTrace) {
    let lost = plural(trace.lost_packets(), "packet");
    eprintln!(
        "{}: {}, {}, {lost} lost",
        trace.path.display(),
        plural(trace.packets, "packet"),
        bytes(trace.size_bytes),
    );
    for damage in &trace.damages {
        eprintln!("  damaged: {damage}");
    }
}
