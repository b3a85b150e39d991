//! Schemas as data: what a program carries to describe its messages to others.

use protobuf::Message as _;
use protobuf::descriptor::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

use crate::extern_path::ExternPaths;
use crate::resolve;

/// The serialized `FileDescriptorSet` of a package: its roots and what they import, each after its
/// imports, but for packages that are generated elsewhere.
pub(crate) fn descriptor_set(
    files: &[FileDescriptorProto],
    roots: &[String],
    package: &str,
    extern_paths: &ExternPaths,
) -> Vec<u8> {
    let mut set = FileDescriptorSet::new();
    set.file = resolve::closure(files, roots, package)
        .into_iter()
        .filter(|file| extern_paths.find(file.package()).is_none())
        .cloned()
        .collect();
    set.file.iter_mut().for_each(strip);
    set.write_to_bytes()
        .expect("nothing in a descriptor is required or too large")
}

/// Leaves out what readers of encoded messages have no use for: comments, names in JSON, and a syntax
/// that is the default. Perfetto's own schema of descriptors does not have the last two.
fn strip(file: &mut FileDescriptorProto) {
    file.source_code_info.clear();
    if file.syntax() == "proto2" {
        file.clear_syntax();
    }
    for extension in &mut file.extension {
        extension.clear_json_name();
    }
    file.message_type.iter_mut().for_each(strip_message);
}

fn strip_message(message: &mut DescriptorProto) {
    for field in message.field.iter_mut().chain(&mut message.extension) {
        field.clear_json_name();
    }
    message.nested_type.iter_mut().for_each(strip_message);
}
