//! Checks that a session accounts for every packet: each packet that was begun is in the trace,
//! unchanged and in order, or is counted as lost. The packet after a loss is marked.
//!
//! Four threads write a million numbered packets. Most are short; some are longer than several
//! chunks.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use support::alone;
use tracezero::protos::{TraceDecoder, TracePacketDecoder};
use tracezero::testing::Trace;
use tracezero::{
    BufferConfig, DataSource as _, DataSourceConfig, InMemorySession, Report, TraceConfig,
    data_source,
};

struct Numbered;
data_source!(Numbered, "com.example.numbered");

const WRITERS: u32 = 4;
const PACKETS_PER_WRITER: u64 = 250_000;
const PACKETS: u64 = WRITERS as u64 * PACKETS_PER_WRITER;

#[test]
fn large_enough_ring_returns_every_packet() {
    let _guard = alone();
    let session = record_into(BufferConfig::ring(600 * 1024));
    write_from_all_threads(PACKETS_PER_WRITER);
    let (trace, report) = session.finish();

    assert_eq!(report.packets_begun, PACKETS, "{report}");
    assert_eq!(report.packets_read, PACKETS, "{report}");
    assert_eq!(report.data_packets, PACKETS);
    assert_eq!(report.losses.total(), 0, "{report}");
    let read = read_back(&trace);
    assert_eq!(read.len(), WRITERS as usize);
    for (writer, read) in read {
        assert_eq!(read.packets, PACKETS_PER_WRITER, "writer {writer}");
        assert_eq!(read.gaps, 0, "writer {writer}");
    }
}

#[test]
fn lapped_ring_keeps_newest_packets_and_counts_others() {
    let _guard = alone();
    let session = record_into(BufferConfig::ring(1024));
    write_from_all_threads(PACKETS_PER_WRITER);
    let (trace, report) = session.finish();

    let read = check_account(&trace, &report, PACKETS);
    assert!(report.losses.overwritten > 0, "{report}");
    assert_eq!(report.losses.overwritten, report.losses.total(), "{report}");
    // A writer whose packets were all overwritten does not appear in the trace.
    assert!(!read.is_empty());
    assert!(
        read.values()
            .any(|read| read.last == PACKETS_PER_WRITER - 1),
        "the very last packet is the newest of all"
    );
    for (writer, read) in read {
        assert_eq!(read.gaps, 1, "writer {writer}: the oldest are missing");
    }
}

#[test]
fn discard_buffer_keeps_first_packets_and_counts_others() {
    let _guard = alone();
    let session = record_into(BufferConfig::discard(1024));
    write_from_all_threads(PACKETS_PER_WRITER);
    let (trace, report) = session.finish();

    let read = check_account(&trace, &report, PACKETS);
    assert!(report.losses.discarded > 0, "{report}");
    assert_eq!(report.losses.overwritten, 0, "{report}");
    assert!(!read.is_empty());
    for (writer, read) in read {
        assert_eq!((read.first, read.gaps), (0, 0), "writer {writer}");
    }
}

#[test]
fn concurrent_sessions_have_separate_accounts() {
    let _guard = alone();
    let packets_per_writer = PACKETS_PER_WRITER / 10;
    let packets = packets_per_writer * u64::from(WRITERS);
    let sessions = [
        BufferConfig::ring(60 * 1024),
        BufferConfig::ring(256),
        BufferConfig::discard(256),
    ]
    .map(record_into);
    write_from_all_threads(packets_per_writer);
    let reports = sessions.map(|session| {
        let (trace, report) = session.finish();
        check_account(&trace, &report, packets);
        report
    });
    assert_eq!(reports[0].packets_read, packets);
    assert!(reports[1].losses.overwritten > 0, "{}", reports[1]);
    assert!(reports[2].losses.discarded > 0, "{}", reports[2]);
}

/// Threads keep writing while sessions start and finish. Each session's account has exactly the
/// packets that it saw.
#[test]
fn account_closes_while_threads_still_write() {
    let _guard = alone();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let stop = &stop;
            scope.spawn(move || {
                let mut number = 0;
                // Relaxed: a flag that orders no other memory.
                while !stop.load(Ordering::Relaxed) {
                    write(writer, number);
                    number += 1;
                }
            });
        }
        let outcome = std::panic::catch_unwind(|| {
            for round in 0..200 {
                let config = match round % 2 {
                    0 => BufferConfig::ring(512),
                    _ => BufferConfig::discard(512),
                };
                let session = record_into(config);
                thread::sleep(std::time::Duration::from_millis(round % 7));
                let (trace, report) = session.finish();
                let accounted = report.packets_read + report.losses.begun_packets();
                assert_eq!(report.packets_begun, accounted, "round {round}: {report}");
                // Each thread has at most one unfinished packet.
                assert!(
                    report.losses.unfinished <= u64::from(WRITERS),
                    "round {round}: {report}"
                );
                let read: u64 = read_back(&trace).values().map(|read| read.packets).sum();
                assert_eq!(read, report.packets_read, "round {round}: {report}");
            }
        });
        // Relaxed: a flag that orders no other memory.
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Checks that every packet is in the trace or counted as lost, and that those in the trace are
/// correct.
fn check_account(trace: &[u8], report: &Report, packets: u64) -> BTreeMap<u32, WriterPackets> {
    let read = read_back(trace);
    let packets_read: u64 = read.values().map(|read| read.packets).sum();
    assert_eq!(report.packets_begun, packets, "{report}");
    assert_eq!(report.packets_read, packets_read, "{report}");
    assert_eq!(
        report.packets_begun,
        report.packets_read + report.losses.begun_packets(),
        "{report}"
    );
    // All threads have ended, and always found free shared memory.
    let losses = report.losses;
    assert_eq!(
        (losses.unfinished, losses.dropped, losses.aborted),
        (0, 0, 0),
        "{report}"
    );
    read
}

