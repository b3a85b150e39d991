//! What an event carries: the values that a macro was given, in their order.

use std::fmt;

use crate::arg::{ArgValue, write_arg};
use crate::flow::Flow;
use crate::short_event::ShortEvent;
use tracezero_core::protos::TrackEvent;

/// An event that is being written.
pub struct EventWriter<'e, 'w> {
    pub(super) event: &'e mut TrackEvent<'w>,
    /// Interned ids of the names of the arguments that are still to come.
    pub(super) name_iids: &'e [u32],
}

impl<'e, 'w> EventWriter<'e, 'w> {
    #[inline]
    pub(super) fn new(event: &'e mut TrackEvent<'w>, name_iids: &'e [u32]) -> Self {
        Self { event, name_iids }
    }
}

impl fmt::Debug for EventWriter<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventWriter")
            .field("name_iids", &self.name_iids)
            .finish_non_exhaustive()
    }
}

/// Something that an event carries.
pub trait EventPart {
    /// Adds it to the event.
    fn write(&self, event: &mut EventWriter<'_, '_>);

    /// Whether [`put`](Self::put) may be called.
    #[inline(always)]
    fn is_short(&self) -> bool {
        false
    }

    /// Adds it to a short event. Returns whether it fits.
    #[inline(always)]
    fn put(&self, _: &mut ShortEvent<'_, '_>) -> bool {
        false
    }
}

/// All that an event carries: pairs of what comes before and one more part, with `()` at the
/// innermost place. Call sites with the same types share their code.
pub trait EventParts {
    /// Whether there is nothing.
    const IS_EMPTY: bool;

    /// Adds all to the event.
    fn write_all(&self, event: &mut EventWriter<'_, '_>);

    /// Whether [`put_all`](Self::put_all) may be called.
    fn are_short(&self) -> bool;

    /// Adds all to a short event. Returns whether they fit.
    fn put_all(&self, event: &mut ShortEvent<'_, '_>) -> bool;
}

impl EventParts for () {
    const IS_EMPTY: bool = true;

    #[inline]
    fn write_all(&self, _: &mut EventWriter<'_, '_>) {}

    #[inline(always)]
    fn are_short(&self) -> bool {
        true
    }

    #[inline(always)]
    fn put_all(&self, _: &mut ShortEvent<'_, '_>) -> bool {
        true
    }
}

impl<R: EventParts, P: EventPart> EventParts for (R, P) {
    const IS_EMPTY: bool = false;

    #[inline]
    fn write_all(&self, event: &mut EventWriter<'_, '_>) {
        self.0.write_all(event);
        self.1.write(event);
    }

    #[inline(always)]
    fn are_short(&self) -> bool {
        self.0.are_short() && self.1.is_short()
    }

    #[inline(always)]
    fn put_all(&self, event: &mut ShortEvent<'_, '_>) -> bool {
        self.0.put_all(event) && self.1.put(event)
    }
}

/// The next argument. The call site knows its name.
#[derive(Debug)]
pub struct Arg<'a, T: ?Sized>(pub &'a T);

impl<T: ArgValue + ?Sized> EventPart for Arg<'_, T> {
    #[inline]
    fn write(&self, event: &mut EventWriter<'_, '_>) {
        if let Some((name_iid, rest)) = event.name_iids.split_first() {
            event.name_iids = rest;
            write_arg(self.0, *name_iid, event.event);
        }
    }

    #[inline(always)]
    fn is_short(&self) -> bool {
        self.0.scalar().is_some()
    }

    #[inline(always)]
    fn put(&self, event: &mut ShortEvent<'_, '_>) -> bool {
        event.put_arg(self.0)
    }
}

/// A flow that passes through the event.
#[derive(Debug)]
pub struct Through<'a>(pub &'a Flow);

impl EventPart for Through<'_> {
    #[inline]
    fn write(&self, event: &mut EventWriter<'_, '_>) {
        event.event.add_flow_ids(self.0.id());
    }
}

/// A flow that ends at the event.
#[derive(Debug)]
pub struct EndOf<'a>(pub &'a Flow);

impl EventPart for EndOf<'_> {
    #[inline]
    fn write(&self, event: &mut EventWriter<'_, '_>) {
        event.event.add_terminating_flow_ids(self.0.id());
    }
}

/// Fields of the event's own message, extensions among them.
pub struct Fields<F>(F);

impl<F: Fn(&mut TrackEvent<'_>)> Fields<F> {
    /// What `write` writes.
    pub const fn new(write: F) -> Self {
        Self(write)
    }
}

impl<F: Fn(&mut TrackEvent<'_>)> EventPart for Fields<F> {
    #[inline]
    fn write(&self, event: &mut EventWriter<'_, '_>) {
        self.0(event.event);
    }
}

impl<F> fmt::Debug for Fields<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fields").finish_non_exhaustive()
    }
}
