//! The report of a session: what was recorded, and what was lost.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

mod warning; // requests that had no effect

pub use warning::Warning;
pub(crate) use warning::warnings;

use tracezero_service::{CentralBuffer, ReadCounts, SequenceAccount};

/// The report of a finished session. It is printed as one line: `4 events, 214 bytes, 0 lost:
/// app.pftrace`. If packets were lost, a line follows for each cause that a setting can prevent.
/// Each [`Warning`] adds a line. The format `{:#}` adds a line for each sequence that lost packets.
///
/// ```
/// use tracezero::{InMemorySession, instant};
///
/// let session = InMemorySession::start()?;
/// instant!("app", "started");
/// let (trace, report) = session.finish();
///
/// assert_eq!(report.events, 1);
/// assert_eq!(report.bytes, trace.len() as u64);
/// assert_eq!(report.to_string(), format!("1 event, {} bytes, 0 lost", trace.len()));
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The number of track events in the trace.
    pub events: u64,
    /// The number of packets of data sources in the trace.
    pub data_packets: u64,
    /// The size of the whole trace, in bytes.
    pub bytes: u64,
    /// The number of packets that trace writers of this process began.
    pub packets_begun: u64,
    /// The number of packets of trace writers of this process that are in the trace.
    pub packets_read: u64,
    /// The number of packets of trace writers of this process that snapshots moved out of the
    /// buffers.
    pub packets_removed: u64,
    /// The number of packets that a ring overwrote, and that are part of the state with which the trace
    /// begins. They are not lost.
    pub packets_folded: u64,
    /// The number of packets that are in no trace, by cause.
    pub losses: Losses,
    /// The counts of packets by sequence and buffer.
    pub sequences: Vec<SequenceAccount>,
    /// The memory of the buffers.
    pub memory: BufferMemory,
    /// The path of the trace file, or of the folder with its segments; `None` if the trace stayed in
    /// memory.
    pub path: Option<PathBuf>,
    /// The number of segments by what became of them; zeros if the trace was not cut into segments.
    pub segments: SegmentCounts,
    /// Likely mistakes in the configuration, and altered values. Each is printed as a line.
    pub warnings: Vec<Warning>,
}

/// The memory that the buffers of a session took, and the time that trace writers waited for room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferMemory {
    /// The largest size of all buffers together, in bytes. Memory that was never written to does
    /// not count.
    pub peak_bytes: u64,
    /// The limit on the size of all buffers together, in bytes.
    pub limit_bytes: u64,
    /// The time that trace writers waited because the file lagged too far behind, summed over all
    /// threads.
    pub waited: Duration,
    /// The number of times that a trace writer had to drop packets because the file lagged too far
    /// behind.
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

/// The number of segments of a recording: see [`Segments`](crate::Segments).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentCounts {
    /// The number of segments that were completed.
    pub completed: u64,
    /// The number of segments that were removed from the folder for want of room or because of their
    /// age, also those of earlier runs.
    pub removed: u64,
    /// The number of segments among these that were removed before the application's function had
    /// returned. It was told, or was not called for them.
    pub removed_unseen: u64,
}

