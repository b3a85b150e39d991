//! The slice of an asynchronous span: it is on a track of its own, from the first enter to the
//! close.
//!
//! The first enter does not show whether a span is asynchronous; the second one does. At the second
//! enter the slice begins, with a timestamp one nanosecond before the first enter. The call site
//! remembers that its spans are asynchronous (`Pattern`), so later spans get their slices at the
//! first enter. Spans that are entered once pay nothing for it. In a capture, which must not depend
//! on anything recorded before, every slice waits for the second enter, and every span has a flow
//! from its first enter on.
//!
//! So, except in captures, a call site's first asynchronous spans have no flow at their first poll.
//! A flow at every first enter would lead nowhere for each span that is entered once. Outlines and
//! queries of tests recognize these polls by their times (`reader/first_polls.rs`).

use tracing_core::Subscriber;
use tracing_core::span::Id;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::first_enter::Enter;
use super::layer::TracingLayer;
use super::site::Site;
use super::spans::{AsyncSlice, Slot, SpanState};
use tracezero_core::clock;
use tracezero_track_event::{
    BeginSessions, Encoded, EventTime, Flow, OpenAsyncSlice, TRACK_EVENT, Track,
};

impl TracingLayer {
    /// Returns the track of the innermost asynchronous span around this one.
    ///
    /// An enclosing span that was entered counts as asynchronous, too, because an asynchronous span
    /// continues inside it: most likely it will be entered again. Its slice begins here.
    pub(super) fn parent_track<S>(
        &self,
        begun: BeginSessions,
        id: &Id,
        context: &Context<'_, S>,
    ) -> Option<Track>
    where
        S: Subscriber + for<'l> LookupSpan<'l>,
    {
        let mut parent = None;
        // From the inside out. Locks are taken in one order: a thread that holds a span's lock may
        // lock the spans around it, never the other way round.
        let mut beginning = Vec::new();
        for around in context.span(id)?.scope().skip(1) {
            let Some((_, slot)) = self.spans.find(around.id().into_u64()) else {
                continue;
            };
            let state = slot.lock();
            if let Some(async_slice) = &state.async_slice {
                parent = Some(async_slice.track.clone());
                break;
            }
            let is_seen = |first: Enter| !begun.is_new_to_capture(first.seen_by);
            if slot.first_enter.get().is_some_and(is_seen) {
                beginning.push(slot);
            }
        }
        for slot in beginning.into_iter().rev() {
            let mut state = slot.lock();
            let Some(site) = slot.site() else { continue };
            let slots = site.call_site.active_slots();
            let time = EventTime::Now(clock::event_now_ns());
            begin_async_slice(slot, &mut state, site, slots, time, || parent);
            parent = state
                .async_slice
                .as_ref()
                .map(|async_slice| async_slice.track.clone());
        }
        parent
    }
}

/// Begins the slice of an asynchronous span on a track of its own, which is a child of `parent`.
/// The slice begins in those sessions whose bits are set in `slots` and that have not seen its
/// begin.
#[inline]
pub(super) fn begin_async_slice(
    slot: &Slot,
    span: &mut SpanState,
    site: &'static Site,
    slots: u32,
    time: EventTime,
    parent: impl FnOnce() -> Option<Track>,
) {
    slot.needs_end();
    let flow = *span.flow.get_or_insert_with(Flow::new);
    if span.async_slice.is_none() {
        let parent = parent().unwrap_or_else(Track::process);
        span.async_slice = Some(AsyncSlice {
            track: match span.name.as_str() {
                "" => parent.unique_child(site.call_site.name()),
                name => parent.unique_child(name.to_owned()),
            },
            begun: None,
            open: OpenAsyncSlice::default(),
            args_len: span.args.len(),
        });
    }
    let links = span.is_linked.then(|| span.linked.links());
    let links = links.unwrap_or_default();
    let (call_site, placement) = site.named(&span.name);
    let Some(async_slice) = &mut span.async_slice else {
        return;
    };
    let mut is_seen_by_all = true;
    TRACK_EVENT.trace(slots, |instance| {
        is_seen_by_all &= async_slice
            .begun
            .is_some_and(|begun| begun.is_known_to(instance));
    });
    if is_seen_by_all {
        return;
    }
    let mut seen_by = async_slice.begun.and_then(BeginSessions::still_recording);
    let track = &async_slice.track;
    let placement = placement.on(track);
    let flows = [flow];
    // Take only the arguments that the slice's begin had. Values that were recorded later are in
    // the slice's end.
    let args = span.args.get(..async_slice.args_len).unwrap_or_default();
    let parts = Encoded::new(args, &flows).linked(&links);
    TRACK_EVENT.trace(slots, |instance| {
        if seen_by.is_some_and(|seen_by| seen_by.is_known_to(instance)) {
            return;
        }
        let began = slot
            .first_enter
            .get()
            .filter(|first| first.timestamp_ns < time.timestamp_ns())
            .filter(|first| first.seen_by.includes(instance));
        let began = match began {
            // One nanosecond before the first slice on a thread, so that the flow begins here.
            Some(first) => EventTime::At(first.timestamp_ns - 1),
            None => time,
        };
        call_site.begin_encoded_in(instance, began, &placement, parts);
        seen_by = BeginSessions::union(seen_by, BeginSessions::in_instance(instance));
        if let Some(begun) = BeginSessions::in_ring_of(instance) {
            let (call_site, open) = (&site.call_site, &mut async_slice.open);
            open.begin(track, call_site, begun, began);
        }
    });
    async_slice.begun = seen_by;
}
