//! Runs ProtoVM programs, which fold patches of a trace into a message, the incremental state.
//!
//! A data source that shows a hierarchy, for example of windows, records a patch for each change. In
//! a ring buffer, the oldest patches are overwritten. Before that, the service applies each to a
//! state, so that state and remaining patches make the whole. The program that applies patches comes
//! from the data source. It knows the schema; this package does not.
//!
//! A program has five operations: `select` moves the cursor in the patch or in the state, `reg_load`
//! stores a scalar in a register, `set` and `merge` copy from the patch to the state, `del` deletes
//! from the state. Instructions may be nested, and `select` may iterate over a repeated field.
//!
//! ```
//! use tracezero_protovm::{Program, Vm};
//!
//! // instructions { select { relative_path { field_id: 1 } }
//! //   nested_instructions { select { cursor: DST relative_path { field_id: 2 }
//! //                                  create_if_not_exist: true }
//! //     nested_instructions { set {} } } }
//! let program = [
//!     0x12, 0x16, 0x0a, 0x04, 0x12, 0x02, 0x08, 0x01, 0x3a, 0x0e, 0x0a, 0x08, 0x08, 0x02, 0x12,
//!     0x02, 0x08, 0x02, 0x18, 0x01, 0x3a, 0x02, 0x22, 0x00,
//! ];
//! let mut vm = Vm::new(Program::parse(&program)?, 1 << 20);
//! vm.apply(&[0x08, 42])?; // field 1 of the patch ..
//! assert_eq!(vm.state(), [0x10, 42]); // .. is now field 2 of the state
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Nothing is trusted
//!
//! Program, state and patches may come from a hostile process. Each failure is a value: there is no
//! panic, no unlimited recursion, and no `unsafe` code. Constants name the limits of a program
//! ([`PROGRAM_MAX_BYTES`], [`INSTRUCTION_DEPTH_MAX`], [`ITERATION_DEPTH_MAX`]) and of a patch
//! ([`STEPS_MAX_PER_PATCH`], [`WORK_MAX_PER_PATCH`]). The caller limits the size of patches. The
//! state has a limit in bytes: each field, element or map entry is charged
//! [`NODE_AND_ENTRY_BYTES`], and each blob its length. The allocator takes 1.2 times as much, and up
//! to twice as much while the state grows. Room for nodes that were deleted is kept for others.
//!
//! An instruction that asks for the impossible fails only when it is executed, as in Perfetto. Only
//! a program that is malformed, too long or nested too deeply is refused as a whole.
//!
//! # Differences from Perfetto
//!
//! Programs that work with Perfetto leave the same bytes of state, with the exceptions below. These
//! defects of Perfetto's machine are mended:
//!
//! - Deleting the root, or an element in an iteration over the state, frees its memory. In Perfetto
//!   it stays charged.
//! - Deleting an element in an iteration over the state removes it, as deleting it by index does.
//!   Perfetto leaves an empty element. The state's bytes are the same, because an empty element is
//!   not serialized. They can differ later: Perfetto's empty elements count when the program enters
//!   the list by index, and another iteration visits them.
//! - If an element has no key, a list does not become a map, and keeps this element and the others.
//!   In Perfetto the element is lost. The program aborts in both.
//! - If a merge aborts, its marks are taken back. In Perfetto they stay, so the next merge appends to
//!   fields that it should replace.
//! - If there is no memory for an element that `merge` appends, the program aborts. Perfetto goes on
//!   without this element, so its bytes differ.
//! - A malformed blob of the state that is entered stays as it is, and the program aborts.
//!
//! Perfetto does not define these cases, or not usefully. Here they abort:
//!
//! - A patch exceeds its steps or its work, or iterations are nested too deeply.
//! - A group or a malformed field is reached. What was applied until then stays.
//! - A scalar of the patch is entered by index.
//! - A field is created whose number is 0 or above 2^29-1.
//! - The root is set to a scalar.
//! - A list becomes a map, and two elements have the same key.
//! - A list is entered at the index of a deleted element.
//! - A cursor is `BOTH` or unknown, or the abort level of a failed instruction is unknown.
#![forbid(unsafe_code)]

mod limits; // of programs, and of what a patch may cost
mod error; // reasons why programs and patches are refused
mod failure; // how an operation fails inside of the machine
mod program; // bytes to instructions
mod budget; // counts what a patch costs
mod source; // a cursor into the patch
mod arena; // the nodes of a state, and their memory
mod tree; // cursors into the state, and operations on it
mod serialize; // the state as bytes
mod machine; // runs instructions
mod vm; // a program with its state

pub use arena::{MEMORY_LIMIT_MAX_BYTES, NODE_AND_ENTRY_BYTES, SLOT_BYTES};
pub use error::{
    AbortCause, ApplyError, InstructionPath, Malformed, Missing, ProgramError, StateTooLong,
};
pub use limits::{
    INSTRUCTION_DEPTH_MAX, ITERATION_DEPTH_MAX, PROGRAM_MAX_BYTES, REGISTERS, STEPS_MAX_PER_PATCH,
    WORK_MAX_PER_PATCH,
};
pub use program::Program;
pub use vm::Vm;
