//! One writer's standing with its arbiter.
//!
//! A writer waits for the reader of its buffer only between packets. It then holds no chunk, and nothing is
//! locked (`CentralBuffer::wait_for_room`). Inside a packet it waits for shared memory alone.

use std::sync::Arc;
use std::time::Duration;

use protozero::PatchId;

use crate::account::{AccountId, WriterCounters};
use crate::arbiter::{Arbiter, Numbering, Patience};
use crate::commit_builder::CommitBuilder;
use crate::free_chunks::ChunkSize;
use crate::patches::PatchList;
use tracezero_core::commit::LossCount;
use tracezero_core::coordination::BufferExhaustedPolicy;
use tracezero_core::forked_child;
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::shm::{ChunkFlags, NewChunk, WritableChunk};

/// Pages that a writer looks at for each packet that it drops.
const PAGES_PER_LOOK: u32 = 4;
/// A dropping writer asks for a chunk at least once in so many packets, whatever it saw.
const PACKETS_PER_ASK: u32 = 64;

/// Numbers a writer's chunks, takes them from the arbiter and returns them with the patches that
/// are due. Ends the writer when dropped.
///
/// In a forked child it leaves the arbiter alone. A packet that was open at the fork is lost there.
#[derive(Debug)]
pub(super) struct WriterPort {
    arbiter: Arc<Arbiter>,
    /// `None` for a writer that was not admitted: it gets no chunk.
    ///
    /// Chunk ids count chunks that were acquired, so that a time without chunks leaves no gap.
    numbering: Option<Numbering>,
    target_buffer: BufferId,
    policy: BufferExhaustedPolicy,
    /// `None` for that of the arbiter.
    stall_limit: Option<Duration>,
    /// Of the next chunk.
    size: ChunkSize,
    account_id: AccountId,
    counters: Arc<WriterCounters>,
    losses: Arc<LossCount>,
    patches: PatchList,
    commit: CommitBuilder,
    /// Where the next look for a free page begins.
    look_cursor: u32,
    looks_since_ask: u32,
}

impl WriterPort {
    pub(super) fn open(
        arbiter: &Arc<Arbiter>,
        target_buffer: BufferId,
        policy: BufferExhaustedPolicy,
    ) -> Self {
        let admission = arbiter.admit_writer(target_buffer);
        Self {
            arbiter: Arc::clone(arbiter),
            numbering: admission.numbering,
            target_buffer,
            policy,
            stall_limit: None,
            size: ChunkSize::Quarter,
            account_id: admission.account_id,
            counters: admission.counters,
            losses: admission.losses,
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

    #[inline]
    pub(super) fn losses(&self) -> &LossCount {
        &self.losses
    }

    /// Notes that the writer has filled a chunk: it writes enough for larger ones.
    pub(super) fn note_full_chunk(&mut self) {
        self.size = ChunkSize::Page;
    }

    /// A chunk for the writer's next packet, by its policy.
    pub(super) fn acquire_chunk(&mut self) -> Option<WritableChunk> {
        self.acquire_with_room(self.policy)
    }

    /// A chunk for a packet that goes on, by the writer's policy. It does not wait for the reader of
    /// the buffer: that one may be waiting for this packet.
    pub(super) fn acquire_chunk_to_continue(&mut self) -> Option<WritableChunk> {
        self.acquire_by(self.policy)
    }

    /// Whether the writer can go on without waiting for the reader of the buffer, if it ever does.
    pub(super) fn has_room(&self) -> bool {
        self.finds_room(Patience::Asks)
    }

    fn finds_room(&self, patience: Patience) -> bool {
        let has_room =
            |arbiter: &Arbiter| arbiter.has_room(self.target_buffer, patience, self.stall_limit);
        self.policy == BufferExhaustedPolicy::Drop || ours(&self.arbiter).is_some_and(has_room)
    }

    /// The writer's next chunk, for a writer that is dropping packets.
    ///
    /// One that stalls, stalls. The others ask only if there is hope: at each packet they look at
    /// a few page words without a lock. So a writer recovers within some packets of any page
    /// becoming free, while one that keeps failing costs the others nothing: a full search under
    /// the arbiter's lock for every packet dropped would slow down those that do have chunks.
    /// It asks now and then anyway: where there are many pages, a look at a few may miss the free one for long.
    /// Perfetto's own SDK goes on dropping until the memory that it writes dropped packets to is full.
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

    /// A chunk for the next packet, by `policy`. A writer that stalls does not overwrite what is not
    /// read either, even where `policy` is not to wait for it.
    fn acquire_with_room(&mut self, policy: BufferExhaustedPolicy) -> Option<WritableChunk> {
        let patience = match policy {
            BufferExhaustedPolicy::Drop => Patience::IsOver,
            BufferExhaustedPolicy::Stall | BufferExhaustedPolicy::StallThenDrop => Patience::Waits,
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
        let arbiter = ours(&self.arbiter)?;
        let chunk = arbiter.acquire_chunk(header, self.size, policy, self.stall_limit)?;
        numbering.next_chunk_id = numbering.next_chunk_id.next();
        Some(chunk)
    }

    /// Commits a chunk.
    pub(super) fn return_chunk(&mut self, chunk: WritableChunk) {
        if let (Some(writer_id), Some(arbiter)) = (self.writer_id(), ours(&self.arbiter)) {
            arbiter.return_chunk(
                chunk,
                writer_id,
                self.target_buffer,
                &mut self.patches,
                &mut self.commit,
            );
        }
    }

    /// Notes a length slot of a chunk that is about to be returned.
    pub(super) fn add_patch(&mut self, chunk_id: ChunkId, offset_bytes: usize) -> PatchId {
        // A chunk's size fits into 16 bits.
        self.patches.push(chunk_id, offset_bytes as u16)
    }

    /// Fills in the length of such a slot.
    pub(super) fn fill_patch(&mut self, patch: PatchId, length: [u8; 4]) {
        self.patches.fill(patch, length);
    }

    /// Commits the lengths that are known, if there are any.
    pub(super) fn send_patches(&mut self) {
        if !self.patches.is_front_ready() {
            return;
        }
        if let (Some(writer_id), Some(arbiter)) = (self.writer_id(), ours(&self.arbiter)) {
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
        if let Some(arbiter) = ours(&self.arbiter) {
            arbiter.dismiss_writer(self.numbering, self.account_id);
        }
    }
}

/// The arbiter; `None` in a forked child, whose parent it belongs to.
fn ours(arbiter: &Arc<Arbiter>) -> Option<&Arbiter> {
    (!forked_child::is_quiet()).then_some(arbiter)
}
