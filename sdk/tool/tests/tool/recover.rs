//! The command `recover`, on what an aborted process left behind.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::Folder;
use tracezero::{InMemorySession, TraceConfig, instant};

use crate::process::run;

/// The environment variable with the directory for crash files.
const DIRECTORY: &str = "TRACEZERO_TEST_CRASH_FILES";
/// The environment variable with the number of sessions.
const SESSIONS: &str = "TRACEZERO_TEST_SESSIONS";

/// The process.
#[test]
#[ignore = "started by other tests"]
fn aborts_while_it_records() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let sessions: u32 = env::var(SESSIONS).unwrap().parse().unwrap();
    let start = |_| {
        TraceConfig::default()
            .crash_safe_in(&directory)
            .record_in_memory()
    };
    let _sessions: Vec<InMemorySession> = (0..sessions).map(start).map(Result::unwrap).collect();
    instant!("test", "last words");
    std::process::abort();
}

/// A directory for crash files, which is removed in the end.
struct CrashFiles(PathBuf);

impl CrashFiles {
    /// Runs a process that aborts with so many sessions.
    fn of_aborted(name: &str, sessions: u32) -> Self {
        let path = format!("/dev/shm/tracezero-tool-{}-{name}", std::process::id());
        let files = Self(PathBuf::from(path));
        files.add(sessions);
        files
    }

    fn add(&self, sessions: u32) {
        let status = Command::new(env::current_exe().unwrap())
            .args(["recover::aborts_while_it_records", "--exact", "--ignored"])
            .env(DIRECTORY, &self.0)
            .env(SESSIONS, sessions.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(!status.success());
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn folder_count(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for CrashFiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn recovered_trace_is_sound_and_says_that_it_was_recovered() {
    let files = CrashFiles::of_aborted("sound", 1);
    let folder = Folder::empty();
    let trace = folder.file("last.pftrace");
    let recovered = run(&["recover", files.path(), "-o", text(&trace)]);
    assert_eq!(recovered.status, 0, "{recovered:?}");
    assert!(
        recovered.stderr.contains(", 0 packets lost\n"),
        "{recovered:?}"
    );

    let check = run(&["check", text(&trace)]).fine();
    assert!(
        check.text().contains("recording was recovered"),
        "{check:?}"
    );
    let outline = run(&["outline", text(&trace)]).fine();
    assert!(outline.text().contains("last words"), "{outline:?}");

    let again = run(&["recover", files.path(), "-o", text(&trace)]);
    assert_eq!(again.status, 2);
    assert!(
        again.stderr.contains("exists; name another file"),
        "{again:?}"
    );
    assert_eq!(files.folder_count(), 1);
}

#[test]
fn each_session_of_each_process_becomes_a_trace() {
    let files = CrashFiles::of_aborted("several", 2);
    files.add(1);
    let list = run(&["recover", "--list", files.path()]).fine();
    assert_eq!(list.text().lines().count(), 3, "{list:?}");
    assert_eq!(files.folder_count(), 2);

    let folder = Folder::empty();
    let one_file = folder.file("one.pftrace");
    let refused = run(&["recover", files.path(), "-o", text(&one_file)]);
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("name a directory"), "{refused:?}");

    let recovered = run(&[
        "recover",
        "--delete",
        files.path(),
        "-o",
        text(folder.path()),
    ]);
    assert_eq!(recovered.status, 0, "{recovered:?}");
    assert_eq!(folder.entries().len(), 3);
    assert_eq!(files.folder_count(), 0);
    let nothing = run(&["recover", files.path()]);
    assert_eq!((nothing.status, nothing.text()), (0, ""));
    assert_eq!(nothing.stderr, "no killed process has left crash files\n");
}

#[test]
fn damage_is_named_and_has_exit_status_1() {
    let files = CrashFiles::of_aborted("damaged", 1);
    let process = fs::read_dir(&files.0)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::remove_file(process.join("smb")).unwrap();
    let folder = Folder::empty();
    let recovered = run(&["recover", files.path(), "-o", text(folder.path())]);
    assert_eq!(recovered.status, 1, "{recovered:?}");
    assert!(
        recovered.stderr.contains("damaged: smb is missing"),
        "{recovered:?}"
    );
}
