//! Problems of traces: what is wrong, where, and by which rule.

use std::fmt;

/// The rules that the judge checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// All bytes can be decoded.
    Decodes,
    /// All fields and enum values are in the published schema, or in the schema of the test.
    KnownFields,
    /// Every packet names its sequence, and the service's packets are on sequence 1.
    SequenceId,
    /// Only the first packet of a sequence is flagged as the first.
    FirstPacket,
    /// A sequence clears its incremental state, and defines what later packets refer to, before a
    /// packet depends on it.
    IncrementalState,
    /// Every interned id has one definition on its sequence since the last clear.
    Interning,
    /// Every timestamp can be converted to the trace clock.
    Clock,
    /// Begins and ends on a track pair up, and time does not run backwards.
    Spans,
    /// Every event is on a track that has a descriptor.
    TrackDescriptor,
    /// Counter values are on counter tracks, and counter events have a value.
    Counter,
    /// An event has a type and a time.
    Event,
    /// The service writes its own packets (clocks, configuration) before any data.
    Preamble,
    /// `tracezero::reader::check` finds no error. This rule is applied if all others hold.
    Checked,
}

/// A problem of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The index of the packet in the file; `None` if the problem does not belong to one packet.
    pub packet: Option<usize>,
    /// The packet's sequence, if known.
    pub sequence_id: Option<u32>,
    /// The rule that is broken.
    pub rule: Rule,
    /// The description of the problem.
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

/// A position in the trace: a packet and its sequence.
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
