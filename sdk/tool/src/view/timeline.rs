//! The data of a page, collected event by event: tracks, events, counters and losses.
//!
//! Memory is bounded by a maximum number of events and by limits of the tables for their data.
//! Everything beyond is left out and counted.

use std::collections::HashMap;

use serde::Serialize;

use super::args::{ArgsId, ArgsTable};
use super::kernel_lanes::KernelHalf;
use super::strings::{StringId, StringTable};

/// The default of `--max-events`. So many events take about 300 MB while the page is written.
pub(crate) const EVENTS_MAX_DEFAULT: u64 = 5_000_000;

/// The maximum number of links between events and flows, which take 128 MiB.
const FLOW_LINKS_MAX: usize = 1 << 24;

/// The index of a track in the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TrackIndex(pub(crate) u32);

/// The id of a label: a name together with categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LabelId(pub(crate) u32);

/// The description of a track, as the page gets it.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Track {
    pub(crate) name: String,
    /// `process`, `thread`, `counter` or `track`.
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<String>,
    /// The order of the tracks below this one, if the trace defines it: `name`, `time` or `rank`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<&'static str>,
    /// The rank of the track. Tracks of smaller rank are above, if the order is `rank`.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) rank: i32,
}

/// Returns true for the rank that the page assumes if none is given.
fn is_zero(rank: &i32) -> bool {
    *rank == 0
}

/// A time span in which events of some tracks were lost.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) tracks: Vec<TrackIndex>,
    /// The time of the last known event before the loss.
    pub(crate) start_ns: u64,
    /// The time of the first event after the loss.
    pub(crate) end_ns: u64,
    pub(crate) text: String,
}

/// The effect of an event on the stack of its track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Begin,
    End,
    Instant,
}

/// An event of the trace, before begins and ends are paired.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEvent {
    pub(crate) time_ns: u64,
    pub(crate) label: LabelId,
    pub(crate) args: ArgsId,
    /// The number of a list in `Timeline::flow_lists`, counted from 1. 0 is none.
    pub(crate) flows: u32,
    pub(crate) kind: Kind,
}

/// The flows through an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlowList {
    flows: Box<[u64]>,
    /// The number of flows that belong to the begin of the event. The rest belong to its end.
    begin_count: usize,
}

impl FlowList {
    pub(crate) fn at_begin(&self) -> &[u64] {
        &self.flows[..self.begin_count]
    }

    pub(crate) fn at_end(&self) -> &[u64] {
        &self.flows[self.begin_count..]
    }
}

/// The data of an event that is being added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventFacts<'a> {
    pub(crate) track: TrackIndex,
    pub(crate) time_ns: u64,
    pub(crate) label: LabelId,
    pub(crate) args: ArgsId,
    pub(crate) flows: &'a [u64],
}

/// All data of a page.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) title: String,
    pub(crate) file_bytes: u64,
    /// The number of packets in the file.
    pub(crate) packets: u64,
    pub(crate) strings: StringTable,
    pub(crate) args: ArgsTable,
    pub(crate) tracks: Vec<Track>,
    /// Name and categories of each label.
    pub(crate) labels: Vec<(StringId, StringId)>,
    label_ids: HashMap<(StringId, StringId), LabelId>,
    /// Events of each track, in the order of the file.
    pub(crate) events: Vec<Vec<RawEvent>>,
    /// Values of each track, if it is a counter.
    pub(crate) counters: Vec<Vec<(u64, f64)>>,
    pub(crate) flow_lists: Vec<FlowList>,
    flow_links: usize,
    pub(crate) flows_left_out: u64,
    pub(crate) losses: Vec<Loss>,
    /// The kernel's half, if the trace has one.
    pub(crate) kernel: Option<KernelHalf>,
    /// Descriptions of the damage in the file.
    pub(crate) damage: Vec<String>,
    pub(crate) notes: Vec<String>,
    limit: u64,
    kept: u64,
    ends: u64,
    /// The number of ends that were left out because `limit` ends are stored already. No more than
    /// `limit` slices are shown, so this happens only in traces that have ends without a begin.
    pub(crate) ends_left_out: u64,
    left_out: LeftOut,
    /// The first time of the trace, including events that are not shown. `--from` counts from it.
    pub(crate) earliest_ns: Option<u64>,
    /// For each track, the number of open slices that are not shown. Their ends are left out too.
    open_left_out: Vec<u64>,
}

/// Events beyond the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) events: u64,
    /// The time of the first event beyond the limit.
    pub(crate) from_ns: u64,
}

