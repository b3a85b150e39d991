//! A trace that passed, resolved: no ids, no deltas, no defaults left to look up.

use std::collections::BTreeMap;
use std::fmt;

use perfetto_protos::source_location::SourceLocation;
use perfetto_protos::trace_config::TraceConfig;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::trace_stats::TraceStats;

use crate::Value;

/// What a trace says.
#[derive(Clone, Default)]
pub struct Verdict {
    /// Every packet as decoded, in file order. Fields that the library's schema does not know are
    /// in its unknown fields.
    pub packets: Vec<TracePacket>,
    /// How many packets each sequence has.
    pub packets_per_sequence: BTreeMap<u32, usize>,
    /// The track events, in file order.
    pub events: Vec<Event>,
    /// Values of counters that came along with events of other tracks.
    pub extra_values: usize,
    /// Packets of data sources: with content, and neither events nor what others are read with.
    pub data_packets: usize,
    /// Custom data in packets and events, in file order.
    pub custom: Vec<Custom>,
    /// The packets that say that others before them were lost.
    pub losses: Vec<Loss>,
    /// Slices that have a begin and no end.
    pub open_spans: Vec<OpenSpan>,
    /// Packets left out because what they build on is lost. That is a problem, but for
    /// [`crate::Options::allow_unreadable_after_loss`].
    pub unreadable_packets: usize,
    /// The session's configuration as the service echoes it.
    pub trace_config: Option<TraceConfig>,
    /// The last statistics in the trace.
    pub trace_stats: Option<TraceStats>,
}

impl Verdict {
    /// The events called `name`, in file order.
    pub fn events_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Event> {
        self.events
            .iter()
            .filter(move |event| event.name.as_deref() == Some(name))
    }
}

/// Leaves out the packets as decoded, which would bury the rest.
impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdict")
            .field("packets_per_sequence", &self.packets_per_sequence)
            .field("events", &self.events)
            .field("data_packets", &self.data_packets)
            .field("custom", &self.custom)
            .field("losses", &self.losses)
            .field("open_spans", &self.open_spans)
            .field("unreadable_packets", &self.unreadable_packets)
            .finish_non_exhaustive()
    }
}

/// A track event.
#[derive(Debug, Clone)]
pub struct Event {
    /// The index of its packet in the file.
    pub packet: usize,
    /// The sequence that it was written on.
    pub sequence_id: u32,
    /// Nanoseconds of the trace clock, BOOTTIME.
    pub timestamp_ns: u64,
    /// What kind of event it is.
    pub kind: EventKind,
    /// Its track; 0 is the global one.
    pub track_uuid: u64,
    /// The name of the track, the thread or the process that the track stands for.
    pub track_name: Option<String>,
    /// The name of the thread that the track is of, itself or by its parents.
    pub thread_name: Option<String>,
    /// Its categories, interned and dynamic.
    pub categories: Vec<String>,
    /// Its name; ends usually have none.
    pub name: Option<String>,
    /// Its arguments by name.
    pub args: BTreeMap<String, Value>,
    /// A counter's value, an `Int` or a `Double`; differences are added up.
    pub counter: Option<Value>,
    /// Flows through the event.
    pub flow_ids: Vec<u64>,
    /// Flows that end in the event.
    pub terminating_flow_ids: Vec<u64>,
    /// Where in the source it was written.
    pub source_location: Option<SourceLocation>,
    /// How many clears its sequence had seen; a counter's differences start anew with each.
    pub(crate) clears: usize,
}

/// The kind of a track event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A slice begins.
    SliceBegin,
    /// The last slice begun on the track ends.
    SliceEnd,
    /// A point in time.
    Instant,
    /// A counter has a value.
    Counter,
}

/// Custom fields of one message.
#[derive(Debug, Clone)]
pub struct Custom {
    /// The index of the packet in the file.
    pub packet: usize,
    /// The sequence that it was written on.
    pub sequence_id: u32,
    /// The packet's time in nanoseconds of the trace clock, if it has one.
    pub timestamp_ns: Option<u64>,
    /// The full name of the message that was extended, such as `perfetto.protos.TracePacket`.
    pub extended: String,
    /// The fields by name: always a [`Value::Dict`].
    pub fields: Value,
}

/// A packet that says that others before it on its sequence were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The index of the packet in the file.
    pub packet: usize,
    /// Its sequence.
    pub sequence_id: u32,
    /// The bits of `previous_packet_dropped`.
    pub reasons: u64,
}

/// A slice without an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSpan {
    /// The index of its begin's packet in the file.
    pub packet: usize,
    /// The sequence that its begin was written on.
    pub sequence_id: u32,
    /// Its track.
    pub track_uuid: u64,
    /// Its name.
    pub name: Option<String>,
    /// Its begin in nanoseconds of the trace clock.
    pub begin_ns: u64,
}
