//! The cases of Perfetto's own unit tests, through programs: what they check on cursors and nodes is
//! visible in the state and in the reason of an abort.
//!
//! The numbers of cases are those of the list in section 7 of our description of ProtoVM. These
//! cases do not apply:
//!
//! - 1 to 14 check the order of calls to a mock. Here the state shows the order.
//! - 21: a copy of the state is its bytes, which have no method to apply a patch.
//! - 36 and 37: kinds of nodes are not public. The operation that is legal shows the kind.
//! - 94 and 95: every node has an entry in its parent, so both are one case.
//! - 97: there is no slab allocator.
//! - 98 to 102 concern the service.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod build;

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

/// Parser: cases 1 to 14.
mod parser {
    use super::*;

    #[test]
    fn empty_program_does_nothing() {
        assert_eq!(applied([], &varint(1, 1)), []);
    }

    #[test]
    fn reg_load_loads_a_key() {
        let keyed = dst(field(7).key(1, 3)).create().nest([set()]);
        let program = [src(field(1)).nest([load(3)]), src(field(2)).nest([keyed])];
        let patch = message![varint(1, 5), bytes(2, b"")];
        assert_eq!(applied(program, &patch), bytes(7, b""));
    }

    #[test]
    fn del_empties_the_root() {
        assert_eq!(applied_to(&two_elements(), [del()], &[]), []);
    }

    #[test]
    fn merge_keeps_fields_that_the_patch_lacks() {
        let state = message![varint(1, 1), varint(2, 2), bytes(3, b"")];
        let patch = message![varint(2, 20), bytes(3, b"")];
        let merged = message![varint(1, 1), varint(2, 20), bytes(3, b"")];
        assert_eq!(applied_to(&state, [merge()], &patch), merged);
    }

    #[test]
    fn merge_with_del_if_src_empty_deletes() {
        let state = message![varint(1, 1), bytes(3, b"x")];
        let program = [merge().del_if_src_empty()];
        assert_eq!(applied_to(&state, program, &bytes(3, b"")), varint(1, 1));
    }

    #[test]
    fn set_replaces_the_root() {
        assert_eq!(
            applied_to(&varint(1, 1), [set()], &varint(2, 2)),
            varint(2, 2)
        );
    }

    #[test]
    fn select_without_cursor_selects_source() {
        let program = [
            select_default(field(1)).nest([put(4, field(1))]),
            src(field(2)).nest([put(4, field(2))]),
            dst(field(3)).create().nest([put(4, field(3))]),
        ];
        let inner = |value| varint(4, value);
        let patch = message![bytes(1, &inner(1)), bytes(2, &inner(2)), varint(4, 3)];
        let state = message![varint(1, 1), varint(2, 2), node(3, &varint(3, 3))];
        assert_eq!(applied(program, &patch), state);
    }

    #[test]
    fn path_may_mix_fields_indices_keys_and_iterations() {
        let path = field(1).field(2).at(1).field(4).key(5, 0).each(3);
        let program = [
            src(field(9)).nest([load(0)]),
            dst(path).nest([src(field(8)).nest([set()])]),
        ];
        let entry = |values: [u64; 2]| {
            let values = message![varint(3, values[0]), varint(3, values[1])];
            message![values, varint(5, 77)]
        };
        let before = bytes(4, &entry([1, 2]));
        let state = bytes(1, &message![bytes(2, b""), bytes(2, &before)]);
        let patch = message![varint(9, 77), varint(8, 6)];
        let after = node(4, &entry([6, 6]));
        let expected = node(1, &message![bytes(2, b""), node(2, &after)]);
        assert_eq!(applied_to(&state, program, &patch), expected);
    }

    #[test]
    fn iteration_runs_all_nested_instructions_per_element() {
        let nested = [
            src(field(1)).nest([load(10)]),
            src(field(2)).nest([load(11)]),
            dst(field(1).key(9, 10).field(1).key(9, 11))
                .create()
                .nest([set()]),
        ];
        let patch = message![bytes(5, &element(7, 1)), bytes(5, &element(3, 2))];
        let entries = [element(3, 2), element(7, 1)].map(|element| node(1, &bytes(1, &element)));
        assert_eq!(
            applied([src(each(5)).nest(nested)], &patch),
            entries.concat()
        );
    }

    #[test]
    fn failed_nested_instruction_ends_its_list() {
        let nested = [put(1, field(1)), src(field(7)), put(1, field(3))];
        let mut vm = vm([src(here()).nest(nested)]);
        assert_missing(vm.apply(&varint(1, 9)), Missing::PatchField { field: 7 });
        assert_eq!(vm.state(), varint(1, 9));
    }