/// Starts a session that records into `buffer`, with 256 KiB of shared memory in pages of 4 KiB: 64
/// chunks for all writers.
fn record_into(buffer: BufferConfig) -> InMemorySession {
    TraceConfig::empty()
        .shared_memory(256, 4)
        .add_buffer(buffer)
        .add_data_source(DataSourceConfig::new("com.example.numbered"))
        .record_in_memory()
        .unwrap()
}

fn write_from_all_threads(packets_per_writer: u64) {
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            thread::spawn(move || (0..packets_per_writer).for_each(|number| write(writer, number)))
        })
        .collect();
    // Joins the threads itself: a scope may end before its threads have dropped their
    // thread-locals.
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
}

fn write(writer: u32, number: u64) {
    Numbered::trace(|cx| {
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_seq_value(writer);
                event.set_counter(number);
                event.set_str(text(writer, number));
            });
        });
    });
}

/// Returns the text of a packet: 10 to 500 bytes, and up to 20,000 in one of a hundred packets.
fn text(writer: u32, number: u64) -> &'static str {
    const LEN_MAX: u64 = 20_000;
    /// Pseudo-random letters, so that no two parts are equal.
    static LETTERS: LazyLock<String> = LazyLock::new(|| {
        let letter = |position| char::from(b'0' + (mix(position) % 75) as u8);
        (0..2 * LEN_MAX).map(letter).collect()
    });
    let random = mix(number << 8 | u64::from(writer));
    let len_range = if random.is_multiple_of(100) {
        500..LEN_MAX
    } else {
        10..500
    };
    let len = len_range.start + (random >> 16) % (len_range.end - len_range.start + 1);
    let start = (random >> 40) % LEN_MAX;
    &LETTERS[start as usize..][..len as usize]
}

/// Returns a pseudo-random number for `number` (splitmix64).
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// The packets of one writer in a trace.
struct WriterPackets {
    sequence_id: u32,
    packets: u64,
    first: u64,
    last: u64,
    /// The number of places where packets are missing, including the start.
    gaps: u64,
}

/// Reads the packets of all writers. Checks that each is intact, that the numbers rise on every
/// sequence, and that exactly the packets after a gap are marked.
fn read_back(trace: &[u8]) -> BTreeMap<u32, WriterPackets> {
    Trace::read(trace).unwrap().assert_well_formed();
    let mut all: BTreeMap<u32, WriterPackets> = BTreeMap::new();
    for packet in TraceDecoder::new(trace).packet() {
        let packet: TracePacketDecoder<'_> = packet.unwrap();
        let Some(event) = packet.for_testing().unwrap() else {
            continue;
        };
        let writer = event.seq_value().unwrap().unwrap();
        let number = event.counter().unwrap().unwrap();
        assert_eq!(
            event.str().unwrap(),
            Some(text(writer, number)),
            "writer {writer}: {number}"
        );
        let sequence_id = packet.trusted_packet_sequence_id().unwrap().unwrap();
        let says_lost = packet.previous_packet_dropped().unwrap().unwrap_or(0) != 0;
        let is_first = packet.first_packet_on_sequence().unwrap().unwrap_or(false);
        let Some(read) = all.get_mut(&writer) else {
            all.insert(
                writer,
                WriterPackets {
                    sequence_id,
                    packets: 1,
                    first: number,
                    last: number,
                    gaps: u64::from(!is_first),
                },
            );
            assert_eq!(says_lost, !is_first, "writer {writer}: {number}");
            continue;
        };
        assert_eq!(read.sequence_id, sequence_id, "writer {writer}");
        assert!(!is_first, "writer {writer}: {number}");
        assert!(
            number > read.last,
            "writer {writer}: {number} after {}",
            read.last
        );
        let is_gap = number != read.last + 1;
        assert_eq!(
            says_lost, is_gap,
            "writer {writer}: {number} after {}",
            read.last
        );
        read.gaps += u64::from(is_gap);
        read.packets += 1;
        read.last = number;
    }
    all
}
