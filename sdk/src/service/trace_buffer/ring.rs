//! The memory of the buffer, cut into slots, and the descriptors of the slots.
//!
//! Slots lie back to back, each as large as its chunk, a header's worth more, rounded up. The
//! header's bytes stay unused: descriptors live in a table of their own, so that walking,
//! evicting and patching do not pull payload into the cache. The sizes keep that allowance because
//! they are visible in statistics, and because it guarantees that what remains of a slot that is
//! overwritten in part is a slot again.
//!
//! ```text
//!   memory   | new | newest | oldest or padding | old | ... |  never used, never touched  |
//!            0              ^ write cursor                  ^ used                        ^ size
//! ```
//!
//! The table holds the slots in buffer order, which starts behind the write cursor with the oldest
//! and ends before it with the newest. A descriptor takes 32 bytes, about one percent of a usual
//! chunk. Chunks without fragments are the limit: the descriptors of nothing but those take up to
//! four times the memory they describe.

use std::fmt;

use memmap2::MmapMut;

use crate::ids::ChunkId;
use crate::shm::layout::ChunkFlags;

use super::fragment::{self, FragmentKind, Token};
use super::sequence::SequenceIndex;

/// Slots start at multiples of this, so that a remainder is never too small to be a slot.
const SLOT_ALIGN_BYTES: u32 = 16;

/// What a slot takes beyond the payload of its chunk.
const SLOT_HEADER_BYTES: u32 = 16;

/// Bytes that a slot with `reserved_bytes` of payload takes.
#[inline]
pub(super) const fn slot_size_bytes(reserved_bytes: u16) -> u32 {
    (SLOT_HEADER_BYTES + reserved_bytes as u32).next_multiple_of(SLOT_ALIGN_BYTES)
}

/// Names a slot for as long as it exists. Ids are consecutive in buffer order and wrap at 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotId(u32);

impl SlotId {
    pub(super) fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    fn previous(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// Whether this slot is `other` or newer. Slots that are there at once are less than half the
    /// ids apart.
    pub(super) fn is_at_or_behind(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) < 1 << 31
    }
}

/// Descriptor of a slot: a chunk, or padding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Where the slot starts, and the payload with it; a multiple of [`SLOT_ALIGN_BYTES`].
    pub(super) offset: u32,
    pub(super) chunk_id: ChunkId,
    /// The sequence of the chunk; `None` makes the slot padding.
    pub(super) sequence: Option<SequenceIndex>,
    /// Room for payload; fixes the size of the slot.
    pub(super) reserved_bytes: u16,
    /// Bytes of fragments; at most `reserved_bytes`.
    pub(super) payload_bytes: u16,
    /// How many of them were delivered, evicted or found orphaned; at most `payload_bytes`.
    pub(super) consumed_bytes: u16,
    /// Packets whose first fragment is not consumed, as found when the chunk was stored.
    pub(super) unread_packets: u16,
    pub(super) flags: ChunkFlags,
    /// Copied while its writer still worked on it: nothing behind it may be read yet.
    pub(super) is_incomplete: bool,
    /// The writer gave up a packet behind the last fragment.
    pub(super) is_aborted: bool,
    /// The chunk was the first of its sequence once, and the ids before it were looked at.
    pub(super) is_gap_checked: bool,
    /// The payload may be something else than what was counted when it was stored.
    pub(super) is_altered: bool,
}

impl Slot {
    fn padding(offset: u32, size_bytes: u32) -> Self {
        // A remainder is smaller than the slot it remains of, so its payload fits into 16 bits.
        let reserved_bytes = (size_bytes - SLOT_HEADER_BYTES) as u16;
        debug_assert_eq!(slot_size_bytes(reserved_bytes), size_bytes);
        Self {
            offset,
            chunk_id: ChunkId(0),
            sequence: None,
            reserved_bytes,
            payload_bytes: 0,
            consumed_bytes: 0,
            unread_packets: 0,
            flags: ChunkFlags::default(),
            is_incomplete: false,
            is_aborted: false,
            is_gap_checked: false,
            is_altered: false,
        }
    }

    #[inline]
    pub(super) fn size_bytes(&self) -> u32 {
        slot_size_bytes(self.reserved_bytes)
    }

    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.consumed_bytes == self.payload_bytes
    }

    /// Whether the descriptor alone says what evicting the chunk means: no packet crosses its
    /// borders and its bytes are still those that were counted.
    #[inline]
    pub(super) fn is_self_contained(&self) -> bool {
        const CROSSING: ChunkFlags =
            ChunkFlags::FIRST_PACKET_CONTINUES.union(ChunkFlags::LAST_PACKET_CONTINUES);
        self.flags.difference(CROSSING) == self.flags && !self.is_altered
    }
}

