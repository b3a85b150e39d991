//! Programs: bytes, decoded once into a tree of instructions.
//!
//! Decoding checks only that the bytes are sound protobuf within limits. An instruction that asks
//! for the impossible fails when it is executed, as in Perfetto, so it harms no patch that does not
//! reach it. Unknown fields are ignored.

use std::sync::Arc;

use protozero::types::{self, FieldType};
use protozero::{DecodeError, Decoder, Field};

use crate::error::{InstructionPath, ProgramError};
use crate::limits::{INSTRUCTION_DEPTH_MAX, PROGRAM_MAX_BYTES};

/// A decoded program. Clones share their memory, which is up to 30 times the program's bytes.
#[derive(Clone, Debug)]
pub struct Program {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    bytes: Box<[u8]>,
    instructions: Box<[Instruction]>,
}

#[derive(Debug)]
pub(crate) struct Instruction {
    pub(crate) operation: Operation,
    pub(crate) abort_level: AbortLevel,
    pub(crate) nested: Box<[Instruction]>,
}

#[derive(Debug)]
pub(crate) enum Operation {
    None,
    Select(Select),
    RegLoad { cursor: Cursor, register: u32 },
    Merge(MergeFlags),
    Set,
    Del,
}

#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) cursor: Cursor,
    pub(crate) path: Box<[PathComponent]>,
    pub(crate) creates: bool,
}

