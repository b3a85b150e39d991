//! Tests of all errors in schemas and build scripts: the exact text, with its place.

use std::fs;

use protozero_codegen::{Config, Error};
use support::Folder;

/// Compiles `a.proto` among the given files, and compares the text of the error without the folder.
#[track_caller]
fn assert_error(files: &[(&str, &str)], expected: &str) {
    let folder = Folder::with(files);
    let error = Config::new()
        .include(&folder)
        .generate(&[folder.file("a.proto")])
        .expect_err("a wrong schema");
    let text = error
        .to_string()
        .replace(&format!("{}/", folder.path().display()), "");
    let text = text.replace(&folder.path().display().to_string(), "FOLDER");
    assert_eq!(text, expected);
    assert_eq!(
        format!("{error:?}"),
        error.to_string(),
        "what Cargo shows is the same"
    );
}

#[test]
fn syntax_error() {
    assert_error(
        &[(
            "a.proto",
            "syntax = \"proto3\";\nmessage A {\n  int32 = 1;\n}\n",
        )],
        "a.proto:3:9: syntax error: expecting identifier\n  int32 = 1;\n        ^",
    );
}

#[test]
fn missing_brace() {
    assert_error(
        &[(
            "a.proto",
            "syntax = \"proto3\";\nmessage A {\n  int32 a = 1;\n",
        )],
        "a.proto:4:1: syntax error: unexpected end of input",
    );
}

#[test]
fn missing_label_in_proto2() {
    assert_error(
        &[("a.proto", "message A {\n  int32 a = 1;\n}\n")],
        "a.proto:2:3: syntax error: a field of proto2 starts with `optional`, `required` or `repeated`\n  int32 a = 1;\n  ^",
    );
}

#[test]
fn unclosed_string() {
    assert_error(
        &[("a.proto", "syntax = \"proto3;\nmessage A {}\n")],
        "a.proto:1:8: syntax error: this is not expected here\nsyntax = \"proto3;\n       ^",
    );
}

#[test]
fn missing_file() {
    assert_error(
        &[],
        "a.proto: cannot be read: No such file or directory (os error 2); check the path, which is relative to the package's folder",
    );
}

#[test]
fn missing_import() {
    assert_error(
        &[(
            "a.proto",
            "// import \"no.proto\";\nsyntax = \"proto3\";\n/* import \"no.proto\"; */\noption java_package = \"import \\\"no.proto\\\";\";\nimport \"lost/b.proto\";\n",
        )],
        "a.proto:5:8: cannot find the import \"lost/b.proto\" in the include folders (FOLDER); add the folder that it is relative to with `include`",
    );
}

#[test]
fn import_cycle() {
    assert_error(
        &[
            ("a.proto", "import \"b.proto\";"),
            ("b.proto", "import \"c.proto\";"),
            (
                "c.proto",
                "syntax = \"proto2\";\n  import public \"b.proto\";",
            ),
        ],
        "c.proto:2:17: import cycle: b.proto -> c.proto -> b.proto; move the shared declarations into a file of their own",
    );
}

#[test]
fn a_file_that_imports_itself() {
    assert_error(
        &[("a.proto", "import \"a.proto\";")],
        "a.proto:1:8: import cycle: a.proto -> a.proto; move the shared declarations into a file of their own",
    );
}

#[test]
fn longest_chain_of_imports() {
    let chain = |len: usize| -> Vec<(String, String)> {
        let name = |index: usize| {
            if index == 0 {
                "a.proto".to_owned()
            } else {
                format!("{index}.proto")
            }
        };
        let text = |index: usize| match index + 1 == len {
            true => "message End {}".to_owned(),
            false => format!("import \"{}\";", name(index + 1)),
        };
        (0..len).map(|index| (name(index), text(index))).collect()
    };
    let generate = |files: &[(String, String)]| {
        let folder = Folder::with(files);
        let result = Config::new()
            .include(&folder)
            .generate(&[folder.file("a.proto")]);
        result.map_err(|error| {
            error
                .to_string()
                .replace(&format!("{}/", folder.path().display()), "")
        })
    };
    assert!(generate(&chain(100)).is_ok());
    assert_eq!(
        generate(&chain(101)).unwrap_err(),
        "99.proto:1:8: a chain of imports is longer than 100 files; import the needed files directly"
    );
}

#[test]
fn edition() {
    assert_error(
        &[("a.proto", "edition = \"2023\";\nmessage A {}\n")],
        "a.proto:1:1: edition \"2023\" is not supported; use `syntax = \"proto3\";` or \"proto2\"",
    );
}

