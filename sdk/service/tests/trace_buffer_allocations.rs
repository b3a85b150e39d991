//! Checks that a trace buffer does not allocate after a warm-up: not for commits, patches or reads.

use support::trace_buffer::chunk;
use support::{Counting, allocations_of};
use tracezero_core::commit::Patch;
use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_service::trace_buffer::{FillPolicy, TraceBuffer, UntrustedChunk};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Writers that take turns. In each turn, each writes one packet that spans all chunks of the turn.
struct Writers {
    count: u16,
    chunks_per_packet: u32,
    next_chunk: u32,
}

impl Writers {
    /// Writes one packet with each writer. Every second chunk is committed out of order.
    fn take_turns(&mut self, buffer: &mut TraceBuffer) {
        for writer in 1..=self.count {
            for place in 0..self.chunks_per_packet {
                let place = (place ^ 1).min(self.chunks_per_packet - 1);
                self.commit(buffer, writer, place);
            }
        }
        self.next_chunk += self.chunks_per_packet;
    }

    fn commit(&self, buffer: &mut TraceBuffer, writer: u16, place: u32) {
        let mut flags = ChunkFlags::default();
        if place != 0 {
            flags = flags.union(ChunkFlags::FIRST_PACKET_CONTINUES);
        }
        if place + 1 != self.chunks_per_packet {
            flags = flags.union(ChunkFlags::LAST_PACKET_CONTINUES);
        }
        let mut payload = [b'_'; 121];
        payload[0] = 120;
        buffer.commit_chunk(&UntrustedChunk {
            writer_id: WriterId(writer),
            flags,
            ..chunk(self.next_chunk + place, 1, &payload)
        });
    }
}

#[test]
fn a_warm_buffer_does_not_allocate() {
    // The last case has so many writers that most are forgotten before their next chunk comes.
    for (count, chunks_per_packet) in [(1, 1), (1, 2), (1, 6), (20, 4), (3000, 1)] {
        let mut writers = Writers {
            count,
            chunks_per_packet,
            next_chunk: 0,
        };
        let mut buffer = TraceBuffer::new(64 * 1024, FillPolicy::Ring).unwrap();
        let mut packets = 0;
        let mut use_it = |turns: u32| {
            for turn in 0..turns {
                writers.take_turns(&mut buffer);
                let patches = [Patch {
                    offset_bytes: 8,
                    data: *b"late",
                }];
                for chunk in [writers.next_chunk - 1, u32::MAX] {
                    let chunk = ChunkId(chunk);
                    buffer.patch_chunk(ProducerId::new(1), WriterId(count), chunk, &patches, false);
                }
                // Most chunks are evicted in pieces, and some are read.
                if turn.is_multiple_of(700) {
                    buffer.begin_read();
                    while let Some(packet) = buffer.read_packet() {
                        packets += 1;
                        assert_eq!(packet.len_bytes(), 120 * chunks_per_packet as usize);
                    }
                }
            }
        };
        let turns = 5000 / (u32::from(count) * chunks_per_packet) + 2;
        assert_ne!(allocations_of(|| use_it(turns)), 0, "allocations are seen");
        let seen = allocations_of(|| use_it(10 * turns));
        assert_eq!(
            seen, 0,
            "{count} writers of {chunks_per_packet} chunks per packet"
        );
        assert!(packets > 0);
        let stats = buffer.stats();
        assert!(stats.patches_succeeded > 0 && stats.patches_failed > 0);
        assert!(stats.chunks_overwritten > 0);
        assert_eq!(
            stats.chunks_committed_out_of_order > 0,
            chunks_per_packet > 1
        );
    }
}
