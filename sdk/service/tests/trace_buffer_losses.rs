//! Tests of losses, statistics and limits of the trace buffer where Perfetto's own buffer is known
//! to be wrong, and the counts of packets by cause of loss.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use support::trace_buffer::chunk;
use tracezero_core::commit::Patch;
use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_service::trace_buffer::{
    BufferError, FillPolicy, LossMask, PacketCounts, TraceBuffer, UntrustedChunk,
};

const PRODUCER: ProducerId = ProducerId::new(1);
const WRITER: WriterId = WriterId(1);
const BEGINS: ChunkFlags = ChunkFlags::LAST_PACKET_CONTINUES;
const ENDS: ChunkFlags = ChunkFlags::FIRST_PACKET_CONTINUES;

/// The mark of a packet that its writer gave up.
const ABORTED: &[u8] = &[0xff, 0xff, 0xff, 0x7f];

fn ring() -> TraceBuffer {
    TraceBuffer::new(4096, FillPolicy::Ring).unwrap()
}

/// Commits a complete chunk of fragments with one byte each.
fn commit(buffer: &mut TraceBuffer, id: u32, flags: ChunkFlags, fragments: &str) {
    let payload: Vec<u8> = fragments.bytes().flat_map(|byte| [1, byte]).collect();
    commit_bytes(buffer, id, flags, fragments.len() as u16, &payload);
}

fn commit_bytes(buffer: &mut TraceBuffer, id: u32, flags: ChunkFlags, count: u16, payload: &[u8]) {
    buffer.commit_chunk(&UntrustedChunk {
        flags,
        ..chunk(id, count, payload)
    });
}

/// Commits packets of another writer until everything that was in the buffer is overwritten.
fn overwrite_all(buffer: &mut TraceBuffer) {
    for id in 0..128 {
        buffer.commit_chunk(&UntrustedChunk {
            writer_id: WriterId(2),
            ..chunk(id, 1, b"\x04four")
        });
    }
}

/// Reads the next packet of the present read cycle: its bytes, and the loss before it.
fn next(buffer: &mut TraceBuffer) -> Option<(String, LossMask)> {
    let packet = buffer.read_packet()?;
    let bytes = packet.slices().collect::<Vec<_>>().concat();
    Some((String::from_utf8(bytes).unwrap(), packet.loss()))
}

/// Reads all packets of the first writer in a new read cycle.
fn read_all(buffer: &mut TraceBuffer) -> Vec<(String, LossMask)> {
    buffer.begin_read();
    std::iter::from_fn(|| next(buffer))
        .filter(|(bytes, _)| bytes != "four")
        .collect()
}

fn packets(expected: &[(&str, LossMask)]) -> Vec<(String, LossMask)> {
    expected
        .iter()
        .map(|&(bytes, loss)| (bytes.to_owned(), loss))
        .collect()
}

fn counts(buffer: &TraceBuffer) -> PacketCounts {
    buffer.packet_counts(PRODUCER, WRITER).unwrap()
}

#[test]
fn each_gap_in_one_read_is_reported_behind_it() {
    for ids in [[1, 3, 5], [5, 1, 3], [3, 5, 1]] {
        let mut buffer = ring();
        for id in ids {
            let name = ["", "a", "", "b", "", "c"][id as usize];
            commit(&mut buffer, id, ChunkFlags::NONE, name);
        }
        let expected = [
            ("a", LossMask::NONE),
            ("b", LossMask::READ_GAP),
            ("c", LossMask::READ_GAP),
        ];
        assert_eq!(read_all(&mut buffer), packets(&expected), "{ids:?}");
    }
}

#[test]
fn a_gap_before_a_packet_does_not_destroy_it() {
    for ids in [[1, 3, 4], [4, 1, 3]] {
        let mut buffer = ring();
        for id in ids {
            match id {
                1 => commit(&mut buffer, 1, ChunkFlags::NONE, "a"),
                3 => commit(&mut buffer, 3, BEGINS, "y"),
                _ => commit(&mut buffer, 4, ENDS, "z"),
            }
        }
        let expected = [("a", LossMask::NONE), ("yz", LossMask::READ_GAP)];
        assert_eq!(read_all(&mut buffer), packets(&expected), "{ids:?}");
        assert_eq!(counts(&buffer).lost(), 0);
    }
}

