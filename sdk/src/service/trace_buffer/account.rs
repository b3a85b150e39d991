//! What is counted for one sequence, and whose it is.

use crate::ids::{ProducerId, WriterId};

use super::chunk::ClientIdentity;
use super::chunk_window::ChunkWindow;
use super::stats::{ChunkPayloadHistogram, PacketCounts};

/// The part of a sequence that outlives its chunks and that no decision about them depends on.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) producer_id: ProducerId,
    pub(super) writer_id: WriterId,
    /// As it came with the first chunk since the sequence was last forgotten.
    pub(super) client: ClientIdentity,
    /// All but what was overwritten.
    pub(super) counts: PacketCounts,
    pub(super) histogram: ChunkPayloadHistogram,
    pub(super) departures: Departures,
}

/// What is noted of each chunk that leaves, in one cache line: with many sequences, the chunk that
/// goes belongs to another one than the chunk that comes, and nothing of it is in the cache.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(super) struct Departures {
    /// Packets evicted before they were read.
    pub(super) overwritten: u64,
    /// Chunks whose packets are accounted for.
    pub(super) accounted: ChunkWindow,
}

impl Account {
    pub(super) fn new(producer_id: ProducerId, writer_id: WriterId) -> Self {
        Self {
            producer_id,
            writer_id,
            client: ClientIdentity::default(),
            counts: PacketCounts::default(),
            histogram: ChunkPayloadHistogram::default(),
            departures: Departures::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_chunk_that_leaves_touches_is_one_cache_line() {
        assert_eq!(size_of::<Departures>(), 64);
    }
}
