//! Finds flows that have only one event.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::event::Event;
use crate::place::PacketPlace;
use crate::tracks::UuidHasher;

/// The maximum number of flows that are stored, which take 40 MiB. Further ones are not checked.
const FLOWS_MAX: usize = 1 << 20;

/// The flows of a trace.
#[derive(Debug, Default)]
pub(super) struct Flows {
    flows: HashMap<u64, FlowEnds, BuildHasherDefault<UuidHasher>>,
    pub(super) left_out: u64,
}

/// The first event of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowEnds {
    /// The place of the event's packet.
    pub(super) place: PacketPlace,
    pub(super) sequence_id: u32,
    /// True if the flow has no other event.
    is_single: bool,
}

impl Flows {
    pub(super) fn add(&mut self, event: &Event<'_>) {
        for id in event.flows().chain(event.terminating_flows()) {
            if let Some(flow) = self.flows.get_mut(&id) {
                flow.is_single = false;
            } else if self.flows.len() == FLOWS_MAX {
                self.left_out += 1;
            } else {
                self.flows.insert(
                    id,
                    FlowEnds {
                        place: event.head.place,
                        sequence_id: event.head.sequence_id,
                        is_single: true,
                    },
                );
            }
        }
    }

    /// Returns the flows with only one event, in the order of the file.
    pub(super) fn singles(&self) -> Vec<(u64, FlowEnds)> {
        let flows = self.flows.iter().filter(|(_, flow)| flow.is_single);
        let mut singles: Vec<_> = flows.map(|(id, flow)| (*id, *flow)).collect();
        singles.sort_unstable_by_key(|(id, flow)| (flow.place.index, *id));
        singles
    }
}
