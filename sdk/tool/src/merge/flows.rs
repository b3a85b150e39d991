//! Collects the flows of a machine, of which bounds of its clock offset are made.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use tracezero_reader::{Event, Record, TraceReader};

use super::clock_offset::Bound;
use crate::error::ToolError;
use crate::input::Input;

/// The maximum number of flows of one machine, which take 100 MB. Further ones are ignored.
const FLOWS_MAX: usize = 1 << 20;

/// The flows of one machine.
#[derive(Debug, Default)]
pub(super) struct Flows(HashMap<u64, FlowEvents>);

/// The events of a flow on one machine.
#[derive(Clone, Copy, Debug)]
struct FlowEvents {
    /// The time of the first event.
    first_ns: i64,
    /// The hash of the first event's name.
    name: u64,
    /// The time of the event that ends the flow.
    end_ns: Option<i64>,
}

/// How often a flow goes from one machine to the other, by the names of its events.
#[derive(Clone, Copy, Debug, Default)]
struct Votes {
    there: u64,
    back: u64,
}

impl Flows {
    /// Adds the flows of a file.
    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), ToolError> {
        let failed = |error: &tracezero_reader::ReadError| ToolError::Read {
            path: path.to_owned(),
            message: error.to_string(),
        };
        let mut reader = TraceReader::new(Input::open(path)?);
        while let Some(record) = reader.next().map_err(|error| failed(&error))? {
            if let Record::Event(event) = record
                && event.has_flows()
            {
                self.add(&event);
            }
        }
        Ok(())
    }

    fn add(&mut self, event: &Event<'_>) {
        let Ok(first_ns) = i64::try_from(event.head.timestamp_ns) else {
            return;
        };
        let events = |end_ns| FlowEvents {
            first_ns,
            name: hash(event.name()),
            end_ns,
        };
        for id in event.flows() {
            self.add_events(id, events(None));
        }
        for id in event.terminating_flows() {
            self.add_events(id, events(Some(first_ns)));
        }
    }

    fn add_events(&mut self, id: u64, events: FlowEvents) {
        let has_room = self.0.len() < FLOWS_MAX;
        match self.0.get_mut(&id) {
            Some(known) => known.merge(events),
            None if has_room => drop(self.0.insert(id, events)),
            None => {}
        }
    }

    /// Adds the flows of another machine. `offset_ns` is added to its times.
    pub(super) fn add_all(&mut self, other: Self, offset_ns: i64) {
        for (id, events) in other.0 {
            if let Some(moved) = events.moved(offset_ns) {
                self.add_events(id, moved);
            }
        }
    }

    /// Returns bounds of what must be added to the times of `other`, so that no flow between these
    /// machines and that one goes back in time.
    ///
    /// An event that ends a flow is the one that receives. If neither machine has such an event, the
    /// flows whose events have the same names are taken to go in the direction of most of them, as
    /// the times are by `estimate_ns`. Without an estimate, they tell nothing.
    pub(super) fn bounds(&self, other: &Self, estimate_ns: Option<i64>) -> Vec<Bound> {
        let shared = || {
            let flows = other.0.iter();
            flows.filter_map(|(id, there)| Some((self.0.get(id)?, there)))
        };
        let mut votes: HashMap<(u64, u64), Votes> = HashMap::new();
        if let Some(estimate_ns) = estimate_ns {
            for (here, there) in shared() {
                let votes = votes.entry((here.name, there.name)).or_default();
                match here.distance_to(there) <= i128::from(estimate_ns) {
                    true => votes.there += 1,
                    false => votes.back += 1,
                }
            }
        }
        let bounds = shared().filter_map(|(here, there)| {
            let goes_there = match (here.end_ns, there.end_ns) {
                (None, Some(_)) => true,
                (Some(_), None) => false,
                _ => {
                    let votes = votes.get(&(here.name, there.name))?;
                    (votes.there != votes.back).then_some(votes.there > votes.back)?
                }
            };
            Some(Bound {
                is_lower: goes_there,
                offset_ns: match goes_there {
                    true => here.to_receiver(there),
                    false => -there.to_receiver(here),
                },
                time_ns: here.first_ns,
            })
        });
        let mut bounds: Vec<Bound> = bounds.collect();
        // The order of the map differs from run to run.
        bounds.sort_unstable_by_key(|bound| (bound.time_ns, bound.offset_ns));
        bounds
    }
}

impl FlowEvents {
    fn merge(&mut self, other: Self) {
        if other.first_ns < self.first_ns {
            self.first_ns = other.first_ns;
            self.name = other.name;
        }
        self.end_ns = match (self.end_ns, other.end_ns) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    fn moved(self, offset_ns: i64) -> Option<Self> {
        let end_ns = match self.end_ns {
            None => None,
            Some(end_ns) => Some(end_ns.checked_add(offset_ns)?),
        };
        Some(Self {
            first_ns: self.first_ns.checked_add(offset_ns)?,
            end_ns,
            ..self
        })
    }

    /// Returns the time of the first event here minus that of the first event there.
    fn distance_to(&self, there: &Self) -> i128 {
        i128::from(self.first_ns) - i128::from(there.first_ns)
    }

    /// Returns the time of the first event here, which sends, minus that of the event there that
    /// receives.
    fn to_receiver(self, there: &Self) -> i128 {
        let received_ns = there.end_ns.unwrap_or(there.first_ns);
        i128::from(self.first_ns) - i128::from(received_ns)
    }
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}
