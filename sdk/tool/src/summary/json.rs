//! Prints a summary as JSON: names as in the text, durations in nanoseconds.

use std::io::{self, Write};

use serde_json::{Value, json};
use tracezero_reader::kernel::{Activity, ActivityTimes};
use tracezero_reader::{CounterValue, RecordingEnd};

use super::spans::Durations;
use super::states::StateTables;
use super::text::unit;
use super::{Report, identity};
use crate::thread_states::activity_key;
use crate::tracks::SpanPlace;

/// Prints a summary.
pub(super) fn print(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let summary = report.summary;
    let value = json!({
        "identities": report.identities.iter().map(identity::as_json).collect::<Vec<_>>(),
        "duration_ns": summary.duration_ns(),
        "bytes": summary.bytes,
        "packets": summary.packets,
        "events": summary.events,
        "sequences": summary.sequences.count(),
        "damaged_places": report.damages,
        "early_ends": early_ends(report),
        "unfinished_spans": report.open_spans(),
        "unmatched_ends": summary.slices.unmatched_ends,
        "ends_before_begins": summary.slices.backwards,
        "spans_too_deep": summary.slices.too_deep,
        "late_events": summary.late_events,
        "forgotten_sequences": summary.forgotten_sequences,
        "tracks": tracks(report),
        "spans": spans(report),
        "open_spans": open_spans(report),
        "thread_states": report.states.as_ref().map(|states| thread_states(report, states)),
        "counters": counters(report),
        "instants": instants(report),
        "other_packets": packets(report),
        "states": states(report),
        "states_of_overwritten": states_of_overwritten(report),
        "kernel": json!({
            "events": summary.kernel.events(),
            "events_lost": summary.kernel.lost(),
        }),
        "losses": losses(report),
        "packets_skipped": summary.skipped,
    });
    serde_json::to_writer_pretty(&mut *out, &value)?;
    writeln!(out)
}

/// Lists the recordings that ended early.
fn early_ends(report: &Report<'_>) -> Vec<Value> {
    let ends = report.summary.early_ends.iter();
    ends.map(|end| {
        let (why, after_ns) = match end {
            RecordingEnd::FileFull { after_ns } => ("file_full", after_ns),
            RecordingEnd::WriteFailed { after_ns } => ("write_failed", after_ns),
            RecordingEnd::CutOff { after_ns } => ("cut_off", after_ns),
            RecordingEnd::Recovered { after_ns } => ("recovered", after_ns),
            _ => ("unknown", &0),
        };
        json!({ "why": why, "after_ns": after_ns, "text": end.to_string() })
    })
    .collect()
}

fn tracks(report: &Report<'_>) -> Vec<Value> {
    let tracks = report.sorted_tracks().into_iter();
    tracks
        .take(report.top)
        .map(|(id, counts)| {
            let path = report.paths.of(id);
            json!({
                "process": path.process,
                "track": path.track,
                "events": counts.events,
                "spans": counts.spans,
                "busy_ns": counts.busy_ns,
            })
        })
        .collect()
}

/// Lists the rows of both tables of spans.
fn spans(report: &Report<'_>) -> Vec<Value> {
    let places = [SpanPlace::Thread, SpanPlace::Track].into_iter();
    let rows = places.flat_map(|place| {
        let rows = report.sorted_spans(place).into_iter().take(report.top);
        rows.map(move |row| (place, row))
    });
    rows.map(|(place, (category, name, row))| span(place, category, name, row))
        .collect()
}

/// Formats the spans of a name.
pub(super) fn span(place: SpanPlace, category: &str, name: &str, row: &Durations) -> Value {
    json!({
        "category": category,
        "name": name,
        "on": place.as_str(),
        "count": row.count,
        "total_ns": row.total_ns,
        "self_ns": row.self_ns,
        "mean_ns": row.mean_ns(),
        "min_ns": row.min_ns,
        "max_ns": row.max_ns,
        "p50_ns": row.quantile_ns(0.5),
        "p99_ns": row.quantile_ns(0.99),
    })
}

