//! A byte stream over a writer's chunks, and what happens when a packet reaches the end of its
//! chunk.
//!
//! If there is another chunk, the packet continues there, and lengths that are still open in the
//! old chunk become patches. If there is none, the packet is dropped: the rest of it is written to
//! a *garbage* buffer of the writer.
#![allow(unsafe_code)] // Promises that ranges are valid, and that fragments lie where they must.

use protozero::{
    CompactValue, Message, Outgoing, PatchId, Range, RangeSource, SlotTarget, StreamWriter,
};

use crate::port::WriterPort;
use tracezero_core::shm::{FRAGMENT_SIZE_BYTES, WritableChunk};

/// The longest packet whose size takes one byte. 127 bytes would fit too; but Perfetto's own
/// writers stop at 126, and our bytes must be equal to the bytes that they write.
const COMPACT_MAX_BYTES: usize = 126;
/// The size of the garbage buffer for dropped packets; a longer packet overwrites the buffer from
/// its start. Most writers never drop a packet, so the buffer is allocated with the first drop.
const GARBAGE_BYTES: usize = 1024;

/// A byte stream whose ranges lie in the trace writer's chunks.
///
/// Invariants:
/// - (C1) If the stream has a range, it lies in the writable range of the source's `chunk` or, if
///   that is `None`, in `garbage`. `chunk` is given away only after the stream has given up its
///   range.
/// - (C2) The stream has a root slot, which is a length slot outside of any message, only if
///   `chunk` has an open fragment. The root slot is for the fragment's size, and lies where the
///   finished fragments end.
/// - (C3) While `chunk` has no open fragment, the stream's cursor is where the finished fragments
///   end, or the stream has no range.
#[derive(Debug)]
pub(super) struct ChunkStream {
    stream: StreamWriter<ChunkSource>,
}

/// The outcome of a writer's last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastPacket {
    /// The writer has begun no packet.
    None,
    /// A chunk holds the packet, or its newest part.
    Written,
    /// No chunk was free for the packet, or for the rest of it.
    Dropped,
}

impl ChunkStream {
    pub(super) fn new(port: WriterPort) -> Self {
        let mut stream = StreamWriter::new(ChunkSource {
            port,
            chunk: None,
            range_offset_bytes: 0,
            last_packet: LastPacket::None,
            garbage: Vec::new(),
        });
        stream.reserve();
        Self { stream }
    }

    #[inline]
    pub(super) fn port(&self) -> &WriterPort {
        &self.stream.source().port
    }

    pub(super) fn port_mut(&mut self) -> &mut WriterPort {
        &mut self.source_mut().port
    }

    pub(super) fn last_packet(&self) -> LastPacket {
        self.stream.source().last_packet
    }

    #[inline(always)]
    fn source_mut(&mut self) -> &mut ChunkSource {
        // SAFETY: no method of this module replaces the source. The chunk or the garbage buffer
        // that a range lies in is given away or reallocated only after the stream has given up that
        // range (C1). No range lies in the port.
        unsafe { self.stream.source_mut() }
    }

