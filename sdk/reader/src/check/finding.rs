//! What is wrong with a trace, where, by which rule.

use std::fmt;

use crate::place::PacketPlace;

/// The rules that a trace is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// The file is one packet after the other.
    Framing,
    /// Messages decode, with the wire types of the schema and texts in UTF-8.
    Decoding,
    /// Events and definitions belong to a sequence, and the first packet of a sequence says who wrote
    /// it.
    Sequence,
    /// Only the first packet of a sequence is flagged as the first.
    FirstPacket,
    /// What packets depend on is defined before them, and they say that they do.
    IncrementalState,
    /// Every interned id has one meaning on its sequence until the state is cleared.
    Interning,
    /// Every time leads to the trace clock.
    Clock,
    /// Events have a type, and a time.
    Event,
    /// Events are on tracks that are described.
    Track,
    /// Parents of tracks are described, and no track is above itself.
    TrackTree,
    /// On each track begins and ends pair up.
    Nesting,
    /// On the track of its thread, time does not run backwards.
    TimeOrder,
    /// Values are on tracks of counters, and slices are not.
    Counter,
    /// A flow joins two events or more.
    Flow,
    /// Nothing is missing, and the causes of what is are known ones.
    Loss,
    /// A schema that the trace brings along can be read.
    Schema,
    /// What was recorded until its end is in the trace.
    Recording,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// To be known, but nothing is wrong with how the trace was written.
    Note,
    /// The trace is wrong: tools leave something out, or show something that did not happen.
    Error,
}

/// Something that was found in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that is broken.
    pub rule: Rule,
    /// How bad it is.
    pub level: Level,
    /// The packet, if it is about one: how many come before it.
    pub packet: Option<u64>,
    /// The sequence, if it is known.
    pub sequence_id: Option<u32>,
    /// The first byte in the file, if it is about a place.
    pub offset: Option<u64>,
    /// What was found.
    pub text: String,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 17] = [
        Self::Framing,
        Self::Decoding,
        Self::Sequence,
        Self::FirstPacket,
        Self::IncrementalState,
        Self::Interning,
        Self::Clock,
        Self::Event,
        Self::Track,
        Self::TrackTree,
        Self::Nesting,
        Self::TimeOrder,
        Self::Counter,
        Self::Flow,
        Self::Loss,
        Self::Schema,
        Self::Recording,
    ];

    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Framing => "framing",
            Self::Decoding => "decoding",
            Self::Sequence => "sequence",
            Self::FirstPacket => "first-packet",
            Self::IncrementalState => "incremental-state",
            Self::Interning => "interning",
            Self::Clock => "clock",
            Self::Event => "event",
            Self::Track => "track",
            Self::TrackTree => "track-tree",
            Self::Nesting => "nesting",
            Self::TimeOrder => "time-order",
            Self::Counter => "counter",
            Self::Flow => "flow",
            Self::Loss => "loss",
            Self::Schema => "schema",
            Self::Recording => "recording",
        }
    }
}

impl Finding {
    pub(super) fn at(
        place: PacketPlace,
        sequence_id: u32,
        level: Level,
        rule: Rule,
        text: String,
    ) -> Self {
        Self {
            rule,
            level,
            packet: Some(place.index),
            sequence_id: (sequence_id != 0).then_some(sequence_id),
            offset: Some(place.offset),
            text,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Level::Note => write!(f, "note: ")?,
            Level::Error => write!(f, "error: ")?,
        }
        if let Some(packet) = self.packet {
            write!(f, "packet {packet}, ")?;
        }
        if let Some(sequence_id) = self.sequence_id {
            write!(f, "sequence {sequence_id}, ")?;
        }
        if let Some(offset) = self.offset {
            write!(f, "offset {offset}, ")?;
        }
        write!(f, "{}: {}", self.rule.name(), self.text)
    }
}