/// Perfetto looks at these fields one after the other, and not as a `oneof`. So does the machine.
#[derive(Debug, Default)]
pub(crate) struct PathComponent {
    pub(crate) field_id: Option<u32>,
    pub(crate) array_index: Option<u32>,
    pub(crate) map_key_field_id: Option<u32>,
    pub(crate) register_to_match: Option<u32>,
    pub(crate) is_repeated: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Cursor {
    Source,
    Destination,
    /// `BOTH`, which Perfetto has not implemented, or an unknown value.
    Unsupported(u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MergeFlags {
    pub(crate) skip_submessages: bool,
    pub(crate) del_if_src_empty: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum AbortLevel {
    SkipCurrent,
    BreakOuter,
    Abort,
    Unknown(u32),
}

impl Program {
    /// Decodes a `VmProgram`.
    ///
    /// # Errors
    ///
    /// If the program is malformed protobuf, longer than [`PROGRAM_MAX_BYTES`], or nested deeper
    /// than [`INSTRUCTION_DEPTH_MAX`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ProgramError> {
        if bytes.len() > PROGRAM_MAX_BYTES {
            return Err(ProgramError::TooLong {
                len_bytes: bytes.len(),
            });
        }
        let mut parser = Parser { path: Vec::new() };
        Ok(Self {
            shared: Arc::new(Shared {
                instructions: parser.instructions(bytes, VM_PROGRAM_INSTRUCTIONS)?,
                bytes: bytes.into(),
            }),
        })
    }

    /// Returns the bytes that the program was decoded from.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.shared.bytes
    }

    pub(crate) fn instructions(&self) -> &[Instruction] {
        &self.shared.instructions
    }
}

const VM_PROGRAM_INSTRUCTIONS: u32 = 2;
const INSTRUCTION_NESTED: u32 = 7;

struct Parser {
    /// The instruction that is being decoded.
    path: Vec<u32>,
}

impl Parser {
    /// Decodes the instructions in field `number` of a program or an instruction. Recursion ends at
    /// the greatest depth.
    fn instructions(
        &mut self,
        bytes: &[u8],
        number: u32,
    ) -> Result<Box<[Instruction]>, ProgramError> {
        let mut instructions = Vec::new();
        for field in Decoder::new(bytes).fields() {
            let field = field.map_err(|error| self.malformed(error))?;
            if field.number != number {
                continue;
            }
            let bytes = types::Bytes::from_field(field).map_err(|error| self.malformed(error))?;
            // The program has at most 2^16 bytes, so the index fits.
            self.path.push(instructions.len() as u32);
            if self.path.len() > INSTRUCTION_DEPTH_MAX {
                return Err(ProgramError::TooDeep {
                    instruction: InstructionPath(self.path.clone()),
                });
            }
            instructions.push(self.instruction(bytes)?);
            self.path.pop();
        }
        Ok(instructions.into())
    }

    fn instruction(&mut self, bytes: &[u8]) -> Result<Instruction, ProgramError> {
        Ok(Instruction {
            operation: operation(bytes).map_err(|error| self.malformed(error))?,
            abort_level: abort_level(bytes).map_err(|error| self.malformed(error))?,
            nested: self.instructions(bytes, INSTRUCTION_NESTED)?,
        })
    }

    fn malformed(&self, error: DecodeError) -> ProgramError {
        ProgramError::Malformed {
            instruction: InstructionPath(self.path.clone()),
            error,
        }
    }
}

/// Returns the operation. If there are several, the one with the lowest field number counts, because
/// Perfetto asks for them in this order.
fn operation(bytes: &[u8]) -> Result<Operation, DecodeError> {
    let message = Decoder::new(bytes);
    let select = message.last::<types::Bytes>(1)?;
    let reg_load = message.last::<types::Bytes>(2)?;
    let merge = message.last::<types::Bytes>(3)?;
    let set = message.last::<types::Bytes>(4)?;
    let del = message.last::<types::Bytes>(5)?;
    Ok(if let Some(bytes) = select {
        Operation::Select(decode_select(bytes)?)
    } else if let Some(bytes) = reg_load {
        let message = Decoder::new(bytes);
        Operation::RegLoad {
            cursor: cursor(message.last::<types::Uint32>(1)?),
            register: message.last::<types::Uint32>(2)?.unwrap_or(0),
        }
    } else if let Some(bytes) = merge {
        let message = Decoder::new(bytes);
        Operation::Merge(MergeFlags {
            skip_submessages: message.last::<types::Bool>(1)?.unwrap_or(false),
            del_if_src_empty: message.last::<types::Bool>(2)?.unwrap_or(false),
        })
    } else if set.is_some() {
        Operation::Set
    } else if del.is_some() {
        Operation::Del
    } else {
        Operation::None
    })
}

fn decode_select(bytes: &[u8]) -> Result<Select, DecodeError> {
    let message = Decoder::new(bytes);
    let path: Result<_, DecodeError> = message
        .repeated::<types::Bytes>(2)
        .map(|bytes| path_component(bytes?))
        .collect();
    Ok(Select {
        cursor: cursor(message.last::<types::Uint32>(1)?),
        path: path?,
        creates: message.last::<types::Bool>(3)?.unwrap_or(false),
    })
}

fn path_component(bytes: &[u8]) -> Result<PathComponent, DecodeError> {
    let mut component = PathComponent::default();
    let number = |field: Field<'_>| types::Uint32::from_field(field).map(Some);
    for field in Decoder::new(bytes).fields() {
        let field = field?;
        match field.number {
            1 => component.field_id = number(field)?,
            2 => component.array_index = number(field)?,
            3 => component.map_key_field_id = number(field)?,
            5 => component.is_repeated = types::Bool::from_field(field)?,
            6 => component.register_to_match = number(field)?,
            // 7, `store_foreach_index_into_register`, is not implemented in Perfetto, either.
            _ => {}
        }
    }
    Ok(component)
}

fn cursor(value: Option<u32>) -> Cursor {
    match value {
        None | Some(1) => Cursor::Source,
        Some(2) => Cursor::Destination,
        Some(other) => Cursor::Unsupported(other),
    }
}

fn abort_level(bytes: &[u8]) -> Result<AbortLevel, DecodeError> {
    Ok(match Decoder::new(bytes).last::<types::Uint32>(6)? {
        Some(1) => AbortLevel::SkipCurrent,
        None | Some(2) => AbortLevel::BreakOuter,
        Some(3) => AbortLevel::Abort,
        Some(other) => AbortLevel::Unknown(other),
    })
}
