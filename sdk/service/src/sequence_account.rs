//! The account of a sequence: what became of its packets. An account combines the counts of the
//! writer with those of the buffer.

use std::fmt;

use super::buffer_counts::BufferCounts;
use super::file_end::FileEnd;
use super::packet_framer::LeftOutCounts;
use tracezero_core::coordination::WriterTotals;
use tracezero_core::protos::sequences;

/// The account of one sequence in one buffer: what became of its packets. At any time, `begun` is
/// the sum of all the counts that follow it.
///
/// Packets without content do not count, because readers ignore them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceAccount {
    /// The sequence's id in the trace; `None` for writers that got no writer id because all were in
    /// use.
    pub sequence_id: Option<u32>,
    /// The position of the buffer in the configuration.
    pub buffer: usize,
    /// The name of the thread that writes the sequence, or wrote it last.
    pub thread_name: Option<String>,
    /// Packets that the writer began.
    pub begun: u64,
    /// Packets in the trace.
    pub read: u64,
    /// Packets in the buffer that wait to be read or to be completed.
    pub buffered: u64,
    /// Packets begun that are not in the buffer yet: they are in a chunk that the thread still
    /// fills.
    pub in_flight: u64,
    /// Packets taken out of the buffer: moved into a clone, or cleared before a clone was made. In
    /// the account of a clone, also packets that were read from the source before, unless the clone
    /// begins with the source's file.
    pub removed: u64,
    /// Packets that a ring overwrote, and that are part of the state which it keeps for their data
    /// source.
    pub folded: u64,
    /// Packets lost because the writer found no free chunk of shared memory.
    pub dropped: u64,
    /// Packets lost because the ring overwrote them before they were read.
    pub overwritten: u64,
    /// Packets lost because a discarding buffer was full.
    pub discarded: u64,
    /// Packets lost because they came after newer ones had been read or overwritten.
    pub late: u64,
    /// Packets that the writer gave up for lack of shared memory when a part was already in the
    /// buffer, or that it was in the middle of when its process ended.
    pub aborted: u64,
    /// Packets lost because their middle or end is missing, or their bytes are damaged.
    pub corrupted: u64,
    /// Packets that the service left out: malformed, or with fields that only the service may
    /// write.
    pub invalid: u64,
    /// Packets lost because the file reached its maximum size.
    pub file_full: u64,
    /// Packets in the trace that cannot be decoded, because the incremental state that they depend
    /// on is lost.
    pub undecodable: u64,
    /// Packets lost because writing the file failed.
    pub write_failed: u64,
}

impl SequenceAccount {
    /// Returns the number of packets lost, over all causes.
    #[must_use]
    pub const fn lost(&self) -> u64 {
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
    }

    pub(super) fn new(
        sequence_id: Option<u32>,
        buffer: usize,
        counts: BufferCounts,
        totals: Option<&WriterTotals>,
    ) -> Self {
        let BufferCounts { counts, removed } = counts;
        let mut account = Self {
            sequence_id,
            buffer,
            read: counts.read,
            buffered: counts.unread,
            removed,
            folded: counts.folded,
            overwritten: counts.overwritten,
            discarded: counts.discarded,
            late: counts.late,
            aborted: counts.aborted,
            corrupted: counts.gap + counts.broken_chain + counts.corrupted,
            ..Self::default()
        };
        if let Some(totals) = totals {
            account.thread_name.clone_from(&totals.thread_name);
            account.dropped = totals.counts.packets_dropped;
            account.begun = totals.counts.packets_begun - totals.counts.packets_empty;
        }
        let known =
            account.read + account.buffered + account.removed + account.folded + account.lost();
        // The writers of a producer that has gone, or that is in another process, may not have reported
        // what they began. Count what is known.
        account.begun = account.begun.max(known);
        account.in_flight = account.begun - known;
        account
    }

    /// Moves packets that are of no use to readers of the trace from `read` to their own counts.
    pub(super) fn leave_out(&mut self, left_out: LeftOutCounts, file_end: Option<FileEnd>) {
        // A writer id may have been used for several buffers of the session. Count at most the
        // packets that were read from this buffer.
        self.invalid = left_out.invalid.min(self.read);
        self.read -= self.invalid;
        let beyond_end = left_out.beyond_end.min(self.read);
        self.read -= beyond_end;
        self.count_beyond_end(beyond_end, file_end);
        self.undecodable = left_out.undecodable.min(self.read);
        self.read -= self.undecodable;
    }

