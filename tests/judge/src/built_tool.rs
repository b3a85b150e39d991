//! Builds the command `tracezero` of this source, for tests that run it.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use crate::Tool;

/// The folders whose source the command is built from.
const SOURCES: [&str; 19] = [
    "protozero/src",
    "protozero-codegen/src",
    "sdk/schema/protos",
    "sdk/src",
    "sdk/client/src",
    "sdk/core/src",
    "sdk/config/src",
    "sdk/consumer/src",
    "sdk/crash/src",
    "sdk/host/src",
    "sdk/ipc/src",
    "sdk/kernel/src",
    "sdk/lake/src",
    "sdk/probes/src",
    "sdk/producer/src",
    "sdk/protovm/src",
    "sdk/reader/src",
    "sdk/service/src",
    "sdk/tool/src",
];

/// Returns the command `tracezero`. Cargo gives the path of an executable to tests of its own package
/// only. If all tests are run, the command is built beside `judge`, which is the executable of that
/// name. Otherwise it is built here.
///
/// # Panics
///
/// If it cannot be built.
#[must_use]
pub fn built_tool(judge: &Path) -> Tool {
    let folder = judge.parent().unwrap();
    let binary = folder.join("tracezero");
    if !is_newer_than_its_source(&binary) {
        build(folder);
    }
    Tool::new(binary)
}

fn is_newer_than_its_source(binary: &Path) -> bool {
    let Ok(built) = fs::metadata(binary).and_then(|file| file.modified()) else {
        return false;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders: Vec<_> = SOURCES.map(|folder| root.join(folder)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let file = entry.metadata().unwrap();
            if file.is_dir() {
                folders.push(entry.path());
            } else if file.modified().unwrap() > built {
                return false;
            }
        }
    }
    true
}

/// Builds the command into the target folder of a Cargo profile.
fn build(folder: &Path) {
    let profile = match folder.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--locked", "--offline", "--profile", profile])
        .args(["--package", "tracezero-cli", "--bin", "tracezero"])
        .arg("--target-dir")
        .arg(folder.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}
