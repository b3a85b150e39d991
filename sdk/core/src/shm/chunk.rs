//! Handles of chunks: a [`WritableChunk`] for a chunk that is being written, a [`ReadableChunk`]
//! for a chunk that is being read.
//!
//! Each handle ends with a state transition: [`WritableChunk::complete`] consumes the trace
//! writer's handle, [`ReadableChunk::free`] the service's handle. A chunk that is complete and not
//! yet being read has no handle. A [`ChunkPlace`] identifies it.
//!
//! ```text
//!  0         4          6         8                                 finished_bytes
//! +----------+----------+---------+------+----------+------+---+------+- - - - - - - - -
//! | chunk id |writer id | packets | size | fragment | size |   | size | open fragment...
//! +----------+----------+---------+------+----------+------+---+------+- - - - - - - - -
//!                                 |<------ finished, not written again ----->|<--- writable range
//! ```
//!
//! The trace writer's handle keeps track of where the finished fragments end. A scraper finds this
//! place by the sizes in front of the fragments. The packet count covers finished fragments and at
//! most one more, which the scraper leaves out. So a scraper never reads bytes that may still
//! change, no matter what a trace writer writes.
#![allow(unsafe_code)] // Payload is raw memory; `backing.rs` makes the addresses.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use protozero::redundant_varint;

use super::header::CopiedHeader;
use super::layout::{ChunkFlags, ChunkHeader, ChunkPlace, PacketsWord};
use super::memory::{ChunkExtent, Mapping, NewChunk};
use super::state::{self, MoveError};
use super::sync::Ordering;
use crate::ids::ChunkId;

/// The number of bytes that are reserved in front of an open fragment for its size.
pub const FRAGMENT_SIZE_BYTES: usize = 4;
/// The size that marks a packet as given up by its trace writer. No fragment is that long.
pub const ABANDONED_FRAGMENT_SIZE: u32 = 0x0fff_ffff;
/// The largest number of packets that begin in one chunk. It is one less than the count can
/// express, because [`WritableChunk::publish_finished`] counts one fragment ahead.
pub const PACKETS_PER_CHUNK_MAX: u16 = PacketsWord::COUNT_MAX - 1;
/// The number of free bytes that a chunk needs so that a packet can begin in it.
pub const PACKET_ROOM_MIN_BYTES: usize = FRAGMENT_SIZE_BYTES + 8;

/// The memory at the end of a chunk that its trace writer may fill.
///
/// The owner of the [`WritableChunk`] may read and write it, with two limits: bytes before the end
/// of the finished fragments must not be written any more, and no byte may be accessed once the
/// handle is gone.
#[derive(Clone, Copy, Debug)]
pub struct WritableRange {
    /// The address of the first byte.
    pub start: *mut u8,
    /// The number of bytes.
    pub len: usize,
}

/// A handle of a chunk that is being written, owned by a trace writer.
///
/// If the handle is dropped, the chunk stays BeingWritten for ever, as after a crash. Its finished
/// packets can still be scraped.
///
/// Invariants:
/// - (W1) The chunk is BeingWritten and this is its only handle.
/// - (W2) `packets` is equal to the header's packets word, since only this handle stores there.
/// - (W3) `finished_bytes` is at most the payload's size. The payload before it consists of
///   finished fragments: walking along their sizes ends exactly at `finished_bytes`. These bytes
///   are not written again; callers get [`WritableRange`]s only on this condition.
/// - (W4) The count covers the finished fragments and at most one more, which `next` describes.
#[derive(Debug)]
#[must_use = "a chunk that is not completed stays in use for ever"]
pub struct WritableChunk {
    mapping: Arc<Mapping>,
    place: ChunkPlace,
    extent: ChunkExtent,
    chunk_id: ChunkId,
    packets: PacketsWord,
    finished_bytes: usize,
    next: NextFragment,
}

/// The state of the fragment that follows the finished fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextFragment {
    /// No fragment has begun.
    Uncounted,
    /// No fragment has begun, but the count already covers the next one. No packet may begin: the
    /// chunk has too little room, or as many packets as it may have. At least one byte is free,
    /// which an empty packet takes.
    CountedLast,
    /// No fragment has begun, but the count already covers the next one. A packet may begin.
    Counted,
    /// A fragment is open, and the count covers it. Its size will be at `finished_bytes`.
    Open,
}

