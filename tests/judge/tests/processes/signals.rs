//! SIGINT and SIGTERM: the events before the signal are in the files, and the process ends by the
//! signal, unless the application handles it.

#![allow(unsafe_code)] // Signal handlers are set by a foreign function.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use judge::{ExtraSchema, judge};
use rustix::process::{Signal, getpid, kill_process};
use support::wait_until;
use tracezero::{
    FlightRecorder, Session, TraceConfig, finish_recordings, instant, leave_signals_alone,
};

use crate::own_process::{file_of_process, fork, fork_here, process, scratch};
use crate::recorder::{
    EndedProgram, RunningProgram, errors_in, mode_of_process, say_started, trace_until,
};

const SIGNALS: [Signal; 2] = [Signal::INT, Signal::TERM];
/// The time within which a signal may come before the first event. Later signals wait for an event,
/// however slow the machine is.
const BEFORE_FIRST_EVENT: Duration = Duration::from_millis(5);

/// Runs a program, and sends it a signal `after` its session has started. Returns the ended
/// program, and the number of the last event before the signal.
fn interrupted(mode: &str, signal: Signal, after: Duration) -> (EndedProgram, u64) {
    let name = format!(
        "signal_{mode}_{}_{}.pftrace",
        signal.as_raw(),
        after.as_millis()
    );
    let path = scratch(&name);
    let _ = fs::remove_file(&path);
    let running = RunningProgram::start("signals::program", mode, &path);
    // Whenever the signal comes, the outcome must be the same.
    thread::sleep(after);
    if after > BEFORE_FIRST_EVENT {
        wait_until(|| running.traced() > 0);
    }
    let traced = running.traced();
    running.send(signal);
    (running.wait(), traced)
}

#[test]
fn signal_ends_process_with_every_event_in_file() {
    let times_ms = [5, 300, 2_300];
    thread::scope(|scope| {
        for after_ms in times_ms {
            for signal in SIGNALS {
                scope.spawn(move || {
                    let after = Duration::from_millis(after_ms);
                    let (ended, traced) = interrupted("default", signal, after);
                    assert_eq!(ended.signal(), Some(signal));
                    assert!(traced > 0 || after <= BEFORE_FIRST_EVENT);
                    ended.assert_has_events_until(traced);
                    assert_eq!(ended.check_errors(), [""; 0]);
                    assert_eq!(ended.said, [""; 0]);
                });
            }
        }
    });
}

#[test]
fn own_handlers_shut_down_in_their_own_time() {
    let modes = [
        "handler before",
        "handler after",
        "handler finishes",
        "tokio",
        "ignored",
    ];
    thread::scope(|scope| {
        for mode in modes {
            scope.spawn(move || {
                let after = Duration::from_millis(50);
                let (ended, traced) = interrupted(mode, Signal::INT, after);
                assert_eq!(ended.status.code(), Some(3), "{mode}: {ended:?}");
                ended.assert_has_events_until(traced);
                assert_eq!(ended.check_errors(), [""; 0], "{mode}");
            });
        }
    });
}

#[test]
fn signals_left_alone_end_the_process_at_once() {
    let (ended, _) = interrupted("left alone", Signal::TERM, Duration::from_millis(50));
    assert_eq!(ended.signal(), Some(Signal::TERM));
    assert!(ended.check_errors()[0].contains("was cut off"));
}

#[test]
fn sessions_and_flight_recorder_are_all_finished() {
    let (ended, traced) = interrupted("several", Signal::TERM, Duration::from_millis(100));
    assert_eq!(ended.signal(), Some(Signal::TERM));
    let second = second_of(&ended.path);
    let folder = folder_of(&ended.path);
    let snapshots = fs::read_dir(&folder).unwrap().map(|it| it.unwrap().path());
    let snapshots: Vec<_> = snapshots.collect();
    assert_eq!(snapshots.len(), 1, "{snapshots:?}");
    for path in [ended.path.clone(), second, snapshots[0].clone()] {
        assert_eq!(errors_in(&path), [""; 0]);
        EndedProgram {
            path,
            ..ended.clone()
        }
        .assert_has_events_until(traced);
    }
    fs::remove_dir_all(folder).unwrap();
}

