//! Tests of descriptor sets as input: they give the same code as `.proto` files, and an error for
//! content that no schema compiler writes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use protobuf::Message as _;
use protobuf::descriptor::field_descriptor_proto::{Label, Type};
use protobuf::descriptor::source_code_info::Location;
use protobuf::descriptor::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, MessageOptions, OneofDescriptorProto,
};
use protozero_codegen::Config;

fn fixture(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(case)
}

/// Writes a temporary file with this name, and returns its path.
fn temporary(name: &str, content: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("descriptor_sets");
    fs::create_dir_all(&folder).expect("the folder can be written");
    let path = folder.join(name);
    fs::write(&path, content).expect("the folder can be written");
    path
}

/// Returns the descriptor set of a fixture's `input.proto`.
fn parsed(case: &str) -> FileDescriptorSet {
    let folder = fixture(case);
    let parsed = protobuf_parse::Parser::new()
        .pure()
        .include(&folder)
        .input(folder.join("input.proto"))
        .parse_and_typecheck()
        .expect("the schema compiles");
    set(parsed.file_descriptors)
}

fn set(file: Vec<FileDescriptorProto>) -> FileDescriptorSet {
    FileDescriptorSet {
        file,
        ..Default::default()
    }
}

fn write(name: &str, set: &FileDescriptorSet) -> PathBuf {
    let bytes = set.write_to_bytes().expect("nothing required is missing");
    temporary(name, &bytes)
}

/// Removes doc comments, because these sets have no comments.
fn without_comments(source: &str) -> String {
    let lines = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("///"));
    lines.collect::<Vec<&str>>().join("\n")
}

#[test]
fn set_gives_the_code_that_its_proto_files_give() {
    for case in [
        "basic",
        "names",
        "packages",
        "extensions",
        "comments",
        "conformance",
    ] {
        let path = write(&format!("{case}.binpb"), &parsed(case));
        let files = Config::new().generate_descriptor_set(&path).unwrap();
        let folder = fixture(case);
        let expected = Config::new()
            .include(&folder)
            .generate(&[folder.join("input.proto")])
            .unwrap();
        let same = files.iter().find(|file| file.name == expected[0].name);
        let same = same.expect("the package has a file");
        assert!(
            without_comments(&same.source) == without_comments(&expected[0].source),
            "{case}"
        );
    }
}

#[test]
fn source_information_gives_comments() {
    let mut file = small();
    let mut location = Location::new();
    location.path = vec![4, 0, 2, 0];
    location.set_leading_comments(" Above\n the [field].\n".to_owned());
    location.set_trailing_comments(" Behind.\n".to_owned());
    file.source_code_info.mut_or_insert_default().location = vec![location];
    let path = write("comments_of_a_set.binpb", &set(vec![file]));
    let files = Config::new().generate_descriptor_set(path).unwrap();
    let comment = "    ///\n    /// Above\n    /// the \\[field\\].\n    ///\n    /// Behind.\n";
    assert_eq!(files[0].source.matches(comment).count(), 3);
}

#[test]
fn every_package_of_a_set_gets_a_file_unless_it_is_extern() {
    let path = write("packages_all.binpb", &parsed("packages"));
    let names = |config: Config| -> Vec<String> {
        let files = config.generate_descriptor_set(&path).unwrap();
        files.into_iter().map(|file| file.name).collect()
    };
    assert_eq!(
        names(Config::new()),
        [
            "_.rs",
            "app.rs",
            "app.v1.rs",
            "google.protobuf.rs",
            "shapes.rs",
            "shapes.flat.rs"
        ]
    );
    let config = Config::new()
        .extern_path(".google.protobuf", "::wkt")
        .extern_path(".shapes", "::drawing");
    assert_eq!(names(config), ["_.rs", "app.rs", "app.v1.rs"]);
}

