//! Prints a summary as text.

use std::io::{self, Write};

use tracezero_reader::CounterValue;
use tracezero_reader::kernel::{Activity, ActivityTimes};
use tracezero_reader::{BufferLosses, NameTable, TrackId, TrackKind, TrackTable};

use super::Report;
use super::identity;
use super::spans::Durations;
use crate::table::{Table, section};
use crate::thread_states::{missing_switches, percent, shares};
use crate::tracks::SpanPlace;
use crate::units::{bytes, duration, plural};

/// Prints a summary.
pub(super) fn print(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    print_head(report, out)?;
    print_tracks(report, out)?;
    print_spans(report, out)?;
    print_thread_states(report, out)?;
    print_open_spans(report, out)?;
    print_counters(report, out)?;
    print_instants(report, out)?;
    print_packets(report, out)?;
    print_states(report, out)?;
    print_losses(report, out)?;
    print_skipped(report, out)
}

fn print_head(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let summary = report.summary;
    let tracks = report.tracks;
    let count = |is_counted: fn(&TrackKind) -> bool| {
        let counted = tracks.iter().filter(|(_, track)| is_counted(&track.kind));
        counted.count() as u64
    };
    let processes = count(|kind| matches!(kind, TrackKind::Process { .. }));
    let threads = count(|kind| matches!(kind, TrackKind::Thread { .. }));
    let all = tracks.len() as u64;
    identity::print(report.identities, out)?;
    writeln!(out, "duration   {}", duration(summary.duration_ns()))?;
    writeln!(
        out,
        "size       {} in {}, {}",
        bytes(summary.bytes),
        plural(summary.packets, "packet"),
        plural(summary.events, "event")
    )?;
    writeln!(
        out,
        "written by {}, {} with events",
        match processes {
            1 => "1 process".to_owned(),
            _ => format!("{processes} processes"),
        },
        plural(summary.sequences.count() as u64, "sequence"),
    )?;
    writeln!(out, "tracks     {all}, {threads} of them threads")?;
    let gaps = summary.losses.gaps();
    match (gaps, summary.losses.packets()) {
        (0, 0) => writeln!(out, "lost       nothing that the trace reports"),
        (gaps, 0) => writeln!(out, "lost       {}, see below", plural(gaps, "gap")),
        (gaps, packets) => writeln!(
            out,
            "lost       {} in {}, see below",
            plural(packets, "packet"),
            plural(gaps, "gap")
        ),
    }?;
    for line in summary.kernel.lines() {
        writeln!(out, "kernel     {line}")?;
    }
    match report.open_spans() as u64 {
        0 => Ok(()),
        open => writeln!(out, "open       {}, see below", plural(open, "span")),
    }?;
    for end in &summary.early_ends {
        writeln!(out, "end        {end}")?;
    }
    if report.damages > 0 {
        writeln!(out, "damaged    {}", plural(report.damages, "place"))?;
    }
    Ok(())
}

fn print_tracks(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let rows = report.sorted_tracks();
    let mut table = Table::new(&["process", "track"], &["events", "spans", "busy"]);
    for (id, counts) in rows.iter().take(report.top) {
        let path = report.paths.of(*id);
        table.row([
            path.process,
            path.track,
            counts.events.to_string(),
            counts.spans.to_string(),
            duration(counts.busy_ns),
        ]);
    }
    section("tracks", &table, rows.len(), report.top, out)
}

fn print_spans(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let by = report.sort.as_str();
    for (place, title) in [
        (SpanPlace::Thread, "spans on threads"),
        (SpanPlace::Track, "spans on other tracks"),
    ] {
        let rows = report.sorted_spans(place);
        let title = format!("{title}, by {by}");
        section(
            &title,
            &spans_table(&rows, report.top),
            rows.len(),
            report.top,
            out,
        )?;
    }
    let summary = report.summary;
    let remarks = [
        (
            summary.slices.unmatched_ends,
            "end without a begin",
            "ends without a begin",
        ),
        (
            summary.slices.backwards,
            "end before its begin",
            "ends before their begins",
        ),
        (
            summary.slices.too_deep,
            "span too deep to count",
            "spans too deep to count",
        ),
        (
            summary.late_events,
            "event too late to be put in order",
            "events too late to be put in order",
        ),
    ];
    for (count, one, several) in remarks {
        match count {
            0 => Ok(()),
            1 => writeln!(out, "  1 {one}"),
            _ => writeln!(out, "  {count} {several}"),
        }?;
    }
    Ok(())
}

