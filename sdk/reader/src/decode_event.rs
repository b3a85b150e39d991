//! Decodes track events.

use protozero::{DecodeError, Decoder, Value, types};

use crate::anomaly::Anomaly;
use crate::cursor::Cursor;
use crate::event::EventKind;
use crate::iid_table::Table;
use crate::names::{NameId, NameTable};
use crate::sequence::{EXTRA_COUNTERS_MAX, Sequence};
use crate::skip_reason::SkipReason;
use crate::track_event::{LEGACY_DURATION_US, LEGACY_EVENT, LEGACY_NAME_IID, LEGACY_PHASE};
use crate::tracks::{TrackId, TrackKind, TrackTable};
use tracezero_core::counter_value::CounterValue;
use tracezero_core::protos::TrackEvent;

/// The fields of a `TrackEvent` that every reader needs, before ids are resolved.
#[derive(Default)]
struct RawEvent<'a> {
    event_type: u64,
    track_uuid: Option<u64>,
    name_iid: u64,
    name: Option<&'a [u8]>,
    category_iid: u64,
    category: Option<&'a [u8]>,
    value: Option<CounterValue>,
    legacy: Option<&'a [u8]>,
    has_packed_categories: bool,
    has_extra_counters: bool,
    is_plain: bool,
}

/// The content of an event, without its place and time.
pub(super) struct DecodedEvent {
    pub(super) kind: EventKind,
    pub(super) track: TrackId,
    pub(super) name: NameId,
    pub(super) category: NameId,
    /// True if there is nothing else in the event, and all of it is encoded as it should be.
    pub(super) is_plain: bool,
}

/// The parts of the reader's state that decoding an event uses and changes.
pub(super) struct EventTables<'a> {
    pub(super) sequence: &'a mut Sequence,
    pub(super) names: &'a mut NameTable,
    pub(super) tracks: &'a mut TrackTable,
    pub(super) extra_counters: &'a mut Vec<(TrackId, CounterValue)>,
    pub(super) anomalies: &'a mut Vec<Anomaly>,
}

impl<'a> RawEvent<'a> {
    #[inline]
    fn decode(event: &'a [u8]) -> Result<Self, DecodeError> {
        match Self::decode_usual(event) {
            Some(raw) => Ok(raw),
            None => Self::decode_any(event),
        }
    }

    /// Decodes an event that has only common fields, whose tags are one byte long. Returns `None`
    /// for any other event.
    #[inline]
    fn decode_usual(event: &'a [u8]) -> Option<Self> {
        use TrackEvent as E;

        const VARINT: u32 = 0;
        const BYTES: u32 = 2;
        const TYPE: u8 = (E::TYPE_FIELD_NUMBER << 3 | VARINT) as u8;
        const NAME_IID: u8 = (E::NAME_IID_FIELD_NUMBER << 3 | VARINT) as u8;
        const CATEGORY_IID: u8 = (E::CATEGORY_IIDS_FIELD_NUMBER << 3 | VARINT) as u8;
        const TRACK_UUID: u8 = (E::TRACK_UUID_FIELD_NUMBER << 3 | VARINT) as u8;
        const ARG: u8 = (E::DEBUG_ANNOTATIONS_FIELD_NUMBER << 3 | BYTES) as u8;

        let mut raw = Self {
            is_plain: true,
            ..Self::default()
        };
        let mut cursor = Cursor::new(event);
        while let Some(tag) = cursor.byte() {
            match tag {
                TYPE => raw.event_type = cursor.varint()?,
                NAME_IID => {
                    raw.name_iid = cursor.varint()?;
                    raw.is_plain &= raw.name_iid != 0;
                }
                CATEGORY_IID => {
                    let iid = cursor.varint()?;
                    // Further categories are not in the head.
                    raw.is_plain &= raw.category_iid == 0 && iid != 0;
                    raw.note_category(iid);
                }
                TRACK_UUID => raw.track_uuid = Some(cursor.varint()?),
                ARG => {
                    cursor.bytes()?;
                    raw.is_plain = false;
                }
                _ => return None,
            }
        }
        Some(raw)
    }

