//! Tests of `Config::owned`: accepted names, modules of structs, and errors.

use protobuf::Message as _;
use protobuf::descriptor::field_descriptor_proto::{Label, Type};
use protobuf::descriptor::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
};
use protozero_codegen::{Config, Error};
use support::Folder;

const SCHEMA: &str = r#"syntax = "proto2";
package app;
import "geo.proto";
message Settings {
  optional Window window = 1;
  repeated geo.Point points = 2;
  message Window { optional Theme theme = 1; message Unused {} }
}
message Theme {}
message Other {}
"#;

const GEO: &str = "syntax = \"proto2\"; package geo;
message Point { optional Point.Unit unit = 1; message Unit {} }";

fn generate_files(files: &[(&str, &str)], config: Config) -> Result<String, Error> {
    let folder = Folder::with(files);
    let generated = config
        .include(&folder)
        .generate(&[folder.file("a.proto")])?;
    Ok(generated.into_iter().map(|file| file.source).collect())
}

fn generate(config: Config) -> Result<String, Error> {
    generate_files(&[("a.proto", SCHEMA), ("geo.proto", GEO)], config)
}

/// Returns the names of the messages that have structs.
fn structs(source: &str) -> Vec<&str> {
    let title = |line: &str| line.contains("` as a plain Rust value.") && line.contains("/// `");
    let titles = source.lines().filter(|line| title(line));
    titles.filter_map(|line| line.split('`').nth(1)).collect()
}

#[test]
fn nothing_is_owned_unless_asked_for() {
    let source = generate(Config::new()).unwrap();
    assert!(!source.contains("owned"), "{source}");
}

#[test]
fn owned_message_includes_inner_and_reached_messages() {
    let source = generate(Config::new().owned(".app.Settings")).unwrap();
    let mut found = structs(&source);
    found.sort_unstable();
    let expected = [
        "app.Settings",
        "app.Settings.Window",
        "app.Settings.Window.Unused",
        "app.Theme",
        "geo.Point",
        "geo.Point.Unit",
    ];
    assert_eq!(found, expected);
    assert_eq!(
        source.matches("pub mod owned {").count(),
        2,
        "one for each package"
    );
}

#[test]
fn a_message_inside_another_can_be_asked_for_alone() {
    let source = generate(Config::new().owned(".geo.Point.Unit")).unwrap();
    assert_eq!(structs(&source), ["geo.Point.Unit"]);
}

#[test]
fn owned_package_includes_all_its_messages() {
    let config = Config::new().owned(".geo").owned(".app");
    let source = generate(config).unwrap();
    assert_eq!(structs(&source).len(), 7);
}

#[test]
fn names_that_are_not_generated_are_errors_with_a_suggestion() {
    let none = "write its full name with a dot in front, such as \".perfetto.protos.TraceConfig\"";
    for (name, remedy) in [
        (".app.settings", "did you mean \".app.Settings\"?"),
        (".other.Settings", "did you mean \".app.Settings\"?"),
        ("Window", "did you mean \".app.Settings.Window\"?"),
        ("app.Theme", "did you mean \".app.Theme\"?"),
        ("app", "did you mean \".app\"?"),
        (".app.Set", none),
        (".", none),
        ("", none),
    ] {
        let error = generate(Config::new().owned(name)).unwrap_err();
        let text = format!("owned(\"{name}\"): no message or package of that name is generated; ");
        assert_eq!(error.to_string(), text + remedy);
        assert!(matches!(error, Error::UnknownOwned { .. }));
    }
}

#[test]
fn owned_name_that_an_extern_path_covers_is_an_error() {
    let config = Config::new()
        .extern_path(".geo", "::geo")
        .owned(".geo.Point");
    assert_eq!(
        generate(config).unwrap_err().to_string(),
        "owned(\".geo.Point\"): an `extern_path` says that another crate generates this; call \
         `owned` in the build script of that crate"
    );
}

#[test]
fn structs_of_extern_messages_are_beside_their_writers() {
    for (proto, rust, expected) in [
        (".geo", "::geo::protos", "::geo::protos::owned::Point"),
        (".geo.Point", "crate::Spot", "crate::owned::Spot"),
    ] {
        let config = Config::new()
            .extern_path(proto, rust)
            .owned(".app.Settings");
        let source = generate(config).unwrap();
        let source: String = source.split_whitespace().collect();
        assert!(source.contains(&format!("Vec<{expected}>")), "{expected}");
    }
}

#[test]
fn a_struct_whose_place_cannot_be_known_is_an_error() {
    let files = [
        (
            "a.proto",
            "import \"geo.proto\"; package a; message A { optional geo.Point.Unit unit = 1; }",
        ),
        ("geo.proto", GEO),
    ];
    let config = |rust| {
        Config::new()
            .extern_path(".geo.Point.Unit", rust)
            .owned(".a")
    };
    assert_eq!(
        generate_files(&files, config("::geo::Unit"))
            .unwrap_err()
            .to_string(),
        "the owned form of `geo.Point.Unit` cannot be found next to `::geo::Unit`, because \
         that path does not end with the nesting of the schema; pass the path of its package to \
         `extern_path`"
    );
    let source = generate_files(&files, config("::geo::point::Unit")).unwrap();
    assert!(source.contains("::geo::owned::point::Unit"));
}

#[test]
fn owned_module_is_renamed_if_the_schema_uses_its_name() {
    let schema = "package a; message Owned { optional Owned owned = 1; }";
    let source = generate_files(&[("a.proto", schema)], Config::new().owned(".a"));
    let source = source.unwrap();
    assert!(source.contains("pub mod owned2 {"), "{source}");
    assert!(source.contains("pub owned: ::core::option::Option<"));
}

#[test]
fn default_that_is_not_of_the_fields_type_is_an_error() {
    // The parser of `.proto` files checks defaults; a descriptor set can come from any program.
    for (proto_type, name, value) in [
        (Type::TYPE_INT32, "int32", "5000000000"),
        (Type::TYPE_BOOL, "bool", "1"),
        (Type::TYPE_BYTES, "bytes", "\\777"),
    ] {
        let folder = Folder::empty();
        let set = folder.write("set.binpb", set_with_default(proto_type, value));
        let without = Config::new().generate_descriptor_set(&set);
        without.expect("nobody looks at defaults");
        let error = Config::new()
            .owned(".a")
            .generate_descriptor_set(&set)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the default of field `a.M.x`, {value}, is not a value of type {name}; correct it"
            )
        );
    }
}

fn set_with_default(proto_type: Type, value: &str) -> Vec<u8> {
    let mut field = FieldDescriptorProto::new();
    field.set_name("x".to_owned());
    field.set_number(1);
    field.set_label(Label::LABEL_OPTIONAL);
    field.set_type(proto_type);
    field.set_default_value(value.to_owned());
    let mut message = DescriptorProto::new();
    message.set_name("M".to_owned());
    message.field.push(field);
    let mut file = FileDescriptorProto::new();
    file.set_name("a.proto".to_owned());
    file.set_package("a".to_owned());
    file.message_type.push(message);
    let mut set = FileDescriptorSet::new();
    set.file.push(file);
    set.write_to_bytes().expect("all required fields are set")
}
