//! The spans, polls and instants of a trace.

use std::fmt;
use std::time::Duration;

use super::trace::Trace;
use tracezero_reader::Value;

/// A span, a poll or an instant in a trace, with its parent and children.
#[derive(Clone, Copy)]
pub struct Event<'t> {
    pub(super) trace: &'t Trace,
    pub(super) index: usize,
}

/// The data of an event.
#[derive(Clone, Debug)]
pub(super) struct EventData {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) categories: Vec<String>,
    /// The arguments. The arguments of a span's end come last.
    pub(super) args: Vec<(String, Value)>,
    /// The index of its track.
    pub(super) track: usize,
    pub(super) start_ns: u64,
    /// `None` for a span that has not ended.
    pub(super) end_ns: Option<u64>,
    /// The index of its parent, as for [`Event::parent`]. The parent of a poll is the future's
    /// span.
    pub(super) parent: Option<usize>,
    /// The indices of its children, without polls.
    pub(super) children: Vec<usize>,
    /// The indices of the polls, if this is the span of a future.
    pub(super) polls: Vec<usize>,
    /// The index of the span around the first poll, on the thread of that poll, if this is the span
    /// of a future.
    pub(super) polled_in: Option<usize>,
    pub(super) flows: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Span,
    /// A time in which a thread polled a future that has a span.
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

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'t str {
        &self.data().name
    }

    /// Returns the categories.
    pub fn categories(self) -> impl Iterator<Item = &'t str> {
        self.data().categories.iter().map(String::as_str)
    }

    /// Returns the arguments, in order.
    pub fn args(self) -> impl Iterator<Item = (&'t str, &'t Value)> {
        let args = self.data().args.iter();
        args.map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the argument at `path`. The path is the name of the argument. For a value inside
    /// dictionaries or arrays, names and positions follow, separated by dots, as in
    /// `request.headers.0`.
    #[must_use]
    pub fn arg(self, path: &str) -> Option<&'t Value> {
        tracezero_reader::find_value(&self.data().args, path)
    }

    /// Returns the time when the event began, in nanoseconds on the trace clock.
    #[must_use]
    pub fn start_ns(self) -> u64 {
        self.data().start_ns
    }

    /// Returns the time when the event ended, in nanoseconds on the trace clock, or `None` for a
    /// span that has not ended.
    #[must_use]
    pub fn end_ns(self) -> Option<u64> {
        self.data().end_ns
    }

    /// Returns how long the event took: zero for instants, `None` for a span that has not ended.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        let data = self.data();
        Some(Duration::from_nanos(
            data.end_ns?.saturating_sub(data.start_ns),
        ))
    }

    /// Returns the span around the event.
    ///
    /// The parent of most events is the span around the event on the same track. The parent of a
    /// poll, and of events directly inside a poll, is the span of the future. The parent of a
    /// future's span is the span around it on a parent track or, if there is none, the span around
    /// the first poll. In both cases, the future's span must also end inside that span; otherwise
    /// it has no such parent.
    #[must_use]
    pub fn parent(self) -> Option<Self> {
        Some(self.at(self.data().parent?))
    }

    /// Returns the spans around the event, from the inside out.
    pub fn ancestors(self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), |event| event.parent())
    }

    /// Returns the events directly inside this one, in order, without polls.
    pub fn children(self) -> impl Iterator<Item = Self> {
        let children = self.data().children.iter();
        children.map(move |&index| self.at(index))
    }

    /// If this is the span of a future, returns its polls in order. Other events have none.
    pub fn polls(self) -> impl Iterator<Item = Self> {
        let polls = self.data().polls.iter();
        polls.map(move |&index| self.at(index))
    }

    /// Returns the name of the event's track. For most events that is the name of their thread.
    #[must_use]
    pub fn track(self) -> &'t str {
        &self.track_data().name
    }

    /// Returns the name of the event's thread, or `None` if it is on a track of another kind.
    #[must_use]
    pub fn thread(self) -> Option<&'t str> {
        let track = self.track_data();
        track.is_thread.then_some(&track.name)
    }

    /// Returns the ids of the flows that go through the event.
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

/// Prints one line: the name, the arguments and the duration.
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