    /// Fails in the first instruction with this abort level; returns what happens.
    fn failing(level: Option<u32>) -> (Result<(), ApplyError>, Vec<u8>) {
        let first = src(field(7));
        let first = match level {
            Some(level) => first.level(level),
            None => first,
        };
        let mut vm = vm([first, put(1, field(2))]);
        (vm.apply(&varint(1, 9)), vm.state())
    }

    const MISSING: Missing = Missing::PatchField { field: 7 };

    #[test]
    fn level_absent_breaks_the_outer_instruction() {
        let (result, state) = failing(None);
        assert_missing(result, MISSING);
        assert_eq!(state, []);
    }

    #[test]
    fn level_skip_goes_on_with_the_next_instruction() {
        let (result, state) = failing(Some(SKIP));
        result.unwrap();
        assert_eq!(state, varint(2, 9));
    }

    #[test]
    fn level_break_outer_is_the_default() {
        let (result, state) = failing(Some(BREAK_OUTER));
        assert_missing(result, MISSING);
        assert_eq!(state, []);
    }

    #[test]
    fn level_abort_aborts() {
        let (result, state) = failing(Some(ABORT));
        assert_aborts(result, AbortCause::Missing(MISSING));
        assert_eq!(state, []);
    }
}

/// Vm: cases 15 to 26.
mod vm_facade {
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
}

/// RoCursor: cases 27 to 41.
mod patch_cursor {
    use super::*;

    #[test]
    fn field_of_a_scalar_aborts() {
        let result = vm([src(field(1).field(1))]).apply(&varint(1, 1));
        assert_aborts(result, AbortCause::PatchIsScalar);
    }

    #[test]
    fn absent_field_is_an_error() {
        assert_missing(
            vm([src(field(1))]).apply(&[]),
            Missing::PatchField { field: 1 },
        );
        let missing = Missing::PatchField { field: 0 };
        assert_missing(vm([src(field(0))]).apply(&varint(1, 1)), missing);
    }

    #[test]
    fn first_occurrence_is_entered() {
        let patch = message![varint(2, 0), varint(1, 5), varint(1, 6)];
        assert_eq!(applied([put(1, field(1))], &patch), varint(1, 5));
    }

    #[test]
    fn index_in_a_scalar_aborts() {
        let result = vm([src(field(1).field(1).at(0))]).apply(&varint(1, 1));
        assert_aborts(result, AbortCause::PatchIsScalar);
    }

    #[test]
    fn absent_index_is_an_error() {
        let mut vm = vm([src(field(1).at(1))]);
        let missing = Missing::PatchElement { field: 1, index: 1 };
        assert_missing(vm.apply(&[]), missing);
        assert_missing(vm.apply(&one_element()), missing);
    }

    #[test]
    fn elements_are_found_by_index() {
        for (index, element) in [element_0(), element_1()].into_iter().enumerate() {
            let program = [src(field(1).at(index as u32)).nest([set()])];
            assert_eq!(applied(program, &two_elements()), element);
        }
    }

    #[test]
    fn scalar_by_index_aborts() {
        let result = vm([src(field(1).at(0))]).apply(&varint(1, 1));
        assert_aborts(result, AbortCause::PatchIsScalar);
    }

    #[test]
    fn iteration_over_a_scalar_aborts() {
        let result = vm([src(field(1).each(1))]).apply(&varint(1, 1));
        assert_aborts(result, AbortCause::PatchIsScalar);
    }

    #[test]
    fn iteration_over_nothing_is_ok() {
        assert_eq!(applied([src(each(1)).nest([del().nest([del()])])], &[]), []);
    }

    #[test]
    fn iteration_visits_elements_in_order() {
        // Each element is set at the key of the one before.
        let set_at_key = dst(field(1).key(1, 0)).create().nest([set()]);
        let program = [
            src(field(2)).nest([load(0)]),
            src(each(1)).nest([set_at_key, src(field(1)).nest([load(0)])]),
        ];
        let elements = [7, 5, 6].map(|id| bytes(1, &element(id, 0)));
        let patch = message![elements.concat(), varint(2, 1)];
        // The keys are 1, 7 and 5.
        let [at_1, at_7, at_5] = elements;
        assert_eq!(applied(program, &patch), message![at_1, at_5, at_7]);
    }

