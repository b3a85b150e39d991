//! Lists of open slices, which threads write into rings (`sdk/track-event/src/slice_list.rs` and
//! `track_list.rs`).

use tracezero_core::protos::TracePacketDecoder;
use tracezero_core::protos::sequences::TracePacketDecoderExt as _;

use super::open_span::OpenSpan;

/// The maximum number of slices that are read of a list. Writers list fewer.
const SLICES_MAX: usize = 4096;

/// A list of open slices.
#[derive(Debug)]
pub(super) enum List {
    OfThread(ThreadList),
    OfTracks(TrackList),
}

/// The open slices of a thread. The list is true from the next event of its sequence on.
#[derive(Debug)]
pub(super) struct ThreadList {
    pub(super) track_uuid: u64,
    /// The outermost first.
    pub(super) spans: Vec<OpenSpan>,
}

/// The oldest open slices of tracks that all threads may write to.
#[derive(Debug)]
pub(super) struct TrackList {
    /// The time at which they are open.
    pub(super) time_ns: u64,
    /// The uuids of the tracks and their slices, the outermost of a track first.
    pub(super) spans: Vec<(u64, OpenSpan)>,
    /// The number of further slices.
    pub(super) left_out: u64,
}

impl List {
    /// Decodes the list in a packet, if it has one.
    pub(super) fn decode(packet: &[u8]) -> Option<Self> {
        let list = TracePacketDecoder::new(packet).open_slices().ok()??;
        let mut spans = Vec::new();
        for slice in list.slices().flatten().take(SLICES_MAX) {
            let span = OpenSpan {
                begin_ns: slice.begin_ns().ok()??,
                name: slice.name().ok()?.unwrap_or_default().to_owned(),
                args: String::new(),
                flow_id: slice.flow_id().ok()?,
                is_listed: true,
            };
            spans.push((slice.track_uuid().ok()?, span));
        }
        let spans = spans.into_iter();
        if let Some(track_uuid) = list.track_uuid().ok()? {
            return Some(Self::OfThread(ThreadList {
                track_uuid,
                spans: spans.map(|(_, span)| span).collect(),
            }));
        }
        Some(Self::OfTracks(TrackList {
            time_ns: list.time_ns().ok()??,
            spans: spans
                .filter_map(|(track_uuid, span)| Some((track_uuid?, span)))
                .collect(),
            left_out: list.left_out().ok()?.unwrap_or_default(),
        }))
    }
}
