//! The trees of all tracks, with futures put together.
//!
//! The span of a future, its *life*, is a slice on a track that is no thread's; each of its polls is a
//! slice of the same name on a thread, and a flow that begins with the life goes through them. Polls are
//! left out, and what a thread did in one stands in the life; a life stands in what it is inside of on the
//! tracks above its own. So it does not matter which threads a runtime chose.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::tree::{Budget, Kind, Node, Open, OpenSlice, Place, Text, Tree};
use crate::reader::tracks::{TrackId, TrackKind, TrackTable, UuidHasher};

/// Lines that an outline may have.
const NODES_MAX: usize = 1 << 20;

/// The trees of all tracks.
#[derive(Debug)]
pub(super) struct Forest {
    /// By track id.
    trees: Vec<Tree>,
    /// Open slices that may be lives, by the flows that began with them: the newest of each. There are
    /// no more than slices may be open, times the flows that an event may have.
    lives: HashMap<u64, LifePlace, BuildHasherDefault<UuidHasher>>,
    budget: Budget,
}

/// An open slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LifePlace {
    track: TrackId,
    /// How many slices are around it on its track.
    depth: usize,
}

/// A slice that begins.
#[derive(Debug)]
pub(super) struct Begin {
    pub(super) timestamp_ns: u64,
    pub(super) text: Text,
    /// That go through it.
    pub(super) flows: Vec<u64>,
}

impl Default for Forest {
    fn default() -> Self {
        Self {
            trees: Vec::new(),
            lives: HashMap::default(),
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
            if let Some(flow) = flows.iter().find(|flow| self.is_life(**flow, &text.name)) {
                return self.begin_poll(track, *flow);
            }
            flows.clear();
        }
        let place = LifePlace {
            track,
            depth: self.tree(track).depth(),
        };
        let slice = OpenSlice::new(text, timestamp_ns, flows.clone());
        let (tree, budget) = self.tree_and_budget(track);
        if tree.begin(Open::Slice(slice), budget) {
            self.lives
                .extend(flows.into_iter().map(|flow| (flow, place)));
        }
    }

    fn begin_poll(&mut self, track: TrackId, flow: u64) {
        let place = match self.tree(track).is_in_poll() {
            true => Place::InOrder,
            false => Place::AnyOrder,
        };
        if let Some(life) = self.life_mut(flow) {
            // It is the first poll that says where the life belongs.
            life.polled.get_or_insert(place);
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
        let depth = self.tree(track).depth();
        let place = LifePlace { track, depth };
        for flow in &slice.flows {
            if self.lives.get(flow) == Some(&place) {
                self.lives.remove(flow);
            }
        }
        let life = slice.polled.filter(|_| depth == 0);
        let around = life.and_then(|place| {
            let around = self.around_life(tracks, track, slice.begin_ns)?;
            Some((around, place))
        });
        match around {
            Some((around, place)) => {
                let (tree, budget) = self.tree_and_budget(around.track);
                tree.add_at(around.depth, place, slice.node, budget);
            }
            None => self.add(track, slice.node),
        }
    }

    /// The innermost slice, on the tracks above that of a life, that has been open since the life began.
    fn around_life(&self, tracks: &TrackTable, track: TrackId, begin_ns: u64) -> Option<LifePlace> {
        let above = tracks.ancestry(track).skip(1);
        above
            .filter(|(_, track)| track.kind == TrackKind::Plain)
            .find_map(|(track, _)| {
                let depth = self.trees.get(track.index())?.open_since(begin_ns)?;
                Some(LifePlace { track, depth })
            })
    }

    /// Adds to the innermost slice that is open; in a poll, to the life.
    fn add(&mut self, track: TrackId, node: Node) {
        let life = match self.tree(track).innermost() {
            Some(&Open::Poll { flow }) => self.lives.get(&flow).copied(),
            _ => None,
        };
        match life {
            Some(life) => {
                let (tree, budget) = self.tree_and_budget(life.track);
                tree.add_at(life.depth, Place::InOrder, node, budget);
            }
            None => {
                let (tree, budget) = self.tree_and_budget(track);
                tree.add(node, budget);
            }
        }
    }

    fn is_life(&mut self, flow: u64, name: &str) -> bool {
        let life = self.life_mut(flow);
        life.is_some_and(|life| life.node.is_called(name))
    }

    fn life_mut(&mut self, flow: u64) -> Option<&mut OpenSlice> {
        let &LifePlace { track, depth } = self.lives.get(&flow)?;
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
