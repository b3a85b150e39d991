//! A trace in memory, with its queries and assertions.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use super::counter::Counter;
use super::event::{Event, EventData, Kind};
use super::failure;
use super::query::Query;
use crate::report::Report;
use protozero::{Decoder, types};
use tracezero_reader::{FullStates, Outline, PacketItem, PacketReader, ReadError, TraceReader};

/// A complete trace in memory. A [`Capture`](super::Capture) returns one, and [`Trace::read`]
/// creates one from any trace.
#[derive(Clone)]
pub struct Trace {
    pub(super) bytes: Vec<u8>,
    /// The report of a capture; `None` for other traces.
    pub(super) report: Option<Report>,
    /// The id of the thread that started the capture.
    pub(super) this_thread: Option<i32>,
    /// True if threads that were attached to no capture recorded meanwhile.
    pub(super) has_unattached: bool,
    pub(super) contents: Contents,
}

/// The contents of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    /// The events, in the order of their begins.
    pub(super) events: Vec<EventData>,
    pub(super) tracks: Vec<TrackData>,
    /// The packets of other data sources: the field number of `TracePacket`, and the field's
    /// content.
    pub(super) packets: Vec<(u32, Vec<u8>)>,
    /// A message for each loss.
    pub(super) losses: Vec<String>,
    /// A message for each thing that is wrong.
    pub(super) faults: Vec<String>,
}

/// The data of a track.
#[derive(Clone, Debug)]
pub(super) struct TrackData {
    pub(super) name: String,
    /// The name in messages.
    pub(super) label: String,
    pub(super) is_thread: bool,
    /// True if this is the thread that started the capture.
    pub(super) is_this_thread: bool,
    pub(super) is_counter: bool,
    /// The indices of the events that have no parent, in order.
    pub(super) roots: Vec<usize>,
    /// The values, with their times, if this is a counter.
    pub(super) values: Vec<(u64, f64)>,
}

impl Trace {
    /// Reads a trace from bytes.
    ///
    /// # Errors
    ///
    /// If the bytes are not a trace, or are compressed in a way that this build cannot unpack.
    /// Damaged packets are left out. [`Trace::assert_well_formed`] finds them.
    pub fn read(bytes: impl Into<Vec<u8>>) -> Result<Self, ReadError> {
        Self::of(bytes.into(), None, None)
    }

