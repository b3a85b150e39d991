//! What became of the packets of each sequence: the counts of its writers and those of its buffer,
//! put together.
//!
//! Neither stands still meanwhile. A packet counts as begun before it counts as anything else, and
//! buffers are asked first, writers after them. So what was begun is at least the sum of the rest,
//! and the difference are packets on their way: those are in flight.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::central_buffer::{BufferCounts, CentralBuffer, Writers};
use super::control::Control;
use super::packet_framer::{LeftOut, Writer};
use super::trace_reader::{FileEnd, TraceReader};
use tracezero_core::coordination::WriterTotals;
use tracezero_core::protos::sequences;

/// What became of the packets of one sequence in one buffer: `begun` is the sum of all that follows
/// it, at any time.
///
/// Packets without content are no packets to readers, and do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceAccount {
    /// The sequence's id in the trace; `None` for writers that found no id free.
    pub sequence_id: Option<u32>,
    /// Position of the buffer in the configuration.
    pub buffer: usize,
    /// Name of the thread that writes it, or did last.
    pub thread_name: Option<String>,
    /// Packets begun.
    pub begun: u64,
    /// In the trace.
    pub read: u64,
    /// In the buffer: to be read, or to be completed.
    pub buffered: u64,
    /// Begun, and not in the buffer yet: in a chunk that its thread still fills.
    pub in_flight: u64,
    /// Taken out of the buffer: moved into a snapshot, or cleared before one. In the account of a
    /// snapshot also what the session itself had read before.
    pub removed: u64,
    /// Lost because the writer found no free chunk of shared memory.
    pub dropped: u64,
    /// Lost in a ring that ran full before they were read.
    pub overwritten: u64,
    /// Lost because a discarding buffer was full.
    pub discarded: u64,
    /// Lost because they came when newer ones had been read or overwritten already.
    pub late: u64,
    /// Begun in the buffer, then given up by the writer for lack of shared memory.
    pub aborted: u64,
    /// Lost because their middle or end is missing, or their bytes are damaged.
    pub corrupted: u64,
    /// Left out by the service: malformed, or with fields that only the service writes.
    pub invalid: u64,
    /// Lost because the file was as large as it may be.
    pub file_full: u64,
    /// In the trace, but of no use: what they build on, names or the time before, is lost.
    pub undecodable: u64,
    /// Lost because the file could not be written.
    pub write_failed: u64,
}

impl SequenceAccount {
    /// Packets lost, over all causes.
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

    fn new(
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
        let known = account.read + account.buffered + account.removed + account.lost();
        debug_assert!(
            totals.is_none() || account.begun >= known,
            "more than was begun: {account}"
        );
        // What writers of a producer that is gone had begun, nobody knows any more.
        account.begun = account.begun.max(known);
        account.in_flight = account.begun - known;
        account
    }

    /// Of the packets that were read, no reader of the trace finds these.
    fn leave_out(&mut self, left_out: LeftOut, file_end: Option<FileEnd>) {
        // A writer id that served several buffers of the session is counted where it was read.
        self.invalid = left_out.invalid.min(self.read);
        self.read -= self.invalid;
        let beyond_end = left_out.beyond_end.min(self.read);
        self.read -= beyond_end;
        self.count_beyond_end(beyond_end, file_end);
        self.undecodable = left_out.undecodable.min(self.read);
        self.read -= self.undecodable;
    }

    /// So many more packets have no place in the file.
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
    }
}

/// One line: `sequence 3 (worker) in buffer 0: 10 begun = 7 read + 3 overwritten`.
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

impl Control {
    /// The writers to a buffer, as they are now or, for a snapshot, as they were then.
    pub(super) fn writers_of(&self, buffer: &CentralBuffer) -> Writers {
        if let Some(writers) = &buffer.writers_then {
            return writers.clone();
        }
        let mut writers = Vec::new();
        for (&producer_id, producer) in self.producers.iter() {
            let totals = producer.calls_to.writer_totals().into_iter();
            let of_buffer = totals.filter(|totals| totals.target_buffer == buffer.id);
            writers.extend(of_buffer.map(|totals| (producer_id, totals)));
        }
        writers
    }

    /// The accounts of all sequences in the buffers of a session.
    pub(super) fn sequence_accounts(&self, reader: &mut TraceReader) -> Vec<SequenceAccount> {
        let mut accounts = Vec::new();
        for index in 0..reader.buffers().len() {
            // In this order: see the head of this file.
            let mut counts = reader.buffers()[index].counts();
            let writers = self.writers_of(&reader.buffers()[index]);
            let known: HashSet<Writer> = counts.iter().map(|&(writer, _)| writer).collect();
            let mut totals: HashMap<Writer, &WriterTotals> = HashMap::new();
            for (producer_id, of_writer) in &writers {
                let Some(writer_id) = of_writer.writer_id else {
                    let none = BufferCounts::default();
                    accounts.push(SequenceAccount::new(None, index, none, Some(of_writer)));
                    continue;
                };
                let writer = (*producer_id, writer_id);
                totals.insert(writer, of_writer);
                if !known.contains(&writer) {
                    // All that it wrote was dropped, or did not get here yet.
                    counts.push((writer, BufferCounts::default()));
                }
            }
            for (writer, counts) in counts {
                let sequence_id = reader.framer.sequence_id(writer);
                let totals = totals.get(&writer).copied();
                let mut account = SequenceAccount::new(Some(sequence_id), index, counts, totals);
                account.leave_out(reader.framer.left_out(writer), reader.file_end);
                accounts.push(account);
            }
        }
        accounts.retain(|account| account.begun > 0);
        accounts
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
