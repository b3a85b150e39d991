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
//! Another process may break the first two rules. So `foreign.rs` copies with atomic loads. The walk is
//! the same, and copies each byte only once.
//!
//! Perfetto's own service copies the whole chunk, including bytes that may change meanwhile, and
//! leaves out the last fragment afterwards. Here, the bytes of an open fragment are not read at
//! all.
#![allow(unsafe_code)] // Reads finished fragments of chunks that trace writers still write to.

use super::chunk::ABANDONED_FRAGMENT_SIZE;
use super::header::CopiedHeader;
use super::layout::ChunkPlace;
use super::memory::{Mapping, ServiceMemory};
use super::state::{self, ChunkState};

/// The largest number of bytes that the size of a fragment takes.
const SIZE_MAX_BYTES: usize = 4;

/// A scraped chunk, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrapedChunk {
    /// The header. If the chunk is not complete, the last counted fragment is not finished, and the
    /// flags about the last packet are about that fragment.
    pub header: CopiedHeader,
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
        let backing = &self.mapping.backing;
        let copy_bytes = |offset_bytes, copy: &mut [u8]| {
            // SAFETY: the bytes are those of finished fragments, inside the payload. By items 1 to 3
            // above, all writes to them happened before this read, and no later write follows.
            copy.copy_from_slice(unsafe { backing.read(offset_bytes, copy.len()) });
        };
        // SAFETY: the chunk stays in use by item 3 above, so the bytes of its header stay a header.
        unsafe { self.mapping.scrape(place, payload, copy_bytes) }
    }
}

impl Mapping {
    /// Scrapes a chunk as [`ServiceMemory::scrape`] does. `copy_bytes` copies bytes from an offset of
    /// the mapping on. They are bytes of the chunk's fragments that are counted as finished, and each
    /// is copied once.
    ///
    /// # Safety
    ///
    /// During the call, this process accesses the bytes of the chunk's header by atomics alone.
    pub(super) unsafe fn scrape(
        &self,
        place: ChunkPlace,
        payload: &mut Vec<u8>,
        copy_bytes: impl Fn(usize, &mut [u8]),
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
        if fragments == 0 {
            return None;
        }
        payload.resize(extent.payload_size_bytes(), 0);
        let mut copy = FragmentCopy {
            from_bytes: extent.payload_offset_bytes(),
            payload,
            copied_bytes: 0,
            copy_bytes,
        };
        copy.copy_fragments(fragments);
        let copied_bytes = copy.copied_bytes;
        payload[copied_bytes..].fill(0);
        Some(ScrapedChunk {
            header,
            is_complete,
        })
    }
}

/// A copy of the fragments of a chunk, in progress. The sizes that lead from fragment to fragment are
/// those in the copy, so the walk does not depend on what another process writes meanwhile.
struct FragmentCopy<'p, C> {
    /// The distance of the chunk's payload from the start of the mapping.
    from_bytes: usize,
    /// The copy. It is as long as the chunk's payload.
    payload: &'p mut [u8],
    /// The number of bytes that are copied, at most the length of `payload`.
    copied_bytes: usize,
    copy_bytes: C,
}

impl<C: Fn(usize, &mut [u8])> FragmentCopy<'_, C> {
    /// Copies this many fragments, with their sizes. Stops behind a size that is invalid or marks an
    /// abandoned packet.
    fn copy_fragments(&mut self, fragments: u16) {
        for _ in 0..fragments {
            let size = self.copy_size();
            if size.and_then(|size| self.copy_next(size)).is_none() {
                return;
            }
        }
    }

    /// Copies the bytes of the next fragment's size. Returns the size, or `None` if it is invalid
    /// or marks an abandoned packet.
    fn copy_size(&mut self) -> Option<usize> {
        let mut size = 0;
        for index in 0..SIZE_MAX_BYTES {
            let byte = *self.copy_next(1)?.first()?;
            size |= u32::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return (size != ABANDONED_FRAGMENT_SIZE).then_some(size as usize);
            }
        }
        None
    }

    /// Copies the next `len` bytes, and returns them. Returns `None` if the payload is too short.
    fn copy_next(&mut self, len: usize) -> Option<&[u8]> {
        let end_bytes = self.copied_bytes.checked_add(len)?;
        let next = self.payload.get_mut(self.copied_bytes..end_bytes)?;
        (self.copy_bytes)(self.from_bytes + self.copied_bytes, next);
        self.copied_bytes = end_bytes;
        Some(next)
    }
}
