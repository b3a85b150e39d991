//! A chunk that is being committed, before it is checked.

use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;

/// The identity of a producer's process, as the operating system reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientIdentity {
    /// The user that the process runs as; `None` if unknown.
    pub uid: Option<u32>,
    /// The process id; `None` if unknown.
    pub pid: Option<u32>,
}

/// A chunk in the memory of its producer.
///
/// Only `producer_id` and `client` come from the service. The other values are untrusted: the
/// buffer checks them, and bad ones change nothing but counters.
#[derive(Clone, Copy, Debug)]
pub struct UntrustedChunk<'a> {
    /// The producer that the chunk came from.
    pub producer_id: ProducerId,
    /// The identity of the producer. A sequence keeps the identity that came with its first chunk.
    pub client: ClientIdentity,
    /// The writer that wrote the chunk.
    pub writer_id: WriterId,
    /// The position of the chunk among those of its writer; wraps at 2^32.
    pub chunk_id: ChunkId,
    /// The number of fragments in the payload. Bytes behind them are ignored.
    pub fragment_count: u16,
    /// Flags that say whether packets continue across the borders of the chunk, and whether patches
    /// are still to come.
    pub flags: ChunkFlags,
    /// False if the chunk was scraped while its writer was still filling it. Then the last fragment
    /// is ignored, and the chunk is expected to be committed again.
    pub complete: bool,
    /// The fragments and any bytes behind them, up to the end of the chunk.
    pub payload: &'a [u8],
}
