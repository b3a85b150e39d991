//! Typed handles for chunks: one that is being written, one that is being read.
//!
//! Moving a handle on is the state transition: [`WritableChunk::complete`] consumes the writer's
//! handle, [`ReadableChunk::free`] the service's. Between the two the chunk has no handle; a
//! [`ChunkPlace`] names it.
//!
//! ```text
//!  0         4          6         8                                 finished_bytes
//! +----------+----------+---------+------+----------+------+---+------+- - - - - - - - -
//! | chunk id |writer id | packets | size | fragment | size |   | size | open fragment...
//! +----------+----------+---------+------+----------+------+---+------+- - - - - - - - -
//!                                 |<------ finished, not written again ----->|<--- writable range
//! ```
//!
//! The writable chunk itself keeps account of the fragments: it knows where the finished ones end,
//! by the same sizes that a scraper will walk along, and raises the packet count only over finished
//! ones. So a scraper never gets to bytes that may still change, whatever a writer writes.
#![allow(unsafe_code)] // Payload is raw memory; `backing.rs` makes the addresses.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use protozero::redundant_varint;

use super::layout::{ChunkFlags, ChunkHeader, ChunkPlace, PacketsWord};
use super::memory::{ChunkExtent, Mapping, NewChunk};
use super::state::{self, ChunkMove, MoveError};
use super::sync::Ordering;
use crate::ids::{ChunkId, WriterId};

/// Bytes in front of an open fragment, reserved for its size.
pub const FRAGMENT_SIZE_BYTES: usize = 4;
/// Size that marks a packet as given up by its writer; no fragment is that long.
pub const ABANDONED_FRAGMENT_SIZE: u32 = 0x0fff_ffff;
/// Packets that begin in one chunk at most; one of the ten bits' values is kept for
/// [`WritableChunk::publish_finished`].
pub const PACKETS_PER_CHUNK_MAX: u16 = PacketsWord::COUNT_MAX - 1;
/// With fewer free bytes than these no packet begins in a chunk.
pub const PACKET_ROOM_MIN_BYTES: usize = FRAGMENT_SIZE_BYTES + 8;

/// Memory at the end of a chunk that its writer may fill.
///
/// Whoever holds the chunk may read and write it, up to these limits: nothing before the end of
/// the finished fragments any more, and nothing once the chunk is gone.
#[derive(Clone, Copy, Debug)]
pub struct WritableRange {
    /// First byte.
    pub start: *mut u8,
    /// Number of bytes.
    pub len: usize,
}

/// A chunk that is being written, owned by its writer.
///
/// A handle that is dropped leaves the chunk BeingWritten for ever, as a crash would; its finished
/// packets can still be scraped.
///
/// Invariants:
/// - (W1) The chunk is BeingWritten and this is its only handle.
/// - (W2) `packets` is what the header's packets word says: nobody else stores there.
/// - (W3) `finished_bytes` is at most the payload's size. Payload before it consists of finished
///   fragments: walking the sizes that stand there ends exactly at `finished_bytes`. It is not
///   written again; that is the condition on which [`WritableRange`]s are given out.
/// - (W4) The count covers finished fragments, and then at most one more: `next`.
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

/// What is behind the finished fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextFragment {
    /// Nothing yet.
    Uncounted,
    /// Nothing yet, but the count covers it. There is room for an empty packet, but none begins.
    CountedLast,
    /// Nothing yet, but the count covers it. A packet may begin.
    Counted,
    /// The open fragment, which the count covers, its size at `finished_bytes`.
    Open,
}

impl WritableChunk {
    /// # Safety
    ///
    /// The chunk has just become BeingWritten and has no other handle; `extent` is its extent in
    /// the layout that its page has.
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

    /// The chunk's position in what its writer writes.
    #[must_use]
    pub fn chunk_id(&self) -> ChunkId {
        self.chunk_id
    }

    /// Where the chunk is.
    #[must_use]
    pub fn place(&self) -> ChunkPlace {
        self.place
    }

    /// Fragment count and flags, as the header says.
    #[must_use]
    pub fn packets(&self) -> PacketsWord {
        self.packets
    }

