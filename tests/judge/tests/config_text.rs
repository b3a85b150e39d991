//! Compares how the SDK and another library read configurations in protobuf's text format.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::fs;
use std::path::Path;

use protobuf::reflect::{FileDescriptor, MessageDescriptor};
use tracezero::TraceConfig;

/// A file with lists, hexadecimal numbers and more, which the other library does not support.
const EVERY_NOTATION: &str = "every_notation.txtpb";

/// Returns the message `TraceConfig` of the SDK's schema, for the other library.
fn trace_config_type(sdk: &Path) -> MessageDescriptor {
    let files = protobuf_parse::Parser::new()
        .pure()
        .include(sdk.join("schema"))
        .input(sdk.join("schema/protos/perfetto/config/trace_config.proto"))
        .parse_and_typecheck()
        .unwrap()
        .file_descriptors;
    FileDescriptor::new_dynamic_fds(files, &[])
        .unwrap()
        .iter()
        .find_map(|file| file.message_by_full_name(".perfetto.protos.TraceConfig"))
        .unwrap()
}

#[test]
fn another_library_reads_the_same_out_of_every_text() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk");
    let trace_config_type = trace_config_type(&sdk);
    let mut compared = 0;
    for entry in fs::read_dir(sdk.join("tests/configs")).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with(EVERY_NOTATION) {
            continue;
        }
        // The other library does not accept a colon before a message.
        let text = fs::read_to_string(&path).unwrap().replace(": {", " {");
        let mut message = trace_config_type.new_instance();
        protobuf::text_format::merge_from_str(&mut *message, &text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let encoded = message.write_to_bytes_dyn().unwrap();
        assert_eq!(
            TraceConfig::from_text(&text),
            TraceConfig::decode(&encoded),
            "{}",
            path.display()
        );
        compared += 1;
    }
    assert!(compared >= 14, "{compared}");
}
