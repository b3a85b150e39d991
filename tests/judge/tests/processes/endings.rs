//! A table of all ways in which a process can end, and the content of its trace file afterwards.

use std::fs;
use std::mem;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use tracezero::{Error, Session, SessionState, on_error};

use crate::own_process::{file_of_process, scratch};
use crate::recorder::{
    RunningProgram, call_until, mode_of_process, say_started, trace_event, trace_large_event,
    trace_until,
};

/// The number of events that a program records before it ends by itself.
const EVENTS: u64 = 500;

/// The size limit of files, which stands for a full disk.
const DISK_BYTES: u64 = 32 * 1024;

/// The size of an event in these programs. When the disk is full, the SDK overwrites the packets of
/// the last write with a final packet, so these packets must be larger than the final packet. The
/// first six events end 2 KiB before the limit, and the seventh ends beyond it.
const LARGE_EVENT_BYTES: usize = 5000;

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Status {
    Code(i32),
    Signal(Signal),
}

/// The content of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FileContent {
    /// All events, and the end of the recording.
    All,
    /// The events up to a moment before the end; `check` reports that the recording was cut off.
    UntilLately,
    /// The events that fit on the disk; `check` reports that the file could not be written.
    WhatFits,
    /// Nothing: there is no file.
    NoFile,
}

/// The texts that the program writes to standard error.
type StderrTexts = &'static [&'static str];

const NOTHING: StderrTexts = &[];
const FILE_TOO_LARGE: StderrTexts = &["tracezero: cannot write the trace file", "File too large"];

#[rustfmt::skip]
const TABLE: [(&str, Status, FileContent, StderrTexts); 14] = [
    ("finish",               Status::Code(0),               FileContent::All,         NOTHING),
    ("drop",                 Status::Code(0),               FileContent::All,         NOTHING),
    ("panic",                Status::Code(101),             FileContent::All,         NOTHING),
    ("exit",                 Status::Code(7),               FileContent::All,         NOTHING),
    ("leak",                 Status::Code(0),               FileContent::All,         NOTHING),
    ("finish_recordings",    Status::Signal(Signal::ABORT), FileContent::All,         NOTHING),
    ("abort",                Status::Signal(Signal::ABORT), FileContent::UntilLately, NOTHING),
    ("kill",                 Status::Signal(Signal::KILL),  FileContent::UntilLately, NOTHING),
    ("full, finish",         Status::Code(5),               FileContent::WhatFits,    NOTHING),
    ("full, drop",           Status::Code(0),               FileContent::WhatFits,    FILE_TOO_LARGE),
    ("full, exit",           Status::Code(0),               FileContent::WhatFits,    FILE_TOO_LARGE),
    ("full, SIGTERM",        Status::Signal(Signal::TERM),  FileContent::WhatFits,    FILE_TOO_LARGE),
    ("full, on_error, exit", Status::Code(0),               FileContent::WhatFits,
     &["told tracezero: cannot write the trace file", "File too large"]),
    ("closed pipe, drop",    Status::Code(0),               FileContent::NoFile,
     &["tracezero: cannot write the trace file", "Broken pipe"]),
];

#[test]
fn every_way_to_end_leaves_what_the_table_says() {
    thread::scope(|scope| {
        for row in TABLE {
            scope.spawn(move || row_holds(row));
        }
    });
}