/// The kernel does not apply a signal's default action to process 1 of a system or container, so
/// the SDK must end the process itself.
#[test]
fn process_1_exits_with_128_and_the_number_of_the_signal() {
    let path = scratch("process_1.pftrace");
    let output = process("signals::process_1", &path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    if said.contains(NO_NAMESPACE) {
        return eprintln!("not tested, as there is {NO_NAMESPACE}: that takes a privilege");
    }
    assert_eq!(errors_in(&path), [""; 0]);
    let trace = fs::read(&path).unwrap();
    let verdict = judge(&trace, &ExtraSchema::new()).unwrap();
    assert_eq!(verdict.events_named("before the signal").count(), 1);
    fs::remove_file(path).unwrap();
}

const NO_NAMESPACE: &str = "no namespace of processes";

#[test]
#[ignore = "a process of its own, which another test starts"]
fn process_1() {
    let Some(path) = file_of_process() else {
        return;
    };
    // SAFETY: no memory is involved. The next child is the first process of a new namespace.
    if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
        return println!("{NO_NAMESPACE}");
    }
    let child = fork(|| {
        set_handler(Signal::TERM, libc::SIG_DFL);
        assert_eq!(std::process::id(), 1);
        let _session = Session::record_to_file(&path).unwrap();
        instant!("test", "before the signal");
        kill_process(getpid(), Signal::TERM).unwrap();
        loop {
            thread::park();
        }
    });
    assert_eq!(child.wait_for_exit_status(), 128 + Signal::TERM.as_raw());
}

#[test]
fn forked_child_ends_at_once_and_leaves_the_file_alone() {
    let (ended, traced) = interrupted("fork", Signal::TERM, Duration::from_millis(50));
    // The program has checked that its forked child was ended by the signal.
    assert_eq!(ended.signal(), Some(Signal::TERM));
    ended.assert_has_events_until(traced);
    assert_eq!(ended.check_errors(), [""; 0]);
}

#[test]
fn stuck_file_is_waited_for_until_a_limit_or_a_second_signal() {
    for second_signal in [false, true] {
        let path = scratch(&format!("stuck_{second_signal}"));
        let _ = fs::remove_file(&path);
        let running = RunningProgram::start("signals::program", "stuck", &path);
        // The program prints its first number after the pipe is full. Waits for that number.
        let filled = Instant::now();
        while running.traced() == 0 && filled.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(1));
        }
        running.send(Signal::TERM);
        let mut sent = Instant::now();
        if second_signal {
            // A second signal within 50 ms of the first would count as the same signal, sent twice.
            // After 2 s, a second signal would be too late. One second is between these times even
            // if the program is delayed: it then gets the first signal later, and so the second one
            // sooner after the first.
            thread::sleep(Duration::from_secs(1));
            running.send(Signal::INT);
            sent = Instant::now();
        }
        let ended = running.wait();
        let (signal, limit_ms) = match second_signal {
            true => (Signal::INT, 1_000),
            false => (Signal::TERM, 3_500),
        };
        assert_eq!(ended.signal(), Some(signal));
        assert!(
            sent.elapsed() < Duration::from_millis(limit_ms),
            "{:?}",
            sent.elapsed()
        );
    }
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn program() {
    let Some(path) = file_of_process() else {
        return;
    };
    let mode = mode_of_process();
    // Set the default actions: if the process that runs the tests ignores these signals, this
    // process inherits that.
    for signal in SIGNALS {
        set_handler(signal, libc::SIG_DFL);
    }
    match mode.as_str() {
        "handler before" => {
            set_handler(Signal::INT, note_signal as *const () as usize);
        }
        "ignored" => {
            set_handler(Signal::INT, libc::SIG_IGN);
        }
        "left alone" => leave_signals_alone(),
        "tokio" => return ends_by_ctrl_c(&path),
        "stuck" => return fills_a_pipe(),
        _ => {}
    }
    let session = Session::record_to_file(&path).unwrap();
    let others = (mode == "several").then(|| {
        let recorder = FlightRecorder::builder()
            .directory(folder_of(&path))
            .snapshot_on_exit();
        let second = TraceConfig::default()
            .record_to_file(second_of(&path))
            .unwrap();
        (second, recorder.start().unwrap())
    });
    match mode.as_str() {
        "handler after" => {
            let earlier = set_handler(Signal::INT, note_signal_and_chain as *const () as usize);
            EARLIER.store(earlier, Ordering::Relaxed);
        }
        "handler finishes" => {
            set_handler(Signal::INT, finish_and_exit as *const () as usize);
        }
        "fork" => fork_and_signal(),
        _ => {}
    }
    say_started();
    // In the mode `ignored`, no handler sets `IS_NOTED`, so the program ends after 300 ms.
    let started = Instant::now();
    let is_over = |_| {
        let is_ignored = mode == "ignored" && started.elapsed() > Duration::from_millis(300);
        is_ignored || IS_NOTED.load(Ordering::Relaxed)
    };
    trace_until(is_over);
    // Stands for an application's graceful shutdown, which takes longer than the SDK's own handling
    // of a signal.
    thread::sleep(Duration::from_millis(200));
    drop(others);
    assert_eq!(session.finish().unwrap().losses.total(), 0);
    std::process::exit(3);
}

