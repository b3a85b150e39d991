//! The trees of all tracks, in which the polls of a future are joined with the future's span.
//!
//! The span of a future is a slice on a track that belongs to no thread. Each poll of the future is
//! a slice of the same name on a thread. A flow begins with the future's span and goes through the
//! polls. Only the first poll may lack the flow; it is recognized because it begins exactly one
//! nanosecond after the span.
//!
//! Polls are left out of the outline. Slices that a thread recorded during a poll are put into the
//! future's span. The future's span itself is put into the innermost span that is open on a track
//! above the future's track, or else into the span in which the future was polled first. So the
//! outline does not depend on which threads a runtime chose.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::budget::Budget;
use super::tree::{FirstPoll, Kind, Node, Open, OpenSlice, Position, SiblingOrder, Text, Tree};
use crate::first_polls::FreshSpans;
use crate::tracks::{TrackId, TrackKind, TrackTable, UuidHasher};

/// The maximum number of lines of an outline.
const NODES_MAX: usize = 1 << 20;

/// The trees of all tracks.
#[derive(Debug)]
pub(super) struct Forest {
    /// The tree of each track, by track id.
    trees: Vec<Tree>,
    /// Open slices that may be spans of futures, by the flows that began with them; the newest
    /// slice for each flow. Its size is at most the number of open slices times the number of flows
    /// per event.
    future_spans: HashMap<u64, Position, BuildHasherDefault<UuidHasher>>,
    /// The spans that began most recently, each represented by one of its flows.
    fresh: FreshSpans<u64>,
    budget: Budget,
}

/// A slice that begins.
#[derive(Debug)]
pub(super) struct Begin {
    pub(super) timestamp_ns: u64,
    pub(super) text: Text,
    /// The flows of the begin event.
    pub(super) flows: Box<[u64]>,
}

impl Default for Forest {
    fn default() -> Self {
        Self {
            trees: Vec::new(),
            future_spans: HashMap::default(),
            fresh: FreshSpans::default(),
            budget: Budget::new(NODES_MAX),
        }
    }
}

impl Forest {
    pub(super) fn begin(&mut self, tracks: &TrackTable, track: TrackId, begin: Begin) {
        let Begin {
            timestamp_ns,
            text,
            mut flows,
        } = begin;
        if is_thread(tracks, track) {
            let future = match flows.is_empty() {
                true => self.future_of_first_poll(timestamp_ns, &text.name),
                false => flows
                    .iter()
                    .find(|flow| self.is_future_span(**flow, &text.name))
                    .copied(),
            };
            if let Some(flow) = future {
                return self.begin_poll(track, flow);
            }
            flows = Box::default();
        }
        let position = Position {
            track,
            depth: self.tree(track).depth(),
            begin_ns: timestamp_ns,
        };
        let slice = OpenSlice::new(text, timestamp_ns, flows.clone());
        let (tree, budget) = self.tree_and_budget(track);
        if tree.begin(Open::Slice(slice), budget) {
            if let Some(flow) = flows.first() {
                self.fresh.add(timestamp_ns, *flow);
            }
            self.future_spans
                .extend(flows.into_iter().map(|flow| (flow, position)));
        }
    }

    fn begin_poll(&mut self, track: TrackId, flow: u64) {
        let first_poll = FirstPoll {
            polled_in: self.innermost(track),
            is_in_poll: self.tree(track).is_in_poll(),
        };
        if let Some(future) = self.future_span_mut(flow) {
            future.first_poll.get_or_insert(first_poll);
        }
        let (tree, budget) = self.tree_and_budget(track);
        tree.begin(Open::Poll { flow }, budget);
    }

    /// Ends the newest slice of a track. `args` are the arguments of the end event.
    pub(super) fn end(&mut self, tracks: &TrackTable, track: TrackId, args: &str) {
        let (tree, budget) = self.tree_and_budget(track);
        if tree.end_left_out() {
            return;
        }
        match tree.pop(budget) {
            Some(Open::Slice(mut slice)) => {
                slice.node.end(args);
                self.put(tracks, track, slice);
            }
            Some(Open::Poll { .. }) => {}
            None => {
                let text = Text {
                    args: args.to_owned(),
                    ..Text::default()
                };
                self.add_leaf(track, Kind::StrayEnd, text);
            }
        }
    }

