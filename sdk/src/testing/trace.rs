//! A trace in memory, with everything that can be asked of it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use super::counter::Counter;
use super::event::{Event, EventData, Kind};
use super::failure;
use super::query::Query;
use crate::report::Report;
use tracezero_reader::{Outline, ReadError, TraceReader};

/// A trace that is whole in memory: what a [`Capture`](super::Capture) returns, or any other.
pub struct Trace {
    pub(super) bytes: Vec<u8>,
    /// For captures.
    pub(super) report: Option<Report>,
    /// The thread that began the capture.
    pub(super) this_thread: Option<i32>,
    /// Whether threads traced meanwhile that were attached to no capture.
    pub(super) has_unattached: bool,
    pub(super) contents: Contents,
}

/// What is in a trace, put together.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// By the times when they began.
    pub(super) events: Vec<EventData>,
    pub(super) tracks: Vec<TrackData>,
    /// Packets with other data: the field, and what is in it.
    pub(super) packets: Vec<(u32, Vec<u8>)>,
    /// What was lost, as a text each.
    pub(super) losses: Vec<String>,
    /// What is wrong, likewise.
    pub(super) faults: Vec<String>,
}

/// What is kept of a track.
#[derive(Debug)]
pub(super) struct TrackData {
    pub(super) name: String,
    /// What it is called in messages.
    pub(super) label: String,
    pub(super) is_thread: bool,
    /// That which began the capture.
    pub(super) is_this_thread: bool,
    pub(super) is_counter: bool,
    /// The events that are inside of no other, but for polls.
    pub(super) roots: Vec<usize>,
    /// The values of a counter, with their times.
    pub(super) values: Vec<(u64, f64)>,
}

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    ///
    /// If the bytes are no trace, or compressed in a way that this build cannot unpack. What is damaged
    /// in a trace is left out, and found by [`Trace::assert_well_formed`].
    pub fn read(bytes: impl Into<Vec<u8>>) -> Result<Self, ReadError> {
        Self::of(bytes.into(), None, None)
    }

    /// Reads the file at `path`.
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

    /// The trace itself, as files have it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The account of a capture; `None` for a trace that was read.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// All spans, by the times when they began. Polls of futures are none.
    pub fn spans(&self) -> impl Iterator<Item = Event<'_>> {
        self.of_kind(Kind::Span)
    }

    /// All instants, in the order of their times.
    pub fn instants(&self) -> impl Iterator<Item = Event<'_>> {
        self.of_kind(Kind::Instant)
    }

    /// Asks for the spans of this name. That of a future is one, however often it was polled.
    pub fn span(&self, name: &str) -> Query<'_> {
        Query::new(self, Kind::Span, name)
    }

    /// Asks for the polls of futures whose spans have this name: what threads did for them.
    pub fn polls(&self, name: &str) -> Query<'_> {
        Query::new(self, Kind::Poll, name)
    }

    /// Asks for the instants of this name.
    pub fn instant(&self, name: &str) -> Query<'_> {
        Query::new(self, Kind::Instant, name)
    }

    /// The counter of this name.
    ///
    /// # Panics
    ///
    /// If it has no value in this trace.
    #[must_use]
    #[track_caller]
    pub fn counter(&self, name: &str) -> Counter {
        Counter::find(self, name)
    }

    /// Names of the counters that have values, in order.
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

    /// What packets have in the field of this number of `TracePacket`, in the order of the trace: for
    /// data sources with a schema of their own, what a generated decoder reads.
    #[must_use]
    pub fn packets_of(&self, field: u32) -> Vec<&[u8]> {
        let packets = self.contents.packets.iter();
        packets
            .filter(|(number, _)| *number == field)
            .map(|(_, bytes)| bytes.as_slice())
            .collect()
    }

    /// What happened, without what differs between two runs: for snapshot tests.
    ///
    /// # Panics
    ///
    /// Never: the trace has been read before.
    #[must_use]
    pub fn outline(&self) -> String {
        let mut reader = TraceReader::new(self.bytes.as_slice());
        Outline::with_thread(&mut reader, self.this_thread)
            .expect("it has been read before")
            .to_string()
    }

    /// Asserts that nothing that was traced is missing.
    ///
    /// # Panics
    ///
    /// If something is.
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
            failure::list("something was lost", &all)
        );
        self
    }

    /// Asserts that readers understand all of the trace: every span that began has ended, every name and
    /// track is defined, nothing is damaged.
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
