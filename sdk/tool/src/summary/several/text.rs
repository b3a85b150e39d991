//! Prints the sum of several traces as text.

use std::io::{self, Write};

use super::super::report::{packet_name, sorted_instants, sorted_spans};
use super::super::text::{number, spans_table};
use super::{Figure, FileAccount, Report, Sum};
use crate::table::{Table, section};
use crate::units::{bytes, duration, plural};

/// Prints a sum.
pub(super) fn print(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let Report {
        sum,
        schema,
        sort,
        top,
    } = *report;
    let total = |of: Figure| sum.total(of);
    writeln!(out, "files      {}", sum.files.len())?;
    writeln!(
        out,
        "duration   {} in all",
        duration(total(|file| file.duration_ns))
    )?;
    writeln!(
        out,
        "size       {} in {}, {}",
        bytes(total(|file| file.bytes)),
        plural(total(|file| file.packets), "packet"),
        plural(total(|file| file.events), "event")
    )?;
    let lossy = sum.lossy();
    let lost = FileAccount::LOSSES
        .iter()
        .map(|(name, count)| (total(*count), name));
    let lost: Vec<String> = lost
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| plural(count, name))
        .collect();
    match lossy.len() as u64 {
        0 => writeln!(out, "lost       nothing that the traces report"),
        files => writeln!(
            out,
            "lost       {}, in {}, see below",
            lost.join(", "),
            plural(files, "file")
        ),
    }?;
    match total(|file| file.open_spans) {
        0 => Ok(()),
        open => writeln!(out, "open       {}", plural(open, "span")),
    }?;
    print_files(sum, top, out)?;
    let by = sort.as_str();
    for (rows, title) in sum
        .spans
        .iter()
        .zip(["spans on threads", "spans on other tracks"])
    {
        let rows = sorted_spans(rows, &sum.names, sort);
        let table = spans_table(&rows, top);
        section(&format!("{title}, by {by}"), &table, rows.len(), top, out)?;
    }
    let counters = sum.sorted_counters();
    let mut table = Table::new(&["counter", "unit"], &["count", "min", "max", "mean"]);
    for (name, unit, values) in counters.iter().take(top) {
        table.row([
            (*name).to_owned(),
            (*unit).to_owned(),
            values.count.to_string(),
            number(values.min),
            number(values.max),
            number(values.sum / values.count as f64),
        ]);
    }
    section("counters", &table, counters.len(), top, out)?;
    let instants = sorted_instants(&sum.instants, &sum.names);
    let mut table = Table::new(&["category", "instant"], &["count"]);
    for (category, name, count) in instants.iter().take(top) {
        table.row([
            (*category).to_owned(),
            (*name).to_owned(),
            count.to_string(),
        ]);
    }
    section("instants", &table, instants.len(), top, out)?;
    let mut table = Table::new(&["packet"], &["field", "count", "bytes"]);
    for (field, kind) in sum.packet_kinds.iter().take(top) {
        table.row([
            packet_name(*field, schema).to_owned(),
            field.to_string(),
            kind.packets.to_string(),
            kind.bytes.to_string(),
        ]);
    }
    section("other packets", &table, sum.packet_kinds.len(), top, out)?;
    print_losses(&lossy, top, out)
}

fn print_files(sum: &Sum, top: usize, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(&["file"], &["duration", "size", "events", "spans"]);
    for file in sum.files.iter().take(top) {
        table.row([
            file.path.display().to_string(),
            duration(file.duration_ns),
            bytes(file.bytes),
            file.events.to_string(),
            file.spans.to_string(),
        ]);
    }
    section("files", &table, sum.files.len(), top, out)
}

fn print_losses(lossy: &[&FileAccount], top: usize, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(
        &["file", "end"],
        &[
            "packets lost",
            "gaps",
            "packets skipped",
            "damaged places",
            "kernel events lost",
        ],
    );
    for file in lossy.iter().take(top) {
        let ends = file.early_ends.iter().map(ToString::to_string);
        table.row([
            file.path.display().to_string(),
            ends.collect::<Vec<_>>().join("; "),
            file.packets_lost.to_string(),
            file.gaps.to_string(),
            file.packets_skipped.to_string(),
            file.damages.to_string(),
            file.kernel_events_lost.to_string(),
        ]);
    }
    section("losses, by file", &table, lossy.len(), top, out)
}
