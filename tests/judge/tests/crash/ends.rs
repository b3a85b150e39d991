//! Ways to end without finishing a session: all of them leave a trace to be recovered.

use std::env;
use std::fs;
use std::process::{self, Command, Stdio};
use std::thread;

use judge::{ExtraSchema, Options, judge_with};
use rustix::process::{Signal, getpid, kill_process};
use tracezero::crash::leftovers;
use tracezero::{TraceConfig, instant, span};

use crate::program::{DIRECTORY, crash_directory};

/// The environment variable with the way to end.
const WAY: &str = "TRACEZERO_TEST_WAY";

const WAYS: [&str; 5] = ["abort", "SIGSEGV", "SIGBUS", "SIGKILL", "exit"];

/// The program.
#[test]
#[ignore = "started by another test"]
fn ends_while_it_records() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let session = TraceConfig::default()
        .crash_safe_in(directory)
        .record_in_memory();
    let session = session.unwrap();
    thread::spawn(|| instant!("test", "on a thread that ended"))
        .join()
        .unwrap();
    let _open = span!("test", "open");
    instant!("test", "last words", way = env::var(WAY).unwrap());
    // The standard library's handler of SIGSEGV and SIGBUS restores the default action at the first
    // signal.
    let end_by = |signal| {
        loop {
            kill_process(getpid(), signal).unwrap();
        }
    };
    match env::var(WAY).unwrap().as_str() {
        "abort" => process::abort(),
        "SIGSEGV" => end_by(Signal::SEGV),
        "SIGBUS" => end_by(Signal::BUS),
        "SIGKILL" => end_by(Signal::KILL),
        _ => {
            // A session that nobody drops.
            std::mem::forget(session);
            process::exit(0);
        }
    }
}

#[test]
fn every_end_without_finish_leaves_a_trace() {
    for way in WAYS {
        let directory = crash_directory(way);
        Command::new(env::current_exe().unwrap())
            .args([
                "ends::ends_while_it_records",
                "--exact",
                "--ignored",
                "--test-threads=1",
            ])
            .env(DIRECTORY, &directory)
            .env(WAY, way)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        let leftover = leftovers(&directory).unwrap().remove(0);
        let trace = leftover.recover_into(&directory).unwrap().remove(0);
        let options = Options {
            allow_open_spans: true,
            ..Options::default()
        };
        let bytes = fs::read(&trace.path).unwrap();
        let verdict = judge_with(&bytes, &ExtraSchema::new(), options).unwrap();
        for name in ["on a thread that ended", "last words"] {
            assert_eq!(verdict.events_named(name).count(), 1, "{way}: {name}");
        }
        assert_eq!(verdict.open_spans.len(), 1, "{way}");
        assert_eq!((trace.lost_packets(), trace.damages.len()), (0, 0), "{way}");
        leftover.delete().unwrap();
        fs::remove_dir_all(&directory).unwrap();
    }
}

#[test]
fn nothing_is_left_of_a_process_that_finished() {
    let directory = crash_directory("finished");
    let status = Command::new(env::current_exe().unwrap())
        .args(["ends::finishes", "--exact", "--ignored", "--test-threads=1"])
        .env(DIRECTORY, &directory)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    fs::remove_dir_all(&directory).unwrap();
}

/// Another program.
#[test]
#[ignore = "started by another test"]
fn finishes() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let config = TraceConfig::default().crash_safe_in(&directory);
    let session = config.clone().record_in_memory().unwrap();
    instant!("test", "event");
    assert_eq!(session.finish().1.events, 1);
    let path = env::temp_dir().join(format!("tracezero-finishes-{}", process::id()));
    let session = config.record_to_file(&path).unwrap();
    instant!("test", "event");
    assert_eq!(session.finish().unwrap().events, 1);
    fs::remove_file(path).unwrap();
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
}
