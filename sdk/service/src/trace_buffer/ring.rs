//! The memory of the buffer, divided into adjacent [slots](super::slot).
//!
//! ```text
//!   memory   | new | newest | oldest or padding | old | ... |  never used, never touched  |
//!            0              ^ write cursor                  ^ used                        ^ size
//! ```
//!
//! A growing ring consists of segments, each with its own mapping. The write cursor visits them in
//! a circle. If the next segment has unread packets, a new segment is inserted before it.
//!
//! A ring whose session streams into a file can grow. In Perfetto, such a ring has a fixed size,
//! and overwrites packets that are not yet in the file. Here the ring grows with the lag of the
//! file, up to a limit, and frees segments that were read (`evict.rs`). Near the limit, writers
//! first wait and only then drop packets (`reader_lag.rs`). All segments belong to one trace
//! buffer. With a buffer for each segment, packets, patches and accounts would be split at the end
//! of each segment. The reader maps the memory of the next segment in advance, so that writers need
//! not. A writer that needs this memory earlier maps it itself.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use tracezero_core::crash_files::format::{Place, SlotHeader, SlotKind, SlotState};
use tracezero_core::crash_files::{CrashFilesError, RingFile};
use tracezero_core::ids::WriterId;
use tracezero_core::shm::layout::ChunkFlags;

use super::fragment::{self, FragmentKind, Token};
use super::segment_memory::SegmentMemory;
use super::slot::{Slot, SlotId};
use super::slot_table::SlotTable;

/// A fragment in the memory of the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    pub(super) slot: SlotId,
    pub(super) kind: FragmentKind,
    /// The offset of its first byte.
    pub(super) start: u32,
    pub(super) len_bytes: u32,
    /// The value of `consumed_bytes` after this fragment and all before it are consumed.
    consumed_until_bytes: u16,
}

impl Fragment {
    #[inline]
    pub(super) fn counts_as_packet(&self) -> bool {
        self.kind.counts_as_packet(self.len_bytes as usize)
    }
}

/// A run of whole packets of one chunk, back to back in the memory of the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    slot: SlotId,
    start: u32,
    len_bytes: u32,
    /// The number of packets; at least 1. Fragments without bytes do not count.
    pub(super) packets: u16,
    /// The value of `consumed_bytes` after the run is consumed.
    consumed_until_bytes: u16,
}

/// The next unread element of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unread {
    Fragment(Fragment),
    /// Nothing: everything was consumed.
    Nothing,
    /// Bytes that are not a fragment, and so cannot be consumed.
    Corrupted,
}

/// Called after each store to a file, where a kill can interrupt a change, and after an observer may have
/// written one. Tests look at the files there.
#[cfg(not(test))]
#[inline]
pub(super) fn stored() {}

#[cfg(test)]
pub(super) use at_stores::stored;

/// A function that tests set to be called after each store.
#[cfg(test)]
pub(crate) mod at_stores {
    use std::cell::RefCell;

    type Look = Box<dyn FnMut()>;

    thread_local! {
        static LOOK: RefCell<Option<Look>> = const { RefCell::new(None) };
    }

    /// Calls `look` after each store of this thread during `work`.
    pub(crate) fn call<R>(look: impl FnMut() + 'static, work: impl FnOnce() -> R) -> R {
        LOOK.set(Some(Box::new(look)));
        let result = work();
        LOOK.set(None);
        result
    }

    pub(crate) fn stored() {
        LOOK.with_borrow_mut(|look| {
            if let Some(look) = look {
                look();
            }
        });
    }
}

