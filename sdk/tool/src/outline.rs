//! What happened in a trace, without what differs between two runs.

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
/// The spans of each thread and track are printed as a tree with their arguments; `*` stands before
/// an instant. Siblings that are alike are one line with their number, and so are threads and
/// tracks. Two runs that did the same have the same outline: compare it with one that is right.
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
