//! Typed handles for chunks: one that is being written, one that is being read.
//!
//! Moving a handle on is the state transition: [`WritableChunk::complete`] consumes the writer's
//! handle, [`ReadableChunk::free`] the service's. Between the two the chunk has no handle; a
//! [`ChunkPlace`] names it.
//!
//! ```text
//!  0         4          6         8                           closed_bytes
//! +----------+----------+---------+------+----------+------+---+------+- - - - - - - - -
//! | chunk id |writer id | packets | size | fragment | size |   | size | open fragment...
//! +----------+----------+---------+------+----------+------+---+------+- - - - - - - - -
//!                                 |<-- finished, never written  -->|  |<- a FragmentRange
//!                                 |    again before it is free     |
//! ```
//!
//! The writable chunk itself keeps the fragments in order: it writes every fragment's size, and
//! raises the packet count only over fragments that are finished. That makes scraping sound
//! whatever the writer writes into the ranges that it gets.
#![allow(unsafe_code)] // Payload is raw memory; `backing.rs` makes the addresses.

use std::mem::ManuallyDrop;
use std::sync::Arc;

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

/// Fragments shorter than this get a size of one byte when they are closed.
const COMPACT_BELOW_BYTES: usize = 127;

/// Memory of an open fragment, from behind its size to the end of the chunk.
///
/// It may be read and written by whoever holds the chunk, until the fragment is closed or
/// abandoned or the chunk is gone.
#[derive(Clone, Copy, Debug)]
pub struct FragmentRange {
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
/// - (W3) `closed_bytes` is at most the payload's size. Payload before it consists of finished
///   fragments, each with the size that this handle wrote, and is not written again.
/// - (W4) The count covers finished fragments, and then at most one more: the open one, or one
///   yet to come if `published`.
#[derive(Debug)]
#[must_use = "a chunk that is not completed stays in use for ever"]
pub struct WritableChunk {
    mapping: Arc<Mapping>,
    place: ChunkPlace,
    extent: ChunkExtent,
    chunk_id: ChunkId,
    packets: PacketsWord,
    closed_bytes: usize,
    /// Whether a fragment is open, its size at `closed_bytes`.
    is_open: bool,
    /// Whether the count is ahead of the fragments that were opened, by one.
    /// Then no fragment is open, and `closed_bytes` is below the payload's size.
    published: bool,
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
            closed_bytes: 0,
            is_open: false,
            published: false,
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
    #[must_use]
    pub fn payload_size_bytes(&self) -> usize {
        self.extent.payload_size_bytes()
    }

    /// Bytes behind the last closed fragment.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.payload_size_bytes() - self.closed_bytes
    }

    /// Distance of an open fragment's first byte from the start of the payload.
    #[must_use]
    pub fn open_fragment_offset_bytes(&self) -> usize {
        self.closed_bytes + FRAGMENT_SIZE_BYTES
    }

    /// Whether another packet may begin in this chunk.
    #[must_use]
    pub fn has_room_for_packet(&self) -> bool {
        let packets = self.packets.count() - u16::from(self.published);
        !self.is_open
            && packets < PACKETS_PER_CHUNK_MAX
            && self.free_bytes() >= PACKET_ROOM_MIN_BYTES
    }

    /// Opens the next fragment: counts it and reserves its size. Returns the memory that it may
    /// fill, or `None` if one is open already or there is no room
    /// ([`WritableChunk::has_room_for_packet`]).
    pub fn open_fragment(&mut self) -> Option<FragmentRange> {
        if !self.has_room_for_packet() {
            return None;
        }
        if self.published {
            self.published = false;
        } else {
            self.count_one_more();
        }
        self.is_open = true;
        self.write(&[0; FRAGMENT_SIZE_BYTES]);
        let start_bytes = self.extent.payload_offset_bytes() + self.open_fragment_offset_bytes();
        Some(FragmentRange {
            // SAFETY: room for the size and more was checked, so the address is in the payload.
            start: unsafe { self.mapping.backing.address(start_bytes) },
            len: self.free_bytes() - FRAGMENT_SIZE_BYTES,
        })
    }

    /// Closes the open fragment, of which `len` bytes were filled, as the last of its packet. If
    /// it is short and the first of its packet too, its size takes one byte.
    pub fn close_fragment(&mut self, len: usize) {
        let Some(len) = self.checked_len(len) else {
            return;
        };
        let continues = self.closed_bytes == 0
            && self
                .packets
                .flags()
                .contains(ChunkFlags::FIRST_PACKET_CONTINUES);
        if len < COMPACT_BELOW_BYTES && !continues {
            let size_at = self.extent.payload_offset_bytes() + self.closed_bytes;
            let (from, to) = (size_at + FRAGMENT_SIZE_BYTES, size_at + 1);
            // SAFETY: both stretches lie in the payload behind `closed_bytes`, where only the
            // holder of this handle reads or writes (W1, W3), and that is the caller.
            unsafe { self.mapping.backing.shift(from, to, len) };
            self.write(&[len as u8]);
            self.closed_bytes += 1 + len;
        } else {
            self.write(&redundant_varint(len as u32));
            self.closed_bytes += FRAGMENT_SIZE_BYTES + len;
        }
        self.is_open = false;
    }

