//! Makes room for new chunks.

use super::packet_reader::Purpose;
use super::ring::{Covered, SlotId};
use super::sequence::{QueuedChunk, SequenceIndex};
use super::{LossMask, TraceBuffer};

impl TraceBuffer {
    /// Takes the write cursor back to the start. What lies between it and the end is evicted and
    /// stays there as padding.
    pub(super) fn wrap(&mut self) {
        while let Some(slot) = self.ring.slot_ahead(0) {
            self.clear(slot);
            self.ring.skip_slot_ahead();
        }
        self.ring.wrap();
        self.stats.write_wrap_count += 1;
    }

    /// Evicts what the next `size_bytes` behind the write cursor touch.
    #[inline]
    pub(super) fn clear_ahead(&mut self, size_bytes: u32) {
        let mut missing_bytes = size_bytes;
        while missing_bytes > 0
            && let Some(slot) = self.ring.slot_ahead(size_bytes - missing_bytes)
        {
            self.clear(slot);
            match self.ring.cover_slot_ahead(missing_bytes) {
                Covered::Whole {
                    missing_bytes: still_missing_bytes,
                } => {
                    missing_bytes = still_missing_bytes;
                }
                Covered::Part { rest_bytes } => {
                    self.stats.padding_bytes_written += u64::from(rest_bytes);
                    return;
                }
            }
        }
    }

    /// Makes a slot padding.
    #[inline]
    fn clear(&mut self, id: SlotId) {
        let slot = self.ring.slot(id);
        match slot.sequence {
            Some(sequence) => self.evict_through(sequence, id),
            None => self.stats.padding_bytes_cleared += u64::from(slot.size_bytes()),
        }
    }

    /// Evicts the chunks of a sequence from its oldest to the one in the slot `last`.
    #[inline]
    fn evict_through(&mut self, sequence: SequenceIndex, last: SlotId) {
        while let Some(front) = self.sequences[sequence].front() {
            if self.ring.slot(front.slot).is_self_contained() {
                self.evict_self_contained(sequence, front);
            } else {
                // Whoever wants to see packets for the last time sees them here.
                while self.next_packet(sequence, front.slot, Purpose::Evict) {
                    self.sequences[sequence].add_loss(front.id, LossMask::OVERWRITE);
                }
            }
            if front.slot == last {
                break;
            }
        }
    }

    /// Evicts a chunk by its descriptor; its payload is not looked at.
    #[inline]
    fn evict_self_contained(&mut self, sequence: SequenceIndex, front: QueuedChunk) {
        self.reach_front(sequence, front);
        let slot = self.ring.slot_mut(front.slot);
        if !slot.is_drained() {
            slot.consumed_bytes = slot.payload_bytes;
            self.stats.chunks_overwritten += 1;
            self.stats.bytes_overwritten += u64::from(slot.size_bytes());
        }
        let packets = std::mem::take(&mut slot.unread_packets);
        if packets > 0 {
            let sequence = &mut self.sequences[sequence];
            sequence.counts.overwritten += u64::from(packets);
            sequence.add_loss(front.id, LossMask::OVERWRITE);
        }
        self.leave_front(sequence, front);
    }
}