/// A fragment in the memory of the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    pub(super) slot: SlotId,
    pub(super) kind: FragmentKind,
    /// Where its bytes start in the memory.
    pub(super) start: u32,
    pub(super) len_bytes: u32,
    /// The value of `consumed_bytes` that stands for this fragment and all before it.
    consumed_until_bytes: u16,
}

impl Fragment {
    #[inline]
    pub(super) fn counts_as_packet(&self) -> bool {
        self.kind.counts_as_packet(self.len_bytes as usize)
    }
}

/// What the next unread bytes of a chunk are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unread {
    Fragment(Fragment),
    /// Everything was consumed.
    Nothing,
    /// Something was not consumed and cannot be: it is no fragment.
    Corrupted,
}

/// Zeroed memory that takes no page before it is written to.
fn map_memory(size_bytes: u32) -> std::io::Result<MmapMut> {
    let memory = MmapMut::map_anon(size_bytes as usize)?;
    #[cfg(target_os = "linux")]
    {
        // Huge pages make the first lap several times faster and later ones a little. In memory of
        // this size, the one page that is used in part does not weigh much.
        const HUGE_PAGES_FROM_BYTES: u32 = 8 << 20;
        if size_bytes >= HUGE_PAGES_FROM_BYTES {
            // A kernel without huge pages says no, and small ones do as well.
            let _ = memory.advise(memmap2::Advice::HugePage);
        }
    }
    Ok(memory)
}

/// The memory and the table of its slots.
#[derive(Debug)]
pub(super) struct Ring {
    memory: MmapMut,
    size_bytes: u32,
    /// Offset at which the next chunk goes, if it fits before the end; at most `used_bytes`.
    write_bytes: u32,
    /// Everything behind was never written; at most `size_bytes`.
    used_bytes: u32,
    slots: SlotTable,
}

impl Ring {
    /// # Errors
    /// If the operating system refuses the address space.
    pub(super) fn new(size_bytes: u32) -> std::io::Result<Self> {
        Ok(Self {
            memory: map_memory(size_bytes)?,
            size_bytes,
            write_bytes: 0,
            used_bytes: 0,
            slots: SlotTable::for_memory_of(size_bytes),
        })
    }

    /// A copy that touches no more memory than was ever used.
    ///
    /// # Errors
    /// If the operating system refuses the address space.
    pub(super) fn try_clone(&self) -> std::io::Result<Self> {
        let mut memory = map_memory(self.size_bytes)?;
        let used = ..self.used_bytes as usize;
        memory[used].copy_from_slice(&self.memory[used]);
        Ok(Self {
            memory,
            slots: self.slots.clone(),
            ..*self
        })
    }

    pub(super) fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    pub(super) fn used_bytes(&self) -> u32 {
        self.used_bytes
    }

    /// Bytes from the write cursor to the end of the memory.
    pub(super) fn tail_bytes(&self) -> u32 {
        self.size_bytes - self.write_bytes
    }

    /// Bytes from the write cursor to the slot at `offset`, behind the end of the memory if need be.
    pub(super) fn bytes_ahead(&self, offset: u32) -> u32 {
        match offset.checked_sub(self.write_bytes) {
            Some(bytes) => bytes,
            None => self.tail_bytes() + offset,
        }
    }

    /// The oldest slot; equal to [`Ring::end`] if there is none.
    pub(super) fn first(&self) -> SlotId {
        self.slots.first
    }

    /// The id that the next slot will get.
    pub(super) fn end(&self) -> SlotId {
        self.slots.end
    }

    #[inline]
    pub(super) fn slot(&self, id: SlotId) -> &Slot {
        self.slots.get(id)
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, id: SlotId) -> &mut Slot {
        self.slots.get_mut(id)
    }

    /// The slot that starts `covered_bytes` behind the write cursor, if there is one so far; the
    /// slots between were covered.
    #[inline]
    pub(super) fn slot_ahead(&self, covered_bytes: u32) -> Option<SlotId> {
        (self.write_bytes + covered_bytes < self.used_bytes).then_some(self.slots.first)
    }

    /// Gives up the oldest slot, which must be padding, to a chunk that takes `size_bytes` from its
    /// start on.
    pub(super) fn cover_slot_ahead(&mut self, size_bytes: u32) -> Covered {
        let slot = self.slots.pop_front();
        debug_assert!(slot.sequence.is_none());
        let slot_bytes = slot.size_bytes();
        if slot_bytes <= size_bytes {
            return Covered::Whole {
                missing_bytes: size_bytes - slot_bytes,
            };
        }
        let rest_bytes = slot_bytes - size_bytes;
        self.slots
            .push_front(Slot::padding(slot.offset + size_bytes, rest_bytes));
        Covered::Part { rest_bytes }
    }

