//! States that rings keep of overwritten packets.

use protozero::{DecodeError, Decoder, Value};
use tracezero_core::protos::sequences::{SequenceAccountsDecoder, StateAccountDecoder};
use tracezero_reader::FullStates;

/// The maximum number of states that are listed.
const MAX_STATES: usize = 1000;

/// The statistics of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateAccount {
    pub(crate) data_source: String,
    /// The position of the buffer in the configuration.
    pub(crate) buffer: u32,
    /// The size of the state in memory.
    pub(crate) state_bytes: u64,
    /// The number of packets that were folded into the state.
    pub(crate) folded: u64,
    /// The number of packets that were not folded, or not completely.
    pub(crate) failed: u64,
    /// The first reason for that, or why there is no state; empty if there is none.
    pub(crate) error: String,
}

impl StateAccount {
    /// Reads the accounts of states from those of sequences.
    pub(crate) fn read_all(payload: &[u8]) -> Result<Vec<Self>, DecodeError> {
        let states = SequenceAccountsDecoder::new(payload).states();
        let read = |state: Result<_, DecodeError>| {
            let state: StateAccountDecoder<'_> = state?;
            Ok(Self {
                data_source: state.data_source()?.unwrap_or_default().to_owned(),
                buffer: state.buffer()?.unwrap_or_default(),
                state_bytes: state.state_bytes()?.unwrap_or_default(),
                folded: state.folded()?.unwrap_or_default(),
                failed: state.failed()?.unwrap_or_default(),
                error: state.error()?.unwrap_or_default().to_owned(),
            })
        };
        states.take(MAX_STATES).map(read).collect()
    }
}

/// The states of a trace.
#[derive(Debug, Default)]
pub(crate) struct States {
    full: FullStates,
    /// The number of changes of each state in the trace.
    changes: Vec<u64>,
}

/// A message that a state consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateMessage {
    /// The number of its field in a packet.
    pub(crate) field: u32,
    /// The number of changes of the state that are in the trace.
    pub(crate) changes: u64,
    /// The number of fields in the message. Each element of a table is one.
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl States {
    /// Takes the next packet of the trace.
    pub(crate) fn add(&mut self, packet: &[u8]) {
        // The command `check` reports malformed packets.
        if let Ok(Some(state)) = self.full.update(packet) {
            if state >= self.changes.len() {
                self.changes.resize(state + 1, 0);
            }
            self.changes[state] += 1;
        }
    }

    /// Returns the messages of all states, as they are after the last packet.
    pub(crate) fn messages(&self) -> Vec<StateMessage> {
        let mut messages = Vec::new();
        for (index, state) in self.full.states().enumerate() {
            let changes = self.changes.get(index).copied().unwrap_or_default();
            for field in Decoder::new(&state).fields().flatten() {
                if let Value::Bytes(message) = field.value {
                    let fields = Decoder::new(message).fields();
                    messages.push(StateMessage {
                        field: field.number,
                        changes,
                        entries: fields.take_while(Result::is_ok).count() as u64,
                        bytes: message.len() as u64,
                    });
                }
            }
        }
        messages
    }
}
