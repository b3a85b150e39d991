//! A chunk on its way into the buffer, before anything about it is checked.

use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;

/// Who is on the other end of a producer's connection, as the operating system says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientIdentity {
    /// The user that the process runs as; `None` if unknown.
    pub uid: Option<u32>,
    /// The process; `None` if unknown.
    pub pid: Option<u32>,
}

/// A chunk as it stands in the memory of its producer.
///
/// Only `producer_id` and `client` come from the service itself. The rest may be anything: the
/// buffer checks it, and bad values move counters and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct UntrustedChunk<'a> {
    /// The producer that the chunk came from.
    pub producer_id: ProducerId,
    /// Who that producer is. A sequence keeps what came with its first chunk.
    pub client: ClientIdentity,
    /// The writer that wrote the chunk.
    pub writer_id: WriterId,
    /// Position of the chunk in what its writer wrote; wraps at 2^32.
    pub chunk_id: ChunkId,
    /// How many fragments the payload holds. Bytes behind them are ignored.
    pub fragment_count: u16,
    /// Whether packets cross the borders of the chunk, and whether lengths are still missing.
    pub flags: ChunkFlags,
    /// False if the chunk was copied while its writer still worked on it. Its last fragment is
    /// then ignored, and it is expected to be committed again.
    pub complete: bool,
    /// The fragments, and what follows them up to the end of the chunk.
    pub payload: &'a [u8],
}
