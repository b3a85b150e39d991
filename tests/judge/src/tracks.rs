//! Checks and resolves tracks, spans and counters, after all packets have been read.

use std::collections::{BTreeMap, HashMap, VecDeque};

use perfetto_protos::track_descriptor::TrackDescriptor;

use crate::problem::Place;
use crate::verdict::CounterSample;
use crate::{Event, EventKind, OpenSpan, Problem, Rule, Value};

/// The number of parents that are followed, in case the parents of a track form a circle.
const PARENTS_MAX: usize = 64;

/// The tracks that the trace describes.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    descriptors: HashMap<u64, TrackDescriptor>,
}

impl Tracks {
    /// Adds a descriptor. A later one replaces an earlier one of the same track.
    pub(crate) fn describe(&mut self, descriptor: &TrackDescriptor) {
        self.descriptors
            .insert(descriptor.uuid(), descriptor.clone());
    }

    /// Returns all descriptors, by uuid.
    pub(crate) fn into_descriptors(self) -> HashMap<u64, TrackDescriptor> {
        self.descriptors
    }

    /// Sets the names of the tracks of `events`, and makes their counter values absolute.
    pub(crate) fn resolve(
        &self,
        events: &mut [Event],
        samples: &[CounterSample],
        problems: &mut Vec<Problem>,
    ) {
        // The sum so far by sequence, clear and track.
        let mut sums: HashMap<(u32, usize, u64), Value> = HashMap::new();
        for event in events {
            let place = Place {
                packet: event.packet,
                sequence_id: Some(event.sequence_id),
            };
            let descriptor = self.descriptors.get(&event.track_uuid);
            if descriptor.is_none() && event.track_uuid != 0 {
                let text = format!("track {} has no descriptor", event.track_uuid);
                problems.push(place.object(Rule::TrackDescriptor, text));
            }
            event.track_name = descriptor.and_then(title);
            event.thread_name = self.thread_name(event.track_uuid);
            if event.kind != EventKind::Counter {
                continue;
            }
            let Some(value) = event.counter.clone() else {
                problems.push(place.object(Rule::Counter, "a counter event without a value"));
                continue;
            };
            let Some(counter) = descriptor.and_then(|descriptor| descriptor.counter.as_ref())
            else {
                problems.push(place.object(Rule::Counter, not_a_counter(event.track_uuid)));
                continue;
            };
            if counter.is_incremental() {
                let key = (event.sequence_id, event.clears, event.track_uuid);
                let sum = match sums.get(&key) {
                    Some(sum) => added(sum, &value),
                    None => value,
                };
                sums.insert(key, sum.clone());
                event.counter = Some(sum);
            }
        }
        for sample in samples {
            let descriptor = self.descriptors.get(&sample.track_uuid);
            if descriptor.is_none_or(|descriptor| descriptor.counter.is_none()) {
                let text = not_a_counter(sample.track_uuid);
                problems.push(sample.place.object(Rule::Counter, text));
            }
        }
    }

    /// Returns the name of the nearest thread among the track and its parents.
    fn thread_name(&self, mut track_uuid: u64) -> Option<String> {
        for _ in 0..PARENTS_MAX {
            let descriptor = self.descriptors.get(&track_uuid)?;
            if let Some(thread) = descriptor.thread.as_ref() {
                return thread.thread_name.clone();
            }
            track_uuid = descriptor.parent_uuid?;
        }
        None
    }
}

fn not_a_counter(track_uuid: u64) -> String {
    format!("track {track_uuid} is no counter track")
}

/// Returns the name of a track, or else of its thread or process.
pub(crate) fn title(descriptor: &TrackDescriptor) -> Option<String> {
    let own = if descriptor.has_static_name() {
        descriptor.static_name()
    } else {
        descriptor.name()
    };
    let candidates = [
        own,
        descriptor.thread.thread_name(),
        descriptor.process.process_name(),
    ];
    candidates
        .into_iter()
        .find(|name| !name.is_empty())
        .map(str::to_owned)
}

/// Adds a difference to the value of a counter.
pub(crate) fn added(sum: &Value, value: &Value) -> Value {
    match (sum, value) {
        (Value::Int(sum), Value::Int(value)) => Value::Int(sum.wrapping_add(*value)),
        (sum, value) => Value::Double(as_double(sum) + as_double(value)),
    }
}

fn as_double(value: &Value) -> f64 {
    match *value {
        Value::Int(value) => value as f64,
        Value::Double(value) => value,
        _ => unreachable!("a counter's value is an integer or a double"),
    }
}

/// Pairs the begins and ends on every track. Returns the slices without an end.
pub(crate) fn pair_spans(
    events: &[Event],
    ignores_lost_begins: bool,
    problems: &mut Vec<Problem>,
) -> Vec<OpenSpan> {
    let mut tracks: BTreeMap<u64, BTreeMap<u32, VecDeque<&Event>>> = BTreeMap::new();
    for event in events {
        if matches!(event.kind, EventKind::SliceBegin | EventKind::SliceEnd) {
            let sequences = tracks.entry(event.track_uuid).or_default();
            sequences
                .entry(event.sequence_id)
                .or_default()
                .push_back(event);
        }
    }
    let mut open_spans = Vec::new();
    for (track_uuid, mut sequences) in tracks {
        for slices in sequences.values() {
            time_runs_forward(track_uuid, slices, problems);
        }
        let mut stack: Vec<&Event> = Vec::new();
        while let Some(event) = next_in_time(&mut sequences) {
            if event.kind == EventKind::SliceBegin {
                stack.push(event);
                continue;
            }
            match stack.pop() {
                None if ignores_lost_begins => {}
                None => problems.push(spans_problem(event, track_uuid, "an end without a begin")),
                Some(begin) if begin.timestamp_ns > event.timestamp_ns => {
                    problems.push(spans_problem(event, track_uuid, "ends before it begins"));
                }
                Some(_) => {}
            }
        }
        open_spans.extend(stack.into_iter().map(|begin| OpenSpan {
            packet: begin.packet,
            sequence_id: begin.sequence_id,
            track_uuid,
            name: begin.name.clone(),
            begin_ns: begin.timestamp_ns,
        }));
    }
    open_spans
}

fn time_runs_forward(track_uuid: u64, slices: &VecDeque<&Event>, problems: &mut Vec<Problem>) {
    for (earlier, later) in slices.iter().zip(slices.iter().skip(1)) {
        if later.timestamp_ns < earlier.timestamp_ns {
            problems.push(spans_problem(later, track_uuid, "time runs backwards"));
        }
    }
}

/// Removes the next slice event of a track, whose events are on several sequences, by time. Each
/// sequence keeps its order. At equal times begins come first, because sequences have no order
/// among each other.
fn next_in_time<'a>(sequences: &mut BTreeMap<u32, VecDeque<&'a Event>>) -> Option<&'a Event> {
    let next = sequences
        .values_mut()
        .filter(|slices| !slices.is_empty())
        .min_by_key(|slices| {
            (
                slices[0].timestamp_ns,
                slices[0].kind == EventKind::SliceEnd,
            )
        })?;
    next.pop_front()
}

fn spans_problem(event: &Event, track_uuid: u64, text: &str) -> Problem {
    let place = Place {
        packet: event.packet,
        sequence_id: Some(event.sequence_id),
    };
    place.object(Rule::Spans, format!("track {track_uuid}: {text}"))
}
