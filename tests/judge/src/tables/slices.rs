//! Slices and instants, their arguments and flows.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value as Json, json};

use crate::{Event, EventKind, Verdict};

/// The slices and instants of a trace.
pub(super) struct Slices<'a> {
    slices: Vec<Slice<'a>>,
    instants: Vec<&'a Event>,
}

/// A slice.
struct Slice<'a> {
    begin: &'a Event,
    /// `None` if the slice is open when the trace ends.
    end: Option<&'a Event>,
    /// The duration of the slices directly inside of it.
    inside_ns: u64,
    depth: u64,
}

/// An event that a flow goes through.
struct Step<'a> {
    time_ns: u64,
    /// The packet that began the slice.
    packet: usize,
    /// The name of the slice.
    name: Option<&'a str>,
    is_last: bool,
}

impl Slice<'_> {
    fn duration_ns(&self) -> Option<u64> {
        let end_ns = self.end?.timestamp_ns;
        Some(end_ns.saturating_sub(self.begin.timestamp_ns))
    }
}

impl<'a> Slices<'a> {
    /// Pairs begins and ends. Ends whose begins were lost are left out.
    pub(super) fn of(verdict: &'a Verdict) -> Self {
        let mut events: Vec<&Event> = verdict.events.iter().collect();
        // A stable sort: events of a sequence with the same time keep their order.
        events.sort_by_key(|event| event.timestamp_ns);
        let mut slices: Vec<Slice<'a>> = Vec::new();
        let mut instants = Vec::new();
        // By track, the indexes of open slices.
        let mut open: HashMap<u64, Vec<usize>> = HashMap::new();
        for event in events {
            let stack = open.entry(event.track_uuid).or_default();
            match event.kind {
                EventKind::SliceBegin => {
                    slices.push(Slice {
                        begin: event,
                        end: None,
                        inside_ns: 0,
                        depth: stack.len() as u64,
                    });
                    stack.push(slices.len() - 1);
                }
                EventKind::SliceEnd => {
                    let Some(index) = stack.pop() else { continue };
                    slices[index].end = Some(event);
                    let duration_ns = slices[index].duration_ns().unwrap_or(0);
                    if let Some(around) = stack.last() {
                        slices[*around].inside_ns += duration_ns;
                    }
                }
                EventKind::Instant => instants.push(event),
                EventKind::Counter => {}
            }
        }
        Self { slices, instants }
    }

    /// Returns the number of slices without an end.
    pub(super) fn open(&self) -> u64 {
        let slices = self.slices.iter();
        slices.filter(|slice| slice.end.is_none()).count() as u64
    }

    /// Returns, by category and name, the number of slices and the sums of their durations, own
    /// times and depths. The duration of an open slice is -1.
    pub(super) fn by_name(&self) -> Json {
        let mut groups: BTreeMap<_, (u64, i64, u64, u64)> = BTreeMap::new();
        for slice in &self.slices {
            let group = groups.entry(category_and_name(slice.begin)).or_default();
            group.0 += 1;
            match slice.duration_ns() {
                None => group.1 -= 1,
                Some(duration_ns) => {
                    group.1 += duration_ns as i64;
                    group.2 += duration_ns.saturating_sub(slice.inside_ns);
                }
            }
            group.3 += slice.depth;
        }
        let rows = groups.into_iter();
        rows.map(|((category, name), (count, sum, own, depths))| {
            json!([category, name, count, sum, own, depths])
        })
        .collect()
    }

    /// Returns the number of instants by category and name.
    pub(super) fn instants_by_name(&self) -> Json {
        let mut groups: BTreeMap<_, u64> = BTreeMap::new();
        for event in &self.instants {
            *groups.entry(category_and_name(event)).or_default() += 1;
        }
        let rows = groups.into_iter();
        rows.map(|((category, name), count)| json!([category, name, count]))
            .collect()
    }

    /// Returns the number of slices and instants by the names of their threads.
    pub(super) fn by_thread(&self) -> Json {
        let mut groups: BTreeMap<_, u64> = BTreeMap::new();
        let begins = self.slices.iter().map(|slice| slice.begin);
        for event in begins.chain(self.instants.iter().copied()) {
            let name = event.thread_name.as_deref();
            let name = name.filter(|name| !name.is_empty());
            *groups.entry(name).or_default() += 1;
        }
        let rows = groups.into_iter();
        rows.map(|(name, count)| json!([name, count])).collect()
    }

    /// Returns how often each argument has each value.
    pub(super) fn args(&self) -> Json {
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        let ends = self.slices.iter().filter_map(|slice| slice.end);
        let begins = self.slices.iter().map(|slice| slice.begin);
        let events = begins.chain(ends).chain(self.instants.iter().copied());
        for row in events.flat_map(|event| &event.arg_rows) {
            *counts.entry(row).or_default() += 1;
        }
        let rows = counts.into_iter();
        rows.map(|(row, count)| {
            json!([
                row.flat_key,
                row.key,
                row.value_type,
                row.int,
                row.real,
                row.text,
                count
            ])
        })
        .collect()
    }

    /// Returns the number of arrows by the names of the slices that they lead from and to. An arrow
    /// leads from each slice of a flow to the next one in time, until the flow ends.
    pub(super) fn flows(&self) -> Json {
        let mut flows: BTreeMap<u64, Vec<Step<'_>>> = BTreeMap::new();
        let mut add = |event: &'a Event, begin: &'a Event| {
            let ids = event.flow_ids.iter().map(|id| (id, false));
            let last = event.terminating_flow_ids.iter().map(|id| (id, true));
            for (id, is_last) in ids.chain(last) {
                flows.entry(*id).or_default().push(Step {
                    time_ns: event.timestamp_ns,
                    packet: begin.packet,
                    name: non_empty(begin.name.as_deref()),
                    is_last,
                });
            }
        };
        for slice in &self.slices {
            add(slice.begin, slice.begin);
            if let Some(end) = slice.end {
                add(end, slice.begin);
            }
        }
        for event in &self.instants {
            add(event, event);
        }
        let mut arrows: BTreeMap<_, u64> = BTreeMap::new();
        for mut steps in flows.into_values() {
            steps.sort_by_key(|step| (step.time_ns, step.packet));
            let mut from = None;
            for step in steps {
                match from {
                    Some(from) => *arrows.entry((from, step.name)).or_default() += 1,
                    // A flow does not end where it has not begun.
                    None if step.is_last => continue,
                    None => {}
                }
                from = (!step.is_last).then_some(step.name);
            }
        }
        let rows = arrows.into_iter();
        rows.map(|((from, to), count)| json!([from, to, count]))
            .collect()
    }
}

/// Returns the first category and the name of an event.
fn category_and_name(event: &Event) -> (Option<&str>, Option<&str>) {
    let category = event.categories.first().map(String::as_str);
    (non_empty(category), non_empty(event.name.as_deref()))
}

fn non_empty(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