/// The memory of a buffer and the table of its slots.
///
/// An offset identifies a byte of any segment. The upper bits are the index in `memory`, the lower
/// bits the position in that segment.
#[derive(Debug)]
pub(super) struct Ring {
    /// The memory of each segment; `None` for one that does not exist now.
    memory: Vec<Option<SegmentMemory>>,
    /// The size of each segment. If the ring can grow, it is 2^`segment_shift`.
    segment_bytes: u32,
    /// The number of lower bits in an offset. If there is a single segment, it is 32: the offset is
    /// then the position in that segment.
    segment_shift: u32,
    /// The maximum number of segments at a time: 1, or less than 2^(32 - `segment_shift`).
    segments_max: usize,
    /// The segments except for the write cursor's, in the order in which the write cursor reaches
    /// them.
    ahead: VecDeque<Segment>,
    /// Memory for a further segment, mapped in advance.
    spare: Option<SegmentMemory>,
    /// Memory of removed segments, which the reader frees.
    removed: Vec<SegmentMemory>,
    /// The maximum size of the memory so far.
    peak_bytes: u32,
    /// The start of the segment that the write cursor is in.
    start_bytes: u32,
    /// The write cursor: the offset of the next chunk, if it fits before the end; at most
    /// `used_end_bytes`.
    write_bytes: u32,
    /// The end of the memory in the write cursor's segment that was ever written; at most
    /// `segment_bytes` from `start_bytes`.
    used_end_bytes: u32,
    /// The end of the pages that are present, if the ring has small ones and provides them itself.
    present_bytes: Option<u32>,
    slots: SlotTable,
    /// The file that the memory is in.
    file: Option<Arc<RingFile>>,
    /// For each segment in `memory`, true if packets were read from it that are not in the trace
    /// file yet. Empty unless the ring must keep such packets.
    unwritten: Vec<bool>,
}

/// A segment that the write cursor is not in.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start_bytes: u32,
    /// The end of its memory that was ever written.
    used_end_bytes: u32,
}

impl Segment {
    fn used_bytes(self) -> u32 {
        self.used_end_bytes - self.start_bytes
    }
}

impl Ring {
    /// Creates a ring of one segment.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system refuses the address space.
    pub(super) fn new(size_bytes: u32) -> io::Result<Self> {
        let memory = SegmentMemory::of_huge_pages(size_bytes)?;
        Ok(Self::of_segments(memory, u32::BITS, 1))
    }

