//! What is on one track, as a tree in which siblings that are alike are one.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Siblings that are shown one by one; of those that come after them only the names are counted.
const SIBLINGS_MAX: usize = 1000;

/// Depth of the tree. What is deeper is counted with what is at that depth.
const DEPTH_MAX: usize = 512;

/// The slices and instants of one track.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Slices that have not ended, from the outside in.
    open: Vec<Node>,
    /// Begins that were too deep, and have not ended.
    too_deep: u64,
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

/// Nodes that an outline may have, over all its tracks.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) nodes_left: usize,
}

impl Tree {
    pub(super) fn begin(&mut self, text: Text) {
        if self.open.len() < DEPTH_MAX {
            self.open.push(Node::new(Kind::Slice, text));
        } else {
            self.too_deep += 1;
        }
    }

    /// The newest slice ends. `args` are those of its end.
    pub(super) fn end(&mut self, args: &str, budget: &mut Budget) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return;
        }
        match self.open.pop() {
            Some(mut node) => {
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
            budget.nodes_left += node.children.size();
        } else if self.nodes.len() < SIBLINGS_MAX && budget.nodes_left > 0 {
            budget.nodes_left -= 1;
            self.nodes.push(node);
        } else {
            budget.nodes_left += node.children.size();
            *self.left_out.entry(node.text.name).or_default() += node.count;
        }
    }

    /// How many nodes there are, with all below them.
    fn size(&self) -> usize {
        let below = |node: &Node| 1 + node.children.size();
        self.nodes.iter().map(below).sum()
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
        tree.begin(text(name));
        inside(tree, budget);
        tree.end("", budget);
    }

    #[test]
    fn siblings_that_are_alike_with_all_below_them_are_one() {
        let (mut tree, mut budget) = (Tree::default(), Budget { nodes_left: 100 });
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
        assert_eq!(budget.nodes_left, 100 - 9);
    }

    #[test]
    fn what_has_no_end_or_no_begin_is_marked() {
        let (mut tree, mut budget) = (Tree::default(), Budget { nodes_left: 100 });
        tree.end(" n=1", &mut budget);
        tree.begin(text("outer"));
        tree.begin(text("inner"));
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
        let (mut tree, mut budget) = (Tree::default(), Budget { nodes_left: 4 });
        for name in ["a", "b", "a", "b", "a", "b", "a", "c"] {
            tree.add_leaf(Kind::Instant, text(name), &mut budget);
        }
        assert_eq!(
            written(&tree),
            "* a\n* b\n* a\n* b\n.. a x2\n.. b x1\n.. c x1\n"
        );

        let (mut tree, mut budget) = (
            Tree::default(),
            Budget {
                nodes_left: usize::MAX / 2,
            },
        );
        for number in 0..2 * SIBLINGS_MAX {
            slice(&mut tree, ["a", "b"][number % 2], &mut budget, |_, _| ());
        }
        let lines = written(&tree);
        assert_eq!(lines.lines().count(), SIBLINGS_MAX + 2);
        assert!(lines.ends_with(".. a x500\n.. b x500\n"), "{lines}");
    }

    #[test]
    fn slices_that_nest_too_deep_are_left_out() {
        let (mut tree, mut budget) = (Tree::default(), Budget { nodes_left: 10_000 });
        for _ in 0..2 * DEPTH_MAX {
            tree.begin(text("deeper"));
        }
        for _ in 0..2 * DEPTH_MAX {
            tree.end("", &mut budget);
        }
        tree.add_leaf(Kind::Instant, text("after"), &mut budget);
        let lines = written(&tree);
        assert_eq!(lines.lines().count(), DEPTH_MAX + 1);
        assert!(lines.ends_with("\n* after\n"), "{lines}");
    }
}
