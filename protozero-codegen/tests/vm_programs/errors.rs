//! Each error of a program, by its exact text.

use protozero_codegen::{Config, VmProgram};
use support::Folder;

use crate::decoded::compile;

const TEST: &str = r#"
syntax = "proto2";
package test;
import "flat.proto";

message Packet {
  optional Patch patch = 1;
  optional Table table = 2;
  extensions 100 to 199;
}

extend Packet { optional Patch late_patch = 100; }
extend Patch { optional uint32 note = 100; }

message Patch {
  repeated uint32 closed_ids = 1;
  repeated Row rows = 2;
  optional uint32 total = 3;
  optional string title = 4;
  optional int64 wide = 5;
  optional sint32 offset = 6;
  repeated uint32 packed_ids = 7 [packed = true];
  repeated Other others = 8;
  repeated Renumbered renumbered = 9;
  repeated Longer longer = 10;
  optional Node node = 11;
  optional Empty empty = 12;
  extensions 100 to 199;
}

message Table {
  repeated Row rows = 2;
  optional uint32 total = 3;
  optional string title = 4;
  optional Row first_row = 5;
  repeated uint32 ids = 6;
  optional Node node = 7;
  repeated Flat flat = 8;
}

message Row {
  optional uint32 id = 1;
  optional string name = 2;
  optional uint64 serial = 3;
  optional float weight = 4;
  repeated uint32 tags = 5;
  optional Patch patch = 6;
  optional uint32 second_id = 7;
}

message Other { optional string id = 1; }
message Renumbered { optional uint32 id = 7; }
message Longer { optional uint32 id = 1; optional uint32 cause = 8; }
message Node { optional Link next = 1; }
message Link { optional Node node = 1; }
message Empty {}
"#;

const FLAT: &str = "syntax = 'proto3'; message Flat { repeated uint32 ids = 1; uint32 id = 2; }";

const FILES: [(&str, &str); 2] = [("test.proto", TEST), ("flat.proto", FLAT)];

/// Compiles a program on a packet, and compares the text of the error.
#[track_caller]
fn assert(commands: impl FnOnce(VmProgram) -> VmProgram, expected: &str) {
    let program = commands(VmProgram::new("test.Packet"));
    let error = compile(&FILES, program).expect_err("a wrong program");
    let text = error.to_string();
    let prefix = "vm_program(\"test.PROGRAM\"): ";
    assert_eq!(text.strip_prefix(prefix), Some(expected), "{text}");
}

