//! What a session says of `tracing`.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use judge::{Event, EventKind, ExtraSchema, Options, Verdict, judge_with};
use tracezero::{InMemorySession, TracingLayer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;

/// A slice of a track, from its begin to its end.
#[derive(Clone, Debug)]
pub struct Slice {
    pub begin: Event,
    /// `None` if it is open when the trace ends.
    pub end: Option<Event>,
    /// Slices around it on its track.
    pub depth: usize,
}

impl Slice {
    /// Whether `other` lies within, on whatever track.
    pub fn contains(&self, other: &Self) -> bool {
        let end_ns = |slice: &Self| slice.end.as_ref().map_or(u64::MAX, |end| end.timestamp_ns);
        self.begin.timestamp_ns <= other.begin.timestamp_ns && end_ns(other) <= end_ns(self)
    }
}

/// An asynchronous span.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The slice on a track of its own.
    pub life: Slice,
    /// Those on threads, by time.
    pub polls: Vec<Slice>,
}

impl Picture {
    /// The threads of its polls, by time.
    pub fn threads(&self) -> Vec<&str> {
        let polls = self.polls.iter();
        polls
            .map(|poll| poll.begin.thread_name.as_deref().unwrap())
            .collect()
    }
}

/// Sessions are of the whole process. Where no other subscriber is chosen, the layer has the spans and
/// events of all threads.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(|| {
        let subscriber = registry().with(tracezero::layer());
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a session says in which `record` runs alone.
pub fn recorded(record: impl FnOnce()) -> Verdict {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    record();
    finish(session)
}

/// The same with a layer of its own, on this thread.
pub fn recorded_by(layer: TracingLayer, record: impl FnOnce()) -> Verdict {
    let subscriber = registry().with(layer);
    recorded(|| tracing::subscriber::with_default(subscriber, record))
}

/// What a session says. Slices may be open at its end.
pub fn finish(session: InMemorySession) -> Verdict {
    let (trace, report) = session.finish();
    assert_eq!(report.losses.total(), 0, "{report}");
    let options = Options {
        allow_open_spans: true,
        ..Options::default()
    };
    judge_with(&trace, &ExtraSchema::new(), options)
        .unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// All slices by their begins, an outer one before what it contains.
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
                innermost.unwrap().end = Some(event.clone());
            }
            _ => {}
        }
    }
    slices
}

/// The slices called `name`.
pub fn slices_named(verdict: &Verdict, name: &str) -> Vec<Slice> {
    let mut slices = slices(verdict);
    slices.retain(|slice| slice.begin.name.as_deref() == Some(name));
    slices
}

/// The only slice called `name`.
pub fn slice(verdict: &Verdict, name: &str) -> Slice {
    let [slice] = <[Slice; 1]>::try_from(slices_named(verdict, name)).unwrap();
    slice
}

/// The asynchronous spans called `name`, by their first polls. Each is whole: a life, and polls
/// within it that one flow joins, from the life's begin to its end.
pub fn pictures(verdict: &Verdict, name: &str) -> Vec<Picture> {
    let (lives, polls): (Vec<_>, Vec<_>) = slices_named(verdict, name)
        .into_iter()
        .partition(|slice| slice.begin.thread_name.is_none());
    let pictures: Vec<Picture> = lives
        .into_iter()
        .map(|life| {
            assert_eq!(life.begin.track_name.as_deref(), Some(name));
            let flow = *life.begin.flow_ids.last().expect("a flow begins");
            let polls = polls
                .iter()
                .filter(|poll| poll.begin.flow_ids.contains(&flow));
            if let Some(end) = &life.end {
                assert_eq!(end.terminating_flow_ids, [flow]);
            }
            Picture {
                polls: polls.cloned().collect(),
                life,
            }
        })
        .collect();
    for Picture { life, polls } in &pictures {
        assert!(polls.iter().all(|poll| life.contains(poll)), "{pictures:?}");
        let first = &polls.first().expect("a life begins with a poll").begin;
        assert!(first.timestamp_ns - life.begin.timestamp_ns <= 1);
    }
    let of_lives: usize = pictures.iter().map(|picture| picture.polls.len()).sum();
    assert_eq!(
        of_lives,
        polls.len(),
        "each poll is of one life: {polls:#?}"
    );
    pictures
}

/// The only asynchronous span called `name`.
pub fn picture(verdict: &Verdict, name: &str) -> Picture {
    let [picture] = <[Picture; 1]>::try_from(pictures(verdict, name)).unwrap();
    picture
}
