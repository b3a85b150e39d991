//! Prints the sum of several traces as JSON: names as in the text, durations in nanoseconds.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::super::json::span;
use super::super::report::{packet_name, sorted_instants, sorted_spans};
use super::{FileAccount, Report};
use crate::tracks::SpanPlace;

/// Prints a sum.
pub(super) fn print(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let Report {
        sum,
        schema,
        sort,
        top,
    } = *report;
    let total = |of: fn(&FileAccount) -> u64| sum.total(of);
    let files = sum.files.iter().take(top).map(|file| {
        json!({
            "file": file.path.to_string_lossy(),
            "duration_ns": file.duration_ns,
            "bytes": file.bytes,
            "packets": file.packets,
            "events": file.events,
            "spans": file.spans,
            "unfinished_spans": file.open_spans,
            "damaged_places": file.damages,
            "gaps": file.gaps,
            "packets_lost": file.packets_lost,
            "packets_skipped": file.packets_skipped,
            "kernel_events_lost": file.kernel_events_lost,
            "early_ends": file.early_ends.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    });
    let places = [SpanPlace::Thread, SpanPlace::Track].into_iter();
    let spans = places.zip(&sum.spans).flat_map(|(place, rows)| {
        let rows = sorted_spans(rows, &sum.names, sort).into_iter().take(top);
        rows.map(move |(category, name, row)| span(place, category, name, row))
    });
    let counters = sum.sorted_counters().into_iter().take(top);
    let counters = counters.map(|(name, unit, values)| {
        json!({
            "counter": name,
            "unit": unit,
            "count": values.count,
            "min": values.min,
            "max": values.max,
            "mean": values.sum / values.count as f64,
        })
    });
    let instants = sorted_instants(&sum.instants, &sum.names).into_iter();
    let instants = instants
        .take(top)
        .map(|(category, name, count)| json!({"category": category, "name": name, "count": count}));
    let packets = sum.packet_kinds.iter().take(top).map(|(field, kind)| {
        json!({
            "field": field,
            "name": packet_name(*field, schema),
            "count": kind.packets,
            "bytes": kind.bytes,
        })
    });
    let value = json!({
        "file_count": sum.files.len(),
        "duration_ns": total(|file| file.duration_ns),
        "bytes": total(|file| file.bytes),
        "packets": total(|file| file.packets),
        "events": total(|file| file.events),
        "damaged_places": total(|file| file.damages),
        "unfinished_spans": total(|file| file.open_spans),
        "files": files.collect::<Vec<_>>(),
        "spans": spans.collect::<Vec<Value>>(),
        "counters": counters.collect::<Vec<_>>(),
        "instants": instants.collect::<Vec<_>>(),
        "other_packets": packets.collect::<Vec<_>>(),
        "losses": {
            "gaps": total(|file| file.gaps),
            "packets": total(|file| file.packets_lost),
            "files": sum.lossy().len(),
        },
        "packets_skipped": total(|file| file.packets_skipped),
        "kernel_events_lost": total(|file| file.kernel_events_lost),
    });
    serde_json::to_writer_pretty(&mut *out, &value)?;
    writeln!(out)
}
