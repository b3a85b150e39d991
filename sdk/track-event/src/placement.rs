//! What an event is called, when it was and where it is drawn, if a macro is told so.

use crate::track::Track;
use tracezero_core::clock;

/// What differs from the rule: the literal as name, now, on the track of the thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Placement<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) track: Option<&'a Track>,
    timestamp_ns: Option<u64>,
}

/// When an event was.
#[derive(Clone, Copy, Debug)]
pub enum EventTime {
    /// Just now, by the clock of events.
    Now(u64),
    /// At a time that the user gave, on the trace clock.
    At(u64),
}

impl EventTime {
    /// On the trace clock.
    #[inline]
    #[must_use]
    pub const fn timestamp_ns(self) -> u64 {
        let (Self::Now(timestamp_ns) | Self::At(timestamp_ns)) = self;
        timestamp_ns
    }
}

impl Placement<'static> {
    /// Nothing differs. One that is in the program already needs no room on the stack.
    pub(crate) const USUAL: &'static Self = &Self::new();
}

impl<'a> Placement<'a> {
    /// Nothing differs.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            name: None,
            track: None,
            timestamp_ns: None,
        }
    }

    /// The event has a name that is no literal.
    #[inline]
    #[must_use]
    pub fn named(mut self, name: &'a (impl AsRef<str> + ?Sized)) -> Self {
        self.name = Some(name.as_ref());
        self
    }

    /// The event belongs to a track.
    #[inline]
    #[must_use]
    pub const fn on(mut self, track: &'a Track) -> Self {
        self.track = Some(track);
        self
    }

    /// The event was at a time, in nanoseconds on the trace clock: see
    /// [`clock::now_ns`](tracezero_core::clock::now_ns).
    #[inline]
    #[must_use]
    pub const fn at(mut self, timestamp_ns: u64) -> Self {
        self.timestamp_ns = Some(timestamp_ns);
        self
    }

    /// Whether name and track are as ever.
    #[inline]
    pub(super) const fn is_usual(&self) -> bool {
        self.name.is_none() && self.track.is_none()
    }

    #[inline]
    pub(super) fn time(&self) -> EventTime {
        match self.timestamp_ns {
            Some(timestamp_ns) => EventTime::At(timestamp_ns),
            None => EventTime::Now(clock::event_now_ns()),
        }
    }
}
