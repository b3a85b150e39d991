//! One writer's connection to its arbiter.
//!
//! A writer waits for the reader of its buffer only between packets. It then holds no chunk and no
//! lock (`CentralBuffer::wait_for_room`). Inside of a packet it only waits for shared memory.

use std::sync::Arc;
use std::time::Duration;

use protozero::PatchId;

use crate::account::{AccountId, WriterCounters};
use crate::arbiter::{Arbiter, Numbering, RoomWait};
use crate::commit_builder::CommitBuilder;
use crate::free_chunks::ChunkSize;
use crate::patches::PatchList;
use tracezero_core::commit::LossCount;
use tracezero_core::coordination::{BufferExhaustedPolicy, PacketCounts};
use tracezero_core::forked_child;
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::shm::{ChunkFlags, NewChunk, WritableChunk};

/// The number of pages that a writer looks at for each packet that it drops.
const PAGES_PER_LOOK: u32 = 4;
/// A dropping writer searches for a chunk at least once per this many packets, even if it saw no
/// free page.
const PACKETS_PER_ASK: u32 = 64;

/// Numbers a writer's chunks, acquires them from the arbiter, and returns them with the patches
/// that are ready. Unregisters the writer when dropped.
///
/// In a forked child, the port does not touch the arbiter. A packet that was open at the fork is
/// lost in the child.
#[derive(Debug)]
pub(super) struct WriterPort {
    arbiter: Arc<Arbiter>,
    /// `None` for a writer that the arbiter has refused: it never gets a chunk.
    ///
    /// Chunk ids count the chunks that were acquired, so a time without chunks leaves no gap.
    numbering: Option<Numbering>,
    target_buffer: BufferId,
    policy: BufferExhaustedPolicy,
    /// `None` for the limit of the arbiter.
    stall_limit: Option<Duration>,
    /// The size of the next chunk.
    size: ChunkSize,
    account_id: AccountId,
    counters: WriterCounters,
    /// The counts of earlier writers, which the counters began with.
    counts_before: PacketCounts,
    losses: Arc<LossCount>,
    patches: PatchList,
    commit: CommitBuilder,
    /// The page where the next look begins.
    look_cursor: u32,
    looks_since_ask: u32,
}

impl WriterPort {
    pub(super) fn open(
        arbiter: &Arc<Arbiter>,
        target_buffer: BufferId,
        policy: BufferExhaustedPolicy,
    ) -> Self {
        let new_writer = arbiter.register_writer(target_buffer);
        Self {
            arbiter: Arc::clone(arbiter),
            numbering: new_writer.numbering,
            target_buffer,
            policy,
            stall_limit: None,
            size: ChunkSize::Quarter,
            account_id: new_writer.account_id,
            counts_before: new_writer.counters.counts(),
            counters: new_writer.counters,
            losses: new_writer.losses,
            patches: PatchList::default(),
            commit: CommitBuilder::default(),
            look_cursor: 0,
            looks_since_ask: 0,
        }
    }

    pub(super) fn writer_id(&self) -> Option<WriterId> {
        self.numbering.map(|numbering| numbering.writer_id)
    }

    pub(super) fn set_stall_limit(&mut self, limit: Duration) {
        self.stall_limit = Some(limit);
    }

    pub(super) fn target_buffer(&self) -> BufferId {
        self.target_buffer
    }

    #[inline]
    pub(super) fn counters(&self) -> &WriterCounters {
        &self.counters
    }

    /// Returns the counts of this writer so far.
    pub(super) fn packet_counts(&self) -> PacketCounts {
        self.counters.counts() - self.counts_before
    }

    #[inline]
    pub(super) fn losses(&self) -> &LossCount {
        &self.losses
    }

    /// Notes that the writer has filled a chunk: from now on it asks for larger chunks.
    pub(super) fn note_full_chunk(&mut self) {
        self.size = ChunkSize::Page;
    }

    /// Acquires a chunk for the writer's next packet, by its policy.
    pub(super) fn acquire_chunk(&mut self) -> Option<WritableChunk> {
        self.acquire_with_room(self.policy)
    }

    /// Acquires a chunk to continue a packet, by the writer's policy. Does not wait for the reader
    /// of the buffer, because the reader may be waiting for this packet.
    pub(super) fn acquire_chunk_to_continue(&mut self) -> Option<WritableChunk> {
        self.acquire_by(self.policy)
    }

    /// Returns true if the writer can go on without waiting for the reader of the buffer. Writers
    /// that never wait for the reader can always go on.
    pub(super) fn has_room(&self) -> bool {
        self.finds_room(RoomWait::Query)
    }