static IS_NOTED: AtomicBool = AtomicBool::new(false);

/// The address of the handler that was set before.
static EARLIER: AtomicUsize = AtomicUsize::new(0);

extern "C" fn note_signal(_: libc::c_int) {
    IS_NOTED.store(true, Ordering::Relaxed);
}

extern "C" fn note_signal_and_chain(signal: libc::c_int) {
    note_signal(signal);
    let earlier = EARLIER.load(Ordering::Relaxed);
    assert!(earlier != libc::SIG_DFL, "there was no handler");
    // SAFETY: the address is not the default action, as was just checked, so it is that of the
    // SDK's handler. That handler is set without `SA_SIGINFO`, so it has this type.
    let earlier = unsafe { std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(earlier) };
    earlier(signal);
}

extern "C" fn finish_and_exit(_: libc::c_int) {
    let code = if finish_recordings() { 3 } else { 4 };
    // SAFETY: nothing of this process runs afterwards.
    unsafe { libc::_exit(code) }
}

/// Sets a signal handler. Returns the one that was set before.
fn set_handler(signal: Signal, handler: usize) -> usize {
    // SAFETY: the handler is an async-signal-safe function of the type that `signal` expects, or
    // `SIG_DFL` or `SIG_IGN`.
    unsafe { libc::signal(signal.as_raw(), handler) }
}

/// Runs a runtime whose main task waits for ctrl-c, as the documentation of tokio shows.
fn ends_by_ctrl_c(path: &Path) {
    let session = Session::record_to_file(path).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let interrupted = tokio::spawn(tokio::signal::ctrl_c());
        // Gives tokio time to set its handler.
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        tokio::task::spawn_blocking(|| {
            say_started();
            trace_until(|_| IS_NOTED.load(Ordering::Relaxed));
        });
        interrupted.await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        IS_NOTED.store(true, Ordering::Relaxed);
    });
    drop(runtime);
    assert_eq!(session.finish().unwrap().losses.total(), 0);
    std::process::exit(3);
}

/// Ends a forked child by a signal.
fn fork_and_signal() {
    let Some(child) = fork_here() else {
        // SAFETY: no memory is involved.
        unsafe { libc::raise(libc::SIGTERM) };
        // SAFETY: nothing of this process runs afterwards.
        unsafe { libc::_exit(0) }
    };
    assert_eq!(child.wait_for_signal(), libc::SIGTERM);
}

/// Streams into a pipe that is read once, and then no more.
fn fills_a_pipe() {
    use std::os::fd::AsRawFd as _;

    let (mut reader, writer) = std::io::pipe().unwrap();
    let session = Session::record_to_file(format!("/proc/self/fd/{}", writer.as_raw_fd())).unwrap();
    let mut begin = [0; 100];
    reader.read_exact(&mut begin).unwrap();
    say_started();
    let text = "x".repeat(1_000);
    for _ in 0..1_000 {
        instant!("endings", "large", text = text.as_str());
    }
    // Waits until the file writer's next pass has filled the pipe.
    thread::sleep(Duration::from_millis(500));
    trace_until(|_| false);
    drop((session, writer, reader));
}

fn second_of(path: &Path) -> std::path::PathBuf {
    path.with_extension("second")
}

fn folder_of(path: &Path) -> std::path::PathBuf {
    path.with_extension("snapshots")
}
