//! Nested spans as trees of names, with a value for each stack.

use std::collections::HashMap;

use tracezero_reader::NameId;

use crate::table::printable;

/// The maximum number of different stacks. Spans in further stacks count for the stack around them.
const MAX_NODES: usize = 1 << 17;
/// The maximum depth of a stack. Deeper spans count for the stack around them.
const MAX_DEPTH: u32 = 256;
/// The maximum size of a name in a folded line. Longer names are cut.
const MAX_FRAME_BYTES: usize = 256;

/// Trees of stacks. `R` says what a tree is of, `V` is the value of a stack.
#[derive(Debug)]
pub(crate) struct StackTrees<R, V> {
    nodes: Vec<Node<R, V>>,
    children: HashMap<(NodeId, NameId), NodeId>,
    /// The number of spans that count for the stack around them, because of a limit.
    left_out: u64,
}

/// A stack, identified by its innermost span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(u32);

#[derive(Debug)]
struct Node<R, V> {
    frame: Frame<R>,
    value: V,
    /// The number of spans around the innermost span of this stack.
    depth: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Frame<R> {
    Root(R),
    Span { parent: NodeId, name: NameId },
}

impl<R, V> Default for StackTrees<R, V> {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            children: HashMap::new(),
            left_out: 0,
        }
    }
}

impl<R: Copy, V: Default> StackTrees<R, V> {
    /// Adds a tree.
    pub(crate) fn add_root(&mut self, root: R) -> NodeId {
        self.add(Frame::Root(root), 0)
    }

    /// Returns the stack of a span in another stack, or that other stack if there is no room.
    pub(crate) fn child(&mut self, parent: NodeId, name: NameId) -> NodeId {
        let key = (parent, name);
        if let Some(known) = self.children.get(&key) {
            return *known;
        }
        let depth = self.nodes[parent.0 as usize].depth + 1;
        if self.nodes.len() >= MAX_NODES || depth > MAX_DEPTH {
            self.left_out += 1;
            return parent;
        }
        let node = self.add(Frame::Span { parent, name }, depth);
        self.children.insert(key, node);
        node
    }

    fn add(&mut self, frame: Frame<R>, depth: u32) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node {
            frame,
            value: V::default(),
            depth,
        });
        id
    }

    pub(crate) fn value(&self, node: NodeId) -> &V {
        &self.nodes[node.0 as usize].value
    }

    #[inline]
    pub(crate) fn value_mut(&mut self, node: NodeId) -> &mut V {
        &mut self.nodes[node.0 as usize].value
    }

    pub(crate) fn frame(&self, node: NodeId) -> Frame<R> {
        self.nodes[node.0 as usize].frame
    }

    /// Returns all stacks, each before those inside of it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NodeId> + use<R, V> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// Returns the tree of a stack, and its spans from the inside out.
    pub(crate) fn path(&self, mut node: NodeId) -> (R, Vec<NameId>) {
        let mut path = Vec::new();
        loop {
            match self.frame(node) {
                Frame::Root(root) => return (root, path),
                Frame::Span { parent, name } => {
                    path.push(name);
                    node = parent;
                }
            }
        }
    }

    /// Returns the number of spans that count for the stack around them, because of a limit.
    pub(crate) const fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// Formats a name for a folded line.
pub(crate) fn folded_frame(name: &str) -> String {
    match name {
        "" => "(no name)".to_owned(),
        name => {
            let name = &name[..name.floor_char_boundary(MAX_FRAME_BYTES)];
            printable(name).replace(';', ":")
        }
    }
}

#[cfg(test)]
mod tests {
    use tracezero_reader::NameTable;

    use super::*;

    #[test]
    fn equal_names_below_a_stack_are_one_stack() {
        let mut names = NameTable::new();
        let [read, parse] = ["read", "parse"].map(|name| names.intern(name));
        let mut stacks = StackTrees::<&str, u64>::default();
        let root = stacks.add_root("main");
        let outer = stacks.child(root, read);
        let inner = stacks.child(outer, parse);
        assert_eq!(stacks.child(outer, parse), inner);
        assert_ne!(stacks.child(root, parse), inner);
        assert_eq!(stacks.path(inner), ("main", vec![parse, read]));
    }

    #[test]
    fn stacks_beyond_a_limit_are_those_around_them() {
        let mut names = NameTable::new();
        let mut stacks = StackTrees::<(), u64>::default();
        let root = stacks.add_root(());
        let name = names.intern("again");
        let deepest = (0..MAX_DEPTH + 2).fold(root, |stack, _| stacks.child(stack, name));
        assert_eq!(stacks.path(deepest).1.len(), MAX_DEPTH as usize);
        assert_eq!(stacks.left_out(), 2);
        for number in 0..MAX_NODES {
            stacks.child(root, names.intern(&number.to_string()));
        }
        assert_eq!(stacks.iter().count(), MAX_NODES);
        assert_eq!(stacks.child(root, names.intern("new")), root);
    }
}
