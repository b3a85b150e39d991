//! Behaviour that the reference leaves open, or has wrong.

use super::*;

#[test]
fn each_wrong_instruction_aborts_when_executed() {
    let no_field = here().at(0);
    let no_register = field(1).component(&varint(3, 1));
    let cases = [
        (no_operation(), AbortCause::NoOperation),
        (
            select(BOTH, here()),
            AbortCause::CursorUnsupported { cursor: 3 },
        ),
        (reg_load(0, 0), AbortCause::CursorUnsupported { cursor: 0 }),
        (src(field(1)).create(), AbortCause::CreatesInPatch),
        (dst(no_field), AbortCause::NoFieldId { component: 0 }),
        (
            dst(field(0)).create(),
            AbortCause::InvalidFieldId { field: 0 },
        ),
        (
            dst(field(1 << 29)).create(),
            AbortCause::InvalidFieldId { field: 1 << 29 },
        ),
        (dst(no_register), AbortCause::NoKeyRegister { field: 1 }),
        (
            dst(field(1).key(1, 32)),
            AbortCause::NoSuchRegister { register: 32 },
        ),
        (
            dst(field(1).key(1, 31)),
            AbortCause::RegisterUnset { register: 31 },
        ),
        (
            src(field(7)).level(9),
            AbortCause::UnknownAbortLevel { level: 9 },
        ),
    ];
    for (instruction, cause) in cases {
        assert_aborts(vm([instruction.clone()]).apply(&varint(1, 1)), cause);
        // Behind an instruction that fails, it is not executed.
        let missing = Missing::PatchField { field: 9 };
        let result = vm([src(field(9)), instruction]).apply(&varint(1, 1));
        assert_missing(result, missing);
    }
    let program = [src(field(1)).nest([load(0)]), src(field(1).key(1, 0))];
    let result = vm(program).apply(&varint(1, 1));
    assert_aborts(result, AbortCause::KeyInPatch { field: 1 });
}

#[test]
fn register_numbers_have_eight_bits() {
    let program = [
        src(field(1)).nest([load(256 + 2)]),
        dst(field(1).key(1, 2)).create(),
    ];
    vm(program).apply(&varint(1, 1)).unwrap();
    let result = vm([src(field(1)).nest([load(32)])]).apply(&varint(1, 1));
    assert_aborts(result, AbortCause::NoSuchRegister { register: 32 });
}

#[test]
fn registers_keep_their_values_from_patch_to_patch() {
    let program = [
        src(field(1)).level(SKIP).nest([load(0)]),
        src(field(2))
            .level(SKIP)
            .nest([dst(field(1).key(1, 0)).create().nest([set()])]),
    ];
    let mut vm = vm(program);
    vm.apply(&varint(1, 1)).unwrap();
    vm.apply(&bytes(2, b"x")).unwrap();
    assert_eq!(vm.state(), bytes(1, b"x"));
}

#[test]
fn element_deleted_in_an_iteration_is_removed_and_freed() {
    let is_first = src(field(1)).nest([load(0)]);
    let program = [is_first, dst(each(1)).nest([del()])];
    let mut vm = vm_on(&two_elements(), program);
    vm.apply(&varint(1, 0)).unwrap();
    assert_eq!(vm.state(), []);
    // The list itself is left.
    assert_eq!(vm.state_memory_bytes(), NODE_AND_ENTRY_BYTES);
}

#[test]
fn deleted_index_is_a_hole() {
    let delete = src(field(1))
        .level(SKIP)
        .nest([dst(field(1).at(0)).nest([del()])]);
    let enter = |from, index| src(field(from)).level(SKIP).nest([dst(field(1).at(index))]);
    let mut vm = vm_on(&two_elements(), [delete, enter(2, 0), enter(3, 1)]);
    vm.apply(&varint(1, 0)).unwrap();
    let no_such_index = AbortCause::NoSuchIndex { field: 1, index: 0 };
    assert_aborts(vm.apply(&varint(2, 0)), no_such_index);
    let index_taken = AbortCause::IndexTaken { field: 1, index: 1 };
    assert_aborts(vm.apply(&varint(3, 0)), index_taken);
    assert_eq!(vm.state(), bytes(1, &element_1()));
}