fn thread_states(report: &Report<'_>, states: &StateTables) -> Value {
    let spans = states.spans.iter().take(report.top);
    let spans = spans.map(|row| {
        json!({
            "category": report.names.text(row.category),
            "name": report.name(row.name),
            "count": row.count,
            "total_ns": row.times.total_ns(),
            "states_ns": states_ns(&row.times),
        })
    });
    let threads = states.threads.iter().take(report.top);
    let threads = threads.map(|row| {
        json!({
            "process": row.name.process,
            "thread": row.name.thread,
            "tid": row.tid,
            "total_ns": row.times.total_ns(),
            "states_ns": states_ns(&row.times),
        })
    });
    json!({
        "spans": spans.collect::<Vec<_>>(),
        "threads": threads.collect::<Vec<_>>(),
        "gaps": states.gaps,
        "lost_events": states.lost_events,
        "missing_switches": states.missing_switches,
    })
}

fn states_ns(times: &ActivityTimes) -> serde_json::Map<String, Value> {
    let states = Activity::ALL.into_iter();
    states
        .map(|it| (activity_key(it).to_owned(), json!(times.of(it))))
        .collect()
}

fn open_spans(report: &Report<'_>) -> Vec<Value> {
    let rows = report.first_open_spans().into_iter();
    rows.map(|row| {
        json!({
            "process": row.path.process,
            "track": row.path.track,
            "category": row.category,
            "name": row.name,
            "on": row.on,
            "since_ns": row.since_ns,
            "age_ns": row.age_ns,
        })
    })
    .collect()
}

fn counters(report: &Report<'_>) -> Vec<Value> {
    let rows = report.counters().into_iter().take(report.top);
    rows.map(|(id, values)| {
        let path = report.paths.of(id);
        json!({
            "process": path.process,
            "counter": path.track,
            "unit": unit(id, report.tracks, report.names),
            "count": values.count,
            "min": values.min,
            "max": values.max,
            "mean": values.sum / values.count as f64,
            "last": match values.last {
                CounterValue::Int(value) => json!(value),
                CounterValue::Double(value) => json!(value),
            },
        })
    })
    .collect()
}

fn instants(report: &Report<'_>) -> Vec<Value> {
    let rows = report.sorted_instants().into_iter().take(report.top);
    rows.map(|(category, name, count)| json!({"category": category, "name": name, "count": count}))
        .collect()
}

fn packets(report: &Report<'_>) -> Vec<Value> {
    let kinds = report.summary.packet_kinds.iter().take(report.top);
    kinds
        .map(|(field, kind)| {
            json!({
                "field": field,
                "name": report.packet_name(*field),
                "count": kind.packets,
                "bytes": kind.bytes,
            })
        })
        .collect()
}

fn states(report: &Report<'_>) -> Vec<Value> {
    let messages = report.summary.states.messages().into_iter();
    messages
        .take(report.top)
        .map(|message| {
            json!({
                "field": message.field,
                "name": report.packet_name(message.field),
                "changes": message.changes,
                "entries": message.entries,
                "bytes": message.bytes,
            })
        })
        .collect()
}

fn states_of_overwritten(report: &Report<'_>) -> Vec<Value> {
    let accounts = report.summary.state_accounts.iter().take(report.top);
    accounts
        .map(|account| {
            json!({
                "data_source": account.data_source,
                "buffer": account.buffer,
                "folded": account.folded,
                "not_folded": account.failed,
                "memory_bytes": account.state_bytes,
                "error": account.error,
            })
        })
        .collect()
}

fn losses(report: &Report<'_>) -> Value {
    let losses = &report.summary.losses;
    let sequences = losses.lossy().take(report.top);
    let sequences: Vec<Value> = sequences
        .map(|(id, sequence)| {
            let packets: serde_json::Map<String, Value> = sequence
                .packets
                .iter()
                .map(|(fate, count)| ((*fate).to_owned(), json!(count)))
                .collect();
            json!({
                "sequence": id,
                "thread": sequence.thread_name,
                "gaps": sequence.gaps,
                "causes": sequence.causes,
                "first_packet": sequence.first_packet,
                "packets": packets,
            })
        })
        .collect();
    let buffers: Vec<Value> = losses
        .buffers
        .iter()
        .map(|buffer| {
            json!({
                "chunks_overwritten": buffer.chunks_overwritten,
                "chunks_discarded": buffer.chunks_discarded,
                "writer_packets_lost": buffer.writer_packets_lost,
            })
        })
        .collect();
    json!({
        "gaps": losses.gaps(),
        "packets": losses.packets(),
        "sequences": sequences,
        "buffers": buffers,
    })
}
