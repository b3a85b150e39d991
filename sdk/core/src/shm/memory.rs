//! The shared memory buffer as a whole: its geometry, and one handle for each side.
//!
//! The producer's side takes chunks to write; it may be cloned. The service's side reads chunks,
//! frees them and scrapes; there is one of it, and scraping borrows it mutably, so no chunk is
//! freed and taken again under a scraper's eyes.
//!
//! The service's side takes each number from shared memory with one load, and checks that value before it
//! uses it: no page word and no index leads to a place outside of the memory (`Geometry::extent`).
#![allow(unsafe_code)] // Offsets become references here, under the invariants of `Mapping`.

use std::io;
use std::ops::Range;
use std::sync::Arc;

#[cfg(not(loom))]
use super::backing::Backing;
#[cfg(loom)]
use super::backing_loom::Backing;
use super::chunk::{ReadableChunk, WritableChunk};
use super::layout::{
    CHUNK_HEADER_SIZE_BYTES, ChunkFlags, ChunkHeader, ChunkPlace, MEMORY_SIZE_MAX_BYTES,
    PAGE_SIZE_MAX_BYTES, PAGE_SIZE_MIN_BYTES, PageLayout,
};
use super::state::{self, ChunkMove, MoveError, PageWord};
use super::sync::{AtomicU32, Ordering};
use crate::ids::{ChunkId, WriterId};

/// Why there is no shared memory buffer.
#[derive(Debug)]
#[non_exhaustive]
pub enum MemoryError {
    /// The page size is not a multiple of 4096 from 4096 to 65536.
    PageSize {
        /// What was asked for.
        page_size_bytes: usize,
    },
    /// The size is 0, more than [`MEMORY_SIZE_MAX_BYTES`], or no multiple of the page size.
    Size {
        /// What was asked for.
        size_bytes: usize,
        /// The page size that came with it.
        page_size_bytes: usize,
    },
    /// The system did not provide the memory.
    Map {
        /// What was asked for.
        size_bytes: usize,
        /// What the system said.
        source: io::Error,
    },
}

impl std::fmt::Display for MemoryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PageSize { page_size_bytes } => write!(
                f,
                "page size {page_size_bytes} is not a multiple of {PAGE_SIZE_MIN_BYTES} up to \
                 {PAGE_SIZE_MAX_BYTES}"
            ),
            Self::Size {
                size_bytes,
                page_size_bytes,
            } => write!(
                f,
                "shared memory of {size_bytes} bytes is not a number of pages of \
                 {page_size_bytes} bytes up to {MEMORY_SIZE_MAX_BYTES}"
            ),
            Self::Map { size_bytes, .. } => {
                write!(f, "{size_bytes} bytes of shared memory could not be mapped")
            }
        }
    }
}

impl std::error::Error for MemoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Map { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Sizes of a shared memory buffer, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Multiple of [`PAGE_SIZE_MIN_BYTES`], at most [`PAGE_SIZE_MAX_BYTES`].
    page_size_bytes: usize,
    /// At least 1; times `page_size_bytes` at most [`MEMORY_SIZE_MAX_BYTES`].
    page_count: u32,
}

impl Geometry {
    /// Size of a process's memory, unless its first session asks for another one. It bounds how many
    /// writers can be in the middle of a chunk at once: this much has a chunk for each of the
    /// [`WriterId::MAX`](crate::ids::WriterId::MAX) that there can be, and some for packets that span
    /// chunks. Pages that are never used cost nothing.
    pub const DEFAULT_SIZE_BYTES: usize = 16 << 20;
    /// Size of its pages, likewise.
    pub const DEFAULT_PAGE_SIZE_BYTES: usize = 4096;

    /// A buffer of `size_bytes`, divided into pages of `page_size_bytes`.
    ///
    /// # Errors
    ///
    /// If the ABI does not allow the page size, or the size is not a number of pages within
    /// [`MEMORY_SIZE_MAX_BYTES`].
    pub fn new(size_bytes: usize, page_size_bytes: usize) -> Result<Self, MemoryError> {
        let page_sizes = PAGE_SIZE_MIN_BYTES..=PAGE_SIZE_MAX_BYTES;
        if !page_sizes.contains(&page_size_bytes)
            || !page_size_bytes.is_multiple_of(PAGE_SIZE_MIN_BYTES)
        {
            return Err(MemoryError::PageSize { page_size_bytes });
        }
        let sizes = page_size_bytes..=MEMORY_SIZE_MAX_BYTES;
        if !sizes.contains(&size_bytes) || !size_bytes.is_multiple_of(page_size_bytes) {
            return Err(MemoryError::Size {
                size_bytes,
                page_size_bytes,
            });
        }
        Ok(Self {
            page_size_bytes,
            page_count: (size_bytes / page_size_bytes) as u32,
        })
    }

