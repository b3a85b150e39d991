//! The arbiter: hands out chunks of the shared memory to the writers of one producer, and commits
//! what they return.
//!
//! Two ways to commit ([`CommitMode`]): at once, by the thread that returns a chunk, as fits a
//! service in the same process, which copies the chunk and frees it before the call returns; or in
//! batches, as fits a service behind a connection.
//!
//! ```text
//!  writers      acquire_chunk            return_chunk
//!     |               |                        |
//!     |      +--------v--------+      +--------v--------+  half full, flush,  +----------+
//!     |      | page after page |      |  pending batch  |------stalled------->| service  |
//!     |      +-----------------+      +-----------------+   one at a time     +----------+
//!     |       frees chunks <------------------------------------------------------'
//! ```
//!
//! One lock protects the page cursor, the pending batch, writer ids and accounts. It is never held
//! while a thread sleeps or calls the service. A second lock keeps batches in order; it is held
//! while one is sent, so a service must not call back into its producer's arbiter from
//! [`ServiceEndpoint::commit`].
//!
//! Left out: writing late lengths into chunks that wait in the batch. They always go to the service
//! as patches, and [`ChunkFlags::NEEDS_PATCHING`](crate::shm::ChunkFlags) stays set.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::account::{AccountId, Accounts, WriterCounters};
use super::batch::Batch;
use super::patches::PatchList;
use super::writer_ids::WriterIds;
use crate::commit::ServiceEndpoint;
use crate::coordination::{BufferExhaustedPolicy, WriterTotals};
use crate::ids::{BufferId, ChunkId, WriterId};
use crate::shm::{NewChunk, PageLayout, ProducerMemory, WritableChunk};

/// When returned chunks go to the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitMode {
    /// Each at once, from the thread that returns it.
    #[default]
    Immediate,
    /// When half of the shared memory waits, on a flush, or when a writer finds no free chunk.
    Batched,
}

/// How an arbiter works.
#[derive(Clone, Copy, Debug)]
pub struct ArbiterConfig {
    /// Chunks per page.
    pub page_layout: PageLayout,
    /// When chunks are committed.
    pub commit_mode: CommitMode,
    /// How long a stalled writer waits for a free chunk before it drops the packet after all, unless
    /// it is [told otherwise](super::TraceWriter::with_stall_limit).
    pub stall_limit: Duration,
}

impl Default for ArbiterConfig {
    fn default() -> Self {
        Self {
            page_layout: PageLayout::One,
            commit_mode: CommitMode::default(),
            stall_limit: Duration::from_secs(30),
        }
    }
}

/// Longest pause of a stalled writer.
const STALL_PAUSE_MAX: Duration = Duration::from_millis(100);

/// Hands out chunks and commits them.
pub struct Arbiter {
    memory: ProducerMemory,
    endpoint: Arc<dyn ServiceEndpoint>,
    config: ArbiterConfig,
    state: Mutex<State>,
    /// The batch that is being sent. Locked before `state`, never after it.
    in_flight: Mutex<Batch>,
}

#[derive(Debug)]
struct State {
    /// The page to look at first; below the number of pages.
    page_cursor: u32,
    /// Stays empty with [`CommitMode::Immediate`].
    pending: Batch,
    writer_ids: WriterIds,
    accounts: Accounts,
    is_shut_down: bool,
}

/// A writer id, and the id of the next chunk that is written with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbering {
    pub(super) writer_id: WriterId,
    pub(super) next_chunk_id: ChunkId,
}

/// What a new writer is given.
#[derive(Debug)]
pub(super) struct Admission {
    /// `None` if the arbiter is shut down, all ids are in use, or the buffer is none: then the
    /// writer gets no chunk, ever.
    pub(super) numbering: Option<Numbering>,
    pub(super) account_id: AccountId,
    pub(super) counters: Arc<WriterCounters>,
}

