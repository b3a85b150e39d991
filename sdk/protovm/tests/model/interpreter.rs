//! A slow, plain interpreter: owned trees, paths from the root instead of cursors, and recursion.
//!
//! It is written from the description of ProtoVM alone. It never decodes a program: it runs what the
//! test has generated. It adds up the whole tree whenever memory is asked for.

use std::collections::BTreeMap;

use tracezero_protovm::{AbortCause, Malformed, Missing, NODE_AND_ENTRY_BYTES};

#[derive(Clone, Debug)]
pub struct Instr {
    pub op: Op,
    pub level: Option<u32>,
    pub nested: Vec<Instr>,
}

#[derive(Clone, Debug)]
pub enum Op {
    Nothing,
    Select {
        cursor: Option<u32>,
        path: Vec<Component>,
        create: bool,
    },
    Load {
        cursor: Option<u32>,
        register: u32,
    },
    Merge {
        skip: bool,
        delete: bool,
    },
    Set,
    Del,
}

#[derive(Clone, Debug, Default)]
pub struct Component {
    pub field: Option<u32>,
    pub index: Option<u32>,
    pub key_field: Option<u32>,
    pub register: Option<u32>,
    pub repeated: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Empty,
    Bytes(Vec<u8>),
    /// Wire type and value.
    Scalar(u8, u64),
    Message(BTreeMap<u32, Tree>),
    List(BTreeMap<u32, Tree>),
    Map(BTreeMap<u32, Tree>),
}

impl Tree {
    fn children(&mut self) -> &mut BTreeMap<u32, Tree> {
        match self {
            Tree::Message(children) | Tree::List(children) | Tree::Map(children) => children,
            other => panic!("the model went wrong: {other:?} has no children"),
        }
    }

    /// The bytes charged for what is in and below this node.
    fn cost(&self) -> usize {
        match self {
            Tree::Empty | Tree::Scalar(..) => 0,
            Tree::Bytes(bytes) => bytes.len(),
            Tree::Message(children) | Tree::List(children) | Tree::Map(children) => children
                .values()
                .map(|child| NODE_AND_ENTRY_BYTES + child.cost())
                .sum(),
        }
    }

    fn serialize_as(&self, field: u32) -> Vec<u8> {
        let tag = |wire: u8| varint_bytes(u64::from(field) * 8 + u64::from(wire));
        match self {
            Tree::Empty => vec![],
            Tree::Bytes(bytes) => {
                [tag(2), varint_bytes(bytes.len() as u64), bytes.clone()].concat()
            }
            Tree::Scalar(0, value) => [tag(0), varint_bytes(*value)].concat(),
            Tree::Scalar(1, value) => [tag(1), value.to_le_bytes().to_vec()].concat(),
            Tree::Scalar(_, value) => [tag(5), value.to_le_bytes()[..4].to_vec()].concat(),
            Tree::Message(_) => {
                let content = self.serialize();
                let length = content.len();
                let group = |index: usize| (length >> (7 * index) & 0x7f) as u8;
                let length = match length {
                    ..=127 => vec![group(0)],
                    _ => vec![group(0) | 0x80, group(1) | 0x80, group(2) | 0x80, group(3)],
                };
                [tag(2), length, content].concat()
            }
            Tree::List(elements) | Tree::Map(elements) => {
                let elements = elements.values();
                elements
                    .flat_map(|element| element.serialize_as(field))
                    .collect()
            }
        }
    }

    /// The content of a message.
    pub fn serialize(&self) -> Vec<u8> {
        match self {
            Tree::Empty => vec![],
            Tree::Bytes(bytes) => bytes.clone(),
            Tree::Message(fields) => fields
                .iter()
                .flat_map(|(&field, tree)| tree.serialize_as(field))
                .collect(),
            other => panic!("the model went wrong: {other:?} is no message"),
        }
    }
}

fn varint_bytes(mut value: u64) -> Vec<u8> {
    let mut bytes = vec![];
    loop {
        let low = (value % 128) as u8;
        value /= 128;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low + 128);
    }
}

/// A decoded field: number and value, of which lists and maps are not possible.
type Fields = Vec<(u32, Tree)>;

/// Why a message cannot be decoded further. Offsets are not part of the comparison.
#[derive(Clone, Copy, Debug)]
enum Broken {
    Field,
    Group,
}