#[track_caller]
fn assert_name(name: &str, expected: &str) {
    let folder = Folder::with(&FILES);
    let error = Config::new()
        .include(&folder)
        .vm_program(name, VmProgram::new("test.Packet").set("", ""))
        .generate(&[folder.file("test.proto")])
        .expect_err("a wrong name");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn unknown_field() {
    assert(
        |packet| packet.scope("patch", "table", |table| table.set("totl", "total")),
        "set(\"totl\", \"total\"): message `test.Patch` (test.proto) has no field `totl`; \
         did you mean `total`?",
    );
    assert(
        |packet| packet.set("patch.total", "table.first_row.nme"),
        "set(\"patch.total\", \"table.first_row.nme\"): message `test.Row` (test.proto) has no field `nme`; \
         did you mean `name`?",
    );
    assert(
        |packet| packet.merge("patch.tables", "table"),
        "merge(\"patch.tables\", \"table\"): message `test.Patch` (test.proto) has no field `tables`; \
         check the spelling, and whether the file of an extension is imported",
    );
    assert(
        |packet| packet.set_by_key("patch.rows", "table.flat", "key"),
        "set_by_key(\"patch.rows\", \"table.flat\", \"key\"): message `Flat` (flat.proto) has no field `key`; \
         check the spelling, and whether the file of an extension is imported",
    );
    assert(
        |packet| packet.set("patch.empty.total", "table.total"),
        "set(\"patch.empty.total\", \"table.total\"): \
         message `test.Empty` (test.proto) has no field `total`; it has no fields at all",
    );
}

#[test]
fn similar_names() {
    let schema = "syntax = 'proto3'; package test;
        message M { int32 row4 = 1; int32 row3 = 2; int32 row2 = 3; int32 ROW = 4; int32 id = 5; }";
    let problem = |name: &str| {
        let program = VmProgram::new("test.M").set(name, "id");
        problem(&[("test.proto", schema)], program).unwrap_err()
    };
    assert_eq!(
        problem("row1"),
        "message `test.M` (test.proto) has no field `row1`; did you mean `ROW` or `row2` or `row3`?",
        "at most three"
    );
    assert_eq!(
        problem("row"),
        "message `test.M` (test.proto) has no field `row`; did you mean `ROW` or `row2` or `row3`?",
        "the most similar one first"
    );
}

#[test]
fn unknown_extension() {
    assert(
        |packet| packet.merge("late_patch", "table"),
        "merge(\"late_patch\", \"table\"): message `test.Packet` (test.proto) has no field `late_patch`; \
         did you mean `[test.late_patch]`?",
    );
    assert(
        |packet| packet.merge("[late_patch]", "table"),
        "merge(\"[late_patch]\", \"table\"): message `test.Packet` (test.proto) has no field `[late_patch]`; \
         did you mean `[test.late_patch]`?",
    );
    assert(
        |packet| packet.set("patch.total", "[test.note]"),
        "set(\"patch.total\", \"[test.note]\"): `[test.note]` extends `test.Patch`, \
         but the path is at `test.Packet`; check where the path starts",
    );
}

#[test]
fn malformed_path() {
    for path in [
        "patch.",
        ".patch",
        "patch..total",
        "[test.late_patch",
        "[test.late_patch]x",
        ".",
    ] {
        let expected = format!(
            "set(\"{path}\", \"\"): the path \"{path}\" is malformed; write names of fields with dots \
             between them, and extensions as `[package.name]`"
        );
        assert(|packet| packet.set(path, ""), &expected);
    }
}

#[test]
fn path_behind_a_scalar() {
    assert(
        |packet| packet.set("patch.total.low", "table.total"),
        "set(\"patch.total.low\", \"table.total\"): `total` (uint32) has no fields; end the path there",
    );
}

#[test]
fn unknown_root() {
    let root = |name: &str| {
        let error = compile(&FILES, VmProgram::new(name).set("", "")).expect_err("no message");
        error.to_string()
    };
    assert_eq!(
        root("Packet"),
        "vm_program(\"test.PROGRAM\"): the root message `Packet` is not in the schema; \
         did you mean `test.Packet`?"
    );
    assert_eq!(
        root("app.Settings"),
        "vm_program(\"test.PROGRAM\"): the root message `app.Settings` is not in the schema; \
         write its full name, and import its file"
    );
}

#[test]
fn no_commands() {
    assert(
        |packet| packet,
        "it has no commands; add one, such as `merge`",
    );
    assert(
        |packet| packet.scope("patch", "table", |table| table),
        "scope(\"patch\", \"table\"): it has no commands; add one, or leave out the scope",
    );
}

#[test]
fn set_of_another_type() {
    assert(
        |packet| packet.set("patch", "table.total"),
        "set(\"patch\", \"table.total\"): `patch` (test.Patch) cannot become `total` (uint32); \
         give both fields the same type",
    );
    assert(
        |packet| packet.set("patch.total", "table"),
        "set(\"patch.total\", \"table\"): `total` (uint32) cannot become `table` (test.Table); \
         give both fields the same type",
    );
    assert(
        |packet| packet.set("patch.title", "table.total"),
        "set(\"patch.title\", \"table.total\"): `title` (string) cannot become `total` (uint32); \
         give both fields the same type",
    );
    assert(
        |packet| packet.set("patch.offset", "table.total"),
        "set(\"patch.offset\", \"table.total\"): `offset` (sint32) cannot become `total` (uint32); \
         give both fields the same type",
    );
    assert(
        |packet| packet.set("", "table.total"),
        "set(\"\", \"table.total\"): the message of the scope cannot become `total` (uint32); \
         give both fields the same type",
    );
}

#[test]
fn merge_of_scalars() {
    assert(
        |packet| packet.merge("patch.total", "table.total"),
        "merge(\"patch.total\", \"table.total\"): `total` (uint32) is not a message; use `set` for scalars",
    );
    assert(
        |packet| packet.merge_shallow("patch", "table.total"),
        "merge_shallow(\"patch\", \"table.total\"): `total` (uint32) is not a message; \
         use `set` for scalars",
    );
    assert(
        |packet| packet.merge_by_key("patch.closed_ids", "table.rows", "id"),
        "merge_by_key(\"patch.closed_ids\", \"table.rows\", \"id\"): `closed_ids` (repeated uint32) \
         is not a message; use `set` for scalars",
    );
}

#[test]
fn messages_with_other_fields() {
    assert(
        |packet| packet.merge_by_key("patch.longer", "table.rows", "id"),
        "merge_by_key(\"patch.longer\", \"table.rows\", \"id\"): `test.Longer` has a field `cause` \
         with number 8, which `test.Row` lacks; declare it there, or use one message for both",
    );
    assert(
        |packet| packet.merge("patch.others", "table.first_row"),
        "merge(\"patch.others\", \"table.first_row\"): field 1 is `id` (string) in `test.Other`, \
         but `id` (uint32) in `test.Row`; give both the same type, or use one message for both",
    );
    assert(
        |packet| packet.set("patch.node", "table.first_row"),
        "set(\"patch.node\", \"table.first_row\"): field 1 is `next` (test.Link) in `test.Node`, \
         but `id` (uint32) in `test.Row`; give both the same type, or use one message for both",
    );
}

#[test]
fn repeated_field_in_a_destination() {
    assert(
        |packet| packet.set("patch.total", "table.rows.id"),
        "set(\"patch.total\", \"table.rows.id\"): the destination enters `rows` (repeated test.Row) \
         without a key; only the last field of a destination can be repeated, \
         with `set_by_key`, `merge_by_key` or `delete_by_key`",
    );
    assert(
        |packet| packet.delete_if_present("patch.total", "table.ids"),
        "delete_if_present(\"patch.total\", \"table.ids\"): the destination enters `ids` (repeated uint32) \
         without a key; only the last field of a destination can be repeated, \
         with `set_by_key`, `merge_by_key` or `delete_by_key`",
    );
    assert(
        |packet| packet.scope("patch.rows", "table.rows", |row| row.set("id", "id")),
        "scope(\"patch.rows\", \"table.rows\"): the destination enters `rows` (repeated test.Row) \
         without a key; only the last field of a destination can be repeated, \
         with `set_by_key`, `merge_by_key` or `delete_by_key`",
    );
}

#[test]
fn key_without_repeated_messages() {
    for (destination, end) in [
        ("table.ids", "`ids` (repeated uint32)"),
        ("table.first_row", "`first_row` (test.Row)"),
        ("", "the message of the scope"),
    ] {
        let expected = format!(
            "merge_by_key(\"patch.rows\", \"{destination}\", \"id\"): {end} has no elements to find by key; \
             end the destination at a repeated field of messages, or use a command without key"
        );
        assert(
            |packet| packet.merge_by_key("patch.rows", destination, "id"),
            &expected,
        );
    }
}

#[test]
fn wrong_key() {
    for (key, problem) in [
        (
            "name",
            "is string; keys are integers of 32 bits, `bool` or enums",
        ),
        (
            "weight",
            "is float; keys are integers of 32 bits, `bool` or enums",
        ),
        (
            "patch",
            "is test.Patch; keys are integers of 32 bits, `bool` or enums",
        ),
        (
            "serial",
            "is uint64, but the machine cuts keys to 32 bits, so that it would mix up elements; \
             use an integer of 32 bits",
        ),
        ("tags", "is repeated; use a singular field"),
    ] {
        let expected = format!(
            "set_by_key(\"patch.rows\", \"table.rows\", \"{key}\"): the key `{key}` of `test.Row` {problem}"
        );
        assert(
            |packet| packet.set_by_key("patch.rows", "table.rows", key),
            &expected,
        );
    }
    assert(
        |packet| packet.merge_by_key("patch.renumbered", "table.rows", "id"),
        "merge_by_key(\"patch.renumbered\", \"table.rows\", \"id\"): the key `id` has number 7 \
         in `test.Renumbered`, but 1 in `test.Row`; give both the same number",
    );
    assert(
        |packet| packet.merge_by_key("patch.others", "table.rows", "id"),
        "merge_by_key(\"patch.others\", \"table.rows\", \"id\"): the key `id` of `test.Other` is string; \
         keys are integers of 32 bits, `bool` or enums",
    );
}

#[test]
fn wrong_source_of_keys() {
    for (source, problem) in [
        (
            "patch.title",
            "the source `title` is string; keys are integers of 32 bits, `bool` or enums",
        ),
        (
            "patch.wide",
            "the source `wide` is int64, but the machine cuts keys to 32 bits, so that it would mix up elements; \
             use an integer of 32 bits",
        ),
        (
            "patch.packed_ids",
            "`packed_ids` (repeated uint32) is packed, and the machine cannot take packed fields apart; \
             declare it with `[packed = false]`",
        ),
        (
            "table.flat.ids",
            "`ids` (repeated uint32) is packed, and the machine cannot take packed fields apart; \
             declare it with `[packed = false]`",
        ),
        (
            "patch.offset",
            "the source `offset` is sint32, but the key `id` of `test.Row` is uint32, \
             which encodes numbers differently; use one type for both",
        ),
        (
            "",
            "the message of the scope is a message; the source of `delete_by_key` is a field with keys",
        ),
        (
            "patch.rows",
            "the source `rows` is test.Row; keys are integers of 32 bits, `bool` or enums",
        ),
    ] {
        let expected = format!("delete_by_key(\"{source}\", \"table.rows\", \"id\"): {problem}");
        assert(
            |packet| packet.delete_by_key(source, "table.rows", "id"),
            &expected,
        );
    }
    assert(
        |packet| packet.set("patch.packed_ids", "table.total"),
        "set(\"patch.packed_ids\", \"table.total\"): `packed_ids` (repeated uint32) is packed, \
         and the machine cannot take packed fields apart; declare it with `[packed = false]`",
    );
}

#[test]
fn two_keys_for_one_field() {
    assert(
        |packet| {
            packet
                .delete_by_key("patch.closed_ids", "table.rows", "id")
                .scope("patch", "table", |table| {
                    table.merge_shallow_by_key("rows", "rows", "second_id")
                })
        },
        "merge_shallow_by_key(\"rows\", \"rows\", \"second_id\"): another command finds elements of \
         `rows` (repeated test.Row) by `id`; use one key for each field",
    );
}

#[test]
fn scope_of_scalars() {
    assert(
        |packet| packet.scope("patch.total", "table", |table| table.set("", "total")),
        "scope(\"patch.total\", \"table\"): `total` (uint32) is not a message; a scope needs two messages",
    );
    assert(
        |packet| packet.scope("patch", "table.total", |total| total.set("total", "")),
        "scope(\"patch\", \"table.total\"): `total` (uint32) is not a message; a scope needs two messages",
    );
    assert(
        |packet| packet.scope("", "", |packet| packet.merge("patch", "patch")),
        "scope(\"\", \"\"): both paths are empty, so the scope changes nothing; leave it out",
    );
}

#[test]
fn scope_that_deletes_itself() {
    assert(
        |packet| {
            packet.scope("patch", "table", |table| {
                table.delete_if_present("total", "")
            })
        },
        "delete_if_present(\"total\", \"\"): a scope cannot delete its own message, \
         which the machine still needs; call this outside of the scope",
    );
}

#[test]
fn merge_of_a_message_that_contains_itself() {
    assert(
        |packet| packet.merge("patch.node", "table.node"),
        "merge(\"patch.node\", \"table.node\"): the message contains itself \
         (test.Node -> test.Link -> test.Node), so the merge would never end; \
         use `merge_shallow` or `merge_shallow_by_key`",
    );
    let program = VmProgram::new("test.Packet").merge_shallow("patch.node", "table.node");
    assert!(compile(&FILES, program).is_ok());
}

const TOO_DEEP: &str = "its instructions nest deeper than 32 levels, and the machine runs no more; \
     use fewer scopes, or `merge_shallow` instead of `merge`";

/// Returns an error's text without the program and the command.
fn problem(files: &[(&str, &str)], program: VmProgram) -> Result<(), String> {
    match compile(files, program) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = error.to_string();
            let (_, problem) = text.split_once("\"): ").expect("the program's name");
            let problem = problem.split_once("\"): ").map_or(problem, |(_, it)| it);
            Err(problem.to_owned())
        }
    }
}

