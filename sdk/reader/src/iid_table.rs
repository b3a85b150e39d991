//! A table from interned ids to the numbers of the names and locations that they stand for.

use tracezero_core::protos::InternedData;

/// A kind of interned data. Each kind has its own ids.
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
    /// Returns the kind that a field of `InternedData` defines.
    pub(super) const fn of_field(number: u32) -> Option<Self> {
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

    /// Returns the name of the field of `InternedData` that defines this kind.
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

/// The interned ids of one sequence, of all kinds.
#[derive(Clone, Debug, Default)]
pub(super) struct IidTable {
    /// A hash table with open addressing. A slot whose `value` is 0 is free. The length is 0 or a
    /// power of two; at most three quarters of the slots are used.
    slots: Vec<Slot>,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    iid: u64,
    /// One more than the number that the id stands for.
    value: u32,
    table: u8,
}

impl IidTable {
    /// Returns the number that an id stands for.
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

    /// Defines an id. Returns the number that it stood for before.
    pub(super) fn insert(&mut self, table: Table, iid: u64, value: u32) -> Option<u32> {
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

    /// Returns the index of the slot of an id, or of the free slot where it belongs.
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

    /// Returns the size of the table's memory.
    pub(super) const fn size_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}