    /// Reads a trace from the file at `path`.
    ///
    /// # Errors
    ///
    /// As [`Trace::read`], and if the file cannot be read.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| ReadError::Open {
            path: path.to_owned(),
            source,
        })?;
        Self::read(bytes)
    }

    pub(super) fn of(
        bytes: Vec<u8>,
        report: Option<Report>,
        this_thread: Option<i32>,
    ) -> Result<Self, ReadError> {
        let contents = Contents::read(&bytes, this_thread)?;
        Ok(Self {
            bytes,
            report,
            this_thread,
            has_unattached: false,
            contents,
        })
    }

    /// Returns the bytes of the trace, in the format of trace files.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the report of a capture, or `None` for a trace that was read.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Returns all spans, in the order of their begins. Polls of futures are not included.
    pub fn spans(&self) -> impl Iterator<Item = Event<'_>> {
        self.of_kind(Kind::Span)
    }

    /// Returns all instants, in the order of their times.
    pub fn instants(&self) -> impl Iterator<Item = Event<'_>> {
        self.of_kind(Kind::Instant)
    }

    /// Starts a query for the spans with this name. A future has one span, however often it is
    /// polled.
    pub fn span(&self, name: &str) -> Query<'_> {
        Query::new(self, Kind::Span, name)
    }

    /// Starts a query for the polls of futures whose spans have this name.
    pub fn polls(&self, name: &str) -> Query<'_> {
        Query::new(self, Kind::Poll, name)
    }

    /// Starts a query for the instants with this name.
    pub fn instant(&self, name: &str) -> Query<'_> {
        Query::new(self, Kind::Instant, name)
    }

    /// Returns the counter with this name. Several counters with the name, for instance of
    /// different threads, are merged.
    ///
    /// # Panics
    ///
    /// If the counter has no value in this trace.
    #[must_use]
    #[track_caller]
    pub fn counter(&self, name: &str) -> Counter {
        Counter::find(self, name)
    }

    /// Returns the names of the counters that have values, sorted.
    #[must_use]
    pub fn counter_names(&self) -> Vec<&str> {
        let tracks = self.contents.tracks.iter();
        let mut names: Vec<&str> = tracks
            .filter(|track| !track.values.is_empty())
            .map(|track| track.name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the content of one field of `TracePacket`, once for each packet that has the field,
    /// in the order of the trace. `field` is the number of the field. Use this for data sources
    /// with their own schema, and read the content with their generated decoders.
    #[must_use]
    pub fn packets_with(&self, field: u32) -> Vec<&[u8]> {
        let packets = self.contents.packets.iter();
        packets
            .filter(|(number, _)| *number == field)
            .map(|(_, bytes)| bytes.as_slice())
            .collect()
    }

    /// Returns the content of one field of the full states after the changes of data sources with a
    /// [program](crate::DataSource::PROTOVM_PROGRAM), once for each change and in the order of the trace.
    /// `field` is the number of a field of `TracePacket`.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "the trace has been read before")]
    pub fn states_with(&self, field: u32) -> Vec<Vec<u8>> {
        let mut packets = PacketReader::new(self.bytes.as_slice());
        let mut states = FullStates::new();
        let mut found = Vec::new();
        while let Some(item) = packets.next().expect("it has been read before") {
            if let PacketItem::Packet(packet) = item
                && let Ok(Some(state)) = states.apply(packet.bytes)
                && let Ok(Some(content)) = Decoder::new(state).last::<types::Bytes>(field)
            {
                found.push(content.to_vec());
            }
        }
        found
    }

    /// Returns the events as a tree, without anything that differs from run to run. It is meant for
    /// snapshot tests.
    ///
    /// # Panics
    ///
    /// Never: the trace was read before.
    #[must_use]
    pub fn outline(&self) -> String {
        let mut reader = TraceReader::new(self.bytes.as_slice());
        Outline::with_thread(&mut reader, self.this_thread)
            .expect("it has been read before")
            .to_string()
    }

    /// Asserts that nothing that was recorded is missing.
    ///
    /// # Panics
    ///
    /// If something is missing.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "it is called for the panic")]
    pub fn assert_no_loss(&self) -> &Self {
        let losses = self.report.iter().map(|report| report.losses);
        let of_report = losses
            .filter(|losses| losses.total() > 0)
            .map(|losses| losses.to_string());
        let all: Vec<String> = of_report
            .chain(self.contents.losses.iter().cloned())
            .collect();
        assert!(
            all.is_empty(),
            "{}",
            failure::list("packets were lost", &all)
        );
        self
    }

    /// Asserts that readers understand the whole trace: every span that began has ended, every name
    /// and track is defined, nothing is damaged.
    ///
    /// # Panics
    ///
    /// If something is wrong.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "it is called for the panic")]
    pub fn assert_well_formed(&self) -> &Self {
        let faults = &self.contents.faults;
        assert!(
            faults.is_empty(),
            "{}",
            failure::list("the trace is not well formed", faults)
        );
        self
    }

    pub(super) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = Event<'_>> {
        let events = self.contents.events.iter().enumerate();
        events
            .filter(move |(_, event)| event.kind == kind)
            .map(|(index, _)| self.event(index))
    }

    pub(super) fn names_of(&self, kind: Kind) -> BTreeSet<&str> {
        self.of_kind(kind).map(Event::name).collect()
    }

    pub(super) fn event(&self, index: usize) -> Event<'_> {
        Event { trace: self, index }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("bytes", &self.bytes.len())
            .field("events", &self.contents.events.len())
            .finish_non_exhaustive()
    }
}
