//! Lists the open slices of tracks that all threads may write to, such as those of futures.
//!
//! A ring overwrites the begins of long slices, even of futures that no thread polls any more. So,
//! in each quarter of the ring, one of its sequences writes a list of open slices for all
//! sequences. The list contains the slices that began before the last list. The ring still has the
//! begins of later slices.
//!
//! The time of a list is taken before its slices are collected. The time of a slice's end is taken
//! after the slice has been removed from its registry (`async_slices.rs`, `track_slices.rs`). So
//! each slice in the list ends after the time of the list.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::mem;

use parking_lot::Mutex;

use crate::call_site_names::CallSiteNames;
use crate::slice_list::{
    Listed, ListingSession, OPEN_SLICES, SliceName, TrackSlice, TrackVisitor, write_slice,
};
use crate::track::Track;
use crate::unusual_form::UnusualForm;
use tracezero_core::clock;
use tracezero_core::commit::RingProgress;
use tracezero_core::protos::sequences::TracePacketExt as _;
use tracezero_producer::TraceWriter;

/// The number of bytes that a ring must have for each slice in a list. A slice takes about 128
/// bytes with the descriptor of its track, so four lists take a sixteenth of the ring at most.
const RING_BYTES_PER_SLICE: u64 = 64 * 128;

/// The maximum number of slices in a list. A thread needs half a millisecond for a list of this
/// size.
const SLICES_MAX: u64 = 512;

/// A list of open slices, which one sequence of a ring writes for all sequences.
pub(super) struct TrackList {
    time_ns: u64,
    /// The slices, oldest first, so that the outer slices of a track precede the inner ones.
    slices: Vec<OldSlice>,
    left_out: u64,
}

/// The oldest of the slices that began before the last list.
struct OldestSlices {
    last_ns: u64,
    /// The maximum number of slices.
    room: usize,
    slices: BinaryHeap<OldSlice>,
    /// The number of slices that began before the last list.
    count: u64,
}

/// A slice that began before the last list.
struct OldSlice {
    begun_at_ns: u64,
    /// The position at which the slice was visited. If slices began at the same time, the slice
    /// with the lower number is the outer one.
    number: u64,
    track: Track,
    site: &'static CallSiteNames,
    name: OldName,
}

/// A copy of a [`SliceName`], which may outlive the slice.
enum OldName {
    OfSite,
    OfTrack,
    Own(String),
}

/// The memory of the last list, which the next list uses again.
static MEMORY: Mutex<Vec<OldSlice>> = Mutex::new(Vec::new());

impl TrackVisitor for OldestSlices {
    fn wants(&mut self, begun_at_ns: u64) -> bool {
        if begun_at_ns >= self.last_ns {
            return false;
        }
        self.count += 1;
        let youngest = self.slices.peek();
        self.slices.len() < self.room || youngest.is_some_and(|it| begun_at_ns < it.begun_at_ns)
    }

    fn visit(&mut self, track: &Track, slice: TrackSlice<'_>) {
        if self.slices.len() == self.room {
            self.slices.pop();
        }
        self.slices.push(OldSlice {
            begun_at_ns: slice.begun_at_ns,
            number: self.count,
            track: track.clone(),
            site: slice.site,
            name: match slice.name {
                SliceName::OfSite => OldName::OfSite,
                SliceName::OfTrack => OldName::OfTrack,
                SliceName::Own(name) => OldName::Own(name.to_owned()),
            },
        });
    }
}

impl TrackList {
    /// Collects the slices of `session`, if it is the caller's turn to list them. Returns `None` if
    /// it is not the caller's turn.
    pub(super) fn take_turn(progress: &RingProgress, session: ListingSession) -> Option<Self> {
        let room = progress.ring_bytes()?.get() / RING_BYTES_PER_SLICE;
        let time_ns = clock::event_now_ns();
        let mut oldest = OldestSlices {
            last_ns: progress.take_turn(time_ns)?,
            room: room.min(SLICES_MAX) as usize,
            slices: MEMORY
                .try_lock()
                .map_or_else(Vec::new, |mut memory| mem::take(&mut *memory))
                .into(),
            count: 0,
        };
        if let Some(open) = OPEN_SLICES.get() {
            (open.of_tracks)(session, &mut oldest);
        }
        Some(Self {
            time_ns,
            left_out: oldest.count - oldest.slices.len() as u64,
            slices: oldest.slices.into_sorted_vec(),
        })
    }

    pub(super) fn tracks(&self) -> impl Iterator<Item = &Track> {
        self.slices.iter().map(|slice| &slice.track)
    }

    /// Writes the list. The tracks are described already.
    pub(super) fn write(&self, writer: &mut TraceWriter, form: Option<&UnusualForm>) {
        if self.slices.is_empty() && self.left_out == 0 {
            return;
        }
        writer.trace_packet(|packet| {
            packet.open_slices(|out| {
                out.set_time_ns(self.time_ns);
                for slice in &self.slices {
                    out.add_slices(|out| {
                        write_slice(&slice.listed(), form, out);
                        out.set_track_uuid(slice.track.uuid());
                    });
                }
                if self.left_out > 0 {
                    out.set_left_out(self.left_out);
                }
            });
        });
    }
}

impl Drop for TrackList {
    fn drop(&mut self) {
        self.slices.clear();
        if let Some(mut memory) = MEMORY.try_lock() {
            *memory = mem::take(&mut self.slices);
        }
    }
}

impl OldSlice {
    fn listed(&self) -> Listed<'_> {
        let site = self.site;
        let is_site_dynamic = site.origin.is_some_and(|it| it.is_name_dynamic);
        let (name, is_name_dynamic) = match &self.name {
            OldName::OfSite => (site.name, is_site_dynamic),
            OldName::OfTrack => (self.track.name(), is_site_dynamic || site.name.is_empty()),
            OldName::Own(name) => (name.as_str(), true),
        };
        Listed {
            begun_at_ns: self.begun_at_ns,
            name,
            is_name_dynamic,
            category: site.category,
            flow: None,
        }
    }
}

impl Ord for OldSlice {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |it: &Self| (it.begun_at_ns, it.number);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for OldSlice {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OldSlice {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OldSlice {}
