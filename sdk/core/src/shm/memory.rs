//! The shared memory buffer as a whole: its geometry, and one handle for each side.
//!
//! The producer's handle takes chunks for writing, and can be cloned. The service's handle reads,
//! frees and scrapes chunks. The service has only one handle, and scraping borrows it mutably. So
//! no chunk is freed, and then taken again, while it is being scraped.
//!
//! The service's side loads each number from shared memory only once, and checks it before it uses
//! it. So no page word and no index leads to a place outside of the memory (`Geometry::extent`).
#![allow(unsafe_code)] // Turns offsets into references, under the invariants of `Mapping`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

#[cfg(not(loom))]
use super::backing::Backing;
#[cfg(loom)]
use super::backing_loom::Backing;
use super::chunk::{ReadableChunk, WritableChunk};
use super::held_chunks::HeldChunks;
use super::layout::{
    CHUNK_HEADER_SIZE_BYTES, ChunkFlags, ChunkHeader, ChunkPlace, MEMORY_SIZE_MAX_BYTES,
    PAGE_SIZE_MAX_BYTES, PAGE_SIZE_MIN_BYTES, PageLayout,
};
use super::shared_fd::SharedFd;
use super::state::{self, ChunkMove, MoveError, PageWord};
use super::sync::{AtomicU32, Ordering};
use crate::ids::{ChunkId, WriterId};

/// An error in creating a shared memory buffer.
#[derive(Debug)]
#[non_exhaustive]
pub enum MemoryError {
    /// The page size is not a multiple of 4096 from 4096 to 65536.
    PageSize {
        /// The requested page size.
        page_size_bytes: usize,
    },
    /// The size is 0, more than [`MEMORY_SIZE_MAX_BYTES`], or not a multiple of the page size.
    Size {
        /// The requested size.
        size_bytes: usize,
        /// The requested page size.
        page_size_bytes: usize,
    },
    /// The system did not provide the memory.
    Map {
        /// The requested size.
        size_bytes: usize,
        /// The system's error.
        source: io::Error,
    },
}

impl std::fmt::Display for MemoryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PageSize { page_size_bytes } => write!(
                f,
                "the page size of {page_size_bytes} bytes is not a multiple of {PAGE_SIZE_MIN_BYTES} up to \
                 {PAGE_SIZE_MAX_BYTES}"
            ),
            Self::Size {
                size_bytes,
                page_size_bytes,
            } => write!(
                f,
                "the size of {size_bytes} bytes is not a multiple of the page size of \
                 {page_size_bytes} bytes up to {MEMORY_SIZE_MAX_BYTES}"
            ),
            Self::Map { size_bytes, source } => {
                write!(f, "the system refused {size_bytes} bytes: {source}")
            }
        }
    }
}

