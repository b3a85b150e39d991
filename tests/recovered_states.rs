//! States that rings keep of overwritten packets, when the process is killed: a program changes tables
//! until it is killed, and the recovered trace has each table as it was then.
//!
//! `TRACEZERO_KILLS` sets the number of kills: see `ci/kills.sh`.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;
use std::{env, fs, thread};

use support::alone;
use tracezero::crash::{LivingProcess, RecoveredTrace, leftovers};
use tracezero::protos::TracePacketDecoder;
use tracezero::reader::{FullStates, PacketItem, PacketReader};
use tracezero::{
    BufferConfig, DataSource as _, DataSourceConfig, FlightRecorder, SequenceAccount, TraceConfig,
    data_source, instant,
};

use self::schema::{TABLE_PROGRAM, TableDecoder, TracePacketDecoderExt as _, TracePacketExt as _};

mod schema {
    protozero::include_protos!("connections");
}

struct Connections;
data_source!(
    Connections,
    "com.example.connections",
    protozero::include_descriptor_set!("connections"),
    TABLE_PROGRAM
);

/// The environment variables of the program: the directory for crash files, and the number of entries
/// that each table has.
const DIRECTORY: &str = "TRACEZERO_TEST_CRASH_FILES";
const ENTRIES: &str = "TRACEZERO_TEST_ENTRIES";

/// The environment variable with the kind of the session.
const KIND: &str = "TRACEZERO_TEST_KIND";

/// The session of the program.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A ring.
    Ring,
    /// A ring that is streamed into a file.
    Streaming,
    /// A flight recorder, which often saves a snapshot.
    FlightRecorder,
}

/// The bytes that the program writes when its session has started.
const STARTED: &[u8] = b"\x01started\x01";

/// The number of threads, each of which has a table of its own: the order in which the changes of
/// several threads are folded is that of their chunks.
const THREADS: u32 = 3;

/// The size of the ring.
const RING_KIB: u32 = 64;

/// The number of changes that are reported at once.
const REPORT_CHANGES: u32 = 100;

/// The bytes that each connection has sent, by its id.
type Table = BTreeMap<u32, u64>;

/// Returns the id of the connection that a change concerns, and what it has sent since; `None` if it is
/// closed.
fn change(table: &mut Table, entries: u32, thread: u32, number: u32) -> (u32, Option<u64>) {
    let id = thread * 1_000_000 + number.wrapping_mul(7919) % entries;
    if number.is_multiple_of(3) && table.remove(&id).is_some() {
        return (id, None);
    }
    let sent_bytes = table.entry(id).or_default();
    *sent_bytes += u64::from(number);
    (id, Some(*sent_bytes))
}

/// Returns the table of a thread after this number of changes.
fn table_after(changes: u32, entries: u32, thread: u32) -> Table {
    let mut table = Table::new();
    for number in 0..changes {
        change(&mut table, entries, thread, number);
    }
    table
}

/// The program: changes tables until it is killed. Returns at once if no test has started it.
#[test]
#[ignore = "started by other tests"]
fn changes_tables_until_it_is_killed() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let entries = env::var(ENTRIES).unwrap().parse().unwrap();
    // Track events share the ring, and are lost.
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(RING_KIB))
        .add_data_source(DataSourceConfig::new("track_event"))
        .add_data_source(
            DataSourceConfig::new("com.example.connections").state_limit_kib(16 * 1024),
        );
    let kind = env::var(KIND).unwrap();
    if kind == "FlightRecorder" {
        let recorder = FlightRecorder::builder()
            .config(config)
            .crash_safe_in(&directory)
            .directory(Path::new(&directory).join("snapshots"))
            .min_interval(Duration::ZERO)
            .max_files(1);
        let recorder = recorder.start().unwrap();
        return record_on_threads(entries, |changes| {
            // The ring laps between two snapshots, but not between all of them.
            if matches!(changes % 5000, 0 | 500) {
                recorder.snapshot("now").save().unwrap();
            }
        });
    }
    let config = config.crash_safe_in(&directory);
    let _session: Box<dyn Any> = match kind.as_str() {
        "Ring" => Box::new(config.record_in_memory().unwrap()),
        _ => {
            let path = Path::new(&directory).join("streamed.pftrace");
            Box::new(config.record_to_file(path).unwrap())
        }
    };
    record_on_threads(entries, |_| {});
}

