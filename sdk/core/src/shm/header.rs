//! The header of a chunk in memory: copying it, and clearing it before the chunk is freed.

use super::layout::{ChunkHeader, PacketsWord};
use super::sync::Ordering;
use crate::ids::{ChunkId, WriterId};

/// A copy of a chunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedHeader {
    /// The id of the trace writer.
    pub writer_id: WriterId,
    /// The position of the chunk in the trace writer's sequence.
    pub chunk_id: ChunkId,
    /// The fragment count and flags.
    pub packets: PacketsWord,
}

impl ChunkHeader {
    /// Copies the header. Reads each word once.
    pub(super) fn load(&self) -> CopiedHeader {
        // Acquire pairs with the release in `WritableChunk::store_packets`. So the two relaxed
        // loads below also see the ids that belong to this count.
        let packets = PacketsWord::from_bits(self.packets.load(Ordering::Acquire));
        CopiedHeader {
            writer_id: WriterId(self.writer_id.load(Ordering::Relaxed)),
            chunk_id: ChunkId(self.chunk_id.load(Ordering::Relaxed)),
            packets,
        }
    }

    /// Zeroes the header.
    pub(super) fn clear(&self) {
        // These relaxed stores and the release store pair as those in `WritableChunk::new` do.
        self.writer_id.store(0, Ordering::Relaxed);
        self.chunk_id.store(0, Ordering::Relaxed);
        self.packets.store(0, Ordering::Release);
    }
}
