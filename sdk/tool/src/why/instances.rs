//! Finds the spans that are asked for.

use std::collections::HashMap;

use tracezero_reader::{NameTable, TrackTable};

use super::similar::similar_names;
use crate::thread_states::{LoggedSpan, SpanLog};
use crate::tracks::SpanPlace;

/// Spans of one name.
#[derive(Debug)]
pub(super) struct Instances<'t> {
    /// By begin.
    pub(super) all: Vec<Instance<'t>>,
}

/// A span.
#[derive(Clone, Debug)]
pub(super) struct Instance<'t> {
    pub(super) span: &'t LoggedSpan,
    /// The parts of it in which a thread had to do with it: the span itself if it is on a thread, or
    /// the polls of a future. By begin; they do not overlap.
    pub(super) parts: Vec<&'t LoggedSpan>,
    pub(super) is_future: bool,
}

impl<'t> Instances<'t> {
    /// Finds all spans of a name. Fails with a text that says why there are none, or why they cannot
    /// be explained.
    pub(super) fn find(
        name: &str,
        log: &'t SpanLog,
        tracks: &TrackTable,
        names: &NameTable,
    ) -> Result<Self, String> {
        let id = names.find(name).filter(|_| !name.is_empty());
        let spans = log.spans().iter().filter(|span| Some(span.name) == id);
        let is_on_thread =
            |span: &&LoggedSpan| SpanPlace::of(tracks.track(span.track)) == SpanPlace::Thread;
        let (on_threads, on_tracks): (Vec<_>, Vec<_>) = spans.partition(is_on_thread);
        let polls = Polls::new(&on_threads);
        let mut all = Vec::new();
        let mut without_polls = None;
        let mut is_poll: HashMap<*const LoggedSpan, ()> = HashMap::new();
        for span in on_tracks {
            let parts = polls.of(span);
            if parts.is_empty() {
                without_polls = Some(span);
                continue;
            }
            is_poll.extend(parts.iter().map(|part| (&raw const **part, ())));
            all.push(Instance {
                span,
                parts,
                is_future: true,
            });
        }
        let outermost = on_threads
            .into_iter()
            .filter(|span| !log.is_inside_itself(span));
        all.extend(
            outermost
                .filter(|span| !is_poll.contains_key(&(&raw const **span)))
                .map(|span| Instance {
                    span,
                    parts: vec![span],
                    is_future: false,
                }),
        );
        all.sort_by_key(|instance| instance.span.begin_ns);
        match (all.is_empty(), without_polls) {
            (false, _) => Ok(Self { all }),
            (true, Some(span)) => Err(format!(
                "the spans named {name:?} are on the track {:?}, which is not that of a thread, so the kernel cannot tell what they waited for; ask for the spans inside of them, on threads",
                tracks.title(span.track, names)
            )),
            (true, None) => {
                let known = log.spans().iter().map(|span| span.name);
                let similar = similar_names(name, known, names);
                Err(format!("the trace has no span named {name:?}{similar}"))
            }
        }
    }

    /// Keeps the spans that are open at a time.
    pub(super) fn retain_at(&mut self, time_ns: u64) {
        self.all.retain(|it| {
            it.span.begin_ns <= time_ns && time_ns < it.span.end_ns.max(it.span.begin_ns + 1)
        });
    }
}

/// Spans on threads that may be polls of futures.
#[derive(Debug)]
struct Polls<'t> {
    by_flow: HashMap<u64, Vec<&'t LoggedSpan>>,
    /// Those without a flow, by begin: each may be the first poll of a future.
    by_begin: HashMap<u64, &'t LoggedSpan>,
}

impl<'t> Polls<'t> {
    fn new(on_threads: &[&'t LoggedSpan]) -> Self {
        let mut polls = Self {
            by_flow: HashMap::new(),
            by_begin: HashMap::new(),
        };
        for span in on_threads {
            match span.flow {
                0 => drop(polls.by_begin.insert(span.begin_ns, span)),
                flow => polls.by_flow.entry(flow).or_default().push(span),
            }
        }
        polls
    }

    /// Returns the polls of a future, by begin. A first poll without a flow begins one nanosecond
    /// after the future.
    fn of(&self, future: &LoggedSpan) -> Vec<&'t LoggedSpan> {
        if future.flow == 0 {
            return Vec::new();
        }
        let polls = self
            .by_flow
            .get(&future.flow)
            .into_iter()
            .flatten()
            .copied();
        let inside =
            polls.filter(|poll| future.begin_ns <= poll.begin_ns && poll.begin_ns <= future.end_ns);
        let first = self.by_begin.get(&(future.begin_ns + 1)).copied();
        let mut polls: Vec<_> = first.into_iter().chain(inside).collect();
        polls.sort_by_key(|poll| poll.begin_ns);
        polls
    }
}
