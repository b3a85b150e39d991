//! Track events, with everything resolved that earlier packets define.

use protozero::{Decoder, Field, Value};

use crate::args::Args;
use crate::iid_table::Table;
use crate::interning::Interned;
use crate::location::Location;
use crate::names::{NameId, NameTable};
use crate::place::PacketPlace;
use crate::tracks::{TrackId, TrackTable};
use tracezero_core::counter_value::CounterValue;
use tracezero_core::protos::{LogMessageDecoder, SourceLocationDecoder, TrackEvent, log_message};

/// The parts of an event that have a fixed size. Copy the head to keep these parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EventHead {
    /// The place of the event's packet.
    pub place: PacketPlace,
    /// The time on the trace clock, in nanoseconds.
    pub timestamp_ns: u64,
    /// The kind of event.
    pub kind: EventKind,
    /// The sequence of the event's packet.
    pub sequence_id: u32,
    /// The track that the event is on.
    pub track: TrackId,
    /// The name of the event. Ends of slices usually have none.
    pub name: NameId,
    /// The event's first category.
    pub category: NameId,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// A slice begins.
    SliceBegin,
    /// The innermost open slice of the track ends.
    SliceEnd,
    /// A slice with its duration. Older producers write these.
    Slice {
        /// The duration of the slice, which begins at the event's timestamp.
        duration_ns: u64,
    },
    /// A point in time.
    #[default]
    Instant,
    /// A counter has a new value. Differences have been added up and the unit's multiplier has been
    /// applied.
    Counter(CounterValue),
}

impl EventKind {
    /// Returns true if the event is a slice, or begins or ends one.
    #[must_use]
    pub const fn is_slice(self) -> bool {
        matches!(self, Self::SliceBegin | Self::SliceEnd | Self::Slice { .. })
    }
}

/// A track event.
///
/// ```
/// use tracezero::reader::{ArgValue, Record, TraceReader};
/// use tracezero::{InMemorySession, instant};
///
/// let session = InMemorySession::start()?;
/// instant!("io", "read", path = "Cargo.toml");
/// let (trace, _) = session.finish();
///
/// let mut reader = TraceReader::new(&trace[..]);
/// let mut paths = Vec::new();
/// while let Some(record) = reader.next()? {
///     let Record::Event(event) = record else {
///         continue;
///     };
///     assert_eq!(event.name(), "read");
///     assert_eq!(event.categories().next(), Some("io"));
///     if let Some(ArgValue::Text(path)) = event.args().find("path") {
///         paths.push(path.into_owned());
///     }
/// }
/// assert_eq!(paths, ["Cargo.toml"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The parts that have a fixed size.
    pub head: EventHead,
    pub(super) is_plain: bool,
    pub(super) extra_counters: &'a [(TrackId, CounterValue)],
    /// The encoded `TrackEvent`.
    pub(super) bytes: &'a [u8],
    pub(super) names: &'a NameTable,
    pub(super) tracks: &'a TrackTable,
    pub(super) interned: Interned<'a>,
}

/// A log line that an event carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine<'a> {
    /// The text of the line.
    pub body: &'a str,
    /// The priority of the line.
    pub priority: log_message::Priority,
    /// The place in the source code that logged the line.
    pub location: Option<Location<'a>>,
}

/// A correlation id. Events that belong together have the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Correlation<'a> {
    /// An id that is a number.
    Id(u64),
    /// An id that is a string.
    Text(&'a str),
}

