//! Queries for spans, polls or instants by name.

use std::fmt::{self, Write};
use std::iter::Copied;
use std::slice;
use std::time::Duration;

use super::condition::Condition;
use super::event::{Event, Kind};
use super::failure;
use super::trace::Trace;
use tracezero_reader::Value;

/// A query for spans, polls or instants: it finds those that have a given name and meet conditions.
/// [`Trace::span`], [`Trace::polls`] and [`Trace::instant`] create it.
///
/// Methods with conditions narrow the query down. Then a method such as [`once`](Self::once)
/// asserts the count:
///
/// ```
/// # use tracezero::{span, testing::capture};
/// # let capture = capture();
/// # { let _read = span!("io", "read"); drop(span!("io", "disk_read", block = 7)); }
/// # let trace = capture.finish();
/// trace.span("disk_read").inside("read").arg("block", 7).once();
/// trace.span("disk_read").arg("block", 8).never();
/// ```
///
/// These methods return [`Found`], on which conditions are assertions.
#[derive(Clone)]
#[must_use = "a query asserts nothing without a count, such as `once`"]
pub struct Query<'t> {
    trace: &'t Trace,
    kind: Kind,
    name: String,
    conditions: Vec<Condition>,
}

/// The events that a [`Query`] found. Each `assert_..` method panics unless all of these events
/// meet the method's condition.
///
/// ```
/// # use std::time::Duration;
/// # use tracezero::{span, testing::capture};
/// # let capture = capture();
/// # { let _read = span!("io", "read"); drop(span!("io", "cache_hit", key = "k")); }
/// # let trace = capture.finish();
/// trace
///     .span("cache_hit")
///     .once()
///     .assert_inside("read")
///     .assert_arg("key", "k")
///     .assert_took_less_than(Duration::from_secs(5));
/// ```
#[derive(Clone)]
pub struct Found<'t> {
    query: Query<'t>,
    events: Vec<Event<'t>>,
}

/// Defines each condition as a method of [`Query`], which filters, and as a method of [`Found`],
/// which asserts.
macro_rules! conditions {
    ($($(#[doc = $doc:literal])* $filter:ident, $assert:ident($($arg:ident: $type:ty),*) => $condition:expr;)*) => {
        /// Conditions, which narrow down the events that the query finds.
        impl Query<'_> {
            $(#[doc = concat!("Keeps the events that meet this condition:" $(, $doc)*)]
            pub fn $filter(self $(, $arg: $type)*) -> Self {
                self.with($condition)
            })*
        }

        /// Assertions, which every event that was found must meet.
        impl Found<'_> {
            $(#[doc = concat!("Asserts for every event that was found:" $(, $doc)*)]
            ///
            /// # Panics
            ///
            /// If an event does not meet the condition.
            #[track_caller]
            pub fn $assert(self $(, $arg: $type)*) -> Self {
                self.check($condition)
            })*
        }
    };
}

conditions! {
    /// it is inside a span with this name, directly or not; see [`Event::parent`].
    inside, assert_inside(name: &str) => Condition::Inside(name.to_owned());
    /// the span directly around it has this name.
    directly_inside, assert_directly_inside(name: &str) => Condition::DirectlyInside(name.to_owned());
    /// it is not inside any span.
    at_top, assert_at_top() => Condition::AtTop;
    /// it has this argument with this value. The path is that of [`Event::arg`]. Two numbers are
    /// equal if they have the same value, even if they have different types.
    arg, assert_arg(path: &str, value: impl Into<Value>) => Condition::Arg(path.to_owned(), value.into());
    /// it has an argument at this path, with any value.
    has_arg, assert_has_arg(path: &str) => Condition::HasArg(path.to_owned());
    /// it has this category, perhaps among others.
    category, assert_category(category: &str) => Condition::Category(category.to_owned());
    /// it is on the track of a thread with this name. The thread that captures is also called
    /// "this thread".
    on_thread, assert_on_thread(name: &str) => Condition::OnThread(name.to_owned());
    /// it is on a track with this name, of any kind.
    on_track, assert_on_track(name: &str) => Condition::OnTrack(name.to_owned());
    /// it has ended, and took less time than `limit`.
    took_less_than, assert_took_less_than(limit: Duration) => Condition::TookLessThan(limit);
    /// it has ended, and took `limit` or longer.
    took_at_least, assert_took_at_least(limit: Duration) => Condition::TookAtLeast(limit);
    /// it has ended.
    has_ended, assert_has_ended() => Condition::HasEnded;
    /// it ended before the first span or instant with this name began.
    before, assert_before(name: &str) => Condition::Before(name.to_owned());
    /// it began after all spans and instants with this name had ended.
    after, assert_after(name: &str) => Condition::After(name.to_owned());
    /// a flow leads from it to a later span or instant with this name.
    flows_to, assert_flows_to(name: &str) => Condition::FlowsTo(name.to_owned());
}