#[test]
fn sets_joined_end_to_end_are_one() {
    let mut bytes = parsed("packages").write_to_bytes().unwrap();
    bytes.extend(parsed("packages").write_to_bytes().unwrap());
    bytes.extend(parsed("basic").write_to_bytes().unwrap());
    let error = generate("twice_input.binpb", &bytes);
    // Both sets contain a file of that name.
    assert!(
        error.contains("input.proto: the set contains another file of this name"),
        "{error}"
    );
    let twice = parsed("packages").write_to_bytes().unwrap().repeat(2);
    let twice = temporary("twice.binpb", &twice);
    let once = write("once.binpb", &parsed("packages"));
    assert_eq!(
        Config::new().generate_descriptor_set(twice).unwrap(),
        Config::new().generate_descriptor_set(once).unwrap()
    );
}

/// Runs as a build script when `the_set_is_printed_for_cargo` starts it.
#[test]
fn build_script() {
    if let (Some(set), Some(out_dir)) = (env::var_os("SET_OF_TEST"), env::var_os("OUT_DIR_OF_TEST"))
    {
        let config = Config::new().out_dir(PathBuf::from(out_dir));
        config.compile_descriptor_set(PathBuf::from(set)).unwrap();
    }
}

#[test]
fn the_set_is_printed_for_cargo() {
    let path = write("printed.binpb", &parsed("basic"));
    let out_dir = path.with_extension("out");
    drop(fs::remove_dir_all(&out_dir));
    fs::create_dir_all(&out_dir).unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "build_script", "--nocapture"])
        .env("SET_OF_TEST", &path)
        .env("OUT_DIR_OF_TEST", &out_dir)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("cargo::rerun-if-changed="))
        .collect();
    assert_eq!(printed, [path.to_str().unwrap()]);
    assert!(out_dir.join("basic.rs").is_file());
}

/// Returns the text of the generator's error for a set.
fn generate(name: &str, bytes: &[u8]) -> String {
    let path = temporary(name, bytes);
    let error = Config::new()
        .generate_descriptor_set(&path)
        .expect_err("the set is at fault");
    let text = error.to_string();
    let rest = text.strip_prefix(&format!("{}: ", path.display()));
    rest.expect("the error starts with the set").to_owned()
}

#[test]
fn file_that_is_not_a_descriptor_set_is_refused() {
    let set = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no_such_set.binpb");
    let error = Config::new().generate_descriptor_set(set).unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
    for (name, bytes) in [
        ("empty.binpb", b"".as_slice()),
        ("text.binpb", b"syntax = \"proto3\"; message A {}"),
        (
            "cut.binpb",
            &parsed("basic").write_to_bytes().unwrap()[..100],
        ),
    ] {
        let error = generate(name, bytes);
        assert!(error.starts_with("not a descriptor set: "), "{error}");
        assert!(error.contains("buf build"), "{error}");
    }
}

#[test]
fn import_that_is_not_in_the_set_is_named() {
    let mut without = parsed("packages");
    without.file.retain(|file| file.name() != "flat.proto");
    let error = generate("without.binpb", &without.write_to_bytes().unwrap());
    assert!(
        error.starts_with("shapes.proto: imports \"flat.proto\", which is not in the set"),
        "{error}"
    );
    assert!(error.contains("--include_imports"), "{error}");

    // Files that import each other in a cycle have no order in which each comes after its imports.
    // A reversed set has the same fault.
    let mut circle = parsed("packages");
    circle.file.reverse();
    let error = generate("circle.binpb", &circle.write_to_bytes().unwrap());
    assert!(
        error.contains("which is not in the set before it"),
        "{error}"
    );
}

/// Creates a file `a.proto` of package `p`, with a message `M` that has a field `f`.
fn small() -> FileDescriptorProto {
    let mut field = FieldDescriptorProto::new();
    field.set_name("f".to_owned());
    field.set_number(1);
    field.set_label(Label::LABEL_OPTIONAL);
    field.set_type(Type::TYPE_INT32);
    let mut message = DescriptorProto::new();
    message.set_name("M".to_owned());
    message.field.push(field);
    let mut file = FileDescriptorProto::new();
    file.set_name("a.proto".to_owned());
    file.set_package("p".to_owned());
    file.set_syntax("proto3".to_owned());
    file.message_type.push(message);
    file
}

