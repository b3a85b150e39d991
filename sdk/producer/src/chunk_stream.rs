//! Chunks as ranges of memory for the stream: what happens where a packet reaches the end of one.
//!
//! Either the packet goes on in a new chunk, and the lengths that are still open in the old one
//! become patches; or there is no new chunk, the packet is given up, and all that is written up to
//! its end goes to garbage memory of the writer's own.
#![allow(unsafe_code)] // Promises that ranges are valid, and that fragments stand where they must.

use protozero::{
    CompactValue, Message, Outgoing, PatchId, Range, RangeSource, SlotTarget, StreamWriter,
};

use crate::port::WriterPort;
use tracezero_core::shm::{FRAGMENT_SIZE_BYTES, WritableChunk};

/// Longest packet whose size takes one byte. One of 127 bytes would do, too; Perfetto's own
/// writers stop here, and so their bytes are ours.
const COMPACT_MAX_BYTES: usize = 126;
/// Memory for packets that are dropped. Longer ones begin again at its start. Most writers never drop
/// any, so each gets it with the first.
const GARBAGE_BYTES: usize = 1024;

/// A byte stream whose ranges lie in the trace writer's chunks.
///
/// Invariants:
/// - (C1) The stream's range, if it has one, lies in the writable range of the source's `chunk`, or, if
///   that is `None`, in `garbage`. `chunk` is given away only after the stream gave up its range.
/// - (C2) The stream has a slot outside any message only if `chunk` has an open fragment, and then it
///   stands for its size, where the finished fragments end.
/// - (C3) While `chunk` has no open fragment, the stream's cursor stands where its finished
///   fragments end, or the stream has no range.
#[derive(Debug)]
pub(super) struct ChunkStream {
    stream: StreamWriter<ChunkSource>,
}

/// The fate of a writer's last packet.
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
        // SAFETY: no method of this module replaces the source. The chunk or the garbage that a range
        // lies in is given away or reallocated only after the stream gave up that range (C1). No range
        // lies in the port.
        unsafe { self.stream.source_mut() }
    }

    /// The root message of the open packet. Only while one is open: else C3 does not hold.
    #[inline]
    pub(super) fn message(&mut self) -> Message<'_> {
        self.stream.message()
    }

    /// Begins a packet in the chunk, if there is one with room for it. Returns whether there is.
    #[inline]
    pub(super) fn begin_packet(&mut self) -> bool {
        let source = self.source_mut();
        let chunk = source.chunk.as_mut();
        let is_begun = chunk.is_some_and(WritableChunk::begin_counted);
        if is_begun {
            source.port.counters().packets_begun.add_one();
            self.stream.append_slot();
        }
        is_begun
    }

    /// Begins a packet in another chunk, or drops it if there is none. Returns whether it began.
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

    /// Ends the open packet, if its size takes one byte and the chunk has room for another one behind
    /// it. Returns whether it did. If not, [`end_packet`](Self::end_packet) does what is left.
    #[inline]
    pub(super) fn end_short_packet(&mut self) -> bool {
        match self.stream.close_short_slot(COMPACT_MAX_BYTES) {
            // SAFETY: the size was filled in just now.
            Some(fragment_bytes) => unsafe { self.source_mut().end_in_chunk(fragment_bytes) },
            None => false,
        }
    }

    /// Ends the open packet, if there is one. Returns whether the chunk is to be returned.
    #[cold]
    pub(super) fn end_packet(&mut self) -> bool {
        let closed = self.stream.close_slot(COMPACT_MAX_BYTES);
        let used_bytes = self.stream.used_bytes();
        let source = self.source_mut();
        let must_wait = match closed {
            Some(fragment_bytes) => {
                // SAFETY: the size was filled in just now.
                unsafe { source.end_in_chunk(fragment_bytes) };
                false
            }
            None => source.end_elsewhere(used_bytes),
        };
        // If it is full, nothing could be counted ahead for scrapers, so the packet shows at once this
        // way.
        must_wait || source.is_chunk_full()
    }

    /// Writes a packet that `append` appends, with its size, where the stream writes next, and shows it
    /// to scrapers; if that takes no new chunk. `append` returns how many bytes the packet has, 1 to
    /// 126, or has done nothing. Returns whether it did.
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
        source.port.counters().packets_begun.add_one();
        if let Some(chunk) = &mut source.chunk {
            // SAFETY: the chunk was asked above. No fragment is open, so the packet stands where the
            // writable range begins (C3).
            unsafe { chunk.append_fragment(1 + len) };
        }
        true
    }

    /// Writes a packet of these bytes, if they are 1 to 126 and that takes no new chunk. Returns
    /// whether it did.
    #[inline]
    pub(super) fn write_short_packet(&mut self, fields: &[u8]) -> bool {
        is_compact(fields.len())
            && self.write_whole_packet(|stream| {
                stream.append_delimited(fields).then_some(fields.len())
            })
    }

    /// Writes a packet that `put` puts together, if that takes no new chunk. Returns whether it did: it
    /// does nothing if `put` returns false, or puts together none of 1 to 126 bytes.
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

