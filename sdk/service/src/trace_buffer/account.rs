//! Counters of one sequence, and the identity of its writer.

use tracezero_core::ids::{ProducerId, WriterId};

use super::chunk::ClientIdentity;
use super::chunk_window::ChunkWindow;
use super::stats::{ChunkPayloadHistogram, PacketCounts};

/// The counters of one sequence. They outlive its chunks and do not affect how chunks are handled.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) hot: HotAccount,
    /// The packet counts, except `overwritten`.
    pub(super) counts: PacketCounts,
    pub(super) histogram: ChunkPayloadHistogram,
    /// True if the writer's producer is gone: no patch and no fragment comes any more.
    pub(super) has_ended: bool,
}

/// The part of an account that both committing and evicting a chunk use, in one cache line. With
/// many sequences, the committed chunk and the evicted chunk belong to different sequences, and
/// neither account is in the cache. So each of the two accounts costs one cache miss.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct HotAccount {
    pub(super) producer_id: ProducerId,
    pub(super) writer_id: WriterId,
    /// The client that came with the first chunk, or with the first chunk after the sequence was
    /// forgotten.
    pub(super) client: ClientIdentity,
    /// The number of packets that were evicted before they were read.
    pub(super) overwritten: u64,
    /// The chunks whose packets were already counted.
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
            has_ended: false,
        }
    }

    /// Returns the number of packets that were lost.
    pub(super) fn lost(&self) -> u64 {
        self.hot.overwritten + self.counts.lost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_used_by_every_commit_fills_one_cache_line() {
        assert_eq!(size_of::<HotAccount>(), 64);
    }
}