#[test]
fn deepest_scopes() {
    fn scopes(program: VmProgram, count: usize) -> VmProgram {
        if count == 0 {
            return program.set("", "");
        }
        program.scope("next.node", "next.node", |inner| scopes(inner, count - 1))
    }
    let problem = |count| {
        let program =
            VmProgram::new("test.Node").scope("next.node", "", |node| scopes(node, count));
        problem(&FILES, program)
    };
    assert_eq!(problem(15), Ok(()), "2 for each, and 2 around and inside");
    assert_eq!(problem(16), Err(TOO_DEEP.to_owned()));
    assert_eq!(problem(1000), Err(TOO_DEEP.to_owned()));
}

/// Returns a schema of messages, each with `fields` fields of the next.
fn chain(messages: usize, fields: usize) -> String {
    let mut text = "syntax = \"proto2\"; package test;".to_owned();
    for message in 1..messages {
        text += &format!("message M{message} {{");
        for field in 1..=fields {
            text += &format!("optional M{} f{field} = {field};", message + 1);
        }
        text += "}";
    }
    text + &format!("message M{messages} {{ optional bool last = 1; }}")
}

fn merge_of_chain(messages: usize, fields: usize) -> Result<(), String> {
    let schema = chain(messages, fields);
    problem(
        &[("test.proto", &schema)],
        VmProgram::new("test.M1").merge("", ""),
    )
}

