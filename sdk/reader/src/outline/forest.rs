//! The trees of all tracks, with futures put together.
//!
//! The span of a future, its *life*, is a slice on a track that is no thread's; each of its polls is a
//! slice of the same name on a thread, and a flow that begins with the life goes through them, but for
//! the first poll of some: such a life begins right before that, by a nanosecond. Polls are left out, and
//! what a thread did in one stands in the life. A life stands in what it is inside of on the tracks above
//! its own, or else in what it was polled in first. So it does not matter which threads a runtime chose.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::budget::Budget;
use super::tree::{FirstPoll, Kind, Node, Open, OpenSlice, Place, Position, Text, Tree};
use crate::first_polls::FreshSpans;
use crate::tracks::{TrackId, TrackKind, TrackTable, UuidHasher};

/// Lines that an outline may have.
const NODES_MAX: usize = 1 << 20;

/// The trees of all tracks.
#[derive(Debug)]
pub(super) struct Forest {
    /// By track id.
    trees: Vec<Tree>,
    /// Open slices that may be lives, by the flows that began with them: the newest of each. There are
    /// no more than slices may be open, times the flows that an event may have.
    lives: HashMap<u64, Position, BuildHasherDefault<UuidHasher>>,
    /// By a flow of each.
    fresh: FreshSpans<u64>,
    budget: Budget,
}

/// A slice that begins.
#[derive(Debug)]
pub(super) struct Begin {
    pub(super) timestamp_ns: u64,
    pub(super) text: Text,
    /// That go through it.
    pub(super) flows: Box<[u64]>,
}