    /// `reg_load` takes scalars alone, `merge` messages alone.
    #[test]
    fn root_and_messages_are_bytes_and_no_scalars() {
        assert_aborts(vm([load(0)]).apply(&[]), AbortCause::PatchIsNotScalar);
        let program = [src(field(1)).nest([load(0)])];
        let result = vm(program).apply(&one_element());
        assert_aborts(result, AbortCause::PatchIsNotScalar);
    }

    #[test]
    fn varint_and_fixed_values_are_scalars_and_no_bytes() {
        for scalar in [varint(1, 0), fixed32(1, 32), fixed64(1, 64)] {
            vm([src(field(1)).nest([load(0)])]).apply(&scalar).unwrap();
            let result = vm([src(field(1)).nest([merge()])]).apply(&scalar);
            assert_aborts(result, AbortCause::PatchIsScalar);
        }
    }

    #[test]
    fn scalars_keep_value_and_wire_type() {
        for scalar in [varint(1, 0), varint(1, 10), fixed32(1, 32), fixed64(1, 64)] {
            assert_eq!(applied([put(1, field(1))], &scalar), scalar);
        }
    }

    #[test]
    fn bytes_of_patch_and_of_messages_are_copied() {
        assert_eq!(applied([set()], &two_elements()), two_elements());
        assert_eq!(applied([put(1, field(1))], &one_element()), one_element());
    }
}

/// RwProto: cases 42 to 93.
mod state_tree {
    use super::*;

    const SCALAR: &[u8] = &[0x08, 0x0a];

    /// Aborts of cursor calls where field 1 of the state is a scalar: cases 42, 47, 54, 60, 64.
    #[test]
    fn scalar_of_the_state_cannot_be_entered() {
        let paths = [
            field(1).field(1),
            field(1).field(1).at(0),
            field(1).each(1),
            field(1).field(1).key(1, 0),
        ];
        for path in paths {
            for creates in [false, true] {
                let enter = dst(path.clone());
                let enter = if creates { enter.create() } else { enter };
                let mut vm = vm_on(SCALAR, [src(field(1)).nest([load(0)]), enter]);
                assert_aborts(vm.apply(SCALAR), AbortCause::StateIsScalar);
                assert_eq!(vm.state(), SCALAR);
            }
        }
    }

    /// Cases 43 to 46.
    #[test]
    fn field_is_found_in_bytes_and_in_messages() {
        let state = message![varint(3, 1), bytes(2, &element_0())];
        // The second finds the field in the message that the first has made.
        let mut vm = vm_on(&state, [dst(field(2).field(3)), dst(field(2).field(3))]);
        vm.apply(&[]).unwrap();
    }

    #[test]
    fn absent_field_is_missing_also_below_an_empty_node() {
        let missing = Missing::StateField { field: 2 };
        assert_missing(vm([dst(field(2))]).apply(&[]), missing);
        assert_missing(vm_on(&two_elements(), [dst(field(2))]).apply(&[]), missing);
        let mut vm = vm([dst(field(1)).create().nest([dst(field(2))])]);
        assert_missing(vm.apply(&[]), missing);
        // The look makes a message of the empty node, as in Perfetto.
        assert_eq!(vm.state(), node(1, &[]));
    }

    #[test]
    fn list_is_not_entered_as_a_field() {
        let mut vm = vm_on(&two_elements(), [dst(field(1)).create()]);
        let repeated = AbortCause::FieldIsRepeated { field: 1 };
        assert_aborts(vm.apply(&[]), repeated);
        // Keyed.
        let keyed = [
            src(field(1)).nest([load(0)]),
            dst(field(1).key(1, 0)),
            dst(field(1)),
        ];
        let mut vm = vm_on(&two_elements(), keyed);
        assert_aborts(vm.apply(&varint(1, 0)), repeated);
    }

    #[test]
    fn missing_path_is_created() {
        let state = node(1, &varint(1, 10));
        assert_eq!(applied([put(1, field(1).field(1))], &varint(1, 10)), state);
    }

    #[test]
    fn existing_field_is_entered_and_kept() {
        let program = [put(1, field(2).field(2)), put(1, field(3))];
        let state = message![bytes(2, &varint(1, 5)), varint(3, 1)];
        let after = message![node(2, &element(5, 10)), varint(3, 10)];
        assert_eq!(applied_to(&state, program, &varint(1, 10)), after);
    }

