//! A program that records numbered packets on several threads, and reports each finished packet,
//! until it is killed.

use std::any::Any;
use std::env;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tracezero::{BufferConfig, DataSource as _, TraceConfig, data_source};

/// The number of threads that record.
pub const THREADS: u32 = 8;

/// The environment variable with the directory for crash files.
pub const DIRECTORY: &str = "TRACEZERO_TEST_CRASH_FILES";
/// The environment variable with the kind of the session.
const KIND: &str = "TRACEZERO_TEST_KIND";

/// The bytes that the program writes when its session has started.
const STARTED: &[u8] = b"\x01started\x01";
/// The size of a report: the number of a thread and of a packet.
const REPORT_BYTES: usize = 8;

struct Numbered;
data_source!(Numbered, "com.example.numbered");

/// The session of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A ring that is never full.
    LargeRing,
    /// A ring that is full after some milliseconds.
    SmallRing,
    /// A buffer that discards when it is full.
    Discard,
    /// A ring that is streamed into a file.
    Streaming,
    /// A ring with packets of 1 MiB, each of which takes hundreds of chunks.
    LongPackets,
}

impl Kind {
    pub const ALL: [Self; 5] = [
        Self::LargeRing,
        Self::SmallRing,
        Self::Discard,
        Self::Streaming,
        Self::LongPackets,
    ];

    fn config(self) -> TraceConfig {
        let buffer = match self {
            Self::LargeRing | Self::LongPackets => BufferConfig::ring(64 * 1024),
            Self::SmallRing => BufferConfig::ring(512),
            Self::Discard => BufferConfig::discard(2048),
            Self::Streaming => BufferConfig::ring(4096).grow_to(64 * 1024),
        };
        TraceConfig::empty().add_buffer(buffer).record_all()
    }
}

/// The program: records until it is killed. Returns at once if no test has started it.
#[test]
#[ignore = "started by other tests"]
fn records_until_it_is_killed() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let name = env::var(KIND).unwrap();
    let kind = Kind::ALL
        .into_iter()
        .find(|kind| format!("{kind:?}") == name);
    let kind = kind.unwrap();
    let config = kind.config().crash_safe_in(&directory);
    let _session: Box<dyn Any> = if kind == Kind::Streaming {
        let period = Duration::from_millis(1);
        let path = Path::new(&directory).join("streamed.pftrace");
        Box::new(
            config
                .file_write_period(period)
                .record_to_file(path)
                .unwrap(),
        )
    } else {
        Box::new(config.record_in_memory().unwrap())
    };
    rustix::io::write(rustix::stdio::stdout(), STARTED).unwrap();
    thread::scope(|scope| {
        for thread_number in 0..THREADS {
            thread::Builder::new()
                .name(format!("writer {thread_number}"))
                .spawn_scoped(scope, move || record(kind, thread_number))
                .unwrap();
        }
    });
}

fn record(kind: Kind, thread_number: u32) {
    let pipe = rustix::stdio::stdout();
    for number in 1_u64.. {
        write_packet(kind, thread_number, number);
        let report = (number << 8 | u64::from(thread_number)).to_le_bytes();
        // One write, so that reports of threads do not mix. Nobody reads them after a test failed.
        if rustix::io::write(pipe, &report).is_err() {
            return;
        }
    }
}

/// Writes a numbered packet.
pub fn write_packet(kind: Kind, thread_number: u32, number: u64) {
    Numbered::trace(|cx| {
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_seq_value(thread_number);
                event.set_counter(number);
                event.set_str(&text(kind, thread_number, number));
            });
        });
    });
}

/// Returns the text of a packet: mostly short, 1 in 50 of several chunks.
pub fn text(kind: Kind, thread_number: u32, number: u64) -> String {
    let mixed = (number + u64::from(thread_number)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let len = if kind == Kind::LongPackets {
        1 << 20
    } else if mixed.is_multiple_of(50) {
        mixed % 20_000
    } else {
        mixed % 300
    };
    let letter = char::from(b'a' + (number % 26) as u8);
    letter.to_string().repeat(len as usize)
}

/// A running program.
pub struct Program {
    child: Child,
    reports: Reports,
}

/// The number of the last packet that each thread has reported as finished.
pub type Reported = [u64; THREADS as usize];

struct Reports(thread::JoinHandle<Reported>);

impl Program {
    /// Starts the program, and waits until its session has started.
    pub fn start(kind: Kind, directory: &Path) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "program::records_until_it_is_killed",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env(DIRECTORY, directory)
            .env(KIND, format!("{kind:?}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdout.take().unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(STARTED) {
            let mut byte = [0];
            pipe.read_exact(&mut byte)
                .expect("the program starts its session");
            seen.extend(byte);
        }
        let reports = Reports(thread::spawn(move || {
            let mut reported = Reported::default();
            let mut bytes = Vec::new();
            let mut part = [0; 1 << 16];
            while let Ok(len) = pipe.read(&mut part)
                && len > 0
            {
                bytes.extend_from_slice(&part[..len]);
                let whole = bytes.len() - bytes.len() % REPORT_BYTES;
                for report in bytes.drain(..whole).as_slice().chunks_exact(REPORT_BYTES) {
                    let report = u64::from_le_bytes(report.try_into().unwrap());
                    reported[(report & 0xff) as usize] = report >> 8;
                }
            }
            reported
        }));
        Self { child, reports }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the program. Returns what it has reported.
    pub fn kill(mut self) -> Reported {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "the program failed by itself");
        self.reports.0.join().unwrap()
    }
}

/// Returns an empty directory for crash files, in memory.
pub fn crash_directory(name: &str) -> PathBuf {
    let path = PathBuf::from(format!(
        "/dev/shm/tracezero-test-{}-{name}",
        std::process::id()
    ));
    let _ = std::fs::remove_dir_all(&path);
    path
}
