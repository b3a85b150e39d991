//! The slices and instants of one track, as a tree that merges equal siblings.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::budget::{Budget, Size};
use crate::tracks::TrackId;

/// The maximum number of siblings that are printed one by one. Further ones are counted by name.
const SIBLINGS_MAX: usize = 1000;

/// The maximum depth of the tree. Deeper nodes are left out.
const DEPTH_MAX: usize = 512;

/// The text that replaces names for which there is no room.
const MORE_NAMES: &str = "(more names)";

/// The slices and instants of one track.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The slices that have not ended, outermost first. The tree below a slice that is in `n`
    /// others has at most the height `DEPTH_MAX - n`.
    open: Vec<Open>,
    /// The number of slices that were left out and have not ended.
    left_out: u64,
    roots: Siblings,
}

/// A slice that has not ended.
#[derive(Debug)]
pub(super) enum Open {
    Slice(OpenSlice),
    /// A poll of the future whose span began with this flow. It gets no node.
    Poll {
        flow: u64,
    },
}

/// An open slice, which becomes a node when it ends.
#[derive(Debug)]
pub(super) struct OpenSlice {
    pub(super) node: Node,
    pub(super) begin_ns: u64,
    /// The flows of the begin event, if the slice may be the span of a future.
    pub(super) flows: Box<[u64]>,
    /// The first poll, if the slice is the span of a future.
    pub(super) first_poll: Option<FirstPoll>,
}

/// The place of the first poll of a future.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstPoll {
    /// The slice that the poll was in, if any.
    pub(super) polled_in: Option<Position>,
    /// True if the first poll was in a poll of another future.
    pub(super) is_in_poll: bool,
}

/// The position of an open slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) track: TrackId,
    /// The number of slices around it on its track.
    pub(super) depth: usize,
    /// The begin time. It tells the slice from later ones at the same depth.
    pub(super) begin_ns: u64,
}

/// The order of a node among its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SiblingOrder {
    /// The node follows the nodes that were added before it.
    InOrder,
    /// The node is sorted: it is a task that ran concurrently, so its order is chance.
    AnyOrder,
}

#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Siblings {
    nodes: Vec<Node>,
    /// The nodes with [`SiblingOrder::AnyOrder`], sorted.
    tasks: Vec<Node>,
    /// The number of nodes of each name that were left out.
    left_out: BTreeMap<String, u64>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    kind: Kind,
    text: Text,
    /// The number of equal nodes that this one stands for.
    count: u64,
    /// True for a slice that has not ended.
    is_open: bool,
    children: Siblings,
    /// The height of the tree below it, including itself.
    height: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Slice,
    Instant,
    /// The end of a slice without its begin.
    StrayEnd,
}

/// The printed parts of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text {
    pub(super) name: String,
    /// The arguments, each with a space before it.
    pub(super) args: String,
}

impl Tree {
    /// Begins a slice. Returns false if it is left out for want of room.
    pub(super) fn begin(&mut self, open: Open, budget: &mut Budget) -> bool {
        let has_room = self.open.len() < DEPTH_MAX && budget.open_left > 0;
        // While slices are left out, further ones are too, because an end belongs to the slice that
        // began last.
        if has_room && self.left_out == 0 {
            budget.open_left -= 1;
            self.open.push(open);
            true
        } else {
            self.left_out += 1;
            false
        }
    }

    /// Ends the newest slice if it was left out. Returns false if it was not.
    pub(super) const fn end_left_out(&mut self) -> bool {
        let is_left_out = self.left_out > 0;
        self.left_out = self.left_out.saturating_sub(1);
        is_left_out
    }

    /// Removes and returns the innermost open slice.
    pub(super) fn pop(&mut self, budget: &mut Budget) -> Option<Open> {
        let open = self.open.pop()?;
        budget.open_left += 1;
        Some(open)
    }

    /// Returns the number of open slices.
    pub(super) const fn depth(&self) -> usize {
        self.open.len()
    }

    pub(super) fn innermost(&self) -> Option<&Open> {
        self.open.last()
    }

