//! The SDK's schema agrees with Perfetto's: every message, field and enum value of
//! `sdk/schema/protos`, `sdk/config/protos` and `sdk/kernel/protos` is in the published schema, with the
//! same name, number, type and label.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use protobuf::descriptor::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};

/// The field that was a `bool` up to version 56 of Perfetto, and is a mask of reasons from version
/// 57 on.
const TYPE_CHANGED: &str = "perfetto.protos.TracePacket.previous_packet_dropped";

/// Messages with some of the fields of a published one, so that nobody builds code for all of them.
const PARTS: [(&str, &str); 2] = [
    ("SourceConfigs", "perfetto.protos.DataSourceConfig"),
    ("KernelPacket", "perfetto.protos.TracePacket"),
];

/// Declarations by full name, each as a text to compare.
type Declarations = BTreeMap<String, String>;

#[test]
fn every_declaration_of_the_sdk_is_published() {
    let published = merged([judge::published(), judge::published_later()]);
    let ours = declarations(&sdk_schema());
    assert!(
        ours.len() > 400,
        "only {} declarations were found",
        ours.len()
    );

    let differences: Vec<String> = ours
        .iter()
        .filter(|(name, _)| *name != TYPE_CHANGED)
        .filter(|(name, text)| published.get(*name) != Some(text))
        .map(|(name, text)| {
            format!(
                "{name}\n  ours: {text}\n  published: {:?}",
                published.get(name)
            )
        })
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn parts_of_messages_are_fields_of_the_published_ones() {
    let published = merged([judge::published(), judge::published_later()]);
    let parts = parts(&sdk_schema());
    assert_eq!(parts.len(), 4 + 7);
    for (name, text) in parts {
        // A part does without the oneof, which makes no difference to the encoding.
        let published = published
            .get(&name)
            .and_then(|p| p.split(" in oneof").next());
        assert_eq!(published, Some(text.as_str()), "{name}");
    }
}

#[test]
fn field_with_changed_type_keeps_number_and_wire_type() {
    let ours = &declarations(&sdk_schema())[TYPE_CHANGED];
    let published = &declarations(&judge::published())[TYPE_CHANGED];
    assert_eq!(ours, "LABEL_OPTIONAL TYPE_UINT32 = 42");
    assert_eq!(published, "LABEL_OPTIONAL TYPE_BOOL = 42");
}

#[test]
fn extension_ranges_lie_within_published_ones() {
    let published = messages(&[judge::published(), judge::published_later()].concat());
    let mut extensible = Vec::new();
    for (name, message) in messages(&sdk_schema()) {
        if message.extension_range.is_empty() {
            continue;
        }
        let ranges: Vec<Range<i32>> = published
            .iter()
            .filter(|(published_name, _)| *published_name == name)
            .flat_map(|(_, message)| extension_ranges(message))
            .collect();
        for number in extension_ranges(&message).flatten() {
            let is_published = ranges.iter().any(|range| range.contains(&number));
            assert!(is_published, "{name}: {number} is no extension");
        }
        extensible.push(name);
    }
    extensible.sort();
    assert_eq!(
        extensible,
        ["perfetto.protos.TracePacket", "perfetto.protos.TrackEvent"]
    );
}

#[test]
fn nothing_published_later_is_known_to_the_library_already() {
    let library = declarations(&judge::published());
    let superfluous: Vec<String> = declarations(&judge::published_later())
        .into_iter()
        .filter(|(name, text)| library.get(name) == Some(text))
        .map(|(name, _)| name)
        .collect();
    assert!(
        superfluous.is_empty(),
        "drop from since_v51.proto: {superfluous:?}"
    );
}

#[test]
fn nothing_published_later_is_declared_without_need() {
    let files = sdk_schema();
    let mut ours = declarations(&files);
    ours.extend(parts(&files));
    let unused: Vec<String> = declarations(&judge::published_later())
        .into_keys()
        .filter(|name| !ours.contains_key(name) && !is_of_an_event(name))
        .collect();
    assert!(unused.is_empty(), "the SDK does without: {unused:?}");
}

/// Returns true for a field of an event of the kernel. The recorder has all events in a table, which
/// `event_table.rs` compares with the published ones.
fn is_of_an_event(name: &str) -> bool {
    name.rsplit_once('.')
        .is_some_and(|(message, _)| message.ends_with("FtraceEvent"))
}

fn sdk_schema() -> Vec<FileDescriptorProto> {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk");
    let roots = ["schema", "config", "kernel"].map(|package| sdk.join(package));
    let mut files = Vec::new();
    for root in &roots {
        proto_files(&root.join("protos"), &mut files);
    }
    protobuf_parse::Parser::new()
        .pure()
        .includes(&roots)
        .inputs(&files)
        .file_descriptor_set()
        .expect("the SDK's schema parses")
        .file
}

fn proto_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            proto_files(&path, files);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            files.push(path);
        }
    }
}

