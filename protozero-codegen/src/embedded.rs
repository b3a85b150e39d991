//! Schemas as data: descriptor sets that a program embeds, to describe its messages to others.

use protobuf::Message as _;
use protobuf::descriptor::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

use crate::extern_path::ExternPaths;
use crate::resolve;

/// Returns the serialized `FileDescriptorSet` of a package. It contains the roots of the package
/// and all their imports, each file after its imports, except packages that an extern path covers.
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

/// Removes parts that readers of encoded messages do not need: comments, JSON names, and the syntax
/// if it is the default. Perfetto's own schema of descriptors has no fields for JSON names and
/// syntax.
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

/// Returns the expression that `protozero::include_descriptor_set!` expands to for the set in the
/// file `name`. If there is no set, the expression is a compile error that names the remedy.
pub(crate) fn expression(name: &str, is_there: bool) -> String {
    if is_there {
        format!("include_bytes!({name:?})")
    } else {
        "compile_error!(\"the build script does not write descriptor sets; add `.descriptor_sets()` to its \
         `protozero_codegen::Config`\")"
            .to_owned()
    }
}