    #[test]
    fn missing_field_is_created_in_bytes() {
        let without = message![varint(1, 0), fixed32(3, 32), fixed64(4, 64)];
        let state = message![bytes(1, &without), bytes(1, &element_1())];
        let program = [put(1, field(1).at(0).field(2))];
        let expected = message![node(1, &element_0()), bytes(1, &element_1())];
        assert_eq!(applied_to(&state, program, &varint(1, 10)), expected);
    }

    #[test]
    fn existing_scalar_in_bytes_is_read() {
        let read = dst(field(1).at(0).field(1)).nest([reg_load(DST, 0)]);
        let program = [read, dst(field(1).key(1, 0)).nest([del()])];
        assert_eq!(
            applied_to(&two_elements(), program, &[]),
            bytes(1, &element_1())
        );
    }

    #[test]
    fn index_after_key_aborts() {
        let program = [
            src(field(1)).nest([load(0)]),
            dst(field(1).key(1, 0)),
            dst(field(1).at(0)),
        ];
        let result = vm_on(&two_elements(), program).apply(&varint(1, 0));
        assert_aborts(result, AbortCause::FieldIsKeyed { field: 1 });
    }

    #[test]
    fn index_beyond_the_end_aborts() {
        let beyond = |index| AbortCause::NoSuchIndex { field: 1, index };
        let mut empty = vm([dst(field(1).at(1)).create()]);
        assert_aborts(empty.apply(&[]), beyond(1));
        assert_eq!(empty.state(), []);
        let mut two = vm_on(&two_elements(), [dst(field(1).at(3)).create()]);
        assert_aborts(two.apply(&[]), beyond(3));
        assert_eq!(two.state(), two_elements());
    }

    #[test]
    fn index_at_the_end_appends() {
        let program = [put(1, field(1).at(0)), put(2, field(1).at(1))];
        let patch = message![bytes(1, &element_0()), bytes(2, &element_1())];
        assert_eq!(applied(program, &patch), two_elements());
        // Without `create`, too.
        let program = [src(field(1)).nest([dst(field(1).at(0)).nest([set()])])];
        assert_eq!(applied(program, &one_element()), one_element());
    }

    #[test]
    fn elements_are_updated_by_index() {
        let program = [
            put(1, field(1).at(0).field(1)),
            put(2, field(1).at(1).field(1)),
        ];
        let patch = message![varint(1, 100), varint(2, 101)];
        let first = message![element(100, 10), fixed32(3, 32), fixed64(4, 64)];
        let expected = message![node(1, &first), node(1, &element(101, 11))];
        assert_eq!(applied_to(&two_elements(), program, &patch), expected);
    }

    #[test]
    fn single_occurrence_becomes_a_list_by_index() {
        let program = [put(2, field(1).at(1))];
        let patch = bytes(2, &element_1());
        assert_eq!(applied_to(&one_element(), program, &patch), two_elements());
    }

    #[test]
    fn iteration_over_an_absent_field_does_nothing() {
        let program = [dst(each(7)).nest([no_operation()])];
        assert_eq!(applied_to(&two_elements(), program, &[]), two_elements());
    }

    #[test]
    fn iteration_changes_each_element() {
        let set_value = src(field(1)).nest([dst(field(2)).nest([set()])]);
        let program = [dst(each(1)).nest([set_value])];
        let first = message![element(0, 100), fixed32(3, 32), fixed64(4, 64)];
        let patch = varint(1, 100);
        let both = message![node(1, &first), node(1, &element(1, 100))];
        assert_eq!(applied_to(&two_elements(), program.clone(), &patch), both);
        // A single occurrence is a list of one.
        assert_eq!(applied_to(&one_element(), program, &patch), node(1, &first));
    }

    #[test]
    fn iteration_over_a_map_aborts() {
        let program = [
            src(field(1)).nest([load(0)]),
            dst(field(1).key(1, 0)),
            dst(each(1)),
        ];
        let result = vm_on(&two_elements(), program).apply(&varint(1, 0));
        assert_aborts(result, AbortCause::FieldIsKeyed { field: 1 });
    }

    /// Loads the key from field 1 of the patch, and sets the entry's field 2 to field 2 of the patch.
    fn set_keyed_value() -> [Instruction; 2] {
        [
            src(field(1)).nest([load(0)]),
            put(2, field(1).key(1, 0).field(2)),
        ]
    }

    #[test]
    fn absent_map_entry_is_created_without_its_key() {
        let patch = message![varint(1, 10), varint(2, 100)];
        assert_eq!(applied(set_keyed_value(), &patch), node(1, &varint(2, 100)));
    }