/// The numbers of packets that did not reach the trace, by cause.
///
/// ```
/// use tracezero::{BufferConfig, TraceConfig, instant};
///
/// let session = TraceConfig::empty()
///     .add_buffer(BufferConfig::ring(64))
///     .record_all()
///     .record_in_memory()?;
/// for number in 0..20_000 {
///     instant!("app", "step", number);
/// }
/// let (_, report) = session.finish();
/// assert!(report.losses.overwritten > 0);
/// let lost = report.losses.begun_packets();
/// assert_eq!(report.packets_begun, report.packets_read + lost);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Packets whose writer found no free chunk of shared memory.
    pub dropped: u64,
    /// Packets that a full ring overwrote before they were read.
    pub overwritten: u64,
    /// Packets that a buffer with the fill policy `DISCARD` refused because it was full.
    pub discarded: u64,
    /// Packets that arrived after newer ones of their sequence had been read or overwritten.
    pub late: u64,
    /// Packets whose beginning was in the buffer, and whose writer then found no free chunk for the
    /// rest.
    pub aborted: u64,
    /// Packets whose middle or end is missing, or whose bytes are damaged.
    pub corrupted: u64,
    /// Packets that the service left out because they are malformed, or have fields that only the
    /// service may write.
    pub invalid: u64,
    /// Packets that came after the file had reached its size limit.
    pub file_full: u64,
    /// Packets in the trace that readers skip, because incremental state that they need was lost:
    /// interned names, or the previous timestamp.
    pub undecodable: u64,
    /// Packets that could not be written to the file, for instance because the disk was full.
    pub write_failed: u64,
    /// Packets that were not finished when the session ended.
    pub unfinished: u64,
    /// Events and packets that were dropped because the tracer was at work on the same thread, for
    /// instance if a `Drop` or an allocator records while a packet is open. They never became
    /// packets, so `packets_begun` does not count them.
    pub nested: u64,
}

impl Report {
    /// Creates the report of a session that was read. `nested` is the number of nested trace points
    /// that were dropped meanwhile.
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
            packets_folded: sum(|account| account.folded),
            losses: Losses::of(&sequences, nested),
            sequences,
            memory,
            path: None,
            segments: SegmentCounts::default(),
            warnings: Vec::new(),
        }
    }
}

impl Losses {
    /// Sums up the losses of all sequences. The `nested` packets belong to no sequence.
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

    /// Returns the number of lost packets, over all causes.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.begun_packets() + self.nested
    }

    /// Returns the number of lost packets that were begun: all but `nested`.
    #[must_use]
    pub const fn begun_packets(&self) -> u64 {
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
            (self.nested, "recorded inside the tracer"),
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
        // Events are left out only if there are packets of data sources and no events.
        if self.events > 0 || self.data_packets == 0 {
            write!(f, "{}, ", Counted(self.events, "event"))?;
        }
        if self.data_packets > 0 {
            write!(f, "{}, ", Counted(self.data_packets, "packet"))?;
        }
        write!(f, "{} bytes, ", self.bytes)?;
        if self.packets_folded > 0 {
            write!(f, "{} folded into states, ", self.packets_folded)?;
        }
        write!(f, "{}", self.losses)?;
        if let Some(path) = &self.path {
            write!(f, ": {}", path.display())?;
        }
        if self.segments != SegmentCounts::default() {
            write!(f, "\n{}", self.segments)?;
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

impl fmt::Display for SegmentCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Counted(self.completed, "segment"))?;
        if self.removed > 0 {
            write!(f, ", {} removed for want of room or by age", self.removed)?;
        }
        if self.removed_unseen > 0 {
            write!(
                f,
                ", {} of them before `on_complete` had returned",
                self.removed_unseen
            )?;
        }
        Ok(())
    }
}

impl Report {
    /// Writes how to avoid the losses that occurred.
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

/// A number and a noun in the singular, printed with the right plural.
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
    fn report_prints_as_one_line_with_causes_of_losses() {
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
            "1 event, 214 bytes, 12 lost (10 overwritten in a ring, 2 recorded inside the tracer)"
        );
    }

    #[test]
    fn report_of_segments_says_which_were_removed() {
        let mut report = Report {
            path: Some("traces".into()),
            ..Report::default()
        };
        report.segments.completed = 488;
        let head = "0 events, 0 bytes, 0 lost: traces\n488 segments";
        assert_eq!(report.to_string(), head);
        report.segments.removed = 475;
        report.segments.removed_unseen = 470;
        let removed =
            "475 removed for want of room or by age, 470 of them before `on_complete` had returned";
        assert_eq!(report.to_string(), format!("{head}, {removed}"));
    }
}
