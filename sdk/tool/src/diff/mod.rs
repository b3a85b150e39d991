//! Compares traces: what became slower or faster.

mod gather; // puts the times of all traces into tables
mod json; // prints a comparison as JSON
mod log_times; // adds up times by their logarithms
mod percent; // differences as percentages
mod picture; // draws a differential flame graph
mod read; // reads the times of a trace
mod report; // sorts the rows of a comparison
mod statistics; // compares the rows of tables
mod text; // prints a comparison as text

use std::io::Write;
use std::path::{Path, PathBuf};

use self::gather::Tables;
use self::report::Report;
use self::statistics::Asked;
use crate::Outcome;
use crate::error::ToolError;
use crate::output::{refuse_input, stdout};
use crate::units::plural;

/// Tells what became slower or faster between traces
///
/// Give several traces of each side, such as ten: one per run of the program. How far the traces of one
/// side differ tells how large a difference must be to mean anything. So ten runs of a second tell more
/// than one of ten seconds.
///
/// Compares the durations of spans by category and name, those on threads apart from those on other
/// tracks, and their self times by stack. A change is one of the typical duration, the geometric mean,
/// which a few very long calls hardly move. The columns `mean` show the arithmetic mean. Names of which
/// only that changed have a table of their own: there, rare calls became longer or shorter.
///
/// What all names have in common, such as a slower machine, is printed in a line of its own and does not
/// count as a change of each name. With --absolute, it does. It is the change of most names: if most
/// spans became slower for one reason, as when they are nested, that is what they have in common.
///
/// Two levels are told apart. "slower" is certain: if nothing changed, the command says so of anything in
/// less than one of 100 comparisons. Only this has exit status 1. "perhaps slower" means that the interval
/// of 95 % excludes zero; of more than 40 names, the interval is wider. Such names are worth a look, but
/// chance alone picks up to two per comparison. Give more traces, or longer ones, to be certain.
///
/// With one trace on each side, nothing tells how far equal traces differ. Intervals then rest on how
/// much calls vary, and on the assumption that most names did not change. Nothing is certain unless you
/// give --threshold, which says how much two equal traces may differ.
///
/// New and lost names, and those whose number of calls changed, are listed too. They do not count as
/// slower. Losses in a trace are told: what is missing cannot be compared.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "tracezero diff [OPTIONS] <BEFORE>... --with <AFTER>...\n       \
                      tracezero diff [OPTIONS] <BEFORE> <AFTER>",
    after_help = "Example: tracezero diff before*.pftrace --with after*.pftrace\n\n\
                  Exit status: 0 if nothing became slower with certainty, 1 if something did, or if a \
                  trace is damaged, 2 if a trace could not be read or the command was called wrongly.\n\n\
                  JSON: `slower` (the exit status is 1 for it), `common`, `names` and `stacks`, each row \
                  with `verdict` (slower, perhaps slower, faster, perhaps faster, equal), \
                  `change_percent`, `low_percent` and `high_percent` (the interval), `p_slower`, \
                  `mean_verdict` and `mean_change_percent` (of the arithmetic mean), `calls` (new, gone, more calls, fewer calls, equal), and `before` and `after` with `traces`, \
                  `calls`, `total_ns` and `mean_ns`; the traces of each side, in `before` and `after`, with \
                  `common_percent` and what they lost."
)]
pub(crate) struct Args {
    /// The traces before, or - for the standard input
    #[arg(required = true, value_name = "BEFORE")]
    before: Vec<PathBuf>,
    /// The traces after; without this option, give two traces, one before and one after
    #[arg(long = "with", value_name = "AFTER", num_args = 1..)]
    after: Vec<PathBuf>,
    /// Ignore changes that are smaller, in percent, such as 1%
    #[arg(long, value_name = "PERCENT", value_parser = percent::parse_threshold)]
    threshold: Option<f64>,
    /// Let what all names have in common count as a change of each
    #[arg(long)]
    absolute: bool,
    /// Maximum number of rows of each table; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Print JSON, with durations in nanoseconds
    #[arg(long)]
    json: bool,
    /// Draw a flame graph into this file, or into the standard output, -, instead of tables: red became
    /// slower, blue faster, with confidence
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
    /// Write text into this file, or into the standard output, -, instead of tables: one line per stack,
    /// with its frames joined by ';', and its self time per trace in nanoseconds, before and after
    #[arg(long, value_name = "OUT")]
    folded: Option<PathBuf>,
    /// Also draw and fold the spans on other tracks
    #[arg(long)]
    all_tracks: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let (before, after) = sides(args)?;
    let outputs = [&args.svg, &args.folded].into_iter().flatten();
    for output in outputs.clone() {
        refuse_input(output, before.iter().chain(&after).copied())?;
    }
    let tables = Tables::read(&before, &after)?;
    let asked = Asked {
        absolute: args.absolute,
        threshold: args.threshold,
    };
    let top = match args.top {
        0 => usize::MAX,
        top => top,
    };
    let report = Report::new(&tables, asked, top);
    if let Some(path) = &args.svg {
        picture::draw(&report, args.all_tracks, path)?;
    }
    if let Some(path) = &args.folded {
        picture::fold(&report, args.all_tracks, path)?;
    }
    if !outputs.clone().any(|output| output == Path::new("-")) {
        let mut out = stdout();
        match args.json {
            true => json::print(&report, &mut out),
            false => text::print(&report, &mut out),
        }
        .and_then(|()| out.flush())
        .map_err(ToolError::Output)?;
    }
    if !report.has_common_names() {
        return Err(ToolError::Usage(
            "no span is on both sides, so nothing was compared; give traces of the same program"
                .to_owned(),
        ));
    }
    let is_damaged = tables.traces.iter().any(|trace| trace.damages > 0);
    match report.is_alarm || is_damaged {
        true => Ok(Outcome::Findings),
        false => Ok(Outcome::Fine),
    }
}

/// Returns the traces before and those after.
fn sides(args: &Args) -> Result<(Vec<&Path>, Vec<&Path>), ToolError> {
    let before: Vec<&Path> = args.before.iter().map(PathBuf::as_path).collect();
    let after: Vec<&Path> = args.after.iter().map(PathBuf::as_path).collect();
    match (&before[..], &after[..]) {
        ([before, after], []) => Ok((vec![before], vec![after])),
        (before, []) => Err(ToolError::Usage(format!(
            "{} given, but not which of them are after; give those behind --with",
            plural(before.len() as u64, "trace")
        ))),
        _ => Ok((before, after)),
    }
}