#[test]
fn list_with_a_keyless_element_stays_a_list() {
    let keyless = [&b""[..], &bytes(1, b"x"), &varint(2, 0)];
    for keyless in keyless {
        let state = message![two_elements(), bytes(1, keyless)];
        let program = [src(field(1)).nest([load(0)]), dst(field(1).key(1, 0))];
        let mut vm = vm_on(&state, program);
        let no_key = AbortCause::NoKey {
            field: 1,
            key_field: 1,
        };
        assert_aborts(vm.apply(&varint(1, 0)), no_key);
        assert_eq!(vm.state(), state);
    }
    // A field that occurs only once, so it is not a list yet, also stays as it is.
    let state = varint(1, 0);
    let mut vm = vm_on(&state, set_key());
    assert!(vm.apply(&varint(1, 0)).is_err());
    assert_eq!(vm.state(), state);
}

fn set_key() -> [Instruction; 2] {
    [src(field(1)).nest([load(0)]), dst(field(1).key(1, 0))]
}

#[test]
fn elements_with_one_key_do_not_become_a_map() {
    let elements = [5, 6, 5].map(|key| bytes(1, &element(key, 1)));
    let state = elements.concat();
    let mut vm = vm_on(&state, set_key());
    let duplicate = AbortCause::DuplicateKey { field: 1, key: 5 };
    assert_aborts(vm.apply(&varint(1, 0)), duplicate);
    assert_eq!(vm.state(), state);
}

#[test]
fn keys_have_32_bits() {
    let state = bytes(1, &element(u64::from(u32::MAX) + 6, 1));
    let program = [
        src(field(1)).nest([load(0)]),
        dst(field(1).key(1, 0)).nest([del()]),
    ];
    assert_eq!(applied_to(&state, program, &varint(1, (7 << 32) + 5)), []);
}

#[test]
fn merge_without_memory_for_an_element_aborts() {
    let program = Program::parse(&program([merge()])).unwrap();
    let mut vm = Vm::new(program, 2 * NODE_AND_ENTRY_BYTES + 1);
    let patch = message![varint(1, 1), varint(1, 2)];
    assert_aborts(vm.apply(&patch), AbortCause::MemoryLimit);
    assert_eq!(vm.state(), varint(1, 1));
}

#[test]
fn malformed_patch_aborts_where_it_is_reached() {
    let patch = message![varint(1, 1), vec![0x12, 0x05]];
    assert_eq!(applied([put(1, field(1))], &patch), varint(1, 1));
    let malformed = |error| AbortCause::MalformedPatch(Malformed::Field(error));
    let truncated = protozero::DecodeError::Truncated { offset: 2 };
    let mut vm = vm([merge()]);
    assert_aborts(vm.apply(&patch), malformed(truncated));
    assert_eq!(vm.state(), varint(1, 1));
    let group = message![varint(1, 1), vec![0x0b, 0x0c]];
    let cause = AbortCause::MalformedPatch(Malformed::Group { offset: 2 });
    assert_aborts(vm.apply(&group), cause);
}

#[test]
fn malformed_blob_of_the_state_stays_as_it_is() {
    let state = bytes(1, &message![varint(1, 1), vec![0x12, 0x05]]);
    let mut vm = vm_on(&state, [dst(field(1).field(1))]);
    let truncated = protozero::DecodeError::Truncated { offset: 2 };
    let cause = AbortCause::MalformedState(Malformed::Field(truncated));
    assert_aborts(vm.apply(&[]), cause);
    assert_eq!(vm.state(), state);
    assert_eq!(vm.state_memory_bytes(), NODE_AND_ENTRY_BYTES + 4);
}

#[test]
fn error_names_the_instruction() {
    let program = [
        src(field(3)).level(SKIP),
        src(here()).nest([src(here()), src(field(4))]),
    ];
    let error = vm(program).apply(&[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "instruction 1.1: the patch has no field 4"
    );
}
