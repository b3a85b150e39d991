//! What is noticed about a packet while it is read, for whoever checks the trace.

use protozero::DecodeError;

use crate::iid_table::Table;

/// Something that is not as it should be. Reading goes on all the same.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Anomaly {
    /// A field of the packet has another wire type than in the schema.
    MistypedField { field: u32 },
    /// A message inside of the packet is malformed.
    Malformed {
        message: &'static str,
        error: DecodeError,
    },
    /// The packet says that it is the first of its sequence, which has others. If it clears the state,
    /// another writer has got the sequence's id.
    NotTheFirst { packets: u64, clears_state: bool },
    /// Interned data while the state is not valid, which is passed over.
    DefinitionWithoutState,
    /// A definition has no id.
    IidZero { table: Table },
    /// An id gets another meaning.
    IidRedefined { table: Table, iid: u64 },
    /// An id has no meaning.
    IidUnknown { table: Table, iid: u64 },
    /// A clock of the sequence is defined by a snapshot without a clock that is known.
    UntiedClock { clock_id: u32 },
    /// A clock of the sequence was defined before the state was cleared, and not since.
    ClockBeforeClear { clock_id: u32 },
    /// More extra counter values than tracks for them.
    ExtraCountersWithoutTrack,
    /// A track descriptor has no uuid.
    NoTrackUuid,
}
