//! Scraping: reading the packets of chunks that are not committed yet.
//!
//! In memory of one process, there is no data race with trace writers that go on writing, for these
//! reasons:
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
//! Another process may break the first two rules. So all loads are atomic, and each byte is loaded
//! only once (see `foreign.rs`).
//!
//! Perfetto's own service copies the whole chunk, including bytes that may change meanwhile, and
//! leaves out the last fragment afterwards. Here, the bytes of an open fragment are not read at
//! all.
#![allow(unsafe_code)] // Reads finished fragments of chunks that trace writers still write to.

use super::chunk::ABANDONED_FRAGMENT_SIZE;
use super::layout::{ChunkPlace, PacketsWord};
use super::memory::{ChunkExtent, Mapping, ServiceMemory};
use super::state::{self, ChunkState};
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
        // SAFETY: items 1 to 3 above.
        unsafe { self.mapping.scrape(place, |_| true, payload) }
    }
}

impl Mapping {
    /// Scrapes a chunk as [`ServiceMemory::scrape`] does, if its trace writer `is_wanted`.
    ///
    /// # Safety
    ///
    /// During the call, this process accesses the bytes of the chunk's header by atomics alone, and
    /// so the bytes of the fragments that are copied, or it only reads those. What this process
    /// wrote to the fragments happened before it released their count.
    pub(super) unsafe fn scrape(
        &self,
        place: ChunkPlace,
        is_wanted: impl FnOnce(WriterId) -> bool,
        payload: &mut Vec<u8>,
    ) -> Option<ScrapedChunk> {
        let page_word = state::load(self.page_word(place.page_index)?);
        let is_complete = match page_word.chunk_state(place.chunk_index)? {
            ChunkState::Complete => true,
            ChunkState::BeingWritten => false,
            ChunkState::Free | ChunkState::BeingRead => return None,
        };
        let extent = self.extent(place, page_word.layout()?)?;
        // SAFETY: the caller's promise.
        let header = unsafe { self.chunk_header(extent) }.load();
        let fragments = if is_complete {
            header.packets.count()
        } else {
            header.packets.count().saturating_sub(1)
        };
        if fragments == 0 || !is_wanted(header.writer_id) {
            return None;
        }
        payload.clear();
        payload.resize(extent.payload_size_bytes(), 0);
        // SAFETY: the fragments are finished; the rest is the caller's promise.
        unsafe { self.copy_fragments(extent, fragments, payload) };
        Some(ScrapedChunk {
            writer_id: header.writer_id,
            chunk_id: header.chunk_id,
            packets: header.packets,
            is_complete,
        })
    }

    /// Copies the first `fragments` fragments of a chunk, with their sizes, to the start of `copy`,
    /// which is as long as the chunk's payload. All of them are finished. Stops behind a size that is
    /// invalid or marks an abandoned packet.
    ///
    /// Each byte is loaded once. So the sizes that lead from fragment to fragment are those in the
    /// copy, even if the memory changes meanwhile.
    ///
    /// # Safety
    ///
    /// As for [`Self::scrape`].
    unsafe fn copy_fragments(&self, extent: ChunkExtent, fragments: u16, copy: &mut [u8]) {
        let mut copied_bytes = 0;
        for _ in 0..fragments {
            // SAFETY: the caller's promise.
            let Some(size) = (unsafe { self.copy_size(extent, &mut copied_bytes, copy) }) else {
                return;
            };
            // SAFETY: the caller's promise.
            let fragment = unsafe { self.copy_next(extent, &mut copied_bytes, size, copy) };
            if fragment.is_none() {
                return;
            }
        }
    }

    /// Copies the bytes of the next fragment's size. Returns the size, or `None` if it is invalid
    /// or marks an abandoned packet.
    ///
    /// # Safety
    ///
    /// As for [`Self::scrape`].
    unsafe fn copy_size(
        &self,
        extent: ChunkExtent,
        copied_bytes: &mut usize,
        copy: &mut [u8],
    ) -> Option<usize> {
        let mut size = 0;
        for index in 0..SIZE_MAX_BYTES {
            // SAFETY: the caller's promise.
            let byte = *unsafe { self.copy_next(extent, copied_bytes, 1, copy) }?.first()?;
            size |= u32::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return (size != ABANDONED_FRAGMENT_SIZE).then_some(size as usize);
            }
        }
        None
    }

    /// Copies the next `len` bytes of finished fragments, and counts them in `copied_bytes`. Returns
    /// `None` if the payload is too short.
    ///
    /// # Safety
    ///
    /// As for [`Self::scrape`].
    unsafe fn copy_next<'c>(
        &self,
        extent: ChunkExtent,
        copied_bytes: &mut usize,
        len: usize,
        copy: &'c mut [u8],
    ) -> Option<&'c [u8]> {
        let end_bytes = copied_bytes.checked_add(len)?;
        let next = copy.get_mut(*copied_bytes..end_bytes)?;
        let start_bytes = extent.payload_offset_bytes() + *copied_bytes;
        // SAFETY: the bytes lie in the payload, since `copy` is not longer. The rest is the caller's
        // promise.
        unsafe { self.backing.copy_out(start_bytes, next) };
        *copied_bytes = end_bytes;
        Some(next)
    }
}