#[test]
fn deepest_merge() {
    assert_eq!(merge_of_chain(16, 1), Ok(()), "30 selects and a merge");
    assert_eq!(merge_of_chain(17, 1), Err(TOO_DEEP.to_owned()));
    assert_eq!(merge_of_chain(200, 1), Err(TOO_DEEP.to_owned()));
}

#[test]
fn largest_program() {
    let set = |count: usize| {
        let program = VmProgram::new("test.M1");
        let program = (0..count).fold(program, |program, _| program.set("", ""));
        problem(&[("test.proto", &chain(1, 1))], program)
    };
    let too_large = |bytes: &str| {
        Err(format!(
            "the program takes {bytes} bytes, and the machine loads at most 65536; \
             use `merge_shallow` instead of `merge` for large messages"
        ))
    };
    assert_eq!(set(16_384), Ok(()));
    assert_eq!(set(16_385), too_large("65540"));
    // Messages that contain each other in many ways: the work stays bounded.
    assert_eq!(merge_of_chain(16, 9), too_large("more"));
}

#[test]
fn wrong_name() {
    assert_name(
        "test.program",
        "vm_program(\"test.program\"): `program` is not the name of a constant; \
         use capitals, digits and underscores, such as `app.TABLE`",
    );
    assert_name(
        "",
        "vm_program(\"\"): `` is not the name of a constant; \
         use capitals, digits and underscores, such as `app.TABLE`",
    );
    assert_name(
        "tset.PROGRAM",
        "vm_program(\"tset.PROGRAM\"): no file of package `tset` is compiled; \
         use the package of a compiled file",
    );
    assert_name(
        "PROGRAM",
        "vm_program(\"PROGRAM\"): no file without a package is compiled; write the name as `package.NAME`",
    );
}

#[test]
fn name_that_is_taken() {
    let schema = "syntax = 'proto3'; package test; message M {} enum TABLE { ZERO = 0; }";
    let folder = Folder::with(&[("test.proto", schema)]);
    let program = || VmProgram::new("test.M").merge("", "");
    let problem = |names: &[&str]| {
        let config = Config::new().include(&folder);
        let config = names
            .iter()
            .fold(config, |config, &name| config.vm_program(name, program()));
        let result = config.generate(&[folder.file("test.proto")]);
        result.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(problem(&["test.A", "test.B"]), Ok(()));
    assert_eq!(
        problem(&["test.A", "test.B", "test.A"]).unwrap_err(),
        "vm_program(\"test.A\"): the name `A` is taken already; choose another"
    );
    assert_eq!(
        problem(&["test.M"]).unwrap_err(),
        "vm_program(\"test.M\"): the name `M` is taken already; choose another"
    );
}
