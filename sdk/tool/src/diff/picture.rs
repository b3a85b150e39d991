//! Draws a differential flame graph, or writes its stacks with two counts.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

use inferno::flamegraph::{Options, from_lines};
use tracezero_reader::NameId;

use super::report::{CallsChange, Report, Row, Subject};
use super::statistics::{Side, Verdict};
use crate::error::ToolError;
use crate::output::OutputFile;
use crate::stacks::folded_frame;
use crate::tracks::SpanPlace;

/// The maximum size of all lines together. Further stacks are left out.
const MAX_LINE_BYTES: usize = 256 << 20;

/// The lines of a flame graph.
struct Lines {
    lines: Vec<String>,
    /// The number of stacks that are not drawn because they are not on threads.
    on_other_tracks: u64,
    /// The number of stacks that have no line, for want of room.
    left_out: u64,
}

/// Draws the self time of stacks. A stack is as wide as its time after, and red if it became slower, or
/// blue if it became faster.
pub(super) fn draw(report: &Report<'_>, all_tracks: bool, path: &Path) -> Result<(), ToolError> {
    let coloured = Coloured::of(report);
    let before_ns = |row: &Row, _, after_ns| match after_ns {
        // A stack that is gone has no width.
        0 => 0,
        _ => coloured.before_ns(row, after_ns),
    };
    let lines = lines(report, all_tracks, before_ns, path)?;
    let mut options = Options::default();
    options.title = "self time per trace after: red became slower, blue faster".to_owned();
    options.subtitle = Some(format!(
        "{}{}",
        match coloured {
            Coloured::Certain(_) => "only what changed with certainty has a colour",
            Coloured::Candidates =>
                "nothing changed with certainty; what has a colour changed perhaps",
        },
        match lines.on_other_tracks {
            0 => "",
            _ => "; --all-tracks draws other tracks than threads, too",
        }
    ));
    options.count_name = "ns".to_owned();
    options.name_type = "Span:".to_owned();
    write(path, |out| {
        from_lines(&mut options, lines.lines.iter().map(String::as_str), out)
    })
}

/// Selects the stacks that have a colour. Chance changes all of them a little, and the largest of
/// such changes would be the brightest.
enum Coloured {
    /// Stacks that changed with certainty, and candidates that end in one of these names, which changed
    /// with certainty in the same direction.
    Certain(HashSet<(SpanPlace, NameId, bool)>),
    Candidates,
}

impl Coloured {
    fn of(report: &Report<'_>) -> Self {
        let certain = |row: &&Row| matches!(row.time.verdict, Verdict::Slower | Verdict::Faster);
        let names = report.names.iter().filter(certain);
        let names: HashSet<_> = names
            .filter_map(|row| match row.subject {
                Subject::Name { place, name, .. } => Some((place, name, is_slower(row))),
                Subject::Stack { .. } => None,
            })
            .collect();
        let is_any = !names.is_empty() || report.stacks.iter().any(|row| certain(&row));
        match is_any {
            true => Self::Certain(names),
            false => Self::Candidates,
        }
    }

    fn has(&self, row: &Row) -> bool {
        match (self, row.time.verdict) {
            (_, Verdict::Equal) => false,
            (Self::Candidates, _) | (_, Verdict::Slower | Verdict::Faster) => true,
            (Self::Certain(names), _) => match &row.subject {
                Subject::Stack { place, path } => path
                    .last()
                    .is_some_and(|name| names.contains(&(*place, *name, is_slower(row)))),
                Subject::Name { .. } => false,
            },
        }
    }

    /// Returns the time before that explains the time after by changes that have a colour. Without such
    /// a change, both are equal.
    fn before_ns(&self, row: &Row, after_ns: u64) -> u64 {
        let of_calls = match row.calls_change() {
            Some(CallsChange::New) => return 0,
            Some(CallsChange::More | CallsChange::Fewer) => row.calls.estimate,
            Some(CallsChange::Gone) | None => None,
        };
        let of_time = row.time.estimate.filter(|_| self.has(row));
        let changes = [of_calls, of_time].into_iter().flatten();
        let difference: f64 = changes.map(|it| it.difference).sum();
        (after_ns as f64 / difference.exp()) as u64
    }
}

fn is_slower(row: &Row) -> bool {
    matches!(row.time.verdict, Verdict::Slower | Verdict::PerhapsSlower)
}

/// Writes a line per stack, with its self time in nanoseconds before and after.
pub(super) fn fold(report: &Report<'_>, all_tracks: bool, path: &Path) -> Result<(), ToolError> {
    let before_ns = |row: &Row, traces, _| row.before.per_trace_ns(traces);
    let lines = lines(report, all_tracks, before_ns, path)?;
    write(path, |out| {
        lines
            .lines
            .iter()
            .try_for_each(|line| writeln!(out, "{line}"))
    })
}

/// Formats a line for each stack that took time. `before_ns` returns a time before from the row, the
/// number of traces before, and the time after.
fn lines(
    report: &Report<'_>,
    all_tracks: bool,
    before_ns: impl Fn(&Row, usize, u64) -> u64,
    path: &Path,
) -> Result<Lines, ToolError> {
    let [before, after] = [Side::Before, Side::After].map(|side| report.traces(side));
    let mut found = Lines {
        lines: Vec::new(),
        on_other_tracks: 0,
        left_out: 0,
    };
    let mut room_bytes = MAX_LINE_BYTES;
    for row in &report.stacks {
        let Subject::Stack { place, path, .. } = &row.subject else {
            continue;
        };
        let after_ns = row.after.per_trace_ns(after);
        let before_ns = before_ns(row, before, after_ns);
        if before_ns == 0 && after_ns == 0 {
            continue;
        }
        if *place == SpanPlace::Track && !all_tracks {
            found.on_other_tracks += 1;
            continue;
        }
        let line = format!("{} {before_ns} {after_ns}", folded(report, path));
        match room_bytes.checked_sub(line.len()) {
            Some(rest) => {
                room_bytes = rest;
                found.lines.push(line);
            }
            None => found.left_out += 1,
        }
    }
    found.lines.sort_unstable();
    if found.left_out > 0 {
        let count = found.left_out;
        eprintln!("{count} stacks are left out: their names need too much memory");
    }
    match found.lines.is_empty() {
        false => Ok(found),
        true => Err(ToolError::Read {
            path: path.to_owned(),
            message: match found.on_other_tracks {
                0 => "nothing to draw: the traces have no spans that ended".to_owned(),
                _ => "nothing to draw: no thread has spans that ended; draw those on other tracks with \
                      --all-tracks"
                    .to_owned(),
            },
        }),
    }
}

fn folded(report: &Report<'_>, path: &[NameId]) -> String {
    let names = path
        .iter()
        .map(|name| folded_frame(report.tables.texts.text(*name)));
    names.collect::<Vec<_>>().join(";")
}

fn write(
    path: &Path,
    write: impl FnOnce(&mut OutputFile) -> io::Result<()>,
) -> Result<(), ToolError> {
    let mut out = OutputFile::create(path)?;
    write(&mut out).map_err(|error| out.failed(error))?;
    out.finish()?;
    Ok(())
}
