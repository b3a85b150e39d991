//! Reasons why packets cannot be decoded.

/// The reason why a packet cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// The packet needs definitions of earlier packets of its sequence, and those were lost.
    NeedsState,
    /// The packet's time is on a clock that no snapshot in the trace relates to the trace clock.
    UnknownClock {
        /// The id of the clock.
        clock_id: u32,
    },
    /// The packet's time is before the zero of the trace clock or above its maximum.
    TimeOutOfRange {
        /// The id of the clock.
        clock_id: u32,
    },
    /// An event without a time.
    NoTime,
    /// An event without a type.
    NoType,
    /// A counter event without a value.
    NoValue,
    /// An event of an unknown type.
    UnknownType {
        /// The number of the type.
        number: u32,
    },
    /// An event of a legacy phase that this reader does not support.
    LegacyPhase {
        /// The letter of the phase, as a number.
        phase: u32,
    },
    /// The packet refers to a track beyond the maximum number of tracks, 4 Mi.
    TooManyTracks,
    /// A message inside the packet is malformed.
    Malformed {
        /// The decoding error.
        error: protozero::DecodeError,
    },
}

impl From<protozero::DecodeError> for SkipReason {
    fn from(error: protozero::DecodeError) -> Self {
        Self::Malformed { error }
    }
}
