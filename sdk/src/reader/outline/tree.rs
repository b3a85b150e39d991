//! What is on one track, as a tree in which siblings that are alike are one.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Siblings that are shown one by one; of those that come after them only the names are counted.
const SIBLINGS_MAX: usize = 1000;

/// Depth of the tree. What is deeper is left out.
const DEPTH_MAX: usize = 512;

/// Slices that may be open on all tracks together. What begins beyond is left out.
const OPEN_MAX: usize = 1 << 16;

/// Different names of siblings that are not shown one by one, over all tracks.
const NAMES_MAX: usize = 1 << 16;

/// Text of all nodes.
const TEXT_MAX_BYTES: usize = 256 << 20;

/// What stands for names for which there is no room.
const MORE_NAMES: &str = "(more names)";

/// The slices and instants of one track.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Slices that have not ended, from the outside in.
    open: Vec<Node>,
    /// Slices that were left out, and have not ended.
    left_out: u64,
    roots: Siblings,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Siblings {
    nodes: Vec<Node>,
    /// How many of a name were left out.
    left_out: BTreeMap<String, u64>,
}

#[derive(Debug, PartialEq, Eq)]
struct Node {
    kind: Kind,
    text: Text,
    /// How many of them there are in a row.
    count: u64,
    /// Whether it ended, for slices.
    is_open: bool,
    children: Siblings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Slice,
    Instant,
    /// The end of a slice whose begin is not there.
    StrayEnd,
}

/// What is shown of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) name: String,
    /// With a space before each; empty for none.
    pub(super) args: String,
}

/// What an outline may still take, over all its tracks.
#[derive(Debug)]
pub(super) struct Budget {
    left: Size,
    open_left: usize,
}

/// What some nodes take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    nodes: usize,
    text_bytes: usize,
    /// Names of siblings that are not shown.
    names: usize,
}

impl Budget {
    pub(super) const fn new(nodes: usize) -> Self {
        Self {
            left: Size {
                nodes,
                text_bytes: TEXT_MAX_BYTES,
                names: NAMES_MAX,
            },
            open_left: OPEN_MAX,
        }
    }

    /// Takes that much away; false if there is less.
    fn take(&mut self, size: Size) -> bool {
        match self.left.checked_sub(size) {
            Some(left) => self.left = left,
            None => return false,
        }
        true
    }

    fn give_back(&mut self, size: Size) {
        self.left = self.left.plus(size);
    }
}

impl Size {
    fn checked_sub(self, other: Self) -> Option<Self> {
        Some(Self {
            nodes: self.nodes.checked_sub(other.nodes)?,
            text_bytes: self.text_bytes.checked_sub(other.text_bytes)?,
            names: self.names.checked_sub(other.names)?,
        })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            nodes: self.nodes + other.nodes,
            text_bytes: self.text_bytes + other.text_bytes,
            names: self.names + other.names,
        }
    }

    fn of_name(name: &str) -> Self {
        Self {
            nodes: 0,
            text_bytes: name.len(),
            names: 1,
        }
    }
}

impl Tree {
    pub(super) fn begin(&mut self, text: Text, budget: &mut Budget) {
        // Ends are those of the slices that began last.
        let has_room = self.open.len() < DEPTH_MAX && budget.open_left > 0;
        if has_room && self.left_out == 0 {
            budget.open_left -= 1;
            self.open.push(Node::new(Kind::Slice, text));
        } else {
            self.left_out += 1;
        }
    }

    /// The newest slice ends. `args` are those of its end.
    pub(super) fn end(&mut self, args: &str, budget: &mut Budget) {
        if self.left_out > 0 {
            self.left_out -= 1;
            return;
        }
        match self.open.pop() {
            Some(mut node) => {
                budget.open_left += 1;
                node.text.args.push_str(args);
                node.is_open = false;
                self.add(node, budget);
            }
            None => {
                let text = Text {
                    args: args.to_owned(),
                    ..Text::default()
                };
                self.add_leaf(Kind::StrayEnd, text, budget);
            }
        }
    }