    /// Size of each page.
    #[must_use]
    pub const fn page_size_bytes(&self) -> usize {
        self.page_size_bytes
    }

    /// Number of pages.
    #[must_use]
    pub const fn page_count(&self) -> u32 {
        self.page_count
    }

    /// Size of the whole.
    #[must_use]
    pub const fn size_bytes(&self) -> usize {
        self.page_size_bytes * self.page_count as usize
    }

    /// Where a page starts; `None` past the last one.
    fn page_offset_bytes(&self, page_index: u32) -> Option<usize> {
        (page_index < self.page_count).then(|| page_index as usize * self.page_size_bytes)
    }

    /// Where a chunk lies in a page with this layout; `None` if there is no such chunk.
    fn extent(&self, place: ChunkPlace, layout: PageLayout) -> Option<ChunkExtent> {
        let page_offset_bytes = self.page_offset_bytes(place.page_index)?;
        (place.chunk_index < layout.chunk_count()).then(|| ChunkExtent {
            offset_bytes: page_offset_bytes
                + layout.chunk_offset_bytes(self.page_size_bytes, place.chunk_index),
            payload_size_bytes: layout.payload_size_bytes(self.page_size_bytes),
        })
    }
}

/// Returns the distances from the start of a page to each place where a chunk of any layout may begin.
fn chunk_offsets(page_size_bytes: usize) -> Vec<usize> {
    let offsets = PageLayout::ALL.into_iter().flat_map(|layout| {
        let offset = move |index| layout.chunk_offset_bytes(page_size_bytes, index);
        (0..layout.chunk_count()).map(offset)
    });
    let mut offsets: Vec<usize> = offsets.collect();
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

/// Where a chunk lies in its mapping.
///
/// Invariant: (E1) header and payload lie inside one page, behind its header, as one of the page
/// layouts has it. Only [`Geometry::extent`] makes one, and each stays with the mapping whose
/// geometry made it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkExtent {
    offset_bytes: usize,
    payload_size_bytes: usize,
}

impl ChunkExtent {
    pub(super) fn payload_size_bytes(self) -> usize {
        self.payload_size_bytes
    }

    /// Distance of the payload from the start of the mapping.
    pub(super) fn payload_offset_bytes(self) -> usize {
        self.offset_bytes + CHUNK_HEADER_SIZE_BYTES
    }

    /// Distances of the payload's bytes from the start of the mapping.
    fn payload_range_bytes(self) -> Range<usize> {
        let start_bytes = self.payload_offset_bytes();
        start_bytes..start_bytes + self.payload_size_bytes
    }
}

/// The memory, for the chunk handles of both sides.
///
/// Invariants:
/// - (M1) `backing` has the size of `geometry`.
/// - (M2) A page's word changes only by the moves of [`state`]. It names one owner for each chunk
///   in use: the [`WritableChunk`] of one that is BeingWritten, the [`ReadableChunk`] of one that
///   is BeingRead. Whoever made the move holds the only handle.
/// - (M3) A chunk's payload is plain memory that only its owner writes.
/// - (M4) In a Free chunk, the packets word is zero wherever a chunk of any layout may begin. So a
///   scraper that finds a chunk BeingWritten before its writer has stored the header sees a chunk
///   without packets, also where the page had another layout before.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) backing: Backing,
    geometry: Geometry,
    /// Distances from the start of a page to each place where a chunk of any layout may begin.
    chunk_offsets: Vec<usize>,
    /// No page from this one on was ever lent, so nobody needs to look at it: a look at a page that
    /// was never written costs a page fault.
    lent_pages: AtomicU32,
}

impl Mapping {
    pub(super) fn page_word(&self, page_index: u32) -> Option<&AtomicU32> {
        let offset_bytes = self.geometry.page_offset_bytes(page_index)?;
        // SAFETY: a page starts there (M1).
        Some(unsafe { self.backing.page_word(offset_bytes) })
    }

    pub(super) fn extent(&self, place: ChunkPlace, layout: PageLayout) -> Option<ChunkExtent> {
        self.geometry.extent(place, layout)
    }

