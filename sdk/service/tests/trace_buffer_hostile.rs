//! Producers that try to keep the service busy. If the cost of a commit or a patch grew with the
//! contents of the buffer, these tests would practically not end.

use support::trace_buffer::chunk;
use tracezero_core::commit::Patch;
use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_service::trace_buffer::{FillPolicy, TraceBuffer, UntrustedChunk};

fn commit(buffer: &mut TraceBuffer, writer: u16, id: u32, flags: ChunkFlags, payload: &[u8]) {
    buffer.commit_chunk(&UntrustedChunk {
        writer_id: WriterId(writer),
        flags,
        ..chunk(id, 1, payload)
    });
}

/// Commits chunks of one packet each. Their ids are shuffled and `stride` apart.
fn commit_shuffled(buffer: &mut TraceBuffer, count: u32, stride: u32) {
    assert!(count.is_power_of_two());
    for i in 0..count {
        // Multiplication by an odd number permutes the numbers below a power of two.
        let shuffled = i.wrapping_mul(0x9e37_79b1) & (count - 1);
        let mut payload = [4, 0, 0, 0, 0];
        payload[1..].copy_from_slice(&shuffled.to_le_bytes());
        commit(
            buffer,
            1,
            shuffled * stride,
            ChunkFlags::default(),
            &payload,
        );
    }
}

#[test]
fn tiny_chunks_in_random_order_come_out_in_order() {
    const COUNT: u32 = 1 << 17;
    let mut buffer = TraceBuffer::new(u64::from(COUNT) * 64, FillPolicy::Ring).unwrap();
    commit_shuffled(&mut buffer, COUNT, 1);
    assert_eq!(buffer.stats().chunks_overwritten, 0);
    buffer.begin_read();
    for expected in 0..COUNT {
        let packet = buffer.read_packet().expect("there are more");
        assert!(packet.loss().is_empty());
        assert_eq!(
            packet.slices().next(),
            Some(expected.to_le_bytes().as_slice())
        );
    }
    assert!(buffer.read_packet().is_none());
}

#[test]
fn tiny_chunks_in_random_order_overflow_a_ring_fast() {
    // Once the buffer is full, each commit evicts. Most chunks come when a newer chunk of their
    // sequence was already evicted, so they are late.
    let mut buffer = TraceBuffer::new(1 << 20, FillPolicy::Ring).unwrap();
    commit_shuffled(&mut buffer, 1 << 19, 1);
    let stats = *buffer.stats();
    assert!(stats.chunks_overwritten > 0 && stats.chunks_discarded > 0);
    assert_eq!(stats.chunks_written + stats.chunks_discarded, 1 << 19);
    assert!(buffer.storage_balance().is_even());
}

#[test]
fn patches_to_absent_chunks_are_refused_fast() {
    const CHUNKS: u32 = 1 << 16;
    const PATCHES: u32 = 1 << 20;
    let mut buffer = TraceBuffer::new(u64::from(CHUNKS) * 64, FillPolicy::Ring).unwrap();
    // Every second id is missing, so positions cannot be computed from ids.
    commit_shuffled(&mut buffer, CHUNKS, 2);
    let patches = [Patch {
        offset_bytes: 1,
        data: [0; 4],
    }];
    for i in 0..PATCHES {
        let absent = ChunkId(2 * i + 1);
        assert!(!buffer.patch_chunk(ProducerId::new(1), WriterId(1), absent, &patches, false));
    }
    assert_eq!(buffer.stats().patches_failed, u64::from(PATCHES));
}

#[test]
fn the_maximum_number_of_writers_is_accounted_for() {
    const TURNS: u32 = 8;
    let writers = 1..=WriterId::MAX.0;
    let mut buffer = TraceBuffer::new(1 << 20, FillPolicy::Ring).unwrap();
    for id in 0..TURNS {
        for writer in writers.clone() {
            commit(&mut buffer, writer, id, ChunkFlags::default(), b"\x04four");
        }
    }
    assert_eq!(buffer.all_packet_counts().count(), writers.len());
    for (_, _, counts) in buffer.all_packet_counts() {
        assert_eq!(counts.committed(), u64::from(TURNS));
        assert_eq!(counts.overwritten + counts.unread, u64::from(TURNS));
    }
}

#[test]
fn packet_without_end_is_evicted_in_one_walk() {
    // One packet spans 65,536 chunks. Then all of it is overwritten several times.
    const CHUNKS: u32 = 1 << 16;
    let (first, last) = (
        ChunkFlags::FIRST_PACKET_CONTINUES,
        ChunkFlags::LAST_PACKET_CONTINUES,
    );
    let mut buffer = TraceBuffer::new(u64::from(CHUNKS) * 64, FillPolicy::Ring).unwrap();
    for id in 0..4 * CHUNKS {
        let flags = if id == 0 { last } else { first.union(last) };
        commit(&mut buffer, 1, id, flags, b"\x04four");
    }
    let counts = buffer
        .packet_counts(ProducerId::new(1), WriterId(1))
        .unwrap();
    assert_eq!((counts.overwritten, counts.committed()), (1, 1));
    assert_eq!(buffer.stats().readaheads_failed, 1);
    buffer.begin_read();
    assert!(buffer.read_packet().is_none());
}
