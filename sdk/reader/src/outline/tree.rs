//! What is on one track, as a tree in which siblings that are alike are one.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::budget::{Budget, Size};
use crate::tracks::TrackId;

/// Siblings that are shown one by one; of those that come after them only the names are counted.
const SIBLINGS_MAX: usize = 1000;

/// Depth of the tree. What is deeper is left out.
const DEPTH_MAX: usize = 512;

/// What stands for names for which there is no room.
const MORE_NAMES: &str = "(more names)";

/// The slices and instants of one track.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Slices that have not ended, from the outside in. One in `n` others has, with all that is inside of
    /// it, at most the height `DEPTH_MAX - n`.
    open: Vec<Open>,
    /// Slices that were left out, and have not ended.
    left_out: u64,
    roots: Siblings,
}

/// A slice that has not ended.
#[derive(Debug)]
pub(super) enum Open {
    Slice(OpenSlice),
    /// A poll of the future whose span began with this flow, which has no node.
    Poll {
        flow: u64,
    },
}

/// A slice that will be a node.
#[derive(Debug)]
pub(super) struct OpenSlice {
    pub(super) node: Node,
    pub(super) begin_ns: u64,
    /// That began with it, if it may be a life.
    pub(super) flows: Box<[u64]>,
    /// If it is a life: where it was polled first.
    pub(super) polled: Option<FirstPoll>,
}

/// Where a life was polled first.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstPoll {
    /// In what; `None` if it was in nothing.
    pub(super) polled_in: Option<Position>,
    /// Whether it was in the poll of another life.
    pub(super) is_in_poll: bool,
}

/// An open slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) track: TrackId,
    /// How many slices are around it on its track.
    pub(super) depth: usize,
    /// When it began.
    pub(super) begin_ns: u64,
}

/// How a node stands among its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// As things happened.
    InOrder,
    /// Wherever: it is a task beside others, and which is first is chance.
    AnyOrder,
}

#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Siblings {
    nodes: Vec<Node>,
    /// Those in any order, sorted.
    tasks: Vec<Node>,
    /// How many of a name were left out.
    left_out: BTreeMap<String, u64>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    kind: Kind,
    text: Text,
    /// How many of them there are in a row.
    count: u64,
    /// Whether it ended, for slices.
    is_open: bool,
    children: Siblings,
    /// Of the tree that begins here, 1 without children.
    height: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Slice,
    Instant,
    /// The end of a slice whose begin is not there.
    StrayEnd,
}

/// What is shown of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text {
    pub(super) name: String,
    /// With a space before each; empty for none.
    pub(super) args: String,
}

impl Tree {
    /// Whether there is room for it.
    pub(super) fn begin(&mut self, open: Open, budget: &mut Budget) -> bool {
        let has_room = self.open.len() < DEPTH_MAX && budget.open_left > 0;
        // Ends are those of the slices that began last.
        if has_room && self.left_out == 0 {
            budget.open_left -= 1;
            self.open.push(open);
            true
        } else {
            self.left_out += 1;
            false
        }
    }

    /// If the newest slice was left out, it ends.
    pub(super) const fn end_left_out(&mut self) -> bool {
        let is_left_out = self.left_out > 0;
        self.left_out = self.left_out.saturating_sub(1);
        is_left_out
    }

    /// The innermost slice that is open, which is so no more.
    pub(super) fn pop(&mut self, budget: &mut Budget) -> Option<Open> {
        let open = self.open.pop()?;
        budget.open_left += 1;
        Some(open)
    }

    /// How many slices are open.
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

    /// The depth of the innermost slice that has been open since then, and when it began.
    pub(super) fn open_since(&self, timestamp_ns: u64) -> Option<(usize, u64)> {
        let open = self.open.iter().enumerate().rev();
        let mut slices = open.filter_map(|(depth, open)| match open {
            Open::Slice(slice) => Some((depth, slice.begin_ns)),
            Open::Poll { .. } => None,
        });
        slices.find(|(_, begin_ns)| *begin_ns <= timestamp_ns)
    }

    /// The slice at this depth.
    /// The slice that is open at this depth.
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

    /// Adds what is in no slice.
    pub(super) fn add_root(&mut self, node: Node, budget: &mut Budget) {
        self.roots.add(node, budget);
    }

    /// Adds to the slice at this depth, if it is there.
    pub(super) fn add_at(&mut self, depth: usize, place: Place, node: Node, budget: &mut Budget) {
        let Some(OpenSlice { node: parent, .. }) = self.slice_mut(depth) else {
            return;
        };
        if depth + 1 + node.height > DEPTH_MAX {
            return parent.children.leave_out(node, budget);
        }
        parent.height = parent.height.max(1 + node.height);
        match place {
            Place::InOrder => parent.children.add(node, budget),
            Place::AnyOrder => parent.children.add_task(node, budget),
        }
    }

    /// Writes a line for each node, `depth` steps to the right.
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

    /// The same in any order.
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

    /// Counts it by its name only.
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

    /// What they have taken of the budget, with all below them.
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

    /// The slice ends, with these arguments.
    pub(super) fn end(&mut self, args: &str) {
        self.text.args.push_str(args);
        self.is_open = false;
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        self.text.name == name
    }

    /// Without what is below it.
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

    /// Equal are those that are alike, with all below them.
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
            polled: None,
        }
    }
}

/// One line, without what is below.
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
            Some(depth) => tree.add_at(depth, Place::InOrder, node, budget),
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
    fn siblings_that_are_alike_with_all_below_them_are_one() {
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
    fn beyond_the_limits_names_are_counted() {
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
    fn slices_that_nest_too_deep_are_left_out() {
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
    fn what_is_merged_or_left_out_gives_back_what_it_took() {
        let (mut tree, mut budget) = (Tree::default(), Budget::new(100));
        let before = budget.left;
        for number in 0..3 * SIBLINGS_MAX {
            // No two are alike.
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
    fn names_for_which_there_is_no_room_are_one() {
        let (mut tree, mut budget) = (Tree::default(), Budget::new(0));
        for number in 0..NAMES_MAX + 2 {
            add_leaf(&mut tree, &format!("{number:06}"), &mut budget);
        }
        let lines = written(&tree);
        assert_eq!(lines.lines().count(), NAMES_MAX + 1);
        assert!(lines.starts_with(".. (more names) x2\n.. 000000 x1\n"));
    }

    #[test]
    fn slices_that_are_open_beyond_the_limit_are_left_out_with_their_ends() {
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