#[test]
fn a_gap_is_reported_once_however_often_reading_is_resumed() {
    let mut buffer = ring();
    commit(&mut buffer, 0, ChunkFlags::NONE, "a");
    assert_eq!(read_all(&mut buffer).len(), 1);
    commit(&mut buffer, 2, ChunkFlags::NONE, "pqr");
    let expected = [
        ("p", LossMask::READ_GAP),
        ("q", LossMask::NONE),
        ("r", LossMask::NONE),
    ];
    for packet in packets(&expected) {
        buffer.begin_read();
        assert_eq!(next(&mut buffer), Some(packet));
    }
    buffer.begin_read();
    assert_eq!(next(&mut buffer), None);
}

#[test]
fn an_aborted_packet_is_reported_on_the_packet_behind_it() {
    let mut buffer = ring();
    let payload = [b"\x01a\x01b".as_slice(), ABORTED].concat();
    commit_bytes(&mut buffer, 0, ChunkFlags::NONE, 3, &payload);
    commit(&mut buffer, 1, ChunkFlags::NONE, "cd");
    let expected = [
        ("a", LossMask::NONE),
        ("b", LossMask::NONE),
        ("c", LossMask::WRITER_ABORT),
        ("d", LossMask::NONE),
    ];
    assert_eq!(read_all(&mut buffer), packets(&expected));
    assert_eq!(buffer.stats().trace_writer_packet_loss, 1);
}

#[test]
fn overwrite_is_reported_once_on_the_next_packet() {
    let mut buffer = ring();
    commit(&mut buffer, 0, ChunkFlags::NONE, "ab");
    overwrite_all(&mut buffer);
    commit(&mut buffer, 1, ChunkFlags::NONE, "cd");
    let expected = [("c", LossMask::OVERWRITE), ("d", LossMask::NONE)];
    assert_eq!(read_all(&mut buffer), packets(&expected));
}

#[test]
fn commit_that_evicts_newer_chunks_reports_loss_behind_it() {
    let mut buffer = ring();
    let large = |fill| [&[0xb6, 0x17], [fill; 2998].as_slice()].concat();
    commit_bytes(&mut buffer, 2, ChunkFlags::NONE, 1, &large(b'b'));
    commit_bytes(&mut buffer, 1, ChunkFlags::NONE, 1, &large(b'a'));
    commit(&mut buffer, 3, ChunkFlags::NONE, "c");
    let older = "a".repeat(2998);
    let expected = [(older.as_str(), LossMask::NONE), ("c", LossMask::OVERWRITE)];
    assert_eq!(read_all(&mut buffer), packets(&expected));
}

#[test]
fn statistics_balance_for_empty_growing_and_padded_chunks() {
    let mut buffer = ring();
    commit(&mut buffer, 0, ChunkFlags::NONE, "");
    // The chunk is read while it is incomplete and then grows in place, so it is read twice.
    let scraped = UntrustedChunk {
        complete: false,
        ..chunk(1, 2, b"\x01a\x01b____")
    };
    buffer.commit_chunk(&scraped);
    assert_eq!(read_all(&mut buffer).len(), 1);
    buffer.commit_chunk(&UntrustedChunk {
        fragment_count: 3,
        payload: b"\x01a\x01b\x01c__",
        ..scraped
    });
    assert_eq!(read_all(&mut buffer), packets(&[("b", LossMask::NONE)]));
    let balance = buffer.storage_balance();
    assert!(balance.is_even(), "{balance:?}");
    assert_eq!(balance.written.chunks, 2);
    assert_eq!((balance.reopened.chunks, balance.read.chunks), (1, 2));
    assert_eq!(balance.empty.chunks, 1);

    // Chunks that do not exactly cover old slots leave padding.
    for (id, size) in (2..200).zip([1, 40, 3, 100, 77].into_iter().cycle()) {
        commit(&mut buffer, id, ChunkFlags::NONE, &"x".repeat(size));
        let balance = buffer.storage_balance();
        assert!(balance.is_even(), "{balance:?}");
    }
    let balance = buffer.storage_balance();
    assert!(balance.padding_bytes_written > 0 && balance.overwritten.chunks > 0);
    assert!(buffer.stats().write_wrap_count > 0);
}

