//! Allocator: cases 94 to 96.

use super::*;

fn limited(limit_bytes: usize, instructions: impl IntoIterator<Item = Instruction>) -> Vm {
    let program = Program::parse(&program(instructions)).unwrap();
    Vm::new(program, limit_bytes)
}

#[test]
fn ten_slots_hold_five_nodes_with_entries() {
    let create = (1..=6).map(|id| dst(field(id)).create());
    let delete = dst(field(1)).level(SKIP).nest([del()]);
    let mut vm = limited(5 * NODE_AND_ENTRY_BYTES, [delete].into_iter().chain(create));
    assert_aborts(vm.apply(&[]), AbortCause::MemoryLimit);
    assert_eq!(vm.state_memory_bytes(), vm.memory_limit_bytes());
    // The second run deletes field 1 and creates it again. Field 6 does not fit, as before.
    assert_aborts(vm.apply(&[]), AbortCause::MemoryLimit);
    assert_eq!(vm.state_memory_bytes(), vm.memory_limit_bytes());
}

#[test]
fn freed_state_is_charged_nothing() {
    let program = [merge(), dst(each(1)).nest([dst(field(2)).create()]), del()];
    let mut vm = vm(program);
    vm.apply(&two_elements()).unwrap();
    assert_eq!(vm.state_memory_bytes(), 0);
}

#[test]
fn two_halves_fill_the_limit() {
    let limit_bytes = 2 * NODE_AND_ENTRY_BYTES + 2 * 500;
    let merged = src(here()).level(SKIP).nest([merge().del_if_src_empty()]);
    let mut vm = limited(limit_bytes, [merged]);
    let half = [0; 500];
    vm.apply(&bytes(1, &half)).unwrap();
    vm.apply(&bytes(2, &half)).unwrap();
    assert_eq!(vm.state_memory_bytes(), limit_bytes);
    assert_aborts(vm.apply(&bytes(3, b"")), AbortCause::MemoryLimit);
    // A blob may be replaced by one of the same length.
    vm.apply(&bytes(1, &half)).unwrap();
    assert_aborts(vm.apply(&bytes(1, &[0; 501])), AbortCause::MemoryLimit);
    assert_eq!(vm.state(), message![bytes(1, &half), bytes(2, &half)]);
    vm.apply(&bytes(1, b"")).unwrap();
    vm.apply(&bytes(3, &half)).unwrap();
    assert_eq!(vm.state_memory_bytes(), limit_bytes);
}

#[test]
fn message_that_does_not_fit_stays_bytes() {
    let state = message![bytes(1, &element_0()), bytes(1, &element_1())];
    let program = Program::parse(&program([dst(field(3))])).unwrap();
    let mut vm = Vm::with_state(program, state.len() + 40, &state).unwrap();
    assert_aborts(vm.apply(&[]), AbortCause::MemoryLimit);
    assert_eq!(vm.state(), state);
    assert_eq!(vm.state_memory_bytes(), state.len());
}
