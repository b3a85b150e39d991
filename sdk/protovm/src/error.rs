//! Reasons why a program is refused, and why a patch is not applied.

use std::error::Error;
use std::fmt;

use protozero::DecodeError;

use crate::limits::{
    INSTRUCTION_DEPTH_MAX, ITERATION_DEPTH_MAX, PROGRAM_MAX_BYTES, STEPS_MAX_PER_PATCH,
    WORK_MAX_PER_PATCH,
};

/// The position of an instruction in a program: the index in each list of instructions, outermost
/// list first. Prints as `2.0.1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstructionPath(pub(crate) Vec<u32>);

impl InstructionPath {
    /// Returns the index in each list, outermost list first. The position of the program itself has
    /// no indices.
    #[must_use]
    pub fn indices(&self) -> &[u32] {
        &self.0
    }
}

impl fmt::Display for InstructionPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, index) in self.0.iter().enumerate() {
            let dot = if depth == 0 { "" } else { "." };
            write!(f, "{dot}{index}")?;
        }
        Ok(())
    }
}

/// The reason why bytes are not a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramError {
    /// The program is longer than [`PROGRAM_MAX_BYTES`].
    TooLong {
        /// The length of the program.
        len_bytes: usize,
    },
    /// An instruction is nested deeper than
    /// [`INSTRUCTION_DEPTH_MAX`].
    TooDeep {
        /// The instruction.
        instruction: InstructionPath,
    },
    /// The program, or an instruction of it, is malformed protobuf.
    Malformed {
        /// The instruction. The path is empty if the malformed field belongs to the program itself.
        instruction: InstructionPath,
        /// The fault. Offsets are those in the message that has the malformed field.
        error: DecodeError,
    },
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { len_bytes } => write!(
                f,
                "the program has {len_bytes} bytes; shorten it to {PROGRAM_MAX_BYTES}"
            ),
            Self::TooDeep { instruction } => write!(
                f,
                "instruction {instruction} is nested too deeply; nest at most {INSTRUCTION_DEPTH_MAX} levels"
            ),
            Self::Malformed { instruction, error } if instruction.0.is_empty() => {
                write!(f, "the program is malformed: {error}")
            }
            Self::Malformed { instruction, error } => {
                write!(f, "instruction {instruction} is malformed: {error}")
            }
        }
    }
}

impl Error for ProgramError {}

/// The initial state does not fit into the memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateTooLong {
    /// The length of the initial state.
    pub len_bytes: usize,
    /// The memory limit.
    pub limit_bytes: usize,
}

impl fmt::Display for StateTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            len_bytes,
            limit_bytes,
        } = self;
        write!(
            f,
            "the state has {len_bytes} bytes, but the limit is {limit_bytes}; raise the limit"
        )
    }
}

impl Error for StateTooLong {}

/// The reason why a patch was not applied, or not as a whole. The state keeps what was applied
/// before.
// Exhaustive: Ok and these two are all statuses that ProtoVM has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// Something that the program looks for is absent: the patch is not meant for this program.
    Missing {
        /// The part that is absent.
        cause: Missing,
        /// The instruction that looks for it.
        instruction: InstructionPath,
    },
    /// The program is wrong, the patch is malformed, or a limit is exceeded.
    Abort {
        /// The fault.
        cause: AbortCause,
        /// The instruction that failed.
        instruction: InstructionPath,
    },
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { cause, instruction } => write!(f, "instruction {instruction}: {cause}"),
            Self::Abort { cause, instruction } => write!(f, "instruction {instruction}: {cause}"),
        }
    }
}

impl Error for ApplyError {}

/// Something that an instruction looks for and that is absent. The instruction's abort level decides
/// what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The patch does not have the field.
    PatchField {
        /// Number of the field.
        field: u32,
    },
    /// The patch has the repeated field, but not so many elements.
    PatchElement {
        /// Number of the field.
        field: u32,
        /// Index of the element.
        index: u32,
    },
    /// The state does not have the field, and the instruction does not create it.
    StateField {
        /// Number of the field.
        field: u32,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PatchField { field } => write!(f, "the patch has no field {field}"),
            Self::PatchElement { field, index } => {
                write!(f, "the patch has no element {index} in field {field}")
            }
            Self::StateField { field } => write!(f, "the state has no field {field}"),
        }
    }
}

/// The reason why bytes of a patch or of the state cannot be read as a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// A field cannot be decoded.
    Field(DecodeError),
    /// The message contains a group, which the tree of the state cannot hold.
    Group {
        /// Offset of the group in its message.
        offset: usize,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(error) => error.fmt(f),
            Self::Group { offset } => {
                write!(
                    f,
                    "there is a group at offset {offset}; send a message instead"
                )
            }
        }
    }
}

