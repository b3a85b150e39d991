//! Every way to end, and what is left of it: a table.

use std::fs;
use std::mem;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use tracezero::{Error, Session, SessionState, on_error};

use crate::own_process::{file_of_process, scratch};
use crate::recorder::{
    Running, call_until, mode_of_process, say_started, trace_event, trace_large_event, trace_until,
};

/// Events that a program traces which ends by itself.
const EVENTS: u64 = 500;

/// The size of a file at which the disk is full.
const DISK_BYTES: u64 = 32 * 1024;

/// The size of an event on such a disk. A file's last word takes the place of the packets that got into
/// the file with the last write: if these are shorter, there is no room for it. The first six events end
/// 2 KiB before the disk is full, and the seventh behind that.
const LARGE_EVENT_BYTES: usize = 5000;

/// How a process ended, as its parent sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Status {
    Code(i32),
    Signal(Signal),
}

/// What is in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    /// All events, and the end.
    All,
    /// What was there up to a moment before; `check` says that it was cut off.
    UntilLately,
    /// What the disk had room for; `check` says that the file could not be written.
    WhatFits,
    /// Nothing: it is no file.
    NoFile,
}

/// What the program says on standard error.
type Said = &'static [&'static str];

const NOTHING: Said = &[];
const FILE_TOO_LARGE: Said = &["tracezero: cannot write the trace file", "File too large"];

#[rustfmt::skip]
const TABLE: [(&str, Status, Left, Said); 14] = [
    ("finish",               Status::Code(0),               Left::All,         NOTHING),
    ("drop",                 Status::Code(0),               Left::All,         NOTHING),
    ("panic",                Status::Code(101),             Left::All,         NOTHING),
    ("exit",                 Status::Code(7),               Left::All,         NOTHING),
    ("leak",                 Status::Code(0),               Left::All,         NOTHING),
    ("finish_recordings",    Status::Signal(Signal::ABORT), Left::All,         NOTHING),
    ("abort",                Status::Signal(Signal::ABORT), Left::UntilLately, NOTHING),
    ("kill",                 Status::Signal(Signal::KILL),  Left::UntilLately, NOTHING),
    ("full, finish",         Status::Code(5),               Left::WhatFits,    NOTHING),
    ("full, drop",           Status::Code(0),               Left::WhatFits,    FILE_TOO_LARGE),
    ("full, exit",           Status::Code(0),               Left::WhatFits,    FILE_TOO_LARGE),
    ("full, SIGTERM",        Status::Signal(Signal::TERM),  Left::WhatFits,    FILE_TOO_LARGE),
    ("full, on_error, exit", Status::Code(0),               Left::WhatFits,
     &["told tracezero: cannot write the trace file", "File too large"]),
    ("closed pipe, drop",    Status::Code(0),               Left::NoFile,
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

fn row_holds((mode, status, left, said): (&str, Status, Left, Said)) {
    let path = scratch(&format!(
        "ends_by_{}.pftrace",
        mode.replace([',', ' '], "_")
    ));
    let _ = fs::remove_file(&path);
    let started = Instant::now();
    let ended = Running::start("endings::program", mode, &path).wait();
    let lived = started.elapsed();

    let is_status = match ended.status.code() {
        Some(code) => Status::Code(code),
        None => Status::Signal(ended.signal().unwrap()),
    };
    assert_eq!(is_status, status, "{mode}");
    // Once, if at all.
    assert_eq!(
        ended.said.len(),
        usize::from(!said.is_empty()),
        "{mode}: {:?}",
        ended.said
    );
    for part in said {
        assert!(ended.said[0].contains(part), "{mode}: {:?}", ended.said);
    }
    if left == Left::NoFile {
        return;
    }
    let errors = ended.check_errors();
    match left {
        Left::All => {
            assert_eq!(errors, [""; 0], "{mode}");
            assert_eq!(ended.assert_has_events_until(EVENTS), EVENTS);
        }
        Left::UntilLately => {
            // What was traced more than a period before the end is there.
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
        Left::WhatFits => {
            assert!(ended.assert_has_events_until(1) < ended.traced, "{mode}");
            let size_bytes = fs::metadata(&ended.path).unwrap().len();
            assert!(
                (1..=DISK_BYTES).contains(&size_bytes),
                "{mode}: {size_bytes}"
            );
            assert_eq!(errors.len(), 1, "{mode}: {errors:?}");
            assert!(
                errors[0].contains("the file could not be written"),
                "{errors:?}"
            );
        }
        Left::NoFile => unreachable!("see above"),
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
            // Longer than a period.
            thread::sleep(Duration::from_millis(500));
            trace_event(EVENTS + 1);
        }
        _ if mode.starts_with("full") || mode.starts_with("closed pipe") => {
            // The reader hears the begin, no more.
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

/// The report and the error come together, and account for every packet.
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