/// Makes a table of spans by name.
pub(super) fn spans_table(rows: &[(&str, &str, &Durations)], top: usize) -> Table {
    let mut table = Table::new(
        &["category", "span"],
        &["count", "total", "self", "mean", "min", "max", "p50", "p99"],
    );
    for (category, name, row) in rows.iter().take(top) {
        table.row([
            (*category).to_owned(),
            (*name).to_owned(),
            row.count.to_string(),
            duration(row.total_ns),
            duration(row.self_ns),
            duration(row.mean_ns()),
            duration(row.min_ns),
            duration(row.max_ns),
            duration(row.quantile_ns(0.5)),
            duration(row.quantile_ns(0.99)),
        ]);
    }
    table
}

fn print_thread_states(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let Some(states) = &report.states else {
        return Ok(());
    };
    let mut table = Table::new(
        &["category", "span"],
        &[
            "total", "running", "core", "lock", "I/O", "sleeping", "stopped", "unknown",
        ],
    );
    for row in states.spans.iter().take(report.top) {
        let [running, core, lock, io, sleeping, stopped, unknown] = state_shares(&row.times);
        table.row([
            report.names.text(row.category).to_owned(),
            report.name(row.name).to_owned(),
            duration(row.times.total_ns()),
            running,
            core,
            lock,
            io,
            sleeping,
            stopped,
            unknown,
        ]);
    }
    let title = "states of threads in spans, by total";
    section(title, &table, states.spans.len(), report.top, out)?;
    let mut table = Table::new(
        &["process", "thread"],
        &[
            "total", "running", "core", "lock", "I/O", "sleeping", "stopped", "unknown",
        ],
    );
    for row in states.threads.iter().take(report.top) {
        let [running, core, lock, io, sleeping, stopped, unknown] = state_shares(&row.times);
        table.row([
            row.name.process.clone(),
            row.name.thread.clone(),
            duration(row.times.total_ns()),
            running,
            core,
            lock,
            io,
            sleeping,
            stopped,
            unknown,
        ]);
    }
    let title = "states of threads, by time of running";
    section(title, &table, states.threads.len(), report.top, out)?;
    match (states.gaps, states.lost_events) {
        (0, 0) => Ok(()),
        (gaps, 0) => writeln!(
            out,
            "  events of the kernel are missing in {}",
            plural(gaps, "gap")
        ),
        (gaps, lost) => writeln!(
            out,
            "  the kernel lost {} in {}",
            plural(lost, "event"),
            plural(gaps, "gap")
        ),
    }?;
    match states.missing_switches {
        0 => Ok(()),
        missing => writeln!(out, "  {}", missing_switches(missing)),
    }
}

/// Formats the shares of all activities.
fn state_shares(times: &ActivityTimes) -> [String; Activity::ALL.len()] {
    let shares = shares(&Activity::ALL.map(|activity| times.of(activity)));
    Activity::ALL.map(|activity| percent(shares[activity as usize]))
}

fn print_open_spans(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(&["process", "track", "category", "span"], &["since", "age"]);
    for row in report.first_open_spans() {
        table.row([
            row.path.process,
            row.path.track,
            row.category.to_owned(),
            row.name.to_owned(),
            duration(row.since_ns),
            duration(row.age_ns),
        ]);
    }
    let title = "spans open at the end";
    section(title, &table, report.open_spans(), report.top, out)
}

fn print_counters(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(
        &["process", "counter", "unit"],
        &["count", "min", "max", "mean", "last"],
    );
    let rows = report.counters();
    for (id, values) in rows.iter().take(report.top) {
        let path = report.paths.of(*id);
        table.row([
            path.process,
            path.track,
            unit(*id, report.tracks, report.names).to_owned(),
            values.count.to_string(),
            number(values.min),
            number(values.max),
            number(values.sum / values.count as f64),
            match values.last {
                CounterValue::Int(value) => value.to_string(),
                CounterValue::Double(value) => number(value),
            },
        ]);
    }
    section("counters", &table, rows.len(), report.top, out)
}

/// Returns the unit of a counter.
pub(super) fn unit<'r>(id: TrackId, tracks: &TrackTable, names: &'r NameTable) -> &'r str {
    use tracezero_core::protos::counter_descriptor::Unit;

    let TrackKind::Counter(counter) = &tracks.track(id).kind else {
        return "";
    };
    match counter.unit {
        Unit::TIME_NS => "ns",
        Unit::SIZE_BYTES => "bytes",
        _ => names.text(counter.unit_name),
    }
}