    #[test]
    fn map_entry_is_found_and_others_stay() {
        let patch = message![varint(1, 0), varint(2, 100)];
        let first = message![element(0, 100), fixed32(3, 32), fixed64(4, 64)];
        let from_bytes = message![node(1, &first), bytes(1, &element_1())];
        assert_eq!(
            applied_to(&two_elements(), set_keyed_value(), &patch),
            from_bytes
        );
        // Elements that are messages already.
        let mut entered = vec![dst(each(1)).nest([dst(field(1))])];
        entered.extend(set_keyed_value());
        let from_messages = message![node(1, &first), node(1, &element_1())];
        assert_eq!(applied_to(&two_elements(), entered, &patch), from_messages);
    }

    #[test]
    fn single_occurrence_becomes_a_map_entry() {
        let mut vm = vm_on(&one_element(), set_keyed_value());
        vm.apply(&message![varint(1, 0), varint(2, 100)]).unwrap();
        vm.apply(&message![varint(1, 1), varint(2, 101)]).unwrap();
        let first = message![element(0, 100), fixed32(3, 32), fixed64(4, 64)];
        let both = message![node(1, &first), node(1, &varint(2, 101))];
        assert_eq!(vm.state(), both);
    }

    #[test]
    fn messages_and_empty_nodes_are_no_scalars() {
        let state = message![bytes(2, b"x"), varint(3, 10)];
        for path in [here(), field(2), field(4)] {
            let program = [dst(path).create().nest([reg_load(DST, 0)])];
            let result = vm_on(&state, program).apply(&[]);
            assert_aborts(result, AbortCause::StateIsNotScalar);
        }
        let program = [dst(field(3)).nest([reg_load(DST, 0)])];
        vm_on(&state, program).apply(&[]).unwrap();
    }

    #[test]
    fn fields_are_deleted() {
        let delete = |path| dst(path).nest([del()]);
        let state = two_elements();
        let program = [
            delete(field(1).at(0).field(1)),
            delete(field(1).at(1).field(2)),
        ];
        let first = message![varint(2, 10), fixed32(3, 32), fixed64(4, 64)];
        let expected = message![node(1, &first), node(1, &varint(1, 1))];
        assert_eq!(applied_to(&state, program, &[]), expected);
        let state = message![bytes(2, &element_0()), varint(3, 1)];
        assert_eq!(applied_to(&state, [delete(field(2))], &[]), varint(3, 1));
    }

    #[test]
    fn elements_are_deleted_by_index_and_by_key() {
        let left = bytes(1, &element_1());
        let program = [dst(field(1).at(0)).nest([del()])];
        assert_eq!(applied_to(&two_elements(), program, &[]), left);
        let program = [
            src(field(1)).nest([load(0)]),
            dst(field(1).key(1, 0)).nest([del()]),
        ];
        assert_eq!(applied_to(&two_elements(), program, &varint(1, 0)), left);
    }

    #[test]
    fn merging_into_a_scalar_aborts() {
        for source in [&b""[..], &element_0()] {
            let program = [src(field(2)).nest([dst(field(1)).nest([merge()])])];
            let result = vm_on(SCALAR, program).apply(&bytes(2, source));
            assert_aborts(result, AbortCause::StateIsScalar);
        }
    }

    #[test]
    fn empty_source_changes_nothing() {
        assert_eq!(applied_to(&two_elements(), [merge()], &[]), two_elements());
        let program = [dst(field(1)).create().nest([merge()])];
        assert_eq!(applied(program, &[]), []);
    }

    #[test]
    fn scalars_are_merged_field_by_field() {
        let merged = |state: &[u8], patch: &[u8]| applied_to(state, [merge()], patch);
        assert_eq!(merged(&[], &element(1, 11)), element(1, 11));
        assert_eq!(merged(&varint(1, 1), &varint(2, 11)), element(1, 11));
        assert_eq!(merged(&element(0, 10), &element(1, 11)), element(1, 11));
    }

    #[test]
    fn repeated_fields_are_replaced_by_merging() {
        let mut vm = vm([merge()]);
        vm.apply(&two_elements()).unwrap();
        assert_eq!(vm.state(), two_elements());
        vm.apply(&one_element()).unwrap();
        assert_eq!(vm.state(), one_element());
    }

    #[test]
    fn merging_a_map_aborts() {
        let program = [
            src(field(1).at(0).field(1)).nest([load(0)]),
            dst(field(1).key(1, 0)),
            merge(),
        ];
        let result = vm_on(&two_elements(), program).apply(&two_elements());
        assert_aborts(result, AbortCause::FieldIsKeyed { field: 1 });
    }

