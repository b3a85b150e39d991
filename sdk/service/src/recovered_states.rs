//! The states of a ring, from the log in its crash files.

use std::fmt;

use tracezero_core::crash_files::format::COUNT_MAX;
use tracezero_core::ids::{ProducerId, WriterId};

use super::folded_state::{FoldedState, FoldedStates};
use super::state_log::{DamagedLog, LogEntry, LoggedWriters, read_log};
use super::trace_buffer::{ClientIdentity, EvictedChunk, TraceBuffer};

/// The states that a ring in a crash file has kept, and of which packets they consist.
#[derive(Debug, Default)]
pub struct RecoveredStates {
    states: FoldedStates,
    writers: LoggedWriters,
}

/// The reason why a log of states cannot be used.
#[derive(Debug)]
pub struct DamagedStates(DamagedLog);

impl fmt::Display for DamagedStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl RecoveredStates {
    /// Reads a log, which ends with a whole record, of a folder with this nonce. `producer_id` is that of
    /// the only producer.
    ///
    /// # Errors
    ///
    /// If the log is damaged.
    pub fn read(log: &[u8], nonce: u64, producer_id: ProducerId) -> Result<Self, DamagedStates> {
        let mut recovered = Self::default();
        let read = read_log(log, nonce, |entry| match entry {
            LogEntry::State(state) => recovered.states.restore(producer_id, &state),
            LogEntry::Change { state, packet } => recovered.states.repeat_change(state, packet),
            LogEntry::Writer(id, writer) => {
                recovered.writers.insert(id, writer);
                Ok(())
            }
        });
        read.map_err(DamagedStates)?;
        Ok(recovered)
    }

    /// Makes an empty buffer continue behind the packets that are part of the states. The ring may still
    /// have the last of them. They count as folded if the trace gets these states, and else as lost.
    pub fn continue_in(
        &self,
        buffer: &mut TraceBuffer,
        producer_id: ProducerId,
        client: &ClientIdentity,
        has_states: bool,
    ) {
        for (&writer_id, writer) in &self.writers {
            let chunk = EvictedChunk {
                producer_id,
                writer_id,
                chunk_id: writer.chunk_id,
                payload_bytes: writer.chunk_bytes,
                is_newest: true,
                lost: writer.lost.unwrap_or_default().min(COUNT_MAX),
            };
            let folded = match has_states {
                true => writer.folded.min(COUNT_MAX),
                false => 0,
            };
            buffer.continue_behind(client, &chunk, folded);
        }
    }

    /// Notes that later rings have lost packets, which this log does not count.
    pub fn note_later_rings(&mut self) {
        for writer in self.writers.values_mut() {
            writer.lost = None;
        }
    }

    /// Returns the writers of which all losses are known.
    pub(super) fn counted_writers(&self) -> impl Iterator<Item = WriterId> + '_ {
        let counted = self.writers.iter().filter(|(_, it)| it.knows_losses());
        counted.map(|(id, _)| *id)
    }

    pub(super) fn states(&self) -> Vec<FoldedState> {
        self.states.states()
    }
}
