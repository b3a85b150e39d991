//! Finds the spans of futures, and their polls.
//!
//! The span of a future is a slice on a track that is not a thread's. Each poll is a slice of the
//! same name on a thread. A flow begins at the future's span and goes through its polls. The first
//! poll may lack the flow: when it was recorded, nobody knew yet that there would be more polls.
//! The span was recorded as beginning one nanosecond before its first poll.
//!
//! The parent of a future's span is the span around it on a parent track or, if there is none, the
//! span around its first poll. So a capture does not depend on the threads that a runtime chooses.
//! The tests in `sdk/tests/capture/` check this.

use std::collections::HashMap;
use std::mem;

use super::contents::RawEvent;
use super::event::Kind;
use super::trace::Contents;
use tracezero_reader::{FreshSpans, TrackKind, TrackTable};

/// Slices that may turn out to be spans of futures.
#[derive(Debug, Default)]
pub(super) struct FutureSpans {
    /// The newest slice at which each flow began.
    by_flow: HashMap<u64, usize>,
    fresh: FreshSpans<usize>,
}

impl FutureSpans {
    /// Adds a slice that begins. `index` is its index among the events.
    pub(super) fn add(&mut self, begin: &RawEvent, index: usize) {
        self.by_flow
            .extend(begin.flows.iter().map(|&flow| (flow, index)));
        if !begin.flows.is_empty() {
            self.fresh.add(begin.timestamp_ns, index);
        }
    }

    /// Returns the slices that may be the span of a future. `begin` begins a slice on a thread,
    /// which may be a poll of this future.
    pub(super) fn of_poll(&self, begin: &RawEvent) -> impl Iterator<Item = usize> {
        let flows = begin.flows.iter();
        flows.filter_map(|flow| self.by_flow.get(flow).copied())
    }

    /// Returns the slices that may be the span of a future. `begin` begins a slice on a thread
    /// without a flow, which may be the first poll of this future.
    pub(super) fn of_first_poll(&self, begin: &RawEvent) -> impl Iterator<Item = usize> {
        let fresh = self.fresh.right_before(begin.timestamp_ns);
        fresh.filter(|_| begin.flows.is_empty())
    }
}

impl Contents {
    /// Sets the parents of spans of futures: the parent is the span around the future's span on a
    /// parent track or, if there is none, the span around the first poll.
    pub(super) fn nest_future_spans(&mut self, tracks: &TrackTable) {
        // The spans of each track, in the order of their begins.
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
                let is_future_span = !self.events[root].polls.is_empty();
                let parent = is_future_span.then(|| {
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

    /// Returns the innermost of `spans`, which are all on one track, that contains the future's
    /// span.
    fn around(&self, future_span: usize, spans: &[usize]) -> Option<usize> {
        let before = spans.partition_point(|&span| span < future_span);
        let &newest = spans[..before].last()?;
        let track = self.events[newest].track;
        std::iter::successors(Some(newest), |&span| self.events[span].parent)
            .take_while(|&span| self.events[span].track == track)
            .find(|&span| self.is_over_in(future_span, span))
    }

    /// Returns the span around the first poll of a future, if it contains the future's span.
    fn around_first_poll(&self, future_span: usize) -> Option<usize> {
        let around = self.events[future_span].polled_in?;
        (around < future_span && self.is_over_in(future_span, around)).then_some(around)
    }

    /// Returns whether the future's span ends before `span`, or at the same time.
    fn is_over_in(&self, future_span: usize, span: usize) -> bool {
        let end_ns = |index: usize| self.events[index].end_ns.unwrap_or(u64::MAX);
        end_ns(future_span) <= end_ns(span)
    }
}
