//! The events of call sites: spans, begins and ends of slices, instants, values of counters.

use std::mem;
use std::num::NonZeroU32;

use crate::begin_sessions::BeginSessions;
use crate::call_site::CallSite;
use crate::counter_track::CounterTrack;
use crate::data_source::TRACK_EVENT;
use crate::event::EventParts;
use crate::instance::EventThread;
use crate::open_slices;
use crate::placement::{EventTime, Placement};
use crate::slice_end::{SliceEnd, WithParts};
use crate::span::{Span, TrackSpan};
use crate::track::Track;
use crate::track_slices;
use tracezero_core::clock;
use tracezero_core::counter_value::CounterValue;
use tracezero_core::protos::track_event::Type;
use tracezero_producer as producer;

impl CallSite {
    /// Begins a slice on the current thread's track, in the sessions whose bits are set in `slots`.
    #[inline(never)]
    pub fn span<P: EventParts>(&'static self, slots: NonZeroU32, parts: &P) -> Span {
        let begun = BeginSessions::in_some_slots(slots);
        let time = EventTime::Now(clock::event_now_ns());
        let Some(open) = open_slices::push(begun, self, time) else {
            return Span::none();
        };
        let panic_guard = EndOnPanic::new(|| drop(Span::new(open)));
        self.slice_begin(begun, time, Placement::USUAL, parts);
        panic_guard.disarm();
        Span::new(open)
    }

    /// Like [`span`](Self::span), with a name that is not a literal, or at a given time.
    #[inline(never)]
    pub fn span_placed<P: EventParts>(
        &'static self,
        slots: u32,
        placement: &Placement<'_>,
        parts: &P,
    ) -> Span {
        let Some(begun) = BeginSessions::in_slots(slots) else {
            return Span::none();
        };
        let (time, name) = (placement.time(), placement.name.unwrap_or_default());
        let Some(open) = open_slices::push_with(begun, self, time, name, None) else {
            return Span::none();
        };
        let panic_guard = EndOnPanic::new(|| drop(Span::new(open)));
        self.slice_begin(begun, time, placement, parts);
        panic_guard.disarm();
        Span::new(open)
    }

    /// Like [`span_placed`](Self::span_placed), on another track than the thread's.
    #[inline(never)]
    pub fn span_on_track<P: EventParts>(
        &'static self,
        slots: u32,
        track: &Track,
        placement: &Placement<'_>,
        parts: &P,
    ) -> TrackSpan {
        let Some(begun) = BeginSessions::in_slots(slots) else {
            return TrackSpan::none();
        };
        let Some((guard, time)) = track_slices::push(track, begun, self, placement) else {
            return TrackSpan::none();
        };
        let panic_guard = EndOnPanic::new(|| drop(TrackSpan::new(begun, track, guard)));
        self.slice_begin(begun, time, &placement.on(track), parts);
        panic_guard.disarm();
        TrackSpan::new(begun, track, guard)
    }

    /// Begins a slice that [`end`](Self::end) of another call site ends.
    #[inline(never)]
    pub fn begin<P: EventParts>(&'static self, slots: u32, placement: &Placement<'_>, parts: &P) {
        let Some(begun) = BeginSessions::in_slots(slots) else {
            return;
        };
        // Inside of another trace point nothing is recorded, so the stacks must not change either.
        if producer::is_nested() {
            return;
        }
        let time = match placement.track {
            Some(track) => track_slices::push_by_macro(track, begun, self, placement),
            None => {
                let (time, name) = (placement.time(), placement.name.unwrap_or_default());
                if open_slices::push_by_macro(begun, self, time, name).is_none() {
                    return;
                }
                time
            }
        };
        self.slice_begin(begun, time, placement, parts);
    }

