//! The guards of spans.

use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::begin_sessions::BeginSessions;
use crate::call_site::CallSite;
use crate::data_source::TRACK_EVENT;
use crate::event::EventParts;
use crate::guard_state::GuardState;
use crate::open_slices::{self, SlicePosition};
use crate::placement::{EventTime, Placement};
use crate::slice_end::{Plain, SliceEnd, WithParts, end_around};
use crate::track::Track;
use crate::track_slices::{self, GuardId};
use tracezero_core::clock;

/// A guard that ends its span when it is dropped, also during a panic. [`span!`](crate::span)
/// creates it.
///
/// It must be dropped on the thread that began the span:
///
/// ```compile_fail
/// let span = tracezero::span!("app", "work");
/// std::thread::spawn(move || drop(span));
/// ```
///
/// [`end!`](crate::end) ends the span earlier and adds arguments. [`end_at`](Self::end_at) ends it
/// with a given time.
///
/// A guard that is not bound to a variable ends its span at once; the compiler warns of that:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// tracezero::span!("app", "work");
/// ```
#[derive(Debug)]
#[must_use = "the span ends where this is dropped: bind it, as in `let _span = ..` (not `let _ = ..`, which drops it at once)"]
pub struct Span {
    open: GuardState<SlicePosition>,
    not_send: PhantomData<dyn SpanEndsOnItsThread__use_traced_async_span_or_track>,
}

/// A guard of a span on another track than the thread's. Any thread may drop the guard, which ends
/// the span. [`span!`](crate::span) creates it if `track:` is given.
///
/// [`end!`](crate::end) ends the span earlier and adds arguments. [`end_at`](Self::end_at) ends it
/// with a given time.
///
/// ```
/// use std::thread;
///
/// use tracezero::{Track, TrackSpan, end, span};
///
/// # let session = tracezero::InMemorySession::start()?;
/// let upload: TrackSpan = span!("http", "upload", track: &Track::unique("upload"));
/// let sender = thread::spawn(move || end!(upload, bytes = 4096));
/// sender.join().expect("no panic");
/// # assert_eq!(session.finish().1.events, 2);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the span ends where this is dropped: bind it, as in `let _span = ..` (not `let _ = ..`, which drops it at once)"]
pub struct TrackSpan {
    open: GuardState<OnTrack>,
}

/// An open slice on a track that is not the thread's.
#[derive(Debug)]
struct OnTrack {
    begun: BeginSessions,
    track: Track,
    guard: GuardId,
}

/// Keeps a guard on its thread. If code sends a guard, the compiler's message names this trait.
#[expect(non_camel_case_types, reason = "the name is the message's advice")]
trait SpanEndsOnItsThread__use_traced_async_span_or_track: Unpin + UnwindSafe + RefUnwindSafe {}

impl Span {
    /// Creates a guard of a span that no session records.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn none() -> Self {
        Self {
            open: GuardState::NOTHING,
            not_send: PhantomData,
        }
    }

    /// Creates the guard of an open slice on this thread's track.
    #[inline(always)]
    pub(super) fn new(open: SlicePosition) -> Self {
        Self {
            open: GuardState::new(open),
            not_send: PhantomData,
        }
    }

    /// Returns the position of the slice without ending it.
    pub(super) const fn into_position(mut self) -> Option<SlicePosition> {
        let open = self.open.take();
        std::mem::forget(self);
        open
    }

    /// Ends the span at a given time, in nanoseconds on the trace clock.
    pub fn end_at(mut self, timestamp_ns: u64) {
        if let Some(open) = self.open.take() {
            Self::end(open, || EventTime::At(timestamp_ns), &Plain);
        }
    }

    /// Returns true if a session has seen the begin.
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

    /// Writes the end into each session that has seen the begin.
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
            BeginSessions::each_of_words(words, slots, |instance| end.write(instance, time, None));
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
    /// Creates a guard of a span that no session records.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn none() -> Self {
        Self {
            open: GuardState::NOTHING,
        }
    }

    #[inline(always)]
    pub(super) fn new(begun: BeginSessions, track: &Track, guard: GuardId) -> Self {
        let track = track.clone();
        Self {
            open: GuardState::new(OnTrack {
                begun,
                track,
                guard,
            }),
        }
    }

    /// Ends the span at a given time, in nanoseconds on the trace clock.
    pub fn end_at(mut self, timestamp_ns: u64) {
        if let Some(open) = self.open.take() {
            Self::end(&open, || EventTime::At(timestamp_ns), &Plain);
        }
    }

    /// Returns true if a session has seen the begin.
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

    /// Writes the end into each session that has seen the begin.
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
