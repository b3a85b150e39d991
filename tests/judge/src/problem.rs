//! What is wrong with a trace, where, and by which rule.

use std::fmt;

/// The rules that a trace is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Everything decodes.
    Decodes,
    /// No field and no enum value is outside the published schema and the test's own.
    KnownFields,
    /// Every packet says which sequence it belongs to, and the service's are in sequence 1.
    SequenceId,
    /// Only the first packet of a sequence is flagged as the first.
    FirstPacket,
    /// What a sequence has to define is defined, and marked, before packets depend on it.
    IncrementalState,
    /// Every id has one definition on its sequence since the last clear.
    Interning,
    /// Every timestamp leads to the trace clock.
    Clock,
    /// On a track, begins and ends pair up and time does not run backwards.
    Spans,
    /// Every event is on a track that is described.
    TrackDescriptor,
    /// Counter values are on counter tracks, and counter tracks get values.
    Counter,
    /// An event has a type and a time.
    Event,
    /// The service introduces the trace before any data.
    Preamble,
    /// `tracezero::reader::check` finds no error. It is asked about traces that are right otherwise.
    Checked,
}

/// One thing that is wrong with a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The index of the packet in the file; none if the problem is not one packet's.
    pub packet: Option<usize>,
    /// The packet's sequence, where known.
    pub sequence_id: Option<u32>,
    /// The rule that is broken.
    pub rule: Rule,
    /// What was found, for a person to read.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(packet) = self.packet {
            write!(f, "packet {packet}, ")?;
        }
        if let Some(sequence_id) = self.sequence_id {
            write!(f, "sequence {sequence_id}, ")?;
        }
        write!(f, "{:?}: {}", self.rule, self.text)
    }
}

impl std::error::Error for Problem {}

/// Where in the trace the examination is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) packet: usize,
    pub(crate) sequence_id: Option<u32>,
}

impl Place {
    pub(crate) fn object(self, rule: Rule, text: impl Into<String>) -> Problem {
        Problem {
            packet: Some(self.packet),
            sequence_id: self.sequence_id,
            rule,
            text: text.into(),
        }
    }
}