impl WritableChunk {
    /// Creates the handle, and writes the chunk's header.
    ///
    /// # Safety
    ///
    /// The chunk has just become BeingWritten and has no other handle. `extent` is its extent in
    /// the present layout of its page.
    pub(super) unsafe fn new(
        mapping: Arc<Mapping>,
        place: ChunkPlace,
        extent: ChunkExtent,
        header: NewChunk,
    ) -> Self {
        let mut chunk = Self {
            mapping,
            place,
            extent,
            chunk_id: header.chunk_id,
            packets: PacketsWord::default(),
            finished_bytes: 0,
            next: NextFragment::Uncounted,
        };
        let words = chunk.header();
        // Relaxed: the store of the packets word below publishes both ids.
        words.writer_id.store(header.writer_id.0, Ordering::Relaxed);
        words.chunk_id.store(header.chunk_id.0, Ordering::Relaxed);
        chunk.store_packets(PacketsWord::new(0, header.flags));
        chunk
    }

    /// Returns the position of the chunk in the trace writer's sequence.
    #[must_use]
    pub fn chunk_id(&self) -> ChunkId {
        self.chunk_id
    }

    /// Returns the place of the chunk in the shared memory.
    #[must_use]
    pub fn place(&self) -> ChunkPlace {
        self.place
    }

    /// Returns the fragment count and flags of the header.
    #[must_use]
    pub fn packets(&self) -> PacketsWord {
        self.packets
    }

    /// Returns the size of the payload.
    #[inline]
    #[must_use]
    pub fn payload_size_bytes(&self) -> usize {
        self.extent.payload_size_bytes()
    }

