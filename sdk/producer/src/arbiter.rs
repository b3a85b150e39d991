//! The arbiter: hands out chunks of the shared memory to the writers of one producer, and commits
//! what they return.
//!
//! The thread that returns a chunk commits it at once. A service in the same process copies the chunk and
//! frees it before the call returns:
//!
//! ```text
//!  writers      acquire_chunk            return_chunk
//!     |               |                        |         commit
//!     |      +--------v--------+      +--------v--------+       +----------+
//!     |      | free chunks     |      | the old chunk   |------>| service  |
//!     |      +-----------------+      +-----------------+       +----------+
//!     |       frees chunks <------------------------------------------'
//! ```
//!
//! One lock protects what is noted of free chunks, writer ids and accounts. It is never held while a
//! thread sleeps, calls the service or looks at page after page.
//!
//! A chunk that the service frees within its commit is noted by whoever returned it. One that is
//! freed later is found by a writer that knows of no free chunk: it looks at the page words.
//!
//! Left out: collecting commits. A connection to another process can collect them in its queue of what is
//! to be sent.
//!
//! Left out: writing late lengths into chunks that wait to be sent. They always go to the service
//! as patches, and [`ChunkFlags::NEEDS_PATCHING`](tracezero_core::shm::ChunkFlags) stays set. Perfetto's own SDK may
//! write them there. But in process no chunk waits, and a chunk that nobody changes after its return
//! makes scraping easier to argue about.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::account::{AccountId, Accounts, WriterCounters};
use crate::commit_builder::CommitBuilder;
use crate::free_chunks::{ChunkSize, FreeChunks};
use crate::patches::PatchList;
use crate::writer_ids::WriterIds;
use tracezero_core::commit::{LossCount, NO_PATIENCE, ServiceEndpoint};
use tracezero_core::coordination::{BufferExhaustedPolicy, WriterTotals};
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::shm::{NewChunk, PageLayout, ProducerMemory, WritableChunk};

/// How an arbiter works.
#[derive(Clone, Copy, Debug)]
pub struct ArbiterConfig {
    /// Chunks per page; `None` for as many as suit the number of writers and what they write.
    pub page_layout: Option<PageLayout>,
    /// How long a stalled writer waits for a free chunk before it drops the packet after all, unless
    /// it is [told otherwise](super::TraceWriter::with_stall_limit).
    pub stall_limit: Duration,
}

impl Default for ArbiterConfig {
    fn default() -> Self {
        Self {
            page_layout: None,
            stall_limit: Duration::from_secs(30),
        }
    }
}

/// Longest pause of a stalled writer.
const STALL_PAUSE_MAX: Duration = Duration::from_millis(100);

/// Pages that a writer notes at once when it finds chunks that the service freed by itself. More at a
/// time mean fewer searches, and the lock is held for longer.
const NOTED_PAGES_MAX: usize = 64;

/// Hands out chunks and commits them.
pub struct Arbiter {
    memory: ProducerMemory,
    endpoint: Arc<dyn ServiceEndpoint>,
    config: ArbiterConfig,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    chunks: FreeChunks,
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

/// A chunk that a writer asks for.
#[derive(Clone, Copy)]
struct Asked {
    header: NewChunk,
    size: ChunkSize,
}

/// How a writer asks for room in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It does not want a chunk yet.
    Asks,
    /// It wants one now, or drops a packet.
    IsOver,
    /// It waits for one.
    Waits,
}

/// What a new writer is given.
#[derive(Debug)]
pub(super) struct Admission {
    /// `None` if the arbiter is shut down, all ids are in use, or the buffer is none: then the
    /// writer gets no chunk, ever.
    pub(super) numbering: Option<Numbering>,
    pub(super) account_id: AccountId,
    pub(super) counters: Arc<WriterCounters>,
    /// Shared with the service.
    pub(super) losses: Arc<LossCount>,
}

