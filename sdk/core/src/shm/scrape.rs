//! Scraping: reading the packets of chunks that are not committed yet.
//!
//! There is no data race with trace writers that go on writing, for these reasons:
//!
//! 1. The scraper only reads bytes of finished fragments. A trace writer counts a fragment, with a
//!    release store, only when all earlier fragments are finished. The scraper loads the count with
//!    acquire, and leaves out the last fragment that the count covers. So all writes to the bytes
//!    of the other fragments happened before the load. In a Complete chunk, all fragments are
//!    finished: their writes happened before the acquire load that saw this state.
//! 2. These bytes are not written again while the chunk is in use. Patches change the service's
//!    copy, not the chunk.
//! 3. The chunk stays in use during the scrape. Only the service frees chunks, through
//!    [`ReadableChunk`](super::ReadableChunk)s that borrow the [`ServiceMemory`]. The scraper
//!    borrows the `ServiceMemory` mutably, so no other code frees a chunk meanwhile.
//!
//! The scraper finds the fragments by walking along their sizes, which are bytes of finished
//! fragments, too. If a size leads out of the payload, the walk ends.
//!
//! Perfetto's own service copies the whole chunk, including bytes that may change meanwhile, and
//! leaves out the last fragment afterwards. Here, the bytes of an open fragment are not read at
//! all.
#![allow(unsafe_code)] // Reads finished fragments of chunks that trace writers still write to.

use super::chunk::ABANDONED_FRAGMENT_SIZE;
use super::layout::{ChunkPlace, PacketsWord};
use super::memory::{ChunkExtent, ServiceMemory};
use super::state::{self, ChunkState};
use super::sync::Ordering;
use crate::ids::{ChunkId, WriterId};

/// The largest number of bytes that the size of a fragment takes.
const SIZE_MAX_BYTES: usize = 4;

/// The header of a scraped chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrapedChunk {
    /// The id of the trace writer.
    pub writer_id: WriterId,
    /// The position of the chunk in the trace writer's sequence.
    pub chunk_id: ChunkId,
    /// The fragment count and flags. If the chunk is not complete, the last counted fragment is not
    /// finished, and the flags about the last packet are about that fragment.
    pub packets: PacketsWord,
    /// True if the trace writer has completed the chunk.
    pub is_complete: bool,
}

impl ServiceMemory {
    /// Copies fragments of a chunk to `payload`: the finished ones if the chunk is being written,
    /// or all if it is complete. Replaces the content of `payload`, which becomes as long as the
    /// chunk's payload; bytes behind the copied fragments are zero. The chunk's state does not
    /// change.
    ///
    /// Returns `None` if the chunk does not exist, is not in use, or has no finished fragment.
    pub fn scrape(&mut self, place: ChunkPlace, payload: &mut Vec<u8>) -> Option<ScrapedChunk> {
        let page_word = state::load(self.mapping.page_word(place.page_index)?);
        let is_complete = match page_word.chunk_state(place.chunk_index)? {
            ChunkState::Complete => true,
            ChunkState::BeingWritten => false,
            ChunkState::Free | ChunkState::BeingRead => return None,
        };
        let extent = self.mapping.extent(place, page_word.layout()?)?;
        // SAFETY: the chunk is in use, and stays in use by item 3 above.
        let header = unsafe { self.mapping.chunk_header(extent) };
        // Acquire pairs with the release in `WritableChunk::store_packets`. So the two relaxed
        // loads below also see the ids that belong to this count.
        let packets = PacketsWord::from_bits(header.packets.load(Ordering::Acquire));
        let fragments = if is_complete {
            packets.count()
        } else {
            packets.count().saturating_sub(1)
        };
        if fragments == 0 {
            return None;
        }
        let scraped = ScrapedChunk {
            writer_id: WriterId(header.writer_id.load(Ordering::Relaxed)),
            chunk_id: ChunkId(header.chunk_id.load(Ordering::Relaxed)),
            packets,
            is_complete,
        };
        payload.clear();
        self.copy_fragments(extent, fragments, payload);
        payload.resize(extent.payload_size_bytes(), 0);
        Some(scraped)
    }

    /// Appends the first `fragments` fragments of a chunk, with their sizes. All of them are
    /// finished. Stops behind a size that is invalid or marks an abandoned packet.
    fn copy_fragments(&self, extent: ChunkExtent, fragments: u16, payload: &mut Vec<u8>) {
        for _ in 0..fragments {
            let Some(size) = self.copy_size(extent, payload) else {
                return;
            };
            let Some(fragment) = self.finished_bytes(extent, payload.len(), size) else {
                return;
            };
            payload.extend_from_slice(fragment);
        }
    }

    /// Appends the bytes of the next fragment's size. Returns the size, or `None` if it is invalid
    /// or marks an abandoned packet.
    fn copy_size(&self, extent: ChunkExtent, payload: &mut Vec<u8>) -> Option<usize> {
        let mut size = 0;
        for index in 0..SIZE_MAX_BYTES {
            let byte = *self.finished_bytes(extent, payload.len(), 1)?.first()?;
            payload.push(byte);
            size |= u32::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return (size != ABANDONED_FRAGMENT_SIZE).then_some(size as usize);
            }
        }
        None
    }

    /// Returns `len` bytes of the payload from `offset_bytes` on, which belong to a finished
    /// fragment. Returns `None` if the payload is too short.
    fn finished_bytes(
        &self,
        extent: ChunkExtent,
        offset_bytes: usize,
        len: usize,
    ) -> Option<&[u8]> {
        let end_bytes = offset_bytes.checked_add(len)?;
        if end_bytes > extent.payload_size_bytes() {
            return None;
        }
        let start_bytes = extent.payload_offset_bytes() + offset_bytes;
        // SAFETY: the bytes lie in the payload, as just checked, in a finished fragment. By items 1
        // to 3 above, all writes to these bytes happened before this read, and no later write
        // follows.
        Some(unsafe { self.mapping.backing.read(start_bytes, len) })
    }
}