impl std::error::Error for MemoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` prints the text of the source.
            Self::Map { source, .. } => source.source(),
            _ => None,
        }
    }
}

/// The checked sizes of a shared memory buffer and its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// A multiple of [`PAGE_SIZE_MIN_BYTES`], at most [`PAGE_SIZE_MAX_BYTES`].
    page_size_bytes: usize,
    /// At least 1. `page_count * page_size_bytes` is at most [`MEMORY_SIZE_MAX_BYTES`].
    page_count: u32,
}

impl Geometry {
    /// The size of a process's shared memory, unless its first session asks for another size.
    ///
    /// The size limits how many trace writers can own a chunk at the same time. The default has a
    /// chunk for each of the [`WriterId::MAX`](crate::ids::WriterId::MAX) possible trace writers,
    /// and more for packets that span chunks. Pages that are never used take no memory.
    pub const DEFAULT_SIZE_BYTES: usize = 16 << 20;
    /// The size of the pages of a process's shared memory, unless the first session asks for
    /// another size.
    pub const DEFAULT_PAGE_SIZE_BYTES: usize = 4096;

    /// Checks the sizes for a buffer of `size_bytes` with pages of `page_size_bytes`.
    ///
    /// # Errors
    ///
    /// If Perfetto's ABI does not allow the page size, or if the size is not a multiple of it, 0,
    /// or more than [`MEMORY_SIZE_MAX_BYTES`].
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

    /// Returns the size of each page.
    #[must_use]
    pub const fn page_size_bytes(&self) -> usize {
        self.page_size_bytes
    }

    /// Returns the number of pages.
    #[must_use]
    pub const fn page_count(&self) -> u32 {
        self.page_count
    }

    /// Returns the size of the whole buffer.
    #[must_use]
    pub const fn size_bytes(&self) -> usize {
        self.page_size_bytes * self.page_count as usize
    }

    /// Returns the offset of a page, or `None` if there is no such page.
    fn page_offset_bytes(&self, page_index: u32) -> Option<usize> {
        (page_index < self.page_count).then(|| page_index as usize * self.page_size_bytes)
    }

    /// Returns the extent of a chunk in a page with this layout, or `None` if there is no such
    /// chunk.
    fn extent(&self, place: ChunkPlace, layout: PageLayout) -> Option<ChunkExtent> {
        let page_offset_bytes = self.page_offset_bytes(place.page_index)?;
        (place.chunk_index < layout.chunk_count()).then(|| ChunkExtent {
            offset_bytes: page_offset_bytes
                + layout.chunk_offset_bytes(self.page_size_bytes, place.chunk_index),
            payload_size_bytes: layout.payload_size_bytes(self.page_size_bytes),
        })
    }
}

/// Returns the distances from the start of a page to each place where a chunk may begin, in any
/// layout.
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

/// The position and size of a chunk in its mapping.
///
/// Invariant: (E1) The chunk's header and payload lie inside one page, behind the page's header, at
/// a place that one of the page layouts gives to a chunk. Only [`Geometry::extent`] creates an
/// extent, and the extent is only used for the mapping with that geometry.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkExtent {
    offset_bytes: usize,
    payload_size_bytes: usize,
}

impl ChunkExtent {
    pub(super) fn payload_size_bytes(self) -> usize {
        self.payload_size_bytes
    }

    /// Returns the distance of the payload from the start of the mapping.
    pub(super) fn payload_offset_bytes(self) -> usize {
        self.offset_bytes + CHUNK_HEADER_SIZE_BYTES
    }

    /// Returns the distances of the payload's bytes from the start of the mapping.
    fn payload_range_bytes(self) -> Range<usize> {
        let start_bytes = self.payload_offset_bytes();
        start_bytes..start_bytes + self.payload_size_bytes
    }
}

/// The mapped memory, which the handles of both sides share.
///
/// Invariants:
/// - (M1) `backing` has the size of `geometry`.
/// - (M2) A page word changes only by the moves of [`state`]. Each chunk in use has at most one
///   owner: a [`WritableChunk`] if it is BeingWritten, a [`ReadableChunk`] if it is BeingRead. The
///   code that made the move into this state has the only handle. Another process that shares the
///   memory may break this; `held` then keeps handles of this process from overlapping, and
///   [`ForeignMemory`](super::ForeignMemory) has no handles.
/// - (M3) A chunk's payload is plain memory that only its owner writes.
/// - (M4) In a Free chunk, the packets word is zero at each place where a chunk of any layout may
///   begin. So, if a scraper finds a chunk BeingWritten before its trace writer has stored the
///   header, it sees a chunk without packets, even if the page had another layout before.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) backing: Backing,
    pub(super) geometry: Geometry,
    /// The distances from the start of a page to each place where a chunk may begin, in any layout.
    chunk_offsets: Vec<usize>,
    /// The number of pages, counted from the first page, that chunks may have been taken from. The
    /// service need not look at the other pages. Reading a page that was never written would cost a
    /// page fault.
    lent_pages: AtomicU32,
    /// The chunks that this process is writing, if another process has made the memory.
    held: Option<HeldChunks>,
}

impl Mapping {
    pub(super) fn new(
        geometry: Geometry,
        backing: io::Result<Backing>,
        lent_pages: u32,
    ) -> Result<Self, MemoryError> {
        let size_bytes = geometry.size_bytes();
        Ok(Self {
            backing: backing.map_err(|source| MemoryError::Map { size_bytes, source })?,
            geometry,
            chunk_offsets: chunk_offsets(geometry.page_size_bytes),
            lent_pages: AtomicU32::new(lent_pages),
            held: None,
        })
    }

    pub(super) fn page_word(&self, page_index: u32) -> Option<&AtomicU32> {
        let offset_bytes = self.geometry.page_offset_bytes(page_index)?;
        // SAFETY: `page_offset_bytes` has checked that the page exists. So a page starts at this
        // offset of the mapping (M1).
        Some(unsafe { self.backing.page_word(offset_bytes) })
    }

    pub(super) fn extent(&self, place: ChunkPlace, layout: PageLayout) -> Option<ChunkExtent> {
        self.geometry.extent(place, layout)
    }

    /// Notes that a chunk of this page is about to be taken.
    fn note_lent(&self, page_index: u32) {
        // Relaxed: if the service must find the data that a thread wrote into the page, the service
        // has synchronized with that thread by other means, and so also sees this store.
        if self.lent_pages.load(Ordering::Relaxed) <= page_index {
            self.lent_pages.fetch_max(page_index + 1, Ordering::Relaxed);
        }
    }

    /// Marks a chunk, which was Free until now, as being written by this process. Returns false if
    /// the chunk overlaps another chunk that this process is writing. That happens only if another
    /// process has forged the page word.
    fn hold(&self, place: ChunkPlace, layout: PageLayout) -> bool {
        self.held
            .as_ref()
            .is_none_or(|held| held.take(place, layout))
    }

    /// Ends the mark of [`hold`](Self::hold). The caller no longer writes to the chunk. Its state
    /// is still BeingWritten, so no other thread takes the chunk before the caller changes the
    /// state.
    pub(super) fn release(&self, place: ChunkPlace) {
        if let Some(held) = &self.held {
            held.release(place);
        }
    }

    /// Moves a Complete chunk to BeingRead. Returns the chunk's extent in the layout of its
    /// page.
    pub(super) fn acquire_for_reading(&self, place: ChunkPlace) -> Result<ChunkExtent, MoveError> {
        let word = self
            .page_word(place.page_index)
            .ok_or(MoveError::NoSuchChunk)?;
        let layout = state::move_chunk(word, place.chunk_index, ChunkMove::AcquireForReading)?;
        self.extent(place, layout).ok_or(MoveError::NoSuchChunk)
    }

    /// Zeroes the headers in a chunk that is BeingRead, and moves it to Free.
    ///
    /// # Safety
    ///
    /// [`Self::acquire_for_reading`] has returned `extent` for this chunk. The caller does not
    /// access the chunk any more. No other code of this process accesses the chunk until this call
    /// returns.
    pub(super) unsafe fn free(
        &self,
        place: ChunkPlace,
        extent: ChunkExtent,
    ) -> Result<(), MoveError> {
        // These stores establish invariant M4 for the chunk. The move below releases them to the
        // next trace writer of this chunk, or of a chunk in another layout that begins in its
        // payload.
        // SAFETY: no other code of this process accesses these bytes.
        unsafe { self.chunk_header(extent) }.clear();
        for offset_bytes in self.headers_in_payload(extent) {
            // SAFETY: the word is in the chunk's payload, which no other code of this process
            // accesses.
            unsafe { self.backing.clear_word(offset_bytes) };
        }
        let word = self
            .page_word(place.page_index)
            .ok_or(MoveError::NoSuchChunk)?;
        state::move_chunk(word, place.chunk_index, ChunkMove::Free)?;
        Ok(())
    }

    /// Returns the distances from the start of the mapping to the last four bytes (writer id,
    /// packets word) of each chunk header that lies inside the payload at `extent` in another
    /// layout.
    fn headers_in_payload(&self, extent: ChunkExtent) -> impl Iterator<Item = usize> {
        let payload = extent.payload_range_bytes();
        let page_offset_bytes =
            extent.offset_bytes - extent.offset_bytes % self.geometry.page_size_bytes;
        let words = self.chunk_offsets.iter();
        let words = words.map(move |offset| page_offset_bytes + offset + size_of::<u32>());
        // The offset of a word is a multiple of the word's size, and so are both ends of the
        // payload. So a word is completely inside or completely outside of the payload.
        words.filter(move |word| payload.contains(word))
    }

    /// Returns the header of the chunk at `extent`.
    ///
    /// # Safety
    ///
    /// As long as the returned reference is used, this process accesses the header's bytes only by
    /// atomics. A chunk in use meets this condition: its page keeps the layout, in which these
    /// bytes are a header.
    pub(super) unsafe fn chunk_header(&self, extent: ChunkExtent) -> &ChunkHeader {
        // SAFETY: a chunk starts at this offset (E1, M1). The caller promises that this process
        // accesses the header only by atomics.
        unsafe { self.backing.chunk_header(extent.offset_bytes) }
    }
}

/// The content of a new chunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewChunk {
    /// The trace writer that takes the chunk.
    pub writer_id: WriterId,
    /// The position of the chunk in the trace writer's sequence.
    pub chunk_id: ChunkId,
    /// The flags: whether the chunk continues a packet of the previous chunk.
    pub flags: ChunkFlags,
}

/// Maps zeroed memory, and returns the handles of both sides.
///
/// # Errors
///
/// If the system does not provide the memory.
pub fn shared_memory(geometry: Geometry) -> Result<(ProducerMemory, ServiceMemory), MemoryError> {
    both_sides(geometry, Backing::zeroed(geometry.size_bytes()))
}

/// Maps the memory of a new file, which is zeroed and has the size of `geometry`, and returns the
/// handles of both sides. The content of the file survives the process.
///
/// # Errors
///
/// If the system refuses the mapping.
pub fn shared_memory_of_file(
    geometry: Geometry,
    file: &File,
) -> Result<(ProducerMemory, ServiceMemory), MemoryError> {
    both_sides(geometry, Backing::of_file(file, geometry.size_bytes()))
}

fn both_sides(
    geometry: Geometry,
    backing: io::Result<Backing>,
) -> Result<(ProducerMemory, ServiceMemory), MemoryError> {
    let mapping = Arc::new(Mapping::new(geometry, backing, 0)?);
    let producer = ProducerMemory {
        mapping: Arc::clone(&mapping),
    };
    Ok((producer, ServiceMemory { mapping }))
}

/// The producer's handle of the shared memory. Takes chunks for writing.
#[derive(Clone, Debug)]
pub struct ProducerMemory {
    pub(super) mapping: Arc<Mapping>,
}

impl ProducerMemory {
    /// Maps memory that another process has made and reads. Even if that process forges page words,
    /// only one thread of this process writes to a byte at a time. The written packets may then be
    /// lost.
    ///
    /// # Errors
    ///
    /// If the system refuses the mapping.
    pub fn attach(shared: &SharedFd) -> Result<Self, MemoryError> {
        let geometry = shared.geometry();
        let backing = Backing::of_file(shared.file(), geometry.size_bytes());
        let mut mapping = Mapping::new(geometry, backing, 0)?;
        mapping.held = Some(HeldChunks::new(geometry.page_count));
        Ok(Self {
            mapping: Arc::new(mapping),
        })
    }

    /// Returns the sizes of the memory.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.mapping.geometry
    }

    /// Takes the first Free chunk of a page. If no chunk of the page is in use, first divides the
    /// page by `layout`. Returns `None` if the page has no Free chunk or does not exist.
    ///
    /// The new chunk has a fragment count of 0.
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
        if !self.mapping.hold(place, layout) {
            return None;
        }
        // SAFETY: the chunk has just turned from Free to BeingWritten in a page of this layout, and
        // this is its only handle (M2). If another process has made the memory, that process may
        // break M2. So `hold` has checked that no other chunk which this process is writing
        // overlaps this one.
        Some(unsafe { WritableChunk::new(Arc::clone(&self.mapping), place, extent, header) })
    }

    /// Returns whether a page seems to have a Free chunk. This is only a hint, read with a relaxed
    /// load.
    #[must_use]
    pub fn seems_free(&self, page_index: u32) -> bool {
        self.mapping.page_word(page_index).is_some_and(|word| {
            let word = state::load_hint(word);
            word.is_free() || word.free_mask() != 0
        })
    }

    /// Returns the present word of a page, or `None` if there is no such page.
    #[must_use]
    pub fn page_word(&self, page_index: u32) -> Option<PageWord> {
        self.mapping.page_word(page_index).map(state::load)
    }
}

/// The service's handle of the shared memory. Reads, scrapes and frees chunks.
#[derive(Debug)]
pub struct ServiceMemory {
    pub(super) mapping: Arc<Mapping>,
}

impl ServiceMemory {
    /// Creates a copy of shared memory that a process left behind. `bytes` may have any content: a
    /// scrape skips malformed pages, chunks and fragments.
    ///
    /// A chunk in state BeingRead counts as Complete. The service may or may not have copied such a
    /// chunk, because it copies a chunk before it frees the chunk.
    ///
    /// # Errors
    ///
    /// If the length of `bytes` is not the size of `geometry`, or the system does not provide the
    /// memory.
    pub fn of_dead_process(geometry: Geometry, bytes: &[u8]) -> Result<Self, MemoryError> {
        let page_size_bytes = geometry.page_size_bytes;
        if bytes.len() != geometry.size_bytes() {
            return Err(MemoryError::Size {
                size_bytes: bytes.len(),
                page_size_bytes,
            });
        }
        let backing = Backing::of_bytes(bytes);
        let mapping = Mapping::new(geometry, backing, geometry.page_count)?;
        for page_index in 0..geometry.page_count {
            if let Some(word) = mapping.page_word(page_index) {
                state::settle_reads(word);
            }
        }
        Ok(Self {
            mapping: Arc::new(mapping),
        })
    }

    /// Returns the sizes of the memory.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.mapping.geometry
    }

    /// Returns the number of pages, counted from the first page, that may have been used. All other
    /// pages are free.
    ///
    /// The result covers the pages used by a thread only if the caller has synchronized with that
    /// thread.
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
    /// If there is no such chunk, or if it is not Complete. In both cases, the commit that names
    /// the chunk is wrong.
    pub fn acquire_for_reading(&self, place: ChunkPlace) -> Result<ReadableChunk<'_>, MoveError> {
        let extent = self.mapping.acquire_for_reading(place)?;
        // SAFETY: the chunk has just turned from Complete to BeingRead in a page of this layout,
        // and this is its only handle (M2).
        Ok(unsafe { ReadableChunk::new(&self.mapping, place, extent) })
    }

    /// Returns the present word of a page, or `None` if there is no such page.
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
    fn page_size_outside_of_the_abi_is_refused_by_its_number() {
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
    fn service_knows_how_many_pages_were_used() {
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