    pub(super) fn is_in_poll(&self) -> bool {
        let mut open = self.open.iter();
        open.any(|open| matches!(open, Open::Poll { .. }))
    }

    /// Returns the depth and begin time of the innermost open slice that began at `timestamp_ns` or
    /// before.
    pub(super) fn open_since(&self, timestamp_ns: u64) -> Option<(usize, u64)> {
        let open = self.open.iter().enumerate().rev();
        let mut slices = open.filter_map(|(depth, open)| match open {
            Open::Slice(slice) => Some((depth, slice.begin_ns)),
            Open::Poll { .. } => None,
        });
        slices.find(|(_, begin_ns)| *begin_ns <= timestamp_ns)
    }

    /// Returns the open slice at this depth. Returns `None` if a poll is open there.
    pub(super) fn slice(&self, depth: usize) -> Option<&OpenSlice> {
        match self.open.get(depth)? {
            Open::Slice(slice) => Some(slice),
            Open::Poll { .. } => None,
        }
    }

    pub(super) fn slice_mut(&mut self, depth: usize) -> Option<&mut OpenSlice> {
        match self.open.get_mut(depth)? {
            Open::Slice(slice) => Some(slice),
            Open::Poll { .. } => None,
        }
    }

    /// Adds a node that is in no slice.
    pub(super) fn add_root(&mut self, node: Node, budget: &mut Budget) {
        self.roots.add(node, budget);
    }

    /// Adds a node to the open slice at this depth, if there is one.
    pub(super) fn add_at(
        &mut self,
        depth: usize,
        place: SiblingOrder,
        node: Node,
        budget: &mut Budget,
    ) {
        let Some(OpenSlice { node: parent, .. }) = self.slice_mut(depth) else {
            return;
        };
        if depth + 1 + node.height > DEPTH_MAX {
            return parent.children.leave_out(node, budget);
        }
        parent.height = parent.height.max(1 + node.height);
        match place {
            SiblingOrder::InOrder => parent.children.add(node, budget),
            SiblingOrder::AnyOrder => parent.children.add_task(node, budget),
        }
    }

    /// Prints a line for each node, indented by `depth` steps.
    pub(super) fn write(&self, depth: usize, out: &mut String) {
        self.roots.write(depth, out);
    }
}

impl Siblings {
    fn add(&mut self, node: Node, budget: &mut Budget) {
        if let Some(last) = self.nodes.last_mut()
            && self.left_out.is_empty()
            && last.is_like(&node)
        {
            last.count += node.count;
            budget.give_back(node.children.size());
        } else if self.has_room_for(&node, budget) {
            self.nodes.push(node);
        } else {
            self.leave_out(node, budget);
        }
    }

    /// Adds a node whose order does not matter.
    fn add_task(&mut self, node: Node, budget: &mut Budget) {
        match self.tasks.binary_search_by(|other| other.order(&node)) {
            Ok(position) => {
                self.tasks[position].count += node.count;
                budget.give_back(node.children.size());
            }
            Err(position) if self.has_room_for(&node, budget) => self.tasks.insert(position, node),
            Err(_) => self.leave_out(node, budget),
        }
    }

    fn has_room_for(&self, node: &Node, budget: &mut Budget) -> bool {
        self.nodes.len() + self.tasks.len() < SIBLINGS_MAX && budget.take(node.own_size())
    }

    /// Drops a node, and counts it by its name.
    fn leave_out(&mut self, node: Node, budget: &mut Budget) {
        budget.give_back(node.children.size());
        let (name, count) = (node.text.name, node.count);
        let has_room = self.left_out.contains_key(&name) || budget.take(Size::of_name(&name));
        let name = if has_room {
            name
        } else {
            MORE_NAMES.to_owned()
        };
        *self.left_out.entry(name).or_default() += count;
    }

