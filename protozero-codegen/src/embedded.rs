//! Schemas as data: what a program carries to describe its messages to others.

use protobuf::Message as _;
use protobuf::descriptor::{FileDescriptorProto, FileDescriptorSet};

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
    for file in &mut set.file {
        // Comments, which another compiler may have left in.
        file.source_code_info.clear();
    }
    set.write_to_bytes()
        .expect("nothing in a descriptor is required or too large")
}
