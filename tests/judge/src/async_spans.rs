//! Slices of a trace, and asynchronous spans: a slice for the whole span, and a slice for each
//! poll.

use crate::{Event, EventKind, Verdict};

/// A slice of a track, from its begin to its end.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The event that begins it.
    pub begin: Event,
    /// The event that ends it; `None` if it is open when the trace ends.
    pub end: Option<Event>,
    /// The number of slices around it on its track.
    pub depth: usize,
}

impl Slice {
    /// Returns true if `other` lies within this slice in time, on any track.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        let end_ns = |slice: &Self| slice.end.as_ref().map_or(u64::MAX, |end| end.timestamp_ns);
        self.begin.timestamp_ns <= other.begin.timestamp_ns && end_ns(other) <= end_ns(self)
    }

    /// Returns the names of the arguments of its end.
    ///
    /// # Panics
    ///
    /// If the slice is open.
    #[must_use]
    pub fn end_args(&self) -> Vec<&str> {
        let args = self.end.as_ref().expect("it has ended").args.keys();
        args.map(String::as_str).collect()
    }
}

/// An asynchronous span: one slice for the whole span, and one for each time that a thread was in
/// it (a poll).
#[derive(Clone, Debug)]
pub struct AsyncSpan {
    /// The slice of the whole span, on a track of its own.
    pub slice: Slice,
    /// The slices of the polls, on the tracks of threads, by time.
    pub polls: Vec<Slice>,
}

impl AsyncSpan {
    /// Returns the names of the threads of its polls, by time.
    ///
    /// # Panics
    ///
    /// If a thread has no name.
    #[must_use]
    pub fn threads(&self) -> Vec<&str> {
        let polls = self.polls.iter();
        polls
            .map(|poll| poll.begin.thread_name.as_deref().expect("a thread's name"))
            .collect()
    }
}

/// Returns all slices in the order of their begins; an outer slice precedes those that it contains.
///
/// # Panics
///
/// If an end has no begin.
#[must_use]
pub fn slices(verdict: &Verdict) -> Vec<Slice> {
    let mut events: Vec<&Event> = verdict.events.iter().collect();
    events.sort_by_key(|event| event.timestamp_ns);
    let mut slices: Vec<Slice> = Vec::new();
    for event in events {
        let is_around =
            |slice: &&mut Slice| slice.end.is_none() && slice.begin.track_uuid == event.track_uuid;
        match event.kind {
            EventKind::SliceBegin => {
                let depth = slices.iter_mut().filter(is_around).count();
                slices.push(Slice {
                    begin: event.clone(),
                    end: None,
                    depth,
                });
            }
            EventKind::SliceEnd => {
                let innermost = slices.iter_mut().rev().find(is_around);
                innermost.expect("an end has a begin").end = Some(event.clone());
            }
            _ => {}
        }
    }
    slices
}

/// Returns the slices called `name`, in the order of their begins.
#[must_use]
pub fn slices_named(verdict: &Verdict, name: &str) -> Vec<Slice> {
    let mut slices = slices(verdict);
    slices.retain(|slice| slice.begin.name.as_deref() == Some(name));
    slices
}

/// Returns the only slice called `name`.
///
/// # Panics
///
/// If there is none, or more than one.
#[must_use]
pub fn slice(verdict: &Verdict, name: &str) -> Slice {
    only(slices_named(verdict, name), name)
}

/// Returns the asynchronous spans called `name`, in the order of their begins.
///
/// # Panics
///
/// If a span is incomplete. It must have a slice on a track of its own, polls within that slice,
/// and one flow that leads from the slice's begin through the polls to its end. The flow may leave
/// out the first poll.
#[must_use]
pub fn async_spans_named(verdict: &Verdict, name: &str) -> Vec<AsyncSpan> {
    let (wholes, polls): (Vec<_>, Vec<_>) = slices_named(verdict, name)
        .into_iter()
        .partition(|slice| slice.begin.thread_name.is_none());
    // Two threads may begin spans at the same nanosecond: each first poll belongs to one span only.
    let mut is_first_of_other = vec![false; polls.len()];
    let spans: Vec<AsyncSpan> = wholes
        .into_iter()
        .map(|whole| {
            assert_eq!(whole.begin.track_name.as_deref(), Some(name));
            let flow = *whole.begin.flow_ids.last().expect("a flow begins");
            let is_first = |index: &usize| {
                is_unknown_first(&polls[*index], &whole) && !is_first_of_other[*index]
            };
            let first = (0..polls.len()).find(is_first);
            if let Some(first) = first {
                is_first_of_other[first] = true;
            }
            let polls = polls.iter().enumerate().filter(|(index, poll)| {
                poll.begin.flow_ids.contains(&flow) || first == Some(*index)
            });
            if let Some(end) = &whole.end {
                assert_eq!(end.terminating_flow_ids, [flow]);
            }
            AsyncSpan {
                polls: polls.map(|(_, poll)| poll.clone()).collect(),
                slice: whole,
            }
        })
        .collect();
    for AsyncSpan { slice, polls } in &spans {
        assert!(polls.iter().all(|poll| slice.contains(poll)), "{spans:?}");
        let first = polls.first().expect("a life begins with a poll");
        assert!(first.begin.timestamp_ns - slice.begin.timestamp_ns <= 1);
    }
    let in_spans: usize = spans.iter().map(|span| span.polls.len()).sum();
    assert_eq!(
        in_spans,
        polls.len(),
        "each poll is of one life: {polls:#?}"
    );
    spans
}

/// Returns true if `poll` is the first poll of the span `whole` and has no flow. The SDK records
/// such a poll when it does not know yet that more polls will follow.
fn is_unknown_first(poll: &Slice, whole: &Slice) -> bool {
    poll.begin.flow_ids.is_empty()
        && poll.begin.timestamp_ns == whole.begin.timestamp_ns + 1
        && poll.begin.args == whole.begin.args
}

/// Returns the only asynchronous span called `name`.
///
/// # Panics
///
/// If [`async_spans_named`] panics, or if there is not exactly one.
#[must_use]
pub fn async_span_named(verdict: &Verdict, name: &str) -> AsyncSpan {
    only(async_spans_named(verdict, name), name)
}

fn only<T: std::fmt::Debug>(all: Vec<T>, name: &str) -> T {
    let [one] = <[T; 1]>::try_from(all)
        .unwrap_or_else(|all| panic!("one span {name:?} is expected: {all:#?}"));
    one
}