/// Decodes a whole message. Returns the sound fields, and what is behind them.
fn decode(bytes: &[u8]) -> (Fields, Option<Broken>) {
    let mut fields = vec![];
    let mut at = 0;
    while at < bytes.len() {
        match decode_field(bytes, &mut at) {
            Ok(field) => fields.push(field),
            Err(broken) => return (fields, Some(broken)),
        }
    }
    (fields, None)
}

fn decode_field(bytes: &[u8], at: &mut usize) -> Result<(u32, Tree), Broken> {
    // The wire type is known from the first byte, whatever follows.
    if [3, 4].contains(&(bytes[*at] % 8)) {
        return Err(Broken::Group);
    }
    let tag = decode_varint(bytes, at)?;
    let number = tag / 8;
    if number == 0 || number >= 1 << 29 {
        return Err(Broken::Field);
    }
    let mut take = |len: usize| {
        let end = at.checked_add(len).filter(|end| *end <= bytes.len());
        let taken = &bytes[*at..end.ok_or(Broken::Field)?];
        *at += len;
        Ok(taken.to_vec())
    };
    let number_of = |taken: Vec<u8>| {
        taken
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte))
    };
    let value = match tag % 8 {
        0 => Tree::Scalar(0, decode_varint(bytes, at)?),
        1 => Tree::Scalar(1, number_of(take(8)?)),
        2 => {
            let len = decode_varint(bytes, at)?;
            let len = usize::try_from(len).map_err(|_| Broken::Field)?;
            let end = at.checked_add(len).ok_or(Broken::Field)?;
            let payload = bytes.get(*at..end).ok_or(Broken::Field)?;
            *at = end;
            Tree::Bytes(payload.to_vec())
        }
        5 => Tree::Scalar(5, number_of(take(4)?)),
        _ => return Err(Broken::Field),
    };
    Ok((number as u32, value))
}

fn decode_varint(bytes: &[u8], at: &mut usize) -> Result<u64, Broken> {
    let mut value = 0_u128;
    for index in 0..10 {
        let byte = *bytes.get(*at).ok_or(Broken::Field)?;
        *at += 1;
        value += u128::from(byte % 128) << (7 * index);
        if byte < 128 {
            return u64::try_from(value).map_err(|_| Broken::Field);
        }
    }
    Err(Broken::Field)
}