    /// Creates a ring of one segment, whose pages come a few at a time. So no commit waits for long.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub(super) fn of_small_pages(size_bytes: u32) -> io::Result<Self> {
        let memory = SegmentMemory::of_small_pages(size_bytes)?;
        Ok(Self {
            present_bytes: Some(0),
            ..Self::of_segments(memory, u32::BITS, 1)
        })
    }

    /// Creates a ring of one segment, whose memory is in a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file system refuses the room.
    pub(super) fn in_file(file: Arc<RingFile>) -> Result<Self, CrashFilesError> {
        let memory = SegmentMemory::map_in_file(&file)?;
        Ok(Self {
            file: Some(file),
            ..Self::of_segments(memory, u32::BITS, 1)
        })
    }

    /// Creates a ring with one segment of 2^`segment_shift` bytes that can grow to `segments_max`.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system refuses the address space.
    pub(super) fn growing(segment_shift: u32, segments_max: u32) -> io::Result<Self> {
        let memory = SegmentMemory::of_huge_pages(1 << segment_shift)?;
        Ok(Self::of_segments(memory, segment_shift, segments_max))
    }

    /// Creates a ring that can grow, whose memory is in a file. It keeps packets that were read
    /// until [`note_written`](Self::note_written).
    ///
    /// # Errors
    ///
    /// Returns an error if the file system refuses the room.
    pub(super) fn growing_in_file(
        segment_shift: u32,
        segments_max: u32,
        file: Arc<RingFile>,
    ) -> Result<Self, CrashFilesError> {
        let memory = SegmentMemory::map_in_file(&file)?;
        Ok(Self {
            file: Some(file),
            unwritten: vec![false],
            ..Self::of_segments(memory, segment_shift, segments_max)
        })
    }

    fn of_segments(memory: SegmentMemory, segment_shift: u32, segments_max: u32) -> Self {
        let segment_bytes = memory.len() as u32;
        Self {
            memory: vec![Some(memory)],
            segment_bytes,
            segment_shift,
            segments_max: segments_max as usize,
            ahead: VecDeque::with_capacity(segments_max as usize),
            spare: None,
            removed: Vec::new(),
            peak_bytes: segment_bytes,
            start_bytes: 0,
            write_bytes: 0,
            used_end_bytes: 0,
            present_bytes: None,
            slots: SlotTable::for_memory_of(segment_bytes.saturating_mul(segments_max)),
            file: None,
            unwritten: Vec::new(),
        }
    }

    /// Creates a copy, which does not grow. Only memory that was ever used is copied.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system refuses the address space.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        let mut memory = Vec::new();
        for segment in &self.memory {
            let Some(segment) = segment else {
                memory.push(None);
                continue;
            };
            let start_bytes = (memory.len() as u32) << (self.segment_shift % u32::BITS);
            let used = ..self.used_bytes_from(start_bytes) as usize;
            let mut copy = SegmentMemory::of_huge_pages(self.segment_bytes)?;
            copy[used].copy_from_slice(&segment[used]);
            memory.push(Some(copy));
        }
        Ok(Self {
            memory,
            ahead: self.ahead.clone(),
            spare: None,
            removed: Vec::new(),
            slots: self.slots.clone(),
            file: None,
            unwritten: Vec::new(),
            ..*self
        })
    }

    /// Returns how much was ever written of the segment that starts at `start_bytes`.
    fn used_bytes_from(&self, start_bytes: u32) -> u32 {
        let current = Segment {
            start_bytes: self.start_bytes,
            used_end_bytes: self.used_end_bytes,
        };
        let mut segments = self.ahead.iter().copied().chain([current]);
        let segment = segments.find(|segment| segment.start_bytes == start_bytes);
        segment.map_or(0, Segment::used_bytes)
    }

    /// Returns the size of the memory of all segments.
    pub(super) fn size_bytes(&self) -> u32 {
        self.segment_bytes * (self.ahead.len() as u32 + 1)
    }

    /// Returns the maximum size of the memory so far.
    pub(super) fn peak_bytes(&self) -> u32 {
        self.peak_bytes
    }

    /// Returns the size of the memory with the maximum number of segments.
    pub(super) fn capacity_bytes(&self) -> u32 {
        self.segment_bytes * self.segments_max as u32
    }

    /// Returns the size of a segment. No chunk can be larger.
    pub(super) fn segment_bytes(&self) -> u32 {
        self.segment_bytes
    }

    pub(super) fn used_bytes(&self) -> u32 {
        let ahead = self.ahead.iter().copied().map(Segment::used_bytes);
        self.used_end_bytes - self.start_bytes + ahead.sum::<u32>()
    }

    /// Returns the number of bytes from the write cursor to the end of its segment.
    #[inline]
    pub(super) fn tail_bytes(&self) -> u32 {
        self.segment_bytes - (self.write_bytes - self.start_bytes)
    }

    /// Returns how many bytes can be written before the slot at `offset` is overwritten, including
    /// those that the ring can grow by.
    pub(super) fn bytes_ahead(&self, offset: u32) -> u32 {
        if offset >= self.write_bytes && offset < self.used_end_bytes {
            return offset - self.write_bytes;
        }
        let growth_bytes = self.capacity_bytes() - self.size_bytes();
        let contains =
            |segment: &Segment| offset >= segment.start_bytes && offset < segment.used_end_bytes;
        let (full_segments, start_bytes) = match self.ahead.iter().position(contains) {
            Some(position) => (position, self.ahead[position].start_bytes),
            None => (self.ahead.len(), self.start_bytes),
        };
        let between_bytes = full_segments as u32 * self.segment_bytes;
        self.tail_bytes() + growth_bytes + between_bytes + (offset - start_bytes)
    }

    /// Returns true if a segment can be added.
    pub(super) fn can_grow(&self) -> bool {
        self.ahead.len() + 1 < self.segments_max
    }

    /// Makes the present number of segments the maximum.
    pub(super) fn stop_growing(&mut self) {
        self.segments_max = self.ahead.len() + 1;
    }

    /// Raises the maximum size so far to that of the ring that this one replaces.
    pub(super) fn note_peak(&mut self, peak_bytes: u64) {
        self.peak_bytes = self.peak_bytes.max(peak_bytes as u32);
    }

    /// Returns true if the ring can grow and has no memory mapped in advance.
    pub(super) fn wants_spare(&self) -> bool {
        self.spare.is_none() && self.can_grow()
    }

    /// Adds memory for the next segment. [`SegmentMemory::map_ahead`] must have created it.
    pub(super) fn add_spare(&mut self, memory: SegmentMemory) {
        self.spare = Some(memory);
    }

    /// Inserts a new segment directly ahead of the write cursor's. Returns false if there is no
    /// memory.
    pub(super) fn grow(&mut self) -> bool {
        let memory = match self.spare.take() {
            Some(memory) => memory,
            None => {
                let mapped = match &self.file {
                    Some(file) => SegmentMemory::map_in_file(file).ok(),
                    None => SegmentMemory::of_huge_pages(self.segment_bytes).ok(),
                };
                let Some(memory) = mapped else {
                    self.stop_growing();
                    return false;
                };
                memory
            }
        };
        let free = self.memory.iter().position(Option::is_none);
        let index = free.unwrap_or(self.memory.len());
        match self.memory.get_mut(index) {
            Some(place) => *place = Some(memory),
            None => self.memory.push(Some(memory)),
        }
        if !self.unwritten.is_empty() {
            self.unwritten.resize(self.memory.len(), false);
        }
        let start_bytes = (index as u32) << self.segment_shift;
        self.ahead.push_front(Segment {
            start_bytes,
            used_end_bytes: start_bytes,
        });
        self.peak_bytes = self.peak_bytes.max(self.size_bytes());
        true
    }

    /// Returns the slots of the segment at `position` in `ahead`, or of the last segment if `ahead`
    /// is shorter: the segment's first slot, and the slot behind its last. Returns `None` if no
    /// segment is ahead. The write cursor's own segment must have no slot ahead of the cursor, so
    /// that the oldest slots are those of the segments in `ahead`.
    pub(super) fn slots_of_segment_ahead(&self, position: usize) -> Option<(SlotId, SlotId)> {
        let mut id = self.slots.first();
        let mut first = id;
        for segment in self
            .ahead
            .range(..=position.min(self.ahead.len().checked_sub(1)?))
        {
            first = id;
            while id != self.slots.end()
                && (segment.start_bytes..segment.used_end_bytes).contains(&self.slot(id).offset)
            {
                id = id.next();
            }
        }
        Some((first, id))
    }

    /// Returns the number of segments besides the write cursor's.
    pub(super) fn segments_ahead(&self) -> usize {
        self.ahead.len()
    }

    /// Removes the next segment, after its slots were dropped.
    pub(super) fn remove_segment_ahead(&mut self) {
        if let Some(segment) = self.ahead.pop_front() {
            let index = self.index_of(segment.start_bytes);
            self.removed.extend(self.memory[index].take());
        }
    }

    /// Takes the memory of removed segments.
    pub(super) fn take_removed(&mut self) -> Vec<SegmentMemory> {
        std::mem::take(&mut self.removed)
    }

    /// Drops the oldest slot, which must be padding. Its memory is not used again.
    pub(super) fn drop_slot(&mut self) {
        let slot = self.slots.pop_front();
        debug_assert!(slot.sequence.is_none());
    }

    #[inline]
    fn index_of(&self, offset: u32) -> usize {
        (u64::from(offset) >> self.segment_shift) as usize
    }

    /// Returns `len_bytes` bytes from `offset` on. They must be in one segment.
    #[inline]
    fn bytes_at(&self, offset: u32, len_bytes: u32) -> &[u8] {
        let memory = self.memory[self.index_of(offset)].as_deref();
        let start = (offset & self.place_mask()) as usize;
        &memory.unwrap_or_default()[start..start + len_bytes as usize]
    }

    #[inline]
    fn bytes_at_mut(&mut self, offset: u32, len_bytes: usize) -> &mut [u8] {
        let start = (offset & self.place_mask()) as usize;
        let index = self.index_of(offset);
        let memory = self.memory[index].as_deref_mut();
        &mut memory.unwrap_or_default()[start..start + len_bytes]
    }

    /// Returns a mask of the bits of an offset that are the position in its segment.
    #[inline]
    fn place_mask(&self) -> u32 {
        ((1_u64 << self.segment_shift) - 1) as u32
    }

    /// Returns the oldest slot; equal to [`Ring::end`] if there is none.
    pub(super) fn first(&self) -> SlotId {
        self.slots.first()
    }

    /// Returns the oldest slot that holds a chunk; equal to [`Ring::end`] if there is none.
    pub(super) fn first_held(&mut self) -> SlotId {
        self.slots.first_held()
    }

    /// Returns a slot before which no slot holds a chunk.
    #[cfg(test)]
    pub(super) fn held_from(&self) -> SlotId {
        self.slots.held_from()
    }

    /// Returns the id that the next slot will get.
    pub(super) fn end(&self) -> SlotId {
        self.slots.end()
    }

    #[inline]
    pub(super) fn slot(&self, id: SlotId) -> &Slot {
        self.slots.get(id)
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, id: SlotId) -> &mut Slot {
        self.slots.get_mut(id)
    }

    /// Returns the slot that starts `covered_bytes` ahead of the write cursor, if there is one. The
    /// slots between the cursor and this slot must have been covered already.
    #[inline]
    pub(super) fn slot_ahead(&self, covered_bytes: u32) -> Option<SlotId> {
        (self.write_bytes + covered_bytes < self.used_end_bytes).then_some(self.slots.first())
    }

    /// Returns true if no slot can be added, other than in place of slots ahead of the write cursor.
    #[inline]
    pub(super) fn is_out_of_slots(&self) -> bool {
        self.slots.is_full() && self.slot_ahead(0).is_none()
    }

    /// Returns the maximum number of slots.
    pub(super) fn slots_max(&self) -> usize {
        self.slots.slots_max()
    }

    /// Lowers the maximum number of slots.
    #[cfg(test)]
    pub(super) fn limit_slots(&mut self, slots_max: usize) {
        self.slots.limit(slots_max);
    }

    /// Returns the file that the memory is in.
    pub(super) fn file(&self) -> Option<&Arc<RingFile>> {
        self.file.as_ref()
    }

    /// Notes that the next `size_bytes` from the write cursor on are being written; with 0, that
    /// nothing is.
    #[inline]
    fn note_writing(&self, size_bytes: u32) {
        if let Some(file) = &self.file {
            file.set_place(Place {
                offset_bytes: self.offset_in_file(self.write_bytes),
                size_bytes,
            });
            stored();
        }
    }

    /// Returns the distance of a byte from the first segment in the file.
    #[inline]
    fn offset_in_file(&self, offset: u32) -> u32 {
        let memory = self.memory.get(self.index_of(offset));
        let segment = memory.and_then(|memory| memory.as_ref()?.file_segment());
        let start = segment.map_or(0, |it| it.number() * self.segment_bytes);
        start + (offset & self.place_mask())
    }

    /// Notes that packets of a slot were read.
    #[inline]
    fn note_read(&mut self, id: SlotId) {
        if !self.unwritten.is_empty() {
            let index = self.index_of(self.slots.get(id).offset);
            self.unwritten[index] = true;
        }
    }

    /// Notes that all packets that were read are in the trace file.
    pub(super) fn note_written(&mut self) {
        self.unwritten.fill(false);
    }

    /// Returns true if packets were read from the segment at `position` in `ahead` that are not in
    /// the trace file yet.
    pub(super) fn is_unwritten(&self, position: usize) -> bool {
        let segment = self.ahead.get(position);
        let index = segment.map(|segment| self.index_of(segment.start_bytes));
        index.is_some_and(|index| self.unwritten.get(index).is_some_and(|&it| it))
    }

    /// Writes the header of a slot into the file, if the memory is in one.
    #[inline]
    fn write_header(&mut self, slot: &Slot, writer_id: WriterId) {
        if let Some(file) = &self.file {
            let header = SlotHeader {
                chunk_id: slot.chunk_id,
                writer_id,
                reserved_bytes: slot.reserved_bytes,
                state: slot_state(slot),
            };
            let bytes = header.encode(self.offset_in_file(slot.offset), file.nonce());
            self.bytes_at_mut(slot.offset, bytes.len())
                .copy_from_slice(&bytes);
            stored();
        }
    }

    /// Writes the changed state of a slot into the file, if the memory is in one. The state becomes
    /// valid with one store.
    #[inline]
    pub(super) fn write_state(&mut self, id: SlotId) {
        if self.file.is_some() {
            let slot = *self.slots.get(id);
            let state = slot_state(&slot).encode();
            let at = slot.offset + SlotHeader::STATE_AT as u32;
            // Stores before this one must not move behind it.
            compiler_fence(Ordering::SeqCst);
            self.bytes_at_mut(at, state.len()).copy_from_slice(&state);
            stored();
        }
    }

    /// Removes the oldest slot, which must be padding, for a chunk that covers `size_bytes` from
    /// the start of the slot on. The rest of a larger slot becomes padding, unless there are too
    /// many slots.
    pub(super) fn cover_slot_ahead(&mut self, size_bytes: u32) -> Covered {
        let was_full = self.slots.is_full();
        let slot = self.slots.pop_front();
        debug_assert!(slot.sequence.is_none());
        let slot_bytes = slot.size_bytes();
        if slot_bytes <= size_bytes {
            return Covered::Whole {
                missing_bytes: size_bytes - slot_bytes,
            };
        }
        let rest_bytes = slot_bytes - size_bytes;
        if was_full {
            return Covered::WithRest { rest_bytes };
        }
        let rest = Slot::padding(slot.offset + size_bytes, rest_bytes);
        self.write_header(&rest, WriterId(0));
        self.slots.push_front(rest);
        Covered::Part { rest_bytes }
    }

    /// Moves the write cursor past the next slot, which must be padding. The slot becomes the
    /// newest one.
    pub(super) fn skip_slot_ahead(&mut self) {
        let slot = self.slots.pop_front();
        debug_assert!(slot.sequence.is_none());
        self.write_bytes += slot.size_bytes();
        self.slots.push_back(slot);
    }

    /// Moves the write cursor to the start of the next segment, or of the only one. There must be
    /// no slot ahead of it in its own segment.
    pub(super) fn wrap(&mut self) {
        debug_assert_eq!(self.slot_ahead(0), None);
        if let Some(next) = self.ahead.pop_front() {
            self.ahead.push_back(Segment {
                start_bytes: self.start_bytes,
                used_end_bytes: self.used_end_bytes,
            });
            self.start_bytes = next.start_bytes;
            self.used_end_bytes = next.used_end_bytes;
        }
        self.write_bytes = self.start_bytes;
    }

    /// Provides pages for what is written next, some at a time: one by one they take longer.
    #[cold]
    fn provide_pages(&mut self, from: u32) {
        const AHEAD_BYTES: u32 = 256 << 10;
        let until = self.write_bytes.saturating_add(AHEAD_BYTES) / AHEAD_BYTES * AHEAD_BYTES;
        let until = until.min(self.segment_bytes);
        if let Some(Some(memory)) = self.memory.first() {
            memory.populate(from..until);
        }
        self.present_bytes = Some(until);
    }

    /// Returns true if the ring has small pages, of which it provides some at a time.
    pub(super) fn has_small_pages(&self) -> bool {
        self.present_bytes.is_some()
    }

    /// Stores a chunk at the write cursor, where no slot may be in its way. Sets the descriptor's
    /// `offset`. The length of `payload` must be its `payload_bytes`.
    #[inline]
    pub(super) fn push(&mut self, mut slot: Slot, writer_id: WriterId, payload: &[u8]) -> SlotId {
        slot.offset = self.write_bytes;
        // What is there is padding by now, and what follows begins with a header.
        self.note_writing(slot.size_bytes());
        self.write_bytes += slot.size_bytes();
        if let Some(present_bytes) = self.present_bytes
            && self.write_bytes > present_bytes
        {
            self.provide_pages(present_bytes);
        }
        self.used_end_bytes = self.used_end_bytes.max(self.write_bytes);
        self.bytes_at_mut(slot.payload_offset(), payload.len())
            .copy_from_slice(payload);
        stored();
        self.write_header(&slot, writer_id);
        self.note_writing(0);
        self.slots.push_back(slot)
    }

    /// Replaces the payload of a chunk. The new payload must fit into its slot.
    pub(super) fn rewrite(&mut self, id: SlotId, payload: &[u8], payload_bytes: u16) {
        let slot = self.slots.get_mut(id);
        debug_assert!(payload_bytes <= slot.reserved_bytes);
        slot.payload_bytes = payload_bytes;
        self.payload_mut(id).copy_from_slice(payload);
        stored();
    }

    /// Returns the fragments of a chunk, consumed or not.
    #[inline]
    pub(super) fn payload_mut(&mut self, id: SlotId) -> &mut [u8] {
        let slot = self.slots.get(id);
        let (offset, len_bytes) = (slot.payload_offset(), usize::from(slot.payload_bytes));
        self.bytes_at_mut(offset, len_bytes)
    }

    /// Loads memory into the cache that the reader needs soon after `fragment`.
    ///
    /// Fragments form a chain: the position of the next one depends on the bytes of this one. So
    /// without this, a reader would wait for memory at each fragment. These loads depend on
    /// nothing, and nothing depends on them. So a ring larger than the cache is read about as fast
    /// as one that fits into it.
    #[inline]
    pub(super) fn warm_up_behind(&self, fragment: &Fragment) {
        const DISTANCE_BYTES: usize = 2048;
        const CACHE_LINE_BYTES: usize = 64;
        let Some(Some(memory)) = self.memory.get(self.index_of(fragment.start)) else {
            return;
        };
        let start = (fragment.start & self.place_mask()) as usize + DISTANCE_BYTES;
        let end = start + fragment.len_bytes as usize + CACHE_LINE_BYTES;
        if let Some(soon) = memory.get(start..end) {
            let lines = soon.iter().step_by(CACHE_LINE_BYTES);
            std::hint::black_box(lines.fold(0, |seen, byte| seen | byte));
        }
    }

    /// Returns the bytes of a fragment.
    #[inline]
    pub(super) fn bytes(&self, fragment: &Fragment) -> &[u8] {
        self.bytes_at(fragment.start, fragment.len_bytes)
    }

    /// Returns the memory that was never written.
    #[cfg(test)]
    pub(super) fn unused_memory(&self) -> &[u8] {
        let used_bytes = self.used_bytes();
        self.bytes_at(used_bytes, self.segment_bytes - used_bytes)
    }

    /// Returns the next unread element of a chunk.
    #[inline]
    pub(super) fn next_unread(&self, id: SlotId) -> Unread {
        let slot = self.slots.get(id);
        let payload = self.bytes_at(slot.payload_offset(), u32::from(slot.payload_bytes));
        match fragment::token_at(payload, usize::from(slot.consumed_bytes)) {
            Token::Fragment { start, end } => Unread::Fragment(Fragment {
                slot: id,
                kind: FragmentKind::of(slot.flags, slot.consumed_bytes == 0, end == payload.len()),
                // Both fit: a payload has at most 65535 bytes.
                start: slot.payload_offset() + start as u32,
                len_bytes: (end - start) as u32,
                consumed_until_bytes: end as u16,
            }),
            Token::End => Unread::Nothing,
            Token::Aborted | Token::Malformed => Unread::Corrupted,
        }
    }

    /// Returns the run of whole packets from the next unread fragment of a chunk on. Returns `None`
    /// if there is none, or if the fragments must be looked at one by one: at the end of an earlier
    /// packet, and in a chunk that a patch has changed.
    #[inline]
    pub(super) fn next_run(&self, id: SlotId) -> Option<Run> {
        let slot = self.slots.get(id);
        let is_end_of_earlier =
            slot.consumed_bytes == 0 && slot.flags.contains(ChunkFlags::FIRST_PACKET_CONTINUES);
        if slot.is_altered || is_end_of_earlier {
            return None;
        }
        // A packet that begins here and continues in a later chunk counts as unread here.
        let (end_bytes, begun_packets) = if slot.flags.contains(ChunkFlags::LAST_PACKET_CONTINUES) {
            (slot.last_fragment_bytes, 1)
        } else {
            (slot.payload_bytes, 0)
        };
        if end_bytes <= slot.consumed_bytes || slot.unread_packets <= begun_packets {
            return None;
        }
        Some(Run {
            slot: id,
            start: slot.payload_offset() + u32::from(slot.consumed_bytes),
            len_bytes: u32::from(end_bytes - slot.consumed_bytes),
            packets: slot.unread_packets - begun_packets,
            consumed_until_bytes: end_bytes,
        })
    }

    /// Returns the bytes of a run: fragments with their sizes, back to back.
    #[inline]
    pub(super) fn run_bytes(&self, run: &Run) -> &[u8] {
        self.bytes_at(run.start, run.len_bytes)
    }

    /// Marks a run as consumed. It must be the next one of its chunk. Returns the size of the slot
    /// if nothing unread is left in it.
    #[inline]
    pub(super) fn consume_run(&mut self, run: &Run) -> Option<u32> {
        self.note_read(run.slot);
        let slot = self.slots.get_mut(run.slot);
        slot.consumed_bytes = run.consumed_until_bytes;
        slot.unread_packets -= run.packets;
        slot.is_drained().then(|| slot.size_bytes())
    }

    /// Marks a fragment as consumed. It must be the next unread one of its chunk. Returns the size
    /// of the slot if nothing unread is left in it.
    #[inline]
    pub(super) fn consume(&mut self, fragment: &Fragment) -> Option<u32> {
        self.note_read(fragment.slot);
        let slot = self.slots.get_mut(fragment.slot);
        slot.consumed_bytes = fragment.consumed_until_bytes;
        if fragment.counts_as_packet() {
            slot.unread_packets = slot.unread_packets.saturating_sub(1);
        }
        slot.is_drained().then(|| slot.size_bytes())
    }
}

/// Returns the state of a slot as the file has it.
fn slot_state(slot: &Slot) -> SlotState {
    SlotState {
        payload_bytes: slot.payload_bytes,
        flags: slot.flags,
        kind: match slot.sequence {
            None => SlotKind::Padding,
            Some(_) => SlotKind::Chunk {
                is_incomplete: slot.is_incomplete,
                is_aborted: slot.is_aborted,
            },
        },
    }
}

/// The result of [`Ring::cover_slot_ahead`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Covered {
    /// The whole slot was covered. The chunk still needs `missing_bytes`.
    Whole { missing_bytes: u32 },
    /// The slot was larger than needed. Its last `rest_bytes` became padding.
    Part { rest_bytes: u32 },
    /// The slot was larger than needed. Its last `rest_bytes` belong to the slot of the chunk.
    WithRest { rest_bytes: u32 },
}
