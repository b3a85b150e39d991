//! Prints what happened in a trace, without anything that differs between two runs.

use std::io::Write;
use std::path::PathBuf;

use tracezero_reader::{Outline, TraceReader};

use crate::Outcome;
use crate::error::ToolError;
use crate::input::Input;
use crate::output::stdout;
use crate::packets::DamageLog;
use crate::table::printable;

/// Prints what happened, without times and ids
///
/// Prints the spans of each thread and track as a tree, with their arguments; `*` marks an instant.
/// Equal siblings become one line with a count, and so do equal threads and tracks. Two runs that
/// did the same have the same outline, so you can compare it with an expected one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero outline app.pftrace | diff expected.txt -")]
pub(crate) struct Args {
    /// The trace, or - for the standard input
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let mut reader = TraceReader::new(Input::open(&args.file)?);
    let mut damages = DamageLog::new(&args.file);
    let outline = Outline::read_reporting(&mut reader, |damage| damages.report(damage))
        .map_err(|error| damages.read_error(&error))?;
    damages.require_packets(reader.packets())?;
    let mut out = stdout();
    let mut lines = outline.as_str().lines();
    lines
        .try_for_each(|line| writeln!(out, "{}", printable(line)))
        .and_then(|()| out.flush())
        .map_err(ToolError::Output)?;
    Ok(damages.finish())
}
