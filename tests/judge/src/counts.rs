//! Counts of the packets and events of a trace, from three sources: the judge, the report of the
//! session that recorded the trace, or a tool that reads it.

use std::path::Path;

use tracezero::Report;

use crate::{Event, EventKind, Verdict};

/// Counts of the content of a trace. A field is `None` if the source does not say it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The size of the trace.
    pub bytes: Option<u64>,
    /// The number of packets, including the service's own.
    pub packets: Option<u64>,
    /// The number of track events that can be decoded.
    pub events: Option<u64>,
    /// The number of packets of data sources that can be decoded.
    pub data_packets: Option<u64>,
    /// The number of packets that cannot be decoded, because the incremental state that they need
    /// is lost.
    pub undecodable: Option<u64>,
    /// The number of counter values that were written along with other events.
    pub extra_values: Option<u64>,
}

/// Returns a line for each count in which `who` differs from the judge.
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

    /// Returns the counts that the judge found in a trace.
    #[must_use]
    pub fn of_verdict(verdict: &Verdict, trace_bytes: &[u8]) -> Self {
        // A counter event without a value is not counted.
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

    /// Finds the report about the trace `file` in the output of a program. A report that names no
    /// file is taken to be about this one.
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

/// Parses the first line of a printed report, which may follow a word and a colon. Returns the
/// counts and the path that the line names.
fn parse_report(line: &str) -> Option<(Counts, &str)> {
    let (begin, lost) = line.split_once(" lost")?;
    let begin = begin.rsplit(": ").next()?;
    // A report leaves out counts that are zero.
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
            "folded into states" | "lost" => {}
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
