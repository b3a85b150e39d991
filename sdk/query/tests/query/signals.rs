//! Programs that are asked to end leave no files behind.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::fs::{CWD, Mode};
use rustix::process::{Pid, Signal, kill_process};
use support::{Folder, wait_until};

use crate::process::command;
use crate::traces::traces;

fn is_empty(folder: &Path) -> bool {
    folder.read_dir().unwrap().next().is_none()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn temporary_lakes_are_removed_after_errors() {
    let temporary = Folder::empty();
    let trace = traces().files[2].to_str().unwrap();
    for sql in ["SELECT 1", "SELECT * FROM slices"] {
        let mut command = command([sql, trace]);
        command.env("TMPDIR", temporary.path()).output().unwrap();
        assert!(is_empty(temporary.path()), "{sql}");
    }
}

#[test]
fn temporary_lakes_are_removed_if_an_export_is_interrupted() {
    let folder = Folder::empty();
    let temporary = folder.file("temporary");
    fs::create_dir(&temporary).unwrap();
    let pipe = folder.file("pipe.pftrace");
    rustix::fs::mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    let mut child = command(["SELECT 1", pipe.to_str().unwrap()])
        .env("TMPDIR", &temporary)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut trace = File::options().write(true).open(&pipe).unwrap();
    wait_until(|| !is_empty(&temporary));
    send(&child, Signal::INT);
    // The program waits for the read that it is in, and may begin another before it gets the signal.
    wait_until(|| {
        // The program may have closed its end.
        let _ = trace.write_all(&[0]);
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(is_empty(&temporary));
}

#[test]
fn temporary_lakes_are_removed_if_a_query_is_interrupted() {
    let temporary = Folder::empty();
    // An answer that nobody reads: the program waits for the pipe.
    let sql =
        "SELECT a.value, b.value FROM generate_series(1, 10000) a, generate_series(1, 10000) b";
    let mut child = command([sql, "--format", "csv", traces().files[2].to_str().unwrap()])
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let is_exported = || {
        let folders = temporary.path().read_dir().unwrap();
        let mut folders = folders.map(|folder| folder.unwrap().path());
        folders.any(|folder| folder.join("lake/trace").exists())
    };
    wait_until(is_exported);
    send(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(is_empty(temporary.path()));
}
