//! Tests of embedded schemas (`Config::descriptor_sets`): their files and their place.

use std::fs;
use std::path::Path;

use protobuf::Message as _;
use protobuf::descriptor::{FileDescriptorProto, FileDescriptorSet, SourceCodeInfo};
use protozero_codegen::Config;
use support::Folder;

const APP: &str = r#"syntax = "proto2";
package app;
import "geo.proto";
import "base.proto";
extend base.Packet { optional Place place = 1000; }
message Place { optional geo.Point point = 1; repeated uint32 ids = 2 [packed = true]; }
"#;
const GEO: &str = r#"syntax = "proto2"; package geo; message Point { optional int32 x = 1; }"#;
const BASE: &str =
    r#"syntax = "proto2"; package base; message Packet { extensions 1000 to 1999; }"#;
const UNNAMED: &str = r#"syntax = "proto3"; message Flat { bool is_flat = 1; }"#;

/// Creates a folder with the schemas, and an empty folder for the output.
fn folders() -> (Folder, Folder) {
    let schemas = [
        ("app.proto", APP),
        ("geo.proto", GEO),
        ("base.proto", BASE),
        ("unnamed.proto", UNNAMED),
    ];
    (Folder::with(&schemas), Folder::empty())
}

fn config(folder: &Folder, out_dir: &Folder) -> Config {
    Config::new()
        .include(folder)
        .out_dir(out_dir)
        .extern_path(".base", "::base::protos")
}

fn read(set: &Path) -> FileDescriptorSet {
    let bytes = fs::read(set).expect("it was written");
    FileDescriptorSet::parse_from_bytes(&bytes).expect("a descriptor set")
}

fn names(set: &FileDescriptorSet) -> Vec<&str> {
    set.file.iter().map(FileDescriptorProto::name).collect()
}

#[test]
fn set_has_files_of_its_package_and_imports_but_no_extern_ones() {
    let (folder, out_dir) = folders();
    let files = [folder.file("app.proto"), folder.file("unnamed.proto")];
    let config = config(&folder, &out_dir).descriptor_sets();
    config.compile(&files).expect("the schema compiles");

    let app = read(&out_dir.file("app.binpb"));
    assert_eq!(names(&app), ["geo.proto", "app.proto"]);
    let file = &app.file[1];
    assert_eq!(file.dependency, ["geo.proto", "base.proto"]);
    assert_eq!(file.extension[0].extendee(), ".base.Packet");
    assert_eq!(file.extension[0].type_name(), ".app.Place");
    assert!(file.message_type[0].field[1].options.packed());
    let unnamed = read(&out_dir.file("_.binpb"));
    assert_eq!(names(&unnamed), ["unnamed.proto"]);
    assert_eq!(unnamed.file[0].syntax(), "proto3");
}

#[test]
fn set_has_no_comments_or_json_names() {
    let (folder, out_dir) = folders();
    let config = config(&folder, &out_dir).descriptor_sets();
    config
        .compile(&[folder.file("app.proto")])
        .expect("the schema compiles");
    let set = read(&out_dir.file("app.binpb"));
    for file in &set.file {
        assert!(!file.has_syntax(), "proto2 is the default");
        let fields = file.message_type.iter().flat_map(|message| &message.field);
        for field in fields.chain(&file.extension) {
            assert!(!field.has_json_name(), "{field}");
        }
    }
}

#[test]
fn no_set_is_written_unless_asked_for() {
    let (folder, out_dir) = folders();
    let config = config(&folder, &out_dir);
    config
        .compile(&[folder.file("app.proto")])
        .expect("the schema compiles");
    assert!(out_dir.file("app.rs").exists());
    assert!(!out_dir.file("app.binpb").exists());
    let included = fs::read_to_string(out_dir.file("app.binpb.rs")).expect("it is written");
    assert!(included.starts_with("compile_error!") && included.contains("`.descriptor_sets()`"));
}

#[test]
fn set_of_another_compiler_gives_the_same_without_comments() {
    let (folder, out_dir) = folders();
    let config = config(&folder, &out_dir).descriptor_sets();
    config
        .compile(&[folder.file("app.proto")])
        .expect("the schema compiles");
    let expected = read(&out_dir.file("app.binpb"));

    let parsed = protobuf_parse::Parser::new()
        .pure()
        .include(&folder)
        .input(folder.file("app.proto"))
        .parse_and_typecheck()
        .expect("the schema parses");
    let mut all = FileDescriptorSet::new();
    all.file = parsed.file_descriptors;
    for file in &mut all.file {
        let mut comments = SourceCodeInfo::new();
        comments.location.push(Default::default());
        file.source_code_info = Some(comments).into();
    }
    let set = folder.write("all.binpb", all.write_to_bytes().expect("complete"));
    config
        .compile_descriptor_set(&set)
        .expect("the set is right");
    assert_eq!(read(&out_dir.file("app.binpb")), expected);
}

#[test]
fn a_set_that_has_not_changed_keeps_its_time_stamp() {
    let (folder, out_dir) = folders();
    let config = config(&folder, &out_dir).descriptor_sets();
    let files = [folder.file("app.proto")];
    let written_at = || {
        let metadata = fs::metadata(out_dir.file("app.binpb"));
        metadata
            .and_then(|it| it.modified())
            .expect("it was written")
    };
    config.compile(&files).expect("the schema compiles");
    let first = written_at();
    config.compile(&files).expect("the schema compiles");
    assert_eq!(written_at(), first);
}
