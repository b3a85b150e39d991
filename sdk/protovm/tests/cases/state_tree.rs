//! RwProto: cases 42 to 93.

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