/// Changes tables on several threads. Calls `reported` after each report of the first thread.
fn record_on_threads(entries: u32, reported: impl Fn(u32) + Sync) {
    write_to_test(STARTED);
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, reported) = (&barrier, &reported);
            let run = move || {
                record(entries, thread, |changes| {
                    if thread == 0 {
                        reported(changes);
                    }
                    // A thread that sleeps in the middle of a packet would lose it to the others, if
                    // these went on.
                    barrier.wait();
                });
            };
            thread::Builder::new()
                .name(format!("writer {thread}"))
                .spawn_scoped(scope, run)
                .unwrap();
        }
    });
}

/// Changes the table of a thread. Calls `reported` after each report.
fn record(entries: u32, thread: u32, reported: impl Fn(u32)) {
    let mut table = Table::new();
    for number in 0.. {
        let (id, sent_bytes) = change(&mut table, entries, thread, number);
        Connections::trace(|cx| {
            let now = cx.now_ns();
            cx.packet(|packet| {
                packet.set_timestamp(now);
                packet.connection_patch(|patch| match sent_bytes {
                    None => {
                        patch.add_closed_ids(id);
                    }
                    Some(sent_bytes) => patch.add_changed(|connection| {
                        connection.set_id(id).set_sent_bytes(sent_bytes);
                    }),
                });
            });
        });
        instant!("test", "changed", id);
        if number % REPORT_CHANGES == REPORT_CHANGES - 1 {
            let report = (u64::from(number + 1) << 8 | u64::from(thread)).to_le_bytes();
            write_to_test(&report);
            reported(number + 1);
        }
    }
}

/// Writes bytes that do not mix with those of other threads. Nobody reads them after a test has failed.
fn write_to_test(bytes: &[u8]) {
    let mut pipe = io::stdout().lock();
    if pipe.write_all(bytes).and_then(|()| pipe.flush()).is_err() {
        std::process::exit(1);
    }
}

/// The number of changes that each thread has reported.
type Reported = [u32; THREADS as usize];

/// A running program.
struct Program {
    child: Child,
    pipe: std::process::ChildStdout,
    reported: Reported,
}

impl Program {
    fn start(directory: &Path, entries: u32, kind: Kind) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "changes_tables_until_it_is_killed",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env(DIRECTORY, directory)
            .env(ENTRIES, entries.to_string())
            .env(KIND, format!("{kind:?}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdout.take().unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(STARTED) {
            let mut byte = [0];
            pipe.read_exact(&mut byte).expect("the program starts");
            seen.extend(byte);
        }
        Self {
            child,
            pipe,
            reported: Reported::default(),
        }
    }

    /// Waits until each thread has reported this number of changes.
    fn wait_for(&mut self, changes: u32) {
        while self.reported.iter().any(|&reported| reported < changes) {
            assert!(self.read_report(), "the program failed by itself");
        }
    }

