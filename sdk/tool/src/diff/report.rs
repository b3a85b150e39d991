//! Rows of a comparison, sorted for printing.

use std::cmp::Ordering;

use tracezero_reader::NameId;

use super::gather::{Cells, Tables};
use super::log_times::{points_of_counts, points_of_means, points_of_times};
use super::read::TraceAccount;
use super::statistics::{
    Asked, Common, Compared, Comparison, Side, Verdict, compare_counts, is_single,
};
use crate::stacks::{Frame, NodeId};
use crate::tracks::SpanPlace;

/// The rows of a comparison.
#[derive(Debug)]
pub(super) struct Report<'t> {
    pub(super) tables: &'t Tables,
    pub(super) asked: Asked,
    /// The maximum number of rows of each table.
    pub(super) top: usize,
    pub(super) common: Option<Common>,
    /// Durations by name.
    pub(super) names: Vec<Row>,
    /// Self times by stack.
    pub(super) stacks: Vec<Row>,
    /// True if anything became slower with certainty.
    pub(super) is_alarm: bool,
}

/// A name or a stack.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) subject: Subject,
    pub(super) before: SideTimes,
    pub(super) after: SideTimes,
    pub(super) time: Compared,
    /// The mean time. `None` for stacks.
    pub(super) mean: Option<Compared>,
    pub(super) calls: Compared,
}

#[derive(Clone, Debug)]
pub(super) enum Subject {
    Name {
        place: SpanPlace,
        category: NameId,
        name: NameId,
    },
    Stack {
        place: SpanPlace,
        /// From the outermost span to the innermost.
        path: Vec<NameId>,
    },
}

/// The times of a row on one side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SideTimes {
    /// The number of traces that have the row.
    pub(super) traces: u64,
    pub(super) count: u64,
    pub(super) total_ns: u64,
}

/// A change of the number of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallsChange {
    New,
    Gone,
    More,
    Fewer,
}

impl SideTimes {
    fn add(&mut self, count: u64, total_ns: u64) {
        self.traces += 1;
        self.count += count;
        self.total_ns = self.total_ns.saturating_add(total_ns);
    }

    pub(super) fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count).unwrap_or(0)
    }

    /// Returns the time in one of so many traces.
    pub(super) fn per_trace_ns(&self, traces: usize) -> u64 {
        self.total_ns / traces.max(1) as u64
    }
}

impl CallsChange {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Gone => "gone",
            Self::More => "more calls",
            Self::Fewer => "fewer calls",
        }
    }
}

impl Row {
    /// Returns how the number of calls changed, if it did with certainty.
    pub(super) fn calls_change(&self) -> Option<CallsChange> {
        match (self.before.count, self.after.count, self.calls.verdict) {
            (0, _, _) => Some(CallsChange::New),
            (_, 0, _) => Some(CallsChange::Gone),
            (_, _, Verdict::Slower) => Some(CallsChange::More),
            (_, _, Verdict::Faster) => Some(CallsChange::Fewer),
            _ => None,
        }
    }

    /// Returns true if only the mean changed with certainty: rare calls became longer or shorter.
    pub(super) fn has_other_mean(&self) -> bool {
        let of_mean = self.mean.map_or(Verdict::Equal, |mean| mean.verdict);
        matches!(
            (of_mean, self.time.verdict),
            (
                Verdict::Slower,
                Verdict::Equal | Verdict::Faster | Verdict::PerhapsFaster
            ) | (
                Verdict::Faster,
                Verdict::Equal | Verdict::Slower | Verdict::PerhapsSlower
            )
        )
    }

    /// Returns how much time a trace spends more or less because of the change of each call.
    fn impact_ns(&self) -> f64 {
        let change = self.time.estimate.map_or(0.0, |it| it.difference.abs());
        change * self.after.total_ns.max(self.before.total_ns) as f64
    }
}

