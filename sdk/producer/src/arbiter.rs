//! The arbiter: lends chunks of the shared memory to the writers of one producer, and commits the
//! chunks that they return.
//!
//! The thread that returns a chunk commits it at once. A service in the same process copies the
//! chunk and frees it before the call returns:
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
//! One lock protects the state: free chunks, writer ids and counters. The lock is never held while
//! a thread sleeps, calls the service or searches all pages.
//!
//! If the service frees a chunk within its commit, the thread that returned the chunk notes that.
//! If the service frees a chunk later, a writer finds that chunk: when the state has no free chunk,
//! the writer reads the page words in the shared memory.
//!
//! The arbiter does not collect commits. A connection to another process can collect them in its
//! send queue.
//!
//! If a length becomes known after its chunk was returned, the arbiter always sends the length to
//! the service as a patch, and [`ChunkFlags::NEEDS_PATCHING`](tracezero_core::shm::ChunkFlags)
//! stays set. Perfetto's own SDK may write the length into a chunk that still waits to be sent.
//! Here no chunk waits, since the service is in the same process; and because nobody changes a
//! chunk after its return, it is easier to prove that scraping is correct.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::account::{AccountId, Accounts, WriterCounters};
use crate::commit_builder::CommitBuilder;
use crate::free_chunks::{ChunkSize, FreeChunks};
use crate::patches::PatchList;
use crate::writer_ids::WriterIds;
use tracezero_core::commit::{LossCount, SHORTEST_WAIT, ServiceEndpoint};
use tracezero_core::coordination::{BufferExhaustedPolicy, WriterTotals};
use tracezero_core::crash_files::ProcessFolder;
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::shm::{NewChunk, PageLayout, ProducerMemory, WritableChunk};

/// The configuration of an arbiter.
#[derive(Clone, Copy, Debug)]
pub struct ArbiterConfig {
    /// The number of chunks per page; `None` to choose it by the number of writers and by what they
    /// write.
    pub page_layout: Option<PageLayout>,
    /// How long a writer with a stalling policy waits for a free chunk before it drops the packet.
    /// A writer may have [its own limit](super::TraceWriter::with_stall_limit).
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

/// The longest pause between two searches of a stalled writer.
const STALL_PAUSE_MAX: Duration = Duration::from_millis(100);

/// The number of pages that a writer notes under one lock, after it found chunks in them that the
/// service has freed outside of commits. A larger number means fewer searches, but holds the lock
/// for longer.
const NOTED_PAGES_MAX: usize = 64;

/// Lends chunks to writers and commits them.
pub struct Arbiter {
    memory: ProducerMemory,
    endpoint: Arc<dyn ServiceEndpoint>,
    config: ArbiterConfig,
    state: Mutex<State>,
    /// The total time that writers have waited for a free chunk, in nanoseconds.
    waited_ns: AtomicU64,
}

#[derive(Debug)]
struct State {
    chunks: FreeChunks,
    writer_ids: WriterIds,
    accounts: Accounts,
    is_shut_down: bool,
}

/// A writer id, and the id of the next chunk with this writer id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbering {
    pub(super) writer_id: WriterId,
    pub(super) next_chunk_id: ChunkId,
}

/// A writer's request for a chunk.
#[derive(Clone, Copy)]
struct ChunkRequest {
    header: NewChunk,
    size: ChunkSize,
}

/// How long a writer waits for room in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoomWait {
    /// Only asks: the writer needs no chunk yet.
    Query,
    /// Does not wait: the writer needs a chunk now, or drops a packet.
    NoWait,
    /// Waits until the stall limit.
    UntilLimit,
}

/// The result of registering a new writer.
#[derive(Debug)]
pub(super) struct NewWriter {
    /// `None` if the arbiter is shut down, if all ids are in use, or if the writer has no buffer.
    /// The writer then never gets a chunk.
    pub(super) numbering: Option<Numbering>,
    pub(super) account_id: AccountId,
    pub(super) counters: WriterCounters,
    /// The number of losses in the writer's sequence. The service adds to it, too.
    pub(super) losses: Arc<LossCount>,
}

