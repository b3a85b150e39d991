//! The spans of futures, and their polls.
//!
//! The span of a future, its *life*, is a slice on a track that is no thread's; each of its polls is a
//! slice of the same name on a thread. A flow that begins with the life goes through all of them, but
//! for the first poll of some: nobody knew then that there would be more. Such a life begins right before
//! its first poll, by a nanosecond.
//!
//! A life stands in what it is inside of on the tracks above its own, or else in what it was polled in first.
//! So what a capture shows does not depend on which threads a runtime chose. `sdk/tests/capture/` checks
//! this.

use std::collections::HashMap;
use std::mem;

use super::contents::RawEvent;
use super::event::Kind;
use super::trace::Contents;
use tracezero_reader::{FreshSpans, TrackKind, TrackTable};

/// What may turn out to be lives.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// The newest, by the flows that began with them.
    begun: HashMap<u64, usize>,
    fresh: FreshSpans<usize>,
}

impl Lives {
    /// Adds a slice that begins, with its position.
    pub(super) fn add(&mut self, begin: &RawEvent, index: usize) {
        self.begun
            .extend(begin.flows.iter().map(|&flow| (flow, index)));
        if !begin.flows.is_empty() {
            self.fresh.add(begin.timestamp_ns, index);
        }
    }

    /// Those of which a slice on a thread may be a poll.
    pub(super) fn of_poll(&self, begin: &RawEvent) -> impl Iterator<Item = usize> {
        let flows = begin.flows.iter();
        flows.filter_map(|flow| self.begun.get(flow).copied())
    }

    /// Those of which a slice on a thread may be the first poll, which has no flow.
    pub(super) fn of_first_poll(&self, begin: &RawEvent) -> impl Iterator<Item = usize> {
        let fresh = self.fresh.right_before(begin.timestamp_ns);
        fresh.filter(|_| begin.flows.is_empty())
    }
}

impl Contents {
    /// Puts lives into what they are inside of: on the tracks above theirs, or else where they were polled
    /// first.
    pub(super) fn nest_lives(&mut self, tracks: &TrackTable) {
        // By track, in the order of their begins.
        let mut spans: Vec<Vec<usize>> = vec![Vec::new(); self.tracks.len()];
        for (index, event) in self.events.iter().enumerate() {
            if event.kind == Kind::Span {
                spans[event.track].push(index);
            }
        }
        for (id, _) in tracks.iter() {
            let roots = mem::take(&mut self.tracks[id.index()].roots);
            for root in roots {
                let above = tracks.ancestry(id).skip(1);
                let mut above = above.filter(|(_, track)| track.kind == TrackKind::Plain);
                let is_life = !self.events[root].polls.is_empty();
                let parent = is_life.then(|| {
                    above
                        .find_map(|(above, _)| self.around(root, &spans[above.index()]))
                        .or_else(|| self.around_first_poll(root))
                });
                let Some(parent) = parent.flatten() else {
                    self.tracks[id.index()].roots.push(root);
                    continue;
                };
                self.events[root].parent = Some(parent);
                let children = &mut self.events[parent].children;
                let at = children.partition_point(|&child| child < root);
                children.insert(at, root);
            }
        }
    }

    /// The innermost of `spans`, all on one track, that the life is inside of.
    fn around(&self, life: usize, spans: &[usize]) -> Option<usize> {
        let before = spans.partition_point(|&span| span < life);
        let &newest = spans[..before].last()?;
        let track = self.events[newest].track;
        std::iter::successors(Some(newest), |&span| self.events[span].parent)
            .take_while(|&span| self.events[span].track == track)
            .find(|&span| self.is_over_in(life, span))
    }

    /// What was around the first poll of a life, if the life is inside of that.
    fn around_first_poll(&self, life: usize) -> Option<usize> {
        let around = self.events[life].polled_in?;
        (around < life && self.is_over_in(life, around)).then_some(around)
    }

    /// Whether a life ends while a span is open.
    fn is_over_in(&self, life: usize, span: usize) -> bool {
        let end_ns = |index: usize| self.events[index].end_ns.unwrap_or(u64::MAX);
        end_ns(life) <= end_ns(span)
    }
}