    /// Adds a node without children.
    pub(super) fn add_leaf(&mut self, track: TrackId, kind: Kind, text: Text) {
        self.add(track, Node::new(kind, text));
    }

    /// Adds all slices that are still open, marked as not ended.
    pub(super) fn finish(&mut self, tracks: &TrackTable) {
        let trees = tracks.iter().zip(&self.trees);
        let mut open: Vec<(usize, TrackId)> = trees
            .filter(|(_, tree)| tree.depth() > 0)
            .map(|((id, _), _)| match is_thread(tracks, id) {
                true => (usize::MAX, id),
                false => (tracks.ancestry(id).count(), id),
            })
            .collect();
        // Add inner slices before outer ones: first the slices of threads, some of which were in
        // polls, then the spans of futures, from the deepest tracks up.
        open.sort_by_key(|(height, _)| Reverse(*height));
        for (_, track) in open {
            loop {
                let (tree, budget) = self.tree_and_budget(track);
                match tree.pop(budget) {
                    Some(Open::Slice(slice)) => self.put(tracks, track, slice),
                    Some(Open::Poll { .. }) => {}
                    None => break,
                }
            }
        }
    }

    /// Prints the nodes of a track that are in no slice of another track.
    pub(super) fn write(&self, track: TrackId, out: &mut String) {
        if let Some(tree) = self.trees.get(track.index()) {
            tree.write(0, out);
        }
    }

    /// Adds a slice that was removed from the open slices to the slice around it.
    fn put(&mut self, tracks: &TrackTable, track: TrackId, slice: OpenSlice) {
        let position = Position {
            track,
            depth: self.tree(track).depth(),
            begin_ns: slice.begin_ns,
        };
        for flow in &slice.flows {
            if self.future_spans.get(flow) == Some(&position) {
                self.future_spans.remove(flow);
            }
        }
        let first_poll = slice.first_poll.filter(|_| position.depth == 0);
        match first_poll.and_then(|first_poll| self.parent_of_future(tracks, position, first_poll))
        {
            Some((around, place)) => self.add_at(around, place, slice.node),
            None => self.add(track, slice.node),
        }
    }

    /// Returns the slice that a future's span is put into, if it is still open: the innermost slice
    /// on the tracks above the span's own, or else the slice in which the future was polled first.
    fn parent_of_future(
        &mut self,
        tracks: &TrackTable,
        future: Position,
        first_poll: FirstPoll,
    ) -> Option<(Position, SiblingOrder)> {
        let above = tracks.ancestry(future.track).skip(1);
        let above = above
            .filter(|(_, track)| track.kind == TrackKind::Plain)
            .find_map(|(track, _)| self.open_since(track, future.begin_ns));
        if let Some(above) = above {
            let place = match first_poll.is_in_poll {
                true => SiblingOrder::InOrder,
                false => SiblingOrder::AnyOrder,
            };
            return Some((above, place));
        }
        let polled_in = first_poll.polled_in?;
        let around = self.tree(polled_in.track).slice_mut(polled_in.depth);
        let is_open = around.is_some_and(|around| around.begin_ns == polled_in.begin_ns);
        is_open.then_some((polled_in, SiblingOrder::InOrder))
    }

    /// Adds a node to the innermost open slice of a track. In a poll, that is the future's span.
    fn add(&mut self, track: TrackId, node: Node) {
        match self.innermost(track) {
            Some(around) => self.add_at(around, SiblingOrder::InOrder, node),
            None => {
                let (tree, budget) = self.tree_and_budget(track);
                tree.add_root(node, budget);
            }
        }
    }

    fn add_at(&mut self, around: Position, place: SiblingOrder, node: Node) {
        let (tree, budget) = self.tree_and_budget(around.track);
        tree.add_at(around.depth, place, node, budget);
    }

    /// Returns the innermost open slice of a track. In a poll, that is the future's span.
    fn innermost(&mut self, track: TrackId) -> Option<Position> {
        if let Some(&Open::Poll { flow }) = self.tree(track).innermost()
            && let Some(future) = self.future_spans.get(&flow)
        {
            return Some(*future);
        }
        self.open_since(track, u64::MAX)
    }

    /// Returns the innermost open slice of a track that began at `timestamp_ns` or before.
    fn open_since(&self, track: TrackId, timestamp_ns: u64) -> Option<Position> {
        let tree = self.trees.get(track.index())?;
        let (depth, begin_ns) = tree.open_since(timestamp_ns)?;
        Some(Position {
            track,
            depth,
            begin_ns,
        })
    }

