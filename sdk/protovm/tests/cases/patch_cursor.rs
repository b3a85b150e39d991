//! RoCursor: cases 27 to 41.

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
