//! Parser: cases 1 to 14.

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
