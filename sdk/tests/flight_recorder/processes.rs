//! Processes that abort, exit or get signals. Each is this executable again, which runs one test on
//! its main thread.

use std::env;
use std::fmt;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal as ProcessSignal, getpid, kill_process};
use support::wait_until;
use tracezero::{FlightError, FlightRecorder, FlightRecorderBuilder, Signal, instant};

use crate::trace::{Folder, SAVE_TIMEOUT, record};

/// The environment variable with the folder into which a process saves.
const FOLDER: &str = "TRACEZERO_TEST_FOLDER";

/// A recorder that is never dropped.
static RECORDER: OnceLock<FlightRecorder> = OnceLock::new();

/// Runs the ignored test `role` of this executable in a process of its own.
fn run(role: &str, folder: &Folder) -> ExitStatus {
    run_by(Command::new(env::current_exe().unwrap()), role, folder)
}

/// Does the same as [`run`], by a `program` that gets the rest of the command as arguments.
fn run_by(mut program: Command, role: &str, folder: &Folder) -> ExitStatus {
    let role = format!("processes::{role}");
    program
        .args([
            &role,
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(FOLDER, folder.path())
        .status()
        .unwrap()
}

/// Returns the builder of this process's recorder, if `run` has started the process.
fn recorder_of_process() -> Option<FlightRecorderBuilder> {
    let folder = PathBuf::from(env::var_os(FOLDER)?);
    let builder = FlightRecorder::builder().ring_kib(256);
    Some(builder.save_timeout(SAVE_TIMEOUT).directory(folder))
}

#[test]
fn abort_by_panic_saves_what_led_up_to_it() {
    let folder = Folder::alone();
    let status = run("aborts", &folder);
    assert_eq!(status.signal(), Some(ProcessSignal::ABORT.as_raw()));
    let trace = folder.only_trace();
    assert_eq!(trace.numbers(), [1, 2]);
    assert!(trace.has("panic"));
    assert!(trace.texts.iter().any(|it| it == "this is the end"));
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn aborts() {
    /// Cannot unwind, so a panic in it aborts the process.
    extern "C" fn panics() {
        panic!("this is the end");
    }

    let Some(builder) = recorder_of_process() else {
        return;
    };
    let _recorder = builder.snapshot_on_panic().start().unwrap();
    record(1);
    thread::spawn(|| {
        record(2);
        panics();
    })
    .join()
    .unwrap();
}

#[test]
fn abort_inside_an_event_saves_what_led_up_to_it() {
    let folder = Folder::alone();
    let started = Instant::now();
    let status = run("aborts_in_event", &folder);
    assert_eq!(status.signal(), Some(ProcessSignal::ABORT.as_raw()));
    assert!(started.elapsed() < SAVE_TIMEOUT);
    assert_eq!(folder.only_trace().numbers(), [1]);
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn aborts_in_event() {
    struct Aborts;

    impl fmt::Display for Aborts {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            extern "C" fn panics() {
                panic!("here");
            }
            panics();
            Ok(())
        }
    }

    let Some(builder) = recorder_of_process() else {
        return;
    };
    let _recorder = builder.snapshot_on_panic().start().unwrap();
    record(1);
    instant!("test", "half", argument = %Aborts);
}

#[test]
fn an_exit_saves_nothing_unless_it_is_asked_to() {
    let folder = Folder::alone();
    assert!(run("exits", &folder).success());
    assert!(folder.entries().is_empty());
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn exits() {
    let Some(builder) = recorder_of_process() else {
        return;
    };
    RECORDER.get_or_init(|| builder.start().unwrap());
    record(1);
    process::exit(0);
}

#[test]
fn an_exit_saves_what_it_is_asked_to() {
    let folder = Folder::alone();
    assert!(run("exits_with_snapshot", &folder).success());
    let trace = folder.only_trace();
    assert_eq!(trace.numbers(), [1]);
    assert!(trace.has("exit"));
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn exits_with_snapshot() {
    let Some(builder) = recorder_of_process() else {
        return;
    };
    RECORDER.get_or_init(|| builder.snapshot_on_exit().start().unwrap());
    record(1);
    process::exit(0);
}

#[test]
fn an_exit_saves_the_windows_that_are_open() {
    let folder = Folder::alone();
    let started = Instant::now();
    assert!(run("exits_in_window", &folder).success());
    assert!(started.elapsed() < SAVE_TIMEOUT);
    assert_eq!(folder.only_trace().numbers(), [1, 2]);
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn exits_in_window() {
    let Some(builder) = recorder_of_process() else {
        return;
    };
    let recorder = RECORDER.get_or_init(|| builder.start().unwrap());
    record(1);
    let hour = Duration::from_secs(3600);
    recorder.around("window", hour, hour).save_in_background();
    record(2);
    process::exit(0);
}

#[test]
fn a_disk_that_is_full_loses_the_snapshot_and_no_other_file() {
    let folder = Folder::alone();
    let own = folder.file("own.pftrace");
    fs::write(&own, "before").unwrap();
    // Limits the size of files to a few KiB, which has the effect of a full disk.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", r#"trap "" XFSZ; ulimit -f 8; exec "$0" "$@""#])
        .arg(env::current_exe().unwrap())
        .stdout(Stdio::null());
    assert!(run_by(shell, "fills_the_disk", &folder).success());
    assert_eq!(folder.entries(), ["own.pftrace"]);
    assert!(fs::read(&own).unwrap() == b"before");
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn fills_the_disk() {
    let Some(builder) = recorder_of_process() else {
        return;
    };
    let recorder = builder.start().unwrap();
    (0..5_000).for_each(record);
    let own = PathBuf::from(env::var_os(FOLDER).unwrap()).join("own.pftrace");
    for request in [
        recorder.snapshot("full"),
        recorder.snapshot("own").path(&own),
    ] {
        let outcome = request.save();
        assert!(
            matches!(outcome, Err(FlightError::File { .. })),
            "{outcome:?}"
        );
    }
    let stats = recorder.stop();
    assert_eq!((stats.saved, stats.failed), (0, 2));
}

#[test]
fn a_signal_saves_what_led_up_to_it_and_the_process_goes_on() {
    let folder = Folder::alone();
    assert!(run("gets_signals", &folder).success());
    let files = folder.entries();
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files[0].starts_with("flight-signal_HUP-"), "{files:?}");
    assert!(files[1].starts_with("flight-signal_USR2-"), "{files:?}");
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn gets_signals() {
    let Some(builder) = recorder_of_process() else {
        return;
    };
    let recorder = builder
        .snapshot_on_signal(Signal::User2)
        .snapshot_on_signal(Signal::Hangup)
        .start()
        .unwrap();
    record(1);
    for (count, signal) in (1..).zip([ProcessSignal::USR2, ProcessSignal::HUP]) {
        kill_process(getpid(), signal).unwrap();
        wait_until(|| recorder.stats().saved >= count);
    }
    // A second signal within the interval saves nothing.
    kill_process(getpid(), ProcessSignal::USR2).unwrap();
    wait_until(|| recorder.stats().too_soon > 0);
    assert_eq!(recorder.stop().saved, 2);
}