    /// Returns the account up to the place behind the packets that were read, but for the last `later`
    /// ones of these.
    pub(super) fn before(&self, later: u64) -> Self {
        let mut before = Self {
            read: self.read.saturating_sub(later),
            buffered: 0,
            in_flight: 0,
            ..self.clone()
        };
        before.begun = before.read + before.removed + before.folded + before.lost();
        before
    }

    /// Returns the account since `earlier`, which is an account of the same sequence.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            begun: self.begun - earlier.begun,
            read: self.read - earlier.read,
            removed: self.removed - earlier.removed,
            folded: self.folded - earlier.folded,
            dropped: self.dropped - earlier.dropped,
            overwritten: self.overwritten - earlier.overwritten,
            discarded: self.discarded - earlier.discarded,
            late: self.late - earlier.late,
            aborted: self.aborted - earlier.aborted,
            corrupted: self.corrupted - earlier.corrupted,
            invalid: self.invalid - earlier.invalid,
            file_full: self.file_full - earlier.file_full,
            undecodable: self.undecodable - earlier.undecodable,
            write_failed: self.write_failed - earlier.write_failed,
            ..self.clone()
        }
    }

    /// Counts more packets that are not in the file because it ended early.
    #[doc(hidden)]
    pub fn count_beyond_end(&mut self, packets: u64, file_end: Option<FileEnd>) {
        match file_end {
            Some(FileEnd::Failed) => self.write_failed += packets,
            Some(FileEnd::Full) | None => self.file_full += packets,
        }
    }

    #[cold]
    pub(super) fn write(&self, out: &mut sequences::SequenceAccount<'_>) {
        if let Some(sequence_id) = self.sequence_id {
            out.set_sequence_id(sequence_id);
        }
        out.set_buffer(self.buffer as u32);
        if let Some(thread_name) = &self.thread_name {
            out.set_thread_name(thread_name);
        }
        out.set_begun(self.begun);
        out.set_read(self.read);
        out.set_buffered(self.buffered);
        out.set_in_flight(self.in_flight);
        out.set_removed(self.removed);
        out.set_dropped(self.dropped);
        out.set_overwritten(self.overwritten);
        out.set_discarded(self.discarded);
        out.set_late(self.late);
        out.set_aborted(self.aborted);
        out.set_corrupted(self.corrupted);
        out.set_invalid(self.invalid);
        out.set_file_full(self.file_full);
        out.set_undecodable(self.undecodable);
        out.set_write_failed(self.write_failed);
        out.set_folded(self.folded);
    }
}

/// Formats one line: `sequence 3 (worker) in buffer 0: 10 begun = 7 read + 3 overwritten`.
impl fmt::Display for SequenceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sequence_id {
            Some(id) => write!(f, "sequence {id}")?,
            None => f.write_str("no sequence")?,
        }
        if let Some(name) = &self.thread_name {
            write!(f, " ({name})")?;
        }
        let Self { buffer, begun, .. } = self;
        write!(f, " in buffer {buffer}: {begun} begun")?;
        let mut separator = "=";
        for (count, fate) in [
            (self.read, "read"),
            (self.buffered, "buffered"),
            (self.in_flight, "in flight"),
            (self.removed, "removed"),
            (self.folded, "folded into a state"),
            (self.dropped, "dropped"),
            (self.overwritten, "overwritten"),
            (self.discarded, "discarded"),
            (self.late, "late"),
            (self.aborted, "aborted"),
            (self.corrupted, "corrupted"),
            (self.invalid, "invalid"),
            (self.file_full, "beyond the file's limit"),
            (self.undecodable, "undecodable"),
            (self.write_failed, "not written"),
        ] {
            if count > 0 {
                write!(f, " {separator} {count} {fate}")?;
                separator = "+";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_prints_as_a_sum() {
        let account = SequenceAccount {
            sequence_id: Some(3),
            thread_name: Some("worker".to_owned()),
            begun: 12,
            read: 7,
            removed: 1,
            overwritten: 4,
            ..SequenceAccount::default()
        };
        assert_eq!(
            account.to_string(),
            "sequence 3 (worker) in buffer 0: 12 begun = 7 read + 1 removed + 4 overwritten"
        );
        assert_eq!(account.lost(), 4);
    }
}
