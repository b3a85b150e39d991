//! The guards that end spans.

use std::marker::PhantomData;

use crate::begun::Begun;
use crate::call_site::CallSite;
use crate::data_source::TRACK_EVENT;
use crate::event::EventParts;
use crate::open_slices::{self, SlicePosition};
use crate::placement::{EventTime, Placement};
use crate::recorded::Recorded;
use crate::slice_end::{Plain, SliceEnd, WithParts, end_around};
use crate::track::Track;
use crate::track_slices::{self, GuardId};
use tracezero_core::clock;

/// Ends its span when it is dropped, also by a panic. Made by [`span!`](crate::span).
///
/// It belongs to the thread that began the span:
///
/// ```compile_fail
/// let span = tracezero::span!("app", "work");
/// std::thread::spawn(move || drop(span));
/// ```
///
/// [`end!`](crate::end) ends it earlier, with arguments that are known only then, and
/// [`end_at`](Self::end_at) at a time of its own.
///
/// One that is not bound ends at once, which the compiler warns of:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// tracezero::span!("app", "work");
/// ```
#[derive(Debug)]
#[must_use = "the span ends where this is dropped: bind it, as in `let _span = ..`"]
pub struct Span {
    open: Recorded<SlicePosition>,
    not_send: PhantomData<*const ()>,
}

/// Ends its span on a track that is not the thread's when it is dropped, by whatever thread. Made by
/// [`span!`](crate::span) with `track: ..`.
///
/// [`end!`](crate::end) ends it earlier, with arguments that are known only then, and
/// [`end_at`](Self::end_at) at a time of its own.
#[derive(Debug)]
#[must_use = "the span ends where this is dropped: bind it, as in `let _span = ..`"]
pub struct TrackSpan {
    open: Recorded<OnTrack>,
}

/// A slice that is open on a track of its own.
#[derive(Debug)]
struct OnTrack {
    begun: Begun,
    track: Track,
    guard: GuardId,
}

impl Span {
    /// A span that nobody records.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn none() -> Self {
        Self {
            open: Recorded::NOTHING,
            not_send: PhantomData,
        }
    }

    /// Ends a slice on the track of this thread.
    #[inline(always)]
    pub(super) fn new(open: SlicePosition) -> Self {
        Self {
            open: Recorded::new(open),
            not_send: PhantomData,
        }
    }

    /// Returns the position of the slice, which goes on.
    pub(super) const fn into_position(mut self) -> Option<SlicePosition> {
        let open = self.open.take();
        std::mem::forget(self);
        open
    }

    /// Ends the span at another time than now, in nanoseconds on the trace clock.
    pub fn end_at(mut self, timestamp_ns: u64) {
        if let Some(open) = self.open.take() {
            Self::end(open, || EventTime::At(timestamp_ns), &Plain);
        }
    }

    /// Returns whether a session has seen the begin.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub const fn is_recorded(&self) -> bool {
        self.open.as_ref().is_some()
    }

    /// Ends the span at the time of `placement`, with `parts`.
    #[doc(hidden)]
    #[inline(never)]
    pub fn end_with<P: EventParts>(
        mut self,
        site: &'static CallSite,
        placement: &Placement<'_>,
        parts: &P,
    ) {
        if let Some(open) = self.open.take() {
            WithParts::end(site, parts, |end| Self::end(open, || placement.time(), end));
        }
    }

    #[inline(never)]
    fn end_now(open: SlicePosition) {
        Self::end(open, || EventTime::Now(clock::event_now_ns()), &Plain);
    }

    /// Writes the end for each session that has seen the begin.
    #[inline(always)]
    fn end(open: SlicePosition, time: impl FnOnce() -> EventTime, end: &impl SliceEnd) {
        let Some(words) = open_slices::pop(open) else {
            let time = time();
            return end_around(open, time, |instance| end.write(instance, time, None));
        };
        let [slots, _] = words;
        let slots = TRACK_EVENT.active_of(slots as u32);
        if slots != 0 {
            let time = time();
            Begun::each_of_words(words, slots, |instance| end.write(instance, time, None));
        }
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(open) = self.open.as_ref() {
            Self::end_now(*open);
        }
    }
}

impl TrackSpan {
    /// A span that nobody records.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn none() -> Self {
        Self {
            open: Recorded::NOTHING,
        }
    }

    #[inline(always)]
    pub(super) fn new(begun: Begun, track: &Track, guard: GuardId) -> Self {
        let track = track.clone();
        Self {
            open: Recorded::new(OnTrack {
                begun,
                track,
                guard,
            }),
        }
    }

    /// Ends the span at another time than now, in nanoseconds on the trace clock.
    pub fn end_at(mut self, timestamp_ns: u64) {
        if let Some(open) = self.open.take() {
            Self::end(&open, || EventTime::At(timestamp_ns), &Plain);
        }
    }

    /// Returns whether a session has seen the begin.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub const fn is_recorded(&self) -> bool {
        self.open.as_ref().is_some()
    }

    /// Ends the span at the time of `placement`, with `parts`.
    #[doc(hidden)]
    #[inline(never)]
    pub fn end_with<P: EventParts>(
        mut self,
        site: &'static CallSite,
        placement: &Placement<'_>,
        parts: &P,
    ) {
        if let Some(open) = self.open.take() {
            WithParts::end(site, parts, |end| {
                Self::end(&open, || placement.time(), end);
            });
        }
    }

    #[inline(never)]
    fn end_now(open: &OnTrack) {
        Self::end(open, || Placement::USUAL.time(), &Plain);
    }

    /// Writes the end for each session that has seen the begin.
    #[inline(always)]
    fn end(open: &OnTrack, time: impl FnOnce() -> EventTime, end: &impl SliceEnd) {
        let OnTrack {
            begun,
            track,
            guard,
        } = open;
        let Some((time, pieces)) = track_slices::remove(track, *guard, *begun, time) else {
            return;
        };
        let slots = begun.active_slots();
        if slots == 0 {
            return;
        }
        begun.each(slots, |instance| {
            pieces.interrupt(instance, time, Some(track), |instance| {
                end.write(instance, time, Some(track));
            });
        });
    }
}

impl Drop for TrackSpan {
    #[inline]
    fn drop(&mut self) {
        if let Some(open) = self.open.as_ref() {
            Self::end_now(open);
        }
    }
}
