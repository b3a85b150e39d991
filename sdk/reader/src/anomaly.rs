//! Faults found while a packet is decoded. Only [`crate::check()`] reports them.

use protozero::DecodeError;

use crate::iid_table::Table;

/// A fault in a packet. Reading goes on regardless.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Anomaly {
    /// A field of the packet has a wire type that differs from the schema's.
    MistypedField { field: u32 },
    /// A message inside the packet is malformed.
    Malformed {
        message: &'static str,
        error: DecodeError,
    },
    /// The packet says that it is the first of its sequence, but `packets` came before it. If it
    /// also clears the incremental state, another writer has got the sequence's id.
    NotTheFirst { packets: u64, clears_state: bool },
    /// A packet has interned data, which is ignored because the sequence's incremental state is not
    /// valid.
    DefinitionWithoutState,
    /// A definition has no id.
    IidZero { table: Table },
    /// A definition changes the meaning of an id.
    IidRedefined { table: Table, iid: u64 },
    /// A packet refers to an id that is not defined.
    IidUnknown { table: Table, iid: u64 },
    /// A snapshot defines a clock of the sequence, but contains no clock whose time is known.
    UntiedClock { clock_id: u32 },
    /// A timestamp uses a clock of the sequence that was not defined again since the incremental
    /// state was cleared.
    ClockBeforeClear { clock_id: u32 },
    /// An event has more extra counter values than tracks for them.
    ExtraCountersWithoutTrack,
    /// A track descriptor has no uuid.
    NoTrackUuid,
}