fn merged(sets: [Vec<FileDescriptorProto>; 2]) -> Declarations {
    sets.iter().flat_map(|set| declarations(set)).collect()
}

/// Returns the fields of the parts, by the names that they have in the published messages.
fn parts(files: &[FileDescriptorProto]) -> Declarations {
    let mut declarations = Declarations::new();
    for file in files.iter().filter(|f| f.package() == "tracezero.kernel") {
        for message in &file.message_type {
            let (_, whole) = PARTS
                .into_iter()
                .find(|(part, _)| *part == message.name())
                .unwrap_or_else(|| panic!("{} is a part of no message", message.name()));
            for field in &message.field {
                let text = field_text(message, field);
                declarations.insert(format!("{whole}.{}", field.name()), text);
            }
        }
    }
    declarations
}

/// Returns the declarations of fields and enum values.
fn declarations(files: &[FileDescriptorProto]) -> Declarations {
    let mut declarations = Declarations::new();
    for (name, message) in messages(files) {
        for field in &message.field {
            let text = field_text(&message, field);
            declarations.insert(format!("{name}.{}", field.name()), text);
        }
        for enumeration in &message.enum_type {
            enum_values(&name, enumeration, &mut declarations);
        }
    }
    for file in files {
        for enumeration in &file.enum_type {
            enum_values(file.package(), enumeration, &mut declarations);
        }
    }
    declarations
}

fn field_text(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let mut text = format!("{:?} {:?}", field.label(), field.type_());
    if field.has_type_name() {
        text += &format!(" {}", field.type_name());
    }
    text += &format!(" = {}", field.number());
    if field.options.packed() {
        text += " packed";
    }
    if field.has_oneof_index() {
        let index = usize::try_from(field.oneof_index()).expect("an index");
        text += &format!(" in oneof {}", message.oneof_decl[index].name());
    }
    text
}

fn enum_values(scope: &str, enumeration: &EnumDescriptorProto, declarations: &mut Declarations) {
    for value in &enumeration.value {
        let name = format!("{scope}.{}.{}", enumeration.name(), value.name());
        declarations.insert(name, format!("= {}", value.number()));
    }
}

/// Returns every message of `files` by full name, including nested ones. A message that is declared
/// in several parts appears several times.
fn messages(files: &[FileDescriptorProto]) -> Vec<(String, DescriptorProto)> {
    let mut queue: Vec<(String, DescriptorProto)> = files
        .iter()
        .filter(|file| file.package() == "perfetto.protos")
        .flat_map(|file| {
            file.message_type
                .iter()
                .map(|m| (full_name(file.package(), m), m.clone()))
        })
        .collect();
    let mut messages = Vec::new();
    while let Some((name, message)) = queue.pop() {
        queue.extend(
            message
                .nested_type
                .iter()
                .map(|m| (full_name(&name, m), m.clone())),
        );
        messages.push((name, message));
    }
    messages
}

fn full_name(scope: &str, message: &DescriptorProto) -> String {
    format!("{scope}.{}", message.name())
}

fn extension_ranges(message: &DescriptorProto) -> impl Iterator<Item = Range<i32>> {
    message
        .extension_range
        .iter()
        .map(|range| range.start()..range.end())
}