fn row_holds((mode, status, left, said): (&str, Status, FileContent, StderrTexts)) {
    let path = scratch(&format!(
        "ends_by_{}.pftrace",
        mode.replace([',', ' '], "_")
    ));
    let _ = fs::remove_file(&path);
    let started = Instant::now();
    let ended = RunningProgram::start("endings::program", mode, &path).wait();
    let lived = started.elapsed();

    let is_status = match ended.status.code() {
        Some(code) => Status::Code(code),
        None => Status::Signal(ended.signal().unwrap()),
    };
    assert_eq!(is_status, status, "{mode}");
    // The SDK writes its text at most once.
    assert_eq!(
        ended.said.len(),
        usize::from(!said.is_empty()),
        "{mode}: {:?}",
        ended.said
    );
    for part in said {
        assert!(ended.said[0].contains(part), "{mode}: {:?}", ended.said);
    }
    if left == FileContent::NoFile {
        return;
    }
    let errors = ended.check_errors();
    match left {
        FileContent::All => {
            assert_eq!(errors, [""; 0], "{mode}");
            assert_eq!(ended.assert_has_events_until(EVENTS), EVENTS);
        }
        FileContent::UntilLately => {
            // Events that are older than a write period are in the file.
            ended.assert_has_events_until(EVENTS);
            let after = errors.iter().find_map(|it| {
                let (_, after) = it.split_once("recording was cut off after ")?;
                after.strip_suffix(" s")?.parse().ok()
            });
            assert!(
                after.is_some_and(|seconds: f64| seconds < lived.as_secs_f64()),
                "{mode}: {errors:?} of {lived:?}"
            );
        }
        FileContent::WhatFits => {
            assert!(ended.assert_has_events_until(1) < ended.traced, "{mode}");
            let size_bytes = fs::metadata(&ended.path).unwrap().len();
            assert!(
                (1..=DISK_BYTES).contains(&size_bytes),
                "{mode}: {size_bytes}"
            );
            assert_eq!(errors.len(), 1, "{mode}: {errors:?}");
            assert!(
                errors[0].contains("writing to the file failed"),
                "{errors:?}"
            );
        }
        FileContent::NoFile => unreachable!("see above"),
    }
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn program() {
    let Some(path) = file_of_process() else {
        return;
    };
    let mode = mode_of_process();
    if mode.starts_with("full") {
        let limit = Some(DISK_BYTES);
        setrlimit(
            Resource::Fsize,
            Rlimit {
                current: limit,
                maximum: limit,
            },
        )
        .unwrap();
    }
    let (mut reader, pipe) = match mode.starts_with("closed pipe") {
        true => std::io::pipe()
            .map(|(reader, writer)| (Some(reader), Some(writer)))
            .unwrap(),
        false => (None, None),
    };
    let path = match &pipe {
        Some(pipe) => {
            use std::os::fd::AsRawFd as _;
            format!("/proc/self/fd/{}", pipe.as_raw_fd()).into()
        }
        None => path,
    };
    let session = Session::record_to_file(path).unwrap();
    drop(pipe);
    say_started();
    match mode.as_str() {
        "abort" | "kill" => {
            trace_until(|number| number > EVENTS);
            // Waits longer than a write period, so that all events so far are in the file.
            thread::sleep(Duration::from_millis(500));
            trace_event(EVENTS + 1);
        }
        _ if mode.starts_with("full") || mode.starts_with("closed pipe") => {
            // In the modes with a pipe, closes its reading end, so that further writes fail.
            drop(reader.take());
            call_until(
                |number| trace_large_event(number, LARGE_EVENT_BYTES),
                |_| session.control().state() == SessionState::Ended,
            );
        }
        _ => trace_until(|number| number > EVENTS),
    }
    match mode.as_str() {
        "finish" => assert_eq!(session.finish().unwrap().losses.total(), 0),
        "drop" | "full, drop" | "closed pipe, drop" => drop(session),
        "panic" => panic!("as is expected of this process"),
        "exit" => {
            mem::forget(session);
            process::exit(7);
        }
        "leak" => mem::forget(session),
        "finish_recordings" => {
            assert!(tracezero::finish_recordings());
            process::abort();
        }
        "abort" => process::abort(),
        "kill" => rustix::process::kill_process(rustix::process::getpid(), Signal::KILL).unwrap(),
        "full, finish" => finish_on_full_disk(session),
        "full, exit" => {
            mem::forget(session);
            process::exit(0);
        }
        "full, SIGTERM" => {
            rustix::process::kill_process(rustix::process::getpid(), Signal::TERM).unwrap();
            thread::sleep(Duration::from_secs(30));
            drop(session);
        }
        "full, on_error, exit" => {
            on_error(|error| eprintln!("told tracezero: {error}"));
            mem::forget(session);
            process::exit(0);
        }
        other => panic!("{other:?} is no way to end"),
    }
}

/// Asserts that finishing returns an error with a report, which accounts for every packet. Then
/// exits.
fn finish_on_full_disk(session: Session) -> ! {
    let error = session.finish().unwrap_err();
    let report = error.report().unwrap();
    assert!(
        report.events > 0 && report.losses.write_failed > 0,
        "{report}"
    );
    assert_eq!(
        report.losses.total(),
        report.losses.write_failed,
        "{report}"
    );
    assert_eq!(
        report.packets_begun,
        report.packets_read + report.losses.total()
    );
    let size_bytes = fs::metadata(report.path.as_ref().unwrap()).unwrap().len();
    assert_eq!(report.bytes, size_bytes);
    assert!(matches!(error, Error::File { .. }));
    process::exit(5)
}
