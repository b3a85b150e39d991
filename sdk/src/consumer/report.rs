//! What became of everything that was traced.

use std::fmt;
use std::path::PathBuf;

use crate::service::{ReadCounts, SequenceAccount};

/// The account of a finished session. Printed, it is one line:
/// `4 events, 214 bytes, 0 lost: app.pftrace`. Printed with `{:#}`, more lines follow, one for each
/// sequence that lost something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Events and custom packets in the trace, without descriptors and packets of the service.
    pub events: u64,
    /// Size of the whole trace.
    pub bytes: u64,
    /// Packets that writers of this process began.
    pub packets_begun: u64,
    /// Packets of theirs that are in the trace.
    pub packets_read: u64,
    /// Packets of theirs that snapshots took out of the buffers.
    pub packets_removed: u64,
    /// Packets that are in no trace, by cause.
    pub losses: Losses,
    /// The same by sequence and buffer.
    pub sequences: Vec<SequenceAccount>,
    /// Where the trace was written to; `None` if it stayed in memory.
    pub path: Option<PathBuf>,
}

/// Packets that did not reach the trace, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Writers found no free chunk of shared memory.
    pub dropped: u64,
    /// A ring ran full and overwrote them before they were read.
    pub overwritten: u64,
    /// A discarding buffer was full.
    pub discarded: u64,
    /// They came when newer ones of their sequence had been read or overwritten already.
    pub late: u64,
    /// Begun in the buffer, then given up by their writer for lack of shared memory.
    pub aborted: u64,
    /// Their middle or end is missing, or their bytes are damaged.
    pub corrupted: u64,
    /// Left out by the service: malformed, or with fields that only the service writes.
    pub invalid: u64,
    /// The file was as large as it may be.
    pub file_full: u64,
    /// Not finished when the session ended.
    pub unfinished: u64,
    /// Traced from within tracing itself, for instance by a `Drop` or an allocator while a packet
    /// was open. These never became packets, so they are not part of `packets_begun`.
    pub nested: u64,
}

impl Report {
    /// The account of a session that was read. `nested` trace points were dropped meanwhile.
    pub(crate) fn new(
        counts: ReadCounts,
        bytes: u64,
        sequences: Vec<SequenceAccount>,
        nested: u64,
    ) -> Self {
        let sum = |count: fn(&SequenceAccount) -> u64| sequences.iter().map(count).sum();
        Self {
            events: counts.events,
            bytes,
            packets_begun: sum(|account| account.begun),
            packets_read: sum(|account| account.read),
            packets_removed: sum(|account| account.removed),
            losses: Losses::of(&sequences, nested),
            sequences,
            path: None,
        }
    }
}

impl Losses {
    /// Adds up what sequences lost; `nested` packets never belonged to one.
    fn of(sequences: &[SequenceAccount], nested: u64) -> Self {
        let mut losses = Self {
            nested,
            ..Self::default()
        };
        for account in sequences {
            losses.dropped += account.dropped;
            losses.overwritten += account.overwritten;
            losses.discarded += account.discarded;
            losses.late += account.late;
            losses.aborted += account.aborted;
            losses.corrupted += account.corrupted;
            losses.invalid += account.invalid;
            losses.file_full += account.file_full;
            losses.unfinished += account.buffered + account.in_flight;
        }
        losses
    }

    /// Packets lost, over all causes.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.of_packets_begun() + self.nested
    }

    /// Packets lost of those that were begun.
    #[must_use]
    pub const fn of_packets_begun(&self) -> u64 {
        self.dropped
            + self.overwritten
            + self.discarded
            + self.late
            + self.aborted
            + self.corrupted
            + self.invalid
            + self.file_full
            + self.unfinished
    }

    fn by_cause(&self) -> [(u64, &'static str); 10] {
        [
            (self.dropped, "dropped: shared memory full"),
            (self.overwritten, "overwritten in a ring"),
            (self.discarded, "discarded: buffer full"),
            (self.late, "late"),
            (self.aborted, "aborted: shared memory full"),
            (self.corrupted, "corrupted"),
            (self.invalid, "invalid"),
            (self.file_full, "beyond the file's limit"),
            (self.unfinished, "unfinished"),
            (self.nested, "traced within tracing"),
        ]
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lost", self.total())?;
        let mut separator = " (";
        for (count, cause) in self.by_cause() {
            if count > 0 {
                write!(f, "{separator}{count} {cause}")?;
                separator = ", ";
            }
        }
        f.write_str(if separator == ", " { ")" } else { "" })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, bytes, .. } = self;
        let plural = if *events == 1 { "" } else { "s" };
        write!(f, "{events} event{plural}, {bytes} bytes, {}", self.losses)?;
        if let Some(path) = &self.path {
            write!(f, ": {}", path.display())?;
        }
        if f.alternate() {
            let has_losses = |account: &&SequenceAccount| account.read < account.begun;
            for account in self.sequences.iter().filter(has_losses) {
                write!(f, "\n{account}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_prints_as_one_line_with_the_causes_of_losses() {
        let mut report = Report {
            events: 4,
            bytes: 214,
            path: Some("app.pftrace".into()),
            ..Report::default()
        };
        assert_eq!(
            report.to_string(),
            "4 events, 214 bytes, 0 lost: app.pftrace"
        );
        report.events = 1;
        report.losses.overwritten = 10;
        report.losses.nested = 2;
        report.path = None;
        assert_eq!(
            report.to_string(),
            "1 event, 214 bytes, 12 lost (10 overwritten in a ring, 2 traced within tracing)"
        );
    }
}
