//! The incremental state of a sequence: definitions of earlier packets for later ones.

use std::collections::HashMap;

use perfetto_protos::interned_data::InternedData;
use perfetto_protos::trace_packet_defaults::TracePacketDefaults;
use protobuf::MessageFull;

use crate::Value;
use crate::clocks::SequenceClocks;

/// The state of a sequence up to the current packet.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    pub(crate) packets: usize,
    pub(crate) clears: usize,
    /// True if a part of the sequence is missing.
    pub(crate) has_losses: bool,
    /// The incremental state; `None` before the first clear, and from a loss to the next clear.
    pub(crate) state: Option<IncrementalState>,
}

/// The definitions that are valid from one clear to the next.
#[derive(Debug, Default)]
pub(crate) struct IncrementalState {
    pub(crate) defaults: TracePacketDefaults,
    pub(crate) clocks: SequenceClocks,
    interned: HashMap<(String, u64), Value>,
}

impl IncrementalState {
    /// Adds definitions. Returns a text for each that is wrong.
    pub(crate) fn define(&mut self, definitions: &InternedData) -> Vec<String> {
        let mut objections = Vec::new();
        for table in InternedData::descriptor().fields() {
            for entry in table.get_repeated(definitions) {
                let Some(entry) = entry.to_message() else {
                    continue;
                };
                let value = Value::of_message(&*entry);
                let iid = value.get("iid").and_then(Value::as_u64).unwrap_or(0);
                if iid == 0 {
                    objections.push(format!("an entry of {} has no id", table.name()));
                    continue;
                }
                let key = (table.name().to_owned(), iid);
                let earlier = self.interned.insert(key, value.clone());
                if earlier.is_some_and(|earlier| earlier != value) {
                    objections.push(format!("id {iid} of {} gets another value", table.name()));
                }
            }
        }
        objections
    }

    /// Returns the entry with the id `iid` of the field `table` of InternedData.
    pub(crate) fn interned(&self, table: &str, iid: u64) -> Option<&Value> {
        self.interned.get(&(table.to_owned(), iid))
    }
}
