//! Builds programs and messages.

#![allow(dead_code)] // Each test needs a part.

use protozero::{WireType, append_varint, redundant_varint};

fn tagged(field: u32, wire_type: WireType) -> Vec<u8> {
    let mut bytes = Vec::new();
    append_varint(u64::from(field) << 3 | wire_type as u64, &mut bytes);
    bytes
}

pub fn varint(field: u32, value: u64) -> Vec<u8> {
    let mut bytes = tagged(field, WireType::Varint);
    append_varint(value, &mut bytes);
    bytes
}

pub fn fixed32(field: u32, value: u32) -> Vec<u8> {
    let mut bytes = tagged(field, WireType::Fixed32);
    bytes.extend_from_slice(&value.to_le_bytes());
    bytes
}

pub fn fixed64(field: u32, value: u64) -> Vec<u8> {
    let mut bytes = tagged(field, WireType::Fixed64);
    bytes.extend_from_slice(&value.to_le_bytes());
    bytes
}

/// A length-delimited field, as other encoders write it.
pub fn bytes(field: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = tagged(field, WireType::LengthDelimited);
    append_varint(payload.len() as u64, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// A length-delimited field, as a message that is a node of a state's tree is written.
pub fn node(field: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = tagged(field, WireType::LengthDelimited);
    match payload.len() {
        short @ ..=127 => bytes.push(short as u8),
        long => bytes.extend_from_slice(&redundant_varint(long as u32)),
    }
    bytes.extend_from_slice(payload);
    bytes
}

/// Joins fields to a message.
#[macro_export]
macro_rules! message {
    ($($field:expr),* $(,)?) => {
        Vec::<Vec<u8>>::from([$($field),*]).concat()
    };
}

pub const SRC: u32 = 1;
pub const DST: u32 = 2;
pub const BOTH: u32 = 3;

pub const SKIP: u32 = 1;
pub const BREAK_OUTER: u32 = 2;
pub const ABORT: u32 = 3;

/// A path of a `select`, one encoded component after the other.
#[derive(Clone, Debug, Default)]
pub struct Path(Vec<u8>);

/// An empty path.
pub fn here() -> Path {
    Path::default()
}

/// A path that begins with a singular field.
pub fn field(id: u32) -> Path {
    here().field(id)
}

/// A path that begins with an iteration.
pub fn each(id: u32) -> Path {
    here().each(id)
}

impl Path {
    pub fn component(mut self, encoded: &[u8]) -> Self {
        self.0.extend(bytes(2, encoded));
        self
    }

    pub fn field(self, id: u32) -> Self {
        self.component(&varint(1, id.into()))
    }

    pub fn each(self, id: u32) -> Self {
        self.component(&message![varint(1, id.into()), varint(5, 1)])
    }

    pub fn at(self, index: u32) -> Self {
        self.component(&varint(2, index.into()))
    }

    pub fn key(self, key_field: u32, register: u32) -> Self {
        self.component(&message![
            varint(3, key_field.into()),
            varint(6, register.into())
        ])
    }
}

/// An instruction that is being built.
#[derive(Clone, Debug)]
pub struct Instruction {
    operation: u32,
    payload: Vec<u8>,
    rest: Vec<u8>,
}

fn instruction(operation: u32, payload: Vec<u8>) -> Instruction {
    Instruction {
        operation,
        payload,
        rest: Vec::new(),
    }
}

pub fn select(cursor: u32, path: Path) -> Instruction {
    instruction(1, message![varint(1, cursor.into()), path.0])
}

pub fn select_default(path: Path) -> Instruction {
    instruction(1, path.0)
}

pub fn src(path: Path) -> Instruction {
    select(SRC, path)
}

pub fn dst(path: Path) -> Instruction {
    select(DST, path)
}

pub fn reg_load(cursor: u32, register: u32) -> Instruction {
    let payload = message![varint(1, cursor.into()), varint(2, register.into())];
    instruction(2, payload)
}

pub fn load(register: u32) -> Instruction {
    instruction(2, varint(2, register.into()))
}

pub fn merge() -> Instruction {
    instruction(3, Vec::new())
}

pub fn set() -> Instruction {
    instruction(4, Vec::new())
}

pub fn del() -> Instruction {
    instruction(5, Vec::new())
}

pub fn no_operation() -> Instruction {
    instruction(99, Vec::new())
}

impl Instruction {
    /// Lets a `select` create what is absent.
    pub fn create(mut self) -> Self {
        self.payload.extend(varint(3, 1));
        self
    }

    pub fn skip_submessages(mut self) -> Self {
        self.payload.extend(varint(1, 1));
        self
    }

    pub fn del_if_src_empty(mut self) -> Self {
        self.payload.extend(varint(2, 1));
        self
    }

    pub fn level(mut self, level: u32) -> Self {
        self.rest.extend(varint(6, level.into()));
        self
    }

    pub fn nest(mut self, nested: impl IntoIterator<Item = Self>) -> Self {
        for instruction in nested {
            self.rest.extend(bytes(7, &instruction.encode()));
        }
        self
    }

    pub fn encode(&self) -> Vec<u8> {
        message![bytes(self.operation, &self.payload), self.rest.clone()]
    }
}

pub fn program(instructions: impl IntoIterator<Item = Instruction>) -> Vec<u8> {
    let mut program = varint(1, 1);
    for instruction in instructions {
        program.extend(bytes(2, &instruction.encode()));
    }
    program
}

/// Perfetto's standard program of tests: a patch deletes (1), merges (2) and sets (3) elements (1)
/// of the state, whose key is their field 1.
pub fn standard_program() -> Vec<u8> {
    let keyed = || field(1).key(1, 0);
    let element = |list, operation| {
        src(each(list)).nest([
            src(field(1)).nest([load(0)]),
            dst(keyed()).create().nest([operation]),
        ])
    };
    program([
        src(each(1)).nest([load(0), dst(keyed()).nest([del()])]),
        element(2, merge()),
        element(3, set()),
    ])
}
