//! State that the service shares with the endpoint of a producer: all that commits need.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::central_buffer::CentralBuffer;
use super::trace_buffer::{ClientIdentity, UntrustedChunk};
use tracezero_core::commit::{ChunkToMove, ChunkToPatch};
use tracezero_core::ids::{BufferId, ProducerId, WriterId};
use tracezero_core::shm::{ChunkPlace, PageWord, ServiceMemory};

/// Patches that one request may have for one chunk.
const PATCHES_PER_CHUNK_MAX: usize = 1024;

/// Pages that are scraped at a time, while nobody can commit a chunk: 256 KiB of usual pages.
const SCRAPED_PAGES_MAX: usize = 64;

/// What service and endpoint share about a producer: all that commits need.
pub(super) struct ProducerLink {
    id: ProducerId,
    client: ClientIdentity,
    /// Commits share it; scraping, which must not meet a chunk that is being freed, has it alone.
    memory: RwLock<ServiceMemory>,
    /// The buffers of sessions that record this producer: it may write to no others.
    buffers: RwLock<HashMap<BufferId, Arc<CentralBuffer>>>,
    /// Where the registered writers write to.
    pub(super) writers: Mutex<HashMap<WriterId, BufferId>>,
    refused: Arc<RefusedCommits>,
}

/// What producers committed to buffers that are not theirs, over all producers.
#[derive(Debug, Default)]
pub(super) struct RefusedCommits {
    chunks: AtomicU64,
    patches: AtomicU64,
}

impl RefusedCommits {
    /// Chunks and patches refused so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        // Relaxed: counts, ordered with nothing.
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.chunks), load(&self.patches))
    }

    fn add(count: &AtomicU64) {
        // Relaxed: as in `counts`.
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl ProducerLink {
    pub(super) fn new(
        id: ProducerId,
        client: ClientIdentity,
        memory: ServiceMemory,
        refused: Arc<RefusedCommits>,
    ) -> Self {
        Self {
            id,
            client,
            memory: RwLock::new(memory),
            buffers: RwLock::default(),
            writers: Mutex::default(),
            refused,
        }
    }

    pub(super) fn client(&self) -> ClientIdentity {
        self.client
    }

    /// From now on, this producer may write to `buffer`.
    pub(super) fn allow(&self, buffer: &Arc<CentralBuffer>) {
        self.buffers.write().insert(buffer.id, Arc::clone(buffer));
    }

    /// From now on, what is committed to these buffers goes nowhere.
    pub(super) fn revoke(&self, revoked: &[Arc<CentralBuffer>]) {
        let mut buffers = self.buffers.write();
        for buffer in revoked {
            buffers.remove(&buffer.id);
        }
    }

    /// Copies what is finished in chunks that writers still hold into `buffers`.
    ///
    /// Writers that come to the end of a chunk meanwhile wait for a batch of pages at most. A chunk
    /// that is taken behind the scrape holds only what was written after its begin.
    pub(super) fn scrape(&self, buffers: &[Arc<CentralBuffer>]) {
        let mut payload = Vec::new();
        let page_count = self.memory.read().lent_page_count();
        for first_page in (0..page_count).step_by(SCRAPED_PAGES_MAX) {
            let mut memory = self.memory.write();
            let writers = self.writers.lock();
            let behind_last = page_count.min(first_page + SCRAPED_PAGES_MAX as u32);
            for page_index in first_page..behind_last {
                self.scrape_page(&mut memory, page_index, &writers, buffers, &mut payload);
            }
        }
    }

    fn scrape_page(
        &self,
        memory: &mut ServiceMemory,
        page_index: u32,
        writers: &HashMap<WriterId, BufferId>,
        buffers: &[Arc<CentralBuffer>],
        payload: &mut Vec<u8>,
    ) {
        let mut used_chunks = memory.page_word(page_index).map_or(0, PageWord::used_mask);
        while used_chunks != 0 {
            let chunk_index = used_chunks.trailing_zeros() as u8;
            used_chunks &= used_chunks - 1;
            let place = ChunkPlace {
                page_index,
                chunk_index,
            };
            let Some(scraped) = memory.scrape(place, payload) else {
                continue;
            };
            let target = writers.get(&scraped.writer_id);
            let Some(buffer) = buffers.iter().find(|buffer| Some(&buffer.id) == target) else {
                continue;
            };
            buffer.commit(&UntrustedChunk {
                producer_id: self.id,
                client: self.client,
                writer_id: scraped.writer_id,
                chunk_id: scraped.chunk_id,
                fragment_count: scraped.packets.count(),
                flags: scraped.packets.flags(),
                complete: scraped.is_complete,
                payload,
            });
        }
    }

    /// The buffer with this id, if this producer may write to it.
    pub(super) fn buffer(&self, id: BufferId) -> Option<Arc<CentralBuffer>> {
        self.buffers.read().get(&id).map(Arc::clone)
    }

    pub(super) fn move_chunk(&self, chunk_to_move: &ChunkToMove) {
        let place = ChunkPlace {
            page_index: chunk_to_move.page_index,
            chunk_index: chunk_to_move.chunk_index,
        };
        let memory = self.memory.read();
        // A commit that names a chunk which is not complete is ignored; in process, none does.
        let Ok(chunk) = memory.acquire_for_reading(place) else {
            return;
        };
        match self.buffer(chunk_to_move.target_buffer) {
            Some(buffer) => buffer.commit(&UntrustedChunk {
                producer_id: self.id,
                client: self.client,
                writer_id: chunk.writer_id(),
                chunk_id: chunk.chunk_id(),
                fragment_count: chunk.packets().count(),
                flags: chunk.packets().flags(),
                complete: true,
                payload: chunk.payload(),
            }),
            None => RefusedCommits::add(&self.refused.chunks),
        }
        // Dropping the chunk frees it.
    }

    pub(super) fn patch_chunk(&self, patch: &ChunkToPatch) {
        let buffer = self.buffer(patch.target_buffer);
        match buffer.filter(|_| patch.patches.len() <= PATCHES_PER_CHUNK_MAX) {
            Some(buffer) => buffer.patch(
                self.id,
                patch.writer_id,
                patch.chunk_id,
                &patch.patches,
                patch.has_more_patches,
            ),
            None => RefusedCommits::add(&self.refused.patches),
        }
    }
}
