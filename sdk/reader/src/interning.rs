//! What the interned ids of a sequence stand for.

use std::collections::HashMap;

use protozero::{DecodeError, Decoder, Value};

use super::anomaly::Anomaly;
use super::event::Location;
use super::names::{NameId, NameTable};
use tracezero_core::protos::InternedData;

/// Places in the source code that are remembered: about 50 MiB. Further ones are not known.
const LOCATIONS_MAX: usize = 1 << 20;

/// A kind of interned data. Each has ids of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Table {
    Categories,
    EventNames,
    ArgNames,
    Locations,
    LogBodies,
    TypeNames,
    ArgTexts,
    Correlations,
}

impl Table {
    /// The table that a field of `InternedData` defines.
    const fn of_field(number: u32) -> Option<Self> {
        Some(match number {
            InternedData::EVENT_CATEGORIES_FIELD_NUMBER => Self::Categories,
            InternedData::EVENT_NAMES_FIELD_NUMBER => Self::EventNames,
            InternedData::DEBUG_ANNOTATION_NAMES_FIELD_NUMBER => Self::ArgNames,
            InternedData::SOURCE_LOCATIONS_FIELD_NUMBER => Self::Locations,
            InternedData::LOG_MESSAGE_BODY_FIELD_NUMBER => Self::LogBodies,
            InternedData::DEBUG_ANNOTATION_VALUE_TYPE_NAMES_FIELD_NUMBER => Self::TypeNames,
            InternedData::DEBUG_ANNOTATION_STRING_VALUES_FIELD_NUMBER => Self::ArgTexts,
            InternedData::CORRELATION_ID_STR_FIELD_NUMBER => Self::Correlations,
            _ => return None,
        })
    }

    /// The field of `InternedData` that defines it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Categories => "event_categories",
            Self::EventNames => "event_names",
            Self::ArgNames => "debug_annotation_names",
            Self::Locations => "source_locations",
            Self::LogBodies => "log_message_body",
            Self::TypeNames => "debug_annotation_value_type_names",
            Self::ArgTexts => "debug_annotation_string_values",
            Self::Correlations => "correlation_id_str",
        }
    }
}

/// The definitions of one sequence: ids of names, or of locations.
#[derive(Clone, Debug, Default)]
pub(super) struct IidTable {
    /// By hash; free where `value` is 0. A power of two in length or empty, at most three quarters
    /// full.
    slots: Vec<Slot>,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    iid: u64,
    /// One more than what the iid stands for.
    value: u32,
    table: u8,
}

