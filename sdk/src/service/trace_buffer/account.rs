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
    pub(super) counts: PacketCounts,
    pub(super) histogram: ChunkPayloadHistogram,
    /// Chunks whose packets are in `counts`.
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
            accounted: ChunkWindow::default(),
        }
    }
}