impl Default for Forest {
    fn default() -> Self {
        Self {
            trees: Vec::new(),
            lives: HashMap::default(),
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
            let life = match flows.is_empty() {
                true => self.life_of_first_poll(timestamp_ns, &text.name),
                false => flows
                    .iter()
                    .find(|flow| self.is_life(**flow, &text.name))
                    .copied(),
            };
            if let Some(flow) = life {
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
            self.lives
                .extend(flows.into_iter().map(|flow| (flow, position)));
        }
    }

    fn begin_poll(&mut self, track: TrackId, flow: u64) {
        let first_poll = FirstPoll {
            polled_in: self.innermost(track),
            is_in_poll: self.tree(track).is_in_poll(),
        };
        if let Some(life) = self.life_mut(flow) {
            life.polled.get_or_insert(first_poll);
        }
        let (tree, budget) = self.tree_and_budget(track);
        tree.begin(Open::Poll { flow }, budget);
    }

    /// The newest slice of a track ends. `args` are those of its end.
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

    /// Something without an inside.
    pub(super) fn add_leaf(&mut self, track: TrackId, kind: Kind, text: Text) {
        self.add(track, Node::new(kind, text));
    }

    /// What is open stays so.
    pub(super) fn finish(&mut self, tracks: &TrackTable) {
        let trees = tracks.iter().zip(&self.trees);
        let mut open: Vec<(usize, TrackId)> = trees
            .filter(|(_, tree)| tree.depth() > 0)
            .map(|((id, _), _)| match is_thread(tracks, id) {
                true => (usize::MAX, id),
                false => (tracks.ancestry(id).count(), id),
            })
            .collect();
        // What is inside of something else comes first: what threads did in polls, and then the lives
        // on tracks far below.
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

    /// What is on a track and in no slice on another one.
    pub(super) fn write(&self, track: TrackId, out: &mut String) {
        if let Some(tree) = self.trees.get(track.index()) {
            tree.write(0, out);
        }
    }

    /// Puts a slice that was open into what it was inside of.
    fn put(&mut self, tracks: &TrackTable, track: TrackId, slice: OpenSlice) {
        let position = Position {
            track,
            depth: self.tree(track).depth(),
            begin_ns: slice.begin_ns,
        };
        for flow in &slice.flows {
            if self.lives.get(flow) == Some(&position) {
                self.lives.remove(flow);
            }
        }
        let first_poll = slice.polled.filter(|_| position.depth == 0);
        match first_poll.and_then(|first_poll| self.around_life(tracks, position, first_poll)) {
            Some((around, place)) => self.add_at(around, place, slice.node),
            None => self.add(track, slice.node),
        }
    }

    /// What a life is inside of and has ended in: the innermost slice on the tracks above its own, or else
    /// what it was polled in first.
    fn around_life(
        &mut self,
        tracks: &TrackTable,
        life: Position,
        first_poll: FirstPoll,
    ) -> Option<(Position, Place)> {
        let above = tracks.ancestry(life.track).skip(1);
        let above = above
            .filter(|(_, track)| track.kind == TrackKind::Plain)
            .find_map(|(track, _)| self.open_since(track, life.begin_ns));
        if let Some(above) = above {
            let place = match first_poll.is_in_poll {
                true => Place::InOrder,
                false => Place::AnyOrder,
            };
            return Some((above, place));
        }
        let polled_in = first_poll.polled_in?;
        let around = self.tree(polled_in.track).slice_mut(polled_in.depth);
        let is_open = around.is_some_and(|around| around.begin_ns == polled_in.begin_ns);
        is_open.then_some((polled_in, Place::InOrder))
    }

    /// Adds to the innermost slice that is open; in a poll, to the life.
    fn add(&mut self, track: TrackId, node: Node) {
        match self.innermost(track) {
            Some(around) => self.add_at(around, Place::InOrder, node),
            None => {
                let (tree, budget) = self.tree_and_budget(track);
                tree.add_root(node, budget);
            }
        }
    }

    fn add_at(&mut self, around: Position, place: Place, node: Node) {
        let (tree, budget) = self.tree_and_budget(around.track);
        tree.add_at(around.depth, place, node, budget);
    }

    /// The innermost slice that is open; in a poll, the life.
    fn innermost(&mut self, track: TrackId) -> Option<Position> {
        if let Some(&Open::Poll { flow }) = self.tree(track).innermost()
            && let Some(life) = self.lives.get(&flow)
        {
            return Some(*life);
        }
        self.open_since(track, u64::MAX)
    }

    /// The innermost slice on a track that has been open since then.
    fn open_since(&self, track: TrackId, timestamp_ns: u64) -> Option<Position> {
        let tree = self.trees.get(track.index())?;
        let (depth, begin_ns) = tree.open_since(timestamp_ns)?;
        Some(Position {
            track,
            depth,
            begin_ns,
        })
    }

    fn is_life(&self, flow: u64, name: &str) -> bool {
        let life = self.life(flow);
        life.is_some_and(|life| life.node.is_called(name))
    }

    /// A flow of the life of which a slice on a thread is the first poll, if it has no flow itself.
    fn life_of_first_poll(&self, timestamp_ns: u64, name: &str) -> Option<u64> {
        let mut fresh = self.fresh.right_before(timestamp_ns);
        fresh.find(|flow| {
            let life = self.life(*flow);
            life.is_some_and(|life| life.polled.is_none() && life.node.is_called(name))
        })
    }

    fn life(&self, flow: u64) -> Option<&OpenSlice> {
        let &Position { track, depth, .. } = self.lives.get(&flow)?;
        self.trees.get(track.index())?.slice(depth)
    }

    fn life_mut(&mut self, flow: u64) -> Option<&mut OpenSlice> {
        let &Position { track, depth, .. } = self.lives.get(&flow)?;
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

    /// Two threads, and four tracks that lie below each other.
    fn tracks() -> (TrackTable, Vec<TrackId>) {
        let (mut tracks, mut names) = (TrackTable::default(), NameTable::default());
        // Fields of descriptors: 1 is the uuid, 4 the thread, 5 the parent.
        let threads = [[0x08, 1, 0x22, 0], [0x08, 2, 0x22, 0]];
        let plain = (3..7).map(|uuid| [0x08, uuid, 0x28, uuid + 1]);
        let ids = threads.into_iter().chain(plain).map(|descriptor| {
            let described = tracks.describe(&descriptor, &mut names);
            described.expect("a descriptor").expect("a uuid").0
        });
        let ids = ids.collect();
        (tracks, ids)
    }

    #[test]
    fn any_order_of_begins_and_ends_leaves_nothing_behind() {
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
            assert!(forest.lives.is_empty());
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
        // It was about something.
        assert!(lines > 10_000 && moved > 10, "{lines} {moved}");
    }
}