    /// Ends a slice that [`begin`](Self::begin) of another call site began.
    #[inline(never)]
    pub fn end<P: EventParts>(&'static self, slots: u32, placement: &Placement<'_>, parts: &P) {
        if producer::is_nested() {
            return;
        }
        let (time, on_track) = match placement.track {
            Some(track) => {
                let (time, pieces) = track_slices::remove_by_macro(track, placement);
                (time, Some(pieces))
            }
            None => (placement.time(), None),
        };
        WithParts::end(self, parts, |end| {
            TRACK_EVENT.trace(slots, |instance| {
                let write = |instance: &mut EventThread| end.write(instance, time, placement.track);
                if let Some(pieces) = &on_track {
                    pieces.interrupt(instance, time, placement.track, write);
                } else if let Some(pieces) = open_slices::remove_by_macro(instance) {
                    pieces.interrupt(instance, time, None, write);
                    open_slices::give_back(pieces);
                }
            });
        });
    }

    /// Records an instant on the current thread's track, in the sessions whose bits are set in
    /// `slots`.
    #[inline(never)]
    pub fn instant<P: EventParts>(&'static self, slots: NonZeroU32, parts: &P) {
        self.event(slots.get(), Type::INSTANT, Placement::USUAL, parts);
    }

    /// Like [`instant`](Self::instant), with a name that is not a literal, at a given time, or on
    /// another track.
    #[inline(never)]
    pub fn instant_placed<P: EventParts>(
        &'static self,
        slots: u32,
        placement: &Placement<'_>,
        parts: &P,
    ) {
        self.event(slots, Type::INSTANT, placement, parts);
    }

    /// Records a value of the counter with this call site's name, in the sessions whose bits are
    /// set in `slots`.
    #[inline]
    pub fn counter(
        &'static self,
        slots: u32,
        placement: &Placement<'_>,
        value: impl Into<CounterValue>,
    ) {
        self.count(slots, None, placement, value.into());
    }

    /// Records a value of the counter `track`, in the sessions whose bits are set in `slots`.
    #[inline]
    pub fn counter_on(
        &'static self,
        slots: u32,
        track: &CounterTrack,
        placement: &Placement<'_>,
        value: impl Into<CounterValue>,
    ) {
        self.count(slots, Some(track), placement, value.into());
    }

    #[inline]
    fn slice_begin(
        &'static self,
        begun: BeginSessions,
        time: EventTime,
        placement: &Placement<'_>,
        parts: &impl EventParts,
    ) {
        begun.begin(|instance| {
            let (writer, events) = (&mut instance.writer, &mut instance.local);
            events.event(
                writer,
                time,
                self.names(),
                Type::SLICE_BEGIN,
                placement,
                parts,
            );
        });
    }

    #[inline]
    fn event(
        &'static self,
        slots: u32,
        event_type: Type,
        placement: &Placement<'_>,
        parts: &impl EventParts,
    ) {
        let time = placement.time();
        TRACK_EVENT.trace(slots, |instance| {
            let (writer, events) = (&mut instance.writer, &mut instance.local);
            events.event(writer, time, self.names(), event_type, placement, parts);
        });
    }

    /// Records a value; on this call site's own counter if `track` is `None`.
    #[inline(never)]
    fn count(
        &self,
        slots: u32,
        track: Option<&CounterTrack>,
        placement: &Placement<'_>,
        value: CounterValue,
    ) {
        let time = placement.time();
        TRACK_EVENT.trace(slots, |instance| {
            // Create the track inside of the trace point, where nested events are only counted.
            // Creating it allocates, and an allocator that traces with this call site would
            // otherwise come back here.
            let own = || self.own_counter();
            let track = track.unwrap_or_else(own);
            let (writer, events) = (&mut instance.writer, &mut instance.local);
            events.counter(writer, time, track, value);
        });
    }
}

/// A guard that ends a slice if writing its begin panics, for example because an argument's
/// formatting panics.
struct EndOnPanic<F: FnMut()>(F);

impl<F: FnMut()> EndOnPanic<F> {
    #[inline(always)]
    fn new(end: F) -> Self {
        Self(end)
    }

    #[inline(always)]
    fn disarm(self) {
        mem::forget(self);
    }
}

impl<F: FnMut()> Drop for EndOnPanic<F> {
    #[cold]
    fn drop(&mut self) {
        (self.0)();
    }
}
