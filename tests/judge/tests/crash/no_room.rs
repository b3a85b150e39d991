//! Directories that are full, cannot reserve room, or are read-only: an error at the start, and no
//! fault later.
//!
//! The program runs in a mount namespace of its own, which needs the right to mount. Without this
//! right, the test says that it was not run.

use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use support::{Folder, not_run};
use tracezero::{BufferConfig, TraceConfig, instant};

/// The environment variable with the folder that has the directories.
const FOLDER: &str = "TRACEZERO_TEST_NO_ROOM";
/// A tmpfs of 20 MiB, one that is read-only, and two file systems that reserve no room.
const DIRECTORIES: [&str; 4] = ["small", "read-only", "ramfs", "overlay"];

const EVENTS: u64 = 100_000;

/// The program.
#[test]
#[ignore = "started by another test"]
fn records_without_room() {
    let Some(folder) = env::var_os(FOLDER) else {
        return;
    };
    let [small, read_only, ramfs, overlay] = DIRECTORIES.map(|name| Path::new(&folder).join(name));
    let refused = |directory: &Path| {
        let config = TraceConfig::default().crash_safe_in(directory);
        let error = config.record_in_memory().expect_err("there is no room");
        error.to_string()
    };
    for directory in [ramfs, overlay] {
        let error = refused(&directory);
        assert!(error.contains("cannot reserve"), "{error}");
    }
    let error = refused(&read_only);
    assert!(error.contains("Read-only file system"), "{error}");
    let error = refused(&small);
    assert!(
        error.contains("bytes free, and crash files need"),
        "{error}"
    );
    let mut entries = fs::read_dir(&small).unwrap().map(Result::unwrap);
    let is_of_process = |it: &fs::DirEntry| it.file_name().to_string_lossy().ends_with(".tz");
    let process = entries.find(is_of_process).unwrap();
    let files = fs::read_dir(process.path()).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "the shared memory alone: {names:?}");

    // The shared memory takes 16 MiB.
    let config = TraceConfig::empty().record_all().crash_safe_in(&small);
    let ring = config.clone().add_buffer(BufferConfig::ring(1024));
    let session = ring.record_in_memory().unwrap();
    let growing = BufferConfig::ring(1024).grow_to(256 * 1024);
    let file = Path::new(&folder).join("trace.pftrace");
    let streamed = config.add_buffer(growing).record_to_file(&file).unwrap();
    fill(&small);
    (0..EVENTS).for_each(|number| instant!("test", "event", number));
    let report = streamed.finish().unwrap();
    assert_eq!((report.events, report.losses.total()), (EVENTS, 0));
    assert!(session.finish().1.events > 0);
}

/// Fills a file system up to its last byte.
fn fill(directory: &Path) {
    let mut file = File::create(directory.join("fill")).unwrap();
    for size in [1 << 16, 1] {
        let bytes = vec![1; size];
        while file.write_all(&bytes).is_ok() {}
    }
}

#[test]
fn without_room_a_session_is_refused_and_never_faults() {
    let folder = Folder::empty();
    for name in DIRECTORIES {
        fs::create_dir(folder.file(name)).unwrap();
    }
    let mount = "mount -t tmpfs -o size=20m,mode=700 none small && \
                 mount -t ramfs -o mode=700 none ramfs && \
                 mount -t tmpfs -o ro,mode=700 none read-only && \
                 mkdir small/lower small/upper small/work && \
                 mount -t overlay -o lowerdir=small/lower,upperdir=small/upper,workdir=small/work none overlay";
    let in_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]);
        command.current_dir(&folder);
        command
    };
    if !in_namespace(mount)
        .status()
        .is_ok_and(|status| status.success())
    {
        return not_run("the right to mount, as root has");
    }
    let script = format!(
        "{mount} && exec \"$PROGRAM\" no_room::records_without_room --exact --ignored --test-threads=1"
    );
    let output = in_namespace(&script)
        .env("PROGRAM", env::current_exe().unwrap())
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