    /// Returns the size that the nodes, with all below them, have taken from the budget.
    fn size(&self) -> Size {
        let nodes = self.nodes.iter().chain(&self.tasks);
        let nodes = nodes.map(|node| node.own_size().plus(node.children.size()));
        let names = self.left_out.keys().map(|name| match name.as_str() {
            MORE_NAMES => Size::default(),
            name => Size::of_name(name),
        });
        nodes.chain(names).fold(Size::default(), Size::plus)
    }

    fn write(&self, depth: usize, out: &mut String) {
        for node in self.nodes.iter().chain(&self.tasks) {
            indent(depth, out);
            // Writing to a string does not fail.
            let _ = writeln!(out, "{node}");
            node.children.write(depth + 1, out);
        }
        for (name, count) in &self.left_out {
            indent(depth, out);
            let _ = writeln!(out, ".. {name} x{count}");
        }
    }
}

impl Node {
    pub(super) fn new(kind: Kind, text: Text) -> Self {
        Self {
            kind,
            text,
            count: 1,
            is_open: kind == Kind::Slice,
            children: Siblings::default(),
            height: 1,
        }
    }

    /// Ends the slice. `args` are added to its arguments.
    pub(super) fn end(&mut self, args: &str) {
        self.text.args.push_str(args);
        self.is_open = false;
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        self.text.name == name
    }

    /// Returns the size of the node without its children.
    fn own_size(&self) -> Size {
        Size {
            nodes: 1,
            text_bytes: self.text.name.len() + self.text.args.len(),
            names: 0,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }

    /// Compares everything but the counts. Equal nodes can be merged.
    fn order(&self, other: &Self) -> Ordering {
        let Self {
            kind,
            text,
            count: _,
            is_open,
            children,
            height: _,
        } = self;
        let own = (kind, text, is_open).cmp(&(&other.kind, &other.text, &other.is_open));
        own.then_with(|| children.cmp(&other.children))
    }
}

impl OpenSlice {
    pub(super) fn new(text: Text, begin_ns: u64, flows: Box<[u64]>) -> Self {
        Self {
            node: Node::new(Kind::Slice, text),
            begin_ns,
            flows,
            first_poll: None,
        }
    }
}

/// Prints one line, without the children.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Slice => "",
            Kind::Instant => "* ",
            Kind::StrayEnd => "(an end without its begin)",
        })?;
        f.write_str(&self.text.name)?;
        f.write_str(&self.text.args)?;
        if self.is_open {
            f.write_str(" (not ended)")?;
        }
        if self.count > 1 {
            write!(f, " x{}", self.count)?;
        }
        Ok(())
    }
}

