//! A soak test. Short-lived threads write packets of 10 bytes to 1 MiB under every policy, with too
//! little shared memory, while sessions are flushed, cloned, changed, started and ended. Each
//! sequence's account must match to the packet, and a foreign protobuf library must find every
//! packet well-formed and in order.
//!
//! `SOAK_SECONDS` sets the duration; the default is 5:
//! `SOAK_SECONDS=3600 cargo test --release --package judge --test soak -- --nocapture`.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use perfetto_protos::trace::Trace;
use protobuf::Message as _;
use support::Folder;
use tracezero::protos::TraceDecoder;
use tracezero::protos::sequences::TracePacketDecoderExt as _;
use tracezero::{
    BufferConfig, BufferExhaustedPolicy, DataSource, DataSourceConfig, Report, SequenceAccount,
    SessionControl, TraceConfig, data_source,
};

struct Drops;
data_source!(Drops, "com.example.drops");
struct Stalls;
data_source!(Stalls, "com.example.stalls");
struct StallsThenDrops;
data_source!(StallsThenDrops, "com.example.stalls_then_drops");
struct Brief;
data_source!(Brief, "com.example.brief");

const THREADS: u32 = 8;
/// The number of packets of each data source after which a thread ends and another one replaces it.
const PACKETS_PER_THREAD: u64 = 250;
const GENERATIONS: u32 = 6;
const TEXT_MAX_BYTES: u64 = 1 << 20;
/// The size of the shared memory, which has fewer chunks than the writers need.
const SHARED_MEMORY_KB: u32 = 96;
const STALL_LIMIT: Duration = Duration::from_millis(1);

/// The number of packets begun by data source; [`Brief`] is not counted.
type PacketsBegun = [AtomicU64; 3];

#[test]
fn accounts_close_and_traces_are_whole() {
    let seconds = std::env::var("SOAK_SECONDS").map_or(5, |text| text.parse().unwrap());
    let started = Instant::now();
    let mut sum = Totals::default();
    while started.elapsed() < Duration::from_secs(seconds) {
        round(&mut sum);
    }
    println!("{:?} in {:?}", sum, started.elapsed());
    assert!(sum.dropped > 0, "the shared memory never ran out");
    assert!(sum.overwritten > 0, "the ring never lapped");
    assert!(sum.discarded > 0, "the other buffer never filled");
}

/// The totals of all rounds. Printed, to show that the soak did its work.
#[derive(Debug, Default)]
struct Totals {
    rounds: u64,
    sequences: usize,
    begun: u64,
    read: u64,
    removed: u64,
    dropped: u64,
    overwritten: u64,
    discarded: u64,
    aborted: u64,
    snapshots: u64,
}

impl Totals {
    fn add(&mut self, report: &Report) {
        self.sequences += report.sequences.len();
        self.begun += report.packets_begun;
        self.read += report.packets_read;
        self.removed += report.packets_removed;
        self.dropped += report.losses.dropped;
        self.overwritten += report.losses.overwritten;
        self.discarded += report.losses.discarded;
        self.aborted += report.losses.aborted;
    }
}

