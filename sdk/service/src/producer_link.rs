//! State of a producer that the service and the producer's endpoint share. Commits need nothing
//! else.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::central_buffer::CentralBuffer;
use super::trace_buffer::{ClientIdentity, UntrustedChunk};
use tracezero_core::commit::{ChunkToMove, ChunkToPatch};
use tracezero_core::ids::{BufferId, ProducerId, WriterId};
use tracezero_core::shm::{ChunkPlace, PageWord, ServiceMemory};

/// The maximum number of patches for one chunk in one request.
const PATCHES_PER_CHUNK_MAX: usize = 1024;

/// The number of pages that are scraped at a time, while no chunk can be committed: 256 KiB with
/// pages of the usual size.
const SCRAPED_PAGES_MAX: usize = 64;

/// State of a producer that the service and the producer's endpoint share. Commits need nothing
/// else.
pub(super) struct ProducerLink {
    id: ProducerId,
    client: ClientIdentity,
    /// The shared memory. Commits lock it for reading. Scraping locks it for writing, so that no
    /// chunk is freed meanwhile.
    memory: RwLock<ServiceMemory>,
    /// The buffers of the sessions that record this producer. The producer may write to no others.
    buffers: RwLock<HashMap<BufferId, Arc<CentralBuffer>>>,
    /// The target buffers of the registered writers. The producer chooses them: they may be buffers
    /// that it may not write to.
    writers: RwLock<HashMap<WriterId, BufferId>>,
    refused: Arc<RefusedCommits>,
}

/// The number of commits of all producers to buffers that they may not write to.
#[derive(Debug, Default)]
pub(super) struct RefusedCommits {
    chunks: AtomicU64,
    patches: AtomicU64,
}

impl RefusedCommits {
    /// Returns the number of refused chunks and of refused patches.
    pub(super) fn counts(&self) -> (u64, u64) {
        // Relaxed: counts that order nothing else.
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
            writers: RwLock::default(),
            refused,
        }
    }

    pub(super) fn client(&self) -> ClientIdentity {
        self.client
    }

    /// Allows this producer to write to `buffer`.
    pub(super) fn allow(&self, buffer: &Arc<CentralBuffer>) {
        self.buffers.write().insert(buffer.id, Arc::clone(buffer));
    }

    /// Forbids this producer to write to these buffers. What it commits to them later is dropped.
    pub(super) fn revoke(&self, revoked: &[Arc<CentralBuffer>]) {
        let mut buffers = self.buffers.write();
        for buffer in revoked {
            buffers.remove(&buffer.id);
        }
    }

    /// Registers a writer to `target_buffer`. Returns that buffer, if the producer may write to it.
    /// Ignores an id that no writer can have.
    pub(super) fn register_writer(
        &self,
        writer_id: WriterId,
        target_buffer: BufferId,
    ) -> Option<Arc<CentralBuffer>> {
        if !writer_id.is_valid() {
            return None;
        }
        self.writers.write().insert(writer_id, target_buffer);
        self.buffer(target_buffer)
    }

    /// Unregisters a writer. Returns its buffer, if the producer may write to it.
    pub(super) fn unregister_writer(&self, writer_id: WriterId) -> Option<Arc<CentralBuffer>> {
        let target_buffer = self.writers.write().remove(&writer_id)?;
        self.buffer(target_buffer)
    }

    /// Copies finished packets out of chunks that writers still hold into all buffers that this
    /// producer may write to.
    pub(super) fn scrape_all(&self) {
        let buffers: Vec<_> = self.buffers.read().values().map(Arc::clone).collect();
        self.scrape_into(&buffers);
    }

    /// Copies finished packets out of chunks that writers still hold into those of `buffers` that
    /// this producer may write to.
    pub(super) fn scrape(&self, buffers: &[Arc<CentralBuffer>]) {
        // A writer names its buffer itself, so that it is registered there proves nothing.
        let allowed = buffers.iter().filter_map(|buffer| self.buffer(buffer.id));
        self.scrape_into(&allowed.collect::<Vec<_>>());
    }

    /// Writers that come to the end of a chunk meanwhile wait for one batch of pages at most. If a
    /// writer acquires a chunk after the scrape started, the scrape may miss it. Such a chunk holds
    /// only packets that were written after the start.
    fn scrape_into(&self, buffers: &[Arc<CentralBuffer>]) {
        // Without writers, no chunk has a target. Then do not even look at page words: the system
        // allocates each page of shared memory that is looked at.
        if self.writers.read().is_empty() {
            return;
        }
        let mut payload = Vec::new();
        let page_count = self.memory.read().lent_page_count();
        for first_page in (0..page_count).step_by(SCRAPED_PAGES_MAX) {
            let mut memory = self.memory.write();
            let writers = self.writers.read();
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
        let used = memory.page_word(page_index).map(PageWord::used_chunks);
        for chunk_index in used.into_iter().flatten() {
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

    /// Returns the buffer with this id if this producer may write to it.
    pub(super) fn buffer(&self, id: BufferId) -> Option<Arc<CentralBuffer>> {
        self.buffers.read().get(&id).map(Arc::clone)
    }

    pub(super) fn move_chunk(&self, chunk_to_move: &ChunkToMove) {
        let place = ChunkPlace {
            page_index: chunk_to_move.page_index,
            chunk_index: chunk_to_move.chunk_index,
        };
        let memory = self.memory.read();
        // Ignore a commit that names an incomplete chunk. Producers in this process never send one.
        let Ok(chunk) = memory.acquire_for_reading(place) else {
            return;
        };
        let writer_id = chunk.writer_id();
        let buffer = self.buffer(chunk_to_move.target_buffer);
        match buffer.filter(|buffer| self.may_commit(writer_id, buffer.id)) {
            Some(buffer) => buffer.commit(&UntrustedChunk {
                producer_id: self.id,
                client: self.client,
                writer_id,
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

    /// Returns false if no writer has this id, or if the writer is registered for another buffer. A
    /// writer that is not registered may commit.
    fn may_commit(&self, writer_id: WriterId, target_buffer: BufferId) -> bool {
        let registered = self.writers.read().get(&writer_id).copied();
        writer_id.is_valid() && registered.is_none_or(|registered| registered == target_buffer)
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

#[cfg(test)]
mod tests {
    use tracezero_core::shm::{Geometry, shared_memory};

    use super::*;

    #[test]
    fn memory_of_a_producer_without_writers_is_not_looked_at() {
        let geometry = Geometry::new(4096, 4096).unwrap();
        let (_, memory) = shared_memory(geometry).unwrap();
        let client = ClientIdentity::default();
        let link = ProducerLink::new(ProducerId::new(1), client, memory, Arc::default());
        let writer_id = WriterId(1);
        link.writers.lock().insert(writer_id, BufferId(1));
        link.writers.lock().remove(&writer_id);
        // A scrape that looked at the memory would wait for this guard for ever.
        let guard = link.memory.write();
        link.scrape(&[]);
        drop(guard);
    }
}