    /// Reads a report. Returns false if the program has ended.
    fn read_report(&mut self) -> bool {
        let mut report = [0; 8];
        let is_read = self.pipe.read_exact(&mut report).is_ok();
        if is_read {
            let report = u64::from_le_bytes(report);
            self.reported[(report & 0xff) as usize] = (report >> 8) as u32;
        }
        is_read
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Stops the program, and waits until all of its threads have stopped.
    fn stop(&self) {
        self.signal("STOP");
        let tasks = format!("/proc/{}/task", self.child.id());
        let is_running = || {
            let mut tasks = fs::read_dir(&tasks).unwrap().flatten();
            tasks.any(|task| {
                let stat = fs::read_to_string(task.path().join("stat")).unwrap();
                !stat.contains(") T ")
            })
        };
        while is_running() {
            thread::yield_now();
        }
    }

    /// Kills the program. Returns what it has reported.
    fn kill(mut self) -> Reported {
        self.child.kill().unwrap();
        while self.read_report() {}
        self.child.wait().unwrap();
        self.reported
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program has ended, unless a test has failed.
        let _ = self.child.kill();
    }
}

/// The content of a trace.
struct Content {
    /// The table of each thread at the end.
    tables: BTreeMap<u32, Table>,
    /// The number of changes of each thread that are in the trace.
    changes: Reported,
}

fn thread_of(id: u32) -> u32 {
    id / 1_000_000
}

fn read(trace: &[u8]) -> Content {
    let mut packets = PacketReader::new(trace);
    let mut states = FullStates::new();
    let mut changes = Reported::default();
    while let Some(item) = packets.next().unwrap() {
        if let PacketItem::Packet(packet) = item
            && states.apply(packet.bytes).unwrap().is_some()
        {
            let packet = TracePacketDecoder::new(packet.bytes);
            let patch = packet.connection_patch().unwrap().unwrap();
            let changed = patch.changed().next();
            let changed = changed.map(|connection| connection.unwrap().id().unwrap().unwrap());
            let closed = || patch.closed_ids().next().unwrap().unwrap();
            changes[thread_of(changed.unwrap_or_else(closed)) as usize] += 1;
        }
    }
    let state = states.states().next().expect("a trace has its states");
    let state = TracePacketDecoder::new(&state);
    let table: Option<TableDecoder<'_>> = state.connection_table().unwrap();
    let mut tables: BTreeMap<u32, Table> = BTreeMap::new();
    for connection in table.expect("the state has a table").connections() {
        let connection = connection.unwrap();
        let id = connection.id().unwrap().unwrap();
        let sent_bytes = connection.sent_bytes().unwrap().unwrap();
        tables
            .entry(thread_of(id))
            .or_default()
            .insert(id, sent_bytes);
    }
    Content { tables, changes }
}

/// Returns an empty directory for crash files, in memory.
fn crash_directory(name: &str) -> PathBuf {
    let path = format!("/dev/shm/tracezero-test-{}-{name}", std::process::id());
    let path = PathBuf::from(path);
    let _ = fs::remove_dir_all(&path);
    path
}

/// Asserts that a trace has all tables as they were after its changes and those that were folded.
/// Returns the number of both, for each thread, and the number of those that were folded.
fn assert_tables(trace: &RecoveredTrace, entries: u32) -> (Reported, u64) {
    assert_eq!(trace.damages, [] as [&str; 0]);
    let Content {
        tables,
        mut changes,
    } = read(&fs::read(&trace.path).unwrap());
    let mut folded = 0;
    // Track events are never folded.
    for account in trace.sequences.iter().filter(|account| account.folded > 0) {
        assert_eq!(account.lost(), 0, "{account}");
        // At most one packet was not complete.
        let known = account.read + account.folded;
        assert!(account.begun - known <= 1, "{account}");
        let name = account.thread_name.as_deref().unwrap();
        let thread: usize = name.strip_prefix("writer ").unwrap().parse().unwrap();
        changes[thread] += account.folded as u32;
        folded += account.folded;
    }
    for thread in 0..THREADS {
        let expected = table_after(changes[thread as usize], entries, thread);
        assert!(
            tables[&thread] == expected,
            "{}: another table",
            tables.len()
        );
    }
    (changes, folded)
}

fn assert_has_reported(changes: Reported, reported: Reported) {
    let mut pairs = changes.into_iter().zip(reported);
    assert!(
        pairs.all(|(changes, reported)| changes >= reported),
        "{changes:?} changes, {reported:?} were reported"
    );
}

#[test]
fn a_ring_that_lapped_100_times_knows_its_tables_after_a_kill() {
    let _guard = alone();
    let kills = env::var("TRACEZERO_KILLS").map_or(3, |kills| kills.parse::<usize>().unwrap());
    for kill in 0..kills {
        // The log of a small state is written anew after each 64 KiB of changes, that of a large one
        // less often.
        let entries = [10, 300, 10_000][kill % 3];
        let directory = crash_directory("killed");
        let mut program = Program::start(&directory, entries, Kind::Ring);
        // A change takes at least 24 bytes with its event, so these are 100 times the ring.
        program.wait_for(100 * RING_KIB * 1024 / 24 / THREADS + kill as u32 * 777);
        let reported = program.kill();
        let leftover = leftovers(&directory).unwrap().remove(0);
        let traces = leftover.recover_into(&directory).unwrap();
        let (changes, folded) = assert_tables(&traces[0], entries);
        assert_has_reported(changes, reported);
        assert!(folded > u64::from(THREADS) * 60_000, "{folded} folded");
        fs::remove_dir_all(&directory).unwrap();
    }
}

#[test]
fn a_streamed_session_knows_its_tables_after_a_kill() {
    let _guard = alone();
    let directory = crash_directory("streamed");
    let entries = 50;
    let mut program = Program::start(&directory, entries, Kind::Streaming);
    program.wait_for(5_000);
    let reported = program.kill();
    let leftover = leftovers(&directory).unwrap().remove(0);
    let traces = leftover.recover_into(&directory).unwrap();
    for account in &traces[0].sequences {
        assert_eq!(account.lost(), 0, "{account}");
        // A thread may have been in the middle of one packet.
        assert!(account.begun - account.read <= 1, "{account}");
    }
    let (changes, _) = assert_tables(&traces[0], entries);
    assert_has_reported(changes, reported);
    fs::remove_dir_all(&directory).unwrap();
}

/// The parts that snapshots have taken are in files of their own, until the ring has replaced them.
#[test]
fn a_flight_recorder_knows_its_tables_after_a_kill() {
    let _guard = alone();
    for kill in 0..5 {
        let directory = crash_directory("flight");
        let entries = 300;
        let mut program = Program::start(&directory, entries, Kind::FlightRecorder);
        program.wait_for(12_000 + kill * 1111);
        let reported = program.kill();
        let leftover = leftovers(&directory).unwrap().remove(0);
        let traces = leftover.recover_into(&directory).unwrap();
        let Content { tables, .. } = read(&fs::read(&traces[0].path).unwrap());
        for thread in 0..THREADS {
            let name = format!("writer {thread}");
            let of_thread = |account: &&SequenceAccount| {
                account.thread_name.as_ref() == Some(&name) && account.folded > 0
            };
            let account = traces[0].sequences.iter().find(of_thread).unwrap();
            assert!(account.begun >= u64::from(reported[thread as usize]));
            // At most one packet was not complete.
            let changes = [account.begun as u32, account.begun as u32 - 1];
            let expected = changes.map(|changes| table_after(changes, entries, thread));
            assert!(
                expected.contains(&tables[&thread]),
                "kill {kill}: {account}"
            );
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}

#[test]
fn a_copy_of_a_stopped_process_has_its_tables() {
    let _guard = alone();
    let directory = crash_directory("stopped");
    let entries = 100;
    let mut program = Program::start(&directory, entries, Kind::Ring);
    for round in 1..=3 {
        program.wait_for(round * 10_000);
        program.stop();
        let trace = copy(&program, &directory.join(format!("copies{round}")));
        let (changes, _) = assert_tables(&trace, entries);
        assert_has_reported(changes, program.reported);
        program.signal("CONT");
    }
    program.kill();
    fs::remove_dir_all(&directory).unwrap();
}

/// The ring changes faster than it is copied, so packets may be missing.
#[test]
fn a_copy_of_a_running_process_has_its_tables() {
    let _guard = alone();
    let directory = crash_directory("running");
    let mut program = Program::start(&directory, 100, Kind::Ring);
    for round in 1..=3 {
        program.wait_for(round * 10_000);
        let trace = copy(&program, &directory.join(format!("copies{round}")));
        let Content { tables, changes } = read(&fs::read(&trace.path).unwrap());
        assert_eq!(tables.len(), THREADS as usize);
        let accounts = trace.sequences.iter().filter(|account| account.folded > 0);
        let read: u64 = accounts.map(|account| account.read).sum();
        assert_eq!(u64::from(changes.iter().sum::<u32>()), read);
        let folded = trace.folded_packets();
        assert!(folded > u64::from(round) * 10_000, "{folded} folded");
    }
    program.kill();
    fs::remove_dir_all(&directory).unwrap();
}

/// Copies the only session of a program.
fn copy(program: &Program, directory: &Path) -> RecoveredTrace {
    let process = LivingProcess::find(program.child.id()).unwrap().remove(0);
    process.copy_into(directory).unwrap().remove(0)
}
