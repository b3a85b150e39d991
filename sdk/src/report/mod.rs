//! What became of everything that was traced.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

mod warning; // what was asked for and not there

pub use warning::Warning;
pub(crate) use warning::warnings;

use tracezero_service::{CentralBuffer, ReadCounts, SequenceAccount};

/// The account of a finished session. Printed, it is one line:
/// `4 events, 214 bytes, 0 lost: app.pftrace`. If something was lost, a line follows for each cause
/// that a setting can help against; each [`Warning`] is a line as well. Printed with `{:#}`, more
/// lines follow, one for each sequence that lost something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Track events in the trace: those that a reader finds.
    pub events: u64,
    /// Packets of data sources in the trace.
    pub data_packets: u64,
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
    /// The memory of the buffers.
    pub memory: BufferMemory,
    /// Where the trace was written to; `None` if it stayed in memory.
    pub path: Option<PathBuf>,
    /// What the session was asked for and there was nothing of. Printed, each is a line behind the
    /// first one.
    pub warnings: Vec<Warning>,
}

/// How much memory the buffers of a session took, and how long writers waited for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferMemory {
    /// The most bytes that the buffers had, all together. Memory that was never written to takes no
    /// room.
    pub peak_bytes: u64,
    /// The bytes that they may have, all together.
    pub limit_bytes: u64,
    /// How long writers waited because the file lagged too far behind: the sum over all threads.
    pub waited: Duration,
    /// How often a writer had to drop packets because the file lagged too far behind.
    pub refused: u64,
}

impl BufferMemory {
    pub(super) fn of(buffers: &[Arc<CentralBuffer>]) -> Self {
        let mut memory = Self::default();
        for buffer in buffers {
            let (peak_bytes, limit_bytes) =
                buffer.with(|buffer| (buffer.peak_bytes(), buffer.capacity_bytes()));
            memory.peak_bytes += peak_bytes;
            memory.limit_bytes += limit_bytes;
            memory.waited += buffer.waited();
            memory.refused += buffer.refused();
        }
        memory
    }
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
    /// They are in the trace, but what they build on is lost: names, or the time before. Readers skip
    /// them.
    pub undecodable: u64,
    /// The file could not be written: the disk was full, for instance.
    pub write_failed: u64,
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
        memory: BufferMemory,
    ) -> Self {
        let sum = |count: fn(&SequenceAccount) -> u64| sequences.iter().map(count).sum();
        Self {
            events: counts.events,
            data_packets: counts.data_packets,
            bytes,
            packets_begun: sum(|account| account.begun),
            packets_read: sum(|account| account.read),
            packets_removed: sum(|account| account.removed),
            losses: Losses::of(&sequences, nested),
            sequences,
            memory,
            path: None,
            warnings: Vec::new(),
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
            losses.undecodable += account.undecodable;
            losses.write_failed += account.write_failed;
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
            + self.undecodable
            + self.write_failed
            + self.unfinished
    }

    fn by_cause(&self) -> [(u64, &'static str); 12] {
        [
            (self.dropped, "dropped: no room"),
            (self.overwritten, "overwritten in a ring"),
            (
                self.undecodable,
                "undecodable: a ring overwrote their names",
            ),
            (self.discarded, "discarded: buffer full"),
            (self.late, "late"),
            (self.aborted, "aborted: shared memory full"),
            (self.corrupted, "corrupted"),
            (self.invalid, "invalid"),
            (self.file_full, "beyond the file's limit"),
            (self.write_failed, "not written to the file"),
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
        // Data sources trace packets, everything else traces events.
        if self.events > 0 || self.data_packets == 0 {
            write!(f, "{}, ", Counted(self.events, "event"))?;
        }
        if self.data_packets > 0 {
            write!(f, "{}, ", Counted(self.data_packets, "packet"))?;
        }
        write!(f, "{} bytes, {}", self.bytes, self.losses)?;
        if let Some(path) = &self.path {
            write!(f, ": {}", path.display())?;
        }
        let BufferMemory {
            peak_bytes, waited, ..
        } = self.memory;
        if !waited.is_zero() {
            let mib = peak_bytes >> 20;
            write!(
                f,
                "\nwriters waited {waited:.1?} in all for the file; buffers grew to {mib} MiB"
            )?;
        }
        self.write_advice(f)?;
        for warning in &self.warnings {
            write!(f, "\nwarning: {warning}")?;
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

impl Report {
    /// Writes what to change against the losses that there were.
    fn write_advice(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Losses {
            dropped,
            overwritten,
            discarded,
            ..
        } = self.losses;
        let memory = &self.memory;
        let is_file = self.path.is_some();
        if dropped > 0 && memory.refused > 0 {
            write!(
                f,
                "\nthe file lagged behind: trace less, let BufferConfig::grow_to exceed {} KiB, \
                 or let writers wait longer with TraceConfig::wait_limit",
                memory.limit_bytes >> 10
            )?;
        } else if dropped > 0 {
            f.write_str(
                "\nthe shared memory was full: give it more with TraceConfig::shared_memory",
            )?;
        }
        if overwritten > 0 && is_file {
            write!(
                f,
                "\nthe file lagged behind a ring: let it grow with BufferConfig::grow_to, and leave \
                 BufferExhaustedPolicy::Drop out"
            )?;
        }
        if discarded > 0 {
            write!(
                f,
                "\na buffer was full: give BufferConfig::discard more than {} KiB, or use a ring",
                memory.limit_bytes >> 10
            )?;
        }
        Ok(())
    }
}

/// A number of things, by their name in the singular.
struct Counted(u64, &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, name) = self;
        let plural = if *count == 1 { "" } else { "s" };
        write!(f, "{count} {name}{plural}")
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
