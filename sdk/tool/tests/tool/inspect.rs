//! The command `inspect`, on programs that are stuck.
//!
//! With `INSPECTED_PROGRAMS`, the number of programs of each kind, the time counts, too. A hundred
//! programs, and the command as users have it:
//!
//! ```sh
//! INSPECTED_PROGRAMS=17 cargo test --release -p tracezero-cli --test tool the_tree_of_a_stuck
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::hint::spin_loop;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::{Barrier, Mutex, mpsc};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use std::{env, future, process, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use support::Folder;
use tracezero::{
    BufferConfig, InMemorySession, TraceConfig, TraceFuture as _, Track, async_span, span,
};

use crate::process::{Run, run};

/// The environment variable with the directory for crash files.
const DIRECTORY: &str = "TRACEZERO_TEST_INSPECTED";
/// The environment variable with the way in which the program gets stuck.
const KIND: &str = "TRACEZERO_TEST_STUCK_BY";
/// The environment variable with the number of programs of each kind.
const PROGRAMS: &str = "INSPECTED_PROGRAMS";

/// The size of the ring. A thread that waits for a processor while the others fill the ring would
/// have no events in it.
const RING_KIB: u32 = if cfg!(debug_assertions) { 4096 } else { 32768 };

type GetStuck = fn(&InMemorySession);

/// A program gets stuck by a function of this name.
const KINDS: [(&str, GetStuck); 6] = [
    ("mutexes", stuck_by_mutexes),
    ("channels", stuck_by_channels),
    ("futures", stuck_by_futures),
    ("loop", stuck_by_a_loop),
    ("busy", always_busy),
    ("waiting", waits_while_busy),
];

/// The program. Says on its standard output when it is stuck.
#[test]
#[ignore = "started by other tests"]
fn gets_stuck() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let kind = env::var(KIND).unwrap();
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(RING_KIB))
        .record_all()
        .crash_safe_in(directory)
        .record_in_memory()
        .unwrap();
    let (_, get_stuck) = KINDS.iter().find(|(name, _)| *name == kind).unwrap();
    get_stuck(&session);
}

/// Waits until the ring has been overwritten this many times.
fn wait_for_laps(session: &InMemorySession, laps: u64) {
    let overwritten = || session.control().stats().buffers[0].bytes_overwritten;
    while overwritten() < laps * u64::from(RING_KIB) * 1024 {
        thread::sleep(Duration::from_millis(10));
    }
}

fn say_stuck() {
    println!("\nstuck");
}

fn named<'s>(scope: &'s thread::Scope<'s, '_>, name: &str, body: impl FnOnce() + Send + 's) {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn_scoped(scope, body).unwrap();
}

fn stuck_by_mutexes(_: &InMemorySession) {
    let (one, other) = (Mutex::new(()), Mutex::new(()));
    let meeting = Barrier::new(3);
    let lock_both = |first: &Mutex<()>, second: &Mutex<()>| {
        let _span = span!("test", "lock both", order = 12);
        let _first = first.lock().unwrap();
        meeting.wait();
        drop(span!("test", "between"));
        let _wait = span!("test", "lock the second");
        meeting.wait();
        drop(second.lock().unwrap());
    };
    thread::scope(|scope| {
        named(scope, "left", || lock_both(&one, &other));
        named(scope, "right", || lock_both(&other, &one));
        meeting.wait();
        meeting.wait();
        say_stuck();
    });
}

fn stuck_by_channels(_: &InMemorySession) {
    let (to_left, left) = mpsc::channel::<()>();
    let (to_right, right) = mpsc::channel::<()>();
    let meeting = Barrier::new(3);
    let receive_then_send = |from: mpsc::Receiver<()>, to: mpsc::Sender<()>| {
        let _span = span!("test", "serve");
        let _wait = span!("test", "receive");
        meeting.wait();
        from.recv().unwrap();
        to.send(()).unwrap();
    };
    thread::scope(|scope| {
        let meeting = &meeting;
        named(scope, "left", move || receive_then_send(left, to_right));
        named(scope, "right", move || receive_then_send(right, to_left));
        meeting.wait();
        say_stuck();
    });
}

fn stuck_by_futures(_: &InMemorySession) {
    let fetch = async {
        future::pending::<()>().await;
    };
    let request = async {
        async {}.traced(async_span!("test", "authenticate")).await;
        fetch.traced(async_span!("test", "fetch", url = "/a")).await;
    };
    let mut request = pin!(request.traced(async_span!("test", "request", id = 7)));
    let mut context = Context::from_waker(Waker::noop());
    let _run = span!("test", "run");
    for _ in 0..3 {
        assert!(request.as_mut().poll(&mut context).is_pending());
    }
    say_stuck();
    loop {
        thread::park();
    }
}

/// A flush copies the chunk of the thread into the ring; the thread then writes more into it.
fn stuck_by_a_loop(session: &InMemorySession) {
    let _span = span!("test", "compute", rows = 3);
    assert!(session.control().flush());
    let _spin = span!("test", "spin");
    say_stuck();
    loop {
        spin_loop();
    }
}