    #[inline(never)]
    fn decode_any(event: &'a [u8]) -> Result<Self, DecodeError> {
        use TrackEvent as E;

        let mut raw = Self::default();
        for field in Decoder::new(event).fields() {
            let field = field?;
            match (field.number, field.value) {
                (E::TYPE_FIELD_NUMBER, Value::Varint(number)) => raw.event_type = number,
                (E::NAME_IID_FIELD_NUMBER, Value::Varint(iid)) => raw.name_iid = iid,
                (E::CATEGORY_IIDS_FIELD_NUMBER, Value::Varint(iid)) => raw.note_category(iid),
                (E::TRACK_UUID_FIELD_NUMBER, Value::Varint(uuid)) => raw.track_uuid = Some(uuid),
                (E::NAME_FIELD_NUMBER, Value::Bytes(name)) => raw.name = Some(name),
                (E::CATEGORIES_FIELD_NUMBER, Value::Bytes(category)) => {
                    raw.category.get_or_insert(category);
                }
                (E::COUNTER_VALUE_FIELD_NUMBER, Value::Varint(value)) => {
                    raw.value = Some(CounterValue::Int(value.cast_signed()));
                }
                (E::DOUBLE_COUNTER_VALUE_FIELD_NUMBER, Value::Fixed64(bits)) => {
                    raw.value = Some(CounterValue::Double(f64::from_bits(bits)));
                }
                (
                    E::EXTRA_COUNTER_VALUES_FIELD_NUMBER
                    | E::EXTRA_DOUBLE_COUNTER_VALUES_FIELD_NUMBER,
                    _,
                ) => raw.has_extra_counters = true,
                (E::CATEGORY_IIDS_FIELD_NUMBER, Value::Bytes(_)) => {
                    raw.has_packed_categories = true;
                }
                (LEGACY_EVENT, Value::Bytes(legacy)) => raw.legacy = Some(legacy),
                _ => {}
            }
        }
        if raw.has_packed_categories && raw.category_iid == 0 {
            let iids = Decoder::new(event);
            let mut iids = iids.repeated::<types::Uint64>(E::CATEGORY_IIDS_FIELD_NUMBER);
            raw.category_iid = iids.next().transpose()?.unwrap_or_default();
        }
        Ok(raw)
    }
}

impl RawEvent<'_> {
    /// Stores the first category of the event and ignores others.
    #[inline(always)]
    const fn note_category(&mut self, iid: u64) {
        if self.category_iid == 0 {
            self.category_iid = iid;
        }
    }
}

