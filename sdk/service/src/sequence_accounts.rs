//! Collects the accounts of all sequences of a session.
//!
//! A producer of another process reports the counts of its writers from time to time, if it does. They
//! are those of the last flush, or of the end of the session.
//!
//! Both counts change while they are read. A writer counts a packet as begun before it is counted
//! anywhere else, and buffers are read before writers. So the number of packets begun is at least
//! the sum of the other counts. The difference is the number of packets that are in flight.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::buffer_counts::BufferCounts;
use super::central_buffer::{CentralBuffer, Writers};
use super::control::Control;
use super::packet_framer::Writer;
use super::sequence_account::SequenceAccount;
use super::trace_reader::TraceReader;
use tracezero_core::coordination::WriterTotals;
use tracezero_core::ids::BufferId;

/// Returns the accounts of all sequences in the buffers of a reader. `writers_of` returns the
/// writers of each buffer.
pub(super) fn sequence_accounts(
    reader: &mut TraceReader,
    writers_of: impl FnOnce(&[Arc<CentralBuffer>]) -> Vec<Writers>,
) -> Vec<SequenceAccount> {
    let mut accounts = Vec::new();
    // Read the counts of buffers before the counts of writers: see the head of this file.
    let counts: Vec<_> = reader.buffers().iter().map(|it| it.counts()).collect();
    let writers = writers_of(reader.buffers());
    for (index, (mut counts, writers)) in counts.into_iter().zip(writers).enumerate() {
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
                // The buffer got no chunk of this writer. All of its packets were dropped or are
                // still in flight.
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

impl Control {
    /// Returns the writers of each of these buffers: the present ones, or, for the buffers of a
    /// clone, those at the time of the clone. Asks each producer once, because a producer returns
    /// the writers of all buffers.
    pub(super) fn writers_of(&self, buffers: &[Arc<CentralBuffer>]) -> Vec<Writers> {
        let mut present: HashMap<BufferId, Writers> = HashMap::new();
        if buffers.iter().any(|buffer| buffer.writers_then.is_none()) {
            for (&producer_id, producer) in self.producers.iter() {
                for totals in producer.calls_to.writer_totals() {
                    let of_buffer = present.entry(totals.target_buffer).or_default();
                    of_buffer.push((producer_id, totals));
                }
            }
        }
        let writers = buffers.iter().map(|buffer| match &buffer.writers_then {
            Some(writers) => writers.clone(),
            None => {
                let mut writers = present.remove(&buffer.id).unwrap_or_default();
                writers.extend(buffer.gone_writers().iter().cloned());
                writers
            }
        });
        writers.collect()
    }
}
