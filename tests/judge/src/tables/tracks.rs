//! Processes, threads and counters.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use perfetto_protos::process_descriptor::ProcessDescriptor;
use perfetto_protos::process_tree::ProcessTree;
use perfetto_protos::process_tree::process_tree::{Process, Thread};
use perfetto_protos::thread_descriptor::ThreadDescriptor;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::track_descriptor::TrackDescriptor;
use serde_json::{Value as Json, json};

use crate::tracks::{added, title};
use crate::{EventKind, Value, Verdict};

/// The tracks of a trace, and the processes that it lists besides.
pub(super) struct TrackRows<'a> {
    descriptors: &'a HashMap<u64, TrackDescriptor>,
    packets: &'a [TracePacket],
}

/// The values of counters, by the names of their tracks.
pub(super) struct Counters {
    values: Vec<(Option<String>, Value)>,
}

impl<'a> TrackRows<'a> {
    pub(super) const fn new(
        descriptors: &'a HashMap<u64, TrackDescriptor>,
        packets: &'a [TracePacket],
    ) -> Self {
        Self {
            descriptors,
            packets,
        }
    }

    /// Returns what data source `linux.process_stats` has listed.
    fn trees(&self) -> impl Iterator<Item = &'a ProcessTree> {
        let packets = self.packets.iter();
        packets
            .filter(|packet| packet.has_process_tree())
            .map(TracePacket::process_tree)
    }

    /// Returns the ids of processes.
    pub(super) fn processes(&self) -> Json {
        let mut pids = BTreeSet::new();
        for track in self.descriptors.values() {
            pids.extend(track.process.as_ref().map(ProcessDescriptor::pid));
            pids.extend(track.thread.as_ref().map(ThreadDescriptor::pid));
        }
        for tree in self.trees() {
            pids.extend(tree.processes.iter().map(Process::pid));
            pids.extend(tree.threads.iter().map(Thread::tgid));
        }
        pids.into_iter().map(|pid| json!([pid])).collect()
    }

    /// Returns the ids of threads, with those of their processes.
    pub(super) fn threads(&self) -> Json {
        let threads = self.descriptors.values().filter_map(|track| {
            let thread = track.thread.as_ref()?;
            Some((thread.pid(), thread.tid()))
        });
        let listed = self.trees().flat_map(|tree| &tree.threads);
        let listed = listed.map(|thread| (thread.tgid(), thread.tid()));
        let threads: BTreeSet<_> = threads.chain(listed).collect();
        let rows = threads.into_iter();
        rows.map(|(pid, tid)| json!([pid, tid])).collect()
    }

    /// Returns the values of counters, also those that were written along with other events.
    pub(super) fn counters(&self, verdict: &Verdict) -> Counters {
        let mut values = Vec::new();
        let events = verdict.events.iter();
        for event in events.filter(|event| event.kind == EventKind::Counter) {
            if let Some(value) = event.counter.clone() {
                values.push(self.counter(event.track_uuid, value));
            }
        }
        // The sum so far by sequence, clear and track.
        let mut sums: HashMap<_, Value> = HashMap::new();
        for sample in &verdict.extra_samples {
            let mut value = sample.value.clone();
            let descriptor = self.descriptors.get(&sample.track_uuid);
            if descriptor.is_some_and(|track| track.counter.is_incremental()) {
                let key = (sample.place.sequence_id, sample.clears, sample.track_uuid);
                value = match sums.get(&key) {
                    Some(sum) => added(sum, &value),
                    None => value,
                };
                sums.insert(key, value.clone());
            }
            values.push(self.counter(sample.track_uuid, value));
        }
        Counters { values }
    }

    /// Returns the name of a counter, and a value in its unit.
    fn counter(&self, track_uuid: u64, value: Value) -> (Option<String>, Value) {
        let Some(track) = self.descriptors.get(&track_uuid) else {
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
}

impl Counters {
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