    /// Returns the number of bytes behind the finished fragments.
    #[inline]
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.payload_size_bytes() - self.finished_bytes
    }

    /// Returns whether a fragment is open.
    #[inline]
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.next == NextFragment::Open
    }

    /// Returns whether the open fragment is the first of the chunk and continues a packet of an
    /// earlier chunk.
    #[must_use]
    pub fn continues_packet(&self) -> bool {
        self.finished_bytes == 0 && self.has_flag(ChunkFlags::FIRST_PACKET_CONTINUES)
    }

    /// Returns whether a packet may begin in this chunk now.
    #[inline]
    #[must_use]
    pub fn has_room_for_packet(&self) -> bool {
        match self.next {
            NextFragment::Uncounted => self.fits_packet(),
            NextFragment::Counted => true,
            NextFragment::CountedLast | NextFragment::Open => false,
        }
    }

    /// Returns whether a packet may begin behind the finished fragments, if the count covers only
    /// the finished fragments.
    #[inline]
    fn fits_packet(&self) -> bool {
        self.free_bytes() >= PACKET_ROOM_MIN_BYTES && self.packets.count() < PACKETS_PER_CHUNK_MAX
    }

    /// Returns the memory from the end of the finished fragments on. If the open fragment continues
    /// a packet, the memory begins behind the fragment's size.
    #[must_use]
    pub fn writable_range(&self) -> WritableRange {
        let skipped_bytes = if self.is_open() && self.continues_packet() {
            FRAGMENT_SIZE_BYTES
        } else {
            0
        };
        let start_bytes = self.start_bytes() + skipped_bytes;
        WritableRange {
            // SAFETY: `finished_bytes` is within the payload (W3). If a fragment is open, its size
            // field fits behind that, so `start_bytes` is within the payload, too.
            start: unsafe { self.mapping.backing.address(start_bytes) },
            len: self.free_bytes() - skipped_bytes,
        }
    }

    /// Opens the first fragment of a packet and counts it. The caller writes the fragment's size at
    /// the start of the writable range, before it calls [`WritableChunk::end_fragment`].
    ///
    /// Returns false, and does nothing, if there is no room
    /// ([`WritableChunk::has_room_for_packet`]).
    #[inline]
    pub fn begin_fragment(&mut self) -> bool {
        if !self.has_room_for_packet() {
            return false;
        }
        if self.next == NextFragment::Uncounted {
            self.count_one_more();
        }
        self.next = NextFragment::Open;
        true
    }

    /// Returns whether the next fragment is counted already and a packet may begin.
    #[inline]
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.next == NextFragment::Counted
    }

    /// Opens a fragment like [`WritableChunk::begin_fragment`], but only if it is counted already
    /// by [`WritableChunk::publish_finished`]. Returns whether it did.
    #[inline]
    pub fn begin_counted(&mut self) -> bool {
        let is_counted = self.next == NextFragment::Counted;
        if is_counted {
            self.next = NextFragment::Open;
        }
        is_counted
    }

    /// Opens the first fragment of a new chunk as the continuation of a packet in the previous
    /// chunk, and reserves bytes for its size.
    pub fn begin_continuation(&mut self) {
        if self.packets.count() == 0 {
            self.set_flag(ChunkFlags::FIRST_PACKET_CONTINUES);
            self.begin_fragment();
            self.write(&[0; FRAGMENT_SIZE_BYTES]);
        }
    }

    /// Finishes the open fragment.
    ///
    /// # Safety
    ///
    /// The size of the fragment, and then its bytes, are written directly behind the finished
    /// fragments. Together they take `fragment_bytes`.
    #[inline]
    pub unsafe fn end_fragment(&mut self, fragment_bytes: usize) {
        if self.is_open() {
            self.advance(fragment_bytes);
            self.next = NextFragment::Uncounted;
        }
    }

    /// Finishes the open fragment, which has `len` bytes, as the end of a packet that began in an
    /// earlier chunk. Writes its size.
    pub fn end_continuation(&mut self, len: usize) {
        let fragment_bytes = self.write_size(len);
        // SAFETY: the size was written just now.
        unsafe { self.end_fragment(fragment_bytes) };
    }

    /// Finishes the open fragment, which has `len` bytes, as one whose packet continues in the
    /// trace writer's next chunk. Writes its size. No fragment may follow in this chunk.
    pub fn end_continuing(&mut self, len: usize) {
        self.write_size(len);
        self.set_flag(ChunkFlags::LAST_PACKET_CONTINUES);
        self.seal();
    }

    /// Gives up the open fragment and its packet, by writing the size [`ABANDONED_FRAGMENT_SIZE`].
    /// No fragment may follow in this chunk.
    pub fn abandon_fragment(&mut self) {
        if self.is_open() {
            self.write(&redundant_varint(ABANDONED_FRAGMENT_SIZE));
            self.seal();
        }
    }

    /// Sets the flag which says that the last packet of the chunk has lengths that later patches
    /// fill.
    pub fn set_needs_patching(&mut self) {
        self.set_flag(ChunkFlags::NEEDS_PATCHING);
    }

    /// Makes the last finished packet visible to a scraper. A scraper skips the last counted
    /// fragment, so this counts one fragment ahead. The fragment that is counted ahead is the next
    /// fragment or, if the chunk is completed first, an empty one.
    ///
    /// Does nothing while a fragment is open, or if no byte is free.
    #[inline]
    pub fn publish_finished(&mut self) {
        if self.next != NextFragment::Uncounted || self.free_bytes() == 0 {
            return;
        }
        let has_room = self.has_room_for_packet();
        self.count_one_more();
        self.next = if has_room {
            NextFragment::Counted
        } else {
            NextFragment::CountedLast
        };
    }

    /// Combines [`WritableChunk::end_fragment`] and [`WritableChunk::publish_finished`]. Returns
    /// whether another packet may begin.
    ///
    /// # Safety
    ///
    /// As for [`WritableChunk::end_fragment`].
    #[inline]
    pub unsafe fn finish_fragment(&mut self, fragment_bytes: usize) -> bool {
        self.is_open() && self.finish_counted(fragment_bytes)
    }

    /// Combines [`WritableChunk::begin_counted`] and [`WritableChunk::finish_fragment`], for a
    /// fragment that is already written completely.
    ///
    /// # Safety
    ///
    /// As for [`WritableChunk::end_fragment`], and the next fragment is counted
    /// ([`WritableChunk::is_counted`]).
    #[inline]
    pub unsafe fn append_fragment(&mut self, fragment_bytes: usize) {
        debug_assert!(self.is_counted());
        self.finish_counted(fragment_bytes);
    }

    /// Finishes the fragment that is counted already, and counts the next one ahead. Returns
    /// whether another packet may begin.
    #[inline]
    fn finish_counted(&mut self, fragment_bytes: usize) -> bool {
        self.advance(fragment_bytes);
        let has_room = self.fits_packet();
        if has_room {
            self.count_one_more();
            self.next = NextFragment::Counted;
        } else {
            self.publish_last();
        }
        has_room
    }

    /// Makes the last finished packet visible to a scraper when no packet may follow it.
    #[cold]
    fn publish_last(&mut self) {
        self.next = NextFragment::Uncounted;
        self.publish_finished();
    }

    /// Completes the chunk, so that the service may read it. Abandons a fragment that is still
    /// open.
    #[must_use = "a chunk that is not committed stays in use for ever"]
    pub fn complete(mut self) -> ChunkPlace {
        self.abandon_fragment();
        if matches!(self.next, NextFragment::Counted | NextFragment::CountedLast) {
            // Write an empty packet, because the count covers one more fragment. There is room for
            // it (see `NextFragment`).
            self.write(&[0]);
        }
        self.mapping.release(self.place);
        if let Some(word) = self.mapping.page_word(self.place.page_index) {
            state::complete(word, self.place.chunk_index);
        }
        self.place
    }

    /// Writes a whole packet, in tests of code that reads chunks. Trace writers use
    /// [`Self::writable_range`].
    ///
    /// # Panics
    ///
    /// If the chunk has no room for the packet, or a fragment is open.
    pub fn append_packet(&mut self, bytes: &[u8]) {
        assert!(FRAGMENT_SIZE_BYTES + bytes.len() <= self.free_bytes());
        assert!(!self.is_open() && self.begin_fragment());
        if bytes.len() < 127 {
            self.write(&[&[bytes.len() as u8], bytes].concat());
            // SAFETY: the fragment was written just now.
            unsafe { self.end_fragment(1 + bytes.len()) };
        } else {
            self.fill_fragment(bytes);
            // SAFETY: as above.
            unsafe { self.end_fragment(FRAGMENT_SIZE_BYTES + bytes.len()) };
        }
    }

    /// Writes the size of the open fragment in four bytes, and `bytes` behind it.
    pub(super) fn fill_fragment(&mut self, bytes: &[u8]) {
        assert!(FRAGMENT_SIZE_BYTES + bytes.len() <= self.free_bytes());
        self.write(&[&redundant_varint(bytes.len() as u32), bytes].concat());
    }

    /// Writes the size of the open fragment, limited to the room that there is (W3). Returns the
    /// number of bytes that the size and the fragment take.
    fn write_size(&mut self, len: usize) -> usize {
        let room = self.free_bytes().saturating_sub(FRAGMENT_SIZE_BYTES);
        debug_assert!(self.is_open() && len <= room);
        let len = len.min(room);
        if self.is_open() {
            self.write(&redundant_varint(len as u32));
        }
        FRAGMENT_SIZE_BYTES + len
    }

    /// Marks the whole payload as finished.
    fn seal(&mut self) {
        self.finished_bytes = self.payload_size_bytes();
        self.next = NextFragment::Uncounted;
    }

    /// Moves the end of the finished fragments behind the next fragment.
    #[inline]
    fn advance(&mut self, fragment_bytes: usize) {
        debug_assert!(fragment_bytes <= self.free_bytes());
        self.finished_bytes += fragment_bytes;
    }

    /// Counts one more fragment. Callers have checked that the count does not overflow.
    #[inline]
    fn count_one_more(&mut self) {
        debug_assert!(self.packets.count() < PacketsWord::COUNT_MAX);
        // The count is in the lowest bits.
        self.store_packets(PacketsWord::from_bits(self.packets.bits() + 1));
    }

    fn set_flag(&mut self, flag: ChunkFlags) {
        let (count, flags) = (self.packets.count(), self.packets.flags());
        if !flags.contains(flag) {
            self.store_packets(PacketsWord::new(count, flags.union(flag)));
        }
    }

    fn has_flag(&self, flag: ChunkFlags) -> bool {
        self.packets.flags().contains(flag)
    }

    /// Stores the packets word: the only atomic store per packet. A read-modify-write is not
    /// needed, since no other thread stores there (W2).
    #[inline]
    fn store_packets(&mut self, packets: PacketsWord) {
        self.packets = packets;
        // Release pairs with the acquire load in `ServiceMemory::scrape`: a scraper that sees the
        // count also sees the ids, and every byte before `finished_bytes`.
        self.header()
            .packets
            .store(packets.bits(), Ordering::Release);
    }

    #[inline]
    fn header(&self) -> &ChunkHeader {
        // SAFETY: the chunk is in use as long as this handle exists (W1).
        unsafe { self.mapping.chunk_header(self.extent) }
    }

    /// Writes `bytes` at `finished_bytes`. Callers have checked that they fit.
    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.free_bytes());
        // SAFETY: the bytes lie in the payload, behind the finished fragments (W3). Only the owner
        // of this handle reads or writes there (W1).
        unsafe { self.mapping.backing.write(self.start_bytes(), bytes) }
    }

    /// Returns the distance of the end of the finished fragments from the start of the mapping.
    #[inline]
    fn start_bytes(&self) -> usize {
        self.extent.payload_offset_bytes() + self.finished_bytes
    }
}

