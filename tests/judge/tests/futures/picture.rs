//! What a trace says of a future: its life, and its polls.

use judge::{Event, EventKind, ExtraSchema, Options, Verdict, judge_with};
use tracezero::InMemorySession;

use crate::alone;

/// A slice of a track, from its begin to its end.
#[derive(Clone, Debug)]
pub struct Slice {
    pub begin: Event,
    /// `None` if it is open when the trace ends.
    pub end: Option<Event>,
}

impl Slice {
    /// Whether `other` lies within, at any depth.
    pub fn contains(&self, other: &Self) -> bool {
        let end_ns = |slice: &Self| slice.end.as_ref().map_or(u64::MAX, |end| end.timestamp_ns);
        self.begin.timestamp_ns <= other.begin.timestamp_ns && end_ns(other) <= end_ns(self)
    }

    /// The names of the arguments of its end.
    pub fn end_args(&self) -> Vec<&str> {
        let args = self.end.as_ref().unwrap().args.keys();
        args.map(String::as_str).collect()
    }
}

/// All slices of a future, and what they have in common.
#[derive(Clone, Debug)]
pub struct Picture {
    pub life: Slice,
    /// By time.
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

/// What a session says in which `record` runs alone.
pub fn recorded(record: impl FnOnce()) -> Verdict {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    record();
    let (trace, report) = session.finish();
    assert_eq!(report.losses.total(), 0, "{report}");
    verdict(&trace)
}

/// What a trace says. Slices may be open at its end.
pub fn verdict(trace: &[u8]) -> Verdict {
    let options = Options {
        allow_open_spans: true,
        ..Options::default()
    };
    judge_with(trace, &ExtraSchema::new(), options)
        .unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// The futures with spans called `name`, by their first polls. Each is whole: a life, and polls
/// within it that one flow joins.
pub fn pictures(verdict: &Verdict, name: &str) -> Vec<Picture> {
    let (lives, polls): (Vec<_>, Vec<_>) = slices(verdict)
        .into_iter()
        .filter(|slice| slice.begin.name.as_deref() == Some(name))
        .partition(|slice| slice.begin.thread_name.is_none());
    let pictures: Vec<Picture> = lives
        .into_iter()
        .map(|life| {
            let flow = *life.begin.flow_ids.last().expect("a flow begins");
            let polls = polls.iter().filter(|poll| poll.begin.flow_ids == [flow]);
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
        assert_eq!(life.begin.timestamp_ns, first.timestamp_ns);
    }
    let of_lives: usize = pictures.iter().map(|picture| picture.polls.len()).sum();
    assert_eq!(of_lives, polls.len(), "each poll is of one life");
    pictures
}

/// The only future with a span called `name`.
pub fn picture(verdict: &Verdict, name: &str) -> Picture {
    let [picture] = <[Picture; 1]>::try_from(pictures(verdict, name)).unwrap();
    picture
}

/// All slices by their begins, an outer one before what it contains.
pub fn slices(verdict: &Verdict) -> Vec<Slice> {
    let mut events: Vec<&Event> = verdict.events.iter().collect();
    events.sort_by_key(|event| event.timestamp_ns);
    let mut slices: Vec<Slice> = Vec::new();
    for event in events {
        match event.kind {
            EventKind::SliceBegin => slices.push(Slice {
                begin: event.clone(),
                end: None,
            }),
            EventKind::SliceEnd => {
                let innermost = slices.iter_mut().rev().find(|slice| {
                    slice.end.is_none() && slice.begin.track_uuid == event.track_uuid
                });
                innermost.unwrap().end = Some(event.clone());
            }
            _ => {}
        }
    }
    slices
}
