//! Questions about the spans or instants of a name.

use std::fmt::{self, Write};
use std::time::Duration;

use super::condition::Condition;
use super::event::{Event, Kind};
use super::failure;
use super::trace::Trace;
use tracezero_reader::Value;

/// The spans, polls or instants of a name that meet conditions: what [`Trace::span`], [`Trace::polls`]
/// and [`Trace::instant`] give.
///
/// Conditions narrow it down, then a count is asserted:
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
/// What a count returns is [`Found`], whose conditions are assertions.
#[derive(Clone)]
#[must_use = "it asserts nothing without a count, such as `once`"]
pub struct Query<'t> {
    trace: &'t Trace,
    kind: Kind,
    name: String,
    conditions: Vec<Condition>,
}

/// Spans, polls or instants that were found. Each condition from here on is an assertion, which all of them
/// must meet.
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
///     .inside("read")
///     .arg("key", "k")
///     .took_less_than(Duration::from_secs(5));
/// ```
#[derive(Clone)]
pub struct Found<'t> {
    query: Query<'t>,
    events: Vec<Event<'t>>,
}

/// The same conditions for both. Each takes what it adds to the name, and hands on a [`Condition`].
macro_rules! conditions {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) => $condition:expr;)*) => {
        /// Conditions: only what meets them is asked for.
        impl Query<'_> {
            $($(#[$doc])*
            pub fn $name(self $(, $arg: $type)*) -> Self {
                self.with($condition)
            })*
        }

        /// Assertions: the test fails if one of those found does not meet the condition.
        ///
        /// # Panics
        ///
        /// Each, if that is so.
        impl Found<'_> {
            $($(#[$doc])*
            ///
            /// # Panics
            ///
            /// If one of those found does not meet the condition.
            #[track_caller]
            pub fn $name(self $(, $arg: $type)*) -> Self {
                self.check($condition)
            })*
        }
    };
}

conditions! {
    /// It is inside a span of this name, directly or not; see [`Event::parent`].
    inside(name: &str) => Condition::Inside(name.to_owned());
    /// The span that it is directly inside of has this name.
    directly_inside(name: &str) => Condition::DirectlyInside(name.to_owned());
    /// It is inside of no span.
    at_top() => Condition::AtTop;
    /// It has this argument: a path, as for [`Event::arg`], and its value. Numbers are compared
    /// whatever their type.
    arg(path: &str, value: impl Into<Value>) => Condition::Arg(path.to_owned(), value.into());
    /// It has an argument at this path, whatever its value.
    has_arg(path: &str) => Condition::HasArg(path.to_owned());
    /// It is of this category, among others maybe.
    category(category: &str) => Condition::Category(category.to_owned());
    /// It is on the track of a thread of this name. The one that captures is "this thread" as well.
    on_thread(name: &str) => Condition::OnThread(name.to_owned());
    /// It is on a track of this name, of whatever kind.
    on_track(name: &str) => Condition::OnTrack(name.to_owned());
    /// It has ended, and took less time than this.
    took_less_than(limit: Duration) => Condition::TookLessThan(limit);
    /// It has ended, and took as much time as this, or more.
    took_at_least(limit: Duration) => Condition::TookAtLeast(limit);
    /// It has ended.
    has_ended() => Condition::HasEnded;
    /// It was over when the first span or instant of this name began.
    before(name: &str) => Condition::Before(name.to_owned());
    /// It began when all spans and instants of this name were over.
    after(name: &str) => Condition::After(name.to_owned());
    /// A flow leads from it to a later span or instant of this name.
    flows_to(name: &str) => Condition::FlowsTo(name.to_owned());
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

    /// Asserts that there is exactly one.
    ///
    /// # Panics
    ///
    /// If there is none, or there are several.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "it is called for the panic")]
    pub fn once(self) -> Found<'t> {
        self.times(1)
    }

    /// Asserts that there are exactly so many.
    ///
    /// # Panics
    ///
    /// If there are fewer or more.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "it is called for the panic")]
    pub fn times(self, count: usize) -> Found<'t> {
        self.count_is(|found| found == count, &format!("exactly {count}"), count)
    }

    /// Asserts that there are so many, or more.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "it is called for the panic")]
    pub fn at_least(self, count: usize) -> Found<'t> {
        self.count_is(|found| found >= count, &format!("at least {count}"), count)
    }

    /// Asserts that there is none.
    ///
    /// # Panics
    ///
    /// If there is one.
    #[track_caller]
    pub fn never(self) {
        self.count_is(|found| found == 0, "no", 1);
    }

    /// Those that meet the conditions, by the times when they began, without an assertion.
    #[must_use]
    pub fn all(&self) -> Vec<Event<'t>> {
        let meets = |event: &Event<'t>| self.conditions.iter().all(|it| it.holds(*event));
        self.candidates().filter(meets).collect()
    }

    fn with(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Those of the name.
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
            // With conditions, whatever has the name may be what was meant.
            let marked: Vec<Event<'t>> = match events.is_empty() {
                true => self.candidates().collect(),
                false => events,
            };
            if marked.is_empty() {
                let similar = failure::similar_name(self.trace, self.kind, &self.name);
                message.push_str(&similar);
            } else if !is_right(marked.len()) && self.conditions.is_empty() {
                // The count says it.
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

    /// Why events of the name are not among those found.
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

impl<'t> Found<'t> {
    /// Those that were found, by the times when they began.
    pub fn iter(&self) -> impl Iterator<Item = Event<'t>> {
        self.events.iter().copied()
    }

    /// The only one.
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

/// The name and the conditions.
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