    /// Size of the payload.
    #[inline]
    #[must_use]
    pub fn payload_size_bytes(&self) -> usize {
        self.extent.payload_size_bytes()
    }

    /// Bytes behind the last closed fragment.
    #[inline]
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.payload_size_bytes() - self.finished_bytes
    }

    /// Whether a fragment is open.
    #[inline]
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.next == NextFragment::Open
    }

    /// Whether the open fragment is the first of the chunk and goes on with an earlier packet.
    #[must_use]
    pub fn continues_packet(&self) -> bool {
        self.finished_bytes == 0 && self.has_flag(ChunkFlags::FIRST_PACKET_CONTINUES)
    }

    /// Whether a packet may begin in this chunk.
    #[inline]
    #[must_use]
    pub fn has_room_for_packet(&self) -> bool {
        match self.next {
            NextFragment::Uncounted => self.fits_packet(),
            NextFragment::Counted => true,
            NextFragment::CountedLast | NextFragment::Open => false,
        }
    }

    /// Whether a packet may follow the finished fragments, if no more are counted.
    #[inline]
    fn fits_packet(&self) -> bool {
        self.free_bytes() >= PACKET_ROOM_MIN_BYTES && self.packets.count() < PACKETS_PER_CHUNK_MAX
    }

    /// The memory from the end of the finished fragments on; behind its size, if the open
    /// fragment continues a packet.
    #[must_use]
    pub fn writable_range(&self) -> WritableRange {
        let skipped_bytes = if self.is_open() && self.continues_packet() {
            FRAGMENT_SIZE_BYTES
        } else {
            0
        };
        let start_bytes = self.start_bytes() + skipped_bytes;
        WritableRange {
            // SAFETY: `finished_bytes` is within the payload (W3), and a fragment that is open has
            // room for its size.
            start: unsafe { self.mapping.backing.address(start_bytes) },
            len: self.free_bytes() - skipped_bytes,
        }
    }

    /// Opens the first fragment of a packet and counts it. Its size is for the caller to write,
    /// at the start of the writable range, before [`WritableChunk::end_fragment`].
    ///
    /// Returns whether there is room for it ([`WritableChunk::has_room_for_packet`]).
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

    /// Whether the next fragment is counted already, and a packet may begin.
    #[inline]
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.next == NextFragment::Counted
    }

    /// Does what [`WritableChunk::begin_fragment`] does, if [`WritableChunk::publish_finished`] has
    /// counted ahead. Returns whether it did.
    #[inline]
    pub fn begin_counted(&mut self) -> bool {
        let is_counted = self.next == NextFragment::Counted;
        if is_counted {
            self.next = NextFragment::Open;
        }
        is_counted
    }

    /// Opens the first fragment of a new chunk as one that goes on with the packet of the chunk
    /// before, and reserves its size.
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
    /// The fragment stands at the start of the writable range, its size in front, and takes
    /// `fragment_bytes` in all.
    #[inline]
    pub unsafe fn end_fragment(&mut self, fragment_bytes: usize) {
        if self.is_open() {
            self.advance(fragment_bytes);
            self.next = NextFragment::Uncounted;
        }
    }

    /// Finishes the open fragment, of which `len` bytes were filled, as the end of a packet that
    /// came from the chunk before.
    pub fn end_continuation(&mut self, len: usize) {
        let fragment_bytes = self.write_size(len);
        // SAFETY: the size was written just now.
        unsafe { self.end_fragment(fragment_bytes) };
    }

    /// Closes the open fragment, of which `len` bytes were filled, as one whose packet continues
    /// in the writer's next chunk. No further fragment fits.
    pub fn end_continuing(&mut self, len: usize) {
        self.write_size(len);
        self.set_flag(ChunkFlags::LAST_PACKET_CONTINUES);
        self.seal();
    }

    /// Gives up the open fragment, and with it its packet: its size says that nothing follows. No
    /// further fragment fits.
    pub fn abandon_fragment(&mut self) {
        if self.is_open() {
            self.write(&redundant_varint(ABANDONED_FRAGMENT_SIZE));
            self.seal();
        }
    }

    /// Notes that the packet which continues in the next chunk has lengths that come later.
    pub fn set_needs_patching(&mut self) {
        self.set_flag(ChunkFlags::NEEDS_PATCHING);
    }

    /// Lets a scraper see the last finished packet. It skips the last one that is counted, so the
    /// count goes ahead by one; the next fragment takes it over, or an empty one at the end.
    /// Without effect while a fragment is open or if no byte is free.
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

    /// Does what [`WritableChunk::end_fragment`] and [`WritableChunk::publish_finished`] do. Returns
    /// whether another packet may begin.
    ///
    /// # Safety
    ///
    /// As for [`WritableChunk::end_fragment`].
    #[inline]
    pub unsafe fn finish_fragment(&mut self, fragment_bytes: usize) -> bool {
        self.is_open() && self.finish_counted(fragment_bytes)
    }

    /// Does what [`WritableChunk::begin_counted`] and [`WritableChunk::finish_fragment`] do, for a
    /// fragment that was written whole.
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

    /// Finishes the fragment that the count covers already, and counts ahead again. Returns whether
    /// another packet may begin.
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

    #[cold]
    fn publish_last(&mut self) {
        self.next = NextFragment::Uncounted;
        self.publish_finished();
    }

    /// Hands the chunk over to the service. A fragment that is still open is abandoned.
    #[must_use = "a chunk that is not committed stays in use for ever"]
    pub fn complete(mut self) -> ChunkPlace {
        self.abandon_fragment();
        if matches!(self.next, NextFragment::Counted | NextFragment::CountedLast) {
            // An empty packet, so that the count is true. There is room (see `NextFragment`).
            self.write(&[0]);
        }
        if let Some(word) = self.mapping.page_word(self.place.page_index) {
            state::complete(word, self.place.chunk_index);
        }
        self.place
    }

    /// Writes a whole packet, for tests of those who read the chunk. A trace writer writes through
    /// [`Self::writable_range`].
    ///
    /// # Panics
    ///
    /// If the chunk has no room for the packet, or one is open.
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

    /// Writes a size of four bytes, and the open fragment's first bytes.
    pub(super) fn fill_fragment(&mut self, bytes: &[u8]) {
        assert!(FRAGMENT_SIZE_BYTES + bytes.len() <= self.free_bytes());
        self.write(&[&redundant_varint(bytes.len() as u32), bytes].concat());
    }

    /// Writes the open fragment's size, no more than there is room for (W3). Returns how many bytes
    /// the fragment takes with it.
    fn write_size(&mut self, len: usize) -> usize {
        let room = self.free_bytes().saturating_sub(FRAGMENT_SIZE_BYTES);
        debug_assert!(self.is_open() && len <= room);
        let len = len.min(room);
        if self.is_open() {
            self.write(&redundant_varint(len as u32));
        }
        FRAGMENT_SIZE_BYTES + len
    }

    /// Declares the whole payload finished.
    fn seal(&mut self) {
        self.finished_bytes = self.payload_size_bytes();
        self.next = NextFragment::Uncounted;
    }

    /// Moves the end of the finished fragments over one more.
    #[inline]
    fn advance(&mut self, fragment_bytes: usize) {
        debug_assert!(fragment_bytes <= self.free_bytes());
        self.finished_bytes += fragment_bytes;
    }

    /// Counts one more fragment; callers have checked that the count does not overflow.
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

    /// The one store per packet. A plain store is enough since nobody else stores there (W2).
    #[inline]
    fn store_packets(&mut self, packets: PacketsWord) {
        self.packets = packets;
        // Release pairs with the acquire load in `ServiceMemory::scrape`: who sees the count sees
        // the ids, and every byte before `finished_bytes`.
        self.header()
            .packets
            .store(packets.bits(), Ordering::Release);
    }

    #[inline]
    fn header(&self) -> &ChunkHeader {
        // SAFETY: the chunk is in use as long as this handle exists (W1).
        unsafe { self.mapping.chunk_header(self.extent) }
    }

    /// Writes `bytes` at `finished_bytes`; the callers know that they fit.
    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.free_bytes());
        // SAFETY: the bytes lie in the payload, behind what is finished (W3), where nobody but the
        // holder of this handle reads or writes (W1).
        unsafe { self.mapping.backing.write(self.start_bytes(), bytes) }
    }

    /// Distance of the end of the finished fragments from the start of the mapping.
    #[inline]
    fn start_bytes(&self) -> usize {
        self.extent.payload_offset_bytes() + self.finished_bytes
    }
}

