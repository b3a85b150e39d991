//! Commits, by which a producer hands complete chunks to the service, and patches: lengths that
//! became known after their chunk was complete. Also counters by which the service tells trace
//! writers of losses.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::ids::{BufferId, ChunkId, WriterId};
use crate::shm::ChunkPlace;

/// A commit: complete chunks and patches. The service first takes all chunks, then applies all
/// patches.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CommitRequest {
    /// Complete chunks, in the order in which their trace writers returned them.
    pub chunks_to_move: Vec<ChunkToMove>,
    /// Patches for chunks that were handed over earlier or by this same commit.
    pub chunks_to_patch: Vec<ChunkToPatch>,
}

impl CommitRequest {
    /// Returns whether there is nothing to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks_to_move.is_empty() && self.chunks_to_patch.is_empty()
    }
}

/// A chunk of the shared memory that the service should take. It is in state Complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkToMove {
    /// Index of the page in the shared memory buffer.
    pub page_index: u32,
    /// Index of the chunk in its page.
    pub chunk_index: u8,
    /// The trace buffer that the chunk goes to.
    pub target_buffer: BufferId,
    /// The size of the chunk's payload in bytes. A service in another process does not get it.
    pub payload_bytes: u32,
}

impl ChunkToMove {
    /// Returns the chunk at `place`, with a `payload_bytes` of 0.
    #[must_use]
    pub fn new(place: ChunkPlace, target_buffer: BufferId) -> Self {
        Self {
            page_index: place.page_index,
            chunk_index: place.chunk_index,
            target_buffer,
            payload_bytes: 0,
        }
    }
}

/// Patches for one chunk, which the service applies to its copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkToPatch {
    /// The trace writer that wrote the chunk.
    pub writer_id: WriterId,
    /// The position of the chunk in the trace writer's sequence.
    pub chunk_id: ChunkId,
    /// The trace buffer that the chunk went to.
    pub target_buffer: BufferId,
    /// The patches, in the order of their offsets in the chunk.
    pub patches: Vec<Patch>,
    /// True if more patches for this chunk follow in a later commit.
    pub has_more_patches: bool,
}

/// The length of a nested message, which became known after its chunk was completed. Its four bytes
/// replace the placeholder in the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    /// The distance of the placeholder from the start of the chunk's payload.
    pub offset_bytes: u16,
    /// The length as a redundant 4-byte varint; the first byte is never 0.
    pub data: [u8; 4],
}

/// The timeout for [`ServiceEndpoint::wait_for_room`] of a trace writer that needs room now but
/// cannot wait. It is not zero, because zero only asks whether there is room.
pub const SHORTEST_WAIT: Duration = Duration::from_nanos(1);

/// The interface of the service for the trace writers of a producer.
pub trait ServiceEndpoint: Send + Sync {
    /// Takes over the chunks and patches of `request`. Within a process, this copies the chunks
    /// into their trace buffers and frees them before it returns.
    fn commit(&self, request: &CommitRequest);

    /// Waits until `target_buffer` has room for more packets, at most for `timeout`. Returns
    /// whether there is room. Buffers that are not read while the session records always have room.
    ///
    /// Called with nothing locked, by trace writers that would rather wait than overwrite packets
    /// that are not read yet. A writer that only asks, and does not need room yet, passes a timeout
    /// of zero. A writer that needs room now, but cannot wait, passes [`SHORTEST_WAIT`].
    ///
    /// The default implementation returns true. It suits a service in another process: there, a
    /// chunk would stay in the shared memory while its buffer has no room.
    fn wait_for_room(&self, target_buffer: BufferId, timeout: Duration) -> bool {
        let _ = (target_buffer, timeout);
        true
    }

    /// Registers a trace writer and its target buffer, so that the service can scrape its
    /// unfinished chunks. The service adds to `losses` when it loses packets of this writer.
    fn register_writer(
        &self,
        writer_id: WriterId,
        target_buffer: BufferId,
        losses: &Arc<LossCount>,
    );

    /// Unregisters a trace writer, after all of its chunks were committed.
    fn unregister_writer(&self, writer_id: WriterId);
}

/// The number of losses in one sequence, both by its trace writer and by the service.
///
/// After a loss, packets that depend on a lost packet cannot be read. So a data source with
/// incremental state clears that state when the count has changed.
///
/// In Perfetto, a trace writer does not learn of packets that the service loses. After such a loss
/// in Perfetto, the rest of the sequence is unreadable until the incremental state happens to be
/// cleared.
#[derive(Debug, Default)]
pub struct LossCount(AtomicU64);

