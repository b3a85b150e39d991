//! Makes room for new chunks, and shows what goes to whoever asked.

use std::fmt;

use super::chunk_queue::QueuedChunk;
use super::packet_reader::Purpose;
use super::ring::Covered;
use super::sequence::SequenceIndex;
use super::slot::SlotId;
use super::{LossMask, Packet, TraceBuffer};

/// Who is shown the packets that are about to be overwritten.
pub(super) struct OverwriteObserver(Box<dyn FnMut(&Packet<'_>) + Send>);

impl fmt::Debug for OverwriteObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OverwriteObserver")
    }
}

impl TraceBuffer {
    /// From now on, shows `observer` every packet that nobody has read before it is overwritten:
    /// whole, in the order of its sequence, still in the memory of the buffer.
    ///
    /// Only packets that are whole are shown: of one that still lacks patches or fragments when
    /// its begin must go, nothing is. The [loss](Packet::loss) of a packet is what a reader would
    /// be told if it got the packet now, so it speaks of overwritten packets, too. Readers are told
    /// of all losses whether somebody observes or not.
    ///
    /// The observer replaces the one before. It runs inside
    /// [`commit_chunk`](Self::commit_chunk), and a buffer in which it panics must not be used any
    /// more. Evicting gets slower by a walk over the fragments; without an observer, nothing of
    /// this costs anything. A [clone](Self::clone_read_only) has none, as it overwrites nothing.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
    /// use tracezero_service::trace_buffer::{
    ///     ClientIdentity, FillPolicy, TraceBuffer, UntrustedChunk,
    /// };
    /// use tracezero_core::shm::layout::ChunkFlags;
    ///
    /// let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring)?;
    /// let (overwritten, last_words) = mpsc::channel();
    /// buffer.observe_overwrites(move |packet| {
    ///     overwritten.send(packet.slices().collect::<Vec<_>>().concat()).unwrap();
    /// });
    ///
    /// // Such a chunk takes 32 bytes, so there is room for 128 of them.
    /// for chunk_id in 0..129 {
    ///     buffer.commit_chunk(&UntrustedChunk {
    ///         producer_id: ProducerId(1),
    ///         client: ClientIdentity::default(),
    ///         writer_id: WriterId(1),
    ///         chunk_id: ChunkId(chunk_id),
    ///         fragment_count: 2,
    ///         flags: ChunkFlags::default(),
    ///         complete: true,
    ///         payload: b"\x03one\x03two",
    ///     });
    /// }
    /// assert_eq!(last_words.try_iter().collect::<Vec<_>>(), [b"one", b"two"]);
    /// # Ok::<(), tracezero_service::trace_buffer::BufferError>(())
    /// ```
    pub fn observe_overwrites(&mut self, observer: impl FnMut(&Packet<'_>) + Send + 'static) {
        self.observer = Some(OverwriteObserver(Box::new(observer)));
    }

    /// Ends what [`observe_overwrites`](Self::observe_overwrites) began.
    pub fn ignore_overwrites(&mut self) {
        self.observer = None;
    }

    /// Takes the write cursor to the next segment, or back to the start of the only one. What lies
    /// between it and the end of its segment is evicted and stays there as padding.
    ///
    /// A ring that can grow does so rather than overwrite what is not read.
    pub(super) fn wrap(&mut self) {
        while let Some(slot) = self.ring.slot_ahead(0) {
            self.clear(slot);
            self.ring.skip_slot_ahead();
        }
        let grows = self.ring.can_grow() && !self.is_segment_read(0) && self.ring.grow();
        if grows {
            self.stats.buffer_size = u64::from(self.ring.size_bytes());
        } else {
            self.shrink();
            self.stats.write_wrap_count += 1;
        }
        self.ring.wrap();
    }

    /// Whether nothing is unread in the segment at `position` ahead of the write cursor's, which no
    /// slot may be ahead of it in.
    fn is_segment_read(&self, position: usize) -> bool {
        let Some((mut id, end)) = self.ring.slots_of_segment_ahead(position) else {
            // The write cursor's own segment, where all slots are behind it.
            return false;
        };
        while id != end {
            let slot = self.ring.slot(id);
            if slot.sequence.is_some() && !slot.is_drained() {
                return false;
            }
            id = id.next();
        }
        true
    }

    /// Removes a segment that a growing ring no longer needs: the oldest one, if everything in it and
    /// in the one behind it was read. Returns whether it did.
    ///
    /// Its slots must be the oldest ones, so there may be none ahead of the write cursor in its own
    /// segment.
    pub(crate) fn shrink(&mut self) -> bool {
        const SEGMENTS_KEPT: usize = 2;
        if self.ring.segments_ahead() <= SEGMENTS_KEPT
            || self.ring.slot_ahead(0).is_some()
            || !self.is_segment_read(0)
            || !self.is_segment_read(1)
        {
            return false;
        }
        let Some((mut id, end)) = self.ring.slots_of_segment_ahead(0) else {
            return false;
        };
        self.cycle = None;
        while id != end {
            self.clear(id);
            self.storage.reused_bytes += u64::from(self.ring.slot(id).size_bytes());
            self.ring.drop_slot();
            id = id.next();
        }
        self.ring.remove_segment_ahead();
        self.stats.buffer_size = u64::from(self.ring.size_bytes());
        true
    }

    /// Evicts what the next `size_bytes` behind the write cursor touch.
    #[inline]
    pub(super) fn clear_ahead(&mut self, size_bytes: u32) {
        let mut missing_bytes = size_bytes;
        while missing_bytes > 0
            && let Some(slot) = self.ring.slot_ahead(size_bytes - missing_bytes)
        {
            self.clear(slot);
            self.storage.reused_bytes += u64::from(self.ring.slot(slot).size_bytes());
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
            // By its descriptor alone a chunk is only evicted if nobody wants to see its packets.
            if self.observer.is_none() && self.ring.slot(front.slot).is_self_contained() {
                self.evict_self_contained(sequence, front);
            } else {
                loop {
                    self.evict_run(sequence, front);
                    if !self.next_packet(sequence, front.slot, Purpose::Evict) {
                        break;
                    }
                    self.show_overwritten(sequence, front);
                    self.note_overwritten(sequence, front);
                }
            }
            if front.slot == last {
                break;
            }
        }
    }

    /// Shows the packet in `self.packet` to whoever asked.
    fn show_overwritten(&mut self, sequence: SequenceIndex, front: QueuedChunk) {
        if let Some(OverwriteObserver(observer)) = &mut self.observer {
            let loss = self.sequences[sequence].losses_before(front.id);
            observer(&Packet::new(
                &self.ring,
                &self.packet,
                self.sequences.account(sequence),
                loss,
            ));
        }
    }

    /// Evicts the packets that the oldest chunk of a sequence holds whole, if nobody wants to see them.
    /// Their payload is not looked at.
    #[inline]
    fn evict_run(&mut self, sequence: SequenceIndex, front: QueuedChunk) {
        if self.observer.is_some() {
            return;
        }
        let Some(run) = self.ring.next_run(front.slot) else {
            return;
        };
        self.reach_front(sequence, front);
        if let Some(size_bytes) = self.ring.consume_run(&run) {
            self.stats.chunks_overwritten += 1;
            self.stats.bytes_overwritten += u64::from(size_bytes);
        }
        self.sequences.account_mut(sequence).hot.overwritten += u64::from(run.packets);
        self.note_overwritten(sequence, front);
    }

    /// Notes that packets of the oldest chunk of a sequence were lost.
    fn note_overwritten(&mut self, sequence: SequenceIndex, front: QueuedChunk) {
        self.sequences[sequence].add_loss(front.id, LossMask::OVERWRITE);
        self.list_losing_writer(sequence);
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
            self.sequences.account_mut(sequence).hot.overwritten += u64::from(packets);
            self.note_overwritten(sequence, front);
        }
        self.leave_front(sequence, front);
    }
}
