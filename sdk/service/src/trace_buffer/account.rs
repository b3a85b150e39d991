//! What is counted for one sequence, and whose it is.

use tracezero_core::ids::{ProducerId, WriterId};

use super::chunk::ClientIdentity;
use super::chunk_window::ChunkWindow;
use super::stats::{ChunkPayloadHistogram, PacketCounts};

/// The part of a sequence that outlives its chunks and that no decision about them depends on.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) hot: HotAccount,
    /// All but what was overwritten.
    pub(super) counts: PacketCounts,
    pub(super) histogram: ChunkPayloadHistogram,
}

/// What chunks that come and chunks that leave need, in one cache line: with many sequences, they
/// are of different ones, and nothing of either is in the cache.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct HotAccount {
    pub(super) producer_id: ProducerId,
    pub(super) writer_id: WriterId,
    /// As it came with the first chunk since the sequence was last forgotten.
    pub(super) client: ClientIdentity,
    /// Packets evicted before they were read.
    pub(super) overwritten: u64,
    /// Chunks whose packets are accounted for.
    pub(super) accounted: ChunkWindow,
}

impl Account {
    pub(super) fn new(producer_id: ProducerId, writer_id: WriterId) -> Self {
        Self {
            hot: HotAccount {
                producer_id,
                writer_id,
                client: ClientIdentity::default(),
                overwritten: 0,
                accounted: ChunkWindow::default(),
            },
            counts: PacketCounts::default(),
            histogram: ChunkPayloadHistogram::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_commit_needs_fills_one_cache_line() {
        assert_eq!(size_of::<HotAccount>(), 64);
    }
}