    /// Closes the open fragment, of which `len` bytes were filled, as one whose packet continues
    /// in the writer's next chunk. No further fragment fits.
    pub fn close_continuing_fragment(&mut self, len: usize) {
        let Some(len) = self.checked_len(len) else {
            return;
        };
        self.write(&redundant_varint(len as u32));
        self.set_flag(ChunkFlags::LAST_PACKET_CONTINUES);
        self.seal();
    }

    /// Gives up the open fragment, and with it its packet: its size says that nothing follows. No
    /// further fragment fits.
    pub fn abandon_fragment(&mut self) {
        if self.is_open {
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
    pub fn publish_finished(&mut self) {
        if !self.is_open && !self.published && self.free_bytes() > 0 {
            self.count_one_more();
            self.published = true;
        }
    }

    /// Hands the chunk over to the service. A fragment that is still open is abandoned.
    #[must_use = "a chunk that is not committed stays in use for ever"]
    pub fn complete(mut self) -> ChunkPlace {
        self.abandon_fragment();
        if self.published {
            // An empty packet, so that the count is true. There is room (see `published`).
            self.write(&[0]);
        }
        if let Some(word) = self.mapping.page_word(self.place.page_index) {
            state::complete(word, self.place.chunk_index);
        }
        self.place
    }

    /// Fills the open fragment from its start, under the eyes of the model checker.
    #[cfg(all(test, loom))]
    pub(super) fn write_watched(&mut self, bytes: &[u8]) {
        let start_bytes = self.extent.payload_offset_bytes() + self.open_fragment_offset_bytes();
        // SAFETY: the models open a fragment before, and write less than fits.
        unsafe { self.mapping.backing.write(start_bytes, bytes) }
    }

    /// `len` if a fragment is open; no more than there is room for, so that W3 holds.
    fn checked_len(&self, len: usize) -> Option<usize> {
        let room = self.free_bytes().checked_sub(FRAGMENT_SIZE_BYTES)?;
        debug_assert!(self.is_open && len <= room);
        self.is_open.then_some(len.min(room))
    }

    /// Declares the whole payload finished.
    fn seal(&mut self) {
        self.closed_bytes = self.payload_size_bytes();
        self.is_open = false;
    }

    fn count_one_more(&mut self) {
        let (count, flags) = (self.packets.count(), self.packets.flags());
        self.store_packets(PacketsWord::new(count + 1, flags));
    }

    fn set_flag(&mut self, flag: ChunkFlags) {
        let (count, flags) = (self.packets.count(), self.packets.flags());
        if !flags.contains(flag) {
            self.store_packets(PacketsWord::new(count, flags.union(flag)));
        }
    }

    /// The one store per packet. A plain store is enough since nobody else stores there (W2).
    fn store_packets(&mut self, packets: PacketsWord) {
        self.packets = packets;
        // Release pairs with the acquire load in `ServiceMemory::scrape`: who sees the count sees
        // the ids, and every byte before `closed_bytes`.
        self.header()
            .packets
            .store(packets.bits(), Ordering::Release);
    }

    fn header(&self) -> &ChunkHeader {
        // SAFETY: the chunk is in use as long as this handle exists (W1).
        unsafe { self.mapping.chunk_header(self.extent) }
    }

    /// Writes `bytes` at `closed_bytes`; the callers know that they fit.
    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.free_bytes());
        let offset_bytes = self.extent.payload_offset_bytes() + self.closed_bytes;
        // SAFETY: the bytes lie in the payload, behind what is finished (W3), where nobody but the
        // holder of this handle reads or writes (W1).
        unsafe { self.mapping.backing.write(offset_bytes, bytes) }
    }
}

/// `value`, below 2^28, as a varint of four bytes.
const fn redundant_varint(value: u32) -> [u8; FRAGMENT_SIZE_BYTES] {
    [
        value as u8 | 0x80,
        (value >> 7) as u8 | 0x80,
        (value >> 14) as u8 | 0x80,
        (value >> 21) as u8 & 0x7f,
    ]
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
        // SAFETY: the chunk is in use until the move below.
        let header = unsafe { self.mapping.chunk_header(self.extent) };
        // A scraper may look at the header right after the next writer took the chunk, and must
        // not find the old one. Relaxed and release pair as in `WritableChunk::new`; the move
        // below releases all three to the next writer.
        header.writer_id.store(0, Ordering::Relaxed);
        header.chunk_id.store(0, Ordering::Relaxed);
        header.packets.store(0, Ordering::Release);
        let word = self
            .mapping
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