/// Threads trace at full speed, so that the ring overwrites the begins of their outermost spans
/// many times.
fn always_busy(session: &InMemorySession) {
    let serve = || {
        let _serve = span!("test", "serve");
        for number in 0_u64.. {
            let _request = span!("test", "request", number);
            drop(span!("test", "step"));
        }
    };
    thread::scope(|scope| {
        named(scope, "left", serve);
        named(scope, "right", serve);
        wait_for_laps(session, 2);
        say_stuck();
    });
}

/// Futures and a track wait while threads trace at full speed, so that the ring overwrites the begins
/// of their spans, and the tracks' descriptors. Other spans of tracks begin and end all the time.
fn waits_while_busy(session: &InMemorySession) {
    let read = async {
        future::pending::<()>().await;
    };
    let connection = async {
        let name = String::from("read 7");
        read.traced(async_span!("test", name)).await;
    };
    let mut connection = pin!(connection.traced(async_span!("test", "connection", id = 7)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(connection.as_mut().poll(&mut context).is_pending());
    let (imports, late) = (Track::new("imports"), Track::new("late"));
    let _import = span!("test", "import", track: &imports);
    let _file = span!("test", String::from("file 3"), track: &imports);
    let mut is_old = Some(span!("test", "is over", track: &late));
    let be_busy = || {
        let track = Track::unique("job");
        loop {
            let _request = span!("test", "request");
            drop(span!("test", "job", track: &track));
            let mut step = pin!(async {}.traced(async_span!("test", "step")));
            assert!(
                step.as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()))
                    .is_ready()
            );
        }
    };
    thread::scope(|scope| {
        named(scope, "left", be_busy);
        named(scope, "right", be_busy);
        wait_for_laps(session, 1);
        drop(is_old.take());
        wait_for_laps(session, 3);
        say_stuck();
    });
}

/// A program that is stuck. It is killed in the end.
struct Program {
    child: Child,
    directory: PathBuf,
}

impl Program {
    fn stuck_by(kind: &str) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static MADE: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the number must only be unique.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = format!("/dev/shm/tracezero-inspect-{}-{number}", process::id());
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["inspect::gets_stuck", "--exact", "--ignored", "--nocapture"])
            .env(DIRECTORY, &directory)
            .env(KIND, kind)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_stuck = lines.map(Result::unwrap).any(|line| line == "stuck");
        assert!(is_stuck, "{kind}: the program has ended");
        Self {
            child,
            directory: directory.into(),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Stops all threads, and waits until they are stopped.
    fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let status = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap();
        assert!(status.unwrap().1.stopped());
    }

    fn inspect(&self) -> Run {
        run(&["inspect", &self.child.id().to_string()])
    }

    fn folder(&self) -> PathBuf {
        let mut entries = fs::read_dir(&self.directory).unwrap();
        entries.next().unwrap().unwrap().path()
    }

    /// Returns all files of the process, with their content.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.folder()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.insert(path.clone(), fs::read(path).unwrap());
                }
            }
        }
        files
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Returns the spans in a report, without ages: the lines behind the one that begins with `title`, up
/// to the next empty line.
fn tree(report: &str, title: &str) -> Vec<String> {
    const AGE_WIDTH: usize = 9;
    let lines = report.lines().skip_while(|line| !line.starts_with(title));
    let lines = lines.skip(1).take_while(|line| !line.is_empty());
    let span = |line: &str| line.chars().skip(AGE_WIDTH).collect::<String>();
    lines
        .map(|line| span(line).trim_start().to_owned())
        .collect()
}

/// Returns the names in a tree, joined.
fn names(report: &str, thread: &str) -> String {
    tree(report, thread).join(" > ")
}

fn check(kind: &str, report: &str) {
    match kind {
        "mutexes" => {
            for thread in ["thread left", "thread right"] {
                let expected = "lock both  order=12 > lock the second";
                assert_eq!(names(report, thread), expected, "{report}");
            }
        }
        "channels" => {
            for thread in ["thread left", "thread right"] {
                assert_eq!(names(report, thread), "serve > receive", "{report}");
            }
        }
        "futures" => {
            assert_eq!(names(report, "thread inspect"), "run", "{report}");
            let futures = tree(report, "futures");
            let [request, fetch] = &futures[..] else {
                panic!("{report}");
            };
            assert!(
                request.starts_with("request  id=7  3 polls, the last one "),
                "{report}"
            );
            assert!(
                fetch.starts_with("fetch  url=\"/a\"  3 polls, the last one "),
                "{report}"
            );
        }
        "loop" => {
            let expected = "compute  rows=3 > spin";
            assert_eq!(names(report, "thread inspect"), expected, "{report}");
        }
        "busy" => {
            assert!(report.contains("overwritten"), "{report}");
            for thread in ["thread left", "thread right"] {
                let names = names(report, thread);
                let mut spans = names.split(" > ");
                assert_eq!(spans.next(), Some("serve"), "{report}");
                assert!(
                    spans
                        .next()
                        .is_none_or(|name| name.starts_with("request  number=")),
                    "{report}"
                );
                assert!(spans.next().is_none_or(|name| name == "step"), "{report}");
                assert_eq!(spans.next(), None, "{report}");
            }
        }
        "waiting" => {
            assert!(report.contains("overwritten"), "{report}");
            let mut spans = tree(report, "futures");
            // A thread may be in the middle of these.
            spans.retain(|span| !span.starts_with("job") && !span.starts_with("step"));
            let expected = ["connection", "read 7", "import  track imports", "file 3"];
            assert_eq!(spans, expected, "{report}");
        }
        _ => unreachable!("there are six kinds"),
    }
}

