//! Builds chunks for trace buffers.

use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_service::trace_buffer::{ClientIdentity, UntrustedChunk};

/// Returns a complete chunk of whole packets, of writer 1 of producer 1. To change other fields,
/// use the struct update syntax: `UntrustedChunk { complete: false, ..chunk(0, 1, b"\x04four") }`.
#[must_use]
pub fn chunk(id: u32, fragment_count: u16, payload: &[u8]) -> UntrustedChunk<'_> {
    UntrustedChunk {
        producer_id: ProducerId::new(1),
        client: ClientIdentity::default(),
        writer_id: WriterId(1),
        chunk_id: ChunkId(id),
        fragment_count,
        flags: ChunkFlags::NONE,
        complete: true,
        payload,
    }
}