/// A handle of a chunk that is being read, owned by the service. Dropping the handle frees the
/// chunk, too.
///
/// Invariants:
/// - (R1) The chunk is BeingRead and this is its only handle.
/// - (R2) No thread writes its payload: the handle of its trace writer is gone, and the next trace
///   writer takes the chunk only after it was freed.
#[derive(Debug)]
pub struct ReadableChunk<'m> {
    mapping: &'m Mapping,
    place: ChunkPlace,
    extent: ChunkExtent,
    header: CopiedHeader,
}

impl<'m> ReadableChunk<'m> {
    /// Creates the handle.
    ///
    /// # Safety
    ///
    /// The chunk has just become BeingRead and has no other handle. `extent` is its extent in the
    /// present layout of its page.
    pub(super) unsafe fn new(mapping: &'m Mapping, place: ChunkPlace, extent: ChunkExtent) -> Self {
        // SAFETY: the chunk stays in use until this handle is gone, so these bytes are a header.
        let header = unsafe { mapping.chunk_header(extent) };
        Self {
            mapping,
            place,
            extent,
            header: header.load(),
        }
    }

    /// Returns the header, as it was when the handle was created.
    #[must_use]
    pub fn header(&self) -> &CopiedHeader {
        &self.header
    }

    /// Returns the payload: the counted fragments, then bytes that are left over from earlier uses.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        let offset_bytes = self.extent.payload_offset_bytes();
        let len = self.extent.payload_size_bytes();
        // SAFETY: the payload lies in the mapping (E1). The slice borrows the handle, and no thread
        // writes there as long as the handle exists (R2).
        unsafe { self.mapping.backing.read(offset_bytes, len) }
    }

    /// Frees the chunk, so that the producer may use it again.
    ///
    /// # Errors
    ///
    /// If the page word was changed wrongly. Only a hostile producer can cause that.
    pub fn free(self) -> Result<(), MoveError> {
        ManuallyDrop::new(self).hand_back()
    }

    /// Zeroes the headers in the chunk and frees it. Called once, before the handle is gone.
    fn hand_back(&mut self) -> Result<(), MoveError> {
        // SAFETY: the chunk is BeingRead, and only the owner of this handle accesses it (R1, R2).
        // No slice of the payload exists: it would borrow the handle, which `&mut self` excludes.
        unsafe { self.mapping.free(self.place, self.extent) }
    }
}

impl Drop for ReadableChunk<'_> {
    fn drop(&mut self) {
        // `drop` cannot report the error. Only a hostile producer causes one; its chunk stays in
        // use.
        let _ = self.hand_back();
    }
}
