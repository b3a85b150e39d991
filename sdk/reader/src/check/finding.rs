//! Findings of a check, and the rules.

use std::fmt;

use crate::place::PacketPlace;

/// A rule that a trace must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// The file consists of packets, one after the other.
    Framing,
    /// Messages decode, fields have the schema's wire types, and texts are UTF-8.
    Decoding,
    /// Events and definitions belong to a sequence. The first packet of a sequence names the
    /// process that wrote it.
    Sequence,
    /// Only the first packet of a sequence is flagged as the first.
    FirstPacket,
    /// Definitions that a packet needs precede it, and the packet's flags say that it needs them.
    IncrementalState,
    /// An interned id has one meaning on its sequence until the incremental state is cleared.
    Interning,
    /// Every timestamp can be converted to the trace clock.
    Clock,
    /// Events have a type and a time.
    Event,
    /// Events are on tracks that have a descriptor.
    Track,
    /// Parents of tracks have a descriptor, and no track is its own ancestor.
    TrackTree,
    /// Begins and ends of slices pair up on each track.
    Nesting,
    /// Time does not run backwards on a thread's own track.
    TimeOrder,
    /// Counter values are on counter tracks, and slices are not.
    Counter,
    /// A flow joins at least two events.
    Flow,
    /// No packets are missing, and all losses have known causes.
    Loss,
    /// An extension schema in the trace can be read.
    Schema,
    /// The trace contains all of a recording, up to its end.
    Recording,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// A note: worth knowing, but the trace is written correctly.
    Note,
    /// An error in the trace: tools leave something out, or show something that did not happen.
    Error,
}

/// A violation of a rule, found in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The rule that is broken.
    pub rule: Rule,
    /// The severity.
    pub level: Level,
    /// The index of the packet that the finding is about, if it is about one.
    pub packet: Option<u64>,
    /// The sequence of that packet, if it is known.
    pub sequence_id: Option<u32>,
    /// The offset in the file, if the finding is about a place.
    pub offset: Option<u64>,
    /// A description of the finding.
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

    /// Returns the name of the rule in messages.
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

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Error => "error",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.level)?;
        if let Some(packet) = self.packet {
            write!(f, "packet {packet}, ")?;
        }
        if let Some(sequence_id) = self.sequence_id {
            write!(f, "sequence {sequence_id}, ")?;
        }
        if let Some(offset) = self.offset {
            write!(f, "offset {offset}, ")?;
        }
        write!(f, "{}: {}", self.rule, self.text)
    }
}