    fn finds_room(&self, patience: RoomWait) -> bool {
        let has_room =
            |arbiter: &Arbiter| arbiter.has_room(self.target_buffer, patience, self.stall_limit);
        self.policy == BufferExhaustedPolicy::Drop
            || unless_forked(&self.arbiter).is_some_and(has_room)
    }

    /// Acquires a chunk for a writer that is dropping packets.
    ///
    /// With the policy `Stall`, waits as usual. Otherwise looks at a few page words for each
    /// packet, without a lock, and searches only if one of these pages seems to have a free chunk.
    /// So the writer recovers within a few packets after a page becomes free, and costs other
    /// writers nothing until then. A full search under the arbiter's lock for every dropped packet
    /// would slow down the writers that do have chunks. Once per [`PACKETS_PER_ASK`] packets, the
    /// writer searches in any case: if there are many pages, looking at a few of them may miss the
    /// free page for long.
    ///
    /// Perfetto's own SDK goes on dropping until the memory to which it writes dropped packets is
    /// full.
    pub(super) fn acquire_chunk_after_drop(&mut self) -> Option<WritableChunk> {
        if self.policy == BufferExhaustedPolicy::Stall {
            return self.acquire_chunk();
        }
        self.looks_since_ask += 1;
        let asks = self.looks_since_ask >= PACKETS_PER_ASK
            || self
                .arbiter
                .seems_free(&mut self.look_cursor, PAGES_PER_LOOK);
        if !asks {
            return None;
        }
        self.looks_since_ask = 0;
        self.acquire_with_room(BufferExhaustedPolicy::Drop)
    }

    /// Acquires a chunk for the next packet, by `policy`. A writer whose own policy is to stall
    /// must not overwrite unread packets. So it needs room in the buffer even if `policy` says not
    /// to wait.
    fn acquire_with_room(&mut self, policy: BufferExhaustedPolicy) -> Option<WritableChunk> {
        let patience = match policy {
            BufferExhaustedPolicy::Drop => RoomWait::NoWait,
            BufferExhaustedPolicy::Stall | BufferExhaustedPolicy::StallThenDrop => {
                RoomWait::UntilLimit
            }
        };
        if self.finds_room(patience) {
            self.acquire_by(policy)
        } else {
            None
        }
    }

    fn acquire_by(&mut self, policy: BufferExhaustedPolicy) -> Option<WritableChunk> {
        let numbering = self.numbering.as_mut()?;
        let header = NewChunk {
            writer_id: numbering.writer_id,
            chunk_id: numbering.next_chunk_id,
            flags: ChunkFlags::NONE,
        };
        let arbiter = unless_forked(&self.arbiter)?;
        let chunk = arbiter.acquire_chunk(header, self.size, policy, self.stall_limit)?;
        numbering.next_chunk_id = numbering.next_chunk_id.next();
        Some(chunk)
    }

    /// Commits a chunk.
    pub(super) fn return_chunk(&mut self, chunk: WritableChunk) {
        if let (Some(writer_id), Some(arbiter)) = (self.writer_id(), unless_forked(&self.arbiter)) {
            arbiter.return_chunk(
                chunk,
                writer_id,
                self.target_buffer,
                &mut self.patches,
                &mut self.commit,
            );
        }
    }

    /// Notes an open length slot of a chunk that is about to be returned.
    pub(super) fn add_patch(&mut self, chunk_id: ChunkId, offset_bytes: usize) -> PatchId {
        // The offset fits into 16 bits, because a chunk's size does.
        self.patches.push(chunk_id, offset_bytes as u16)
    }

    /// Sets the length of a slot from [`add_patch`](Self::add_patch).
    pub(super) fn fill_patch(&mut self, patch: PatchId, length: [u8; 4]) {
        self.patches.fill(patch, length);
    }

    /// Commits the lengths that are known, if there are any.
    pub(super) fn send_patches(&mut self) {
        if !self.patches.is_front_ready() {
            return;
        }
        if let (Some(writer_id), Some(arbiter)) = (self.writer_id(), unless_forked(&self.arbiter)) {
            arbiter.send_patches(
                writer_id,
                self.target_buffer,
                &mut self.patches,
                &mut self.commit,
            );
        }
    }
}

impl Drop for WriterPort {
    fn drop(&mut self) {
        if let Some(arbiter) = unless_forked(&self.arbiter) {
            arbiter.unregister_writer(self.numbering, self.account_id);
        }
    }
}

/// Returns the arbiter; `None` in a forked child, because it belongs to the parent.
fn unless_forked(arbiter: &Arc<Arbiter>) -> Option<&Arbiter> {
    (!forked_child::is_disabled()).then_some(arbiter)
}
