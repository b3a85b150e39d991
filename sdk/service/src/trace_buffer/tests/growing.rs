//! Tests of rings that grow by segments and shrink again.

use super::super::*;
use super::{assert_consistent, counts, whole_packets};

const MIB: u64 = 1 << 20;
/// The payload size of chunks. With their headers, 512 of them fill a segment.
const PAYLOAD_BYTES: usize = 4080;
const CHUNKS_PER_SEGMENT: u32 = 512;

/// Commits chunks of two packets each. Their ids begin at `first`.
fn commit(buffer: &mut TraceBuffer, first: u32, chunks: u32) {
    let mut payload = vec![0; PAYLOAD_BYTES];
    // The sizes of both packets: 2038, in two bytes.
    payload[..2].copy_from_slice(&[0xf6, 0x0f]);
    payload[PAYLOAD_BYTES / 2..][..2].copy_from_slice(&[0xf6, 0x0f]);
    for id in first..first + chunks {
        payload[2..6].copy_from_slice(&id.to_le_bytes());
        buffer.commit_chunk(&whole_packets(id, &payload));
    }
}

/// Reads everything. Returns the chunk ids that the packets begin with.
fn read_ids(buffer: &mut TraceBuffer) -> Vec<u32> {
    let mut ids = Vec::new();
    buffer.begin_read();
    while let Some(packet) = buffer.read_packet() {
        let bytes = packet.slices().next().unwrap();
        ids.push(u32::from_le_bytes(bytes[..4].try_into().unwrap()));
    }
    // Only every second packet begins with an id.
    ids.into_iter().step_by(2).collect()
}

#[test]
fn a_ring_grows_while_nobody_reads() {
    let mut buffer = TraceBuffer::growing(16 * MIB).unwrap();
    assert_eq!(
        (buffer.size_bytes(), buffer.capacity_bytes()),
        (2 * MIB, 16 * MIB)
    );
    for segment in 0..8 {
        commit(
            &mut buffer,
            segment * CHUNKS_PER_SEGMENT,
            CHUNKS_PER_SEGMENT,
        );
        assert_eq!(buffer.size_bytes(), u64::from(segment + 1) * 2 * MIB);
        assert_consistent(&buffer);
    }
    assert_eq!(counts(&buffer).lost(), 0);
    assert_eq!(
        read_ids(&mut buffer),
        Vec::from_iter(0..8 * CHUNKS_PER_SEGMENT)
    );
    assert_consistent(&buffer);
}

#[test]
fn a_ring_overwrites_the_oldest_chunks_at_its_limit() {
    let mut buffer = TraceBuffer::growing(4 * MIB).unwrap();
    commit(&mut buffer, 0, 3 * CHUNKS_PER_SEGMENT);
    assert_eq!(
        (buffer.size_bytes(), buffer.peak_bytes()),
        (4 * MIB, 4 * MIB)
    );
    assert_eq!(
        counts(&buffer).overwritten,
        2 * u64::from(CHUNKS_PER_SEGMENT)
    );
    assert_consistent(&buffer);
    let newest = CHUNKS_PER_SEGMENT..3 * CHUNKS_PER_SEGMENT;
    assert_eq!(read_ids(&mut buffer), Vec::from_iter(newest));
}

#[test]
fn a_ring_whose_reader_keeps_up_stays_small() {
    let mut buffer = TraceBuffer::growing(64 * MIB).unwrap();
    for round in 0..100 {
        commit(&mut buffer, round * 100, 100);
        assert_eq!(read_ids(&mut buffer).len(), 100);
        while buffer.shrink() {}
        assert_consistent(&buffer);
    }
    assert!(buffer.peak_bytes() <= 6 * MIB, "{}", buffer.peak_bytes());
}