#[test]
fn group() {
    assert_error(
        &[(
            "a.proto",
            "message A {\n  optional group Inner = 1 {\n    optional int32 x = 1;\n  }\n}\n",
        )],
        "a.proto:2:18: groups are not supported; make `Inner` a nested message with a field of its type",
    );
}

#[test]
fn group_in_oneof() {
    assert_error(
        &[(
            "a.proto",
            "message A {\n  oneof x { group Inner = 1 {\n    optional int32 x = 1;\n  } }\n}\n",
        )],
        "a.proto:2:19: groups are not supported; make `Inner` a nested message with a field of its type",
    );
}

#[test]
fn field_number_zero() {
    assert_error(
        &[("a.proto", "message A {\n  optional int32 a = 0;\n}\n")],
        "a.proto:2:22: the number 0 of field `a` is less than 1; choose another",
    );
}

#[test]
fn field_number_reserved_for_protobuf() {
    assert_error(
        &[("a.proto", "message A {\n  optional int32 a = 19500;\n}\n")],
        "a.proto:2:22: the number 19500 of field `a` is in 19000 to 19999, which protobuf reserves; choose another",
    );
}

#[test]
fn field_number_too_large() {
    assert_error(
        &[(
            "a.proto",
            "message A {\n  optional int32 a = 0x20000000;\n}\n",
        )],
        "a.proto:2:22: the number 536870912 of field `a` is greater than 536870911; choose another",
    );
}

#[test]
fn field_number_negative() {
    assert_error(
        &[("a.proto", "message A {\n  optional int32 a = -1;\n}\n")],
        "a.proto:2:22: syntax error: this is not expected here\n  optional int32 a = -1;\n                     ^",
    );
}

#[test]
fn field_number_that_overflows() {
    assert_error(
        &[(
            "a.proto",
            "message A {\n  optional int32 a = 99999999999;\n}\n",
        )],
        "a.proto:2:22: syntax error: the number is too large\n  optional int32 a = 99999999999;\n                     ^",
    );
}

#[test]
fn duplicate_field_number() {
    assert_error(
        &[(
            "a.proto",
            "package p;\nmessage A {\n  optional int32 a = 1;\n  oneof o {\n    int32 b = 1;\n  }\n}\n",
        )],
        "a.proto:5:15: field `b` has number 1, which belongs to `a` (line 3); choose another",
    );
}

#[test]
fn duplicate_extension_number() {
    assert_error(
        &[(
            "a.proto",
            "message A { extensions 5; }\nextend A { optional int32 a = 5; }\nextend A { optional int32 b = 5; }",
        )],
        "a.proto:3:31: field `b` has number 5, which belongs to `a` (line 2); choose another",
    );
}

const BASE: (&str, &str) = (
    "base.proto",
    "package base;\nmessage Event {\n  optional int32 id = 1;\n  optional int32 late = 1500;\n  extensions 1000 to 1499, 1501 to 9999, 20000;\n  message Inner { optional int32 x = 3; }\n}\n",
);

#[test]
fn extension_number_of_a_field() {
    assert_error(
        &[
            BASE,
            (
                "a.proto",
                "import \"base.proto\";\npackage a;\nmessage Own {\n  extend base.Event {\n    optional int32 mine = 1;\n  }\n}\n",
            ),
        ],
        "a.proto:5:27: field `mine` extends `base.Event` with number 1, which belongs to `id` (base.proto:3:23); choose another",
    );
}

#[test]
fn extension_number_of_a_field_among_the_extensions() {
    assert_error(
        &[
            BASE,
            (
                "a.proto",
                "import \"base.proto\";\nextend base.Event { optional int32 mine = 1500; }\n",
            ),
        ],
        "a.proto:2:43: field `mine` extends `base.Event` with number 1500, which belongs to `late` (base.proto:4:25); choose another",
    );
}

#[test]
fn extension_number_of_another_file() {
    assert_error(
        &[
            BASE,
            (
                "b.proto",
                "import \"base.proto\";\npackage b;\nmessage B { extend base.Event { optional int32 first = 1000; } }\n",
            ),
            (
                "a.proto",
                "import \"b.proto\";\nimport \"base.proto\";\npackage a;\nextend base.Event { optional int32 second = 1000; }\n",
            ),
        ],
        "a.proto:4:45: field `second` extends `base.Event` with number 1000, which belongs to `first` (b.proto:3:56); choose another",
    );
}

#[test]
fn extension_number_outside_of_the_ranges() {
    for number in [2, 999, 10_000, 19_999 + 2] {
        let text = format!(
            "import \"base.proto\";\nextend .base.Event {{ optional int32 mine = {number}; }}\n"
        );
        let expected = format!(
            "a.proto:2:44: field `mine` extends `base.Event` with number {number}, which is not one of its extension numbers; choose one of 1000 to 1499, 1501 to 9999, 20000 to 20000"
        );
        assert_error(&[BASE, ("a.proto", &text)], &expected);
    }
}

