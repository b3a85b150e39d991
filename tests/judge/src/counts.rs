//! How many of what a trace has, whoever counts it: the judge, the report of the session that
//! recorded it, or a tool that reads it.

use std::path::Path;

use tracezero::Report;

use crate::{Event, EventKind, Verdict};

/// How many of what a trace has. `None` is what is not said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Its size.
    pub bytes: Option<u64>,
    /// Packets, also those of the service.
    pub packets: Option<u64>,
    /// Track events that can be read.
    pub events: Option<u64>,
    /// Packets of data sources that can be read.
    pub data_packets: Option<u64>,
    /// Packets that cannot be read, since what they build on is lost.
    pub undecodable: Option<u64>,
    /// Values of counters that came along with events.
    pub extra_values: Option<u64>,
}

/// A line for each of `who`'s counts that is not the judge's.
#[must_use]
pub fn disagreements(judge: &Counts, who: &str, counts: &Counts) -> Vec<String> {
    let pairs = judge.named().into_iter().zip(counts.named());
    let both = pairs.filter_map(|((what, judge), (_, count))| Some((what, judge?, count?)));
    both.filter(|(_, judge, count)| judge != count)
        .map(|(what, judge, count)| format!("{what}: {count} by {who}, {judge} by the judge"))
        .collect()
}

impl Counts {
    fn named(&self) -> [(&'static str, Option<u64>); 6] {
        [
            ("bytes", self.bytes),
            ("packets", self.packets),
            ("events", self.events),
            ("packets of data sources", self.data_packets),
            ("undecodable packets", self.undecodable),
            ("extra values of counters", self.extra_values),
        ]
    }

    /// What the judge has found in a trace.
    #[must_use]
    pub fn of_verdict(verdict: &Verdict, trace_bytes: &[u8]) -> Self {
        // Of a counter without a value, there is nothing to be read.
        let is_event = |event: &&Event| event.kind != EventKind::Counter || event.counter.is_some();
        Self {
            bytes: Some(trace_bytes.len() as u64),
            packets: Some(verdict.packets.len() as u64),
            events: Some(verdict.events.iter().filter(is_event).count() as u64),
            data_packets: Some(verdict.data_packets as u64),
            undecodable: Some(verdict.unreadable_packets as u64),
            extra_values: Some(verdict.extra_values as u64),
        }
    }

    /// What is said of the trace `file` in what a program printed. Of a report that names no file it is
    /// taken for granted that it means this one.
    #[must_use]
    pub fn of_printed_report(printed: &str, file: &Path) -> Option<Self> {
        printed.lines().find_map(|line| {
            let (counts, path) = parse_report(line)?;
            let is_meant = path.is_empty() || Path::new(path).file_name() == file.file_name();
            is_meant.then_some(counts)
        })
    }
}

impl From<&Report> for Counts {
    fn from(report: &Report) -> Self {
        Self {
            bytes: Some(report.bytes),
            events: Some(report.events),
            data_packets: Some(report.data_packets),
            undecodable: Some(report.losses.undecodable),
            ..Self::default()
        }
    }
}

/// The first line of a printed report, maybe behind a word and a colon; what it counts, and the path
/// that it names.
fn parse_report(line: &str) -> Option<(Counts, &str)> {
    let (begin, lost) = line.split_once(" lost")?;
    let begin = begin.rsplit(": ").next()?;
    // A report leaves out what there is none of.
    let mut counts = Counts {
        events: Some(0),
        data_packets: Some(0),
        undecodable: Some(0),
        ..Counts::default()
    };
    for part in begin.split(", ") {
        let (number, what) = part.split_once(' ').unwrap_or((part, "lost"));
        let number = number.parse().ok()?;
        match what {
            "event" | "events" => counts.events = Some(number),
            "packet" | "packets" => counts.data_packets = Some(number),
            "bytes" => counts.bytes = Some(number),
            "lost" => {}
            _ => return None,
        }
    }
    counts.bytes?;
    let (causes, path) = match lost.strip_prefix(" (") {
        Some(causes) => causes.split_once(')')?,
        None => ("", lost),
    };
    if let Some((before, _)) = causes.split_once(" undecodable") {
        counts.undecodable = Some(before.rsplit(", ").next()?.parse().ok()?);
    }
    Some((counts, path.strip_prefix(": ").unwrap_or(path)))
}