impl Arbiter {
    /// An arbiter over `memory` that commits to `endpoint`.
    #[must_use]
    pub fn new(
        memory: ProducerMemory,
        endpoint: Arc<dyn ServiceEndpoint>,
        config: ArbiterConfig,
    ) -> Arc<Self> {
        let page_count = memory.geometry().page_count();
        Arc::new(Self {
            memory,
            endpoint,
            config,
            state: Mutex::new(State {
                chunks: FreeChunks::new(page_count, config.page_layout),
                writer_ids: WriterIds::new(WriterId::MAX),
                accounts: Accounts::default(),
                is_shut_down: false,
            }),
        })
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
                losses: Arc::default(),
            }
        };
        if let Some(Numbering { writer_id, .. }) = admission.numbering {
            self.endpoint
                .register_writer(writer_id, target_buffer, &admission.losses);
        }
        admission
    }

    /// Lets a writer go that has returned its chunks.
    pub(super) fn dismiss_writer(&self, numbering: Option<Numbering>, account_id: AccountId) {
        if let Some(Numbering { writer_id, .. }) = numbering {
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

    /// A free chunk, by the writer's policy. It is of another size than asked for if there is none of
    /// that size.
    pub(super) fn acquire_chunk(
        &self,
        header: NewChunk,
        size: ChunkSize,
        policy: BufferExhaustedPolicy,
        stall_limit: Option<Duration>,
    ) -> Option<WritableChunk> {
        let asked = Asked { header, size };
        self.find_chunk(asked).or_else(|| match policy {
            BufferExhaustedPolicy::Drop => None,
            BufferExhaustedPolicy::Stall | BufferExhaustedPolicy::StallThenDrop => {
                self.stall_for_chunk(asked, stall_limit.unwrap_or(self.config.stall_limit))
            }
        })
    }

    /// Whether the buffer has room for what it is to keep until it is read. A writer that waits does so
    /// as long as for a chunk.
    pub(super) fn has_room(
        &self,
        target_buffer: BufferId,
        patience: Patience,
        stall_limit: Option<Duration>,
    ) -> bool {
        let timeout = match patience {
            Patience::Asks => Duration::ZERO,
            Patience::IsOver => NO_PATIENCE,
            Patience::Waits => stall_limit
                .unwrap_or(self.config.stall_limit)
                .max(NO_PATIENCE),
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

    /// Commits a chunk with the late lengths that are known by now. `commit` is the caller's own.
    pub(super) fn return_chunk(
        &self,
        chunk: WritableChunk,
        writer_id: WriterId,
        target_buffer: BufferId,
        patches: &mut PatchList,
        commit: &mut CommitBuilder,
    ) {
        let place = chunk.complete();
        commit.add_chunk(place, target_buffer);
        commit.add_ready_patches(patches, writer_id, target_buffer);
        commit.send(&*self.endpoint);
        self.note_page(&mut self.state.lock(), place.page_index);
    }

    /// Commits late lengths alone.
    pub(super) fn send_patches(
        &self,
        writer_id: WriterId,
        target_buffer: BufferId,
        patches: &mut PatchList,
        commit: &mut CommitBuilder,
    ) {
        commit.add_ready_patches(patches, writer_id, target_buffer);
        commit.send(&*self.endpoint);
    }

    /// Notes what became of a page.
    fn note_page(&self, state: &mut State, page_index: u32) {
        if let Some(word) = self.memory.page_word(page_index) {
            state.chunks.note(page_index, word);
        }
    }

    /// Takes a free chunk, as far as the arbiter knows of one; otherwise looks for what the service
    /// freed by itself.
    fn find_chunk(&self, asked: Asked) -> Option<WritableChunk> {
        let known = self.take_known_chunk(&mut self.state.lock(), asked);
        // With the lock released.
        known.or_else(|| self.find_freed_chunk(asked))
    }

    fn take_known_chunk(&self, state: &mut State, asked: Asked) -> Option<WritableChunk> {
        // A page that was free when it was noted is free: only a hostile service makes this go on.
        for _ in 0..self.memory.geometry().page_count() {
            let (page_index, layout) = state.chunks.choose(asked.size)?;
            let chunk = self
                .memory
                .acquire_for_writing(page_index, layout, asked.header);
            self.note_page(state, page_index);
            if chunk.is_some() {
                return chunk;
            }
        }
        None
    }

    /// Looks at every page word once, without the lock, and notes pages that have free chunks until
    /// it has one of them.
    #[cold]
    fn find_freed_chunk(&self, asked: Asked) -> Option<WritableChunk> {
        let mut pages = 0..self.memory.geometry().page_count();
        while !pages.is_empty() {
            let mut freed = [0; NOTED_PAGES_MAX];
            let with_room = pages
                .by_ref()
                .filter(|&page_index| self.memory.seems_free(page_index));
            let mut found = 0;
            for (freed, page_index) in freed.iter_mut().zip(with_room) {
                *freed = page_index;
                found += 1;
            }
            if found == 0 {
                return None;
            }
            let state = &mut self.state.lock();
            for &page_index in &freed[..found] {
                self.note_page(state, page_index);
            }
            let chunk = self.take_known_chunk(state, asked);
            if chunk.is_some() {
                return chunk;
            }
        }
        None
    }

    /// Waits until a chunk is free, or the time is up.
    #[cold]
    fn stall_for_chunk(&self, asked: Asked, limit: Duration) -> Option<WritableChunk> {
        let started = Instant::now();
        let mut pause = Duration::ZERO;
        loop {
            if pause.is_zero() {
                thread::yield_now();
            } else {
                thread::sleep(pause.min(limit.saturating_sub(started.elapsed())));
            }
            pause = ((pause + Duration::from_micros(1)) * 8).min(STALL_PAUSE_MAX);
            let chunk = self.find_chunk(asked);
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
mod tests;
