//! What was lost, and the statistics of the service.

use std::collections::{BTreeMap, HashSet};

use protobuf::MessageFull;
use protobuf::reflect::{FieldDescriptor, ReflectValueRef};
use serde_json::{Value as Json, json};

use crate::{Value, Verdict};

/// The fields of a sequence's account that count lost packets, each with the name of the cause in
/// the table `loss`.
const CAUSES: [(&str, &str); 9] = [
    ("dropped", "dropped"),
    ("overwritten", "overwritten"),
    ("discarded", "discarded"),
    ("late", "late"),
    ("aborted", "aborted"),
    ("corrupted", "corrupted"),
    ("invalid", "invalid"),
    ("file_full", "file full"),
    ("write_failed", "not written"),
];

/// The bit of `previous_packet_dropped` that alone, on the first packet of a sequence, is no loss.
const PRESENT: u64 = 1;

/// Numbers of the service that trace processor does not have among its statistics, and the table does
/// not have either.
const LEFT_OUT: [&str; 1] = ["invalid_packets"];

/// Returns the numbers of lost packets by sequence and cause. The last accounts of a trace include
/// the earlier ones.
pub(super) fn accounts(verdict: &Verdict) -> BTreeMap<(u64, &'static str), u64> {
    let mut lost = BTreeMap::new();
    let mut all = verdict.own.iter().rev();
    let last = all.find_map(|own| own.get("sequence_accounts"));
    let sequences = last.and_then(|accounts| accounts.get("sequences")?.as_array());
    for account in sequences.into_iter().flatten() {
        let number = |field| account.get(field).and_then(Value::as_u64).unwrap_or(0);
        for (field, cause) in CAUSES {
            if number(field) > 0 {
                *lost.entry((number("sequence_id"), cause)).or_default() += number(field);
            }
        }
    }
    lost
}

pub(super) fn rows(accounts: BTreeMap<(u64, &'static str), u64>) -> Json {
    let rows = accounts.into_iter();
    rows.map(|((sequence, cause), packets)| json!([sequence, cause, packets]))
        .collect()
}

/// Returns the number of gaps of each sequence.
pub(super) fn gaps(verdict: &Verdict) -> Json {
    let mut met = HashSet::new();
    let mut firsts = HashSet::new();
    for (index, packet) in verdict.packets.iter().enumerate() {
        if met.insert(packet.trusted_packet_sequence_id()) {
            firsts.insert(index);
        }
    }
    let mut gaps: BTreeMap<u32, u64> = BTreeMap::new();
    for loss in &verdict.losses {
        if loss.reasons != PRESENT || !firsts.contains(&loss.packet) {
            *gaps.entry(loss.sequence_id).or_default() += 1;
        }
    }
    gaps.into_iter()
        .map(|(sequence, count)| json!([sequence, count]))
        .collect()
}

/// Returns the numbers that the service wrote last.
pub(super) fn stats(verdict: &Verdict) -> Json {
    let Some(stats) = &verdict.trace_stats else {
        return json!([]);
    };
    let mut rows = Vec::new();
    for (name, value) in numbers(stats) {
        rows.push(json!([format!("traced_{name}"), null, value]));
    }
    for (index, buffer) in stats.buffer_stats.iter().enumerate() {
        for (name, value) in numbers(buffer) {
            rows.push(json!([format!("traced_buf_{name}"), index, value]));
        }
    }
    Json::Array(rows)
}

/// Returns the integers that are set in `message`, by name.
fn numbers<M: MessageFull>(message: &M) -> Vec<(String, Json)> {
    let descriptor = M::descriptor();
    let numbers = descriptor.fields().filter(FieldDescriptor::is_singular);
    let numbers = numbers.filter(|field| !LEFT_OUT.contains(&field.name()));
    let numbers = numbers.filter_map(|field| {
        let value = match field.get_singular(message)? {
            ReflectValueRef::U64(value) => json!(value),
            ReflectValueRef::U32(value) => json!(value),
            ReflectValueRef::I64(value) => json!(value),
            ReflectValueRef::I32(value) => json!(value),
            _ => return None,
        };
        Some((field.name().to_owned(), value))
    });
    numbers.collect()
}
