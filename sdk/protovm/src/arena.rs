//! The nodes of a state, and the memory that they are charged for.
//!
//! ```text
//!   root (0) --field 1--> Indexed --0--> Message --field 1--> Scalar
//!            |                    '--1--> Bytes
//!            '--field 2--> Mapped  --10-> Message ...
//! ```
//!
//! Nodes refer to each other by index into one vector, so a node can be unlinked from its parent,
//! and no tree is deep enough to exhaust the stack. An index that was freed is used again; its
//! generation tells a cursor that the node is another one.

use std::collections::BTreeMap;

use crate::error::AbortCause;
use crate::source::Scalar;

/// The cost of a node, and of an entry in its parent. It is Perfetto's slot on 64-bit
/// machines.
pub const SLOT_BYTES: usize = 48;
/// The cost of a field, an element or an entry of a map, besides the bytes of a blob: a node and an
/// entry in its parent. The root costs nothing.
pub const NODE_AND_ENTRY_BYTES: usize = 2 * SLOT_BYTES;
/// The greatest memory limit; a larger one counts as this one. Any part of a state takes less room
/// serialized than in memory, so the lengths of nested messages have at most 28 bits.
pub const MEMORY_LIMIT_MAX_BYTES: usize = (1 << 28) - 1;

pub(crate) const ROOT_INDEX: u32 = 0;
/// The cursor of the root, which is never freed.
pub(crate) const ROOT: NodeId = NodeId {
    index: ROOT_INDEX,
    generation: 0,
};

/// A cursor into the state. It is stale if the node was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId {
    index: u32,
    generation: u32,
}

pub(crate) type Children = BTreeMap<u32, u32>;

#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The index of the parent. The root is its own parent.
    parent: u32,
    /// The node's key in `parent`'s children: field number, index or map key.
    key: u32,
    generation: u32,
    /// Set by the merge that is in progress.
    pub(crate) is_merged: bool,
    pub(crate) content: Content,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// A placeholder, which serializes to nothing. Free nodes are empty, too.
    Empty,
    /// The payload of a length-delimited field.
    Bytes(Box<[u8]>),
    Scalar(Scalar),
    /// Field number to node.
    Message(Children),
    /// Index to element. An element is none of the two kinds of lists.
    Indexed(Children),
    /// Map key to element. An element is none of the two kinds of lists.
    Mapped(Children),
}

impl Content {
    fn blob_bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }

    pub(crate) const fn children(&self) -> Option<&Children> {
        match self {
            Self::Message(children) | Self::Indexed(children) | Self::Mapped(children) => {
                Some(children)
            }
            Self::Empty | Self::Bytes(_) | Self::Scalar(_) => None,
        }
    }
}

const _: () = assert!(size_of::<Node>() <= SLOT_BYTES);

#[derive(Clone, Debug)]
pub(crate) struct Arena {
    /// The first is the root.
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// At most `limit_bytes`.
    used_bytes: usize,
    limit_bytes: usize,
    /// The nodes that are to be freed, while a subtree is freed; otherwise empty.
    doomed: Vec<u32>,
    /// The number of changes so far.
    changes: u64,
}

