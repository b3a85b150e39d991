//! Reads definitions of interned ids out of packets, and looks them up for events.

use protozero::{DecodeError, Decoder, Value};

use crate::anomaly::Anomaly;
use crate::iid_table::{IidTable, Table};
use crate::location::{Location, Locations};
use crate::names::{NameId, NameTable};

impl IidTable {
    /// Adds the definitions of a packet.
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

/// An entry of interned data. Entries of all kinds have the id and the text in the same fields.
#[derive(Default)]
struct Entry<'a> {
    iid: u64,
    text: &'a [u8],
    /// Set for locations only, as is `line`.
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
                let file = names.intern_string(self.text);
                locations.id((file, names.intern_string(self.function), self.line))
            }
            // The schema declares these as `bytes`, so they need not be UTF-8.
            Table::ArgTexts | Table::Correlations => names.intern_bytes(self.text).index() as u32,
            _ => names.intern_string(self.text).index() as u32,
        }
    }
}

/// The definitions that apply to an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interned<'a> {
    pub(super) iids: &'a IidTable,
    pub(super) locations: &'a Locations,
}

impl<'a> Interned<'a> {
    pub(super) fn is_known(&self, table: Table, iid: u64) -> bool {
        self.iids.find(table, iid).is_some()
    }

    /// Returns the name that an id stands for; [`NameId::NONE`] if the id is not defined.
    pub(super) fn name(&self, table: Table, iid: u64) -> NameId {
        let index = self.iids.find(table, iid);
        index.map_or(NameId::NONE, NameId::from_index)
    }

    pub(super) fn location(&self, iid: u64, names: &'a NameTable) -> Option<Location<'a>> {
        let index = self.iids.find(Table::Locations, iid)?;
        self.locations.find(index, names)
    }
}
