//! A schema like that of window tracing: data sources extend the packet, each in its own file, and
//! messages of one file are extended in another.

use protozero_codegen::{Config, VmProgram};
use support::Folder;

use crate::decoded::{assert_program, constant, text};

const PACKET: &str = r#"
syntax = "proto2";
package perfetto.protos;
message TracePacket {
  optional uint64 timestamp = 8;
  extensions 100 to 199;
}
"#;

const VIEWS: &str = r#"
syntax = "proto2";
package perfetto.protos;
import "packet.proto";
message Views {
  repeated View views = 1;
  extensions 100 to 199;
}
message View {
  optional int32 hash = 1;
  optional string class_name = 2;
}
message ViewExtensions {
  extend TracePacket { optional Views views = 110; }
}
"#;

const INPUT: &str = r#"
syntax = "proto2";
package test;
import "packet.proto";
import "views.proto";
extend perfetto.protos.TracePacket { repeated Change changes = 111; }
extend perfetto.protos.Views { optional uint32 display = 100; }
message Change {
  repeated perfetto.protos.View views = 1;
  optional uint32 display = 2;
}
"#;

const FILES: [(&str, &str); 3] = [
    ("packet.proto", PACKET),
    ("views.proto", VIEWS),
    ("test.proto", INPUT),
];

fn program() -> VmProgram {
    VmProgram::new("perfetto.protos.TracePacket")
        .scope(
            "[test.changes]",
            "[perfetto.protos.ViewExtensions.views]",
            |views| {
                views
                    .merge_by_key("views", "views", "hash")
                    .set("display", "[test.display]")
            },
        )
        .set("timestamp", "timestamp")
}

const INSTRUCTIONS: &str = "\
select SRC 111*
  select DST 110, create
    select SRC 1*
      select SRC 1, ABORT
        load SRC to r0
      select DST 1[1 == r0], create
        merge skip_submessages del_if_src_empty
    select SRC 2
      select DST 100, create
        set
select SRC 8
  select DST 8, create
    set";

#[test]
fn extensions_of_several_files_are_found() {
    assert_program(&FILES, program(), INSTRUCTIONS);
}

#[test]
fn types_of_extern_paths_can_be_used() {
    let folder = Folder::with(&FILES);
    let files = Config::new()
        .include(&folder)
        .extern_path(".perfetto.protos", "::tracezero::protos")
        .vm_program(".test.PROGRAM", program())
        .generate(&[folder.file("test.proto")])
        .expect("the program compiles");
    assert_eq!(text(&constant(&files[0].source, "PROGRAM")), INSTRUCTIONS);
}

#[test]
fn descriptor_sets_give_the_same_program() {
    use protobuf::Message as _;
    let folder = Folder::with(&FILES);
    let parsed = protobuf_parse::Parser::new()
        .pure()
        .include(&folder)
        .input(folder.file("test.proto"))
        .parse_and_typecheck()
        .expect("the schema parses");
    let mut set = protobuf::descriptor::FileDescriptorSet::new();
    set.file = parsed.file_descriptors;
    let set = folder.write("set.binpb", set.write_to_bytes().expect("complete"));
    let files = Config::new()
        .vm_program("test.PROGRAM", program())
        .generate_descriptor_set(set)
        .expect("the program compiles");
    let file = files.iter().find(|file| file.name == "test.rs");
    let source = &file.expect("the package").source;
    assert_eq!(text(&constant(source, "PROGRAM")), INSTRUCTIONS);
}
