//! The command `query` runs another program.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use support::Folder;

use crate::process::command;

const ARGS: [&str; 8] = [
    "query",
    "--promote",
    "size:int",
    "--format",
    "csv",
    "--",
    "-- a comment\nSELECT 1",
    "a trace.pftrace",
];

/// Returns what the command prints if PATH is a folder.
fn run_with_path(folder: &Folder) -> (Option<i32>, String, String) {
    let output = command(&ARGS).env("PATH", folder.path()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn missing_program_is_named_with_its_installation() {
    let (status, _, error) = run_with_path(&Folder::empty());
    assert_eq!(status, Some(2));
    assert!(error.contains("cargo install tracezero-query"), "{error}");
    assert!(error.contains("cargo install --path sdk/query"), "{error}");
}

#[test]
fn program_gets_all_arguments_and_gives_its_status() {
    let script = "#!/bin/sh\nprintf '[%s]' \"$@\"\nexit 2\n";
    let folder = Folder::with(&[("tracezero-query", script)]);
    let program = folder.file("tracezero-query");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let (status, arguments, error) = run_with_path(&folder);
    let expected =
        "[--format][csv][--promote][size:int][--][-- a comment\nSELECT 1][a trace.pftrace]";
    assert_eq!(
        (status, arguments.as_str(), error.as_str()),
        (Some(2), expected, "")
    );
}

#[test]
fn program_that_cannot_be_run_is_named() {
    let folder = Folder::with(&[("tracezero-query", "")]);
    let (status, _, error) = run_with_path(&folder);
    assert_eq!(status, Some(2));
    assert!(error.contains("tracezero-query cannot be run"), "{error}");
}