/// Returns whether a packet of so many bytes can be written in one go.
#[inline(always)]
pub(super) const fn is_compact(len: usize) -> bool {
    len >= 1 && len <= COMPACT_MAX_BYTES
}

/// The source of a [`ChunkStream`]'s ranges: the writer's chunks, or garbage memory.
#[derive(Debug)]
struct ChunkSource {
    port: WriterPort,
    chunk: Option<WritableChunk>,
    /// Distance of the stream's range from the start of the chunk's payload.
    range_offset_bytes: usize,
    last_packet: LastPacket,
    garbage: Vec<u8>,
}

impl ChunkSource {
    /// Begins a packet in the chunk that was looked for just now, or drops it.
    fn begin_in_new_chunk(&mut self) -> bool {
        let counters = self.port.counters();
        counters.packets_begun.add_one();
        let chunk = self.chunk.as_mut();
        let is_begun = chunk.is_some_and(WritableChunk::begin_fragment);
        if !is_begun {
            counters.packets_dropped.add_one();
            self.port.losses().add_one();
        }
        is_begun
    }

    /// Finishes the packet in the chunk and shows it to scrapers. Returns whether the chunk has room
    /// for another one.
    ///
    /// # Safety
    ///
    /// The stream has filled in the packet's size, and the packet takes `fragment_bytes` with it.
    #[inline]
    unsafe fn end_in_chunk(&mut self, fragment_bytes: usize) -> bool {
        if fragment_bytes == 1 {
            self.port.counters().packets_empty.add_one();
        }
        self.chunk.as_mut().is_some_and(|chunk| {
            // SAFETY: promised by the caller; the size stands where the writable range begins (C2).
            unsafe { chunk.finish_fragment(fragment_bytes) }
        })
    }

    /// Ends a packet, if one is open, whose size is not in the stream's range: it goes on from an earlier
    /// chunk, or is dropped. Returns whether the next packet has to wait, which is done without a chunk.
    fn end_elsewhere(&mut self, used_bytes: usize) -> bool {
        let chunk = self.chunk.as_mut().filter(|chunk| chunk.is_open());
        let is_in_chunk = chunk.is_some();
        if let Some(chunk) = chunk {
            chunk.end_continuation(used_bytes);
            chunk.publish_finished();
        }
        // Also those of a packet that was dropped after its first chunks.
        self.port.send_patches();
        is_in_chunk && !self.port.has_room()
    }

    /// Whether the chunk is full to its last byte.
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

    /// Looks for a chunk for the next packet. The stream must have given up its range.
    ///
    /// The old chunk goes back first: a service that frees it at once may free the very chunk
    /// that is needed.
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

    /// Notes that there is no chunk.
    fn begin_dropping(&mut self) {
        if self.last_packet != LastPacket::Dropped {
            self.last_packet = LastPacket::Dropped;
            self.port.counters().drop_episodes.add_one();
            self.port.losses().add_one();
        }
    }

    /// The open packet goes on in the next chunk, if there is one.
    fn continue_packet(&mut self, mut chunk: WritableChunk, mut outgoing: Outgoing<'_>) -> Range {
        self.port.note_full_chunk();
        // Before the old chunk is touched: without a new one its fragment ends otherwise.
        let next = self.port.acquire_chunk_to_continue();
        let range_offset_bytes = self.range_offset_bytes;
        let open_at = range_offset_bytes + outgoing.used_bytes() + chunk.free_bytes();
        let fragment_bytes = open_at - chunk.payload_size_bytes() - FRAGMENT_SIZE_BYTES;
        let Some(mut next) = next else {
            self.begin_dropping();
            if !chunk.continues_packet() {
                self.port.counters().packets_dropped.add_one();
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
// range, or of `garbage`, which is never moved or accessed otherwise once it has been allocated, and
// no range lies in it before. The handle of a chunk writes
// sizes only where the stream has no range, or before it, and everything else in a chunk is the
// holder's. No slot stays in place: each is redirected or discarded when its range ends.
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
