//! A slot: the place of a chunk in the memory of the buffer, and the state of that chunk.
//!
//! A slot begins with a header, and its payload follows. Perfetto's own buffer reads the header.
//! Here descriptors are in a separate [table](super::slot_table), so that walking, evicting and
//! patching do not load payload into the cache. The header is only written if the memory is in a
//! crash file, and only a recovery reads it (`tracezero_core::crash_files`). Other rings have the
//! same layout: statistics report these sizes, and if a new chunk covers part of an old slot, the
//! rest is always large enough to be a slot.

use tracezero_core::ids::ChunkId;
use tracezero_core::shm::layout::ChunkFlags;

use super::sequence::SequenceIndex;

/// The alignment of slots. If a slot is overwritten in part, the rest of it is at least this long,
/// so it is large enough to be a slot.
const SLOT_ALIGN_BYTES: u32 = 16;

/// The number of bytes that a slot has besides the payload of its chunk.
const SLOT_HEADER_BYTES: u32 = 16;

/// Returns the size of a slot with `reserved_bytes` of payload.
#[inline]
pub(super) const fn slot_size_bytes(reserved_bytes: u16) -> u32 {
    (SLOT_HEADER_BYTES + reserved_bytes as u32).next_multiple_of(SLOT_ALIGN_BYTES)
}

/// Returns the largest payload of a slot of this size, which must be that of a slot.
#[inline]
pub(super) const fn reserved_bytes_of(slot_size_bytes: u32) -> u16 {
    let reserved_bytes = slot_size_bytes - SLOT_HEADER_BYTES;
    if reserved_bytes > u16::MAX as u32 {
        return u16::MAX;
    }
    reserved_bytes as u16
}

/// The id of a slot, as long as the slot exists. Ids are consecutive in buffer order and wrap at
/// 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotId(u32);

impl SlotId {
    pub(super) fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    pub(super) fn previous(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// Returns the number of slots from `first` up to this one, exclusive.
    #[inline]
    pub(super) fn count_from(self, first: Self) -> u32 {
        self.0.wrapping_sub(first.0)
    }

    /// Returns the position of this slot in a table of `len` entries, a power of two.
    #[inline]
    pub(super) fn place_among(self, len: usize) -> usize {
        self.0 as usize & (len - 1)
    }

    /// Returns true if this slot is `other` or newer. The ids of existing slots differ by less than
    /// 2^31.
    pub(super) fn is_at_or_behind(self, other: Self) -> bool {
        self.count_from(other) < 1 << 31
    }
}

/// The descriptor of a slot, which holds a chunk or is padding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The offset of the slot; a multiple of [`SLOT_ALIGN_BYTES`].
    pub(super) offset: u32,
    pub(super) chunk_id: ChunkId,
    /// The sequence of the chunk; `None` if the slot is padding.
    pub(super) sequence: Option<SequenceIndex>,
    /// The room for payload, which determines the size of the slot.
    pub(super) reserved_bytes: u16,
    /// The total size of the fragments; at most `reserved_bytes`.
    pub(super) payload_bytes: u16,
    /// The number of payload bytes that were delivered, evicted or orphaned; at most
    /// `payload_bytes`.
    pub(super) consumed_bytes: u16,
    /// The number of packets that begin in this chunk and whose first fragment is not consumed.
    /// They are counted when the chunk is stored; consuming a packet reduces the number.
    pub(super) unread_packets: u16,
    /// The offset in the payload at which the last fragment begins with its size; at most
    /// `payload_bytes`.
    pub(super) last_fragment_bytes: u16,
    pub(super) flags: ChunkFlags,
    /// True if the chunk was copied while its writer was still filling it. The later chunks of its
    /// sequence may not be read yet.
    pub(super) is_incomplete: bool,
    /// True if the writer gave up a packet behind the last fragment.
    pub(super) is_aborted: bool,
    /// True if the ids before this chunk were already checked for a gap.
    pub(super) is_gap_checked: bool,
    /// True if the payload may differ from what was counted when it was stored.
    pub(super) is_altered: bool,
}

impl Slot {
    /// The size of a slot without payload.
    pub(super) const SIZE_MIN_BYTES: u32 = slot_size_bytes(0);

    pub(super) fn padding(offset: u32, size_bytes: u32) -> Self {
        let reserved_bytes = reserved_bytes_of(size_bytes);
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

    /// Returns the offset of the payload.
    #[inline]
    pub(super) fn payload_offset(&self) -> u32 {
        self.offset + SLOT_HEADER_BYTES
    }

    #[inline]
    pub(super) fn size_bytes(&self) -> u32 {
        slot_size_bytes(self.reserved_bytes)
    }

    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.consumed_bytes == self.payload_bytes
    }

    /// Returns true if the bytes from `offset_bytes` on belong to the chunk's last packet, and that
    /// packet continues in the next chunk. Then a patch of these bytes does not change the packets
    /// before them, and no packet begins behind them, because a complete chunk does not grow.
    pub(super) fn is_begin_of_packet(&self, offset_bytes: usize) -> bool {
        !self.is_incomplete
            && self.flags.contains(ChunkFlags::LAST_PACKET_CONTINUES)
            && offset_bytes >= usize::from(self.last_fragment_bytes)
    }

    /// Returns true if the chunk can be evicted by its descriptor alone: no packet crosses its
    /// borders, and its bytes are still those that were counted.
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
        for size_bytes in (16..=65552).step_by(16) {
            assert_eq!(slot_size_bytes(reserved_bytes_of(size_bytes)), size_bytes);
        }
    }

    #[test]
    fn descriptors_stay_small() {
        assert!(size_of::<Slot>() <= 32);
    }
}
