//! Prints what happened in a trace, as a text that is equal for every run that does the same.
//!
//! The text has no times, no ids of processes and threads, and no addresses. It keeps the order
//! within a track, but not the order between tracks, because that is chance. Equal siblings,
//! including everything inside them, become one line with a count. So memory depends on how many
//! different things are in a trace, up to a limit, and not on its length.

mod forest; // the trees of all tracks; joins the polls of a future
mod tree; // the tree of one track
mod budget; // limits of size
mod counter; // the values of one counter
mod blocks; // prints all tracks

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::io::Read;

use self::blocks::Contents;
use self::counter::Values;
use self::forest::{Begin, Forest};
use self::tree::{Kind, Text};
use super::args::Args;
use super::damage::Damage;
use super::error::ReadError;
use super::event::{Event, EventKind};
use super::in_order::InOrder;
use super::names::NameTable;
use super::record::Record;
use super::recordings::RECORDING_BOUNDARY;
use super::trace_reader::TraceReader;
use super::tracks::{TrackId, TrackTable};
use super::value::Value;
use tracezero_core::counter_value::CounterValue;

/// The maximum number of events that are held back, so that events of other sequences can come
/// before them.
const HELD_BACK_MAX: usize = 1 << 16;
/// The maximum size of the texts of all events that are held back.
const HELD_BACK_MAX_BYTES: usize = 64 << 20;

/// The maximum size of the name of an event, and of its arguments. Longer ones are cut.
const TEXT_MAX_BYTES: usize = 4096;

/// The maximum number of flows of an event that are considered.
const FLOWS_MAX: usize = 16;

/// The maximum number of different payload fields whose packets are counted separately.
const PACKET_FIELDS_MAX: usize = 1000;

/// The first field of `TracePacket` whose packets are counted. Fields below are the service's own,
/// and data that applications do not write.
const FIRST_COUNTED_FIELD: u32 = 900;

/// A trace as a text without anything that differs between two runs. Each line ends with a line
/// feed.
///
/// ```text
/// thread "main"
///   read key="k"
///     disk_read bytes=4096 x2
///     * cached
/// thread "worker" x3
///   job
/// counter "queue": 1 2 1 0
/// ```
///
/// A span is indented below the span around it. `*` marks an instant. Equal threads and tracks are
/// merged, with a count. A process is named only if there are several.
///
/// ```text
/// track "serve"
///   serve
///     * request number=1
///     handle number=1 x2
///       * cached
/// ```
///
/// The span of a future contains what happened in its polls; the polls themselves are left out. The
/// span is printed inside its parent: the future that awaited or spawned it, or else the span in
/// which it was polled first. If the span has no parent or outlives its parent, it is printed on
/// its own track. Futures that were polled by another future are in the order in which they ended.
/// All other futures are tasks, which run concurrently: they come last in the span that spawned
/// them, and are sorted, so that the text does not depend on which task was faster.
///
/// ```
/// use tracezero::reader::{Outline, TraceReader};
/// use tracezero::{InMemorySession, Track, instant, span};
///
/// let session = InMemorySession::start()?;
/// {
///     let track = Track::new("requests");
///     let _serve = span!("http", "serve", track: &track);
///     for number in 1..=2 {
///         instant!("http", "chunk", track: &track, number);
///     }
/// }
/// let (trace, _) = session.finish();
///
/// let outline = Outline::read(&mut TraceReader::new(&trace[..]))?;
/// assert_eq!(
///     outline.as_str(),
///     "track \"requests\"\n  serve\n    * chunk number=1\n    * chunk number=2\n"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    text: String,
}

impl Outline {
    /// Outlines everything that `reader` has not read yet.
    ///
    /// # Errors
    ///
    /// The errors of [`TraceReader::next`].
    pub fn read<R: Read>(reader: &mut TraceReader<R>) -> Result<Self, ReadError> {
        Self::read_all(reader, None, |_| {})
    }

    /// Like [`read`](Self::read), for a trace that may be damaged. Calls `report` for each damage.
    ///
    /// # Errors
    ///
    /// The errors of [`TraceReader::next`].
    pub fn read_reporting<R: Read>(
        reader: &mut TraceReader<R>,
        report: impl FnMut(&Damage),
    ) -> Result<Self, ReadError> {
        Self::read_all(reader, None, report)
    }

    /// Like [`read`](Self::read), but the text calls the thread with this id "this thread" instead
    /// of using its name.
    #[doc(hidden)]
    pub fn with_thread<R: Read>(
        reader: &mut TraceReader<R>,
        this_thread: Option<i32>,
    ) -> Result<Self, ReadError> {
        Self::read_all(reader, this_thread, |_| {})
    }