/// Changes [`small`], and expects an error that starts with `expected`.
#[track_caller]
fn assert_fault(change: impl FnOnce(&mut FileDescriptorProto), expected: &str) {
    let mut file = small();
    change(&mut file);
    let name = format!("{expected}.binpb").replace(|it: char| !it.is_alphanumeric(), "_");
    let error = generate(&name, &set(vec![file]).write_to_bytes().expect("complete"));
    assert!(error.starts_with(expected), "{error}");
}

/// Changes the field of [`small`], and expects an error that starts with `expected`.
#[track_caller]
fn assert_field_fault(change: impl FnOnce(&mut FieldDescriptorProto), expected: &str) {
    assert_fault(
        |file| change(&mut file.message_type[0].field[0]),
        &format!("a.proto: `p.M.f`: {expected}"),
    );
}

#[test]
fn small_set_is_good() {
    let path = write("small.binpb", &set(vec![small()]));
    assert_eq!(
        Config::new().generate_descriptor_set(path).unwrap().len(),
        1
    );
}

#[test]
fn groups_and_editions_are_not_supported() {
    assert_fault(
        |file| file.set_syntax("editions".to_owned()),
        "a.proto: editions are not supported",
    );
    assert_fault(
        |file| file.set_syntax("proto4".to_owned()),
        "a.proto: syntax \"proto4\" is not supported",
    );
    assert_field_fault(
        |field| field.set_type(Type::TYPE_GROUP),
        "groups are not supported",
    );
}

#[test]
fn source_information_gives_line_and_column() {
    assert_fault(
        |file| {
            file.message_type[0].field[0].set_number(0);
            let mut location = Location::new();
            location.path = vec![4, 0, 2, 0];
            location.span = vec![6, 2, 20];
            file.source_code_info.mut_or_insert_default().location = vec![location];
        },
        "a.proto:7:3: `p.M.f`: a field cannot have number 0",
    );
}

#[test]
fn field_at_fault_is_named() {
    for number in [0, -1, 19_000, 1 << 29] {
        assert_field_fault(
            |field| field.set_number(number),
            &format!("a field cannot have number {number}"),
        );
    }
    assert_field_fault(|field| field.type_ = None, "its type is missing");
    for proto_type in [Type::TYPE_MESSAGE, Type::TYPE_ENUM] {
        assert_field_fault(
            |field| field.set_type(proto_type),
            "its type `` is not in the set",
        );
    }
    assert_field_fault(
        |field| {
            field.set_type(Type::TYPE_ENUM);
            field.set_type_name(".p.M".to_owned());
        },
        "its type `.p.M` is not in the set",
    );
    assert_fault(
        |file| {
            let fields = &mut file.message_type[0].field;
            fields.push(fields[0].clone());
        },
        "a.proto: `p.M.f`: it is declared already",
    );
    assert_fault(
        |file| {
            let fields = &mut file.message_type[0].field;
            fields.push(fields[0].clone());
            fields[1].set_name("g".to_owned());
        },
        "a.proto: `p.M.g`: number 1 belongs to another field already",
    );
}

#[test]
fn name_is_declared_once_in_all_files() {
    let mut other = small();
    other.set_name("b.proto".to_owned());
    let bytes = set(vec![small(), other]).write_to_bytes().unwrap();
    let error = generate("declared_twice.binpb", &bytes);
    assert!(
        error.starts_with("b.proto: `p.M`: it is declared already"),
        "{error}"
    );
}

