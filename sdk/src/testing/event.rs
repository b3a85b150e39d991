//! What is in a captured trace, one event at a time.

use std::fmt;
use std::time::Duration;

use super::trace::Trace;
use tracezero_reader::Value;

/// A span or an instant in a trace, with what is around it.
#[derive(Clone, Copy)]
pub struct Event<'t> {
    pub(super) trace: &'t Trace,
    pub(super) index: usize,
}

/// What is kept of an event.
#[derive(Debug)]
pub(super) struct EventData {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) categories: Vec<String>,
    /// Those of its end come last.
    pub(super) args: Vec<(String, Value)>,
    /// Position among the tracks.
    pub(super) track: usize,
    pub(super) start_ns: u64,
    /// `None` for a span that has not ended.
    pub(super) end_ns: Option<u64>,
    /// The span around it, as for [`Event::parent`]; for a poll its life.
    pub(super) parent: Option<usize>,
    /// Without polls.
    pub(super) children: Vec<usize>,
    /// If it is a life.
    pub(super) polls: Vec<usize>,
    /// What was around the first of them on its thread.
    pub(super) polled_in: Option<usize>,
    pub(super) flows: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Span,
    /// What a thread did for a span that is a future's.
    Poll,
    Instant,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Span => "span",
            Self::Poll => "poll",
            Self::Instant => "instant",
        })
    }
}

impl<'t> Event<'t> {
    pub(super) fn data(self) -> &'t EventData {
        &self.trace.contents.events[self.index]
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'t str {
        &self.data().name
    }

    /// Its categories.
    pub fn categories(self) -> impl Iterator<Item = &'t str> {
        self.data().categories.iter().map(String::as_str)
    }

    /// Its arguments, in order.
    pub fn args(self) -> impl Iterator<Item = (&'t str, &'t Value)> {
        let args = self.data().args.iter();
        args.map(|(name, value)| (name.as_str(), value))
    }

    /// The argument at `path`: its name, and for what is in dictionaries and arrays names and positions
    /// with a dot between them, as in `request.headers.0`.
    #[must_use]
    pub fn arg(self, path: &str) -> Option<&'t Value> {
        tracezero_reader::find_value(&self.data().args, path)
    }

    /// When it began or was, in nanoseconds on the trace clock.
    #[must_use]
    pub fn start_ns(self) -> u64 {
        self.data().start_ns
    }

    /// When it ended, likewise; `None` for a span that has not.
    #[must_use]
    pub fn end_ns(self) -> Option<u64> {
        self.data().end_ns
    }

    /// How long it took: no time for instants; `None` for a span that has not ended.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        let data = self.data();
        Some(Duration::from_nanos(
            data.end_ns?.saturating_sub(data.start_ns),
        ))
    }

    /// The span around it on its track. For a poll, and what is directly inside of it, that is the span of
    /// the future. For the span of a future it is the one around it on the tracks above its own, or else what
    /// was around its first poll; as long as it ended in there.
    #[must_use]
    pub fn parent(self) -> Option<Self> {
        Some(self.at(self.data().parent?))
    }

    /// The spans around it, from the inside out.
    pub fn ancestors(self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), |event| event.parent())
    }

    /// What is directly inside of it, in order, without polls.
    pub fn children(self) -> impl Iterator<Item = Self> {
        let children = self.data().children.iter();
        children.map(move |&index| self.at(index))
    }

    /// The polls of a future, in order; none for other spans.
    pub fn polls(self) -> impl Iterator<Item = Self> {
        let polls = self.data().polls.iter();
        polls.map(move |&index| self.at(index))
    }

    /// The name of its track: for most events, that of their thread.
    #[must_use]
    pub fn track(self) -> &'t str {
        &self.track_data().name
    }

    /// The name of its thread; `None` if it is on a track of another kind.
    #[must_use]
    pub fn thread(self) -> Option<&'t str> {
        let track = self.track_data();
        track.is_thread.then_some(&track.name)
    }

    /// Numbers of the flows that go through it.
    #[must_use]
    pub fn flows(self) -> &'t [u64] {
        &self.data().flows
    }

    pub(super) fn track_data(self) -> &'t super::trace::TrackData {
        &self.trace.contents.tracks[self.data().track]
    }

    fn at(self, index: usize) -> Self {
        Self {
            trace: self.trace,
            index,
        }
    }
}

/// As one line: its name, its arguments and how long it took.
impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.data();
        match data.kind {
            Kind::Span => {}
            Kind::Poll => f.write_str("poll ")?,
            Kind::Instant => f.write_str("* ")?,
        }
        f.write_str(&data.name)?;
        for (name, value) in &data.args {
            write!(f, " {name}={value}")?;
        }
        match (data.kind, self.duration()) {
            (Kind::Instant, _) => Ok(()),
            (_, Some(duration)) => write!(f, " ({duration:?})"),
            (_, None) => write!(f, " (not ended)"),
        }
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Event")
            .field(&format_args!("{self}"))
            .finish()
    }
}