fn malformed(broken: Broken) -> Malformed {
    match broken {
        Broken::Field => Malformed::Field(protozero::DecodeError::MessageTooLong),
        Broken::Group => Malformed::Group { offset: 0 },
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Fail {
    Error(Missing),
    Abort(AbortCause),
}

fn abort<T>(cause: AbortCause) -> Result<T, Fail> {
    Err(Fail::Abort(cause))
}

/// The place in the state where instructions work.
#[derive(Clone, Debug)]
struct Place {
    /// A key of each node's children, from the root on.
    path: Vec<u32>,
    is_deleted: bool,
}

pub struct Model {
    pub root: Tree,
    pub limit_bytes: usize,
    registers: [Option<u64>; 32],
    /// How often each operation has succeeded.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Model {
    pub fn new(root: Tree, limit_bytes: usize) -> Self {
        Self {
            root,
            limit_bytes,
            registers: [None; 32],
            counts: BTreeMap::new(),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.root.cost()
    }

    pub fn apply(&mut self, program: &[Instr], patch: &[u8]) -> Result<(), Fail> {
        let mut root = Place {
            path: vec![],
            is_deleted: false,
        };
        self.list(program, &Tree::Bytes(patch.to_vec()), &mut root, None)
    }

    /// The source is a `Bytes` or a `Scalar`.
    fn list(
        &mut self,
        list: &[Instr],
        source: &Tree,
        place: &mut Place,
        saved: Option<&[u32]>,
    ) -> Result<(), Fail> {
        for instr in list {
            let failure = match self.instruction(instr, source, place, saved) {
                Ok(()) => continue,
                Err(failure) => failure,
            };
            match (failure, instr.level) {
                (Fail::Error(_), Some(1)) => {}
                (Fail::Error(_), None | Some(2)) => return Err(failure),
                (Fail::Error(missing), Some(3)) => return abort(AbortCause::Missing(missing)),
                (Fail::Error(_), Some(level)) => {
                    return abort(AbortCause::UnknownAbortLevel { level });
                }
                (Fail::Abort(_), _) => return Err(failure),
            }
        }
        Ok(())
    }

    fn instruction(
        &mut self,
        instr: &Instr,
        source: &Tree,
        place: &mut Place,
        saved: Option<&[u32]>,
    ) -> Result<(), Fail> {
        let name = match &instr.op {
            Op::Nothing => return abort(AbortCause::NoOperation),
            Op::Select {
                cursor,
                path,
                create,
            } => {
                let is_source = match cursor {
                    None | Some(1) if *create => return abort(AbortCause::CreatesInPatch),
                    None | Some(1) => true,
                    Some(2) => false,
                    Some(cursor) => {
                        return abort(AbortCause::CursorUnsupported { cursor: *cursor });
                    }
                };
                let select = Selection {
                    is_source,
                    create: *create,
                    len: path.len(),
                    saved: &place.path,
                    nested: &instr.nested,
                };
                return self.walk(path, &select, source.clone(), place.clone());
            }
            Op::Load { cursor, register } => {
                let scalar = match cursor {
                    None | Some(1) => match source {
                        Tree::Scalar(_, value) => *value,
                        _ => return abort(AbortCause::PatchIsNotScalar),
                    },
                    Some(2) => match self.at(place)? {
                        Tree::Scalar(_, value) => *value,
                        _ => return abort(AbortCause::StateIsNotScalar),
                    },
                    Some(cursor) => {
                        return abort(AbortCause::CursorUnsupported { cursor: *cursor });
                    }
                };
                let register = register_index(*register)?;
                self.registers[register] = Some(scalar);
                "reg_load"
            }
            Op::Merge { skip, delete } => {
                let Tree::Bytes(bytes) = source else {
                    return abort(AbortCause::PatchIsScalar);
                };
                self.merge(place, bytes, *skip, *delete)?;
                "merge"
            }
            Op::Set => {
                self.set(place, source)?;
                "set"
            }
            Op::Del => {
                if !place.path.is_empty() && Some(&place.path[..]) == saved {
                    return abort(AbortCause::DeletesSelected);
                }
                self.at(place)?;
                match place.path.split_last() {
                    None => self.root = Tree::Empty,
                    Some((last, parent)) => {
                        self.node(parent).children().remove(last);
                        place.is_deleted = true;
                    }
                }
                "del"
            }
        };
        *self.counts.entry(name).or_default() += 1;
        self.list(&instr.nested, source, place, saved)
    }

    fn walk(
        &mut self,
        path: &[Component],
        select: &Selection<'_>,
        source: Tree,
        mut place: Place,
    ) -> Result<(), Fail> {
        let Some((first, rest)) = path.split_first() else {
            *self.counts.entry("select").or_default() += 1;
            return self.list(select.nested, &source, &mut place, Some(select.saved));
        };
        let Some(field) = first.field else {
            let component = select.len - path.len();
            return abort(AbortCause::NoFieldId { component });
        };
        if first.repeated {
            return if select.is_source {
                self.each_of_source(field, rest, select, &source, place)
            } else {
                self.each_of_state(field, rest, select, source, &place)
            };
        }
        match rest.split_first() {
            Some((next, rest)) if next.index.is_some() => {
                let index = next.index.unwrap_or(0);
                if select.is_source {
                    let element = element_of_source(&source, field, index)?;
                    return self.walk(rest, select, element, place);
                }
                self.enter_at(&place, field, index)?;
                place.path.extend([field, index]);
                self.walk(rest, select, source, place)
            }
            Some((next, rest)) if next.key_field.is_some() => {
                let key_field = next.key_field.unwrap_or(0);
                let Some(register) = next.register else {
                    return abort(AbortCause::NoKeyRegister { field });
                };
                let register = register_index(register)?;
                let Some(key) = self.registers[register] else {
                    let register = register as u8;
                    return abort(AbortCause::RegisterUnset { register });
                };
                if select.is_source {
                    return abort(AbortCause::KeyInPatch { field });
                }
                let key = key as u32;
                self.enter_by_key(&place, field, key_field, key, select.create)?;
                place.path.extend([field, key]);
                self.walk(rest, select, source, place)
            }
            _ if select.is_source => {
                let (fields, broken) = fields_of(&source)?;
                let found = fields.into_iter().find(|(number, _)| *number == field);
                match (found, broken) {
                    (Some((_, value)), _) => self.walk(rest, select, value, place),
                    (None, Some(broken)) => abort(AbortCause::MalformedPatch(malformed(broken))),
                    (None, None) => Err(Fail::Error(Missing::PatchField { field })),
                }
            }
            _ => {
                match self.find(&place, field)? {
                    Some(Tree::List(_) | Tree::Map(_)) => {
                        return abort(AbortCause::FieldIsRepeated { field });
                    }
                    Some(_) => {}
                    None if select.create => self.create(&place, field)?,
                    None => return Err(Fail::Error(Missing::StateField { field })),
                }
                place.path.push(field);
                self.walk(rest, select, source, place)
            }
        }
    }

    fn each_of_source(
        &mut self,
        field: u32,
        rest: &[Component],
        select: &Selection<'_>,
        source: &Tree,
        place: Place,
    ) -> Result<(), Fail> {
        let (fields, broken) = fields_of(source)?;
        for (number, value) in fields {
            if number == field {
                self.walk(rest, select, value, place.clone())?;
            }
        }
        match broken {
            Some(broken) => abort(AbortCause::MalformedPatch(malformed(broken))),
            None => Ok(()),
        }
    }

    fn each_of_state(
        &mut self,
        field: u32,
        rest: &[Component],
        select: &Selection<'_>,
        source: Tree,
        place: &Place,
    ) -> Result<(), Fail> {
        match self.find(place, field)? {
            None => return Ok(()),
            Some(Tree::Map(_)) => return abort(AbortCause::FieldIsKeyed { field }),
            Some(_) => {}
        }
        let list = [&place.path[..], &[field]].concat();
        self.become_list(&list)?;
        let indices: Vec<u32> = self.node(&list).children().keys().copied().collect();
        for index in indices {
            let element = Place {
                path: [&list[..], &[index]].concat(),
                is_deleted: false,
            };
            self.walk(rest, select, source.clone(), element)?;
        }
        Ok(())
    }

    fn node(&mut self, path: &[u32]) -> &mut Tree {
        path.iter().fold(&mut self.root, |tree, key| {
            let child = tree.children().get_mut(key);
            child.unwrap_or_else(|| panic!("the model went wrong: {path:?} is no path"))
        })
    }

    fn at(&mut self, place: &Place) -> Result<&mut Tree, Fail> {
        if place.is_deleted {
            return abort(AbortCause::Deleted);
        }
        Ok(self.node(&place.path))
    }

    /// Fails if the tree may not cost so much more, and something less.
    fn fits(&self, more: usize, less: usize) -> Result<(), Fail> {
        if self.root.cost() + more - less > self.limit_bytes {
            return abort(AbortCause::MemoryLimit);
        }
        Ok(())
    }

    /// Parses bytes, all or nothing.
    fn open(&mut self, path: &[u32]) -> Result<(), Fail> {
        let Tree::Bytes(bytes) = self.node(path).clone() else {
            return Ok(());
        };
        let (fields, broken) = decode(&bytes);
        let mut message = Tree::Message(BTreeMap::new());
        for (number, value) in fields {
            match message.children().remove(&number) {
                None => {
                    message.children().insert(number, value);
                }
                Some(Tree::List(mut elements)) => {
                    elements.insert(elements.len() as u32, value);
                    message.children().insert(number, Tree::List(elements));
                }
                Some(first) => {
                    let elements = BTreeMap::from([(0, first), (1, value)]);
                    message.children().insert(number, Tree::List(elements));
                }
            }
            self.fits(message.cost(), bytes.len())?;
        }
        if let Some(broken) = broken {
            return abort(AbortCause::MalformedState(malformed(broken)));
        }
        *self.node(path) = message;
        Ok(())
    }

    /// Returns a copy of the field.
    fn find(&mut self, place: &Place, field: u32) -> Result<Option<Tree>, Fail> {
        self.at(place)?;
        self.open(&place.path)?;
        match self.at(place)? {
            empty @ Tree::Empty => {
                *empty = Tree::Message(BTreeMap::new());
                Ok(None)
            }
            Tree::Scalar(..) => abort(AbortCause::StateIsScalar),
            message => Ok(message.children().get(&field).cloned()),
        }
    }

    fn add(&mut self, parent: &[u32], key: u32, tree: Tree) -> Result<(), Fail> {
        self.fits(NODE_AND_ENTRY_BYTES + tree.cost(), 0)?;
        let parent = self.node(parent);
        if *parent == Tree::Empty {
            *parent = Tree::Message(BTreeMap::new());
        }
        parent.children().insert(key, tree);
        Ok(())
    }

    fn create(&mut self, place: &Place, field: u32) -> Result<(), Fail> {
        if field == 0 || field >= 1 << 29 {
            return abort(AbortCause::InvalidFieldId { field });
        }
        self.add(&place.path, field, Tree::Empty)
    }

    fn become_list(&mut self, path: &[u32]) -> Result<(), Fail> {
        let list = match self.node(path).clone() {
            Tree::List(_) => return Ok(()),
            Tree::Empty => Tree::List(BTreeMap::new()),
            single => {
                self.fits(NODE_AND_ENTRY_BYTES, 0)?;
                Tree::List(BTreeMap::from([(0, single)]))
            }
        };
        *self.node(path) = list;
        Ok(())
    }

    /// Appends at the index that is the number of elements.
    fn append(&mut self, list: &[u32], field: u32, tree: Tree) -> Result<(), Fail> {
        let elements = self.node(list).children();
        let index = elements.len() as u32;
        if elements.contains_key(&index) {
            return abort(AbortCause::IndexTaken { field, index });
        }
        self.add(list, index, tree)
    }

    fn enter_at(&mut self, place: &Place, field: u32, index: u32) -> Result<(), Fail> {
        let no_such_index = AbortCause::NoSuchIndex { field, index };
        let len = match self.find(place, field)? {
            None if index > 0 => return abort(no_such_index),
            None => {
                self.create(place, field)?;
                0
            }
            Some(Tree::Map(_)) => return abort(AbortCause::FieldIsKeyed { field }),
            Some(Tree::Empty) => 0,
            Some(Tree::List(elements)) => elements.len() as u32,
            Some(_) => 1,
        };
        if index > len {
            return abort(no_such_index);
        }
        let list = [&place.path[..], &[field]].concat();
        self.become_list(&list)?;
        if index == len {
            return self.append(&list, field, Tree::Empty);
        }
        if !self.node(&list).children().contains_key(&index) {
            return abort(no_such_index);
        }
        Ok(())
    }

    fn enter_by_key(
        &mut self,
        place: &Place,
        field: u32,
        key_field: u32,
        key: u32,
        create: bool,
    ) -> Result<(), Fail> {
        let found = match self.find(place, field)? {
            Some(found) => found,
            None if create => {
                self.create(place, field)?;
                Tree::Empty
            }
            None => return Err(Fail::Error(Missing::StateField { field })),
        };
        let path = [&place.path[..], &[field]].concat();
        let is_single = matches!(found, Tree::Bytes(_) | Tree::Message(_) | Tree::Scalar(..));
        let elements: Vec<Tree> = match found {
            Tree::Map(_) => vec![],
            Tree::Empty => vec![],
            Tree::List(elements) => elements.into_values().collect(),
            single => vec![single],
        };
        if !matches!(self.node(&path), Tree::Map(_)) {
            let mut keyed = vec![];
            for element in elements {
                keyed.push((key_of(&element, field, key_field)?, element));
            }
            // All keys are read before they are compared.
            let mut keys: Vec<u32> = keyed.iter().map(|(key, _)| *key).collect();
            keys.sort_unstable();
            if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
                let key = pair[0];
                return abort(AbortCause::DuplicateKey { field, key });
            }
            if is_single {
                self.fits(NODE_AND_ENTRY_BYTES, 0)?;
            }
            *self.node(&path) = Tree::Map(keyed.into_iter().collect());
        }
        if !self.node(&path).children().contains_key(&key) {
            self.add(&path, key, Tree::Empty)?;
        }
        Ok(())
    }

    fn set(&mut self, place: &Place, source: &Tree) -> Result<(), Fail> {
        let is_root = place.path.is_empty();
        let old = self.at(place)?.clone();
        match (source, &old) {
            (Tree::Scalar(..), _) if is_root => return abort(AbortCause::StateIsNotScalar),
            (Tree::Scalar(..), Tree::Empty | Tree::Scalar(..)) => {}
            (Tree::Scalar(..), _) => return abort(AbortCause::StateIsNotScalar),
            (_, Tree::Scalar(..)) => return abort(AbortCause::StateIsScalar),
            _ => {}
        }
        self.fits(source.cost(), old.cost())?;
        *self.node(&place.path) = source.clone();
        Ok(())
    }

    fn merge(
        &mut self,
        place: &Place,
        source: &[u8],
        skip: bool,
        delete: bool,
    ) -> Result<(), Fail> {
        if let Tree::Scalar(..) = self.at(place)? {
            return abort(AbortCause::StateIsScalar);
        }
        if source.is_empty() {
            return Ok(());
        }
        self.open(&place.path)?;
        let target = self.node(&place.path);
        if *target == Tree::Empty {
            *target = Tree::Message(BTreeMap::new());
        }
        let mut merged: Vec<u32> = vec![];
        let (fields, broken) = decode(source);
        for (field, value) in fields {
            let existing = self.node(&place.path).children().get(&field).cloned();
            let path = [&place.path[..], &[field]].concat();
            match existing {
                Some(_) if delete && value == Tree::Bytes(vec![]) => {
                    self.node(&place.path).children().remove(&field);
                    merged.retain(|id| *id != field);
                    continue;
                }
                Some(Tree::Message(_)) if skip => continue,
                None => self.add(&place.path, field, value)?,
                Some(Tree::Map(_)) => return abort(AbortCause::FieldIsKeyed { field }),
                Some(_) if merged.contains(&field) => {
                    self.become_list(&path)?;
                    self.append(&path, field, value)?;
                }
                Some(Tree::List(_)) => {
                    *self.node(&path) = Tree::List(BTreeMap::new());
                    self.append(&path, field, value)?;
                }
                Some(old) => {
                    self.fits(value.cost(), old.cost())?;
                    *self.node(&path) = value;
                }
            }
            merged.push(field);
        }
        match broken {
            Some(broken) => abort(AbortCause::MalformedPatch(malformed(broken))),
            None => Ok(()),
        }
    }
}

/// What stays the same on the whole path of a `select`.
struct Selection<'a> {
    is_source: bool,
    create: bool,
    /// The number of components.
    len: usize,
    saved: &'a [u32],
    nested: &'a [Instr],
}

fn fields_of(source: &Tree) -> Result<(Fields, Option<Broken>), Fail> {
    match source {
        Tree::Bytes(bytes) => Ok(decode(bytes)),
        _ => abort(AbortCause::PatchIsScalar),
    }
}

fn element_of_source(source: &Tree, field: u32, index: u32) -> Result<Tree, Fail> {
    let (fields, broken) = fields_of(source)?;
    let mut elements = fields.into_iter().filter(|(number, _)| *number == field);
    match (elements.nth(index as usize), broken) {
        (Some((_, bytes @ Tree::Bytes(_))), _) => Ok(bytes),
        (Some(_), _) => abort(AbortCause::PatchIsScalar),
        (None, Some(broken)) => abort(AbortCause::MalformedPatch(malformed(broken))),
        (None, None) => Err(Fail::Error(Missing::PatchElement { field, index })),
    }
}

fn key_of(element: &Tree, field: u32, key_field: u32) -> Result<u32, Fail> {
    let key = match element {
        Tree::Message(fields) => fields.get(&key_field).cloned(),
        Tree::Bytes(bytes) => {
            let (fields, broken) = decode(bytes);
            let found = fields.into_iter().find(|(number, _)| *number == key_field);
            match (found, broken) {
                (None, Some(broken)) => {
                    return abort(AbortCause::MalformedState(malformed(broken)));
                }
                (found, _) => found.map(|(_, value)| value),
            }
        }
        _ => None,
    };
    match key {
        Some(Tree::Scalar(_, value)) => Ok(value as u32),
        _ => abort(AbortCause::NoKey { field, key_field }),
    }
}

fn register_index(register: u32) -> Result<usize, Fail> {
    let register = register % 256;
    if register < 32 {
        return Ok(register as usize);
    }
    let register = register as u8;
    abort(AbortCause::NoSuchRegister { register })
}
