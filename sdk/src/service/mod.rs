//! The service: takes commits from producers, owns the central buffers, and turns them into
//! traces.
//!
//! Here it lives in the process of its only producer. A commit is a function call that copies the
//! chunk into its buffer and frees it: no thread, no system call, no queue.

pub mod trace_buffer; // the central ring: chunks in, whole packets out

mod service_packets; // what the service itself tells a trace
mod tracing_session; // the buffers of one session, read as a trace

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use self::trace_buffer::{ClientIdentity, TraceBuffer, UntrustedChunk};
use crate::commit::{ChunkToMove, ChunkToPatch, CommitRequest, ServiceEndpoint};
use crate::ids::{BufferId, ProducerId, WriterId};
use crate::shm::ServiceMemory;
use crate::shm::layout::{CHUNKS_PER_PAGE_MAX, ChunkPlace};
pub(crate) use tracing_session::TracingSession;

/// The one producer of an in-process service.
pub(crate) const IN_PROCESS_PRODUCER: ProducerId = ProducerId(1);

/// A central buffer and what wakes its reader.
pub(crate) struct CentralBuffer {
    pub(crate) id: BufferId,
    pub(crate) buffer: Mutex<TraceBuffer>,
    /// Bytes committed since the buffer was last drained.
    undrained_bytes: AtomicU64,
    /// Above this many undrained bytes, `wake` is called with every commit.
    wake_above_bytes: u64,
    wake: Option<Box<dyn Fn() + Send + Sync>>,
}

impl CentralBuffer {
    pub(crate) fn new(
        id: BufferId,
        buffer: TraceBuffer,
        wake: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> Self {
        Self {
            id,
            // Half a ring is left for what is committed until the reader has come.
            wake_above_bytes: buffer.size_bytes() / 4,
            buffer: Mutex::new(buffer),
            undrained_bytes: AtomicU64::new(0),
            wake,
        }
    }

    /// The reader is about to drain the buffer.
    pub(crate) fn note_drained(&self) {
        // Relaxed: a figure to schedule by, ordered with nothing.
        self.undrained_bytes.store(0, Ordering::Relaxed);
    }

    // Inlined, so that the chunk stays in registers: see `TraceBuffer::commit_chunk`.
    #[inline]
    fn commit(&self, chunk: &UntrustedChunk<'_>) {
        self.buffer.lock().commit_chunk(chunk);
        if let Some(wake) = &self.wake {
            let len = chunk.payload.len() as u64;
            // Relaxed: as in `note_drained`.
            let undrained = self.undrained_bytes.fetch_add(len, Ordering::Relaxed) + len;
            if undrained > self.wake_above_bytes {
                wake();
            }
        }
    }
}

/// The service of one process, with that process as its only producer.
pub(crate) struct Service {
    /// Commits share it; scraping, which must not meet a chunk that is being freed, has it alone.
    memory: RwLock<ServiceMemory>,
    buffers: RwLock<HashMap<BufferId, Arc<CentralBuffer>>>,
    /// Where the registered writers write to.
    writers: Mutex<HashMap<WriterId, BufferId>>,
    client: ClientIdentity,
}

impl Service {
    pub(crate) fn new(memory: ServiceMemory) -> Self {
        Self {
            memory: RwLock::new(memory),
            buffers: RwLock::default(),
            writers: Mutex::default(),
            client: ClientIdentity {
                uid: Some(rustix::process::getuid().as_raw()),
                pid: Some(std::process::id()),
            },
        }
    }

    /// An id that no buffer has; `None` if there is none.
    pub(crate) fn free_buffer_id(&self) -> Option<BufferId> {
        let buffers = self.buffers.read();
        (1..=u16::MAX)
            .map(BufferId)
            .find(|id| !buffers.contains_key(id))
    }

    pub(crate) fn add_buffer(&self, buffer: Arc<CentralBuffer>) {
        self.buffers.write().insert(buffer.id, buffer);
    }

    /// From now on, what is committed to these buffers goes nowhere.
    pub(crate) fn remove_buffers(&self, removed: &[Arc<CentralBuffer>]) {
        let mut buffers = self.buffers.write();
        for buffer in removed {
            buffers.remove(&buffer.id);
        }
    }

    /// Copies what is finished in chunks that their writers still hold into `buffers`.
    pub(crate) fn scrape(&self, buffers: &[Arc<CentralBuffer>]) {
        let mut memory = self.memory.write();
        let writers = self.writers.lock();
        let mut payload = Vec::new();
        let places = (0..memory.geometry().page_count()).flat_map(|page_index| {
            (0..CHUNKS_PER_PAGE_MAX).map(move |chunk_index| ChunkPlace {
                page_index,
                chunk_index,
            })
        });
        for place in places {
            let Some(scraped) = memory.scrape(place, &mut payload) else {
                continue;
            };
            let target = writers.get(&scraped.writer_id);
            let Some(buffer) = buffers.iter().find(|buffer| Some(&buffer.id) == target) else {
                continue;
            };
            buffer.commit(&UntrustedChunk {
                producer_id: IN_PROCESS_PRODUCER,
                client: self.client,
                writer_id: scraped.writer_id,
                chunk_id: scraped.chunk_id,
                fragment_count: scraped.packets.count(),
                flags: scraped.packets.flags(),
                complete: scraped.is_complete,
                payload: &payload,
            });
        }
    }

    fn move_chunk(&self, chunk_to_move: &ChunkToMove) {
        let place = ChunkPlace {
            page_index: chunk_to_move.page_index,
            chunk_index: chunk_to_move.chunk_index,
        };
        let memory = self.memory.read();
        // A commit that names a chunk which is not complete is ignored; in process, none does.
        let Ok(chunk) = memory.acquire_for_reading(place) else {
            return;
        };
        let buffer = self.buffer(chunk_to_move.target_buffer);
        if let Some(buffer) = buffer {
            buffer.commit(&UntrustedChunk {
                producer_id: IN_PROCESS_PRODUCER,
                client: self.client,
                writer_id: chunk.writer_id(),
                chunk_id: chunk.chunk_id(),
                fragment_count: chunk.packets().count(),
                flags: chunk.packets().flags(),
                complete: true,
                payload: chunk.payload(),
            });
        }
        // Dropping the chunk frees it.
    }

    fn patch_chunk(&self, patch: &ChunkToPatch) {
        if let Some(buffer) = self.buffer(patch.target_buffer) {
            buffer.buffer.lock().patch_chunk(
                IN_PROCESS_PRODUCER,
                patch.writer_id,
                patch.chunk_id,
                &patch.patches,
                patch.has_more_patches,
            );
        }
    }

    /// The buffer with this id, unless its session has ended.
    fn buffer(&self, id: BufferId) -> Option<Arc<CentralBuffer>> {
        self.buffers.read().get(&id).map(Arc::clone)
    }
}

impl ServiceEndpoint for Service {
    fn commit(&self, request: &CommitRequest) {
        request
            .chunks_to_move
            .iter()
            .for_each(|chunk| self.move_chunk(chunk));
        request
            .chunks_to_patch
            .iter()
            .for_each(|patch| self.patch_chunk(patch));
    }

    fn register_writer(&self, writer_id: WriterId, target_buffer: BufferId) {
        self.writers.lock().insert(writer_id, target_buffer);
    }

    fn unregister_writer(&self, writer_id: WriterId) {
        self.writers.lock().remove(&writer_id);
    }
}
