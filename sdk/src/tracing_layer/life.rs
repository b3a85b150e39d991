//! The slice of an asynchronous span, from its first enter to its close, on a track of its own.
//!
//! The first enter does not tell whether a span is asynchronous. The second one does: then the slice begins,
//! a nanosecond before the time of the first enter, and the call site is remembered (`Pattern`), so that its
//! next spans get theirs at once. Spans that are entered once pay nothing for it. In a capture, which depends
//! on nothing that was traced before, each span waits for its second enter, and has a flow from the first.
//!
//! So, but for captures, the first polls of the first such spans of a call site have no flow. A flow on every
//! first enter would lead nowhere for each span that is entered once. Outlines and queries of tests tell
//! these polls by their times (`reader/first_polls.rs`).

use tracing_core::Subscriber;
use tracing_core::span::Id;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::first_enter::Enter;
use super::layer::TracingLayer;
use super::site::Site;
use super::spans::{Life, Slot, SpanState};
use tracezero_core::clock;
use tracezero_track_event::{Begun, Encoded, EventTime, Flow, TRACK_EVENT, Track};

impl TracingLayer {
    /// The track of the innermost asynchronous span around this one.
    ///
    /// A span in which an asynchronous one goes on is taken for one, too: as long as that is so it will
    /// most likely be entered again.
    pub(super) fn parent_track<S>(
        &self,
        begun: Begun,
        id: &Id,
        context: &Context<'_, S>,
    ) -> Option<Track>
    where
        S: Subscriber + for<'l> LookupSpan<'l>,
    {
        let mut parent = None;
        // From the inside out. A span's lock is held while those around it are locked, and never the
        // other way.
        let mut beginning = Vec::new();
        for around in context.span(id)?.scope().skip(1) {
            let Some((_, slot)) = self.spans.find(around.id().into_u64()) else {
                continue;
            };
            let state = slot.lock();
            if let Some(life) = &state.life {
                parent = Some(life.track.clone());
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
            begin_life(slot, &mut state, site, slots, time, || parent);
            parent = state.life.as_ref().map(|life| life.track.clone());
        }
        parent
    }
}

/// Begins the slice of an asynchronous span on a track of its own, below that of `parent`, in those
/// sessions of `slots` that have not seen it begin.
#[inline]
pub(super) fn begin_life(
    slot: &Slot,
    span: &mut SpanState,
    site: &'static Site,
    slots: u32,
    time: EventTime,
    parent: impl FnOnce() -> Option<Track>,
) {
    slot.needs_end();
    let flow = *span.flow.get_or_insert_with(Flow::new);
    if span.life.is_none() {
        let parent = parent().unwrap_or_else(Track::process);
        span.life = Some(Life {
            track: match span.name.as_str() {
                "" => parent.unique_child(site.call_site.name()),
                name => parent.unique_child(name.to_owned()),
            },
            begun: None,
            args_len: span.args.len(),
        });
    }
    let (call_site, placement) = site.named(&span.name);
    let Some(life) = &mut span.life else { return };
    let mut is_seen_by_all = true;
    TRACK_EVENT.trace(slots, |instance| {
        is_seen_by_all &= life.begun.is_some_and(|begun| begun.is_known_to(instance));
    });
    if is_seen_by_all {
        return;
    }
    let mut seen_by = life.begun.and_then(Begun::still_recording);
    let placement = placement.on(&life.track);
    let flows = [flow];
    // Values that came since are in the end.
    let args = span.args.get(..life.args_len).unwrap_or_default();
    let parts = Encoded::new(args, &flows);
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
            // Before the first slice on a thread, so that the flow comes from here.
            Some(first) => EventTime::At(first.timestamp_ns - 1),
            None => time,
        };
        call_site.begin_encoded_in(instance, began, &placement, parts);
        seen_by = Begun::union(seen_by, Begun::in_instance(instance));
    });
    life.begun = seen_by;
}