    /// Notes that a page is about to be lent.
    fn note_lent(&self, page_index: u32) {
        // Relaxed: whoever is to find what a thread wrote into the page has heard of it from that
        // thread, in whatever way, and so sees this store, too.
        if self.lent_pages.load(Ordering::Relaxed) <= page_index {
            self.lent_pages.fetch_max(page_index + 1, Ordering::Relaxed);
        }
    }

    /// Returns the distances from the start of the mapping to the last four bytes (writer id, packets
    /// word) of each header that another layout puts into the payload at `extent`.
    pub(super) fn headers_in_payload(&self, extent: ChunkExtent) -> impl Iterator<Item = usize> {
        let payload = extent.payload_range_bytes();
        let page_offset_bytes =
            extent.offset_bytes - extent.offset_bytes % self.geometry.page_size_bytes;
        let words = self.chunk_offsets.iter();
        let words = words.map(move |offset| page_offset_bytes + offset + size_of::<u32>());
        // A word is as well aligned as a chunk: it is inside of the payload, or outside.
        words.filter(move |word| payload.contains(word))
    }

    /// The header of the chunk at `extent`.
    ///
    /// # Safety
    ///
    /// The chunk exists in the present layout of its page, and the page keeps the layout as long
    /// as the header is accessed. A chunk in use sees to that: the layout outlives it.
    pub(super) unsafe fn chunk_header(&self, extent: ChunkExtent) -> &ChunkHeader {
        // SAFETY: the chunk starts there (E1, M1); the rest is the caller's promise.
        unsafe { self.backing.chunk_header(extent.offset_bytes) }
    }
}

/// What a new chunk's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewChunk {
    /// Whose chunk it is.
    pub writer_id: WriterId,
    /// The position in what the writer wrote.
    pub chunk_id: ChunkId,
    /// Whether it continues the packet of the chunk before.
    pub flags: ChunkFlags,
}

/// Maps zeroed memory that the two sides of one process share, and hands out both sides.
///
/// # Errors
///
/// If the system does not provide the memory.
pub fn shared_memory(geometry: Geometry) -> Result<(ProducerMemory, ServiceMemory), MemoryError> {
    let size_bytes = geometry.size_bytes();
    let backing =
        Backing::zeroed(size_bytes).map_err(|source| MemoryError::Map { size_bytes, source })?;
    let mapping = Arc::new(Mapping {
        backing,
        geometry,
        chunk_offsets: chunk_offsets(geometry.page_size_bytes),
        lent_pages: AtomicU32::new(0),
    });
    let producer = ProducerMemory {
        mapping: Arc::clone(&mapping),
    };
    Ok((producer, ServiceMemory { mapping }))
}

/// The producer's side of the shared memory.
#[derive(Clone, Debug)]
pub struct ProducerMemory {
    mapping: Arc<Mapping>,
}

impl ProducerMemory {
    /// Sizes of the memory.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.mapping.geometry
    }

    /// Takes the first Free chunk of a page, and divides the page by `layout` first if it is free
    /// altogether. Returns `None` if the page has no Free chunk or does not exist.
    ///
    /// The chunk's count is 0.
    #[must_use]
    pub fn acquire_for_writing(
        &self,
        page_index: u32,
        layout: PageLayout,
        header: NewChunk,
    ) -> Option<WritableChunk> {
        let word = self.mapping.page_word(page_index)?;
        self.mapping.note_lent(page_index);
        let (layout, chunk_index) = state::take_free_chunk(word, layout)?;
        let place = ChunkPlace {
            page_index,
            chunk_index,
        };
        let extent = self.mapping.extent(place, layout)?;
        // SAFETY: the chunk has just turned from Free to BeingWritten in a page of this layout,
        // and this is the one handle for it (M2).
        Some(unsafe { WritableChunk::new(Arc::clone(&self.mapping), place, extent, header) })
    }

    /// Whether a page seems to have a Free chunk. A hint: it takes no part in any hand-over.
    #[must_use]
    pub fn seems_free(&self, page_index: u32) -> bool {
        self.mapping.page_word(page_index).is_some_and(|word| {
            let word = state::load_hint(word);
            word.is_free() || word.free_mask() != 0
        })
    }

    /// The page's word as it is now; `None` past the last page.
    #[must_use]
    pub fn page_word(&self, page_index: u32) -> Option<PageWord> {
        self.mapping.page_word(page_index).map(state::load)
    }
}

/// The service's side of the shared memory: the only one that reads chunks and frees them.
#[derive(Debug)]
pub struct ServiceMemory {
    pub(super) mapping: Arc<Mapping>,
}

