//! The instructions that each command becomes.

use protozero_codegen::{OnError, VmProgram};

use crate::decoded::{assert_program, compile};

const TEST: &str = r#"
syntax = "proto2";
package test;

message Entry {
  repeated Element elements = 1;
  optional Element single_element = 2;
  optional int32 id = 3;
  optional Patch patch = 4;
  optional Table table = 5;
}

message Element {
  optional int32 id = 1;
  optional int32 value = 2;
  optional Details details = 3;
  optional Details old_details = 4 [deprecated = true];
  repeated Details history = 5;
}

message Details {
  optional string text = 1;
  optional Size size = 2;
}

message Size {
  optional uint32 width = 1;
}

message Patch {
  repeated int32 elements_to_delete = 1;
  repeated Element elements_to_merge = 2;
  repeated Element elements_to_set = 3;
  optional int32 count = 4;
  repeated Group groups = 5;
  map<uint32, Element> changed = 6;
}

message Group {
  repeated int32 ids = 1;
  optional Element first = 2;
}

message Table {
  repeated Element elements = 1;
  optional int32 count = 2;
  map<uint32, Element> by_id = 3;
}
"#;

fn entry() -> VmProgram {
    VmProgram::new("test.Entry")
}

/// Returns an empty program whose root is an element.
fn element() -> VmProgram {
    VmProgram::new("test.Element")
}

#[track_caller]
fn assert(program: VmProgram, expected: &str) {
    assert_program(&[("test.proto", TEST)], program, expected);
}

#[test]
fn set() {
    assert(
        entry().set("patch.count", "table.count"),
        "
        select SRC 4.4
          select DST 5.2, create
            set
        ",
    );
}

#[test]
fn repeated_fields_of_sources_become_iterations() {
    assert(
        entry().set("patch.groups.first.value", "id"),
        "
        select SRC 4.5*.2.2
          select DST 3, create
            set
        ",
    );
}

#[test]
fn set_by_key() {
    assert(
        entry().set_by_key("patch.elements_to_set", "table.elements", "id"),
        "
        select SRC 4.3*
          select SRC 1, ABORT
            load SRC to r0
          select DST 5.1[1 == r0], create
            set
        ",
    );
}

#[test]
fn delete_if_present() {
    assert(
        entry().delete_if_present("patch.count", "table"),
        "
        select SRC 4.4
          select DST 5
            del
        ",
    );
}

#[test]
fn delete_by_key() {
    assert(
        entry().delete_by_key("patch.elements_to_delete", "elements", "id"),
        "
        select SRC 4.1*
          load SRC to r0
          select DST 1[1 == r0]
            del
        ",
    );
    assert(
        entry().delete_by_key("patch.groups.ids", "elements", "id"),
        "
        select SRC 4.5*.1*
          load SRC to r0
          select DST 1[1 == r0]
            del
        ",
    );
}

#[test]
fn merge_shallow() {
    assert(
        entry().merge_shallow("patch.groups.first", "single_element"),
        "
        select SRC 4.5*.2
          select DST 2, create
            merge del_if_src_empty
        ",
    );
}

/// Deprecated and repeated fields are left to the last merge.
#[test]
fn merge_is_recursive() {
    assert(
        entry().merge("patch.groups.first", "single_element"),
        "
        select SRC 4.5*.2
          select DST 2, create
            select SRC 3, SKIP
              select DST 3, create
                select SRC 2, SKIP
                  select DST 2, create
                    merge skip_submessages del_if_src_empty
                merge skip_submessages del_if_src_empty
            merge skip_submessages del_if_src_empty
        ",
    );
}

#[test]
fn merge_by_key() {
    assert(
        entry().merge_shallow_by_key("patch.elements_to_merge", "table.elements", "id"),
        "
        select SRC 4.2*
          select SRC 1, ABORT
            load SRC to r0
          select DST 5.1[1 == r0], create
            merge del_if_src_empty
        ",
    );
    assert(
        entry().merge_by_key("patch.groups.first", "elements", "id"),
        "
        select SRC 4.5*.2
          select SRC 1, ABORT
            load SRC to r0
          select DST 1[1 == r0], create
            select SRC 3, SKIP
              select DST 3, create
                select SRC 2, SKIP
                  select DST 2, create
                    merge skip_submessages del_if_src_empty
                merge skip_submessages del_if_src_empty
            merge skip_submessages del_if_src_empty
        ",
    );
}

/// A map is a repeated field of messages with the fields `key` and `value`.
#[test]
fn maps_are_merged_by_key() {
    assert(
        entry().merge_shallow_by_key("patch.changed", "table.by_id", "key"),
        "
        select SRC 4.6*
          select SRC 1, ABORT
            load SRC to r0
          select DST 5.3[1 == r0], create
            merge del_if_src_empty
        ",
    );
}

#[test]
fn scope() {
    let program = entry().scope("patch", "table", |table| {
        table
            .set("count", "count")
            .delete_by_key("elements_to_delete", "elements", "id")
    });
    assert(
        program,
        "
        select SRC 4
          select DST 5, create
            select SRC 4
              select DST 2, create
                set
            select SRC 1*
              load SRC to r0
              select DST 1[1 == r0]
                del
        ",
    );
}

#[test]
fn scopes_nest() {
    let program = entry().scope("patch", "", |entry| {
        entry.scope("groups", "table", |table| table.set("first.value", "count"))
    });
    assert(
        program,
        "
        select SRC 4
          select SRC 5*
            select DST 5, create
              select SRC 2.2
                select DST 2, create
                  set
        ",
    );
}