impl<'t> Report<'t> {
    pub(super) fn new(tables: &'t Tables, asked: Asked, top: usize) -> Self {
        let of_names = tables.names.iter().map(|row| Subject::Name {
            place: row.place,
            category: row.category,
            name: row.name,
        });
        let cells_of_names: Vec<&Cells> = tables.names.iter().map(|row| &row.cells).collect();
        let is_span = |node: &NodeId| matches!(tables.stacks.frame(*node), Frame::Span { .. });
        let nodes: Vec<NodeId> = tables.stacks.iter().filter(is_span).collect();
        let of_stacks = nodes.iter().map(|node| {
            let (place, mut path) = tables.stacks.path(*node);
            path.reverse();
            Subject::Stack { place, path }
        });
        let cells_of_stacks = nodes.iter().map(|node| tables.stacks.value(*node));
        let cells_of_stacks: Vec<&Cells> = cells_of_stacks.collect();
        let times = |rows: &[&Cells]| -> Vec<_> {
            rows.iter().map(|cells| points_of_times(cells)).collect()
        };
        let means = cells_of_names.iter().map(|cells| points_of_means(cells));
        let comparison = Comparison::of(
            &times(&cells_of_names),
            &means.collect::<Vec<_>>(),
            &times(&cells_of_stacks),
            &tables.sides,
            asked,
        );
        let sides = &tables.sides;
        let is_alarm = comparison.is_alarm();
        let mut names = rows(of_names, &cells_of_names, comparison.names, sides, asked);
        for (row, mean) in names.iter_mut().zip(comparison.means) {
            row.mean = Some(mean);
        }
        names.sort_by(by_importance);
        let mut stacks = rows(of_stacks, &cells_of_stacks, comparison.stacks, sides, asked);
        stacks.sort_by(by_importance);
        Self {
            is_alarm,
            names,
            stacks,
            common: comparison.common,
            tables,
            asked,
            top,
        }
    }

    pub(super) fn is_single(&self) -> bool {
        is_single(&self.tables.sides)
    }

    pub(super) fn traces(&self, side: Side) -> usize {
        self.tables.sides.iter().filter(|of| **of == side).count()
    }

    /// Returns true if both sides have spans of the same name.
    pub(super) fn has_common_names(&self) -> bool {
        let is_common = |row: &Row| row.before.count > 0 && row.after.count > 0;
        self.names.iter().any(is_common)
    }

    /// Returns true if spans are missing in a trace, or may be.
    pub(super) fn has_losses(&self) -> bool {
        self.tables.traces.iter().any(TraceAccount::has_losses)
    }
}

/// The rows that were compared, of both sides.
pub(super) fn compared(rows: &[Row]) -> usize {
    rows.iter()
        .filter(|row| row.time.estimate.is_some())
        .count()
}

pub(super) fn count(rows: &[Row], verdict: Verdict) -> usize {
    rows.iter()
        .filter(|row| row.time.verdict == verdict)
        .count()
}

/// Makes rows of the subjects, their cells and the comparison of their times. Compares their numbers of
/// calls.
fn rows(
    subjects: impl Iterator<Item = Subject>,
    cells: &[&Cells],
    times: Vec<Compared>,
    sides: &[Side],
    asked: Asked,
) -> Vec<Row> {
    let counts: Vec<_> = cells.iter().map(|cells| points_of_counts(cells)).collect();
    let calls = compare_counts(&counts, sides, asked);
    let rows = subjects.zip(cells).zip(times.into_iter().zip(calls));
    let rows = rows.map(|((subject, cells), (time, calls))| {
        let [before, after] = side_times(cells, sides);
        Row {
            subject,
            before,
            after,
            time,
            mean: None,
            calls,
        }
    });
    rows.collect()
}

fn side_times(cells: &Cells, sides: &[Side]) -> [SideTimes; 2] {
    let mut times = [SideTimes::default(); 2];
    for (trace, cell) in cells {
        times[sides[*trace as usize] as usize].add(cell.count, cell.total_ns);
    }
    times
}

/// Compares rows by verdict, then by the time that they cost or save.
fn by_importance(a: &Row, b: &Row) -> Ordering {
    let by_verdict = a.time.verdict.cmp(&b.time.verdict);
    by_verdict.then_with(|| b.impact_ns().total_cmp(&a.impact_ns()))
}
