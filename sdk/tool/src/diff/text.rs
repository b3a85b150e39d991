//! Prints a comparison as text.

use std::io::{self, Write};

use tracezero_reader::NameId;

use super::percent::{change, interval};
use super::report::{CallsChange, Report, Row, Subject, compared, count};
use super::statistics::{Side, Verdict, candidate_level};
use crate::table::{Table, section};
use crate::units::{bytes, duration, plural};

const NO_NAME: &str = "(no name)";

/// Prints a comparison.
pub(super) fn print(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    print_head(report, out)?;
    print_names(report, out)?;
    print_means(report, out)?;
    print_stacks(report, out)?;
    print_calls(report, out)?;
    print_losses(report, out)
}

fn print_head(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    for (title, side) in [("before", Side::Before), ("after ", Side::After)] {
        let traces = report.tables.traces.iter().zip(&report.tables.sides);
        let traces = traces
            .filter(|(_, of)| **of == side)
            .map(|(trace, _)| trace);
        let (mut size, mut spans) = (0_u64, 0_u64);
        for trace in traces {
            size = size.saturating_add(trace.bytes);
            spans = spans.saturating_add(trace.spans);
        }
        writeln!(
            out,
            "{title}     {}, {}, {}",
            plural(report.traces(side) as u64, "trace"),
            plural(spans, "span"),
            bytes(size)
        )?;
    }
    match report.has_losses() {
        false => writeln!(out, "lost       nothing that the traces report"),
        true => writeln!(
            out,
            "lost       spans may be missing, see below: what is missing cannot be compared"
        ),
    }?;
    writeln!(out, "common     {}", common(report))?;
    writeln!(
        out,
        "compared   {} and {} on both sides",
        plural(compared(&report.names) as u64, "name"),
        plural(compared(&report.stacks) as u64, "stack"),
    )?;
    writeln!(out, "result     {}", result(report))?;
    let listed = report.names.iter().chain(&report.stacks);
    let has_candidates = listed
        .map(|row| row.time.verdict)
        .any(|it| matches!(it, Verdict::PerhapsSlower | Verdict::PerhapsFaster));
    if has_candidates {
        let by_chance = |rows: &[Row]| {
            let rows = compared(rows);
            rows as f64 * candidate_level(rows)
        };
        writeln!(
            out,
            "           chance alone lists {:.1} names and {:.1} stacks as perhaps slower or faster",
            by_chance(&report.names),
            by_chance(&report.stacks),
        )?;
    }
    if report.is_single() {
        writeln!(
            out,
            "           one trace on each side does not tell how far equal traces differ: intervals assume \
             that most names did not change{}",
            match report.asked.threshold {
                Some(_) => "",
                None => ", and nothing is certain; give more traces, or --threshold",
            }
        )?;
    }
    match report.tables.left_out {
        0 => Ok(()),
        count => writeln!(
            out,
            "           {} left out: the names or stacks are too many",
            plural(count, "span")
        ),
    }
}

/// Describes what all names share.
fn common(report: &Report<'_>) -> String {
    let Some(common) = &report.common else {
        return "too few names on both sides to tell what they share".to_owned();
    };
    let text = format!("all names together {}", change(common.difference));
    let text = match &common.estimate {
        Some(estimate) => format!("{text} ({})", interval(estimate.interval())),
        None => text,
    };
    match report.asked.absolute {
        true => format!("{text}, which counts in what follows"),
        false => format!("{text}, which does not count in what follows"),
    }
}

/// Says in one line what became slower or faster.
fn result(report: &Report<'_>) -> String {
    let mut parts = Vec::new();
    let verdicts = [
        Verdict::Slower,
        Verdict::PerhapsSlower,
        Verdict::Faster,
        Verdict::PerhapsFaster,
    ];
    for verdict in verdicts {
        let names = count(&report.names, verdict) as u64;
        let stacks = count(&report.stacks, verdict) as u64;
        let is_common = report
            .common
            .as_ref()
            .is_some_and(|it| it.verdict == verdict);
        let mut what = Vec::new();
        if is_common {
            what.push("all names together".to_owned());
        }
        if names > 0 {
            what.push(plural(names, "name"));
        }
        if stacks > 0 {
            what.push(plural(stacks, "stack"));
        }
        let means = report.names.iter().filter(|row| row.has_other_mean());
        let means = means.filter(|row| row.mean.is_some_and(|mean| mean.verdict == verdict));
        match means.count() as u64 {
            0 => {}
            means => what.push(format!("the mean of {}", plural(means, "name"))),
        }
        if !what.is_empty() {
            parts.push(format!("{} {}", what.join(" and "), verdict.as_str()));
        }
    }
    match parts.is_empty() {
        true => "nothing became slower or faster".to_owned(),
        false => parts.join("; "),
    }
}

fn print_names(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let rows = listed(&report.names);
    let mut table = Table::new(
        &["", "on", "category", "span"],
        &[
            "calls before",
            "after",
            "mean before",
            "after",
            "change",
            "95 % interval",
        ],
    );
    for row in rows.iter().take(report.top) {
        let Subject::Name {
            place,
            category,
            name,
        } = &row.subject
        else {
            continue;
        };
        let [calls, calls_after, mean, mean_after, change, interval] = figures(row);
        table.row([
            row.time.verdict.as_str().to_owned(),
            place.as_str().to_owned(),
            report.tables.texts.text(*category).to_owned(),
            text(report, *name).to_owned(),
            calls,
            calls_after,
            mean,
            mean_after,
            change,
            interval,
        ]);
    }
    section("spans, by name", &table, rows.len(), report.top, out)
}