/// A chunk that is being read, owned by the service. Dropping the handle frees the chunk, too.
///
/// Invariants:
/// - (R1) The chunk is BeingRead and this is its only handle.
/// - (R2) Nobody writes its payload: its writer's handle is gone, and the next writer comes after
///   the chunk was freed.
#[derive(Debug)]
pub struct ReadableChunk<'m> {
    mapping: &'m Mapping,
    place: ChunkPlace,
    extent: ChunkExtent,
    writer_id: WriterId,
    chunk_id: ChunkId,
    packets: PacketsWord,
}

impl<'m> ReadableChunk<'m> {
    /// # Safety
    ///
    /// The chunk has just become BeingRead and has no other handle; `extent` is its extent in the
    /// layout that its page has.
    pub(super) unsafe fn new(mapping: &'m Mapping, place: ChunkPlace, extent: ChunkExtent) -> Self {
        // SAFETY: the chunk is in use until the handle made here is gone.
        let header = unsafe { mapping.chunk_header(extent) };
        // Each word is read once. Relaxed: the move to BeingRead acquired all that the writer did
        // before it completed the chunk.
        Self {
            mapping,
            place,
            extent,
            writer_id: WriterId(header.writer_id.load(Ordering::Relaxed)),
            chunk_id: ChunkId(header.chunk_id.load(Ordering::Relaxed)),
            packets: PacketsWord::from_bits(header.packets.load(Ordering::Relaxed)),
        }
    }

