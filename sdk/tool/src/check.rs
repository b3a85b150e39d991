//! Checks traces against the rules that tools rely on.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tracezero_reader::CheckSummary;

use crate::Outcome;
use crate::error::ToolError;
use crate::input::Input;
use crate::output::stdout;
use crate::packets::DamageLog;
use crate::table::printable;
use crate::units::plural;

/// Checks traces for errors
///
/// Prints a line for each fault, with the packet, the sequence and the offset in the file: damage,
/// unknown ids and clocks, tracks without descriptors, begins and ends that do not pair up, misused
/// counters and flows. Notes are about what may be in order: losses that the trace itself reports,
/// spans that are open at its end.
///
/// The exit status is 1 if there are errors. With --strict, notes count as errors.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero check --strict app.pftrace")]
pub(crate) struct Args {
    /// The traces, or - for the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Treat notes as errors
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let mut outcome = Outcome::Fine;
    let mut unreadable = None;
    let mut out = stdout();
    for file in &args.files {
        match check(file, &mut out) {
            Ok(summary) => {
                if summary.errors > 0 || (args.strict && summary.notes > 0) {
                    outcome = Outcome::Findings;
                }
            }
            // Check the other files all the same. The caller prints the last error.
            Err(error @ (ToolError::Open { .. } | ToolError::Read { .. })) => {
                if let Some(earlier) = unreadable.replace(error) {
                    eprintln!("error: {earlier}");
                }
            }
            Err(error) => return Err(error),
        }
    }
    out.flush().map_err(ToolError::Output)?;
    match unreadable {
        Some(error) => Err(error),
        None => Ok(outcome),
    }
}

fn check(file: &Path, out: &mut impl Write) -> Result<CheckSummary, ToolError> {
    let name = file.display();
    let mut written: io::Result<()> = Ok(());
    let checked = tracezero_reader::check(Input::open(file)?, |finding| {
        if written.is_ok() {
            let finding = printable(&finding.to_string());
            written = writeln!(out, "{name}: {finding}");
        }
    });
    written.map_err(ToolError::Output)?;
    let summary = checked.map_err(|error| ToolError::Read {
        path: file.to_owned(),
        message: error.to_string(),
    })?;
    DamageLog::new(file).require_packets(summary.packets)?;
    if summary.not_reported > 0 {
        let more = summary.not_reported;
        writeln!(out, "{name}: {more} more findings are not shown").map_err(ToolError::Output)?;
    }
    writeln!(
        out,
        "{name}: {}, {}, {}: {}, {}",
        plural(summary.packets, "packet"),
        plural(summary.events, "event"),
        plural(summary.sequences, "sequence"),
        plural(summary.errors, "error"),
        plural(summary.notes, "note"),
    )
    .map_err(ToolError::Output)?;
    Ok(summary)
}
