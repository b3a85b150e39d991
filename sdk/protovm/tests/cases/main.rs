//! The cases of Perfetto's own unit tests, through programs: what they check on cursors and nodes is
//! visible in the state and in the reason of an abort.
//!
//! The file of each class of Perfetto names its cases, by their numbers in our list of them. These
//! cases do not apply:
//!
//! - 1 to 14 check the order of calls to a mock. Here the state shows the order.
//! - 21: a copy of the state is its bytes, which have no method to apply a patch.
//! - 36 and 37: kinds of nodes are not public. The operation that is legal shows the kind.
//! - 94 and 95: every node has an entry in its parent, so both are one case.
//! - 97: there is no slab allocator.
//! - 98 to 102 concern the service.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod beyond_the_cases;
#[path = "../build/mod.rs"]
mod build;
mod memory;
mod parser;
mod patch_cursor;
mod state_tree;
mod vm_facade;

use build::*;
use tracezero_protovm::{
    AbortCause, ApplyError, Malformed, Missing, NODE_AND_ENTRY_BYTES, Program, Vm,
};

const LIMIT_BYTES: usize = 1 << 20;

fn vm(instructions: impl IntoIterator<Item = Instruction>) -> Vm {
    vm_of(&program(instructions))
}

fn vm_of(program: &[u8]) -> Vm {
    Vm::new(Program::parse(program).unwrap(), LIMIT_BYTES)
}

/// A machine whose state is these bytes, of which nothing is parsed.
fn vm_on(state: &[u8], instructions: impl IntoIterator<Item = Instruction>) -> Vm {
    let program = Program::parse(&program(instructions)).unwrap();
    Vm::with_state(program, LIMIT_BYTES, state).unwrap()
}

#[track_caller]
fn assert_aborts(result: Result<(), ApplyError>, expected: AbortCause) {
    match result {
        Err(ApplyError::Abort { cause, .. }) => assert_eq!(cause, expected),
        other => panic!("{other:?}, not {expected:?}"),
    }
}

#[track_caller]
fn assert_missing(result: Result<(), ApplyError>, expected: Missing) {
    match result {
        Err(ApplyError::Missing { cause, .. }) => assert_eq!(cause, expected),
        other => panic!("{other:?}, not {expected:?}"),
    }
}

/// Applies one patch to an empty state; returns the state.
#[track_caller]
fn applied(instructions: impl IntoIterator<Item = Instruction>, patch: &[u8]) -> Vec<u8> {
    let mut vm = vm(instructions);
    vm.apply(patch).unwrap();
    vm.state()
}

/// Applies one patch to a state; returns the new state.
#[track_caller]
fn applied_to(
    state: &[u8],
    instructions: impl IntoIterator<Item = Instruction>,
    patch: &[u8],
) -> Vec<u8> {
    let mut vm = vm_on(state, instructions);
    vm.apply(patch).unwrap();
    vm.state()
}

/// Copies field `from` of the patch to a path of the state.
fn put(from: u32, to: Path) -> Instruction {
    src(field(from)).nest([dst(to).create().nest([set()])])
}

/// Elements are {id 1, value 2, value_fixed32 3, value_fixed64 4}.
fn element(id: u64, value: u64) -> Vec<u8> {
    message![varint(1, id), varint(2, value)]
}

fn element_0() -> Vec<u8> {
    message![element(0, 10), fixed32(3, 32), fixed64(4, 64)]
}

fn element_1() -> Vec<u8> {
    varint(1, 1)
        .into_iter()
        .chain(varint(2, 11))
        .collect::<Vec<u8>>()
}

/// E1: the entry with the first element.
fn one_element() -> Vec<u8> {
    bytes(1, &element_0())
}

/// E2: the entry with both elements.
fn two_elements() -> Vec<u8> {
    message![bytes(1, &element_0()), bytes(1, &element_1())]
}

/// E2 whose elements were entered.
fn two_entered_elements() -> Vec<u8> {
    message![node(1, &element_0()), node(1, &element_1())]
}
