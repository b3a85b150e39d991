//! The fixture's messages in rust-protobuf, by name; their values are given in text format.

use std::path::Path;
use std::sync::LazyLock;

use protobuf::MessageDyn;
use protobuf::reflect::{FileDescriptor, MessageDescriptor};

static FILES: LazyLock<Vec<FileDescriptor>> = LazyLock::new(|| {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protozero-codegen/tests/fixtures/owned");
    let parsed = protobuf_parse::Parser::new()
        .pure()
        .include(&folder)
        .input(folder.join("input.proto"))
        .parse_and_typecheck()
        .expect("the fixture parses");
    FileDescriptor::new_dynamic_fds(parsed.file_descriptors, &[]).expect("the fixture is complete")
});

pub fn descriptor(name: &str) -> MessageDescriptor {
    FILES
        .iter()
        .find_map(|file| file.message_by_full_name(&format!(".{name}")))
        .unwrap_or_else(|| panic!("the fixture declares {name}"))
}

pub fn message(name: &str, text: &str) -> Box<dyn MessageDyn> {
    let mut message = descriptor(name).new_instance();
    protobuf::text_format::merge_from_str(&mut *message, text).expect("the text is well-formed");
    message
}

pub fn encode(name: &str, text: &str) -> Vec<u8> {
    message(name, text)
        .write_to_bytes_dyn()
        .expect("all required fields are set")
}

/// Asserts that the bytes are a message with the values of the text.
#[track_caller]
pub fn assert_decodes(name: &str, bytes: &[u8], text: &str) {
    let decoded = descriptor(name)
        .parse_from_bytes(bytes)
        .expect("the bytes are well-formed");
    assert_eq!(
        protobuf::text_format::print_to_string_pretty(&*decoded),
        protobuf::text_format::print_to_string_pretty(&*message(name, text)),
    );
}
