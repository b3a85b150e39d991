//! The guards that end spans.

use std::marker::PhantomData;

use super::placement::{EventTime, Placement};
use super::track::Track;
use super::{ENABLED, TRACK_EVENT};
use crate::clock;
use crate::producer;
#[cfg(feature = "testing")]
use crate::producer::Realm;

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
    begun: Begun,
    not_send: PhantomData<*const ()>,
}

/// Ends its span on a track that is not the thread's when it is dropped, by whatever thread. Made by
/// [`span!`](crate::span) with `track: ..`.
#[derive(Debug)]
#[must_use = "the span ends where this is dropped: bind it, as in `let _span = ..`"]
pub struct TrackSpan {
    begun: Begun,
    /// `None` if nobody records it.
    track: Option<Track>,
}

/// Who has seen the begin of a span.
#[derive(Clone, Copy, Debug)]
struct Begun {
    slots: u32,
    /// The capture that the thread wrote to, if it may have seen the begin.
    #[cfg(feature = "testing")]
    capture: Realm,
    /// The generation at the begin: sessions that started later have not seen it.
    generation: u64,
}

impl Begun {
    const NOWHERE: Self = Self {
        slots: 0,
        #[cfg(feature = "testing")]
        capture: Realm::PROCESS,
        generation: 0,
    };

    #[inline(always)]
    fn in_slots(slots: u32) -> Self {
        Self {
            slots,
            #[cfg(feature = "testing")]
            capture: producer::captured_in(slots),
            generation: producer::generation(),
        }
    }

    #[inline(always)]
    fn is_nowhere(self) -> bool {
        !ENABLED || self.slots == 0
    }

    #[inline(always)]
    fn end(self, time: impl FnOnce() -> EventTime, track: Option<&Track>) {
        let slots = self.slots & TRACK_EVENT.active_slots();
        if slots == 0 {
            return;
        }
        let time = time();
        #[cfg(feature = "testing")]
        let _attached = producer::attach_where_begun(slots, self.capture);
        producer::with_instances(&TRACK_EVENT, slots, |instance| {
            if instance.generation <= self.generation {
                let writer = &mut instance.writer;
                instance.events.slice_end(writer, time, track);
            }
        });
    }
}

impl Span {
    /// A span that nobody records.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn none() -> Self {
        Self {
            begun: Begun::NOWHERE,
            not_send: PhantomData,
        }
    }

    #[inline(always)]
    pub(super) fn begun(slots: u32) -> Self {
        Self {
            begun: Begun::in_slots(slots),
            not_send: PhantomData,
        }
    }

    /// Ends the span at another time than now, in nanoseconds on the trace clock.
    pub fn end_at(mut self, timestamp_ns: u64) {
        let begun = std::mem::replace(&mut self.begun, Begun::NOWHERE);
        begun.end(|| EventTime::At(timestamp_ns), None);
    }

    #[inline(never)]
    fn end(&self) {
        self.begun
            .end(|| EventTime::Now(clock::event_now_ns()), None);
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if !self.begun.is_nowhere() {
            self.end();
        }
    }
}

impl TrackSpan {
    /// A span that nobody records.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn none() -> Self {
        Self {
            begun: Begun::NOWHERE,
            track: None,
        }
    }

    #[inline(always)]
    pub(super) fn begun(slots: u32, track: &Track) -> Self {
        Self {
            begun: Begun::in_slots(slots),
            track: Some(track.clone()),
        }
    }

    /// Ends the span at another time than now, in nanoseconds on the trace clock.
    pub fn end_at(mut self, timestamp_ns: u64) {
        let begun = std::mem::replace(&mut self.begun, Begun::NOWHERE);
        begun.end(|| EventTime::At(timestamp_ns), self.track.as_ref());
    }

    #[inline(never)]
    fn end(&self) {
        self.begun
            .end(|| Placement::new().time(), self.track.as_ref());
    }
}

impl Drop for TrackSpan {
    #[inline]
    fn drop(&mut self) {
        if !self.begun.is_nowhere() {
            self.end();
        }
    }
}