    /// Steps the write cursor over the slot ahead, which must be padding and stays as it is.
    pub(super) fn skip_slot_ahead(&mut self) {
        let slot = self.slots.pop_front();
        debug_assert!(slot.sequence.is_none());
        self.write_bytes += slot.size_bytes();
        self.slots.push_back(slot);
    }

    /// Takes the write cursor back to the start; no slot may be ahead of it.
    pub(super) fn wrap(&mut self) {
        debug_assert_eq!(self.slot_ahead(0), None);
        self.write_bytes = 0;
    }

    /// Stores a chunk at the write cursor, where no slot may be in its way. The descriptor's
    /// `offset` is set here; `payload` is as long as its `payload_bytes` say.
    #[inline]
    pub(super) fn push(&mut self, mut slot: Slot, payload: &[u8]) -> SlotId {
        slot.offset = self.write_bytes;
        self.write_bytes += slot.size_bytes();
        self.used_bytes = self.used_bytes.max(self.write_bytes);
        let start = slot.offset as usize;
        self.memory[start..start + payload.len()].copy_from_slice(payload);
        self.slots.push_back(slot)
    }

    /// Replaces the payload of a chunk by one that fits into its slot.
    pub(super) fn rewrite(&mut self, id: SlotId, payload: &[u8], payload_bytes: u16) {
        let slot = self.slots.get_mut(id);
        debug_assert!(payload_bytes <= slot.reserved_bytes);
        slot.payload_bytes = payload_bytes;
        self.payload_mut(id).copy_from_slice(payload);
    }

    /// The fragments of a chunk, consumed or not.
    #[inline]
    pub(super) fn payload_mut(&mut self, id: SlotId) -> &mut [u8] {
        let slot = self.slots.get(id);
        &mut self.memory[slot.offset as usize..][..usize::from(slot.payload_bytes)]
    }

    /// Pulls memory into the cache that a reader who has got to `fragment` will get to soon.
    ///
    /// Fragments are a chain: where the next one starts is in the bytes of this one, so a reader
    /// would wait for the memory at each of them. These loads wait for nothing, and nothing waits
    /// for them: a ring larger than the cache reads about as fast as one inside it.
    #[inline]
    pub(super) fn warm_up_behind(&self, fragment: &Fragment) {
        const DISTANCE_BYTES: usize = 2048;
        const CACHE_LINE_BYTES: usize = 64;
        let start = fragment.start as usize + DISTANCE_BYTES;
        let end =
            (start + fragment.len_bytes as usize + CACHE_LINE_BYTES).min(self.used_bytes as usize);
        if let Some(soon) = self.memory.get(start..end) {
            let lines = soon.iter().step_by(CACHE_LINE_BYTES);
            std::hint::black_box(lines.fold(0, |seen, byte| seen | byte));
        }
    }

    /// The bytes of a fragment.
    #[inline]
    pub(super) fn bytes(&self, fragment: &Fragment) -> &[u8] {
        &self.memory[fragment.start as usize..][..fragment.len_bytes as usize]
    }

    /// The memory behind everything that was ever written.
    #[cfg(test)]
    pub(super) fn unused_memory(&self) -> &[u8] {
        &self.memory[self.used_bytes as usize..]
    }

    /// What the reader of a chunk would meet next.
    #[inline]
    pub(super) fn next_unread(&self, id: SlotId) -> Unread {
        let slot = self.slots.get(id);
        let payload = &self.memory[slot.offset as usize..][..usize::from(slot.payload_bytes)];
        match fragment::token_at(payload, usize::from(slot.consumed_bytes)) {
            Token::Fragment { start, end } => Unread::Fragment(Fragment {
                slot: id,
                kind: FragmentKind::of(slot.flags, slot.consumed_bytes == 0, end == payload.len()),
                // Both fit: a payload has at most 65535 bytes.
                start: slot.offset + start as u32,
                len_bytes: (end - start) as u32,
                consumed_until_bytes: end as u16,
            }),
            Token::End => Unread::Nothing,
            Token::Aborted | Token::Malformed => Unread::Corrupted,
        }
    }

