//! Scraping: reading the packets of chunks that nobody committed yet.
//!
//! Why there is no data race, although writers go on writing:
//!
//! 1. The bytes that are read belong to finished fragments. A writer raises the packet count, with
//!    a release store, when it opens the fragment after a finished one; the scraper loads the count
//!    with acquire and leaves out the last fragment that it covers. So all writes to the bytes of
//!    the others happened before.
//! 2. Nobody writes them again while the chunk is in use. Lengths that become known late change
//!    the service's copy, not the chunk.
//! 3. The chunk stays in use during the scrape. Only the service frees chunks, through
//!    [`ReadableChunk`](super::ReadableChunk)s that borrow the [`ServiceMemory`], and the scraper
//!    has that to itself: it holds it mutably.
//!
//! The scraper finds the fragments by walking their sizes, which are such bytes as well. Sizes
//! that lead out of the payload end the walk.
//!
//! Perfetto's own service copies the whole chunk, and leaves out the last fragment afterwards. Here nobody
//! reads the bytes of an open fragment, so there is no data race to excuse.
#![allow(unsafe_code)] // Reads fragments of chunks that others may be writing.

use super::chunk::ABANDONED_FRAGMENT_SIZE;
use super::layout::{ChunkPlace, PacketsWord};
use super::memory::{ChunkExtent, ServiceMemory};
use super::state::{self, ChunkState};
use super::sync::Ordering;
use crate::ids::{ChunkId, WriterId};

/// Bytes that the size of a fragment takes at most.
const SIZE_MAX_BYTES: usize = 4;

/// Header of a chunk as a scraper found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrapedChunk {
    /// The writer that the header names.
    pub writer_id: WriterId,
    /// The position in what that writer wrote.
    pub chunk_id: ChunkId,
    /// Fragment count and flags. If the chunk is not complete, the last one that is counted is
    /// not finished, and the flags speak of it.
    pub packets: PacketsWord,
    /// Whether its writer is done with the chunk.
    pub is_complete: bool,
}

impl ServiceMemory {
    /// Copies the finished fragments of a chunk that is being written, or all of one that is
    /// complete, to `payload`, which is replaced. Its length becomes that of the chunk's payload;
    /// what is not finished reads as zeros. The chunk's state stays as it is.
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
        // SAFETY: the chunk is in use, and stays so: see item 3 above.
        let header = unsafe { self.mapping.chunk_header(extent) };
        // Acquire pairs with the release in `WritableChunk::store_packets`; it also makes the two
        // relaxed loads below see the ids that belong to this count.
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

    /// Appends the first `fragments` fragments of a chunk with their sizes. All of them are
    /// finished. Stops behind a size that marks the packet as abandoned, or is none.
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

    /// Appends the bytes of the size that comes next, and returns its value unless nothing
    /// follows it.
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

    /// `len` bytes of the payload from `offset_bytes`, which the caller knows to belong to a
    /// finished fragment; `None` if the payload ends before.
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
        // SAFETY: the bytes lie in the payload, as just checked, in a finished fragment; items 1
        // to 3 above say why all writes to them happened before, and none comes.
        Some(unsafe { self.mapping.backing.read(start_bytes, len) })
    }
}
