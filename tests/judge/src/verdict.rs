//! A trace that passed the judge, with all ids, deltas and defaults resolved.

use std::collections::BTreeMap;
use std::fmt;

use perfetto_protos::source_location::SourceLocation;
use perfetto_protos::trace_config::TraceConfig;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::trace_stats::TraceStats;

use crate::Value;
use crate::args::ArgRow;
use crate::problem::Place;

/// The content of a trace.
#[derive(Clone, Default)]
pub struct Verdict {
    /// All packets as decoded, in file order. Fields that the library's schema does not know are in
    /// their unknown fields.
    pub packets: Vec<TracePacket>,
    /// The number of packets of each sequence.
    pub packets_per_sequence: BTreeMap<u32, usize>,
    /// The track events, in file order.
    pub events: Vec<Event>,
    /// The number of counter values that were written along with events of other tracks.
    pub extra_values: usize,
    /// The number of packets of data sources: not track events, and not metadata that other packets
    /// are read with.
    pub data_packets: usize,
    /// The custom fields of packets and events, in file order.
    pub custom: Vec<Custom>,
    /// The SDK's own extensions of packets, in file order.
    pub(crate) own: Vec<Value>,
    /// The counter values that were written along with events of other tracks, in file order.
    pub(crate) extra_samples: Vec<CounterSample>,
    /// The packets that report a loss before them.
    pub losses: Vec<Loss>,
    /// Slices that have a begin and no end.
    pub open_spans: Vec<OpenSpan>,
    /// The number of packets that were left out because the definitions that they need are lost.
    /// Unless [`crate::Options::allow_unreadable_after_loss`] is set, this is a problem.
    pub unreadable_packets: usize,
    /// The session's configuration, as the service wrote it into the trace.
    pub trace_config: Option<TraceConfig>,
    /// The last statistics in the trace.
    pub trace_stats: Option<TraceStats>,
}

impl Verdict {
    /// Returns the events called `name`, in file order.
    pub fn events_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Event> {
        self.events
            .iter()
            .filter(move |event| event.name.as_deref() == Some(name))
    }
}

/// Leaves out the packets, which would be too long.
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
    /// Its time, in nanoseconds of the trace clock, BOOTTIME.
    pub timestamp_ns: u64,
    /// The kind of the event.
    pub kind: EventKind,
    /// The UUID of its track; 0 is the global track.
    pub track_uuid: u64,
    /// The name of the track, the thread or the process that the track stands for.
    pub track_name: Option<String>,
    /// The name of the thread that the track, or a parent of it, belongs to.
    pub thread_name: Option<String>,
    /// Its categories, interned and dynamic.
    pub categories: Vec<String>,
    /// Its name; ends usually have none.
    pub name: Option<String>,
    /// Its arguments by name.
    pub args: BTreeMap<String, Value>,
    /// The value of a counter, an `Int` or a `Double`; differences are added up.
    pub counter: Option<Value>,
    /// Flows through the event.
    pub flow_ids: Vec<u64>,
    /// Flows that end in the event.
    pub terminating_flow_ids: Vec<u64>,
    /// The place in the source code that recorded it.
    pub source_location: Option<SourceLocation>,
    /// The number of clears on its sequence before it. Counters that are written as differences
    /// start anew at each clear.
    pub(crate) clears: usize,
    /// Its arguments as the tables of a lake have them.
    pub(crate) arg_rows: Vec<ArgRow>,
}

/// A counter value that was written along with an event of another track.
#[derive(Clone, Debug)]
pub(crate) struct CounterSample {
    pub(crate) place: Place,
    pub(crate) track_uuid: u64,
    /// An integer or a double. Differences are not added up.
    pub(crate) value: Value,
    /// The number of clears on its sequence before it.
    pub(crate) clears: usize,
}

/// The kind of a track event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The begin of a slice.
    SliceBegin,
    /// The end of the slice that began last on the track.
    SliceEnd,
    /// A point in time.
    Instant,
    /// A value of a counter.
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

/// A packet that reports a loss before it on its sequence.
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