#[test]
fn declaration_at_fault_is_named() {
    for name in ["", "a-b", "1a", "ä", "r#a", "a b"] {
        assert_fault(
            |file| file.message_type[0].set_name(name.to_owned()),
            &match name {
                "" => "a.proto: `p.`: the name is not an identifier of".to_owned(),
                name => format!("a.proto: `p.{name}`: the name is not an identifier of"),
            },
        );
        assert_fault(
            |file| {
                let mut oneof = OneofDescriptorProto::new();
                oneof.set_name(name.to_owned());
                file.message_type[0].oneof_decl.push(oneof);
            },
            &format!("a.proto: `p.M.{name}`: the name is not an identifier of"),
        );
    }
    assert_fault(
        |file| file.set_package("p..q".to_owned()),
        "a.proto: `p..q` is not a valid package name",
    );
    assert_fault(
        |file| {
            let mut item = EnumDescriptorProto::new();
            item.set_name("E".to_owned());
            file.enum_type.push(item);
        },
        "a.proto: `p.E`: this enum has no values",
    );
    assert_fault(
        |file| {
            let mut field = file.message_type[0].field[0].clone();
            field.set_extendee(".p.N".to_owned());
            file.extension.push(field);
        },
        "a.proto: `p.f`: it extends `.p.N`, which is not a message of the set",
    );
}

/// Makes the field of [`small`] a map.
fn make_map(file: &mut FileDescriptorProto) -> &mut DescriptorProto {
    let message = &mut file.message_type[0];
    let mut entry = DescriptorProto::new();
    entry.set_name("FEntry".to_owned());
    let mut options = MessageOptions::new();
    options.set_map_entry(true);
    entry.options = Some(options).into();
    for (name, number) in [("key", 1), ("value", 2)] {
        let mut field = message.field[0].clone();
        field.set_name(name.to_owned());
        field.set_number(number);
        entry.field.push(field);
    }
    message.field[0].set_label(Label::LABEL_REPEATED);
    message.field[0].set_type(Type::TYPE_MESSAGE);
    message.field[0].set_type_name(".p.M.FEntry".to_owned());
    message.nested_type.push(entry);
    message
}

#[test]
fn map_without_its_own_entry_of_key_and_value_is_an_error() {
    let mut file = small();
    make_map(&mut file);
    let path = write("map.binpb", &set(vec![file]));
    let files = Config::new().generate_descriptor_set(path).unwrap();
    assert!(files[0].source.contains("map from int32 to int32"));

    let entry = "a.proto: `p.M.FEntry`: a map entry needs a key";
    assert_fault(
        |file| drop(make_map(file).nested_type[0].field.pop()),
        entry,
    );
    assert_fault(
        |file| make_map(file).nested_type[0].field[0].set_type(Type::TYPE_FLOAT),
        entry,
    );
    assert_fault(
        |file| make_map(file).nested_type[0].field[1].set_number(3),
        entry,
    );
    assert_fault(
        |file| make_map(file).nested_type[0].field[1].set_label(Label::LABEL_REPEATED),
        entry,
    );
    let other = "the entry type of this map belongs to another field";
    assert_fault(
        |file| make_map(file).field[0].set_label(Label::LABEL_OPTIONAL),
        &format!("a.proto: `p.M.f`: {other}"),
    );
    assert_fault(
        |file| {
            let mut field = make_map(file).field[0].clone();
            field.set_name("g".to_owned());
            let mut message = DescriptorProto::new();
            message.set_name("N".to_owned());
            message.field.push(field);
            file.message_type.push(message);
        },
        &format!("a.proto: `p.N.g`: {other}"),
    );
}

#[test]
fn damaged_sets_are_errors_or_schemas_and_never_panics() {
    let mut file = small();
    make_map(&mut file);
    let good = set(vec![file]).write_to_bytes().unwrap();
    let mut refused = 0;
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let path = temporary("damaged.binpb", &bytes);
        refused += usize::from(Config::new().generate_descriptor_set(path).is_err());
    }
    assert!(refused > 0, "some damage shows");
}