impl LossCount {
    /// Counts a loss.
    pub fn add_one(&self) {
        // Relaxed, like the load: the count only tells when to clear the incremental state. No
        // other memory access depends on it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of losses so far.
    #[inline]
    #[must_use]
    pub fn value(&self) -> u64 {
        // Relaxed: see `add_one`.
        self.0.load(Ordering::Relaxed)
    }
}

/// The amount that was written into a ring buffer, in parts of its size.
///
/// A ring that is read only at the end overwrites its oldest packets. Packets that define
/// incremental state, such as names, must be written again before the ring has overwritten them.
/// The service advances the count, and trace writers compare it with its value at the time when
/// they last wrote their state.
///
/// So, even after the ring has overwritten packets, the track events in it can be read, except for
/// about the oldest quarter.
///
/// For other buffers, the service advances the count only to make trace writers write their state
/// again. It then adds [`QUARTER`](Self::QUARTER).
// `tests/judge/tests/ring_laps.rs` checks this.
#[derive(Debug, Default)]
pub struct RingProgress {
    parts: AtomicU64,
    /// The size of the ring, or of a segment; 0 for other buffers.
    ring_bytes: u64,
    /// True if what is read from the buffer is cut into segments.
    is_in_segments: bool,
    /// The value of `parts` at the last turn.
    turn_parts: AtomicU64,
    /// The time of the last turn, on the trace clock; 0 before the first one.
    turn_ns: AtomicU64,
}

impl RingProgress {
    /// The number of parts in the size of a ring.
    pub const PARTS: u64 = 128;

    /// The number of parts after which every trace writer writes its incremental state again.
    pub const QUARTER: u64 = Self::PARTS / 4;

    /// Creates the progress of a ring with this size.
    #[must_use]
    pub fn of_ring(ring_bytes: u64) -> Self {
        Self {
            ring_bytes,
            ..Self::default()
        }
    }

    /// Creates the progress of a buffer whose contents are cut into segments of about this size. A
    /// segment has, like a ring, nothing of what was recorded before. Its progress advances by a
    /// [quarter](Self::QUARTER) at each cut.
    #[must_use]
    pub fn of_segments(segment_bytes: u64) -> Self {
        Self {
            is_in_segments: true,
            ..Self::of_ring(segment_bytes.max(1))
        }
    }

    /// Returns the size of the ring, or of a segment, in bytes; `None` for a buffer that keeps
    /// everything.
    #[inline]
    #[must_use]
    pub fn ring_bytes(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.ring_bytes)
    }

    /// Adds `parts` to the count. The caller has written this amount into the ring, or wants trace
    /// writers to behave as if the amount had been written.
    #[inline]
    pub fn advance(&self, parts: u64) {
        // Relaxed, like the load: the count only hints when to write the incremental state again.
        // No other memory access depends on it.
        self.parts.fetch_add(parts, Ordering::Relaxed);
    }

    /// Returns the number of parts written so far.
    #[inline]
    #[must_use]
    pub fn parts(&self) -> u64 {
        // Relaxed: see `advance`.
        self.parts.load(Ordering::Relaxed)
    }

    /// Takes a turn to write the data that one trace writer writes for all trace writers of the
    /// ring. There is one turn in each [quarter](Self::QUARTER) of the ring, and in each segment.
    /// Returns the time up to which the ring may lack data: that of the last turn, or 0 if this turn is
    /// the first one. A segment may lack all data up to now. Returns `None` if another trace writer
    /// has had the turn of this quarter, or if the buffer keeps everything.
    pub fn take_turn(&self, now_ns: u64) -> Option<u64> {
        self.ring_bytes()?;
        let parts = self.parts();
        // Relaxed: the exchange only chooses one of the trace writers. `turn_parts` and `turn_ns`
        // may come from different turns. The chosen writer lists the slices that are older than the
        // returned time, and such a list is correct for the time of any turn.
        let last = self.turn_parts.load(Ordering::Relaxed);
        if parts.checked_sub(last)? < Self::QUARTER {
            return None;
        }
        self.turn_parts
            .compare_exchange(last, parts, Ordering::Relaxed, Ordering::Relaxed)
            .ok()?;
        let last_ns = self.turn_ns.swap(now_ns, Ordering::Relaxed);
        Some(if self.is_in_segments { now_ns } else { last_ns })
    }
}
