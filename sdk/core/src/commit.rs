//! The one message from producer to service: which chunks are complete, and which lengths became
//! known late. Producer and service meet here, in [`crate::shm`] and in the id newtypes, and
//! nowhere else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::ids::{BufferId, ChunkId, WriterId};

/// What a producer hands over: first all moves apply, then all patches.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CommitRequest {
    /// Complete chunks, in the order in which their writers returned them.
    pub chunks_to_move: Vec<ChunkToMove>,
    /// Late lengths for chunks that were moved before, or by this very request.
    pub chunks_to_patch: Vec<ChunkToPatch>,
}

impl CommitRequest {
    /// Whether there is nothing to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks_to_move.is_empty() && self.chunks_to_patch.is_empty()
    }
}

/// A chunk of the shared memory that waits in state Complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkToMove {
    /// Index of the page in the shared memory buffer.
    pub page_index: u32,
    /// Index of the chunk in its page.
    pub chunk_index: u8,
    /// The central buffer that the chunk goes to.
    pub target_buffer: BufferId,
}

/// Late lengths for one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkToPatch {
    /// The writer that wrote the chunk.
    pub writer_id: WriterId,
    /// Which of its chunks.
    pub chunk_id: ChunkId,
    /// The central buffer that the chunk went to.
    pub target_buffer: BufferId,
    /// In the order in which the slots stand in the chunk.
    pub patches: Vec<Patch>,
    /// Whether lengths of this chunk are still missing after these.
    pub has_more_patches: bool,
}

/// Four bytes that replace a length slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    /// Distance of the slot from the start of the chunk's payload.
    pub offset_bytes: u16,
    /// The length as a redundant 4-byte varint; the first byte is never 0.
    pub data: [u8; 4],
}

/// The shortest time that a writer waits for room that needs it now.
pub const NO_PATIENCE: Duration = Duration::from_nanos(1);

/// The service as a producer sees it.
pub trait ServiceEndpoint: Send + Sync {
    /// Takes over the chunks and patches of `request`. In process this copies the chunks into
    /// their central buffers and frees them before it returns.
    fn commit(&self, request: &CommitRequest);

    /// Waits until the reader of `target_buffer` has made room for more, where one does while the
    /// session goes on; at most for `timeout`. Returns whether there is room. Called by writers
    /// that rather wait than overwrite what is not read, with nothing locked. One that only asks, and
    /// does not want to write yet, gives zero; one that wants to and cannot wait, [`NO_PATIENCE`].
    ///
    /// A service behind a connection leaves such chunks in the shared memory instead.
    fn wait_for_room(&self, target_buffer: BufferId, timeout: Duration) -> bool {
        let _ = (target_buffer, timeout);
        true
    }

    /// Announces a writer and the buffer it writes to, so that its unfinished chunks can be
    /// scraped. The service adds to `losses` when it loses packets of this writer.
    fn register_writer(
        &self,
        writer_id: WriterId,
        target_buffer: BufferId,
        losses: &Arc<LossCount>,
    );

    /// Takes back [`ServiceEndpoint::register_writer`]; every chunk of the writer was committed
    /// before.
    fn unregister_writer(&self, writer_id: WriterId);
}

/// Counts the losses of one sequence: those that its writer sees, and those that the service sees.
///
/// A packet that comes after a loss cannot be read if it builds on one that was lost. So whoever
/// writes such packets starts anew when the count has changed.
///
/// In Perfetto a writer learns only of the losses that it sees itself. Packets that the service loses leave
/// the rest of their sequence unreadable there, until its state happens to be cleared.
#[derive(Debug, Default)]
pub struct LossCount(AtomicU64);

impl LossCount {
    /// Notes a loss.
    pub fn add_one(&self) {
        // Relaxed, as the load: the count tells when to start anew, and orders nothing.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of losses so far.
    #[inline]
    #[must_use]
    pub fn value(&self) -> u64 {
        // Relaxed: see `add_one`.
        self.0.load(Ordering::Relaxed)
    }
}

/// How far a ring has come whose oldest packets are lost before anybody reads them, in parts of its
/// size.
///
/// The service counts, and writers look: what later packets of theirs build on must be written again
/// before the ring has lapped it. The count of other buffers stays where it is, but for requests to
/// start anew, which count as a quarter.
///
/// So the track events that are left in a ring that has lapped can be read by themselves, but for about the
/// oldest quarter.
// `tests/judge/tests/ring_laps.rs` checks this.
#[derive(Debug, Default)]
pub struct RingProgress(AtomicU64);

impl RingProgress {
    /// Parts that a ring is divided into.
    pub const PARTS: u64 = 128;

    /// The parts after which every writer starts anew.
    pub const QUARTER: u64 = Self::PARTS / 4;

    /// Notes that the ring has filled so many parts more, or that writers are to repeat themselves as
    /// if it had.
    #[inline]
    pub fn advance(&self, parts: u64) {
        // Relaxed, as the load: a hint of when to repeat oneself, ordered with nothing.
        self.0.fetch_add(parts, Ordering::Relaxed);
    }

    /// The number of parts filled so far.
    #[inline]
    #[must_use]
    pub fn parts(&self) -> u64 {
        // Relaxed: see `advance`.
        self.0.load(Ordering::Relaxed)
    }
}