#[test]
fn extension_of_a_message_that_takes_none() {
    assert_error(
        &[
            BASE,
            (
                "a.proto",
                "import \"base.proto\";\nextend base.Event.Inner { optional int32 mine = 1000; }\n",
            ),
        ],
        "a.proto:2:49: field `mine` extends `base.Event.Inner` with number 1000, but the message declares no extension numbers; add `extensions 1000 to max;` to it, or extend another message",
    );
}

#[test]
fn duplicate_field_name() {
    assert_error(
        &[(
            "a.proto",
            "message A {\n  optional int32 a = 1;\n  optional int32 a = 2;\n}\n",
        )],
        "a.proto:3:18: `A.a` is declared already (line 2); rename one of them",
    );
}

#[test]
fn duplicate_message() {
    assert_error(
        &[("a.proto", "package p;\nmessage A {}\nmessage A {}\n")],
        "a.proto:3:9: `p.A` is declared already (line 2); rename one of them",
    );
}

#[test]
fn message_of_two_files() {
    assert_error(
        &[
            (
                "a.proto",
                "package p;\nimport \"b.proto\";\nimport \"c.proto\";\n",
            ),
            ("b.proto", "package p;\nmessage A {}\n"),
            ("c.proto", "package p;\n\nmessage A {}\n"),
        ],
        "c.proto:3:9: `p.A` is declared already (b.proto:2:9); rename one of them, or leave out one file",
    );
}

#[test]
fn json_name_clash() {
    assert_error(
        &[(
            "a.proto",
            "message A {\n  optional int32 foo_bar = 1;\n  optional int32 fooBar = 2;\n}\n",
        )],
        "a.proto:3:18: fields `foo_bar` (line 2) and `fooBar` have the same JSON name, \"fooBar\"; rename one of them",
    );
}

#[test]
fn unknown_type() {
    assert_error(
        &[(
            "a.proto",
            "package p.q;\nmessage A {\n  message B {\n    repeated Lost b = 1;\n  }\n}\n",
        )],
        "a.proto:4:14: type `Lost` is not known in p.q.A.B; check its spelling, or import the file that declares it",
    );
}

#[test]
fn unknown_absolute_type() {
    assert_error(
        &[("a.proto", "message A {\n  optional .p.Lost b = 1;\n}\n")],
        "a.proto:2:12: type `.p.Lost` is not known in A; check its spelling, or import the file that declares it",
    );
}

#[test]
fn unknown_type_of_a_map() {
    assert_error(
        &[(
            "a.proto",
            "syntax = \"proto3\";\nmessage A {\n  map<string, q.Lost> b = 1;\n}\n",
        )],
        "a.proto:3:15: type `q.Lost` is not known in A; check its spelling, or import the file that declares it",
    );
}

#[test]
fn unknown_extendee() {
    assert_error(
        &[("a.proto", "extend Lost { optional int32 a = 1; }\n")],
        "a.proto:1:8: type `Lost` is not known in the empty package; check its spelling, or import the file that declares it",
    );
}

#[test]
fn type_of_a_file_that_is_not_imported() {
    assert_error(
        &[
            (
                "a.proto",
                "import \"b.proto\";\nmessage A {\n  optional C c = 1;\n}\n",
            ),
            ("b.proto", "import \"c.proto\";"),
            ("c.proto", "message C {}"),
        ],
        "a.proto:3:12: type `C` is not known in A; check its spelling, or import the file that declares it",
    );
}

#[test]
fn enum_extended_like_a_message() {
    assert_error(
        &[(
            "a.proto",
            "enum E { A = 0; }\nextend E { optional int32 x = 1; }",
        )],
        "a.proto: Message `.E` not found in files: a.proto",
    );
}

#[test]
fn letters_outside_of_ascii() {
    assert_error(
        &[("a.proto", "message Größe {}\n")],
        "a.proto:1:11: syntax error: while parsing message body, expecting char `{`\nmessage Größe {}\n          ^",
    );
}

#[test]
fn brackets_too_deep() {
    let text = "message A {".repeat(100) + &"}".repeat(100);
    assert_error(
        &[("a.proto", &text)],
        "a.proto:1:715: brackets nest deeper than 64 levels; flatten the schema",
    );
}