    #[test]
    fn submessages_are_skipped_if_entered() {
        let state = message![bytes(2, &element(1, 10)), varint(3, 100)];
        let patch = message![bytes(2, &element(2, 20)), varint(3, 200)];
        let program = [dst(field(2).field(1)), merge().skip_submessages()];
        let expected = message![node(2, &element(1, 10)), varint(3, 200)];
        assert_eq!(applied_to(&state, program, &patch), expected);
        // Bytes are no message yet.
        assert_eq!(
            applied_to(&state, [merge().skip_submessages()], &patch),
            patch
        );
    }

    #[test]
    fn empty_source_field_deletes_singular_and_repeated_fields() {
        let state = message![two_elements(), bytes(2, &element_0()), varint(3, 1)];
        let program = [merge().del_if_src_empty()];
        let without_single = message![two_elements(), varint(3, 1)];
        assert_eq!(
            applied_to(&state, program.clone(), &bytes(2, b"")),
            without_single
        );
        let without_list = message![bytes(2, &element_0()), varint(3, 1)];
        assert_eq!(applied_to(&state, program, &bytes(1, b"")), without_list);
    }

    #[test]
    fn deleting_comes_before_skipping() {
        let program = [
            dst(field(2).field(1)),
            merge().skip_submessages().del_if_src_empty(),
        ];
        let state = bytes(2, &element_0());
        assert_eq!(applied_to(&state, program, &bytes(2, b"")), []);
    }

    #[test]
    fn bytes_do_not_replace_a_scalar() {
        let result = vm_on(SCALAR, [put(2, field(1))]).apply(&bytes(2, b"x"));
        assert_aborts(result, AbortCause::StateIsScalar);
    }

    #[test]
    fn empty_bytes_are_a_value() {
        assert_eq!(applied_to(&two_elements(), [set()], &[]), []);
        let program = [src(field(1)).nest([dst(field(1).at(0)).nest([set()])])];
        assert_eq!(applied(program, &bytes(1, b"")), bytes(1, b""));
    }

    #[test]
    fn bytes_replace_what_was_built() {
        let program = [put(3, field(1).at(0).field(1)), put(1, field(1).at(0))];
        let patch = message![one_element(), varint(3, 5)];
        assert_eq!(applied(program, &patch), one_element());
    }

    #[test]
    fn scalars_do_not_replace_root_and_messages() {
        for path in [here(), field(2)] {
            let state = bytes(2, &element_0());
            let result = vm_on(&state, [put(1, path)]).apply(&varint(1, 1));
            assert_aborts(result, AbortCause::StateIsNotScalar);
        }
        let result = vm([put(1, here())]).apply(&varint(1, 1));
        assert_aborts(result, AbortCause::StateIsNotScalar);
    }

    #[test]
    fn scalars_change_value_and_wire_type() {
        for scalar in [varint(1, 7), fixed32(1, 8), fixed64(1, 9)] {
            assert_eq!(applied_to(SCALAR, [put(1, field(1))], &scalar), scalar);
        }
    }

    #[test]
    fn entered_state_is_serialized_in_order() {
        let shuffled = message![fixed64(4, 64), varint(2, 10), varint(1, 0), fixed32(3, 32)];
        let state = message![bytes(1, &shuffled), bytes(1, &element_1())];
        let program = [dst(each(1)).nest([dst(field(1))])];
        assert_eq!(applied_to(&state, program, &[]), two_entered_elements());
    }

    /// Case 93.
    #[test]
    fn every_use_of_a_deleted_node_aborts() {
        let uses = [
            del(),
            set(),
            merge(),
            reg_load(DST, 0),
            dst(field(1)),
            dst(field(1)).create(),
            dst(field(1).at(0)),
            dst(field(1).key(1, 5)),
            dst(field(1).key(1, 5)).create(),
            dst(each(1)),
        ];
        for instruction in uses {
            let load = src(field(1)).nest([load(5)]);
            let delete = dst(field(2)).create().nest([del(), instruction]);
            let result = vm([load, delete]).apply(&varint(1, 1));
            assert_aborts(result, AbortCause::Deleted);
        }
    }
}

/// Allocator: cases 94 to 96.
mod memory {
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
        // Deletes one and creates it again.
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
}

/// What the reference leaves open, or does wrongly.
mod beyond_the_cases {
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
        // A single occurrence.
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
}
