//! The states of a ring, from the log in its crash files.

use std::collections::BTreeMap;

use protozero::DecodeError;
use tracezero_core::ids::{ProducerId, WriterId};

use super::folded_state::{FoldedState, FoldedStates};
use super::state_log::{LogEntry, LoggedWriter, read_log};
use super::trace_buffer::{ClientIdentity, EvictedChunk, TraceBuffer};

/// The states that a ring in a crash file has kept, and of which packets they consist.
#[derive(Debug, Default)]
pub struct RecoveredStates {
    states: FoldedStates,
    writers: BTreeMap<WriterId, LoggedWriter>,
}

impl RecoveredStates {
    /// Reads a log, which ends with a whole record. `producer_id` is that of the only producer.
    ///
    /// # Errors
    ///
    /// If the log is damaged.
    pub fn read(log: &[u8], producer_id: ProducerId) -> Result<Self, DecodeError> {
        let mut recovered = Self::default();
        read_log(log, |entry| match entry {
            LogEntry::State(state) => recovered.states.restore(producer_id, &state),
            LogEntry::Change { state, packet } => recovered.states.repeat_change(state, packet),
            LogEntry::Writer(id, writer) => drop(recovered.writers.insert(id, writer)),
        })?;
        Ok(recovered)
    }

    /// Makes an empty buffer continue behind the packets that are part of the states. The ring may still
    /// have the last of them.
    pub fn continue_in(
        &self,
        buffer: &mut TraceBuffer,
        producer_id: ProducerId,
        client: &ClientIdentity,
    ) {
        for (&writer_id, writer) in &self.writers {
            let chunk = EvictedChunk {
                producer_id,
                writer_id,
                chunk_id: writer.chunk_id,
                payload_bytes: writer.chunk_bytes,
                is_newest: true,
            };
            buffer.continue_behind(client, &chunk, writer.folded);
        }
    }

    pub(super) fn states(&self) -> Vec<FoldedState> {
        self.states.states()
    }
}
