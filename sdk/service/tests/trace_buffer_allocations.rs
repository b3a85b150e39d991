//! Once a trace buffer is warm, neither commits nor patches nor reads allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tracezero_core::commit::Patch;
use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_service::trace_buffer::{ClientIdentity, FillPolicy, TraceBuffer, UntrustedChunk};

thread_local! {
    /// Allocations of this thread; others, as the test harness, do not disturb it.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a counter.
struct Counting;

#[allow(unsafe_code)] // There is no other way to see an allocation.
// SAFETY: every call goes to `System` as it came. The counter has no destructor and needs no
// allocation, so it may be used in here.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is this one's, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `System`, as all do, and with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as in `dealloc`, and the caller vouches for `new_size`.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(during: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    during();
    ALLOCATIONS.get() - before
}

/// Writers that take turns; each packet is as long as the chunks of one turn.
struct Writers {
    count: u16,
    chunks_per_packet: u32,
    next_chunk: u32,
}

impl Writers {
    /// Each writes one packet, in an order in which every second chunk comes too late.
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
            producer_id: ProducerId(1),
            client: ClientIdentity::default(),
            writer_id: WriterId(writer),
            chunk_id: ChunkId(self.next_chunk + place),
            fragment_count: 1,
            flags,
            complete: true,
            payload: &payload,
        });
    }
}

#[test]
fn a_warm_buffer_does_not_allocate() {
    // The last has so many writers that most are forgotten before their next chunk comes.
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
                    buffer.patch_chunk(ProducerId(1), WriterId(count), chunk, &patches, false);
                }
                // Most of the chunks are evicted, in pieces; some are read.
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
        assert_ne!(allocations(|| use_it(turns)), 0, "allocations are seen");
        let seen = allocations(|| use_it(10 * turns));
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
