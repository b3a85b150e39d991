//! 10,000 threads at once, each of which holds a chunk of the shared memory. No event is lost, and
//! a foreign reader can use every event.
//!
//! Each case runs in a process of its own, because the first session sets the size of the process's
//! shared memory.
//!
//! A thread whose packet continues in another chunk holds two chunks for a moment, which may be
//! long on a busy machine. 4 MiB have at least 11,392 chunks: two for each of 5,500 threads, or one
//! for each of 10,000 threads of which 1,000 record at the same moment. Shared memory of the
//! default size has two chunks for each of 10,000 threads.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use perfetto_protos::trace::Trace;
use perfetto_protos::trace_packet::trace_packet::SequenceFlags;
use protobuf::Message as _;
use support::alone;
use tracezero::{BufferConfig, DataSourceConfig, Report, Session, TraceConfig, instant};

const THREADS: usize = 10_000;
/// The stack size of each thread.
const STACK_BYTES: usize = 64 * 1024;
/// The environment variable that is set in the processes that the tests start.
const IS_CASE: &str = "TRACEZERO_MANY_THREADS";

#[test]
fn ten_thousand_threads_lose_nothing_in_two_sessions() {
    run("two_sessions_of_default_memory");
}

#[test]
fn ten_thousand_threads_lose_nothing_in_four_mib() {
    run("one_session_of_four_mib");
}

#[test]
fn threads_that_all_record_at_once_lose_nothing_in_four_mib() {
    run("all_at_once_in_four_mib");
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn two_sessions_of_default_memory() {
    if env::var_os(IS_CASE).is_none() {
        return;
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("many_threads.pftrace");
    let to_file = Session::record_to_file(&path).unwrap();
    let in_memory = TraceConfig::default().record_in_memory().unwrap();
    let threads = Threads::start(THREADS, THREADS);
    threads.go_on();
    let report = to_file.finish().unwrap();
    let (trace, report_in_memory) = in_memory.finish();
    threads.end();
    check(&fs::read(&path).unwrap(), &report, THREADS);
    check(&trace, &report_in_memory, THREADS);
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn one_session_of_four_mib() {
    if env::var_os(IS_CASE).is_none() {
        return;
    }
    in_four_mib(THREADS, 1_000);
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn all_at_once_in_four_mib() {
    if env::var_os(IS_CASE).is_none() {
        return;
    }
    in_four_mib(5_500, 5_500);
}

fn in_four_mib(threads: usize, at_once: usize) {
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(16 * 1024))
        .add_data_source(DataSourceConfig::new("track_event"))
        .shared_memory(4 * 1024, 4)
        .record_in_memory()
        .unwrap();
    let running = Threads::start(threads, at_once);
    running.go_on();
    let (trace, report) = session.finish();
    running.end();
    check(&trace, &report, threads);
}

/// Threads that all exist at once. Each records one event, waits until all have done so, and then
/// records a second event.
struct Threads {
    all: Arc<Barrier>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads, of which `at_once` may record at the same moment. Returns when each has
    /// recorded an event and waits, still holding a chunk.
    fn start(threads: usize, at_once: usize) -> Self {
        let all = Arc::new(Barrier::new(threads + 1));
        let gate = Arc::new(Gate::new(at_once));
        let spawn = |number| {
            let (all, gate) = (Arc::clone(&all), Arc::clone(&gate));
            let live = move || {
                gate.pass(|| instant!("threads", "first", number = number));
                all.wait();
                all.wait();
                gate.pass(|| instant!("threads", "second", number = number));
                all.wait();
                all.wait();
            };
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            builder.spawn(live).unwrap()
        };
        let handles = (0..threads).map(spawn).collect();
        all.wait();
        Self { all, handles }
    }

    /// Lets the threads continue. Returns when each has recorded its second event.
    fn go_on(&self) {
        self.all.wait();
        self.all.wait();
    }

    fn end(self) {
        self.all.wait();
        for handle in self.handles {
            handle.join().unwrap();
        }
    }
}

/// A semaphore: lets a limited number of threads pass at a time.
struct Gate {
    room: Mutex<usize>,
    left: Condvar,
}

impl Gate {
    fn new(at_once: usize) -> Self {
        Self {
            room: Mutex::new(at_once),
            left: Condvar::new(),
        }
    }

    fn pass(&self, work: impl FnOnce()) {
        let room = self.room.lock().unwrap();
        *self.left.wait_while(room, |room| *room == 0).unwrap() -= 1;
        work();
        *self.room.lock().unwrap() += 1;
        self.left.notify_one();
    }
}

/// Asserts that every event of every thread is in the trace and usable, and that the report agrees.
///
/// The judge takes too long for so many sequences. This function counts events on sequences whose
/// incremental state is valid, by the rules of Perfetto's schema.
fn check(trace: &[u8], report: &Report, threads: usize) {
    assert_eq!(report.losses.total(), 0, "{report}");
    assert_eq!(report.packets_read, report.packets_begun, "{report}");
    assert_eq!(report.events, 2 * threads as u64, "{report}");
    let mut valid_sequences = HashSet::new();
    let mut events_of = vec![0; threads];
    for packet in Trace::parse_from_bytes(trace).unwrap().packet {
        assert_eq!(packet.previous_packet_dropped, None);
        let sequence = packet.trusted_packet_sequence_id();
        let flags = packet.sequence_flags() as i32;
        if flags & SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED as i32 != 0 {
            valid_sequences.insert(sequence);
        }
        if packet.has_track_event() {
            assert!(valid_sequences.contains(&sequence));
            let number = packet.track_event().debug_annotations[0].uint_value();
            events_of[usize::try_from(number).unwrap()] += 1;
        }
    }
    assert!(events_of.iter().all(|&events| events == 2));
}

/// Runs one case in a process of its own. One at a time: two may exceed the machine's limit of
/// threads.
fn run(case: &str) {
    let _guard = alone();
    let status = Command::new(env::current_exe().unwrap())
        .args([case, "--exact", "--ignored", "--nocapture"])
        .env(IS_CASE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{case}: {status}");
}