pub(super) fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::super::budget::NAMES_MAX;
    use super::*;

    fn text(name: &str) -> Text {
        Text {
            name: name.to_owned(),
            args: String::new(),
        }
    }

    fn begin(tree: &mut Tree, name: &str, budget: &mut Budget) {
        tree.begin(
            Open::Slice(OpenSlice::new(text(name), 0, Box::default())),
            budget,
        );
    }

    fn end(tree: &mut Tree, budget: &mut Budget) {
        if !tree.end_left_out()
            && let Some(Open::Slice(mut slice)) = tree.pop(budget)
        {
            slice.node.end("");
            add(tree, slice.node, budget);
        }
    }

    fn add_leaf(tree: &mut Tree, name: &str, budget: &mut Budget) {
        add(tree, Node::new(Kind::Instant, text(name)), budget);
    }

    fn add(tree: &mut Tree, node: Node, budget: &mut Budget) {
        match tree.depth().checked_sub(1) {
            Some(depth) => tree.add_at(depth, SiblingOrder::InOrder, node, budget),
            None => tree.add_root(node, budget),
        }
    }

    fn written(tree: &Tree) -> String {
        let mut out = String::new();
        tree.write(0, &mut out);
        out
    }

    fn slice(
        tree: &mut Tree,
        name: &str,
        budget: &mut Budget,
        inside: impl Fn(&mut Tree, &mut Budget),
    ) {
        begin(tree, name, budget);
        inside(tree, budget);
        end(tree, budget);
    }

    #[test]
    fn equal_siblings_are_merged() {
        let (mut tree, mut budget) = (Tree::default(), Budget::new(100));
        for leaf in ["a", "a", "b", "a"] {
            slice(&mut tree, "loop", &mut budget, |tree, budget| {
                slice(tree, leaf, budget, |_, _| ());
                add_leaf(tree, "done", budget);
                add_leaf(tree, "done", budget);
            });
        }
        let expected = "\
loop x2
  a
  * done x2
loop
  b
  * done x2
loop
  a
  * done x2
";
        assert_eq!(written(&tree), expected);
        assert_eq!(budget.left.nodes, 100 - 9);
    }

    #[test]
    fn siblings_beyond_the_limits_are_counted_by_name() {
        let (mut tree, mut budget) = (Tree::default(), Budget::new(4));
        for name in ["a", "b", "a", "b", "a", "b", "a", "c"] {
            add_leaf(&mut tree, name, &mut budget);
        }
        assert_eq!(
            written(&tree),
            "* a\n* b\n* a\n* b\n.. a x2\n.. b x1\n.. c x1\n"
        );

        let (mut tree, mut budget) = (Tree::default(), Budget::new(usize::MAX / 2));
        for number in 0..2 * SIBLINGS_MAX {
            slice(&mut tree, ["a", "b"][number % 2], &mut budget, |_, _| ());
        }
        let lines = written(&tree);
        assert_eq!(lines.lines().count(), SIBLINGS_MAX + 2);
        assert!(lines.ends_with(".. a x500\n.. b x500\n"), "{lines}");
    }

    #[test]
    fn slices_beyond_the_maximum_depth_are_left_out() {
        let (mut tree, mut budget) = (Tree::default(), Budget::new(10_000));
        for _ in 0..2 * DEPTH_MAX {
            begin(&mut tree, "deeper", &mut budget);
        }
        for _ in 0..2 * DEPTH_MAX {
            end(&mut tree, &mut budget);
        }
        add_leaf(&mut tree, "after", &mut budget);
        let lines = written(&tree);
        assert_eq!(lines.lines().count(), DEPTH_MAX + 1);
        assert!(lines.ends_with("\n* after\n"), "{lines}");
    }

    #[test]
    fn merged_and_dropped_nodes_return_their_budget() {
        let (mut tree, mut budget) = (Tree::default(), Budget::new(100));
        let before = budget.left;
        for number in 0..3 * SIBLINGS_MAX {
            // No two children are equal.
            let name = format!("child {number}");
            slice(&mut tree, "parent", &mut budget, |tree, budget| {
                add_leaf(tree, &name, budget);
            });
        }
        let taken = before.checked_sub(budget.left).expect("less is left");
        assert_eq!(taken, tree.roots.size());
        assert_eq!((taken.nodes, taken.names), (100, 1));
    }

    #[test]
    fn names_beyond_the_limit_share_one_line() {
        let (mut tree, mut budget) = (Tree::default(), Budget::new(0));
        for number in 0..NAMES_MAX + 2 {
            add_leaf(&mut tree, &format!("{number:06}"), &mut budget);
        }
        let lines = written(&tree);
        assert_eq!(lines.lines().count(), NAMES_MAX + 1);
        assert!(lines.starts_with(".. (more names) x2\n.. 000000 x1\n"));
    }

    #[test]
    fn slices_beyond_the_open_limit_are_left_out() {
        let mut budget = Budget::new(100);
        budget.open_left = 1;
        let mut trees = [Tree::default(), Tree::default()];
        begin(&mut trees[0], "open", &mut budget);
        begin(&mut trees[1], "left out", &mut budget);
        end(&mut trees[0], &mut budget);
        begin(&mut trees[1], "inside of it", &mut budget);
        end(&mut trees[1], &mut budget);
        end(&mut trees[1], &mut budget);
        begin(&mut trees[1], "after", &mut budget);
        end(&mut trees[1], &mut budget);
        assert_eq!(written(&trees[0]), "open\n");
        assert_eq!(written(&trees[1]), "after\n");
    }
}