/// The reason of an abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbortCause {
    // What an instruction says.
    /// The instruction has no operation.
    NoOperation,
    /// The cursor is neither the source nor the destination.
    CursorUnsupported {
        /// The value of the field.
        cursor: u32,
    },
    /// `create_if_not_exist` is set for the source, which is read-only.
    CreatesInPatch,
    /// A component of a path has no field id.
    NoFieldId {
        /// Index of the component in its path.
        component: usize,
    },
    /// A field would be created whose number is 0 or above 2^29-1.
    InvalidFieldId {
        /// Number of the field.
        field: u32,
    },
    /// A map key is used in the patch. Maps are supported in the state only.
    KeyInPatch {
        /// Number of the field.
        field: u32,
    },
    /// A path with a map key does not say which register has the key.
    NoKeyRegister {
        /// Number of the map's field.
        field: u32,
    },
    /// There is no register of this number.
    NoSuchRegister {
        /// The number, reduced to 8 bits.
        register: u8,
    },
    /// The register was never loaded.
    RegisterUnset {
        /// Number of the register.
        register: u8,
    },
    /// The abort level of a failed instruction is unknown.
    UnknownAbortLevel {
        /// The value of the field.
        level: u32,
    },
    /// Something is absent, and the abort level of the instruction is `ABORT`.
    Missing(Missing),

    // What is in the patch.
    /// The patch is malformed.
    MalformedPatch(Malformed),
    /// A scalar of the patch is entered or merged as a message.
    PatchIsScalar,
    /// A length-delimited field of the patch is loaded as a scalar.
    PatchIsNotScalar,

    // What is in the state.
    /// A part of the state cannot be decoded: a patch had put it there as opaque bytes.
    MalformedState(Malformed),
    /// A scalar of the state is entered, merged, or overwritten with bytes.
    StateIsScalar,
    /// A message of the state is loaded or overwritten as a scalar.
    StateIsNotScalar,
    /// A repeated field of the state is entered as a singular one.
    FieldIsRepeated {
        /// Number of the field.
        field: u32,
    },
    /// A repeated field of the state that has keys is used by index, iterated or merged.
    FieldIsKeyed {
        /// Number of the field.
        field: u32,
    },
    /// The index is beyond the end of the list, or is that of a deleted element.
    NoSuchIndex {
        /// Number of the field.
        field: u32,
        /// The index.
        index: u32,
    },
    /// An append would overwrite an element: the list has a hole, so that its length is the index
    /// of an element.
    IndexTaken {
        /// Number of the field.
        field: u32,
        /// The index.
        index: u32,
    },
    /// An element cannot become an entry of a map, because its key is absent or not a scalar.
    NoKey {
        /// Number of the map's field.
        field: u32,
        /// Number of the key's field in the element.
        key_field: u32,
    },
    /// Elements cannot become entries of a map, because two have the same key.
    DuplicateKey {
        /// Number of the map's field.
        field: u32,
        /// The key.
        key: u32,
    },
    /// The destination was deleted.
    Deleted,
    /// The destination cannot be deleted: the innermost enclosing `select` returns to it.
    DeletesSelected,

    // Limits.
    /// The state would exceed the memory limit.
    MemoryLimit,
    /// The patch took more than [`STEPS_MAX_PER_PATCH`] steps.
    StepLimit,
    /// The patch took more than [`WORK_MAX_PER_PATCH`] units of work.
    WorkLimit,
    /// Iterations are nested deeper than [`ITERATION_DEPTH_MAX`].
    IterationTooDeep,
}

impl fmt::Display for AbortCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOperation => f.write_str("the instruction has no operation"),
            Self::CursorUnsupported { cursor } => {
                write!(f, "cursor {cursor} is unsupported; name SRC or DST")
            }
            Self::CreatesInPatch => {
                f.write_str("a field would be created in the patch, which is read-only")
            }
            Self::NoFieldId { component } => {
                write!(f, "component {component} of the path has no field_id")
            }
            Self::InvalidFieldId { field } => {
                write!(f, "{field} is not a field number, so no field is created")
            }
            Self::KeyInPatch { field } => write!(
                f,
                "field {field} of the patch is entered by key; iterate over it instead"
            ),
            Self::NoKeyRegister { field } => {
                write!(f, "no register has the key for field {field}; add register_to_match")
            }
            Self::NoSuchRegister { register } => {
                write!(f, "there is no register {register}; use 0 to 31")
            }
            Self::RegisterUnset { register } => {
                write!(f, "register {register} is unset; load it first")
            }
            Self::UnknownAbortLevel { level } => write!(f, "abort level {level} is unknown"),
            Self::Missing(missing) => missing.fmt(f),
            Self::MalformedPatch(malformed) => write!(f, "the patch is malformed: {malformed}"),
            Self::PatchIsScalar => {
                f.write_str("a scalar of the patch is accessed as a length-delimited field")
            }
            Self::PatchIsNotScalar => {
                f.write_str("a length-delimited field of the patch is accessed as a scalar")
            }
            Self::MalformedState(malformed) => {
                write!(f, "a part of the state is malformed: {malformed}")
            }
            Self::StateIsScalar => {
                f.write_str("a scalar of the state is accessed as a length-delimited field")
            }
            Self::StateIsNotScalar => {
                f.write_str("a message of the state is accessed as a scalar")
            }
            Self::FieldIsRepeated { field } => write!(
                f,
                "field {field} of the state is repeated; name an index or a key"
            ),
            Self::FieldIsKeyed { field } => {
                write!(f, "field {field} of the state has keys; name a key")
            }
            Self::NoSuchIndex { field, index } => {
                write!(f, "field {field} of the state has no element {index}")
            }
            Self::IndexTaken { field, index } => write!(
                f,
                "element {index} of field {field} exists, so nothing is appended there"
            ),
            Self::NoKey { field, key_field } => write!(
                f,
                "an element of field {field} has no scalar in its key field {key_field}"
            ),
            Self::DuplicateKey { field, key } => {
                write!(f, "two elements of field {field} have the key {key}")
            }
            Self::Deleted => f.write_str("the destination was deleted"),
            Self::DeletesSelected => f.write_str(
                "the destination cannot be deleted here, because the enclosing select returns to it",
            ),
            Self::MemoryLimit => f.write_str("the state would exceed its memory limit"),
            Self::StepLimit => write!(
                f,
                "the patch took more than {STEPS_MAX_PER_PATCH} steps"
            ),
            Self::WorkLimit => write!(
                f,
                "the patch took more than {WORK_MAX_PER_PATCH} units of work"
            ),
            Self::IterationTooDeep => write!(
                f,
                "iterations are nested deeper than {ITERATION_DEPTH_MAX}"
            ),
        }
    }
}
