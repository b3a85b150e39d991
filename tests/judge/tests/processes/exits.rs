//! Processes that end while a session is open. The SDK finishes the file at the exit, and the file
//! is readable however the process ended.

#![allow(unsafe_code)] // Exit handlers are set by a foreign function.

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use judge::{ExtraSchema, Options, Verdict, judge_with};
use protozero::{FrameReader, FramingError};
use support::wait_until;
use tracezero::{DataSource as _, Session, TraceConfig, data_source, instant, span};

use crate::own_process::{file_of_process, process, scratch};

struct Packets;
data_source!(Packets, "com.example.packets");

/// The number of events of each thread that ends before the exit.
const EVENTS: usize = 1_000;

#[test]
fn a_session_in_a_static_is_finished_by_exit() {
    let (status, verdict) = run("exits::session_in_static");
    assert_eq!(status.code(), Some(7));
    assert_eq!(verdict.events_named("event").count(), 2 * EVENTS);
    assert!(verdict.trace_stats.is_some());
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn session_in_static() {
    static SESSION: OnceLock<Session> = OnceLock::new();
    let Some(path) = file_of_process() else {
        return;
    };
    SESSION.get_or_init(|| slow_session(path));
    record_events_on_two_threads();
    process::exit(7);
}

#[test]
fn a_session_that_was_leaked_is_finished_when_main_returns() {
    let (status, verdict) = run("exits::session_leaked");
    assert!(status.success(), "{status}");
    assert_eq!(verdict.events_named("event").count(), 2 * EVENTS);
    assert!(verdict.trace_stats.is_some());
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn session_leaked() {
    if let Some(path) = file_of_process() {
        mem::forget(slow_session(path));
        record_events_on_two_threads();
    }
}

#[test]
fn a_session_is_finished_by_a_panic_that_ends_the_process() {
    let (status, verdict) = run("exits::session_in_panic");
    assert_eq!(status.code(), Some(101));
    assert_eq!(verdict.events_named("event").count(), 2 * EVENTS);
    assert_eq!(verdict.events_named("around").count(), 1);
    assert_eq!(verdict.open_spans, []);
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn session_in_panic() {
    let Some(path) = file_of_process() else {
        return;
    };
    let _session = slow_session(path);
    let _span = span!("exit", "around");
    record_events_on_two_threads();
    panic!("as is expected of this process");
}

#[test]
fn tracing_threads_and_open_packets_do_not_block_exit() {
    let started = Instant::now();
    let (status, verdict) = run("exits::threads_go_on");
    assert!(status.success(), "{status}");
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(verdict.events_named("event").count(), 2 * EVENTS);
    assert!(verdict.events_named("goes on").count() > 0);
    assert!(verdict.trace_stats.is_some());
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn threads_go_on() {
    let Some(path) = file_of_process() else {
        return;
    };
    mem::forget(slow_session(path));
    record_events_on_two_threads();
    let (tell, told) = mpsc::channel();
    for _ in 0..2 {
        let tell = tell.clone();
        thread::spawn(move || {
            loop {
                drop(span!("exit", "goes on"));
                // The receiver may be gone.
                let _ = tell.send(());
                thread::sleep(Duration::from_micros(50));
            }
        });
    }
    assert_eq!(told.iter().take(100).count(), 100);
    let (hold, is_held) = mpsc::channel();
    let _holding = thread::spawn(move || {
        Packets::trace(|cx| {
            cx.packet(|_packet| {
                hold.send(()).unwrap();
                thread::sleep(Duration::from_secs(3600));
            });
        });
    });
    is_held.recv().unwrap();
    // Exits while a packet of this thread is open.
    Packets::trace(|cx| cx.packet(|_packet| process::exit(0)));
}

#[test]
fn exit_handlers_may_trace() {
    let (status, verdict) = run("exits::traces_at_exit");
    assert!(status.success(), "{status}");
    assert_eq!(verdict.events_named("event").count(), 2 * EVENTS);
    // Exit handlers run in reverse order: a handler that was set after the session started runs
    // before the session is finished.
    assert_eq!(verdict.events_named("set later").count(), 1);
    assert_eq!(verdict.events_named("set earlier").count(), 0);
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn traces_at_exit() {
    extern "C" fn set_earlier() {
        instant!("exit", "set earlier");
        drop(span!("exit", "set earlier"));
    }
    extern "C" fn set_later() {
        instant!("exit", "set later");
    }
    let Some(path) = file_of_process() else {
        return;
    };
    // SAFETY: the function exists until the process ends, and does not unwind.
    assert_eq!(unsafe { libc::atexit(set_earlier) }, 0);
    mem::forget(slow_session(path));
    // SAFETY: as above.
    assert_eq!(unsafe { libc::atexit(set_later) }, 0);
    record_events_on_two_threads();
}

#[test]
fn file_of_a_killed_process_is_a_readable_trace() {
    let path = scratch("killed.pftrace");
    let mut killed = process("exits::is_killed", &path).spawn().unwrap();
    wait_until(|| fs::metadata(&path).is_ok_and(|file| file.len() >= 50_000));
    killed.kill().unwrap();
    killed.wait().unwrap();

    let trace = fs::read(&path).unwrap();
    let whole = &trace[..whole_packets_bytes(&trace)];
    // The kill may have interrupted a write. Then only the last packet is incomplete, which has
    // less than 4 KiB.
    assert!(trace.len() - whole.len() < 4096);
    let verdict = judged(
        whole,
        Options {
            allow_early_end: true,
            ..Options::default()
        },
    );
    assert!(verdict.events_named("goes on").count() > 1_000);
    assert_eq!(verdict.losses, []);
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn is_killed() {
    let Some(path) = file_of_process() else {
        return;
    };
    let config = TraceConfig::default().file_write_period(Duration::from_millis(20));
    let _session = config.record_to_file(path).unwrap();
    loop {
        drop(span!("exit", "goes on"));
        thread::sleep(Duration::from_micros(20));
    }
}

/// Starts a session that writes nothing before its end.
fn slow_session(path: PathBuf) -> Session {
    let config = TraceConfig::default().file_write_period(Duration::from_secs(3600));
    config.record_to_file(path).unwrap()
}

fn record_events_on_two_threads() {
    let record = || (0..EVENTS).for_each(|number| instant!("exit", "event", number = number));
    thread::spawn(record).join().unwrap();
    record();
}

fn run(role: &str) -> (ExitStatus, Verdict) {
    let path = scratch(&format!("{}.pftrace", role.replace("::", "_")));
    let output = process(role, &path).output().unwrap();
    (output.status, judged_file(&path))
}

fn judged_file(path: &Path) -> Verdict {
    judged(&fs::read(path).unwrap(), Options::default())
}

fn judged(trace: &[u8], options: Options) -> Verdict {
    let options = Options {
        allow_open_spans: true,
        ..options
    };
    judge_with(trace, &ExtraSchema::new(), options).unwrap_or_else(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"))
    })
}

/// Returns the length of the part of the trace that has whole packets.
fn whole_packets_bytes(trace: &[u8]) -> usize {
    let mut reader = FrameReader::new();
    assert!(reader.append(trace).all(|frame| frame.is_ok()));
    match reader.finish() {
        Ok(()) => trace.len(),
        Err(FramingError::Truncated { offset }) => offset as usize,
        Err(other) => panic!("{other}"),
    }
}