impl Arbiter {
    /// Creates an arbiter that lends chunks of `memory` and commits them to `endpoint`.
    #[must_use]
    pub fn new(
        memory: ProducerMemory,
        endpoint: Arc<dyn ServiceEndpoint>,
        config: ArbiterConfig,
    ) -> Arc<Self> {
        Self::with_crash_files(memory, endpoint, config, None)
    }

    /// Creates an arbiter, as [`new`](Self::new) does, whose counters of writers are in the crash
    /// files of the process.
    #[must_use]
    pub fn with_crash_files(
        memory: ProducerMemory,
        endpoint: Arc<dyn ServiceEndpoint>,
        config: ArbiterConfig,
        crash_files: Option<Arc<ProcessFolder>>,
    ) -> Arc<Self> {
        let page_count = memory.geometry().page_count();
        Arc::new(Self {
            memory,
            endpoint,
            config,
            state: Mutex::new(State {
                chunks: FreeChunks::new(page_count, config.page_layout),
                writer_ids: WriterIds::new(WriterId::MAX),
                accounts: Accounts::new(crash_files),
                is_shut_down: false,
            }),
            waited_ns: AtomicU64::new(0),
        })
    }

    /// Refuses new writers from now on. Returns true if no writer is left.
    pub fn try_shutdown(&self) -> bool {
        let mut state = self.state.lock();
        state.is_shut_down = true;
        state.writer_ids.is_empty()
    }

    /// Returns the packet counts per writer id and buffer, in no particular order.
    #[must_use]
    pub fn writer_totals(&self) -> Vec<WriterTotals> {
        self.state.lock().accounts.totals()
    }

