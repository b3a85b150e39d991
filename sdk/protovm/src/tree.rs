//! The state: a message that is parsed only where a program enters it.
//!
//! A length-delimited field stays a blob of bytes until it is entered, iterated or merged. A message
//! has no schema, so a field becomes a list when a second element is seen, or when a program uses an
//! index or a key.

use protozero::Value;

use crate::arena::{Arena, Children, Content, NodeId, ROOT, ROOT_INDEX};
use crate::budget::{Budget, NODE_WORK};
use crate::error::{AbortCause, Missing, StateTooLong};
use crate::failure::Failure;
use crate::program::MergeFlags;
use crate::source::{Scalar, Scan, Source};

/// The greatest field number of protobuf.
const FIELD_ID_MAX: u32 = (1 << 29) - 1;

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    arena: Arena,
    /// The nodes that the merge in progress has marked; otherwise empty.
    merged: Vec<u32>,
}

/// How a map entry is named: field of the map, field of its key, key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapEntry {
    pub(crate) field: u32,
    pub(crate) key_field: u32,
    pub(crate) key: u32,
}

impl Tree {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self {
            arena: Arena::new(limit_bytes),
            merged: Vec::new(),
        }
    }

    pub(crate) fn with_bytes(limit_bytes: usize, bytes: &[u8]) -> Result<Self, StateTooLong> {
        let mut tree = Self::new(limit_bytes);
        if !bytes.is_empty() {
            let content = Content::Bytes(bytes.into());
            let replaced = tree.arena.replace(ROOT_INDEX, content);
            replaced.map_err(|_| StateTooLong {
                len_bytes: bytes.len(),
                limit_bytes: tree.arena.limit_bytes(),
            })?;
        }
        Ok(tree)
    }

    pub(crate) const fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Enters a singular field.
    pub(crate) fn enter_field(
        &mut self,
        at: NodeId,
        field: u32,
        creates: bool,
        budget: &mut Budget,
    ) -> Result<NodeId, Failure> {
        let message = self.arena.resolve(at)?;
        let child = match self.find(message, field, budget)? {
            Some(child) => child,
            None if creates => self.create_field(message, field)?,
            None => return Err(Failure::Missing(Missing::StateField { field })),
        };
        match self.arena.content(child) {
            Content::Indexed(_) | Content::Mapped(_) => {
                Err(AbortCause::FieldIsRepeated { field }.into())
            }
            _ => Ok(self.arena.id(child)),
        }
    }

    /// Enters an element of a repeated field by index. The index behind the last one appends.
    pub(crate) fn enter_at(
        &mut self,
        at: NodeId,
        field: u32,
        index: u32,
        budget: &mut Budget,
    ) -> Result<NodeId, AbortCause> {
        let message = self.arena.resolve(at)?;
        let no_such_index = AbortCause::NoSuchIndex { field, index };
        let child = match self.find(message, field, budget)? {
            Some(child) => child,
            None if index == 0 => self.create_field(message, field)?,
            None => return Err(no_such_index),
        };
        let len = match self.arena.content(child) {
            Content::Indexed(elements) => elements.len(),
            Content::Mapped(_) => return Err(AbortCause::FieldIsKeyed { field }),
            Content::Empty => 0,
            _ => 1,
        };
        if index as usize > len {
            return Err(no_such_index);
        }
        let list = self.make_indexed(child)?;
        let element = if index as usize == len {
            self.append(list, field, Content::Empty)?
        } else {
            self.child(list, index).ok_or(no_such_index)?
        };
        Ok(self.arena.id(element))
    }

    /// Enters an entry of a repeated field that has keys, which makes it a map. Creates the entry if
    /// there is none.
    pub(crate) fn enter_by_key(
        &mut self,
        at: NodeId,
        entry: MapEntry,
        creates: bool,
        budget: &mut Budget,
    ) -> Result<NodeId, Failure> {
        let message = self.arena.resolve(at)?;
        let field = entry.field;
        let child = match self.find(message, field, budget)? {
            Some(child) => child,
            None if creates => self.create_field(message, field)?,
            None => return Err(Failure::Missing(Missing::StateField { field })),
        };
        let map = self.make_mapped(child, entry, budget)?;
        let element = match self.child(map, entry.key) {
            Some(element) => element,
            None => self.arena.insert(map, entry.key, Content::Empty)?,
        };
        Ok(self.arena.id(element))
    }

    /// Returns the list of a repeated field, to iterate over it. A singular field becomes a list of
    /// one element.
    pub(crate) fn list(
        &mut self,
        at: NodeId,
        field: u32,
        budget: &mut Budget,
    ) -> Result<Option<NodeId>, AbortCause> {
        let message = self.arena.resolve(at)?;
        let Some(child) = self.find(message, field, budget)? else {
            return Ok(None);
        };
        if matches!(self.arena.content(child), Content::Mapped(_)) {
            return Err(AbortCause::FieldIsKeyed { field });
        }
        let list = self.make_indexed(child)?;
        Ok(Some(self.arena.id(list)))
    }

    /// Returns the first element of a list from an index on, and its index.
    pub(crate) fn element_from(
        &self,
        list: NodeId,
        index: u32,
    ) -> Result<Option<(u32, NodeId)>, AbortCause> {
        let list = self.arena.resolve(list)?;
        let elements = self.arena.content(list).children();
        let next = elements.and_then(|elements| elements.range(index..).next());
        Ok(next.map(|(&index, &element)| (index, self.arena.id(element))))
    }

    pub(crate) fn scalar(&self, at: NodeId) -> Result<Scalar, AbortCause> {
        match self.arena.content(self.arena.resolve(at)?) {
            Content::Scalar(scalar) => Ok(*scalar),
            _ => Err(AbortCause::StateIsNotScalar),
        }
    }

    /// Overwrites a node with a value of the patch.
    pub(crate) fn set(
        &mut self,
        at: NodeId,
        source: Source<'_>,
        budget: &mut Budget,
    ) -> Result<(), AbortCause> {
        let node = self.arena.resolve(at)?;
        let content = self.arena.content(node);
        match source {
            Source::Scalar(scalar) => {
                // The root has no field number that a scalar could be serialized with.
                if at == ROOT || !matches!(content, Content::Empty | Content::Scalar(_)) {
                    return Err(AbortCause::StateIsNotScalar);
                }
                self.arena.replace(node, Content::Scalar(scalar))
            }
            Source::Message(bytes) => {
                if matches!(content, Content::Scalar(_)) {
                    return Err(AbortCause::StateIsScalar);
                }
                budget.copy(bytes.len())?;
                self.arena.replace(node, Content::Bytes(bytes.into()))
            }
        }
    }

    /// Merges a message of the patch into a node.
    pub(crate) fn merge(
        &mut self,
        at: NodeId,
        source: &[u8],
        flags: MergeFlags,
        budget: &mut Budget,
    ) -> Result<(), AbortCause> {
        let node = self.arena.resolve(at)?;
        if matches!(self.arena.content(node), Content::Scalar(_)) {
            return Err(AbortCause::StateIsScalar);
        }
        if source.is_empty() {
            return Ok(());
        }
        self.open(node, budget)?;
        if matches!(self.arena.content(node), Content::Empty) {
            self.arena.fill(node, Content::Message);
        }
        let result = self.merge_fields(node, source, flags, budget);
        for node in self.merged.drain(..) {
            self.arena.node_mut(node).is_merged = false;
        }
        result
    }

    fn merge_fields(
        &mut self,
        message: u32,
        source: &[u8],
        flags: MergeFlags,
        budget: &mut Budget,
    ) -> Result<(), AbortCause> {
        let mut fields = Scan::new(source);
        while let Some(field) = fields.next(budget, AbortCause::MalformedPatch)? {
            budget.step()?;
            let existing = self.child(message, field.number);
            if let Some(existing) = existing {
                if flags.del_if_src_empty && field.value == Value::Bytes(&[]) {
                    self.arena.remove(existing);
                    continue;
                }
                let is_message = matches!(self.arena.content(existing), Content::Message(_));
                if flags.skip_submessages && is_message {
                    continue;
                }
            }
            let content = content_of(field.value, budget)?;
            let merged = self.merge_field(message, existing, field.number, content)?;
            let node = self.arena.node_mut(merged);
            if !node.is_merged {
                node.is_merged = true;
                self.merged.push(merged);
            }
        }
        Ok(())
    }

    /// Returns the node of the field.
    fn merge_field(
        &mut self,
        message: u32,
        existing: Option<u32>,
        field: u32,
        content: Content,
    ) -> Result<u32, AbortCause> {
        let Some(existing) = existing else {
            return self.arena.insert(message, field, content);
        };
        let node = self.arena.node(existing);
        match node.content {
            Content::Mapped(_) => return Err(AbortCause::FieldIsKeyed { field }),
            _ if node.is_merged => {}
            Content::Indexed(_) => {
                // A repeated field is replaced as a whole.
                self.arena.clear(existing);
                self.arena.fill(existing, Content::Indexed);
            }
            _ => {
                self.arena.replace(existing, content)?;
                return Ok(existing);
            }
        }
        let list = self.make_indexed(existing)?;
        self.append(list, field, content)?;
        Ok(list)
    }

    /// Removes a node, or empties the root.
    pub(crate) fn delete(&mut self, at: NodeId) -> Result<(), AbortCause> {
        let node = self.arena.resolve(at)?;
        if at == ROOT {
            self.arena.clear(node);
        } else {
            self.arena.remove(node);
        }
        Ok(())
    }

    fn child(&self, parent: u32, key: u32) -> Option<u32> {
        self.arena.content(parent).children()?.get(&key).copied()
    }

    /// Looks for a field, for which bytes and an empty node become a message, also if they lack the
    /// field.
    fn find(
        &mut self,
        message: u32,
        field: u32,
        budget: &mut Budget,
    ) -> Result<Option<u32>, AbortCause> {
        self.open(message, budget)?;
        match self.arena.content(message) {
            Content::Scalar(_) => return Err(AbortCause::StateIsScalar),
            Content::Empty => self.arena.fill(message, Content::Message),
            _ => {}
        }
        Ok(self.child(message, field))
    }

    fn create_field(&mut self, message: u32, field: u32) -> Result<u32, AbortCause> {
        if !(1..=FIELD_ID_MAX).contains(&field) {
            return Err(AbortCause::InvalidFieldId { field });
        }
        self.arena.insert(message, field, Content::Empty)
    }

    /// Parses a node that is bytes. If that fails, the node stays as it was.
    fn open(&mut self, node: u32, budget: &mut Budget) -> Result<(), AbortCause> {
        let Some(bytes) = self.arena.take_blob(node) else {
            return Ok(());
        };
        let parsed = self.parse_into(node, &bytes, budget);
        if parsed.is_err() {
            self.arena.give_back_blob(node, bytes);
        }
        parsed
    }

    fn parse_into(
        &mut self,
        message: u32,
        bytes: &[u8],
        budget: &mut Budget,
    ) -> Result<(), AbortCause> {
        let mut fields = Scan::new(bytes);
        while let Some(field) = fields.next(budget, AbortCause::MalformedState)? {
            budget.work(NODE_WORK)?;
            let content = content_of(field.value, budget)?;
            match self.child(message, field.number) {
                None => self.arena.insert(message, field.number, content)?,
                Some(first) => {
                    let list = self.make_indexed(first)?;
                    self.append(list, field.number, content)?
                }
            };
        }
        Ok(())
    }

    /// Makes a list of a field that has no keys. Returns the list.
    fn make_indexed(&mut self, field: u32) -> Result<u32, AbortCause> {
        match self.arena.content(field) {
            Content::Indexed(_) => Ok(field),
            Content::Empty => {
                self.arena.fill(field, Content::Indexed);
                Ok(field)
            }
            _ => self.arena.wrap(field, 0, Content::Indexed),
        }
    }

    fn append(&mut self, list: u32, field: u32, content: Content) -> Result<u32, AbortCause> {
        let len = self.arena.content(list).children().map_or(0, Children::len);
        // The memory limit keeps lists shorter than 2^32.
        let index = len as u32;
        if self.child(list, index).is_some() {
            return Err(AbortCause::IndexTaken { field, index });
        }
        self.arena.insert(list, index, content)
    }

    /// Makes a map of a field. Returns the map. If an element has no key, nothing changes.
    fn make_mapped(
        &mut self,
        field: u32,
        entry: MapEntry,
        budget: &mut Budget,
    ) -> Result<u32, AbortCause> {
        match self.arena.content(field) {
            Content::Mapped(_) => Ok(field),
            Content::Empty => {
                self.arena.fill(field, Content::Mapped);
                Ok(field)
            }
            Content::Indexed(elements) => {
                let mut entries = Vec::with_capacity(elements.len());
                for &element in elements.values() {
                    budget.work(NODE_WORK)?;
                    entries.push((self.key_of(element, entry, budget)?, element));
                }
                entries.sort_unstable();
                if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                    return Err(AbortCause::DuplicateKey {
                        field: entry.field,
                        key: pair[0].0,
                    });
                }
                self.arena.make_map(field, entries);
                Ok(field)
            }
            _ => {
                let key = self.key_of(field, entry, budget)?;
                self.arena.wrap(field, key, Content::Mapped)
            }
        }
    }

    /// Reads the key of an element, of which 32 bits count. Bytes stay bytes.
    fn key_of(
        &self,
        element: u32,
        entry: MapEntry,
        budget: &mut Budget,
    ) -> Result<u32, AbortCause> {
        let MapEntry {
            field, key_field, ..
        } = entry;
        let no_key = AbortCause::NoKey { field, key_field };
        match self.arena.content(element) {
            Content::Message(fields) => match fields.get(&key_field) {
                Some(&key) => match self.arena.content(key) {
                    Content::Scalar(scalar) => Ok(scalar.value as u32),
                    _ => Err(no_key),
                },
                None => Err(no_key),
            },
            Content::Bytes(bytes) => {
                let mut fields = Scan::new(bytes);
                while let Some(field) = fields.next(budget, AbortCause::MalformedState)? {
                    if field.number == key_field {
                        let key = Source::from(field.value).scalar().map_err(|_| no_key)?;
                        return Ok(key.value as u32);
                    }
                }
                Err(no_key)
            }
            _ => Err(no_key),
        }
    }
}

fn content_of(value: Value<'_>, budget: &mut Budget) -> Result<Content, AbortCause> {
    Ok(match Source::from(value) {
        Source::Message(bytes) => {
            budget.copy(bytes.len())?;
            Content::Bytes(bytes.into())
        }
        Source::Scalar(scalar) => Content::Scalar(scalar),
    })
}