impl<'a> Event<'a> {
    /// Returns the encoded `TrackEvent`.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns true if the event has nothing but its [head](Self::head): no arguments, no flows, no further
    /// categories. This is much faster to ask than to look for each of these. Returns false for some events that have
    /// nothing else, too.
    #[must_use]
    #[inline]
    pub const fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Returns the name of the event. Empty if it has none.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.text(self.head.name, TrackEvent::NAME_FIELD_NUMBER)
    }

    /// Returns the names of the trace so far.
    #[must_use]
    pub const fn names(&self) -> &'a NameTable {
        self.names
    }

    /// Returns the tracks of the trace so far.
    #[must_use]
    pub const fn tracks(&self) -> &'a TrackTable {
        self.tracks
    }

    /// Returns the event's categories.
    pub fn categories(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let (names, interned) = (self.names, self.interned);
        let iids = Decoder::new(self.bytes)
            .repeated::<protozero::types::Uint64>(TrackEvent::CATEGORY_IIDS_FIELD_NUMBER)
            .map_while(Result::ok)
            .map(move |iid| names.text(interned.name(Table::Categories, iid)));
        let texts = Decoder::new(self.bytes)
            .repeated::<protozero::types::Str>(TrackEvent::CATEGORIES_FIELD_NUMBER)
            .map_while(Result::ok);
        iids.chain(texts)
    }

    /// Returns the event's arguments (debug annotations).
    #[must_use]
    pub const fn args(&self) -> Args<'a> {
        Args::of_event(self.bytes, self.names, self.interned)
    }

    /// Returns the values of further counters that the event carries, with their tracks.
    #[must_use]
    pub const fn extra_counters(&self) -> &'a [(TrackId, CounterValue)] {
        self.extra_counters
    }

    /// Returns the ids of the flows that begin in the event or go through it.
    pub fn flows(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.flow_ids(
            TrackEvent::FLOW_IDS_FIELD_NUMBER,
            crate::track_event::FLOW_IDS_OLD,
        )
    }

    /// Returns the ids of the flows that end in the event.
    pub fn terminating_flows(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.flow_ids(
            TrackEvent::TERMINATING_FLOW_IDS_FIELD_NUMBER,
            crate::track_event::TERMINATING_FLOW_IDS_OLD,
        )
    }

    /// Returns true if the event has any flow, terminating or not.
    #[must_use]
    pub fn has_flows(&self) -> bool {
        let mut fields = Decoder::new(self.bytes).fields().map_while(Result::ok);
        fields.any(|field| {
            matches!(
                field.number,
                TrackEvent::FLOW_IDS_FIELD_NUMBER
                    | TrackEvent::TERMINATING_FLOW_IDS_FIELD_NUMBER
                    | crate::track_event::FLOW_IDS_OLD
                    | crate::track_event::TERMINATING_FLOW_IDS_OLD
            )
        })
    }

    /// Returns the place in the source code that wrote the event.
    #[must_use]
    pub fn location(&self) -> Option<Location<'a>> {
        match (
            self.last(TrackEvent::SOURCE_LOCATION_FIELD_NUMBER),
            self.last(TrackEvent::SOURCE_LOCATION_IID_FIELD_NUMBER),
        ) {
            (Some(Value::Bytes(location)), _) => {
                let location = SourceLocationDecoder::new(location);
                Some(Location {
                    file: location.file_name().ok().flatten().unwrap_or_default(),
                    function: location.function_name().ok().flatten().unwrap_or_default(),
                    line: location.line_number().ok().flatten().unwrap_or_default(),
                })
            }
            (_, Some(Value::Varint(iid))) => self.interned.location(iid, self.names),
            _ => None,
        }
    }

    /// Returns the log line that the event carries.
    #[must_use]
    pub fn log_line(&self) -> Option<LogLine<'a>> {
        let Some(Value::Bytes(message)) = self.last(TrackEvent::LOG_MESSAGE_FIELD_NUMBER) else {
            return None;
        };
        let message = LogMessageDecoder::new(message);
        let body_iid = message.body_iid().ok().flatten()?;
        let location_iid = message.source_location_iid().ok().flatten();
        Some(LogLine {
            body: self
                .names
                .text(self.interned.name(Table::LogBodies, body_iid)),
            priority: message.prio().ok().flatten().unwrap_or_default(),
            location: location_iid.and_then(|iid| self.interned.location(iid, self.names)),
        })
    }

    /// Returns the event's correlation id.
    #[must_use]
    pub fn correlation(&self) -> Option<Correlation<'a>> {
        for field in Decoder::new(self.bytes).fields() {
            let field = field.ok()?;
            match (field.number, field.value) {
                (TrackEvent::CORRELATION_ID_FIELD_NUMBER, Value::Varint(id)) => {
                    return Some(Correlation::Id(id));
                }
                (TrackEvent::CORRELATION_ID_STR_FIELD_NUMBER, Value::Bytes(text)) => {
                    return str::from_utf8(text).ok().map(Correlation::Text);
                }
                (TrackEvent::CORRELATION_ID_STR_IID_FIELD_NUMBER, Value::Varint(iid)) => {
                    let name = self.interned.name(Table::Correlations, iid);
                    return Some(Correlation::Text(self.names.text(name)));
                }
                _ => {}
            }
        }
        None
    }

    /// Returns the typed arguments of a producer's own schema: the fields with numbers 1000 and
    /// above.
    pub fn extension_fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        Decoder::new(self.bytes)
            .fields()
            .map_while(Result::ok)
            .filter(|field| field.number >= 1000)
    }

    fn flow_ids(&self, field: u32, old_field: u32) -> impl Iterator<Item = u64> + use<'a> {
        let new = Decoder::new(self.bytes).repeated::<protozero::types::Fixed64>(field);
        let old = Decoder::new(self.bytes).repeated::<protozero::types::Uint64>(old_field);
        new.chain(old).map_while(Result::ok)
    }

    fn last(&self, number: u32) -> Option<Value<'a>> {
        let fields = Decoder::new(self.bytes).fields().map_while(Result::ok);
        fields
            .filter(|field| field.number == number)
            .last()
            .map(|field| field.value)
    }

    /// Returns the text of `name`. If the table had no room for the name, takes the text from the
    /// event's `field`.
    fn text(&self, name: NameId, field: u32) -> &'a str {
        if name == NameId::MANY
            && let Some(Value::Bytes(text)) = self.last(field)
            && let Ok(text) = str::from_utf8(text)
        {
            return text;
        }
        self.names.text(name)
    }
}
