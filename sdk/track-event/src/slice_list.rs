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

use crate::flow::Flow;
use crate::track::Track;
use crate::unusual_form::UnusualForm;
use tracezero_core::commit::RingProgress;
use tracezero_core::protos::sequences::{OpenSlices, TracePacketExt as _};
use tracezero_producer::{LocalStart, StateStart, TraceWriter};

/// The maximum number of slices in a list. Further ones, which are the innermost, are left out.
const SLICES_MAX: usize = 256;

/// Calls the function that it is given for each open slice of the calling thread that a session has
/// seen, the outermost first. The slot and the generation of its instance name the session.
pub(super) type OpenSlicesOfThread = fn(usize, u64, &mut dyn FnMut(Listed<'_>));

/// The stack of open slices. `connect.rs` sets it: the stack is above this module, since its slices
/// are written by sequences.
pub(super) static OPEN_SLICES: OnceLock<OpenSlicesOfThread> = OnceLock::new();

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
    slot: usize,
    generation: u64,
    /// The value of [`RingProgress::parts`] at the last list.
    written_at_parts: u64,
    /// True if a list is due, and not written yet.
    is_owed: bool,
}

impl SliceList {
    pub(super) fn new(start: &LocalStart) -> Self {
        Self {
            slot: start.slot,
            generation: start.generation,
            written_at_parts: start.progress.parts(),
            is_owed: false,
        }
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
        let Some(each_open) = OPEN_SLICES.get() else {
            return;
        };
        self.is_owed = false;
        self.written_at_parts = progress.parts();
        writer.trace_packet(|packet| {
            packet.open_slices(|out| {
                out.set_track_uuid(thread.uuid());
                let mut room = SLICES_MAX;
                each_open(self.slot, self.generation, &mut |slice| {
                    if room > 0 {
                        room -= 1;
                        write_slice(&slice, form, out);
                    }
                });
            });
        });
    }
}

fn write_slice(slice: &Listed<'_>, form: Option<&UnusualForm>, out: &mut OpenSlices<'_>) {
    // A session may filter names that were made while the program ran.
    let name = match form.filter(|_| slice.is_name_dynamic) {
        Some(form) => form.name(slice.name),
        None => slice.name,
    };
    out.add_slices(|out| {
        out.set_begin_ns(slice.begun_at_ns);
        out.set_name(name);
        out.set_category(slice.category);
        if let Some(flow) = &slice.flow {
            out.set_flow_id(flow.id());
        }
    });
}
