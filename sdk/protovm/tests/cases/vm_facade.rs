//! Vm: cases 15 to 26.

use super::*;

fn standard() -> Vm {
    vm_of(&standard_program())
}

#[track_caller]
fn patched(patches: &[Vec<u8>]) -> Vec<u8> {
    let mut vm = standard();
    for patch in patches {
        vm.apply(patch).unwrap();
    }
    vm.state()
}

#[test]
fn fresh_state_is_empty() {
    assert_eq!(standard().state(), []);
}

#[test]
fn initial_state_is_kept() {
    let state = message![bytes(1, &element(0, 10)), bytes(1, &element(1, 11))];
    assert_eq!(vm_on(&state, []).state(), state);
}

#[test]
fn elements_are_set_and_deleted() {
    let set = message![bytes(3, &element(0, 10)), bytes(3, &element(1, 11))];
    assert_eq!(patched(&[set, varint(1, 0)]), bytes(1, &element(1, 11)));
}

#[test]
fn elements_are_merged() {
    let first = bytes(2, &element(0, 10));
    assert_eq!(
        patched(std::slice::from_ref(&first)),
        node(1, &element(0, 10))
    );
    let second = message![bytes(2, &element(0, 100)), bytes(2, &element(1, 101))];
    let both = message![node(1, &element(0, 100)), node(1, &element(1, 101))];
    assert_eq!(patched(&[first, second]), both);
}

#[test]
fn set_replaces_whole_elements() {
    let first = message![bytes(3, &element(0, 10)), bytes(3, &element(1, 11))];
    let second = message![bytes(3, &varint(1, 0)), bytes(3, &element(1, 101))];
    let both = message![bytes(1, &varint(1, 0)), bytes(1, &element(1, 101))];
    assert_eq!(patched(&[first, second]), both);
}

#[test]
fn bytes_where_a_scalar_is_loaded_abort_with_trace() {
    let error = standard().apply(&bytes(3, &bytes(1, b"0"))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "instruction 2.0.0: a length-delimited field of the patch is accessed as a scalar"
    );
}

#[test]
fn root_is_deleted_within_a_select_of_it() {
    assert_eq!(
        applied_to(&two_elements(), [dst(here()).nest([del()])], &[]),
        []
    );
}

#[test]
fn selected_node_is_not_deleted_within_another_select() {
    for inner in [src(field(3)), dst(here())] {
        let program = [dst(field(1)).create().nest([inner.nest([del()])])];
        let result = vm(program).apply(&varint(3, 1));
        assert_aborts(result, AbortCause::DeletesSelected);
    }
}

#[test]
fn deleted_node_is_not_deleted_again() {
    let program = [dst(field(1)).create().nest([del().nest([del()])])];
    assert_aborts(vm(program).apply(&[]), AbortCause::Deleted);
}

#[test]
fn memory_is_that_of_the_state() {
    let mut vm = standard();
    assert_eq!(vm.state_memory_bytes(), 0);
    vm.apply(&bytes(3, &element(0, 10))).unwrap();
    assert_eq!(vm.state_memory_bytes(), 2 * NODE_AND_ENTRY_BYTES + 4);
}