#[test]
fn the_tree_of_a_stuck_program_is_right() {
    let programs = env::var(PROGRAMS).map(|number| number.parse().unwrap());
    let mut durations = Vec::new();
    for (kind, _) in KINDS {
        for _ in 0..programs.clone().unwrap_or(2) {
            let program = Program::stuck_by(kind);
            // Those that run at full speed are stopped by a signal.
            let is_stopped = ["busy", "waiting"].contains(&kind);
            if is_stopped {
                program.stop();
            }
            let before = is_stopped.then(|| program.files());
            let start = Instant::now();
            let report = program.inspect().fine();
            durations.push(start.elapsed());
            check(kind, report.text());
            if is_stopped {
                assert!(report.text().contains("stopped by a signal"), "{report:?}");
                assert!(before == Some(program.files()), "a file has changed");
            }
        }
    }
    durations.sort();
    let [median, longest] = [
        durations[durations.len() / 2],
        durations[durations.len() - 1],
    ];
    println!(
        "{} programs: median {median:?}, longest {longest:?}",
        durations.len()
    );
    // The median, because the machine may be busy with something else for a moment. The usual run has
    // a command that is not optimized, beside other tests.
    if programs.is_ok() {
        assert!(median < Duration::from_millis(200), "{durations:?}");
    }
}

#[test]
fn the_tree_of_a_running_program_is_whole() {
    let program = Program::stuck_by("busy");
    for _ in 0..10 {
        let report = program.inspect().fine();
        check("busy", report.text());
    }
}

#[test]
fn nothing_of_the_process_is_opened_for_writing() {
    let program = Program::stuck_by("mutexes");
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
    let events = WatchFlags::CLOSE | WatchFlags::MODIFY | WatchFlags::ATTRIB;
    let folder = program.folder();
    for folder in [folder.clone(), folder.join("s0")] {
        inotify::add_watch(&watch, &folder, events).unwrap();
    }
    program.inspect().fine();
    let timeout = Timespec {
        tv_sec: 5,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&timeout)).unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut seen = inotify::Reader::new(&watch, &mut buffer);
    let mut closed = 0;
    while let Ok(event) = seen.next() {
        let only_read = ReadFlags::CLOSE_NOWRITE | ReadFlags::ISDIR;
        assert!(only_read.contains(event.events()), "{event:?}");
        closed += 1;
    }
    assert!(closed > 0, "the files were not even read");
}

#[test]
fn the_trace_is_written_and_is_sound() {
    let program = Program::stuck_by("mutexes");
    let folder = Folder::empty();
    let trace = folder.file("now.pftrace");
    let pid = program.child.id().to_string();
    let path = trace.to_str().unwrap();
    let report = run(&["inspect", &pid, "-o", path]).fine();
    check("mutexes", report.text());
    run(&["check", path]).fine();
    let outline = run(&["outline", path]).fine();
    assert!(outline.text().contains("lock the second"), "{outline:?}");
    let again = run(&["inspect", &pid, "-o", path]);
    assert_eq!(again.status, 2);

    let copies = folder.file("copies/");
    let directory = program.directory.to_str().unwrap();
    let list = run(&["recover", "--live", "--list", directory]).fine();
    assert!(list.text().contains(&pid), "{list:?}");
    let copied = run(&[
        "recover",
        "--live",
        directory,
        "-o",
        copies.to_str().unwrap(),
    ]);
    assert_eq!(copied.status, 0, "{copied:?}");
    assert_eq!(fs::read_dir(&copies).unwrap().count(), 1);
    let dead = run(&["recover", directory]);
    assert_eq!(dead.stderr, "no killed process has left crash files\n");
}

#[test]
fn a_process_without_crash_files_gets_the_remedy() {
    let this = process::id().to_string();
    let _session = InMemorySession::start().unwrap();
    let refused = run(&["inspect", &this]);
    assert_eq!((refused.status, refused.text()), (2, ""));
    assert!(
        refused.stderr.contains("TraceConfig::crash_safe()"),
        "{refused:?}"
    );
    // No process has this id: it is above the largest that the kernel gives.
    let missing = run(&["inspect", "4194305"]);
    assert_eq!(missing.status, 2);
    assert_eq!(missing.stderr, "error: there is no process 4194305\n");
}