fn print_instants(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(&["category", "instant"], &["count"]);
    let rows = report.sorted_instants();
    for (category, name, count) in rows.iter().take(report.top) {
        table.row([
            (*category).to_owned(),
            (*name).to_owned(),
            count.to_string(),
        ]);
    }
    section("instants", &table, rows.len(), report.top, out)
}

fn print_packets(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(&["packet"], &["field", "count", "bytes"]);
    let kinds = &report.summary.packet_kinds;
    for (field, kind) in kinds.iter().take(report.top) {
        table.row([
            report.packet_name(*field).to_owned(),
            field.to_string(),
            kind.packets.to_string(),
            kind.bytes.to_string(),
        ]);
    }
    section("other packets", &table, kinds.len(), report.top, out)
}

fn print_states(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let messages = report.summary.states.messages();
    let mut table = Table::new(&["state"], &["field", "changes", "entries", "bytes"]);
    for message in messages.iter().take(report.top) {
        table.row([
            report.packet_name(message.field).to_owned(),
            message.field.to_string(),
            message.changes.to_string(),
            message.entries.to_string(),
            message.bytes.to_string(),
        ]);
    }
    section("states at the end", &table, messages.len(), report.top, out)?;
    let accounts = &report.summary.state_accounts;
    let mut table = Table::new(
        &["data source", "why not"],
        &["buffer", "folded", "not folded", "memory"],
    );
    for account in accounts.iter().take(report.top) {
        table.row([
            account.data_source.clone(),
            account.error.clone(),
            account.buffer.to_string(),
            account.folded.to_string(),
            account.failed.to_string(),
            bytes(account.state_bytes),
        ]);
    }
    let title = "packets that were overwritten and folded into states";
    section(title, &table, accounts.len(), report.top, out)
}

fn print_losses(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let losses = &report.summary.losses;
    let mut table = Table::new(
        &["sequence", "thread", "why"],
        &["gaps", "first at packet", "packets lost"],
    );
    let lossy = losses.lossy().count();
    for (id, sequence) in losses.lossy().take(report.top) {
        let fates = sequence.packets.iter();
        let mut why: Vec<String> = fates
            .map(|(fate, count)| format!("{count} {fate}"))
            .collect();
        why.extend(sequence.causes.iter().map(|cause| (*cause).to_owned()));
        table.row([
            id.to_string(),
            sequence.thread_name.clone(),
            why.join(", "),
            sequence.gaps.to_string(),
            sequence
                .first_packet
                .map_or_else(String::new, |packet| packet.to_string()),
            match sequence.packets_lost() {
                0 => "?".to_owned(),
                count => count.to_string(),
            },
        ]);
    }
    section("losses", &table, lossy, report.top, out)?;
    if losses.further_gaps > 0 {
        writeln!(
            out,
            "  {} in sequences that are not listed",
            plural(losses.further_gaps, "gap")
        )?;
    }
    print_buffer_losses(report, out)
}

fn print_buffer_losses(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(
        &[],
        &[
            "buffer",
            "chunks overwritten",
            "chunks discarded",
            "packets given up by writers",
        ],
    );
    let buffers = report.summary.losses.buffers.iter().enumerate();
    let lossy = buffers.filter(|(_, buffer)| **buffer != BufferLosses::default());
    let rows = lossy.clone().count();
    for (index, buffer) in lossy.take(report.top) {
        table.row([
            index.to_string(),
            buffer.chunks_overwritten.to_string(),
            buffer.chunks_discarded.to_string(),
            buffer.writer_packets_lost.to_string(),
        ]);
    }
    section("buffers", &table, rows, report.top, out)
}

fn print_skipped(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(&["why"], &["count"]);
    let skipped = &report.summary.skipped;
    for (reason, count) in skipped.iter().take(report.top) {
        table.row([reason.clone(), count.to_string()]);
    }
    section("packets skipped", &table, skipped.len(), report.top, out)?;
    match report.summary.forgotten_sequences {
        0 => Ok(()),
        count => writeln!(
            out,
            "  definitions of {count} sequences were forgotten for lack of room"
        ),
    }
}

/// Formats a value of a counter, without needless digits.
pub(super) fn number(value: f64) -> String {
    match value.fract() == 0.0 && value.abs() < 1e15 {
        true => format!("{value:.0}"),
        false => format!("{value:.3}"),
    }
}