    /// Something without an inside.
    pub(super) fn add_leaf(&mut self, kind: Kind, text: Text, budget: &mut Budget) {
        self.add(Node::new(kind, text), budget);
    }

    /// What is open stays so.
    pub(super) fn finish(&mut self, budget: &mut Budget) {
        while let Some(node) = self.open.pop() {
            budget.open_left += 1;
            self.add(node, budget);
        }
    }

    fn add(&mut self, node: Node, budget: &mut Budget) {
        let parent = self.open.last_mut();
        let siblings = parent.map_or(&mut self.roots, |parent| &mut parent.children);
        siblings.add(node, budget);
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
        } else if self.nodes.len() < SIBLINGS_MAX && budget.take(node.own_size()) {
            self.nodes.push(node);
        } else {
            budget.give_back(node.children.size());
            self.leave_out(node.text.name, node.count, budget);
        }
    }

    fn leave_out(&mut self, name: String, count: u64, budget: &mut Budget) {
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
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|node| node.own_size().plus(node.children.size()));
        let names = self.left_out.keys().map(|name| match name.as_str() {
            MORE_NAMES => Size::default(),
            name => Size::of_name(name),
        });
        nodes.chain(names).fold(Size::default(), Size::plus)
    }

    fn write(&self, depth: usize, out: &mut String) {
        for node in &self.nodes {
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
    fn new(kind: Kind, text: Text) -> Self {
        Self {
            kind,
            text,
            count: 1,
            is_open: kind == Kind::Slice,
            children: Siblings::default(),
        }
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
        let Self {
            kind,
            text,
            count: _,
            is_open,
            children,
        } = self;
        (*kind, *is_open) == (other.kind, other.is_open)
            && *text == other.text
            && *children == other.children
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
    use super::*;

    fn text(name: &str) -> Text {
        Text {
            name: name.to_owned(),
            args: String::new(),
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
        tree.begin(text(name), budget);
        inside(tree, budget);
        tree.end("", budget);
    }

    #[test]
    fn siblings_that_are_alike_with_all_below_them_are_one() {
        let (mut tree, mut budget) = (Tree::default(), Budget::new(100));
        for leaf in ["a", "a", "b", "a"] {
            slice(&mut tree, "loop", &mut budget, |tree, budget| {
                slice(tree, leaf, budget, |_, _| ());
                tree.add_leaf(Kind::Instant, text("done"), budget);
                tree.add_leaf(Kind::Instant, text("done"), budget);
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
    fn what_has_no_end_or_no_begin_is_marked() {
        let (mut tree, mut budget) = (Tree::default(), Budget::new(100));
        tree.end(" n=1", &mut budget);
        tree.begin(text("outer"), &mut budget);
        tree.begin(text("inner"), &mut budget);
        tree.finish(&mut budget);
        let expected = "\
(an end without its begin) n=1
outer (not ended)
  inner (not ended)
";
        assert_eq!(written(&tree), expected);
    }

    #[test]
    fn beyond_the_limits_names_are_counted() {
        let (mut tree, mut budget) = (Tree::default(), Budget::new(4));
        for name in ["a", "b", "a", "b", "a", "b", "a", "c"] {
            tree.add_leaf(Kind::Instant, text(name), &mut budget);
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
            tree.begin(text("deeper"), &mut budget);
        }
        for _ in 0..2 * DEPTH_MAX {
            tree.end("", &mut budget);
        }
        tree.add_leaf(Kind::Instant, text("after"), &mut budget);
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
                tree.add_leaf(Kind::Instant, text(&name), budget);
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
            tree.add_leaf(Kind::Instant, text(&format!("{number:06}")), &mut budget);
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
        trees[0].begin(text("open"), &mut budget);
        trees[1].begin(text("left out"), &mut budget);
        trees[0].end("", &mut budget);
        trees[1].begin(text("inside of it"), &mut budget);
        trees[1].end("", &mut budget);
        trees[1].end("", &mut budget);
        trees[1].begin(text("after"), &mut budget);
        trees[1].end("", &mut budget);
        assert_eq!(written(&trees[0]), "open\n");
        assert_eq!(written(&trees[1]), "after\n");
    }
}
