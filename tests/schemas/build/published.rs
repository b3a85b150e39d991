//! The schemas: the folders in which Cargo stores the packages that contain them, and the files
//! that are used.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Result;
use crate::groups;

/// A set of files that are compiled together.
pub(crate) struct Schema {
    /// The name of the folder in `OUT_DIR` for the generated files.
    pub(crate) name: &'static str,
    pub(crate) includes: Vec<PathBuf>,
    pub(crate) files: Vec<PathBuf>,
}

/// Files of Perfetto that repeat declarations of others, each with the reason. A schema may declare
/// a name once only.
const PERFETTO_COPIES: [(&str, &str); 7] = [
    ("perfetto_config.proto", "all configuration files in one"),
    ("perfetto_trace.proto", "all trace files in one"),
    ("perfetto_merged_metrics.proto", "all metric files in one"),
    (
        "kfree.proto",
        "imported by no file; kmem.proto has its message",
    ),
    (
        "kmalloc.proto",
        "imported by no file; kmem.proto has its message",
    ),
    (
        "print.proto",
        "imported by no file; ftrace.proto has its message",
    ),
    (
        "system_info_config.proto",
        "imported by no file; data_source_config.proto has its message",
    ),
];

/// Returns the whole schema of Perfetto.
pub(crate) fn perfetto(packages: &Packages) -> Result<Schema> {
    let package = packages.folder("perfetto_protos")?;
    let mut files = Vec::new();
    proto_files(&package.join("protos"), &mut files)?;
    let found = files.len();
    let is_copy = |file: &PathBuf| {
        PERFETTO_COPIES
            .iter()
            .any(|(copy, _)| file.file_name().is_some_and(|name| name == *copy))
    };
    files.retain(|file| !is_copy(file));
    if found - files.len() != PERFETTO_COPIES.len() {
        return Err("some copies in Perfetto's schema are gone, or there are new ones".into());
    }
    files.sort();
    Ok(Schema {
        name: "perfetto",
        includes: vec![package],
        files,
    })
}

/// The files of the protobuf project, each with the folder that its imports are relative to.
const PROTOBUF_FILES: [(&str, &str); 15] = [
    // Messages of the conformance test.
    ("src", "google/protobuf/test_messages_proto2.proto"),
    ("src", "google/protobuf/test_messages_proto3.proto"),
    (".", "conformance/conformance.proto"),
    // Public imports, every type of map, every well-known type.
    ("src", "google/protobuf/unittest_import_public.proto"),
    ("src", "google/protobuf/unittest_import.proto"),
    ("src", "google/protobuf/map_proto2_unittest.proto"),
    ("src", "google/protobuf/unittest_well_known_types.proto"),
    // Names that are keywords in some language.
    (".", "rust/test/nested.proto"),
    (".", "rust/test/reserved.proto"),
    (KOTLIN, "com/google/protobuf/evil_names_proto2.proto"),
    (KOTLIN, "com/google/protobuf/evil_names_proto3.proto"),
    ("php/tests", "proto/test_reserved_enum_lower.proto"),
    ("php/tests", "proto/test_reserved_enum_upper.proto"),
    ("php/tests", "proto/test_reserved_message_lower.proto"),
    ("php/tests", "proto/test_reserved_message_upper.proto"),
];
const KOTLIN: &str = "java/kotlin/src/test/proto";

/// Returns the schemas of the protobuf project, as copies without groups in a folder of `out_dir`.
pub(crate) fn protobuf(packages: &Packages, out_dir: &Path) -> Result<Schema> {
    let package = packages.folder("protobuf-src")?.join("protobuf");
    let folder = out_dir.join("protobuf/without_groups");
    let mut files = Vec::new();
    for (base, name) in PROTOBUF_FILES {
        let copy = folder.join(name);
        fs::create_dir_all(copy.parent().ok_or("a file is in a folder")?)?;
        let published = fs::read_to_string(package.join(base).join(name))?;
        fs::write(&copy, groups::cut(&published))?;
        files.push(copy);
    }
    Ok(Schema {
        name: "protobuf",
        // Takes the well-known types from the same package, because those inside of the parser have
        // another version.
        includes: vec![folder, package.join("src")],
        files,
    })
}

fn proto_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            proto_files(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            files.push(path);
        }
    }
    Ok(())
}

/// The folders of all packages in the lock file, by name.
pub(crate) struct Packages(BTreeMap<String, PathBuf>);

impl Packages {
    /// Returns the folder of a package.
    pub(crate) fn folder(&self, package: &str) -> Result<PathBuf> {
        let folder = self.0.get(package);
        Ok(folder
            .ok_or_else(|| format!("no package {package}"))?
            .clone())
    }
}

/// Asks Cargo for the folders of all packages. Cargo also knows dependencies that are not built,
/// and downloads them if needed.
pub(crate) fn packages() -> Result<Packages> {
    let cargo = env::var_os("CARGO").ok_or("cargo sets CARGO")?;
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked"])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("a list of packages")?;
    let folders = packages.iter().filter_map(|package| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        Some((
            package["name"].as_str()?.to_owned(),
            manifest.parent()?.to_owned(),
        ))
    });
    Ok(Packages(folders.collect()))
}