impl IidTable {
    /// What an id stands for.
    #[inline]
    pub(super) fn find(&self, table: Table, iid: u64) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = Self::hash(table, iid) & mask;
        loop {
            let slot = self.slots.get(at)?;
            if slot.value == 0 {
                return None;
            }
            if slot.iid == iid && slot.table == table as u8 {
                return Some(slot.value - 1);
            }
            at = (at + 1) & mask;
        }
    }

    /// Defines an id; returns what it stood for before.
    fn insert(&mut self, table: Table, iid: u64, value: u32) -> Option<u32> {
        if 4 * (self.len + 1) > 3 * self.slots.len() {
            let len = (2 * self.slots.len()).max(8);
            let old = std::mem::replace(&mut self.slots, vec![Slot::default(); len]);
            for slot in old.into_iter().filter(|slot| slot.value != 0) {
                let at = self.place(slot.table, slot.iid);
                self.slots[at] = slot;
            }
        }
        let at = self.place(table as u8, iid);
        let slot = &mut self.slots[at];
        let before = slot.value.checked_sub(1);
        self.len += usize::from(before.is_none());
        *slot = Slot {
            iid,
            value: value + 1,
            table: table as u8,
        };
        before
    }

    /// The slot of an id, or where it is to go.
    fn place(&self, table: u8, iid: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = Self::hash_of(table, iid) & mask;
        loop {
            let slot = &self.slots[at];
            if slot.value == 0 || (slot.iid == iid && slot.table == table) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    #[inline(always)]
    fn hash(table: Table, iid: u64) -> usize {
        Self::hash_of(table as u8, iid)
    }

    #[inline(always)]
    fn hash_of(table: u8, iid: u64) -> usize {
        let product = (iid ^ u64::from(table) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (product >> 32) as usize
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.len = 0;
    }

    /// Memory that it takes.
    pub(super) const fn size_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    /// Takes over the definitions of a packet.
    pub(super) fn define(
        &mut self,
        interned_data: &[u8],
        names: &mut NameTable,
        locations: &mut Locations,
        anomalies: &mut Vec<Anomaly>,
    ) {
        for field in Decoder::new(interned_data).fields() {
            let field = match field {
                Ok(field) => field,
                Err(error) => {
                    anomalies.push(Anomaly::Malformed {
                        message: "interned_data",
                        error,
                    });
                    return;
                }
            };
            let Some(table) = Table::of_field(field.number) else {
                continue;
            };
            let Value::Bytes(entry) = field.value else {
                anomalies.push(Anomaly::Malformed {
                    message: "interned_data",
                    error: DecodeError::WireTypeMismatch {
                        field: field.number,
                    },
                });
                continue;
            };
            let (iid, value) = match Entry::decode(entry) {
                Ok(entry) => (entry.iid, entry.value(table, names, locations)),
                Err(error) => {
                    anomalies.push(Anomaly::Malformed {
                        message: table.name(),
                        error,
                    });
                    continue;
                }
            };
            if iid == 0 {
                anomalies.push(Anomaly::IidZero { table });
                continue;
            }
            let before = self.insert(table, iid, value);
            if before.is_some_and(|before| before != value) {
                anomalies.push(Anomaly::IidRedefined { table, iid });
            }
        }
    }
}

/// An entry of any table: they all have their id and their text in the same fields.
#[derive(Default)]
struct Entry<'a> {
    iid: u64,
    text: &'a [u8],
    /// Of locations.
    function: &'a [u8],
    line: u32,
}

impl<'a> Entry<'a> {
    fn decode(entry: &'a [u8]) -> Result<Self, DecodeError> {
        let mut decoded = Self::default();
        for field in Decoder::new(entry).fields() {
            let field = field?;
            match (field.number, field.value) {
                (1, Value::Varint(iid)) => decoded.iid = iid,
                (2, Value::Bytes(text)) => decoded.text = text,
                (3, Value::Bytes(function)) => decoded.function = function,
                (4, Value::Varint(line)) => decoded.line = line as u32,
                _ => {}
            }
        }
        Ok(decoded)
    }

    fn value(&self, table: Table, names: &mut NameTable, locations: &mut Locations) -> u32 {
        match table {
            Table::Locations => {
                let file = names.id_of_string(self.text);
                locations.id((file, names.id_of_string(self.function), self.line))
            }
            // For these the schema has `bytes`.
            Table::ArgTexts | Table::Correlations => names.id_of_bytes(self.text).index() as u32,
            _ => names.id_of_string(self.text).index() as u32,
        }
    }
}

/// The places in the source code that the trace names, each stored once.
#[derive(Clone, Debug, Default)]
pub(super) struct Locations {
    /// File, function, line.
    all: Vec<(NameId, NameId, u32)>,
    ids: HashMap<(NameId, NameId, u32), u32>,
}

impl Locations {
    /// What stands for a location for which there is no room.
    const UNKNOWN: u32 = LOCATIONS_MAX as u32;

    fn id(&mut self, location: (NameId, NameId, u32)) -> u32 {
        if self.all.len() == LOCATIONS_MAX {
            return self.ids.get(&location).copied().unwrap_or(Self::UNKNOWN);
        }
        *self.ids.entry(location).or_insert_with(|| {
            self.all.push(location);
            self.all.len() as u32 - 1
        })
    }
}

/// The definitions that an event sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interned<'a> {
    pub(super) iids: &'a IidTable,
    pub(super) locations: &'a Locations,
}

impl<'a> Interned<'a> {
    pub(super) fn is_known(&self, table: Table, iid: u64) -> bool {
        self.iids.find(table, iid).is_some()
    }

    /// The name that an id stands for; none if it is not known.
    pub(super) fn name(&self, table: Table, iid: u64) -> NameId {
        let index = self.iids.find(table, iid);
        index.map_or(NameId::NONE, NameId::from_index)
    }

    pub(super) fn location(&self, iid: u64, names: &'a NameTable) -> Option<Location<'a>> {
        let index = self.iids.find(Table::Locations, iid)?;
        let (file, function, line) = *self.locations.all.get(index as usize)?;
        Some(Location {
            file: names.text(file),
            function: names.text(function),
            line,
        })
    }
}
