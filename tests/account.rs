//! The account closes: every packet that was begun is in the trace, byte for byte and in its place,
//! or is counted as lost, and the packet after a loss says so.
//!
//! Four threads write a million numbered packets, of lengths that are mostly small and sometimes
//! larger than several chunks.

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
fn a_ring_with_room_for_all_gives_back_every_packet() {
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
fn a_ring_that_laps_keeps_the_newest_packets_and_counts_the_others() {
    let _guard = alone();
    let session = record_into(BufferConfig::ring(1024));
    write_from_all_threads(PACKETS_PER_WRITER);
    let (trace, report) = session.finish();

    let read = check_account(&trace, &report, PACKETS);
    assert!(report.losses.overwritten > 0, "{report}");
    assert_eq!(report.losses.overwritten, report.losses.total(), "{report}");
    // Writers whose packets were all overwritten are not met at all.
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
fn a_buffer_that_discards_keeps_the_first_packets_and_counts_the_others() {
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
fn sessions_at_the_same_time_have_an_account_each() {
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

/// Threads write on while sessions start and finish: what each session has seen is in its account.
#[test]
fn a_session_that_finishes_while_threads_write_has_a_closed_account() {
    let _guard = alone();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let stop = &stop;
            scope.spawn(move || {
                let mut number = 0;
                // Relaxed: a flag, ordered with nothing.
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
                let accounted = report.packets_read + report.losses.of_packets_begun();
                assert_eq!(report.packets_begun, accounted, "round {round}: {report}");
                // A thread is in the middle of at most one packet.
                assert!(
                    report.losses.unfinished <= u64::from(WRITERS),
                    "round {round}: {report}"
                );
                let read: u64 = read_back(&trace).values().map(|read| read.packets).sum();
                assert_eq!(read, report.packets_read, "round {round}: {report}");
            }
        });
        // Relaxed: as above.
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Checks that everything is in the trace or counted, and that what is there is right.
fn check_account(trace: &[u8], report: &Report, packets: u64) -> BTreeMap<u32, Read> {
    let read = read_back(trace);
    let packets_read: u64 = read.values().map(|read| read.packets).sum();
    assert_eq!(report.packets_begun, packets, "{report}");
    assert_eq!(report.packets_read, packets_read, "{report}");
    assert_eq!(
        report.packets_begun,
        report.packets_read + report.losses.of_packets_begun(),
        "{report}"
    );
    // Every thread has ended, and found shared memory all the time.
    let losses = report.losses;
    assert_eq!(
        (losses.unfinished, losses.dropped, losses.aborted),
        (0, 0, 0),
        "{report}"
    );
    read
}

/// With 256 KiB of shared memory in pages of 4 KiB: 64 chunks for all writers.
fn record_into(buffer: BufferConfig) -> InMemorySession {
    TraceConfig::new()
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
    // Not a scope: it ends before its threads have dropped what they keep.
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

/// The text of a packet: 10 to 500 bytes, and one in a hundred up to 20,000.
fn text(writer: u32, number: u64) -> &'static str {
    const LEN_MAX: u64 = 20_000;
    /// Letters without a pattern, so that no piece looks like another.
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

/// A random number for each number: splitmix64.
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// What a trace has of one writer.
struct Read {
    sequence_id: u32,
    packets: u64,
    first: u64,
    last: u64,
    /// Places where packets are missing, the start included.
    gaps: u64,
}

/// Reads the packets of all writers. Checks that each is intact, that numbers rise on every
/// sequence, and that exactly those after a gap say that others were lost.
fn read_back(trace: &[u8]) -> BTreeMap<u32, Read> {
    Trace::read(trace).unwrap().assert_well_formed();
    let mut all: BTreeMap<u32, Read> = BTreeMap::new();
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
                Read {
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