impl Arbiter {
    /// An arbiter over `memory` that commits to `endpoint`.
    #[must_use]
    pub fn new(
        memory: ProducerMemory,
        endpoint: Arc<dyn ServiceEndpoint>,
        config: ArbiterConfig,
    ) -> Arc<Self> {
        Arc::new(Self {
            memory,
            endpoint,
            config,
            state: Mutex::new(State {
                page_cursor: 0,
                pending: Batch::default(),
                writer_ids: WriterIds::new(WriterId::MAX),
                accounts: Accounts::default(),
                is_shut_down: false,
            }),
            in_flight: Mutex::new(Batch::default()),
        })
    }

    /// Sends what waits in the pending batch. When this returns, the service has taken over every
    /// chunk that was returned before.
    pub fn commit_pending(&self) {
        if self.config.commit_mode == CommitMode::Batched {
            self.send_pending(&mut self.in_flight.lock());
        }
    }

    /// Admits no further writers. Returns whether the last one is gone.
    pub fn try_shutdown(&self) -> bool {
        let mut state = self.state.lock();
        state.is_shut_down = true;
        state.writer_ids.is_empty()
    }

    /// What became of all packets, per writer id and buffer, in no particular order.
    #[must_use]
    pub fn writer_totals(&self) -> Vec<WriterTotals> {
        self.state.lock().accounts.totals()
    }

    /// Forgets the counts of the writers to `target_buffer`, which is gone.
    pub fn forget_buffer(&self, target_buffer: BufferId) {
        self.state.lock().accounts.forget_buffer(target_buffer);
    }

    /// Takes in a writer, and announces it to the service.
    pub(super) fn admit_writer(&self, target_buffer: BufferId) -> Admission {
        let admission = {
            let mut state = self.state.lock();
            let writer_id = if state.is_shut_down || target_buffer == BufferId(0) {
                None
            } else {
                state.writer_ids.allocate()
            };
            let numbering = writer_id.map(|writer_id| Numbering {
                writer_id,
                next_chunk_id: state.accounts.next_chunk_id(writer_id, target_buffer),
            });
            let (account_id, counters) = state.accounts.open(writer_id, target_buffer);
            Admission {
                numbering,
                account_id,
                counters,
            }
        };
        if let Some(Numbering { writer_id, .. }) = admission.numbering {
            self.endpoint.register_writer(writer_id, target_buffer);
        }
        admission
    }

    /// Lets a writer go that has returned its chunks.
    pub(super) fn dismiss_writer(&self, numbering: Option<Numbering>, account_id: AccountId) {
        if let Some(Numbering { writer_id, .. }) = numbering {
            self.commit_pending();
            // Before the id is free: the next writer with this id registers after.
            self.endpoint.unregister_writer(writer_id);
        }
        let mut state = self.state.lock();
        let next_chunk_id = numbering.map(|numbering| numbering.next_chunk_id);
        state.accounts.close(account_id, next_chunk_id);
        if let Some(Numbering { writer_id, .. }) = numbering {
            state.writer_ids.release(writer_id);
        }
    }

    /// A free chunk, by the writer's policy.
    pub(super) fn acquire_chunk(
        &self,
        header: NewChunk,
        policy: BufferExhaustedPolicy,
        stall_limit: Option<Duration>,
    ) -> Option<WritableChunk> {
        self.find_chunk(header).or_else(|| match policy {
            BufferExhaustedPolicy::Drop => self.find_chunk_after_commit(header),
            BufferExhaustedPolicy::Stall | BufferExhaustedPolicy::StallThenDrop => {
                self.stall_for_chunk(header, stall_limit.unwrap_or(self.config.stall_limit))
            }
        })
    }

    /// Whether the buffer has room for what it is to keep until it is read. A writer that `waits`
    /// waits for that as long as for a chunk.
    pub(super) fn has_room(
        &self,
        target_buffer: BufferId,
        waits: bool,
        stall_limit: Option<Duration>,
    ) -> bool {
        let timeout = if waits {
            stall_limit.unwrap_or(self.config.stall_limit)
        } else {
            Duration::ZERO
        };
        self.endpoint.wait_for_room(target_buffer, timeout)
    }

