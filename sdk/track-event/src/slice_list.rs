//! Lists the open slices of a thread in the trace.
//!
//! A ring overwrites the begins of long slices. So a sequence lists the open slices of its thread once
//! in each quarter of a lap, and after a loss. A reader of the ring's content then knows all slices
//! that are open, however old they are. `tracezero inspect` prints them. Perfetto's tools skip the
//! list.
//!
//! The list is true once the event is written that the sequence has started its state for: a slice
//! that the event begins is in the list, one that it ends is not. If a start comes while a slice is
//! being cut (`pieces.rs`), which takes several events, the list is true after the last of them.

use std::sync::OnceLock;

use crate::call_site_names::CallSiteNames;
use crate::flow::Flow;
use crate::track::Track;
use crate::unusual_form::UnusualForm;
use tracezero_core::commit::RingProgress;
use tracezero_core::protos::sequences::{OpenSlice, TracePacketExt as _};
use tracezero_producer::{LocalStart, StateStart, TraceWriter};

/// The maximum number of slices in a list. Further ones, which are the innermost, are left out.
const SLICES_MAX: usize = 256;

/// A visitor of open slices.
pub(super) type Visit<'v> = dyn FnMut(Listed<'_>) + 'v;

/// A visitor of open slices and their tracks.
pub(super) trait TrackVisitor {
    /// Returns true if the visitor wants a slice with this begin.
    fn wants(&mut self, begun_at_ns: u64) -> bool;

    /// Visits a slice that it wants.
    fn visit(&mut self, track: &Track, slice: TrackSlice<'_>);
}

/// An open slice on a track that all threads may write to.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrackSlice<'a> {
    /// The time when the slice began, on the trace clock.
    pub(super) begun_at_ns: u64,
    pub(super) site: &'static CallSiteNames,
    pub(super) name: SliceName<'a>,
}

/// Where the name of a slice comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum SliceName<'a> {
    OfSite,
    OfTrack,
    Own(&'a str),
}

/// Where the open slices are found. These functions are above this module, since sequences write
/// the slices that they know.
#[derive(Debug)]
pub(super) struct OpenSlicesSource {
    /// Calls the function that it is given for each open slice of the calling thread that a session
    /// has seen, the outermost first.
    pub(super) of_thread: fn(ListingSession, &mut Visit<'_>),
    /// Shows the visitor each slice of a track that all threads may write to. In any order, but the
    /// outermost of a track first.
    pub(super) of_tracks: fn(ListingSession, &mut dyn TrackVisitor),
}

/// `connect.rs` sets it.
pub(super) static OPEN_SLICES: OnceLock<OpenSlicesSource> = OnceLock::new();

/// A session whose open slices are listed, named by its instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListingSession {
    pub(super) slot: usize,
    pub(super) generation: u64,
}

/// An open slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed<'a> {
    /// The time when the slice began, on the trace clock.
    pub(super) begun_at_ns: u64,
    pub(super) name: &'a str,
    /// True if the name was made while the program ran.
    pub(super) is_name_dynamic: bool,
    /// The names of its categories, separated by commas.
    pub(super) category: &'static str,
    /// A flow that joins the slice with others.
    pub(super) flow: Option<Flow>,
}

/// The lists of one sequence.
#[derive(Debug)]
pub(super) struct SliceList {
    session: ListingSession,
    /// The value of [`RingProgress::parts`] at the last list.
    written_at_parts: u64,
    /// True if a list is due, and not written yet.
    is_owed: bool,
}

impl SliceList {
    pub(super) fn new(start: &LocalStart) -> Self {
        Self {
            session: ListingSession {
                slot: start.slot,
                generation: start.generation,
            },
            written_at_parts: start.progress.parts(),
            is_owed: false,
        }
    }

    pub(super) fn session(&self) -> ListingSession {
        self.session
    }

    /// Notes a new start, which follows `last_start`. The first start of a sequence needs no list,
    /// because no slice of its session is open.
    pub(super) fn note_start(
        &mut self,
        last_start: Option<&StateStart>,
        writer: &TraceWriter,
        progress: &RingProgress,
    ) {
        let parts = progress.parts() - self.written_at_parts;
        let is_due =
            |start: &StateStart| parts >= RingProgress::QUARTER || start.has_losses(writer);
        self.is_owed |= last_start.is_some_and(is_due);
    }

    /// Notes that the packets of a start were dropped.
    pub(super) fn note_dropped_start(&mut self) {
        self.is_owed = true;
    }

    /// Writes the list of the calling thread, whose track is `thread`, if it is due.
    pub(super) fn write_if_due(
        &mut self,
        writer: &mut TraceWriter,
        thread: &Track,
        progress: &RingProgress,
        form: Option<&UnusualForm>,
    ) {
        if !self.is_owed {
            return;
        }
        let Some(open) = OPEN_SLICES.get() else {
            return;
        };
        self.is_owed = false;
        self.written_at_parts = progress.parts();
        writer.trace_packet(|packet| {
            packet.open_slices(|out| {
                out.set_track_uuid(thread.uuid());
                let mut room = SLICES_MAX;
                (open.of_thread)(self.session, &mut |slice| {
                    if room > 0 {
                        room -= 1;
                        out.add_slices(|out| write_slice(&slice, form, out));
                    }
                });
            });
        });
    }
}

/// Writes a slice of a list.
pub(super) fn write_slice(slice: &Listed<'_>, form: Option<&UnusualForm>, out: &mut OpenSlice<'_>) {
    // A session may filter names that were made while the program ran.
    let name = match form.filter(|_| slice.is_name_dynamic) {
        Some(form) => form.name(slice.name),
        None => slice.name,
    };
    out.set_begin_ns(slice.begun_at_ns);
    out.set_name(name);
    out.set_category(slice.category);
    if let Some(flow) = &slice.flow {
        out.set_flow_id(flow.id());
    }
}