impl ServiceMemory {
    /// Sizes of the memory.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.mapping.geometry
    }

    /// Returns how many pages from the first one on have ever been lent, as far as the caller has
    /// heard of those who write there. All others are free.
    #[must_use]
    pub fn lent_page_count(&self) -> u32 {
        // Relaxed: see `Mapping::note_lent`.
        let lent_pages = self.mapping.lent_pages.load(Ordering::Relaxed);
        lent_pages.min(self.mapping.geometry.page_count)
    }

    /// Takes a Complete chunk for reading.
    ///
    /// # Errors
    ///
    /// If there is no such chunk, or it is not Complete: the commit that named it was wrong.
    pub fn acquire_for_reading(&self, place: ChunkPlace) -> Result<ReadableChunk<'_>, MoveError> {
        let word = self
            .mapping
            .page_word(place.page_index)
            .ok_or(MoveError::NoSuchChunk)?;
        let layout = state::move_chunk(word, place.chunk_index, ChunkMove::AcquireForReading)?;
        let extent = self
            .mapping
            .extent(place, layout)
            .ok_or(MoveError::NoSuchChunk)?;
        // SAFETY: the chunk has just turned from Complete to BeingRead in a page of this layout,
        // and this is the one handle for it (M2).
        Ok(unsafe { ReadableChunk::new(&self.mapping, place, extent) })
    }

    /// The page's word as it is now; `None` past the last page.
    #[must_use]
    pub fn page_word(&self, page_index: u32) -> Option<PageWord> {
        self.mapping.page_word(page_index).map(state::load)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_page_size_that_the_abi_does_not_allow_is_refused_by_its_number() {
        for page_size_bytes in [0, 1, 2048, 4095, 6144, 65537, 69632, 131072] {
            let error = Geometry::new(1 << 20, page_size_bytes).unwrap_err();
            assert!(
                matches!(error, MemoryError::PageSize { page_size_bytes: culprit }
                    if culprit == page_size_bytes)
            );
            assert!(error.to_string().contains(&page_size_bytes.to_string()));
        }
    }

    #[test]
    fn a_size_that_is_no_number_of_pages_is_refused() {
        let sizes = [
            (0, 4096),
            (4095, 4096),
            (18 << 10, 16 << 10),
            (4096, 8192),
            (MEMORY_SIZE_MAX_BYTES + 4096, 4096),
        ];
        for (size_bytes, page_size_bytes) in sizes {
            let error = Geometry::new(size_bytes, page_size_bytes).unwrap_err();
            assert!(matches!(error, MemoryError::Size { .. }), "{error}");
        }
    }

    #[test]
    fn both_sides_report_the_geometry_they_were_made_with() {
        for page_size_bytes in [4096, 8192, 16384, 32768, 65536] {
            let geometry = Geometry::new(14 * page_size_bytes, page_size_bytes).unwrap();
            let (producer, service) = shared_memory(geometry).unwrap();
            for side in [producer.geometry(), service.geometry()] {
                assert_eq!(side.page_size_bytes(), page_size_bytes);
                assert_eq!(side.page_count(), 14);
                assert_eq!(side.size_bytes(), 14 * page_size_bytes);
            }
        }
    }

    #[test]
    fn new_memory_has_only_free_pages() {
        let (producer, service) = shared_memory(Geometry::new(14 * 4096, 4096).unwrap()).unwrap();
        for page_index in 0..14 {
            assert_eq!(producer.page_word(page_index), Some(PageWord::FREE));
            assert_eq!(service.page_word(page_index), Some(PageWord::FREE));
            assert!(producer.seems_free(page_index));
        }
        assert_eq!(service.lent_page_count(), 0);
        assert_eq!(producer.page_word(14), None);
        assert_eq!(service.page_word(14), None);
        assert!(!producer.seems_free(14));
    }

    #[test]
    fn the_service_knows_how_far_pages_were_lent() {
        let (producer, service) = shared_memory(Geometry::new(14 * 4096, 4096).unwrap()).unwrap();
        let header = NewChunk {
            writer_id: WriterId(1),
            chunk_id: ChunkId(0),
            flags: ChunkFlags::NONE,
        };
        for (page_index, lent) in [(0, 1), (5, 6), (2, 6), (13, 14), (14, 14)] {
            let chunk = producer.acquire_for_writing(page_index, PageLayout::One, header);
            assert_eq!(chunk.is_some(), page_index < 14);
            assert_eq!(service.lent_page_count(), lent);
        }
    }
}