#[test]
fn map_with_a_message_key() {
    assert_error(
        &[("a.proto", "message B {}\nmessage A { map<B, B> m = 1; }")],
        "a.proto:2:17: `B` cannot be the key of a map; use bool, string or an integer type",
    );
}
#[test]
fn map_with_a_float_key() {
    assert_error(
        &[(
            "a.proto",
            "message B {}\nmessage A { map<float, B> m = 1; }",
        )],
        "a.proto:2:17: `float` cannot be the key of a map; use bool, string or an integer type",
    );
}
#[test]
fn map_with_a_label() {
    assert_error(
        &[(
            "a.proto",
            "syntax = \"proto3\";\nmessage A {\n  optional map<int32, int32> m = 1;\n}\n",
        )],
        "a.proto:3:3: a map cannot be `optional`; remove that word, since a map holds any number of entries",
    );
}

#[test]
fn map_as_an_extension() {
    assert_error(
        &[(
            "a.proto",
            "message A { extensions 5; }\nextend A { map<int32, int32> m = 5; }\n",
        )],
        "a.proto:2:30: extension `m` cannot be a map; make it a repeated message with a key and a value",
    );
}

#[test]
fn empty_enum() {
    assert_error(
        &[("a.proto", "enum E {}\nmessage A { optional E e = 1; }")],
        "a.proto:1:6: enum `E` has no values; declare one with number 0",
    );
}
#[test]
fn unknown_type_inside_an_extension() {
    assert_error(
        &[(
            "a.proto",
            "message A { extensions 5; }\nmessage W {\n  extend A { optional Lost a = 5; }\n}\n",
        )],
        "a.proto:3:23: type `Lost` is not known in W; check its spelling, or import the file that declares it",
    );
}

#[test]
fn name_that_starts_with_a_letter_outside_of_ascii() {
    assert_error(
        &[("a.proto", "message é {}\n")],
        "a.proto:1:9: the name `é` has letters other than a-z, A-Z, 0-9 and _; rename it",
    );
}

#[test]
fn unknown_option() {
    assert_error(
        &[(
            "a.proto",
            "message A { optional int32 e = 1 [(lost) = 1]; }",
        )],
        "a.proto: extension not found: lost",
    );
}

#[test]
fn text_that_is_not_utf8() {
    let folder = Folder::empty();
    let file = folder.write("a.proto", b"// caf\xc3\xa9\n// caf\xe9");
    let error = Config::new()
        .include(&folder)
        .generate(&[&file])
        .unwrap_err();
    let expected = format!(
        "{}:2:7: not UTF-8; save the file in that encoding",
        file.display()
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn file_outside_of_the_include_folders() {
    let error = Config::new()
        .include("./protos/")
        .generate(&["other/a.proto"])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "other/a.proto: not in any include folder (protos); add its root with `include`"
    );
}

#[test]
fn no_include_folder() {
    let error = Config::new().generate(&["protos/a.proto"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "protos/a.proto: not in any include folder (none); add its root with `include`"
    );
}

#[test]
fn malformed_extern_path() {
    for (proto, rust) in [("p", "::p"), (".", "::p"), (".p", "p"), (".p", "::p q")] {
        let error = Config::new()
            .extern_path(proto, rust)
            .generate(&["a.proto"])
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "extern_path(\"{proto}\", \"{rust}\"): expected a protobuf name that starts with a \
                 dot and an absolute Rust path, such as (\".perfetto.protos\", \
                 \"::tracezero::protos\")"
            )
        );
    }
}

#[test]
fn error_writes_nothing() {
    let folder = Folder::with(&[
        ("a.proto", "package a; message A {}"),
        ("b.proto", "package b; message B {"),
    ]);
    let out_dir = folder.file("out");
    fs::create_dir(&out_dir).unwrap();
    let files = [folder.file("a.proto"), folder.file("b.proto")];
    let error = Config::new()
        .include(&folder)
        .out_dir(&out_dir)
        .compile(&files)
        .unwrap_err();
    assert!(matches!(error, Error::Syntax { .. }), "{error}");
    assert_eq!(fs::read_dir(&out_dir).unwrap().count(), 0);
}

#[test]
fn errors_can_be_boxed_and_sent_to_other_threads() {
    fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
    is_error::<Error>();
}

#[test]
fn out_dir_that_does_not_exist() {
    let folder = Folder::with(&[("a.proto", "package a; message A {}")]);
    let out_dir = folder.file("lost");
    let file = folder.file("a.proto");
    let error = Config::new()
        .include(&folder)
        .out_dir(&out_dir)
        .compile(&[file])
        .unwrap_err();
    let expected = format!(
        "{}: cannot be written: No such file or directory (os error 2)",
        out_dir.join("a.rs").display()
    );
    assert_eq!(error.to_string(), expected);
}
