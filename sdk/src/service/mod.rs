//! The service: takes commits from producers, owns the central buffers, and turns them into
//! traces.
//!
//! Here it lives in the process of its only producer. A commit is a function call that copies the
//! chunk into its buffer and frees it: no thread, no system call, no queue.

pub mod trace_buffer; // the central ring: chunks in, whole packets out

mod service_packets; // what the service itself tells a trace
mod packet_framer; // packets of writers, on their way into a trace
mod tracing_session; // the buffers of one session, read as a trace

use std::collections::HashMap;
use std::iter;
use std::sync::Arc;
use std::thread;

use parking_lot::{Mutex, MutexGuard, RwLock};

use self::trace_buffer::{ClientIdentity, TraceBuffer, UntrustedChunk};
use crate::commit::{ChunkToMove, ChunkToPatch, CommitRequest, RingProgress, ServiceEndpoint};
use crate::ids::{BufferId, ProducerId, WriterId};
use crate::shm::ServiceMemory;
use crate::shm::layout::{CHUNKS_PER_PAGE_MAX, ChunkPlace};
pub(crate) use tracing_session::TracingSession;

/// The one producer of an in-process service.
pub(crate) const IN_PROCESS_PRODUCER: ProducerId = ProducerId(1);

/// A central buffer, and who reads it.
pub(crate) struct CentralBuffer {
    pub(crate) id: BufferId,
    pub(crate) buffer: Mutex<TraceBuffer>,
    /// Tells writers when to repeat what their packets build on.
    pub(crate) progress: Arc<RingProgress>,
    reader: Reader,
}

/// Who reads a buffer, and when.
pub(crate) enum Reader {
    /// A thread, while the session goes on. The function wakes it; it is called at commits while
    /// much of the buffer waits to be read.
    Drains(Box<dyn Fn() + Send + Sync>),
    /// Whoever ends the session; by then the oldest packets may be overwritten.
    ReadsWhatIsLeft,
    /// Whoever ends the session; nothing is overwritten.
    ReadsAll,
}

impl CentralBuffer {
    // Inlined, so that the chunk stays in registers: see `TraceBuffer::commit_chunk`.
    #[inline]
    fn commit(&self, chunk: &UntrustedChunk<'_>) {
        let mut buffer = self.buffer.lock();
        buffer.commit_chunk(chunk);
        let stats = buffer.stats();
        let wake = match &self.reader {
            Reader::Drains(wake) => wake,
            Reader::ReadsWhatIsLeft => {
                let part_bytes = stats.buffer_size / RingProgress::PARTS;
                self.progress.advance_to(stats.bytes_written / part_bytes);
                return;
            }
            Reader::ReadsAll => return,
        };
        let unread_bytes = stats
            .bytes_written
            .saturating_sub(stats.bytes_read + stats.bytes_overwritten);
        let size_bytes = stats.buffer_size;
        if unread_bytes > size_bytes / 2 {
            // The reader does not keep up: let it have the lock and the processor first.
            MutexGuard::unlock_fair(buffer);
            wake();
            thread::yield_now();
        } else if unread_bytes > size_bytes / 4 {
            drop(buffer);
            wake();
        }
    }
}

/// The service of one process, with that process as its only producer.
pub(crate) struct Service {
    /// Commits share it; scraping, which must not meet a chunk that is being freed, has it alone.
    memory: RwLock<ServiceMemory>,
    buffers: RwLock<Buffers>,
    /// Where the registered writers write to.
    writers: Mutex<HashMap<WriterId, BufferId>>,
    client: ClientIdentity,
}

/// The buffers that are open.
#[derive(Default)]
struct Buffers {
    by_id: HashMap<BufferId, Arc<CentralBuffer>>,
    /// The id that was given out last; 0 at first.
    last_id: u16,
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

    /// Opens a buffer for commits, under an id of its own; `None` if all ids are in use.
    ///
    /// Ids are not used again soon: a thread that still holds a chunk for a buffer that is gone
    /// commits it later, and it must not end up in somebody else's trace.
    pub(crate) fn open_buffer(
        &self,
        buffer: TraceBuffer,
        reader: Reader,
    ) -> Option<Arc<CentralBuffer>> {
        let mut buffers = self.buffers.write();
        let next = |id: u16| id.checked_add(1).unwrap_or(1);
        let id = iter::successors(Some(next(buffers.last_id)), |&id| Some(next(id)))
            .take(usize::from(u16::MAX))
            .find(|&id| !buffers.by_id.contains_key(&BufferId(id)))?;
        buffers.last_id = id;
        let buffer = Arc::new(CentralBuffer {
            id: BufferId(id),
            buffer: Mutex::new(buffer),
            progress: Arc::default(),
            reader,
        });
        buffers.by_id.insert(buffer.id, Arc::clone(&buffer));
        Some(buffer)
    }

    /// From now on, what is committed to these buffers goes nowhere.
    pub(crate) fn remove_buffers(&self, removed: &[Arc<CentralBuffer>]) {
        let mut buffers = self.buffers.write();
        for buffer in removed {
            buffers.by_id.remove(&buffer.id);
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
        self.buffers.read().by_id.get(&id).map(Arc::clone)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::trace_buffer::FillPolicy;
    use crate::shm::{Geometry, shared_memory};

    fn service() -> Service {
        let geometry = Geometry::new(4096, 4096).expect("one page is legal");
        Service::new(shared_memory(geometry).expect("there is memory").1)
    }

    fn open(service: &Service) -> Arc<CentralBuffer> {
        let buffer = TraceBuffer::new(4096, FillPolicy::Ring).expect("there is memory");
        service
            .open_buffer(buffer, Reader::ReadsAll)
            .expect("ids are left")
    }

    #[test]
    fn the_id_of_a_buffer_that_is_gone_is_not_used_again_soon() {
        let service = service();
        let gone = open(&service);
        service.remove_buffers(std::slice::from_ref(&gone));
        assert_ne!(open(&service).id, gone.id);
        assert!(service.buffer(gone.id).is_none());
    }

    #[test]
    fn ids_go_on_from_1_after_the_last_one_and_leave_out_those_in_use() {
        let service = service();
        let first = open(&service);
        service.buffers.write().last_id = u16::MAX - 1;
        assert_eq!(open(&service).id, BufferId(u16::MAX));
        assert_eq!(first.id, BufferId(1));
        assert_eq!(open(&service).id, BufferId(2));
    }
}
