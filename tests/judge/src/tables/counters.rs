//! Values of counters.

use std::collections::{BTreeMap, HashMap};

use perfetto_protos::track_descriptor::TrackDescriptor;
use serde_json::{Value as Json, json};

use crate::tracks::{added, title};
use crate::{EventKind, Value, Verdict};

/// The values of counters, by the names of their tracks.
pub(super) struct Counters {
    values: Vec<(Option<String>, Value)>,
}

impl Counters {
    /// Returns the values of counters, also those that were written along with other events.
    pub(super) fn of(verdict: &Verdict, descriptors: &HashMap<u64, TrackDescriptor>) -> Self {
        let mut values = Vec::new();
        let events = verdict.events.iter();
        for event in events.filter(|event| event.kind == EventKind::Counter) {
            if let Some(value) = event.counter.clone() {
                values.push(counter(descriptors, event.track_uuid, value));
            }
        }
        // The sum so far by sequence, clear and track.
        let mut sums: HashMap<_, Value> = HashMap::new();
        for sample in &verdict.extra_samples {
            let mut value = sample.value.clone();
            let descriptor = descriptors.get(&sample.track_uuid);
            if descriptor.is_some_and(|track| track.counter.is_incremental()) {
                let key = (sample.place.sequence_id, sample.clears, sample.track_uuid);
                value = match sums.get(&key) {
                    Some(sum) => added(sum, &value),
                    None => value,
                };
                sums.insert(key, value.clone());
            }
            values.push(counter(descriptors, sample.track_uuid, value));
        }
        Self { values }
    }

    /// Returns count and sum of the integers of each counter.
    pub(super) fn integers(&self) -> Json {
        let mut sums: BTreeMap<_, (u64, i128)> = BTreeMap::new();
        for (name, value) in &self.values {
            if let Value::Int(value) = value {
                let (count, sum) = sums.entry(name).or_default();
                *count += 1;
                *sum += i128::from(*value);
            }
        }
        let rows = sums.into_iter();
        // As a text, since it may need more than 64 bits.
        rows.map(|(name, (count, sum))| json!([name, count, sum.to_string()]))
            .collect()
    }

    /// Returns how often each counter has each value that is no integer.
    pub(super) fn reals(&self) -> Json {
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        for (name, value) in &self.values {
            if let Value::Double(value) = value {
                *counts.entry((name, value.to_bits())).or_default() += 1;
            }
        }
        let rows = counts.into_iter();
        rows.map(|((name, bits), count)| json!([name, bits, count]))
            .collect()
    }
}

/// Returns the name of a counter, and a value in its unit.
fn counter(
    descriptors: &HashMap<u64, TrackDescriptor>,
    track_uuid: u64,
    value: Value,
) -> (Option<String>, Value) {
    let Some(track) = descriptors.get(&track_uuid) else {
        return (None, value);
    };
    let multiplier = track.counter.unit_multiplier.unwrap_or(1);
    let value = match value {
        Value::Int(value) => Value::Int(value.wrapping_mul(multiplier)),
        Value::Double(value) if multiplier != 1 => Value::Double(value * multiplier as f64),
        value => value,
    };
    (title(track), value)
}
