//! The guards that end spans.

use std::marker::PhantomData;

use super::begun::Begun;
use super::placement::{EventTime, Placement};
use super::recorded::Recorded;
use super::track::Track;
use crate::clock;

/// Ends its span when it is dropped, also by a panic. Made by [`span!`](crate::span).
///
/// It belongs to the thread that began the span:
///
/// ```compile_fail
/// let span = tracezero::span!("app", "work");
/// std::thread::spawn(move || drop(span));
/// ```
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
    begun: Recorded<Begun>,
    not_send: PhantomData<*const ()>,
}

/// Ends its span on a track that is not the thread's when it is dropped, by whatever thread. Made by
/// [`span!`](crate::span) with `track: ..`.
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
}

/// Ends the innermost slice on a track, that of the thread for `None`.
#[inline(always)]
fn end(begun: Begun, time: impl FnOnce() -> EventTime, track: Option<&Track>) {
    let slots = begun.active_slots();
    if slots == 0 {
        return;
    }
    let time = time();
    begun.each(slots, |instance| {
        let writer = &mut instance.writer;
        instance.events.slice_end(writer, time, track);
    });
}

impl Span {
    /// A span that nobody records.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn none() -> Self {
        Self {
            begun: Recorded::NOTHING,
            not_send: PhantomData,
        }
    }

    #[inline(always)]
    pub(super) fn begun(begun: Begun) -> Self {
        Self {
            begun: Recorded::new(begun),
            not_send: PhantomData,
        }
    }

    /// Ends the span at another time than now, in nanoseconds on the trace clock.
    pub fn end_at(mut self, timestamp_ns: u64) {
        if let Some(begun) = self.begun.take() {
            end(begun, || EventTime::At(timestamp_ns), None);
        }
    }

    #[inline(never)]
    fn end(begun: Begun) {
        end(begun, || EventTime::Now(clock::event_now_ns()), None);
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(begun) = self.begun.as_ref() {
            Self::end(*begun);
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
    pub(super) fn begun(begun: Begun, track: &Track) -> Self {
        let track = track.clone();
        Self {
            open: Recorded::new(OnTrack { begun, track }),
        }
    }

    /// Ends the span at another time than now, in nanoseconds on the trace clock.
    pub fn end_at(mut self, timestamp_ns: u64) {
        if let Some(OnTrack { begun, track }) = self.open.take() {
            end(begun, || EventTime::At(timestamp_ns), Some(&track));
        }
    }

    #[inline(never)]
    fn end(open: &OnTrack) {
        end(open.begun, || Placement::new().time(), Some(&open.track));
    }
}

impl Drop for TrackSpan {
    #[inline]
    fn drop(&mut self) {
        if let Some(open) = self.open.as_ref() {
            Self::end(open);
        }
    }
}
