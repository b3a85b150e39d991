//! The service's handle of memory that another process writes to, and may change at any time.
//!
//! The other process may store anything anywhere, at any moment. So nothing here depends on what is
//! in the memory: a chunk leaves it as a copy, and callers decide by the copy alone.
//! [`ServiceMemory`](super::ServiceMemory), which lends out payloads, is for memory of this process.
//!
//! ```text
//!  memory of the other process                                  this process
//! +-----------+------------------------------+
//! | page word | chunk | chunk | chunk |  ..  |
//! +-----------+------------------------------+
//!    |  one load                |  one load of each byte
//!    v                          v
//!  layout, state  ---------->  header, ChunkCopy  ---------->  trace buffer
//!                   where
//! ```
//!
//! Invariants:
//! - (X1) Each address is the start of the mapping and an offset that is made of the geometry, which
//!   is fixed, and of one value of the page word (`Mapping::extent`). No other number from the memory
//!   becomes part of an address, and the sizes of fragments only choose among the chunk's own bytes.
//! - (X2) This process accesses the memory by atomics alone. So there is no data race, whatever the
//!   other process does. Within this process there is no concurrent access either (X4), so it does not
//!   matter that the bytes of a header in one layout are payload in another.
//! - (X3) Nothing is loaded twice. Callers get copies of headers and payloads, never a reference into
//!   the memory.
//! - (X4) Each connection has one [`ForeignMemory`], which is not `Clone`, and its methods borrow it
//!   mutably. So this process has one chunk of a connection in its hands at a time. Chunks that
//!   overlap, because the other process has changed the layout meanwhile, are accessed one after the
//!   other.
//! - (X5) A page word that is not as it must be is a [`MoveError`]. The moves are those of
//!   [`PageWord::moved`], for own and for foreign memory: this process changes the state of a chunk
//!   from Complete to BeingRead, and from BeingRead to Free, and no other chunk's state.
//! - (X6) A scrape loads the size of a fragment into the copy, and goes on by what is in the copy.
//! - (X7) The memory has its size for ever, and no access to it ends in SIGBUS: [`SharedFd::adopt`]
//!   has checked it, or [`SharedFd::create`] has made it so. If the other process punches a hole, the
//!   system fills it with zeros.
#![allow(unsafe_code)] // Accesses memory of another process, under the invariants above.

use std::sync::Arc;

#[cfg(not(loom))]
use super::backing::Backing;
#[cfg(loom)]
use super::backing_loom::Backing;
use super::header::CopiedHeader;
use super::layout::ChunkPlace;
use super::memory::{Geometry, Mapping};
use super::scrape::ScrapedChunk;
use super::shared_fd::{SharedFd, SharedFdError};
use super::state::{self, MoveError, PageWord};
use super::used_chunks::UsedChunk;
use crate::ids::WriterId;
use crate::received_file::ReceivedFile;

/// A buffer for the payload of one chunk, which is used for one chunk after the other. It is as large
/// as the largest chunk so far, so copying soon allocates nothing.
#[derive(Debug, Default)]
pub struct ChunkCopy {
    payload: Vec<u8>,
}

impl ChunkCopy {
    /// Creates an empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the payload of the chunk that was copied last. After an error, or if there was nothing
    /// to copy, it may be any bytes.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

/// The service's handle of memory that another process writes to. Copies chunks.
///
/// ```
/// use std::os::fd::AsFd as _;
/// use tracezero_core::ids::{ChunkId, WriterId};
/// use tracezero_core::shm::{
///     ChunkCopy, ChunkFlags, ForeignMemory, Geometry, NewChunk, PageLayout, ProducerMemory, SharedFd,
/// };
///
/// let (mut memory, shared) = ForeignMemory::create(Geometry::new(256 * 1024, 4096)?)?;
/// // Another process attaches the memory, and writes.
/// let sent = shared.as_fd().try_clone_to_owned()?;
/// let producer = ProducerMemory::attach(&SharedFd::attach(sent, 4096)?)?;
/// let header = NewChunk { writer_id: WriterId(1), chunk_id: ChunkId(0), flags: ChunkFlags::NONE };
/// let mut chunk = producer.acquire_for_writing(0, PageLayout::One, header).unwrap();
/// chunk.append_packet(b"packet");
/// // Its commit names the place of the chunk.
/// let place = chunk.complete();
///
/// let mut copy = ChunkCopy::new();
/// let taken = memory.take(place, &mut copy)?;
/// assert_eq!((taken.writer_id, taken.packets.count()), (WriterId(1), 1));
/// assert_eq!(copy.payload()[..7], *b"\x06packet");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ForeignMemory {
    mapping: Arc<Mapping>,
}

