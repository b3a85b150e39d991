//! Lists of open slices, which threads write into rings (`sdk/track-event/src/slice_list.rs`).

use std::collections::HashMap;

use tracezero_core::protos::TracePacketDecoder;
use tracezero_core::protos::sequences::TracePacketDecoderExt as _;
use tracezero_reader::Packet;

use super::open_span::OpenSpan;

/// The maximum number of slices that are read of a list. Writers list fewer.
const SLICES_MAX: usize = 4096;

/// The open slices of a thread.
#[derive(Debug)]
pub(super) struct SliceList {
    pub(super) track_uuid: u64,
    /// The outermost first.
    pub(super) spans: Vec<OpenSpan>,
}

/// The lists that wait for the next event of their sequence: they are true from then on.
#[derive(Debug, Default)]
pub(super) struct WaitingLists(HashMap<u32, SliceList>);

impl WaitingLists {
    /// Adds the list in a packet, if it has one.
    pub(super) fn add(&mut self, packet: &Packet<'_>) {
        if let Some(list) = SliceList::decode(packet.bytes()) {
            self.0.insert(packet.head.sequence_id, list);
        }
    }

    /// Takes the list of a sequence.
    pub(super) fn take(&mut self, sequence_id: u32) -> Option<SliceList> {
        if self.0.is_empty() {
            return None;
        }
        self.0.remove(&sequence_id)
    }

    /// Takes all lists.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = SliceList> {
        self.0.drain().map(|(_, list)| list)
    }
}

impl SliceList {
    fn decode(packet: &[u8]) -> Option<Self> {
        let list = TracePacketDecoder::new(packet).open_slices().ok()??;
        let mut spans = Vec::new();
        for slice in list.slices().flatten().take(SLICES_MAX) {
            spans.push(OpenSpan {
                begin_ns: slice.begin_ns().ok()??,
                name: slice.name().ok()?.unwrap_or_default().to_owned(),
                args: String::new(),
                flow_id: slice.flow_id().ok()?,
                is_listed: true,
            });
        }
        Some(Self {
            track_uuid: list.track_uuid().ok()??,
            spans,
        })
    }
}
