//! Prints what a process is in the middle of.

mod lists; // lists of open slices that threads have written
mod open_span; // an open span
mod process; // what the system says of a process and its threads
mod report; // prints the tree
mod spans; // the spans that are open at the end of a trace

use std::fs;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use tracezero_crash::{LivingProcess, RecoverError, RecoveredTrace, SequenceAccount};
use tracezero_reader::TraceReader;

use self::process::ProcessInfo;
use self::report::Report;
use self::spans::OpenSpans;
use crate::Outcome;
use crate::error::ToolError;
use crate::output::{file_of_session, stdout};
use crate::packets::DamageLog;

/// Prints the open spans of a process that runs or is stuck
///
/// Prints the tree of open spans of each thread and future, with their ages. The process need not be
/// able to help: it may wait for a lock for ever, spin in a loop, or be stopped by SIGSTOP. It is not
/// stopped, and nothing of it is changed. It must record with crash files (`TraceConfig::crash_safe`).
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: tracezero inspect 4711 -o now.pftrace\n\nExit status: 2 if there is no such process, \
                  or it has no crash files."
)]
pub(crate) struct Args {
    /// The id of the process
    pid: u32,
    /// Also write the trace into this new file, or a trace of each session into this directory
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let info = ProcessInfo::read(args.pid);
    let folders = LivingProcess::find(args.pid).map_err(|error| match error {
        RecoverError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            ToolError::Usage(format!(
                "{} belongs to another user; run the command as that user, or as root",
                info.title(args.pid)
            ))
        }
        error => error.into(),
    })?;
    let sessions: usize = folders.iter().map(LivingProcess::session_count).sum();
    if sessions == 0 {
        return Err(without_crash_files(args.pid, &info));
    }
    let mut out = stdout();
    let mut outcome = Outcome::Fine;
    writeln!(out, "{}", info.title(args.pid)).map_err(ToolError::Output)?;
    let mut number = 0;
    for folder in &folders {
        // The tree is that of the file, if one is written.
        let copies = copies(folder, args, sessions)?;
        for index in 0..folder.session_count() {
            number += 1;
            if sessions > 1 {
                writeln!(out, "\nsession {number} of {sessions}").map_err(ToolError::Output)?;
            }
            let session = match copies.get(index) {
                Some(copy) => Session::of_copy(copy)?,
                None => Session::of_process(folder, index)?,
            };
            Report::new(&session.spans, &info, session.overwritten)
                .print(&mut out)
                .map_err(ToolError::Output)?;
            for damage in session.damages {
                eprintln!("damaged: {damage}");
                outcome = Outcome::Findings;
            }
        }
    }
    out.flush().map_err(ToolError::Output)?;
    Ok(outcome)
}

/// A session as it was read.
struct Session {
    spans: OpenSpans,
    overwritten: u64,
    damages: Vec<String>,
}

impl Session {
    fn of_process(process: &LivingProcess, index: usize) -> Result<Self, ToolError> {
        let mut trace = process.read_session(index)?;
        Ok(Self {
            spans: open_spans(&mut trace, process.path())?,
            overwritten: overwritten(trace.sequences()),
            damages: trace.damages().to_vec(),
        })
    }

    fn of_copy(copy: &RecoveredTrace) -> Result<Self, ToolError> {
        let trace = fs::File::open(&copy.path).map_err(|source| ToolError::Open {
            path: copy.path.clone(),
            source,
        })?;
        Ok(Self {
            spans: open_spans(trace, &copy.path)?,
            overwritten: overwritten(&copy.sequences),
            damages: copy.damages.clone(),
        })
    }
}

fn overwritten(sequences: &[SequenceAccount]) -> u64 {
    sequences.iter().map(|account| account.overwritten).sum()
}

/// Writes the traces of a process, if the user wants files.
fn copies(
    process: &LivingProcess,
    args: &Args,
    sessions: usize,
) -> Result<Vec<RecoveredTrace>, ToolError> {
    let Some(output) = &args.output else {
        return Ok(Vec::new());
    };
    match file_of_session(Some(output), sessions)? {
        Some(file) => Ok(vec![process.copy_session(0, file)?]),
        None => Ok(process.copy_into(output)?),
    }
}

/// Reads a trace to its end.
fn open_spans(trace: impl Read, path: &Path) -> Result<OpenSpans, ToolError> {
    let mut damages = DamageLog::new(path);
    OpenSpans::read(&mut TraceReader::new(trace), |damage| {
        damages.report(damage);
    })
    .map_err(|error| damages.read_error(&error))
}

fn without_crash_files(pid: u32, info: &ProcessInfo) -> ToolError {
    ToolError::Usage(format!(
        "{} does not record with crash files, so nothing can be seen from outside; start its session with \
         `TraceConfig::crash_safe()`, or its flight recorder with `FlightRecorder::builder().crash_safe()`",
        info.title(pid)
    ))
}