impl ForeignMemory {
    /// Creates zeroed memory for a producer in another process, and maps it. The caller sends the
    /// descriptor, and closes it.
    ///
    /// # Errors
    ///
    /// If the system does not provide the memory.
    pub fn create(geometry: Geometry) -> Result<(Self, SharedFd), SharedFdError> {
        let shared = SharedFd::create(geometry)?;
        Ok((Self::map(&shared)?, shared))
    }

    /// Maps memory that a producer in another process has created. Its pages have `page_size_bytes`.
    /// Closes the descriptor, which the mapping does not need.
    ///
    /// # Errors
    ///
    /// If the descriptor may be of anything else than memory whose size never changes, if Perfetto's
    /// ABI does not allow the sizes, or if the system refuses the mapping.
    pub fn adopt(received: ReceivedFile, page_size_bytes: usize) -> Result<Self, SharedFdError> {
        Self::map(&SharedFd::adopt(received, page_size_bytes)?)
    }

    /// Maps memory that was created or adopted (X7).
    fn map(shared: &SharedFd) -> Result<Self, SharedFdError> {
        let geometry = shared.geometry();
        let backing = Backing::of_foreign(shared.file(), geometry.size_bytes());
        let mapping = Mapping::new(geometry, backing, 0).map_err(SharedFdError::Map)?;
        Ok(Self {
            mapping: Arc::new(mapping),
        })
    }

    /// Returns the sizes of the memory, as they were when it was mapped.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.mapping.geometry
    }

    /// Returns the present word of a page, or `None` if there is no such page.
    #[must_use]
    pub fn page_word(&mut self, page_index: u32) -> Option<PageWord> {
        self.mapping.page_word(page_index).map(state::load)
    }

    /// Copies a Complete chunk, and frees it: its payload is in `copy` then.
    ///
    /// # Errors
    ///
    /// If there is no such chunk, or if it is not Complete: the commit was wrong. Also if the page
    /// word changed in a way that only the service may change it. The chunk may then stay in use for
    /// ever. In both cases the producer has broken the rules, and the chunk counts as not committed.
    pub fn take(
        &mut self,
        place: ChunkPlace,
        copy: &mut ChunkCopy,
    ) -> Result<CopiedHeader, MoveError> {
        let extent = self.mapping.acquire_for_reading(place)?;
        // SAFETY: this process accesses the memory by atomics alone (X2).
        let header = unsafe { self.mapping.chunk_header(extent) }.load();
        copy.payload.resize(extent.payload_size_bytes(), 0);
        let (backing, offset_bytes) = (&self.mapping.backing, extent.payload_offset_bytes());
        // SAFETY: the payload of an extent lies in the mapping. The rest is X2; this process has
        // written nothing there but zeros, by this handle.
        unsafe { backing.copy_out(offset_bytes, &mut copy.payload) };
        // SAFETY: `acquire_for_reading` has returned the extent, and this is the only handle (X4).
        unsafe { self.mapping.free(place, extent) }?;
        Ok(header)
    }

    /// Returns the chunks in use, as
    /// [`ServiceMemory::used_chunks`](super::ServiceMemory::used_chunks) does. If the producer breaks
    /// the rules, these may be any chunks of the memory, but there are no more of them than it has.
    ///
    /// This looks at all pages, and the system allocates those that were never used. So callers do not
    /// ask for the chunks of a producer that has no writers.
    pub fn used_chunks(&mut self, is_wanted: impl Fn(WriterId) -> bool) -> Vec<UsedChunk> {
        let page_count = self.geometry().page_count();
        // SAFETY: this process accesses the memory by atomics alone (X2).
        unsafe { self.mapping.used_chunks(|| page_count, is_wanted) }
    }

    /// Copies fragments of a chunk in use, as [`ServiceMemory::scrape`](super::ServiceMemory::scrape)
    /// does. Never changes the memory.
    pub fn scrape(&mut self, place: ChunkPlace, copy: &mut ChunkCopy) -> Option<ScrapedChunk> {
        let backing = &self.mapping.backing;
        let copy_bytes = |offset_bytes, copy: &mut [u8]| {
            // SAFETY: as in `take`.
            unsafe { backing.copy_out(offset_bytes, copy) };
        };
        let payload = &mut copy.payload;
        // SAFETY: this process accesses the memory by atomics alone (X2).
        unsafe { self.mapping.scrape(place, payload, copy_bytes) }
    }

    /// Returns the addresses of the memory, for fuzz targets.
    #[cfg(fuzzing)]
    #[must_use]
    pub fn addresses(&self) -> std::ops::Range<usize> {
        // SAFETY: the mapping has a first byte.
        let start = unsafe { self.mapping.backing.address(0) }.addr();
        start..start + self.geometry().size_bytes()
    }

    /// Returns the handle of memory that `producer` writes to in the same process, for tests.
    #[cfg(test)]
    pub(super) fn of_same_process(producer: &super::ProducerMemory) -> Self {
        Self {
            mapping: Arc::clone(&producer.mapping),
        }
    }
}
