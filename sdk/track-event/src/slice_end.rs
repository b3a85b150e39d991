//! The end of a slice, written into each session that has seen the begin.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

use crate::call_site::CallSite;
use crate::event::EventParts;
use crate::instance::EventThread;
use crate::open_slices::{self, SlicePosition};
use crate::placement::{EventTime, Placement};
use crate::track::Track;
use tracezero_core::protos::track_event::Type;

/// Ends a slice on the thread's track that may have other slices inside. `end` writes its end into
/// one session; it is called for each session that has seen the begin.
#[cold]
#[inline(never)]
pub(super) fn end_around(
    position: SlicePosition,
    time: EventTime,
    mut end: impl FnMut(&mut EventThread),
) {
    let Some((begun, pieces)) = open_slices::remove(position, time) else {
        return;
    };
    let slots = begun.active_slots();
    if slots != 0 {
        begun.each(slots, |instance| {
            pieces.interrupt(instance, time, None, &mut end);
        });
    }
    open_slices::give_back(pieces);
}

/// A way to write the end of a slice. It is a trait because the compiler does not inline a closure
/// where guards end.
pub(super) trait SliceEnd {
    /// Writes the end of the innermost slice on `track`; `None` is this thread's track.
    fn write(&self, instance: &mut EventThread, time: EventTime, track: Option<&Track>);
}

/// An end without arguments.
pub(super) struct Plain;

impl SliceEnd for Plain {
    #[inline(always)]
    fn write(&self, instance: &mut EventThread, time: EventTime, track: Option<&Track>) {
        let (writer, events) = (&mut instance.writer, &mut instance.local);
        // Not `end_slice`, which the compiler would not inline.
        match track {
            None => events.slice_end(writer, time),
            Some(track) => events.slice_end_on(writer, time, track),
        }
    }
}

/// An end with arguments, flows or fields.
///
/// Formatting an argument may panic. At that time the slice is no longer on the stack, and slices
/// inside of it are being cut. So the panic is held back until all sessions have the end.
pub(super) struct WithParts<'p, P> {
    site: &'static CallSite,
    parts: &'p P,
    panic: Cell<Option<Box<dyn Any + Send>>>,
}

impl<'p, P: EventParts> WithParts<'p, P> {
    /// Calls `end_slice` with an end that has `parts`. Then continues a panic that the end has held
    /// back.
    pub(super) fn end(site: &'static CallSite, parts: &'p P, end_slice: impl FnOnce(&Self)) {
        let end = Self {
            site,
            parts,
            panic: Cell::new(None),
        };
        end_slice(&end);
        if let Some(panic) = end.panic.into_inner() {
            panic::resume_unwind(panic);
        }
    }
}

impl<P: EventParts> SliceEnd for WithParts<'_, P> {
    #[inline]
    fn write(&self, instance: &mut EventThread, time: EventTime, track: Option<&Track>) {
        if let Some(panic) = self.panic.take() {
            self.panic.set(Some(panic));
            return Plain.write(instance, time, track);
        }
        let placement = track.map_or(Placement::new(), |track| Placement::new().on(track));
        // The event's type is written before its arguments, so after a panic the packet is still a
        // valid end.
        let written = panic::catch_unwind(AssertUnwindSafe(|| {
            let (writer, events) = (&mut instance.writer, &mut instance.local);
            let end = Type::SLICE_END;
            events.event(writer, time, self.site.names(), end, &placement, self.parts);
        }));
        self.panic.set(written.err());
    }
}