#[test]
fn levels_are_those_of_the_first_instruction() {
    let set = |on_error| entry().on_error(on_error, |entry| entry.set("patch.count", "id"));
    assert(
        set(OnError::SkipCommand),
        "
        select SRC 4.4, SKIP
          select DST 3, create
            set
        ",
    );
    assert(
        set(OnError::LeaveScope),
        "
        select SRC 4.4
          select DST 3, create
            set
        ",
    );
    assert(
        set(OnError::Abort),
        "
        select SRC 4.4, ABORT
          select DST 3, create
            set
        ",
    );
}

#[test]
fn inner_level_counts_and_scopes_keep_levels_out() {
    let program = entry().on_error(OnError::Abort, |entry| {
        entry
            .set("id", "id")
            .on_error(OnError::SkipCommand, |entry| entry.set("id", "id"))
            .on_error(OnError::LeaveScope, |entry| entry.set("id", "id"))
            .scope("patch", "table", |table| table.set("count", "count"))
    });
    let set = |level: &str| format!("select SRC 3{level}\n  select DST 3, create\n    set\n");
    let scope = "select SRC 4, ABORT\n  select DST 5, create\n    select SRC 4\n      select DST 2, create\n        set";
    let sets = [", ABORT", ", SKIP", ""].map(set).concat();
    assert(program, &(sets + scope));
}

#[test]
fn empty_paths_need_no_select() {
    let skip =
        |commands: fn(VmProgram) -> VmProgram| entry().on_error(OnError::SkipCommand, commands);
    assert(
        skip(|entry| entry.merge_shallow("", "")),
        "merge del_if_src_empty, SKIP",
    );
    assert(skip(|entry| entry.set("", "")), "set, SKIP");
    assert(skip(|entry| entry.delete_if_present("", "")), "del, SKIP");
    assert(
        skip(|entry| entry.delete_if_present("patch.count", "")),
        "
        select SRC 4.4, SKIP
          del
        ",
    );
    let program = entry().scope("", "single_element", |single| {
        single.set("single_element.id", "value")
    });
    assert(
        program,
        "
        select DST 2, create
          select SRC 2.1
            select DST 2, create
              set
        ",
    );
}

#[test]
fn message_of_a_scope_can_be_an_element() {
    let program = entry().scope("patch.groups.first", "", |entry| {
        entry.on_error(OnError::SkipCommand, |entry| {
            entry.merge_shallow_by_key("", "elements", "id")
        })
    });
    assert(
        program,
        "
        select SRC 4.5*.2
          select SRC 1, ABORT
            load SRC to r0
          select DST 1[1 == r0], create, SKIP
            merge del_if_src_empty
        ",
    );
}

#[test]
fn recursive_merge_of_the_root() {
    assert(
        element().merge("", ""),
        "
        select SRC 3, SKIP
          select DST 3, create
            select SRC 2, SKIP
              select DST 2, create
                merge skip_submessages del_if_src_empty
            merge skip_submessages del_if_src_empty
        merge skip_submessages del_if_src_empty
        ",
    );
}

#[test]
fn constant_shows_its_program() {
    let program = entry().scope("patch", "table", |table| {
        table
            .on_error(OnError::SkipCommand, |table| {
                table.delete_by_key("elements_to_delete", "elements", "id")
            })
            .merge_shallow_by_key("elements_to_merge", "elements", "id")
            .set("count", "count")
    });
    let source = compile(&[("test.proto", TEST)], program).expect("the program compiles");
    let (_, constant) = source.split_once("/// A serialized").expect("its comment");
    let (constant, _) = constant.split_once("b\"").expect("its bytes");
    let expected =
        " ProtoVM program, which applies patches to a state. Both are messages `test.Entry`.
///
/// ```text
/// select source patch
///   select destination table, created if absent
///     select source elements_to_delete[each], or skip
///       load key
///       select destination elements[id == key]
///         delete
///     select source elements_to_merge[each]
///       select source id, or abort
///         load key
///       select destination elements[id == key], created if absent
///         merge
///     select source count
///       select destination count, created if absent
///         set
/// ```
#[allow(dead_code, unreachable_pub, clippy::doc_markdown)]
pub const PROGRAM: &[u8] = ";
    assert_eq!(constant, expected);
}

#[test]
fn text_names_the_fields_of_both_messages() {
    let schema = "syntax = 'proto2'; package test;
        message Packet { optional Patch patch = 1; optional State state = 2; }
        message Patch { optional Position moved_to = 1; }
        message State { optional Place place = 1; }
        message Position { optional int32 x = 1; }
        message Place { optional int32 left = 1; optional string name = 2; }";
    let program = VmProgram::new("test.Packet").merge("patch", "state");
    let source = compile(&[("test.proto", schema)], program).expect("the program compiles");
    let expected = "\
/// select source patch
///   select destination state, created if absent
///     select source moved_to, or skip
///       select destination place, created if absent
///         merge the other fields
///     merge the other fields
";
    assert!(source.contains(expected), "{source}");
}

#[test]
fn long_texts_are_cut() {
    let program = (0..51).fold(entry(), |program, _| program.set("id", ""));
    assert!(
        compile(&[("test.proto", TEST)], program).is_err(),
        "a number is no message"
    );
    let program = (0..51).fold(entry(), |program, _| program.set("id", "id"));
    let source = compile(&[("test.proto", TEST)], program).expect("the program compiles");
    assert!(source.contains("/// .. 53 more\n/// ```\n"), "{source}");
}
