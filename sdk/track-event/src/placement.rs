//! The name, time and track of an event, as far as a macro is given them.

use crate::track::Track;
use tracezero_core::clock;

/// The name, time and track of an event, each only if it is not the default: the call site's
/// literal, now, and the current thread's track.
#[derive(Clone, Copy, Debug, Default)]
pub struct Placement<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) track: Option<&'a Track>,
    timestamp_ns: Option<u64>,
}

/// The time of an event.
#[derive(Clone, Copy, Debug)]
pub enum EventTime {
    /// Now, on the clock that events use.
    Now(u64),
    /// A time that the user gave, on the trace clock.
    At(u64),
}

impl EventTime {
    /// Returns the time on the trace clock.
    #[inline]
    #[must_use]
    pub const fn timestamp_ns(self) -> u64 {
        let (Self::Now(timestamp_ns) | Self::At(timestamp_ns)) = self;
        timestamp_ns
    }
}

impl Placement<'static> {
    /// The default name, track and time. As a constant it takes no room on the stack.
    pub(crate) const USUAL: &'static Self = &Self::new();
}

impl<'a> Placement<'a> {
    /// Creates a placement with the default name, track and time.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            name: None,
            track: None,
            timestamp_ns: None,
        }
    }

    /// Sets a name that is not a literal.
    #[inline]
    #[must_use]
    pub fn named(mut self, name: &'a (impl AsRef<str> + ?Sized)) -> Self {
        self.name = Some(name.as_ref());
        self
    }

    /// Sets the track.
    #[inline]
    #[must_use]
    pub const fn on(mut self, track: &'a Track) -> Self {
        self.track = Some(track);
        self
    }

    /// Sets the time, in nanoseconds on the trace clock: see
    /// [`clock::now_ns`](tracezero_core::clock::now_ns).
    #[inline]
    #[must_use]
    pub const fn at(mut self, timestamp_ns: u64) -> Self {
        self.timestamp_ns = Some(timestamp_ns);
        self
    }

    /// Returns true if name and track are the defaults.
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
