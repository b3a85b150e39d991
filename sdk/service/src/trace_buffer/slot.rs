//! A slot: where a chunk lies in the memory of the buffer, and what is known of it.
//!
//! A slot is as large as its chunk, a header's worth more, rounded up. Perfetto's own buffer keeps the
//! chunk's header there. Here these bytes stay unused: descriptors lie in a [table](super::slot_table) of
//! their own, so that walking, evicting and patching do not pull payload into the cache. The sizes keep that
//! allowance because they are visible in statistics, and because it guarantees that what remains of a slot
//! that is overwritten in part is a slot again.

use tracezero_core::ids::ChunkId;
use tracezero_core::shm::layout::ChunkFlags;

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

    pub(super) fn previous(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// How many slots there are from `first` up to this one.
    #[inline]
    pub(super) fn count_from(self, first: Self) -> u32 {
        self.0.wrapping_sub(first.0)
    }

    /// The place of this slot among `len`, a power of two.
    #[inline]
    pub(super) fn place_among(self, len: usize) -> usize {
        self.0 as usize & (len - 1)
    }

    /// Whether this slot is `other` or newer. Slots that are there at once are less than half the
    /// ids apart.
    pub(super) fn is_at_or_behind(self, other: Self) -> bool {
        self.count_from(other) < 1 << 31
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
    /// Where the last fragment starts, with its size; at most `payload_bytes`.
    pub(super) last_fragment_bytes: u16,
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
    /// What a slot takes whose chunk has no payload.
    pub(super) const SIZE_MIN_BYTES: u32 = slot_size_bytes(0);

    pub(super) fn padding(offset: u32, size_bytes: u32) -> Self {
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
            last_fragment_bytes: 0,
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

    /// Whether what lies from `offset_bytes` on belongs to a packet that the next chunk goes on with.
    /// Nothing that was counted lies there, and nothing will: a complete chunk does not grow.
    pub(super) fn is_begin_of_packet(&self, offset_bytes: usize) -> bool {
        !self.is_incomplete
            && self.flags.contains(ChunkFlags::LAST_PACKET_CONTINUES)
            && offset_bytes >= usize::from(self.last_fragment_bytes)
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
}