impl Timeline {
    /// Creates an empty timeline for at most `limit` slices, instants and counter values.
    pub(crate) fn new(title: String, file_bytes: u64, limit: u64) -> Self {
        Self {
            title,
            file_bytes,
            packets: 0,
            strings: StringTable::default(),
            args: ArgsTable::default(),
            tracks: Vec::new(),
            labels: Vec::new(),
            label_ids: HashMap::new(),
            events: Vec::new(),
            counters: Vec::new(),
            flow_lists: Vec::new(),
            flow_links: 0,
            flows_left_out: 0,
            losses: Vec::new(),
            kernel: None,
            damage: Vec::new(),
            notes: Vec::new(),
            limit,
            kept: 0,
            ends: 0,
            ends_left_out: 0,
            left_out: LeftOut::default(),
            earliest_ns: None,
            open_left_out: Vec::new(),
        }
    }

    /// Makes room for this many tracks. Their descriptions are set later.
    pub(crate) fn ensure_tracks(&mut self, count: usize) {
        if self.tracks.len() < count {
            self.tracks.resize_with(count, Track::default);
            self.events.resize_with(count, Vec::new);
            self.counters.resize_with(count, Vec::new);
            self.open_left_out.resize(count, 0);
        }
    }

    /// Returns true if the limit of events is reached, so that further ones are left out.
    pub(crate) const fn is_full(&self) -> bool {
        self.kept >= self.limit
    }

    pub(crate) fn label(&mut self, name: &str, categories: &str) -> LabelId {
        let key = (self.strings.add(name), self.strings.add(categories));
        let next = LabelId(u32::try_from(self.labels.len()).unwrap_or(u32::MAX));
        *self.label_ids.entry(key).or_insert_with(|| {
            self.labels.push(key);
            next
        })
    }

    pub(crate) fn begin(&mut self, facts: EventFacts<'_>) {
        if self.has_room(facts.time_ns) {
            self.push(facts, Kind::Begin);
        } else {
            self.skip_slice(facts.track);
        }
    }

    /// Begins a slice that is not shown.
    pub(crate) fn skip_slice(&mut self, track: TrackIndex) {
        self.open_left_out[track.0 as usize] += 1;
    }

    pub(crate) fn instant(&mut self, facts: EventFacts<'_>) {
        if self.has_room(facts.time_ns) {
            self.push(facts, Kind::Instant);
        }
    }

    /// Returns true if the slice that began last on the track is not shown.
    pub(crate) fn is_in_skipped_slice(&self, track: TrackIndex) -> bool {
        self.open_left_out[track.0 as usize] > 0
    }

    /// Ends the slice that began last on the track. Does not count towards the limit.
    pub(crate) fn end(&mut self, facts: EventFacts<'_>) {
        let open_left_out = &mut self.open_left_out[facts.track.0 as usize];
        match open_left_out.checked_sub(1) {
            Some(rest) => *open_left_out = rest,
            None if self.ends < self.limit => {
                self.ends += 1;
                self.push(facts, Kind::End);
            }
            None => self.ends_left_out += 1,
        }
    }

    pub(crate) fn counter(&mut self, track: TrackIndex, time_ns: u64, value: f64) {
        if self.has_room(time_ns) {
            self.counters[track.0 as usize].push((time_ns, value));
        }
    }

    pub(crate) const fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// Joins the flow lists of a begin and of its end. Returns the number of the joined list; 0 is
    /// none.
    pub(crate) fn join_flows(&mut self, begin: u32, end: u32) -> u32 {
        match (begin, end) {
            (only, 0) | (0, only) => only,
            _ => {
                let lists = [begin, end].map(|list| &self.flow_lists[list as usize - 1]);
                let joined = lists.map(|list| &*list.flows).concat();
                let begin_count = lists[0].flows.len();
                self.add_flows(&joined, begin_count)
            }
        }
    }

    fn has_room(&mut self, time_ns: u64) -> bool {
        if !self.is_full() {
            self.kept += 1;
            return true;
        }
        if self.left_out.events == 0 {
            self.left_out.from_ns = time_ns;
        }
        self.left_out.events += 1;
        self.left_out.from_ns = self.left_out.from_ns.min(time_ns);
        false
    }

    fn push(&mut self, facts: EventFacts<'_>, kind: Kind) {
        let begin_count = match kind {
            Kind::End => 0,
            Kind::Begin | Kind::Instant => facts.flows.len(),
        };
        let flows = self.add_flows(facts.flows, begin_count);
        self.events[facts.track.0 as usize].push(RawEvent {
            time_ns: facts.time_ns,
            label: facts.label,
            args: facts.args,
            flows,
            kind,
        });
    }

    fn add_flows(&mut self, flows: &[u64], begin_count: usize) -> u32 {
        let room = FLOW_LINKS_MAX - self.flow_links;
        let (flows, left_out) = flows.split_at(flows.len().min(room));
        self.flow_links += flows.len();
        self.flows_left_out += left_out.len() as u64;
        if flows.is_empty() {
            return 0;
        }
        self.flow_lists.push(FlowList {
            flows: flows.into(),
            begin_count: begin_count.min(flows.len()),
        });
        u32::try_from(self.flow_lists.len()).unwrap_or(u32::MAX)
    }
}