impl<'t> Query<'t> {
    pub(super) fn new(trace: &'t Trace, kind: Kind, name: &str) -> Self {
        Self {
            trace,
            kind,
            name: name.to_owned(),
            conditions: Vec::new(),
        }
    }

    /// Asserts that exactly one event meets the conditions.
    ///
    /// # Panics
    ///
    /// If no event meets the conditions, or several events do.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "it is called for the panic")]
    pub fn once(self) -> Found<'t> {
        self.times(1)
    }

    /// Asserts that exactly `count` events meet the conditions.
    ///
    /// # Panics
    ///
    /// If fewer or more events meet the conditions.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "it is called for the panic")]
    pub fn times(self, count: usize) -> Found<'t> {
        self.count_is(|found| found == count, &format!("exactly {count}"), count)
    }

    /// Asserts that `count` or more events meet the conditions.
    ///
    /// # Panics
    ///
    /// If fewer events meet the conditions.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "it is called for the panic")]
    pub fn at_least(self, count: usize) -> Found<'t> {
        self.count_is(|found| found >= count, &format!("at least {count}"), count)
    }

    /// Asserts that no event meets the conditions.
    ///
    /// # Panics
    ///
    /// If any event meets the conditions.
    #[track_caller]
    pub fn never(self) {
        self.count_is(|found| found == 0, "no", 1);
    }

    /// Returns the events that meet the conditions, in the order of their begins, and asserts
    /// nothing.
    #[must_use]
    pub fn all(&self) -> Vec<Event<'t>> {
        let meets = |event: &Event<'t>| self.conditions.iter().all(|it| it.holds(*event));
        self.candidates().filter(meets).collect()
    }

    fn with(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Returns the events with the name, whatever the conditions.
    fn candidates(&self) -> impl Iterator<Item = Event<'t>> {
        let events = self.trace.of_kind(self.kind);
        events.filter(|event| event.name() == self.name)
    }

    #[track_caller]
    fn count_is(self, is_right: impl Fn(usize) -> bool, words: &str, count: usize) -> Found<'t> {
        let events = self.all();
        let found = events.len();
        if !is_right(found) {
            let plural = if count == 1 { "" } else { "s" };
            let kind = self.kind;
            let mut message = format!("expected {words} {kind}{plural} {self}, found {found}");
            // If no event meets the conditions, one that only has the name may be meant.
            let marked: Vec<Event<'t>> = match events.is_empty() {
                true => self.candidates().collect(),
                false => events,
            };
            if marked.is_empty() {
                let similar = failure::similar_name(self.trace, self.kind, &self.name);
                message.push_str(&similar);
            } else if !is_right(marked.len()) && self.conditions.is_empty() {
                // The query has no conditions that an event could fail: only the number of events
                // is wrong. The message states that number already.
            } else {
                self.write_objections(&marked, &mut message);
            }
            if found < count {
                message.push_str(failure::attach_hint(self.trace));
            }
            panic!("{message}{}", failure::tree(self.trace, &marked));
        }
        Found {
            query: self,
            events,
        }
    }

    /// Writes, for events with the name, why the query has not found them.
    fn write_objections(&self, candidates: &[Event<'t>], message: &mut String) {
        for event in candidates.iter().take(failure::EVENTS_MAX) {
            let failed = self.conditions.iter().find(|it| !it.holds(*event));
            if let Some(condition) = failed {
                // Writing to a string does not fail.
                let _ = write!(message, "\n{}", condition.objection("one", *event));
            }
        }
    }
}

impl<'f, 't> IntoIterator for &'f Found<'t> {
    type Item = Event<'t>;
    type IntoIter = Copied<slice::Iter<'f, Event<'t>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.events.iter().copied()
    }
}

impl<'t> Found<'t> {
    /// Returns the events that were found, in the order of their begins.
    pub fn iter(&self) -> Copied<slice::Iter<'_, Event<'t>>> {
        self.into_iter()
    }

    /// Returns the only event.
    ///
    /// # Panics
    ///
    /// If several were found, or none.
    #[must_use]
    #[track_caller]
    pub fn single(&self) -> Event<'t> {
        match self.events.as_slice() {
            [event] => *event,
            events => panic!(
                "expected a single {} {}, found {}",
                self.query.kind,
                self.query,
                events.len()
            ),
        }
    }

    #[track_caller]
    fn check(self, condition: Condition) -> Self {
        let objecting: Vec<Event<'t>> = self
            .iter()
            .filter(|event| !condition.holds(*event))
            .collect();
        if let Some(first) = objecting.first() {
            let Query { trace, kind, .. } = self.query;
            let objection = condition.objection("it", *first);
            let query = &self.query;
            panic!(
                "expected {kind} {query} {condition}, but {objection}{}",
                failure::tree(trace, &objecting)
            );
        }
        self
    }
}

/// Prints the name and the conditions.
impl fmt::Display for Query<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name)?;
        for condition in &self.conditions {
            write!(f, " {condition}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Query<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Query({} {self})", self.kind)
    }
}

impl fmt::Debug for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.events).finish()
    }
}