    /// Returns the root message of the open packet. Must be called only while a packet is open:
    /// otherwise C3 does not hold.
    #[inline]
    pub(super) fn message(&mut self) -> Message<'_> {
        self.stream.message()
    }

    /// Begins a packet in the current chunk. Returns false if there is no chunk, or no room in it.
    #[inline]
    pub(super) fn begin_packet(&mut self) -> bool {
        let source = self.source_mut();
        let chunk = source.chunk.as_mut();
        let is_begun = chunk.is_some_and(WritableChunk::begin_counted);
        if is_begun {
            source.port.counters().note_begun();
            self.stream.append_slot();
        }
        is_begun
    }

    /// Begins a packet in another chunk, or drops it if there is none. Returns true if it began.
    pub(super) fn begin_packet_in_other_chunk(&mut self) -> bool {
        self.stream.release_range();
        self.source_mut().replace_chunk();
        self.stream.next_range();
        let is_begun = self.source_mut().begin_in_new_chunk();
        if is_begun {
            self.stream.append_slot();
        }
        is_begun
    }

    /// Ends the open packet, if its size takes one byte and the chunk has room for another packet
    /// after it. If it returns false, [`end_packet`](Self::end_packet) must do the rest.
    #[inline]
    pub(super) fn end_short_packet(&mut self) -> bool {
        match self.stream.close_short_slot(COMPACT_MAX_BYTES) {
            // SAFETY: `close_short_slot` has just filled in the size.
            Some(fragment_bytes) => unsafe { self.source_mut().end_in_chunk(fragment_bytes) },
            None => false,
        }
    }

    /// Ends the open packet, if there is one. Returns true if the caller must return the chunk.
    #[cold]
    pub(super) fn end_packet(&mut self) -> bool {
        let closed = self.stream.close_slot(COMPACT_MAX_BYTES);
        let used_bytes = self.stream.used_bytes();
        let source = self.source_mut();
        let must_wait = match closed {
            Some(fragment_bytes) => {
                // SAFETY: `close_slot` has just filled in the size.
                unsafe { source.end_in_chunk(fragment_bytes) };
                false
            }
            None => source.end_elsewhere(used_bytes),
        };
        // In a full chunk, no next packet can be counted ahead, so scrapers would not see the
        // packet that ends now. Returning the chunk shows this packet at once.
        must_wait || source.is_chunk_full()
    }

    /// Writes a packet with its size at the stream's position, and shows it to scrapers. `append`
    /// appends the packet and returns its length, 1 to 126 bytes, or returns `None` and appends
    /// nothing. Returns false if nothing was written, because there is no chunk or no room, or
    /// because `append` returned `None`.
    #[inline(always)]
    fn write_whole_packet(
        &mut self,
        append: impl FnOnce(&mut StreamWriter<ChunkSource>) -> Option<usize>,
    ) -> bool {
        let chunk = self.stream.source().chunk.as_ref();
        if !chunk.is_some_and(WritableChunk::is_counted) {
            return false;
        }
        let used_bytes = self.stream.used_bytes();
        let Some(len) = append(&mut self.stream) else {
            return false;
        };
        debug_assert!((1..=COMPACT_MAX_BYTES).contains(&len));
        debug_assert_eq!(self.stream.used_bytes(), used_bytes + 1 + len);
        let source = self.source_mut();
        source.port.counters().note_begun();
        if let Some(chunk) = &mut source.chunk {
            // SAFETY: the next fragment is counted, as checked above. So no fragment is open, and
            // `append` wrote the size and the packet where the finished fragments end (C3).
            unsafe { chunk.append_fragment(1 + len) };
        }
        true
    }

    /// Writes a packet with these bytes, if there are 1 to 126 of them and they fit into the
    /// current chunk. Returns false otherwise.
    #[inline]
    pub(super) fn write_short_packet(&mut self, fields: &[u8]) -> bool {
        is_compact(fields.len())
            && self.write_whole_packet(|stream| {
                stream.append_delimited(fields).then_some(fields.len())
            })
    }

    /// Writes a packet that `put` encodes, if it fits into the current chunk. Returns false, and
    /// writes nothing, if it does not fit, if `put` returns false, or if the packet does not have 1
    /// to 126 bytes.
    #[inline(always)]
    pub(super) fn write_short_packet_by(
        &mut self,
        put: impl FnOnce(&mut CompactValue<'_>) -> bool,
    ) -> bool {
        self.write_whole_packet(|stream| {
            stream.append_delimited_by(|packet| put(packet) && is_compact(packet.len()))
        })
    }

    /// Commits the chunk, if there is one. The next packet begins in another one.
    pub(super) fn return_chunk(&mut self) {
        self.stream.release_range();
        self.source_mut().return_chunk();
    }
}

/// Returns true if a packet of this length can be written in one go.
#[inline(always)]
pub(super) const fn is_compact(len: usize) -> bool {
    len >= 1 && len <= COMPACT_MAX_BYTES
}

/// The source of a [`ChunkStream`]'s ranges: the writer's chunks, or its garbage buffer.
#[derive(Debug)]
struct ChunkSource {
    port: WriterPort,
    chunk: Option<WritableChunk>,
    /// The offset of the stream's range in the chunk's payload.
    range_offset_bytes: usize,
    last_packet: LastPacket,
    garbage: Vec<u8>,
}

impl ChunkSource {
    /// Begins a packet in the new chunk, or drops it if there is none.
    fn begin_in_new_chunk(&mut self) -> bool {
        let counters = self.port.counters();
        counters.note_begun();
        let chunk = self.chunk.as_mut();
        let is_begun = chunk.is_some_and(WritableChunk::begin_fragment);
        if !is_begun {
            counters.note_dropped();
            self.port.losses().add_one();
        }
        is_begun
    }

    /// Finishes the packet in the chunk and shows it to scrapers. Returns true if the chunk has
    /// room for another packet.
    ///
    /// # Safety
    ///
    /// The stream must have filled in the packet's size; `fragment_bytes` is the packet's length
    /// including the size.
    #[inline]
    unsafe fn end_in_chunk(&mut self, fragment_bytes: usize) -> bool {
        if fragment_bytes == 1 {
            self.port.counters().note_empty();
        }
        self.chunk.as_mut().is_some_and(|chunk| {
            // SAFETY: promised by the caller; the size lies where the finished fragments end (C2).
            unsafe { chunk.finish_fragment(fragment_bytes) }
        })
    }

