//! Spans as slices, and what a trace says of asynchronous ones: a life, and polls.

use crate::{Event, EventKind, Verdict};

/// A slice of a track, from its begin to its end.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Where it begins.
    pub begin: Event,
    /// `None` if it is open when the trace ends.
    pub end: Option<Event>,
    /// Slices around it on its track.
    pub depth: usize,
}

impl Slice {
    /// Whether `other` lies within, on whatever track.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        let end_ns = |slice: &Self| slice.end.as_ref().map_or(u64::MAX, |end| end.timestamp_ns);
        self.begin.timestamp_ns <= other.begin.timestamp_ns && end_ns(other) <= end_ns(self)
    }

    /// The names of the arguments of its end.
    ///
    /// # Panics
    ///
    /// If it is open.
    #[must_use]
    pub fn end_args(&self) -> Vec<&str> {
        let args = self.end.as_ref().expect("it has ended").args.keys();
        args.map(String::as_str).collect()
    }
}

/// An asynchronous span: one slice for all of it, and one for each time that a thread was in it.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The slice on a track of its own.
    pub life: Slice,
    /// Those on threads, by time.
    pub polls: Vec<Slice>,
}

impl Picture {
    /// The threads of its polls, by time.
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

/// All slices by their begins, an outer one before what it contains.
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

/// The slices called `name`, by their begins.
#[must_use]
pub fn slices_named(verdict: &Verdict, name: &str) -> Vec<Slice> {
    let mut slices = slices(verdict);
    slices.retain(|slice| slice.begin.name.as_deref() == Some(name));
    slices
}

/// The only slice called `name`.
///
/// # Panics
///
/// If there is none, or more than one.
#[must_use]
pub fn slice(verdict: &Verdict, name: &str) -> Slice {
    only(slices_named(verdict, name), name)
}

/// The asynchronous spans called `name`, by their first polls.
///
/// # Panics
///
/// If one is not whole: it has a life, and polls within it that one flow joins, from the life's begin
/// to its end. The flow may leave out the first poll.
#[must_use]
pub fn pictures(verdict: &Verdict, name: &str) -> Vec<Picture> {
    let (lives, polls): (Vec<_>, Vec<_>) = slices_named(verdict, name)
        .into_iter()
        .partition(|slice| slice.begin.thread_name.is_none());
    // Threads begin lives at the same nanosecond now and then: each of these has one first poll.
    let mut is_first_of_other = vec![false; polls.len()];
    let pictures: Vec<Picture> = lives
        .into_iter()
        .map(|life| {
            assert_eq!(life.begin.track_name.as_deref(), Some(name));
            let flow = *life.begin.flow_ids.last().expect("a flow begins");
            let is_first = |index: &usize| {
                is_unknown_first(&polls[*index], &life) && !is_first_of_other[*index]
            };
            let first = (0..polls.len()).find(is_first);
            if let Some(first) = first {
                is_first_of_other[first] = true;
            }
            let polls = polls.iter().enumerate().filter(|(index, poll)| {
                poll.begin.flow_ids.contains(&flow) || first == Some(*index)
            });
            if let Some(end) = &life.end {
                assert_eq!(end.terminating_flow_ids, [flow]);
            }
            Picture {
                polls: polls.map(|(_, poll)| poll.clone()).collect(),
                life,
            }
        })
        .collect();
    for Picture { life, polls } in &pictures {
        assert!(polls.iter().all(|poll| life.contains(poll)), "{pictures:?}");
        let first = polls.first().expect("a life begins with a poll");
        assert!(first.begin.timestamp_ns - life.begin.timestamp_ns <= 1);
    }
    let of_lives: usize = pictures.iter().map(|picture| picture.polls.len()).sum();
    assert_eq!(
        of_lives,
        polls.len(),
        "each poll is of one life: {polls:#?}"
    );
    pictures
}

/// Whether this is the poll that a life begins with, written when nobody knew that there would be more.
fn is_unknown_first(poll: &Slice, life: &Slice) -> bool {
    poll.begin.flow_ids.is_empty()
        && poll.begin.timestamp_ns == life.begin.timestamp_ns + 1
        && poll.begin.args == life.begin.args
}

/// The only asynchronous span called `name`.
///
/// # Panics
///
/// As [`pictures`], or if there is none, or more than one.
#[must_use]
pub fn picture(verdict: &Verdict, name: &str) -> Picture {
    only(pictures(verdict, name), name)
}

fn only<T: std::fmt::Debug>(all: Vec<T>, name: &str) -> T {
    let [one] = <[T; 1]>::try_from(all)
        .unwrap_or_else(|all| panic!("one span {name:?} is expected: {all:#?}"));
    one
}