    fn read_all<R: Read>(
        reader: &mut TraceReader<R>,
        this_thread: Option<i32>,
        mut report: impl FnMut(&Damage),
    ) -> Result<Self, ReadError> {
        let mut builder = Builder {
            this_thread,
            ..Builder::default()
        };
        while let Some(record) = reader.next()? {
            match record {
                Record::Event(event) => builder.event(&event),
                Record::Packet(other) => {
                    let field = other.packet.payload().map_or(0, |payload| payload.field);
                    if field >= FIRST_COUNTED_FIELD && field != RECORDING_BOUNDARY {
                        builder.packet(field);
                    }
                }
                Record::Damage(damage) => report(&damage),
                _ => {}
            }
        }
        Ok(builder.finish(reader.tracks(), reader.names()))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl AsRef<str> for Outline {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Outline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

struct Builder {
    in_order: InOrder<(TrackId, Change)>,
    /// The size of the texts of all events that are held back.
    held_back_bytes: usize,
    forest: Forest,
    /// The values of counters, by track id.
    values: Vec<Values>,
    /// The number of packets with other data, by field.
    packets: BTreeMap<u32, u64>,
    /// The number of packets with fields beyond [`PACKET_FIELDS_MAX`].
    more_packets: u64,
    this_thread: Option<i32>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            in_order: InOrder::new(HELD_BACK_MAX),
            held_back_bytes: 0,
            forest: Forest::default(),
            values: Vec::new(),
            packets: BTreeMap::new(),
            more_packets: 0,
            this_thread: None,
        }
    }
}

/// The effect of an event on its track.
#[derive(Debug)]
enum Change {
    Begin(Begin),
    End { args: String },
    Whole(Begin),
    Instant(Text),
    Count(CounterValue),
}

impl Change {
    const fn text_bytes(&self) -> usize {
        match self {
            Self::Begin(Begin { text, .. })
            | Self::Whole(Begin { text, .. })
            | Self::Instant(text) => text.name.len() + text.args.len(),
            Self::End { args } => args.len(),
            Self::Count(_) => 0,
        }
    }
}

impl Builder {
    fn event(&mut self, event: &Event<'_>) {
        let text = || Text {
            name: cut(event.name().to_owned()),
            args: cut(args_text(event.args())),
        };
        let begin = || Begin {
            timestamp_ns: event.head.timestamp_ns,
            text: text(),
            flows: flows(event),
        };
        let change = match event.head.kind {
            EventKind::SliceBegin => Change::Begin(begin()),
            EventKind::SliceEnd => Change::End { args: text().args },
            EventKind::Slice { .. } => Change::Whole(begin()),
            EventKind::Instant => Change::Instant(text()),
            EventKind::Counter(value) => Change::Count(value),
        };
        self.held_back_bytes += change.text_bytes();
        let due = self
            .in_order
            .push(event.head.timestamp_ns, (event.head.track, change));
        if let Some((track, change)) = due {
            self.apply(event.tracks(), track, change);
        }
        while self.held_back_bytes > HELD_BACK_MAX_BYTES
            && let Some((track, change)) = self.in_order.pop()
        {
            self.apply(event.tracks(), track, change);
        }
    }

    /// Counts a packet with other data.
    fn packet(&mut self, field: u32) {
        if self.packets.len() < PACKET_FIELDS_MAX || self.packets.contains_key(&field) {
            *self.packets.entry(field).or_default() += 1;
        } else {
            self.more_packets += 1;
        }
    }

    fn apply(&mut self, tracks: &TrackTable, track: TrackId, change: Change) {
        self.held_back_bytes -= change.text_bytes();
        match change {
            Change::Begin(begin) => self.forest.begin(tracks, track, begin),
            Change::End { args } => self.forest.end(tracks, track, &args),
            Change::Whole(begin) => {
                self.forest.begin(tracks, track, begin);
                self.forest.end(tracks, track, "");
            }
            Change::Instant(text) => self.forest.add_leaf(track, Kind::Instant, text),
            Change::Count(value) => self.values_of(track).add(value),
        }
    }

    fn values_of(&mut self, track: TrackId) -> &mut Values {
        let index = track.index();
        if self.values.len() <= index {
            self.values.resize_with(index + 1, Values::default);
        }
        &mut self.values[index]
    }

    fn finish(mut self, tracks: &TrackTable, names: &NameTable) -> Outline {
        while let Some((track, change)) = self.in_order.pop() {
            self.apply(tracks, track, change);
        }
        self.forest.finish(tracks);
        let contents = Contents {
            forest: &self.forest,
            values: &self.values,
            this_thread: self.this_thread,
        };
        let text = blocks::text_of(contents, tracks, names);
        let mut outline = Outline { text };
        for (field, count) in self.packets {
            // Writing to a string does not fail.
            let _ = writeln!(outline.text, "packets with field {field}: {count}");
        }
        if self.more_packets > 0 {
            let count = self.more_packets;
            let _ = writeln!(outline.text, "packets with more fields: {count}");
        }
        outline
    }
}

/// Returns the flows of an event, up to [`FLOWS_MAX`].
fn flows(event: &Event<'_>) -> Box<[u64]> {
    // Most events have none; `has_flows` searches the message only once.
    if !event.has_flows() {
        return Box::default();
    }
    let flows = event.flows().chain(event.terminating_flows());
    flows.take(FLOWS_MAX).collect()
}

/// Formats the arguments, with a space before each.
fn args_text(args: Args<'_>) -> String {
    let mut text = String::new();
    for arg in args {
        // Writing to a string does not fail.
        let _ = write!(text, " {}={:#}", arg.name, Value::from(arg.value));
    }
    text
}

/// Cuts a text to [`TEXT_MAX_BYTES`].
fn cut(mut text: String) -> String {
    if text.len() > TEXT_MAX_BYTES {
        text.truncate(text.floor_char_boundary(TEXT_MAX_BYTES));
        text.push_str("..");
        text.shrink_to_fit();
    }
    text
}