    /// Ends the open packet, if there is one. Its size is not in the stream's range, because it
    /// continues from an earlier chunk or is dropped. Returns true if the chunk must be returned,
    /// because the next packet must wait for room: a writer waits without a chunk.
    fn end_elsewhere(&mut self, used_bytes: usize) -> bool {
        let chunk = self.chunk.as_mut().filter(|chunk| chunk.is_open());
        let is_in_chunk = chunk.is_some();
        if let Some(chunk) = chunk {
            chunk.end_continuation(used_bytes);
            chunk.publish_finished();
        }
        // Send patches even for a packet that was dropped after its first chunks.
        self.port.send_patches();
        is_in_chunk && !self.port.has_room()
    }

    /// Returns true if the chunk is full to its last byte.
    fn is_chunk_full(&self) -> bool {
        let chunk = self.chunk.as_ref();
        chunk.is_some_and(|chunk| chunk.free_bytes() == 0)
    }

    /// Commits the chunk, if there is one. The stream must have given up its range.
    fn return_chunk(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.port.return_chunk(chunk);
        }
    }

    /// Acquires a chunk for the next packet. The stream must have given up its range.
    ///
    /// Returns the old chunk first: if the service frees it at once, it may be the chunk that is
    /// acquired.
    #[cold]
    fn replace_chunk(&mut self) {
        if self.chunk.is_some() {
            self.port.note_full_chunk();
        }
        self.return_chunk();
        self.chunk = match self.last_packet {
            LastPacket::None | LastPacket::Written => self.port.acquire_chunk(),
            LastPacket::Dropped => self.port.acquire_chunk_after_drop(),
        };
        if self.chunk.is_some() {
            self.last_packet = LastPacket::Written;
        } else {
            self.begin_dropping();
        }
    }

    /// Notes that no chunk was free.
    fn begin_dropping(&mut self) {
        if self.last_packet != LastPacket::Dropped {
            self.last_packet = LastPacket::Dropped;
            self.port.counters().note_drop_episode();
            self.port.losses().add_one();
        }
    }

    /// Continues the open packet in the next chunk, or drops it if there is none.
    fn continue_packet(&mut self, mut chunk: WritableChunk, mut outgoing: Outgoing<'_>) -> Range {
        self.port.note_full_chunk();
        // Acquires the next chunk before finishing this one: whether that succeeds decides how the
        // current fragment ends.
        let next = self.port.acquire_chunk_to_continue();
        let range_offset_bytes = self.range_offset_bytes;
        let open_at = range_offset_bytes + outgoing.used_bytes() + chunk.free_bytes();
        let fragment_bytes = open_at - chunk.payload_size_bytes() - FRAGMENT_SIZE_BYTES;
        let Some(mut next) = next else {
            self.begin_dropping();
            if !chunk.continues_packet() {
                self.port.counters().note_dropped();
            }
            outgoing.redirect(|_| SlotTarget::Discard);
            chunk.abandon_fragment();
            self.port.return_chunk(chunk);
            return self.garbage_range();
        };
        outgoing.redirect(|slot_at| {
            chunk.set_needs_patching();
            let offset_bytes = range_offset_bytes + slot_at;
            SlotTarget::Patch(self.port.add_patch(chunk.chunk_id(), offset_bytes))
        });
        chunk.end_continuing(fragment_bytes);
        self.port.return_chunk(chunk);
        next.begin_continuation();
        self.range_offset_bytes = FRAGMENT_SIZE_BYTES;
        let range = next.writable_range();
        self.chunk = Some(next);
        Range::new(range.start, range.len)
    }

    fn garbage_range(&mut self) -> Range {
        if self.garbage.is_empty() {
            self.garbage = vec![0; GARBAGE_BYTES];
        }
        Range::new(self.garbage.as_mut_ptr(), self.garbage.len())
    }
}

// SAFETY: by C1 a range is part of a chunk that this source holds until the stream has given up the
// range, or of `garbage`. `garbage` is never moved or otherwise accessed once it has been
// allocated, and no range lies in it before. The handle of a chunk writes sizes only while the
// stream has no range, or in front of the range; everything else in a chunk belongs to its holder.
// No slot stays in place: each is redirected or discarded when its range ends.
unsafe impl RangeSource for ChunkSource {
    fn next_range(&mut self, mut outgoing: Outgoing<'_>) -> Range {
        match self.chunk.take() {
            Some(chunk) if chunk.is_open() => self.continue_packet(chunk, outgoing),
            Some(chunk) => {
                self.range_offset_bytes = chunk.payload_size_bytes() - chunk.free_bytes();
                let range = chunk.writable_range();
                self.chunk = Some(chunk);
                Range::new(range.start, range.len)
            }
            None => {
                outgoing.redirect(|_| SlotTarget::Discard);
                self.garbage_range()
            }
        }
    }

    fn patch(&mut self, patch: PatchId, length: [u8; 4]) {
        self.port.fill_patch(patch, length);
    }
}
