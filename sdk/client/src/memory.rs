//! The memory of a connection, from which writers get their chunks.
//!
//! A daemon on this machine maps the memory, too. A daemon on a network cannot, so the connection
//! then sends the bytes of the chunks. Writers do not see the difference: the thread that sends
//! does what the daemon would do. It reads each chunk that a commit names, and frees it. At a
//! flush, it also reads the chunks that are being written.

use std::collections::HashMap;

use tracezero_core::commit::ChunkToMove;
use tracezero_core::ids::{BufferId, WriterId};
use tracezero_core::shm::{
    ChunkPlace, Geometry, MemoryError, ProducerMemory, ServiceMemory, shared_memory,
};
use tracezero_ipc::producer_port::ChunkData;

/// The size of emulated memory, in bytes, as in Perfetto.
const EMULATED_BYTES: usize = 1 << 20;

/// The memory of a connection.
#[derive(Debug)]
pub(crate) enum Memory {
    /// No memory: the daemon has not said yet how large pages are.
    None {
        /// True if the daemon cannot share memory with this process.
        is_emulated: bool,
    },
    /// Memory that the daemon maps, too.
    Shared,
    Emulated(EmulatedMemory),
}

/// The daemon's part of memory that the daemon cannot map.
#[derive(Debug)]
pub(crate) struct EmulatedMemory {
    memory: ServiceMemory,
    /// The buffer of each registered writer.
    writers: HashMap<WriterId, BufferId>,
    /// The payload of the chunk that was scraped last.
    payload: Vec<u8>,
}

impl EmulatedMemory {
    /// Creates the memory, with pages of the size that the daemon has chosen.
    pub(crate) fn new(page_size_bytes: usize) -> Result<(ProducerMemory, Self), MemoryError> {
        let (producer, memory) = shared_memory(Geometry::new(EMULATED_BYTES, page_size_bytes)?)?;
        let emulated = Self {
            memory,
            writers: HashMap::new(),
            payload: Vec::new(),
        };
        Ok((producer, emulated))
    }

    pub(crate) fn register_writer(&mut self, writer_id: WriterId, target_buffer: BufferId) {
        self.writers.insert(writer_id, target_buffer);
    }

    pub(crate) fn unregister_writer(&mut self, writer_id: WriterId) {
        self.writers.remove(&writer_id);
    }

    /// Reads a chunk that a writer has completed, and frees it.
    pub(crate) fn take(&self, chunk: &ChunkToMove, send: impl FnOnce(&ChunkData<'_>)) {
        let place = ChunkPlace {
            page_index: chunk.page_index,
            chunk_index: chunk.chunk_index,
        };
        // The chunk is complete: the arbiter commits each chunk once, after it was completed.
        let Ok(readable) = self.memory.acquire_for_reading(place) else {
            return;
        };
        send(&ChunkData {
            place,
            target_buffer: chunk.target_buffer,
            writer_id: readable.header().writer_id,
            chunk_id: readable.header().chunk_id,
            packets: readable.header().packets,
            payload: readable.payload(),
            is_complete: true,
        });
        // Dropping `readable` frees the chunk.
    }

    /// Reads the finished packets of all chunks that are in use.
    pub(crate) fn scrape(&mut self, mut send: impl FnMut(&ChunkData<'_>)) {
        let writers = &self.writers;
        let used = (self.memory).used_chunks(|writer_id| writers.contains_key(&writer_id));
        for chunk in used {
            let scraped = self.memory.scrape(chunk.place, &mut self.payload);
            let scraped = scraped.filter(|scraped| chunk.is(scraped));
            let (Some(scraped), Some(target_buffer)) = (scraped, writers.get(&chunk.writer_id))
            else {
                continue;
            };
            send(&ChunkData {
                place: chunk.place,
                target_buffer: *target_buffer,
                writer_id: scraped.header.writer_id,
                chunk_id: scraped.header.chunk_id,
                packets: scraped.header.packets,
                payload: &self.payload,
                is_complete: scraped.is_complete,
            });
        }
    }
}