#[test]
fn a_ring_that_was_read_shrinks_and_grows_again() {
    let mut buffer = TraceBuffer::growing(64 * MIB).unwrap();
    let mut next = 0;
    for _ in 0..3 {
        commit(&mut buffer, next, 10 * CHUNKS_PER_SEGMENT);
        assert!(buffer.size_bytes() >= 18 * MIB, "{}", buffer.size_bytes());
        assert!(!buffer.shrink(), "nothing was read");
        let read = Vec::from_iter(next..next + 10 * CHUNKS_PER_SEGMENT);
        assert_eq!(read_ids(&mut buffer), read);
        while buffer.shrink() {
            assert_consistent(&buffer);
        }
        assert_eq!(buffer.size_bytes(), 6 * MIB);
        assert!(!buffer.take_removed_segments().is_empty());
        next += 10 * CHUNKS_PER_SEGMENT;
    }
    assert!(buffer.peak_bytes() <= 26 * MIB, "{}", buffer.peak_bytes());
    assert_eq!(counts(&buffer).lost(), 0);
}

#[test]
fn spare_memory_is_what_the_ring_grows_with() {
    let mut buffer = TraceBuffer::growing(6 * MIB).unwrap();
    let mut next = 0;
    for _ in 0..2 {
        assert!(!buffer.wants_spare_segment(), "there is time");
        commit(&mut buffer, next, CHUNKS_PER_SEGMENT / 2 + 1);
        assert!(buffer.wants_spare_segment());
        buffer.add_spare_segment(SegmentMemory::map_ahead(SEGMENT_BYTES as u32, None).unwrap());
        assert!(!buffer.wants_spare_segment());
        // These fill the rest of the segment and begin the next one.
        next += CHUNKS_PER_SEGMENT / 2 + 1;
        commit(&mut buffer, next, CHUNKS_PER_SEGMENT / 2);
        next += CHUNKS_PER_SEGMENT / 2;
    }
    assert_eq!(buffer.size_bytes(), 6 * MIB);
    assert!(!buffer.wants_spare_segment(), "it cannot grow any further");
}

/// Compares a growing ring with a large ring of fixed size. A packet of each writer continues in
/// its next chunk, which often lies in another segment.
#[test]
fn packets_across_segments_are_whole() {
    let mut growing = TraceBuffer::growing(64 * MIB).unwrap();
    let mut fixed = TraceBuffer::new(64 * MIB, FillPolicy::Ring).unwrap();
    let crossing = ChunkFlags::FIRST_PACKET_CONTINUES.union(ChunkFlags::LAST_PACKET_CONTINUES);
    let mut payload = vec![7; PAYLOAD_BYTES];
    payload[..2].copy_from_slice(&[0xf6, 0x0f]);
    payload[PAYLOAD_BYTES / 2..][..2].copy_from_slice(&[0xf6, 0x0f]);
    let mut packets = 0;
    for number in 0..8_000_u32 {
        payload[2..6].copy_from_slice(&number.to_le_bytes());
        let id = number / 3;
        let flags = match id {
            0 => ChunkFlags::LAST_PACKET_CONTINUES,
            _ => crossing,
        };
        for buffer in [&mut growing, &mut fixed] {
            buffer.commit_chunk(&UntrustedChunk {
                writer_id: WriterId(1 + (number % 3) as u16),
                flags,
                ..whole_packets(id, &payload)
            });
        }
        // Read in the middle of packets, more and more rarely.
        if number.is_power_of_two() || number % 700 == 0 {
            growing.begin_read();
            fixed.begin_read();
            loop {
                let read = growing.read_packet().map(|packet| format!("{packet:?}"));
                assert_eq!(
                    read,
                    fixed.read_packet().map(|packet| format!("{packet:?}"))
                );
                if read.is_none() {
                    break;
                }
                packets += 1;
            }
            while growing.shrink() {}
            assert_consistent(&growing);
        }
    }
    assert!(packets > 7_000, "{packets}");
    assert!(growing.peak_bytes() < 16 * MIB, "{}", growing.peak_bytes());
}
