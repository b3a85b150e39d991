//! The parts of an event: the arguments, flows and fields that a macro was given, in their order.

use std::fmt;

use crate::arg::{ArgValue, write_arg};
use crate::correlation::CorrelationId;
use crate::flow::Flow;
use crate::short_event::ShortEvent;
use tracezero_core::protos::TrackEvent;

/// An event that is being written.
pub struct EventWriter<'e, 'w> {
    pub(super) event: &'e mut TrackEvent<'w>,
    /// The interning ids of the names of the arguments that are still to be written.
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

/// One part of an event: an argument, a flow, or extra fields.
pub trait EventPart {
    /// Writes this part into the event.
    fn write(&self, event: &mut EventWriter<'_, '_>);

    /// Returns true if [`put`](Self::put) may be called.
    #[inline(always)]
    fn is_short(&self) -> bool {
        false
    }

    /// Writes this part into a short event. Returns false if it does not fit.
    #[inline(always)]
    fn put(&self, _: &mut ShortEvent<'_, '_>) -> bool {
        false
    }
}

/// All parts of an event, as nested pairs: each pair holds the parts before and one more part; the
/// innermost is `()`. Call sites with parts of the same types share their code.
pub trait EventParts {
    /// True if there are no parts.
    const IS_EMPTY: bool;

    /// Writes all parts into the event.
    fn write_all(&self, event: &mut EventWriter<'_, '_>);

    /// Returns true if [`put_all`](Self::put_all) may be called.
    fn are_short(&self) -> bool;

    /// Writes all parts into a short event. Returns false if they do not fit.
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

/// The value of an argument. Its name is the next one in the call site's list of argument names.
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

/// A correlation id of the event.
#[derive(Debug)]
pub struct Correlated<'a, T: ?Sized>(pub &'a T);

impl<T: CorrelationId + ?Sized> EventPart for Correlated<'_, T> {
    #[inline]
    fn write(&self, event: &mut EventWriter<'_, '_>) {
        self.0.write(event.event);
    }
}

/// Fields of the `TrackEvent` message itself, including extensions.
pub struct Fields<F>(F);

impl<F: Fn(&mut TrackEvent<'_>)> Fields<F> {
    /// Creates the part from a closure that sets the fields.
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