/// Runs three sessions, one for each policy and kind of buffer. They start before the first thread
/// and end after the last, so each packet of the threads belongs to them.
fn round(sum: &mut Totals) {
    let begun = PacketsBegun::default();
    let folder = Folder::empty();
    let path = folder.file("soak.pftrace");
    let of = |name: &str, policy| {
        DataSourceConfig::new(name)
            .exhausted_policy(policy)
            .stall_limit(STALL_LIMIT)
    };
    let ring = config()
        .add_buffer(BufferConfig::ring(3 * 1024))
        .add_data_source(of("com.example.drops", BufferExhaustedPolicy::Drop));
    let in_ring = ring.clone().record_in_memory().unwrap();
    let in_discarding = config()
        .add_buffer(BufferConfig::discard(3 * 1024).transfer_on_clone())
        .add_data_source(of("com.example.stalls", BufferExhaustedPolicy::Stall))
        .record_in_memory()
        .unwrap();
    let in_file = config()
        .add_buffer(BufferConfig::ring(4 * 1024))
        .add_data_source(of(
            "com.example.stalls_then_drops",
            BufferExhaustedPolicy::StallThenDrop,
        ))
        .record_to_file(&path)
        .unwrap();

    let is_over = AtomicBool::new(false);
    let snapshots = AtomicU64::new(0);
    thread::scope(|scope| {
        let (ring_control, other_control) = (in_ring.control(), in_discarding.control());
        let (is_over, snapshots, ring) = (&is_over, &snapshots, &ring);
        // Relaxed: a flag that orders no other memory.
        let goes_on = || !is_over.load(Ordering::Relaxed);
        scope.spawn(move || {
            // A snapshot of the other session empties its buffer (`transfer_on_clone`), so take one
            // only after that buffer was full.
            let was_full = || {
                let accounts = other_control.stats().sequences;
                accounts.iter().any(|account| account.discarded > 0)
            };
            while goes_on() {
                // The buffer is locked while the snapshot copies it, so writers have to wait, as
                // they would for a slow service.
                check_snapshot(ring_control);
                snapshots.fetch_add(1, Ordering::Relaxed);
                if was_full() {
                    check_snapshot(other_control);
                    snapshots.fetch_add(1, Ordering::Relaxed);
                }
                ring_control.change_filters(ring.clone()).unwrap();
                thread::sleep(Duration::from_millis(20));
            }
        });
        scope.spawn(move || {
            while goes_on() {
                for control in [ring_control, other_control] {
                    let _ = control.flush();
                    control.stats().sequences.iter().for_each(check_sum);
                }
            }
        });
        scope.spawn(move || {
            while goes_on() {
                brief_session();
            }
        });
        write_in_generations(&begun);
        is_over.store(true, Ordering::Relaxed);
    });

    let (trace, report) = in_ring.finish();
    check(&trace, &report, begun[0].load(Ordering::Relaxed));
    sum.add(&report);
    let (trace, report) = in_discarding.finish();
    check(&trace, &report, begun[1].load(Ordering::Relaxed));
    sum.add(&report);
    let report = in_file.finish().unwrap();
    let trace = std::fs::read(&path).unwrap();
    check(&trace, &report, begun[2].load(Ordering::Relaxed));
    sum.add(&report);
    sum.rounds += 1;
    sum.snapshots += snapshots.into_inner();
}

/// Runs a session that begins and ends while threads write.
fn brief_session() {
    let session = config()
        .add_buffer(BufferConfig::ring(256))
        .add_data_source(DataSourceConfig::new("com.example.brief"))
        .record_in_memory()
        .unwrap();
    thread::sleep(Duration::from_millis(3));
    let (trace, report) = session.finish();
    report.sequences.iter().for_each(check_sum);
    let read = read_back(&trace);
    assert_eq!(
        read.values().sum::<u64>(),
        report.packets_read,
        "{report:#}"
    );
}

fn config() -> TraceConfig {
    TraceConfig::empty().shared_memory(SHARED_MEMORY_KB, 4)
}

fn write_in_generations(begun: &PacketsBegun) {
    static NEXT_THREAD: AtomicU32 = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..GENERATIONS {
                    let thread_number = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
                    thread::scope(|inner| {
                        let name = format!("writer-{thread_number}");
                        let writer = thread::Builder::new()
                            .name(name)
                            .spawn_scoped(inner, move || write(thread_number, begun));
                        // Joining also waits until the thread has dropped its thread-locals; a
                        // scope does not.
                        writer.unwrap().join().unwrap();
                    });
                }
            });
        }
    });
}

fn write(thread_number: u32, begun: &PacketsBegun) {
    for number in 0..PACKETS_PER_THREAD {
        write_to::<Drops>(thread_number, number, Some(&begun[0]));
        write_to::<Stalls>(thread_number, number, Some(&begun[1]));
        write_to::<StallsThenDrops>(thread_number, number, Some(&begun[2]));
        write_to::<Brief>(thread_number, number, None);
    }
}

fn write_to<D: DataSource>(thread_number: u32, number: u64, begun: Option<&AtomicU64>) {
    D::trace(|cx| {
        if let Some(begun) = begun {
            // Relaxed: read after the threads were joined.
            begun.fetch_add(1, Ordering::Relaxed);
        }
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_seq_value(thread_number);
                event.set_counter(number);
                event.set_str(text(thread_number, number));
            });
        });
    });
}