    /// Marks a fragment as consumed, which must be the next unread one of its chunk. Returns the
    /// size of the slot if nothing unread is left in it.
    #[inline]
    pub(super) fn consume(&mut self, fragment: &Fragment) -> Option<u32> {
        let slot = self.slots.get_mut(fragment.slot);
        slot.consumed_bytes = fragment.consumed_until_bytes;
        if fragment.counts_as_packet() {
            slot.unread_packets = slot.unread_packets.saturating_sub(1);
        }
        slot.is_drained().then(|| slot.size_bytes())
    }
}

/// Outcome of [`Ring::cover_slot_ahead`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Covered {
    /// The whole slot is gone, and the chunk needs this much more.
    Whole { missing_bytes: u32 },
    /// The slot was larger; this much of its end is padding now.
    Part { rest_bytes: u32 },
}

/// A double-ended queue of slots in which an id leads straight to its slot.
///
/// `slots.len()` is zero or a power of two, so that ids and places wrap together. It grows with the
/// number of slots, into capacity that is there from the start: the allocator maps so much memory
/// without touching it.
struct SlotTable {
    slots: Vec<Slot>,
    first: SlotId,
    /// Behind the last one.
    end: SlotId,
}

impl fmt::Debug for SlotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slots", self.len())
    }
}

impl Clone for SlotTable {
    /// Without the capacity: a clone takes no chunks.
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            ..*self
        }
    }
}

impl SlotTable {
    /// An empty table for the slots of so much memory. It allocates later on only if slots are
    /// smaller, on average, than those of any sensible writer.
    fn for_memory_of(size_bytes: u32) -> Self {
        const SLOT_BYTES_MEAN_MIN: usize = 64;
        let slots_max = (size_bytes as usize / SLOT_BYTES_MEAN_MIN).next_power_of_two();
        let mut slots = Vec::new();
        // Where the memory is refused, the table takes it bit by bit.
        let _ = slots.try_reserve_exact(slots_max);
        Self {
            slots,
            first: SlotId(0),
            end: SlotId(0),
        }
    }

    #[inline]
    fn place(&self, id: SlotId) -> usize {
        id.0 as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn get(&self, id: SlotId) -> &Slot {
        &self.slots[self.place(id)]
    }

    #[inline]
    fn get_mut(&mut self, id: SlotId) -> &mut Slot {
        let place = self.place(id);
        &mut self.slots[place]
    }

    fn len(&self) -> usize {
        self.end.0.wrapping_sub(self.first.0) as usize
    }

    #[inline]
    fn push_back(&mut self, slot: Slot) -> SlotId {
        if self.len() == self.slots.len() {
            self.grow();
        }
        let id = self.end;
        self.end = id.next();
        *self.get_mut(id) = slot;
        id
    }

    fn push_front(&mut self, slot: Slot) {
        if self.len() == self.slots.len() {
            self.grow();
        }
        self.first = self.first.previous();
        *self.get_mut(self.first) = slot;
    }

    #[inline]
    fn pop_front(&mut self) -> Slot {
        debug_assert_ne!(self.first, self.end);
        let slot = *self.get(self.first);
        self.first = self.first.next();
        slot
    }

    /// Doubles the table. Ends for good once the table holds as many slots as the memory has.
    #[cold]
    fn grow(&mut self) {
        const SLOTS_MIN: usize = 64;
        let former_len = self.slots.len();
        let len = (2 * former_len).max(SLOTS_MIN);
        self.slots.resize(len, Slot::padding(0, SLOT_HEADER_BYTES));
        // A slot stays, or moves up by the former length: never to where another one still is.
        let mut id = self.first;
        while id != self.end {
            let former_place = id.0 as usize & (former_len - 1);
            self.slots[id.0 as usize & (len - 1)] = self.slots[former_place];
            id = id.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_take_a_header_and_are_aligned() {
        assert_eq!(slot_size_bytes(0), 16);
        assert_eq!(slot_size_bytes(1), 32);
        assert_eq!(slot_size_bytes(16), 32);
        assert_eq!(slot_size_bytes(u16::MAX), 65552);
    }

    #[test]
    fn descriptors_stay_small() {
        assert!(size_of::<Slot>() <= 32);
    }

    #[test]
    fn ids_lead_to_their_slots_while_the_table_grows_and_ids_wrap() {
        let near_wrap = SlotId(u32::MAX - 100);
        let mut table = SlotTable {
            slots: Vec::new(),
            first: near_wrap,
            end: near_wrap,
        };
        let mut ids = Vec::new();
        for offset in 0..300 {
            ids.push((table.push_back(Slot::padding(offset * 16, 16)), offset * 16));
            if offset % 3 == 0 {
                assert_eq!(table.pop_front().offset, ids.remove(0).1);
            }
            for &(id, offset) in &ids {
                assert_eq!(table.get(id).offset, offset);
            }
        }
    }
}