    /// Whether one of `pages` pages from `cursor` on seems to have a free chunk: a look at so many
    /// words, without a lock. Moves the cursor on.
    pub(super) fn seems_free(&self, cursor: &mut u32, pages: u32) -> bool {
        let page_count = self.memory.geometry().page_count();
        (0..pages.min(page_count)).any(|_| {
            *cursor = (*cursor + 1) % page_count;
            self.memory.seems_free(*cursor)
        })
    }

    /// Commits a chunk with the late lengths that are known by now. `batch` is the caller's own,
    /// for commits that do not wait.
    pub(super) fn return_chunk(
        &self,
        chunk: WritableChunk,
        writer_id: WriterId,
        target_buffer: BufferId,
        patches: &mut PatchList,
        batch: &mut Batch,
    ) {
        let place = chunk.complete();
        let page_share_bytes = self.memory.geometry().page_size_bytes()
            / usize::from(self.config.page_layout.chunk_count());
        self.hand_over(batch, |batch| {
            batch.add_chunk(place, page_share_bytes, target_buffer);
            batch.add_ready_patches(patches, writer_id, target_buffer);
        });
    }

    /// Commits late lengths alone.
    pub(super) fn send_patches(
        &self,
        writer_id: WriterId,
        target_buffer: BufferId,
        patches: &mut PatchList,
        batch: &mut Batch,
    ) {
        self.hand_over(batch, |batch| {
            batch.add_ready_patches(patches, writer_id, target_buffer);
        });
    }

    fn hand_over(&self, batch: &mut Batch, add: impl FnOnce(&mut Batch)) {
        match self.config.commit_mode {
            CommitMode::Immediate => {
                add(batch);
                batch.commit_to(&*self.endpoint);
            }
            CommitMode::Batched => {
                let waiting_bytes = {
                    let pending = &mut self.state.lock().pending;
                    add(pending);
                    pending.chunk_bytes()
                };
                if waiting_bytes >= self.memory.geometry().size_bytes() / 2 {
                    self.commit_pending();
                }
            }
        }
    }

    fn send_pending(&self, in_flight: &mut Batch) {
        std::mem::swap(in_flight, &mut self.state.lock().pending);
        in_flight.commit_to(&*self.endpoint);
    }

    /// Looks at every page once, from where the last search ended.
    fn find_chunk(&self, header: NewChunk) -> Option<WritableChunk> {
        let page_count = self.memory.geometry().page_count();
        let mut state = self.state.lock();
        for _ in 0..page_count {
            let chunk =
                self.memory
                    .acquire_for_writing(state.page_cursor, self.config.page_layout, header);
            if chunk.is_some() {
                return chunk;
            }
            state.page_cursor = (state.page_cursor + 1) % page_count;
        }
        None
    }

    /// The free chunks may be among those that wait to be committed. Does not wait for another
    /// thread that is just committing.
    #[cold]
    fn find_chunk_after_commit(&self, header: NewChunk) -> Option<WritableChunk> {
        if self.config.commit_mode == CommitMode::Immediate {
            return None;
        }
        self.send_pending(&mut *self.in_flight.try_lock()?);
        self.find_chunk(header)
    }

    /// Commits and waits until a chunk is free, or the time is up.
    #[cold]
    fn stall_for_chunk(&self, header: NewChunk, limit: Duration) -> Option<WritableChunk> {
        let started = Instant::now();
        let mut pause = Duration::ZERO;
        loop {
            self.commit_pending();
            if pause.is_zero() {
                thread::yield_now();
            } else {
                thread::sleep(pause.min(limit.saturating_sub(started.elapsed())));
            }
            pause = ((pause + Duration::from_micros(1)) * 8).min(STALL_PAUSE_MAX);
            let chunk = self.find_chunk(header);
            if chunk.is_some() || started.elapsed() >= limit {
                return chunk;
            }
        }
    }
}

impl std::fmt::Debug for Arbiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arbiter")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