    fn is_future_span(&self, flow: u64, name: &str) -> bool {
        let future = self.future_span(flow);
        future.is_some_and(|future| future.node.is_called(name))
    }

    /// Finds the future whose first poll is the slice of this name that begins at `timestamp_ns` on
    /// a thread, without a flow. Returns a flow of this future.
    fn future_of_first_poll(&self, timestamp_ns: u64, name: &str) -> Option<u64> {
        let mut fresh = self.fresh.right_before(timestamp_ns);
        fresh.find(|flow| {
            let future = self.future_span(*flow);
            future.is_some_and(|future| future.first_poll.is_none() && future.node.is_called(name))
        })
    }

    fn future_span(&self, flow: u64) -> Option<&OpenSlice> {
        let &Position { track, depth, .. } = self.future_spans.get(&flow)?;
        self.trees.get(track.index())?.slice(depth)
    }

    fn future_span_mut(&mut self, flow: u64) -> Option<&mut OpenSlice> {
        let &Position { track, depth, .. } = self.future_spans.get(&flow)?;
        self.tree(track).slice_mut(depth)
    }

    fn tree(&mut self, track: TrackId) -> &mut Tree {
        self.tree_and_budget(track).0
    }

    fn tree_and_budget(&mut self, track: TrackId) -> (&mut Tree, &mut Budget) {
        let index = track.index();
        if self.trees.len() <= index {
            self.trees.resize_with(index + 1, Tree::default);
        }
        (&mut self.trees[index], &mut self.budget)
    }
}

fn is_thread(tracks: &TrackTable, track: TrackId) -> bool {
    matches!(tracks.track(track).kind, TrackKind::Thread { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::NameTable;

    /// Creates two threads' tracks, and four tracks that are nested in each other.
    fn tracks() -> (TrackTable, Vec<TrackId>) {
        let (mut tracks, mut names) = (TrackTable::default(), NameTable::default());
        // Fields of descriptors: 1 is the uuid, 4 the thread, 5 the parent.
        let threads = [[0x08, 1, 0x22, 0], [0x08, 2, 0x22, 0]];
        let plain = (3..7).map(|uuid| [0x08, uuid, 0x28, uuid + 1]);
        let ids = threads.into_iter().chain(plain).map(|descriptor| {
            let described = tracks.describe(0, &descriptor, &mut names);
            described.expect("a descriptor").expect("a uuid").0
        });
        let ids = ids.collect();
        (tracks, ids)
    }

    #[test]
    fn random_begins_and_ends_leave_nothing_open() {
        let (tracks, ids) = tracks();
        let mut state = 1_u64;
        // xorshift64.
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % limit as u64) as usize
        };
        let (mut lines, mut moved) = (0, 0);
        for _ in 0..2000 {
            let mut forest = Forest::default();
            let (open_before, nodes_before) = (forest.budget.open_left, forest.budget.left.nodes);
            for timestamp_ns in 0..40 {
                let track = ids[below(ids.len())];
                if below(5) < 3 {
                    let text = Text {
                        name: ["a", "b"][below(2)].to_owned(),
                        args: String::new(),
                    };
                    let flows = (0..below(3)).map(|_| below(3) as u64).collect();
                    let begin = Begin {
                        timestamp_ns,
                        text,
                        flows,
                    };
                    forest.begin(&tracks, track, begin);
                } else {
                    forest.end(&tracks, track, "");
                }
            }
            forest.finish(&tracks);
            assert!(forest.future_spans.is_empty());
            assert_eq!(forest.budget.open_left, open_before);
            let nodes = nodes_before - forest.budget.left.nodes;
            let written = |track: &TrackId| {
                let mut out = String::new();
                forest.write(*track, &mut out);
                out
            };
            let written: Vec<String> = ids.iter().map(written).collect();
            let written_lines = written.iter().flat_map(|it| it.lines());
            assert_eq!(written_lines.count(), nodes, "{written:?}");
            lines += nodes;
            moved += usize::from(written[2].is_empty());
        }
        // The runs printed enough lines, and moved slices to other tracks.
        assert!(lines > 10_000 && moved > 10, "{lines} {moved}");
    }
}