/// Prints the names of which only the mean changed.
fn print_means(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let rows = report.names.iter().filter(|row| row.has_other_mean());
    let rows: Vec<&Row> = rows.collect();
    let mut table = Table::new(
        &["", "on", "category", "span"],
        &["mean before", "after", "change", "95 % interval"],
    );
    for row in rows.iter().take(report.top) {
        let (
            Subject::Name {
                place,
                category,
                name,
            },
            Some(mean),
        ) = (&row.subject, &row.mean)
        else {
            continue;
        };
        let estimate = mean.estimate.as_ref();
        table.row([
            mean.verdict.as_str().to_owned(),
            place.as_str().to_owned(),
            report.tables.texts.text(*category).to_owned(),
            text(report, *name).to_owned(),
            duration(row.before.mean_ns()),
            duration(row.after.mean_ns()),
            estimate.map_or_else(String::new, |it| change(it.difference)),
            estimate.map_or_else(String::new, |it| interval(it.interval())),
        ]);
    }
    let title = "spans whose mean changed by rare calls, by name";
    section(title, &table, rows.len(), report.top, out)
}

fn print_stacks(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let rows = listed(&report.stacks);
    let mut table = Table::new(
        &["", "on", "stack, from the outermost span"],
        &[
            "calls before",
            "after",
            "mean before",
            "after",
            "change",
            "95 % interval",
        ],
    );
    for row in rows.iter().take(report.top) {
        let Subject::Stack { place, path, .. } = &row.subject else {
            continue;
        };
        let [calls, calls_after, mean, mean_after, change, interval] = figures(row);
        table.row([
            row.time.verdict.as_str().to_owned(),
            place.as_str().to_owned(),
            stack(report, path),
            calls,
            calls_after,
            mean,
            mean_after,
            change,
            interval,
        ]);
    }
    section("self time, by stack", &table, rows.len(), report.top, out)
}

/// Formats calls, mean times, change and interval of a row.
fn figures(row: &Row) -> [String; 6] {
    let estimate = row.time.estimate.as_ref();
    [
        row.before.count.to_string(),
        row.after.count.to_string(),
        duration(row.before.mean_ns()),
        duration(row.after.mean_ns()),
        estimate.map_or_else(String::new, |it| change(it.difference)),
        estimate.map_or_else(String::new, |it| interval(it.interval())),
    ]
}

fn print_calls(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut rows: Vec<(CallsChange, &Row)> = report
        .names
        .iter()
        .filter_map(|row| Some((row.calls_change()?, row)))
        .collect();
    rows.sort_by_key(|(what, row)| (*what, std::cmp::Reverse(row.before.count + row.after.count)));
    let mut table = Table::new(
        &["", "on", "category", "span"],
        &[
            "calls before",
            "after",
            "in traces before",
            "after",
            "change per trace",
        ],
    );
    for (what, row) in rows.iter().take(report.top) {
        let Subject::Name {
            place,
            category,
            name,
        } = &row.subject
        else {
            continue;
        };
        let estimate = row.calls.estimate.as_ref();
        table.row([
            what.as_str().to_owned(),
            place.as_str().to_owned(),
            report.tables.texts.text(*category).to_owned(),
            text(report, *name).to_owned(),
            row.before.count.to_string(),
            row.after.count.to_string(),
            row.before.traces.to_string(),
            row.after.traces.to_string(),
            estimate.map_or_else(String::new, |it| change(it.difference)),
        ]);
    }
    section("numbers of calls", &table, rows.len(), report.top, out)
}

fn print_losses(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let traces = report.tables.traces.iter().zip(&report.tables.sides);
    let lossy: Vec<_> = traces.filter(|(trace, _)| trace.has_losses()).collect();
    let mut table = Table::new(
        &["", "trace", "end"],
        &["packets lost", "gaps", "damaged places"],
    );
    for (trace, side) in lossy.iter().take(report.top) {
        let ends = trace.early_ends.iter().map(ToString::to_string);
        table.row([
            match side {
                Side::Before => "before".to_owned(),
                Side::After => "after".to_owned(),
            },
            trace.path.display().to_string(),
            ends.collect::<Vec<_>>().join("; "),
            trace.packets_lost.to_string(),
            trace.gaps.to_string(),
            trace.damages.to_string(),
        ]);
    }
    section("losses", &table, lossy.len(), report.top, out)
}

/// Returns the rows that changed.
fn listed(rows: &[Row]) -> Vec<&Row> {
    let is_listed = |row: &&Row| row.time.verdict != Verdict::Equal;
    rows.iter().filter(is_listed).collect()
}

fn text<'r>(report: &'r Report<'_>, name: NameId) -> &'r str {
    match report.tables.texts.text(name) {
        "" => NO_NAME,
        name => name,
    }
}

fn stack(report: &Report<'_>, path: &[NameId]) -> String {
    let names: Vec<&str> = path.iter().map(|name| text(report, *name)).collect();
    names.join(" > ")
}
