//! The end of a slice, as it is written in each session that has seen the begin.

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

/// Ends a slice on the thread's track that may have others inside; `end` writes its end in each session
/// that has seen its begin.
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

/// Writes the end of the innermost slice on a track. A trait, because the compiler does not inline a
/// closure where guards end.
pub(super) trait SliceEnd {
    /// Writes the end; `None` is the track of this thread.
    fn write(&self, instance: &mut EventThread, time: EventTime, track: Option<&Track>);
}

/// An end without arguments.
pub(super) struct Plain;

impl SliceEnd for Plain {
    #[inline(always)]
    fn write(&self, instance: &mut EventThread, time: EventTime, track: Option<&Track>) {
        let (writer, events) = (&mut instance.writer, &mut instance.local);
        // Not `end_slice`, which the compiler would call.
        match track {
            None => events.slice_end(writer, time),
            Some(track) => events.slice_end_on(writer, time, track),
        }
    }
}

/// An end with arguments, flows or fields.
///
/// Formatting one of them may panic. The slice is no longer open then, and slices inside of it are in
/// pieces: so all sessions get its end first, and the panic goes on after that.
pub(super) struct WithParts<'p, P> {
    site: &'static CallSite,
    parts: &'p P,
    panic: Cell<Option<Box<dyn Any + Send>>>,
}

impl<'p, P: EventParts> WithParts<'p, P> {
    /// Calls `end_slice` with an end that has `parts`. A panic that the end held back goes on after that.
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
        // The type of the event is written before its arguments: what a panic leaves of it is an end.
        let written = panic::catch_unwind(AssertUnwindSafe(|| {
            let (writer, events) = (&mut instance.writer, &mut instance.local);
            let end = Type::SLICE_END;
            events.event(writer, time, self.site.names(), end, &placement, self.parts);
        }));
        self.panic.set(written.err());
    }
}
