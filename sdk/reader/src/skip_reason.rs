//! Reasons why packets cannot be understood.

/// Why a packet cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// It needs what earlier packets of its sequence defined, and these were lost.
    NeedsState,
    /// Its time is on a clock that the trace does not explain.
    UnknownClock {
        /// The clock.
        clock_id: u32,
    },
    /// Its time is before the trace clock's beginning, or after its end.
    TimeOutOfRange {
        /// The clock.
        clock_id: u32,
    },
    /// An event without a time.
    NoTime,
    /// An event without a type.
    NoType,
    /// A counter event without a value.
    NoValue,
    /// An event of a type that is not known here.
    UnknownType {
        /// Its number.
        number: u32,
    },
    /// An event of an older kind that is not read here.
    LegacyPhase {
        /// The letter that stands for its kind, as a number.
        phase: u32,
    },
    /// It is about a track, and the trace has more than are kept apart: 4 Mi.
    TooManyTracks,
    /// A message inside of it is malformed.
    Malformed {
        /// What is wrong with it.
        error: protozero::DecodeError,
    },
}

impl From<protozero::DecodeError> for SkipReason {
    fn from(error: protozero::DecodeError) -> Self {
        Self::Malformed { error }
    }
}