/// Returns the text of a packet: mostly short, 1 in 50 up to 64 KiB, 1 in 1000 up to 1 MiB.
fn text(thread_number: u32, number: u64) -> &'static str {
    /// Pseudo-random letters, so that no two parts are equal.
    static LETTERS: LazyLock<String> = LazyLock::new(|| {
        let letter = |position| char::from(b'0' + (mix(position) % 75) as u8);
        (0..2 * TEXT_MAX_BYTES).map(letter).collect()
    });
    let random = mix(u64::from(thread_number) << 32 | number);
    let max_bytes = match random % 1000 {
        0 => TEXT_MAX_BYTES,
        1..=20 => 64 * 1024,
        _ => 500,
    };
    let len = 10 + (random >> 10) % (max_bytes - 10);
    let start = (random >> 32) % TEXT_MAX_BYTES;
    &LETTERS[start as usize..][..len as usize]
}

/// Returns a pseudo-random number for `number` (splitmix64).
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

fn check_sum(account: &SequenceAccount) {
    let found = account.read + account.buffered + account.in_flight + account.removed;
    assert_eq!(account.begun, found + account.lost(), "{account}");
}

/// Checks the account of a session, which no thread writes to any more, against its trace.
fn check(trace: &[u8], report: &Report, begun: u64) {
    assert_eq!(report.packets_begun, begun, "{report:#}");
    let read = read_back(trace);
    for account in &report.sequences {
        check_sum(account);
        assert_eq!(account.in_flight, 0, "{account}");
        let id = account.sequence_id.unwrap_or(0);
        let in_trace = read.get(&id).copied().unwrap_or(0);
        assert_eq!(account.read, in_trace, "{account}");
    }
    assert_eq!(
        read.values().sum::<u64>(),
        report.packets_read,
        "{report:#}"
    );
}

/// Checks a snapshot against the account that it contains.
fn check_snapshot(control: &SessionControl) {
    let snapshot = control.snapshot().unwrap();
    let read = read_back(snapshot.trace());
    let mut in_account = BTreeMap::new();
    for packet in TraceDecoder::new(snapshot.trace()).packet() {
        let Some(accounts) = packet.unwrap().sequence_accounts().unwrap() else {
            continue;
        };
        in_account.clear();
        for account in accounts.sequences() {
            let account = account.unwrap();
            let read = account.read().unwrap().unwrap();
            let sum = [
                account.buffered(),
                account.in_flight(),
                account.removed(),
                account.dropped(),
                account.overwritten(),
                account.discarded(),
                account.late(),
                account.aborted(),
                account.corrupted(),
                account.invalid(),
                account.file_full(),
                account.write_failed(),
            ];
            let sum: u64 = sum.map(|count| count.unwrap().unwrap()).iter().sum();
            assert_eq!(account.begun().unwrap(), Some(read + sum));
            if read > 0 {
                in_account.insert(account.sequence_id().unwrap().unwrap(), read);
            }
        }
    }
    assert_eq!(in_account, read);
}

/// Counts the packets of each sequence. Checks that each packet has the bytes that its thread
/// wrote, that the packets of a thread are in order, and that a packet after missing ones is
/// marked.
fn read_back(trace: &[u8]) -> BTreeMap<u32, u64> {
    let trace = Trace::parse_from_bytes(trace).expect("a well-formed trace");
    let mut packets: BTreeMap<u32, u64> = BTreeMap::new();
    let mut last: HashMap<u32, u64> = HashMap::new();
    for packet in trace.packet {
        if !packet.has_for_testing() {
            continue;
        }
        let event = packet.for_testing();
        let (thread_number, number) = (event.seq_value(), event.counter());
        assert!(
            event.str() == text(thread_number, number),
            "thread {thread_number}: {number} is damaged"
        );
        if let Some(last) = last.insert(thread_number, number) {
            assert!(
                number > last,
                "thread {thread_number}: {number} after {last}"
            );
            assert!(
                number == last + 1 || packet.previous_packet_dropped(),
                "thread {thread_number}: {number} after {last}, without a word"
            );
        }
        *packets
            .entry(packet.trusted_packet_sequence_id())
            .or_default() += 1;
    }
    packets
}