#[test]
fn a_clone_keeps_the_statistics_of_writers() {
    let mut buffer = ring();
    commit(&mut buffer, 0, ChunkFlags::NONE, "abc");
    commit(&mut buffer, 1, ChunkFlags::NONE, "defghijklmnopqrstuvwxyz");
    assert_eq!(read_all(&mut buffer).len(), 26);
    let clone = buffer.clone_read_only().unwrap();
    let histogram = clone.writer_histogram(PRODUCER, WRITER);
    assert_eq!(histogram, buffer.writer_histogram(PRODUCER, WRITER));
    let histogram = histogram.unwrap();
    assert_eq!(histogram.counts()[..4], [1, 0, 1, 0]);
    assert_eq!(histogram.sums_bytes()[..4], [6, 0, 46, 0]);
    assert_eq!(counts(&clone), counts(&buffer));
    assert!(clone.storage_balance().is_even());
}

#[test]
fn sizes_that_round_up_to_4_gib_are_refused() {
    for size_kib in 4_194_301..4_194_304 {
        let error = TraceBuffer::new(size_kib * 1024, FillPolicy::Ring).unwrap_err();
        assert!(matches!(error, BufferError::TooLarge { .. }));
        assert!(error.to_string().contains(&(size_kib * 1024).to_string()));
    }
}

#[test]
fn lost_packets_are_counted_by_cause() {
    /// A function that causes one or two losses.
    type Cause = fn(&mut TraceBuffer);
    type Count = fn(&PacketCounts) -> u64;
    let cases: [(&str, Cause, Count, u64); 7] = [
        (
            "overwritten",
            |buffer| {
                commit(buffer, 0, ChunkFlags::NONE, "ab");
                overwrite_all(buffer);
            },
            |counts| counts.overwritten,
            2,
        ),
        (
            "discarded",
            |buffer| commit_bytes(buffer, 0, ChunkFlags::NONE, 2500, &b"\x01a".repeat(2500)),
            |counts| counts.discarded,
            2500,
        ),
        (
            "late",
            |buffer| {
                commit(buffer, 1, ChunkFlags::NONE, "b");
                assert_eq!(read_all(buffer).len(), 1);
                commit(buffer, 0, ChunkFlags::NONE, "a");
            },
            |counts| counts.late,
            1,
        ),
        (
            "gap",
            |buffer| {
                commit(buffer, 0, BEGINS, "a");
                commit(buffer, 2, ENDS, "c");
            },
            |counts| counts.gap,
            1,
        ),
        (
            "broken_chain",
            |buffer| {
                commit(buffer, 0, BEGINS, "a");
                commit(buffer, 1, ChunkFlags::NONE, "b");
            },
            |counts| counts.broken_chain,
            1,
        ),
        (
            "aborted",
            |buffer| {
                commit(buffer, 0, BEGINS, "a");
                commit_bytes(buffer, 1, ENDS, 1, ABORTED);
                commit(buffer, 2, ChunkFlags::NONE, "c");
            },
            |counts| counts.aborted,
            1,
        ),
        (
            "corrupted",
            |buffer| {
                commit(buffer, 0, ChunkFlags::NONE, "abcd");
                let patch = Patch {
                    offset_bytes: 4,
                    data: [0x7f; 4],
                };
                assert!(buffer.patch_chunk(PRODUCER, WRITER, ChunkId(0), &[patch], false));
            },
            |counts| counts.corrupted,
            2,
        ),
    ];
    for (name, bring_about, counted, expected) in cases {
        let mut buffer = ring();
        bring_about(&mut buffer);
        read_all(&mut buffer);
        let counts = counts(&buffer);
        assert_eq!(counted(&counts), expected, "{name}: {counts:?}");
        assert_eq!(counts.lost(), expected, "{name}: {counts:?}");
        assert_eq!(counts.unread, 0, "{name}");
        assert_eq!(counts.committed(), counts.read + expected, "{name}");
    }
}