impl Arena {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self {
            nodes: vec![Node {
                parent: 0,
                key: 0,
                generation: 0,
                is_merged: false,
                content: Content::Empty,
            }],
            free: Vec::new(),
            used_bytes: 0,
            limit_bytes: limit_bytes.min(MEMORY_LIMIT_MAX_BYTES),
            doomed: Vec::new(),
            changes: 0,
        }
    }

    /// Returns a number that grows with each change.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) const fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    pub(crate) const fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Returns the node of a cursor.
    pub(crate) fn resolve(&self, id: NodeId) -> Result<u32, AbortCause> {
        match self.nodes.get(id.index as usize) {
            Some(node) if node.generation == id.generation => Ok(id.index),
            _ => Err(AbortCause::Deleted),
        }
    }

    pub(crate) fn id(&self, index: u32) -> NodeId {
        NodeId {
            index,
            generation: self.node(index).generation,
        }
    }

    #[inline]
    pub(crate) fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    #[inline]
    pub(crate) fn node_mut(&mut self, index: u32) -> &mut Node {
        &mut self.nodes[index as usize]
    }

    pub(crate) fn content(&self, index: u32) -> &Content {
        &self.node(index).content
    }

    /// Returns the children of a message. An empty node becomes a message.
    fn children_mut(&mut self, index: u32) -> Option<&mut Children> {
        let content = &mut self.node_mut(index).content;
        if matches!(content, Content::Empty) {
            *content = Content::Message(Children::new());
        }
        match content {
            Content::Message(children) | Content::Indexed(children) | Content::Mapped(children) => {
                Some(children)
            }
            _ => None,
        }
    }

    fn charge(&mut self, len_bytes: usize) -> Result<(), AbortCause> {
        let used = self.used_bytes.checked_add(len_bytes);
        self.used_bytes = used
            .filter(|used| *used <= self.limit_bytes)
            .ok_or(AbortCause::MemoryLimit)?;
        Ok(())
    }

    fn discharge(&mut self, len_bytes: usize) {
        debug_assert!(len_bytes <= self.used_bytes);
        self.used_bytes = self.used_bytes.saturating_sub(len_bytes);
    }

    /// Adds a child to a message, a list, a map, or an empty node, which becomes a message. The key
    /// must be new.
    pub(crate) fn insert(
        &mut self,
        parent: u32,
        key: u32,
        content: Content,
    ) -> Result<u32, AbortCause> {
        self.charge(NODE_AND_ENTRY_BYTES + content.blob_bytes())?;
        self.changes += 1;
        let index = self.take_free(parent, key, content);
        if let Some(children) = self.children_mut(parent) {
            let old = children.insert(key, index);
            debug_assert_eq!(old, None);
        }
        Ok(index)
    }

    /// Makes a node of a free one, or of a new one. The limit keeps indices below 2^32.
    fn take_free(&mut self, parent: u32, key: u32, content: Content) -> u32 {
        if let Some(index) = self.free.pop() {
            let node = self.node_mut(index);
            node.parent = parent;
            node.key = key;
            node.content = content;
            return index;
        }
        self.nodes.push(Node {
            parent,
            key,
            generation: 0,
            is_merged: false,
            content,
        });
        (self.nodes.len() - 1) as u32
    }

    /// Puts a list or map in the place of a node, which becomes its only element. Returns the list.
    /// Cursors to the node stay valid.
    pub(crate) fn wrap(
        &mut self,
        element: u32,
        key: u32,
        list: fn(Children) -> Content,
    ) -> Result<u32, AbortCause> {
        self.charge(NODE_AND_ENTRY_BYTES)?;
        self.changes += 1;
        let Node {
            parent, key: field, ..
        } = *self.node(element);
        let index = self.take_free(parent, field, list(Children::from([(key, element)])));
        let node = self.node_mut(element);
        node.parent = index;
        node.key = key;
        if let Some(children) = self.children_mut(parent) {
            children.insert(field, index);
        }
        Ok(index)
    }

    /// Replaces the content of a node and frees what was below it. If the limit would be exceeded,
    /// nothing changes.
    pub(crate) fn replace(&mut self, index: u32, content: Content) -> Result<(), AbortCause> {
        let needed = content.blob_bytes();
        let without = self.used_bytes.checked_add(needed);
        // Adding up what will be freed takes long, and is needed only close to the limit.
        if without.is_none_or(|used| used > self.limit_bytes) {
            let freed = self.bytes_below(index);
            let kept = self.used_bytes.saturating_sub(freed);
            if kept.saturating_add(needed) > self.limit_bytes {
                return Err(AbortCause::MemoryLimit);
            }
        }
        self.clear(index);
        self.charge(needed)?;
        self.node_mut(index).content = content;
        Ok(())
    }

    /// Makes an empty node a message or list without children.
    pub(crate) fn fill(&mut self, index: u32, content: fn(Children) -> Content) {
        let node = self.node_mut(index);
        debug_assert!(matches!(node.content, Content::Empty));
        node.content = content(Children::new());
        self.changes += 1;
    }

    /// Returns what [`Self::clear`] would free.
    fn bytes_below(&self, index: u32) -> usize {
        let mut sum = 0;
        let mut pending = vec![index];
        while let Some(index) = pending.pop() {
            let content = self.content(index);
            sum += content.blob_bytes();
            if let Some(children) = content.children() {
                sum += children.len() * NODE_AND_ENTRY_BYTES;
                pending.extend(children.values());
            }
        }
        sum
    }

    /// Empties a node, and frees what was below it.
    pub(crate) fn clear(&mut self, index: u32) {
        self.changes += 1;
        self.empty(index);
        self.free_doomed();
    }

    fn free_doomed(&mut self) {
        while let Some(index) = self.doomed.pop() {
            self.empty(index);
            self.discharge(NODE_AND_ENTRY_BYTES);
            let node = self.node_mut(index);
            node.generation = node.generation.wrapping_add(1);
            node.is_merged = false;
            self.free.push(index);
        }
    }

    fn empty(&mut self, index: u32) {
        let content = std::mem::replace(&mut self.node_mut(index).content, Content::Empty);
        self.discharge(content.blob_bytes());
        if let Some(children) = content.children() {
            self.doomed.extend(children.values());
        }
    }

    /// Unlinks a node other than the root from its parent, and frees it and what was below it.
    pub(crate) fn remove(&mut self, index: u32) {
        self.changes += 1;
        let Node { parent, key, .. } = *self.node(index);
        if let Some(children) = self.children_mut(parent) {
            let removed = children.remove(&key);
            debug_assert_eq!(removed, Some(index));
        }
        self.doomed.push(index);
        self.free_doomed();
    }

    /// Takes the blob of a node, which becomes an empty message.
    pub(crate) fn take_blob(&mut self, index: u32) -> Option<Box<[u8]>> {
        let content = &mut self.node_mut(index).content;
        let Content::Bytes(bytes) = content else {
            return None;
        };
        let bytes = std::mem::take(bytes);
        *content = Content::Message(Children::new());
        self.changes += 1;
        self.discharge(bytes.len());
        Some(bytes)
    }

    /// Undoes [`Self::take_blob`]. The limit holds as it did before.
    pub(crate) fn give_back_blob(&mut self, index: u32, bytes: Box<[u8]>) {
        self.clear(index);
        self.used_bytes += bytes.len();
        self.node_mut(index).content = Content::Bytes(bytes);
    }

    /// Makes a map of a list. `entries` are all elements with their keys, in ascending order.
    pub(crate) fn make_map(&mut self, list: u32, entries: Vec<(u32, u32)>) {
        self.changes += 1;
        for &(key, element) in &entries {
            self.node_mut(element).key = key;
        }
        self.node_mut(list).content = Content::Mapped(entries.into_iter().collect());
    }
}