    /// Returns the total time that writers have waited for a free chunk. A writer that still waits
    /// is not counted.
    #[must_use]
    pub fn waited(&self) -> Duration {
        // Relaxed, like the addition: no other memory access depends on this sum.
        Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed))
    }

    /// Forgets the counts of the writers to `target_buffer`, which no longer exists.
    pub fn forget_buffer(&self, target_buffer: BufferId) {
        self.state.lock().accounts.forget_buffer(target_buffer);
    }

    /// Registers a new writer, also with the service.
    pub(super) fn register_writer(&self, target_buffer: BufferId) -> NewWriter {
        let new_writer = {
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
            NewWriter {
                numbering,
                account_id,
                counters,
                losses: Arc::default(),
            }
        };
        if let Some(Numbering { writer_id, .. }) = new_writer.numbering {
            self.endpoint
                .register_writer(writer_id, target_buffer, &new_writer.losses);
        }
        new_writer
    }

    /// Unregisters a writer that has returned its chunks.
    pub(super) fn unregister_writer(&self, numbering: Option<Numbering>, account_id: AccountId) {
        if let Some(Numbering { writer_id, .. }) = numbering {
            // Unregister before the id is released, so that the next writer with this id registers
            // afterwards.
            self.endpoint.unregister_writer(writer_id);
        }
        let mut state = self.state.lock();
        let next_chunk_id = numbering.map(|numbering| numbering.next_chunk_id);
        state.accounts.close(account_id, next_chunk_id);
        if let Some(Numbering { writer_id, .. }) = numbering {
            state.writer_ids.release(writer_id);
        }
    }

    /// Returns a free chunk, or waits for one if the writer's policy is to stall. If no chunk of
    /// `size` is free, the returned chunk may have another size.
    pub(super) fn acquire_chunk(
        &self,
        header: NewChunk,
        size: ChunkSize,
        policy: BufferExhaustedPolicy,
        stall_limit: Option<Duration>,
    ) -> Option<WritableChunk> {
        let request = ChunkRequest { header, size };
        self.find_chunk(request).or_else(|| match policy {
            BufferExhaustedPolicy::Drop => None,
            BufferExhaustedPolicy::Stall | BufferExhaustedPolicy::StallThenDrop => {
                self.stall_for_chunk(request, stall_limit.unwrap_or(self.config.stall_limit))
            }
        })
    }

    /// Returns true if the buffer has room for packets that it must keep until they are read. With
    /// [`RoomWait::UntilLimit`], waits for room until the stall limit.
    pub(super) fn has_room(
        &self,
        target_buffer: BufferId,
        patience: RoomWait,
        stall_limit: Option<Duration>,
    ) -> bool {
        let timeout = match patience {
            RoomWait::Query => Duration::ZERO,
            RoomWait::NoWait => SHORTEST_WAIT,
            RoomWait::UntilLimit => stall_limit
                .unwrap_or(self.config.stall_limit)
                .max(SHORTEST_WAIT),
        };
        self.endpoint.wait_for_room(target_buffer, timeout)
    }

    /// Returns true if one of the next `pages` pages from `cursor` on seems to have a free chunk.
    /// Reads one word per page, without a lock. Advances `cursor`.
    pub(super) fn seems_free(&self, cursor: &mut u32, pages: u32) -> bool {
        let page_count = self.memory.geometry().page_count();
        (0..pages.min(page_count)).any(|_| {
            *cursor = (*cursor + 1) % page_count;
            self.memory.seems_free(*cursor)
        })
    }

    /// Commits a chunk, together with the patches for earlier chunks that are ready. `commit` is
    /// the writer's own builder.
    pub(super) fn return_chunk(
        &self,
        chunk: WritableChunk,
        writer_id: WriterId,
        target_buffer: BufferId,
        patches: &mut PatchList,
        commit: &mut CommitBuilder,
    ) {
        let payload_bytes = chunk.payload_size_bytes() as u32;
        let place = chunk.complete();
        commit.add_chunk(place, target_buffer, payload_bytes);
        commit.add_ready_patches(patches, writer_id, target_buffer);
        commit.send(&*self.endpoint);
        self.note_page(&mut self.state.lock(), place.page_index);
    }

    /// Commits only patches.
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

    /// Updates the state from a page's word.
    fn note_page(&self, state: &mut State, page_index: u32) {
        if let Some(word) = self.memory.page_word(page_index) {
            state.chunks.note(page_index, word);
        }
    }

    /// Takes a free chunk, if the state has one. Otherwise searches for chunks that the service has
    /// freed outside of commits.
    fn find_chunk(&self, request: ChunkRequest) -> Option<WritableChunk> {
        let known = self.take_known_chunk(&mut self.state.lock(), request);
        // The lock is already released, so the search does not hold it.
        known.or_else(|| self.find_freed_chunk(request))
    }

    fn take_known_chunk(&self, state: &mut State, request: ChunkRequest) -> Option<WritableChunk> {
        // A page that was noted as free is free, so a second round happens only if the service
        // misbehaves.
        for _ in 0..self.memory.geometry().page_count() {
            let (page_index, layout) = state.chunks.choose(request.size)?;
            let chunk = self
                .memory
                .acquire_for_writing(page_index, layout, request.header);
            self.note_page(state, page_index);
            if chunk.is_some() {
                return chunk;
            }
        }
        None
    }

    /// Reads every page word once, without the lock. Notes pages with free chunks until it gets one
    /// of the chunks.
    #[cold]
    fn find_freed_chunk(&self, request: ChunkRequest) -> Option<WritableChunk> {
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
            let chunk = self.take_known_chunk(state, request);
            if chunk.is_some() {
                return chunk;
            }
        }
        None
    }

    /// Waits until a chunk is free or the time limit is reached.
    #[cold]
    fn stall_for_chunk(&self, request: ChunkRequest, limit: Duration) -> Option<WritableChunk> {
        let started = Instant::now();
        let mut pause = Duration::ZERO;
        loop {
            if pause.is_zero() {
                thread::yield_now();
            } else {
                thread::sleep(pause.min(limit.saturating_sub(started.elapsed())));
            }
            pause = ((pause + Duration::from_micros(1)) * 8).min(STALL_PAUSE_MAX);
            let chunk = self.find_chunk(request);
            // After the shutdown, the service frees no chunks, so waiting longer is of no use.
            let waited = started.elapsed();
            if chunk.is_some() || waited >= limit || self.state.lock().is_shut_down {
                // Relaxed: see the method `waited`. The sum overflows after 584 years of waiting.
                self.waited_ns
                    .fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
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
