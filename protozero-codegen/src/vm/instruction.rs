//! The instructions of the machine: their encoding, and their text for readers of generated code.

use super::program::OnError;

/// An instruction. Those in `nested` run behind it, at the place that it has selected.
#[derive(Debug)]
pub(super) struct Instruction {
    pub(super) operation: Operation,
    pub(super) on_error: OnError,
    pub(super) nested: Vec<Instruction>,
}

#[derive(Debug)]
pub(super) enum Operation {
    Select {
        cursor: Cursor,
        path: Vec<Component>,
        create: bool,
    },
    /// Loads the scalar of the source into [`REGISTER`].
    LoadKey,
    Merge {
        skip_submessages: bool,
    },
    Set,
    Delete,
}

/// The side that an instruction reads or moves. The numbers are those of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cursor {
    Source = 1,
    Destination = 2,
}

/// A part of a path. The names are for the text only.
#[derive(Debug, Clone)]
pub(super) enum Component {
    Field {
        number: u32,
        name: String,
        /// True if the nested instructions run once for each element.
        is_repeated: bool,
    },
    /// The element of the field before, by the value of its key field.
    Key { number: u32, name: String },
}

/// The register for keys. One is enough, because each key is used directly behind its load.
const REGISTER: u64 = 0;

/// Field numbers of the format.
mod field {
    pub(super) const PROGRAM_INSTRUCTIONS: u32 = 2;

    pub(super) const SELECT: u32 = 1;
    pub(super) const LOAD: u32 = 2;
    pub(super) const MERGE: u32 = 3;
    pub(super) const SET: u32 = 4;
    pub(super) const DELETE: u32 = 5;
    pub(super) const ABORT_LEVEL: u32 = 6;
    pub(super) const NESTED: u32 = 7;

    pub(super) const SELECT_CURSOR: u32 = 1;
    pub(super) const SELECT_PATH: u32 = 2;
    pub(super) const SELECT_CREATE: u32 = 3;

    pub(super) const PATH_FIELD: u32 = 1;
    pub(super) const PATH_KEY: u32 = 3;
    pub(super) const PATH_IS_REPEATED: u32 = 5;
    pub(super) const PATH_REGISTER: u32 = 6;

    pub(super) const LOAD_CURSOR: u32 = 1;
    pub(super) const LOAD_REGISTER: u32 = 2;

    pub(super) const MERGE_SKIP_SUBMESSAGES: u32 = 1;
    pub(super) const MERGE_DELETE_IF_EMPTY: u32 = 2;
}

impl Instruction {
    pub(super) fn new(operation: Operation) -> Self {
        Instruction {
            operation,
            on_error: OnError::default(),
            nested: Vec::new(),
        }
    }

    /// Returns the number of instructions inside each other, including this one.
    pub(super) fn depth(&self) -> usize {
        1 + depth(&self.nested)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match &self.operation {
            Operation::Select {
                cursor,
                path,
                create,
            } => put_message(out, field::SELECT, |out| {
                put_number(out, field::SELECT_CURSOR, *cursor as u64);
                for component in path {
                    put_message(out, field::SELECT_PATH, |out| component.encode(out));
                }
                put_flag(out, field::SELECT_CREATE, *create);
            }),
            Operation::LoadKey => put_message(out, field::LOAD, |out| {
                put_number(out, field::LOAD_CURSOR, Cursor::Source as u64);
                put_number(out, field::LOAD_REGISTER, REGISTER);
            }),
            Operation::Merge { skip_submessages } => put_message(out, field::MERGE, |out| {
                put_flag(out, field::MERGE_SKIP_SUBMESSAGES, *skip_submessages);
                put_flag(out, field::MERGE_DELETE_IF_EMPTY, true);
            }),
            Operation::Set => put_message(out, field::SET, |_| {}),
            Operation::Delete => put_message(out, field::DELETE, |_| {}),
        }
        match self.on_error {
            OnError::SkipCommand => put_number(out, field::ABORT_LEVEL, 1),
            OnError::LeaveScope => {} // 2, the level if there is none
            OnError::Abort => put_number(out, field::ABORT_LEVEL, 3),
        }
        for instruction in &self.nested {
            put_message(out, field::NESTED, |out| instruction.encode(out));
        }
    }

    /// Adds the lines of the instruction's text.
    fn print(&self, indent: usize, lines: &mut Vec<String>) {
        let operation = match &self.operation {
            Operation::Select {
                cursor,
                path,
                create,
            } => {
                let side = match cursor {
                    Cursor::Source => "source",
                    Cursor::Destination => "destination",
                };
                let path = path_text(path);
                let create = if *create { ", created if absent" } else { "" };
                format!("select {side} {path}{create}")
            }
            Operation::LoadKey => "load key".to_owned(),
            Operation::Merge {
                skip_submessages: true,
            } => "merge the other fields".to_owned(),
            Operation::Merge { .. } => "merge".to_owned(),
            Operation::Set => "set".to_owned(),
            Operation::Delete => "delete".to_owned(),
        };
        let on_error = match self.on_error {
            OnError::SkipCommand => ", or skip",
            OnError::LeaveScope => "",
            OnError::Abort => ", or abort",
        };
        lines.push(format!("{:indent$}{operation}{on_error}", ""));
        for instruction in &self.nested {
            instruction.print(indent + 2, lines);
        }
    }
}

impl Component {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Component::Field {
                number,
                is_repeated,
                ..
            } => {
                put_number(out, field::PATH_FIELD, u64::from(*number));
                put_flag(out, field::PATH_IS_REPEATED, *is_repeated);
            }
            Component::Key { number, .. } => {
                put_number(out, field::PATH_KEY, u64::from(*number));
                put_number(out, field::PATH_REGISTER, REGISTER);
            }
        }
    }
}

/// Returns the greatest depth of a list of instructions.
pub(super) fn depth(instructions: &[Instruction]) -> usize {
    let depths = instructions.iter().map(Instruction::depth);
    depths.max().unwrap_or_default()
}

/// Returns the serialized program.
pub(super) fn encode(instructions: &[Instruction]) -> Vec<u8> {
    let mut out = Vec::new();
    for instruction in instructions {
        put_message(&mut out, field::PROGRAM_INSTRUCTIONS, |out| {
            instruction.encode(out);
        });
    }
    out
}

/// Returns the text of a program, as lines.
pub(super) fn text(instructions: &[Instruction]) -> Vec<String> {
    let mut lines = Vec::new();
    for instruction in instructions {
        instruction.print(0, &mut lines);
    }
    lines
}

fn path_text(path: &[Component]) -> String {
    let mut text = String::new();
    for component in path {
        match component {
            Component::Field {
                name, is_repeated, ..
            } => {
                let dot = if text.is_empty() { "" } else { "." };
                let each = if *is_repeated { "[each]" } else { "" };
                text += &format!("{dot}{name}{each}");
            }
            Component::Key { name, .. } => text += &format!("[{name} == key]"),
        }
    }
    text
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_number(out: &mut Vec<u8>, field: u32, value: u64) {
    const VARINT: u64 = 0;
    put_varint(out, u64::from(field) << 3 | VARINT);
    put_varint(out, value);
}

/// Puts a flag that is false by default.
fn put_flag(out: &mut Vec<u8>, field: u32, value: bool) {
    if value {
        put_number(out, field, 1);
    }
}

fn put_message(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    const LENGTH_DELIMITED: u64 = 2;
    let mut content = Vec::new();
    write(&mut content);
    put_varint(out, u64::from(field) << 3 | LENGTH_DELIMITED);
    put_varint(out, content.len() as u64);
    out.extend(content);
}