impl EventTables<'_> {
    #[inline]
    pub(super) fn decode(&mut self, event: &[u8]) -> Result<DecodedEvent, SkipReason> {
        let mut raw = RawEvent::decode(event)?;
        let kind = match raw.event_type {
            1 => EventKind::SliceBegin,
            2 => EventKind::SliceEnd,
            3 => EventKind::Instant,
            4 => {
                let value = raw.value.ok_or(SkipReason::NoValue)?;
                EventKind::Counter(value)
            }
            _ => self.unusual_kind(&mut raw)?,
        };
        let name = match raw.name {
            None => self.interned(Table::EventNames, raw.name_iid),
            Some(name) => self.names.intern_string(name),
        };
        let category = match raw.category {
            Some(category) if raw.category_iid == 0 => self.names.intern_string(category),
            _ => self.interned(Table::Categories, raw.category_iid),
        };
        let track = self.track(raw.track_uuid);
        let track = track.ok_or(SkipReason::TooManyTracks)?;
        self.extra_counters.clear();
        if raw.has_extra_counters {
            self.read_extra_counters(event)?;
        }
        let kind = match kind {
            EventKind::Counter(value) => EventKind::Counter(self.counter_value(track, value)),
            other => other,
        };
        Ok(DecodedEvent {
            kind,
            track,
            name,
            category,
            is_plain: raw.is_plain,
        })
    }

    #[inline]
    fn interned(&mut self, table: Table, iid: u64) -> NameId {
        if iid == 0 {
            return NameId::NONE;
        }
        match self.sequence.iids.find(table, iid) {
            Some(index) => NameId::from_index(index),
            None => {
                self.anomalies.push(Anomaly::IidUnknown { table, iid });
                NameId::NONE
            }
        }
    }

    /// Returns the track of an event: the one it names, else the sequence's default track, else the
    /// track with uuid 0.
    #[inline]
    fn track(&mut self, uuid: Option<u64>) -> Option<TrackId> {
        if uuid.is_none() || uuid == self.sequence.default_track_uuid {
            if self.sequence.default_track.is_none() {
                let uuid = self.sequence.default_track_uuid.unwrap_or_default();
                self.sequence.default_track = self.tracks.id(uuid);
            }
            return self.sequence.default_track;
        }
        self.tracks.id(uuid.unwrap_or_default())
    }

    /// Converts the value of a counter in the trace to the counter's value: adds up the differences
    /// of an incremental counter, and applies the unit's multiplier.
    fn counter_value(&mut self, track: TrackId, value: CounterValue) -> CounterValue {
        let TrackKind::Counter(counter) = &self.tracks.track(track).kind else {
            return value;
        };
        let multiplier = counter.unit_multiplier;
        let value = if counter.is_incremental {
            self.sequence.add_up(track, value)
        } else {
            value
        };
        match value {
            _ if multiplier == 1 => value,
            CounterValue::Int(value) => CounterValue::Int(value.wrapping_mul(multiplier)),
            value => CounterValue::Double(value.as_f64() * multiplier as f64),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_extra_counters(&mut self, event: &[u8]) -> Result<(), SkipReason> {
        use TrackEvent as E;

        let decoder = Decoder::new(event);
        let values = decoder
            .repeated::<types::Int64>(E::EXTRA_COUNTER_VALUES_FIELD_NUMBER)
            .map(|value| Ok(CounterValue::Int(value?)));
        let own = decoder.repeated::<types::Uint64>(E::EXTRA_COUNTER_TRACK_UUIDS_FIELD_NUMBER);
        let own = own.take(EXTRA_COUNTERS_MAX).collect::<Result<_, _>>()?;
        self.pair_extra_counters(values, own, |sequence| &sequence.extra_counter_tracks)?;

        let values = decoder
            .repeated::<types::Double>(E::EXTRA_DOUBLE_COUNTER_VALUES_FIELD_NUMBER)
            .map(|value| Ok(CounterValue::Double(value?)));
        let own =
            decoder.repeated::<types::Uint64>(E::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS_FIELD_NUMBER);
        let own = own.take(EXTRA_COUNTERS_MAX).collect::<Result<_, _>>()?;
        self.pair_extra_counters(values, own, |sequence| {
            &sequence.extra_double_counter_tracks
        })
    }

    /// Pairs extra counter values with tracks by position. `own` are the tracks that the event
    /// names; if it names none, the defaults of the sequence are used.
    fn pair_extra_counters(
        &mut self,
        values: impl Iterator<Item = Result<CounterValue, DecodeError>>,
        own: Vec<u64>,
        defaults: impl Fn(&Sequence) -> &Vec<u64>,
    ) -> Result<(), SkipReason> {
        for (index, value) in values.enumerate() {
            let value = value?;
            let uuid = if own.is_empty() {
                defaults(self.sequence).get(index)
            } else {
                own.get(index)
            };
            let Some(uuid) = uuid else {
                self.anomalies.push(Anomaly::ExtraCountersWithoutTrack);
                return Ok(());
            };
            let track = self.tracks.id(*uuid).ok_or(SkipReason::TooManyTracks)?;
            let value = self.counter_value(track, value);
            self.extra_counters.push((track, value));
        }
        Ok(())
    }

    /// Returns the kind of an event without a known type. Older producers write the kind in a
    /// `LegacyEvent`.
    #[cold]
    #[inline(never)]
    fn unusual_kind(&mut self, raw: &mut RawEvent<'_>) -> Result<EventKind, SkipReason> {
        if let Ok(number @ 5..) = u32::try_from(raw.event_type) {
            return Err(SkipReason::UnknownType { number });
        }
        let legacy = Decoder::new(raw.legacy.ok_or(SkipReason::NoType)?);
        let number = |field| legacy.last::<types::Uint64>(field);
        if raw.name_iid == 0 {
            raw.name_iid = number(LEGACY_NAME_IID)?.unwrap_or_default();
        }
        let phase = number(LEGACY_PHASE)?.unwrap_or_default() as u32;
        match char::from_u32(phase) {
            Some('B') => Ok(EventKind::SliceBegin),
            Some('E') => Ok(EventKind::SliceEnd),
            Some('I' | 'i') => Ok(EventKind::Instant),
            Some('X') => Ok(EventKind::Slice {
                duration_ns: number(LEGACY_DURATION_US)?
                    .unwrap_or_default()
                    .saturating_mul(1000),
            }),
            _ => Err(SkipReason::LegacyPhase { phase }),
        }
    }
}