    /// The writer that the header names.
    #[must_use]
    pub fn writer_id(&self) -> WriterId {
        self.writer_id
    }

    /// The position in what that writer wrote.
    #[must_use]
    pub fn chunk_id(&self) -> ChunkId {
        self.chunk_id
    }

    /// Fragment count and flags.
    #[must_use]
    pub fn packets(&self) -> PacketsWord {
        self.packets
    }

    /// The payload: as many fragments as counted, then whatever an earlier use left behind.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        let offset_bytes = self.extent.payload_offset_bytes();
        let len = self.extent.payload_size_bytes();
        // SAFETY: the payload lies in the mapping (E1). The slice borrows the handle, and as long
        // as that exists nobody writes there (R2).
        unsafe { self.mapping.backing.read(offset_bytes, len) }
    }

    /// Gives the chunk back to its producer.
    ///
    /// # Errors
    ///
    /// If the page word is not as it must be; only a hostile producer brings that about.
    pub fn free(self) -> Result<(), MoveError> {
        ManuallyDrop::new(self).hand_back()
    }

    /// Called once, last.
    fn hand_back(&mut self) -> Result<(), MoveError> {
        let mapping = self.mapping;
        // These stores make (M4) true for the chunk. The move below releases them to the next writer, of
        // this chunk or of one that begins in its payload.
        // SAFETY: the chunk is in use until the move below.
        let header = unsafe { mapping.chunk_header(self.extent) };
        // Relaxed and release pair as in `WritableChunk::new`.
        header.writer_id.store(0, Ordering::Relaxed);
        header.chunk_id.store(0, Ordering::Relaxed);
        header.packets.store(0, Ordering::Release);
        for offset_bytes in mapping.headers_in_payload(self.extent) {
            // SAFETY: the bytes are payload of this chunk, which only the holder of this handle
            // accesses (R1, R2); no slice of it is lent, for this borrows the handle mutably.
            unsafe { mapping.backing.write(offset_bytes, &[0; 4]) };
        }
        let word = mapping
            .page_word(self.place.page_index)
            .ok_or(MoveError::NoSuchChunk)?;
        state::move_chunk(word, self.place.chunk_index, ChunkMove::Free)?;
        Ok(())
    }
}

impl Drop for ReadableChunk<'_> {
    fn drop(&mut self) {
        // Nobody is left to tell of a hostile producer; its chunk stays in use.
        let _ = self.hand_back();
    }
}
