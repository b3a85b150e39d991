//! Evicts chunks to make room for new ones, and shows their packets to an observer.

use std::fmt;

use super::chunk_queue::QueuedChunk;
use super::packet_reader::Purpose;
use super::ring::Covered;
use super::sequence::SequenceIndex;
use super::slot::SlotId;
use super::{LossMask, Packet, TraceBuffer};
use tracezero_core::ids::{ChunkId, ProducerId, WriterId};

/// Says whether an overwritten packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwritten {
    /// It is lost.
    Lost,
    /// Its content is part of a state that the observer keeps, so it does not count as lost.
    Folded,
}

/// Gets the packets that a ring overwrites. A function from packets to [`Overwritten`] is an observer.
pub trait OverwriteObserver: Send {
    /// Takes a packet that is about to be overwritten. It is still in the memory of the buffer.
    fn packet(&mut self, packet: &Packet<'_>) -> Overwritten;

    /// Called when all packets of a chunk were shown, before its memory is used again.
    fn end_of_chunk(&mut self, chunk: EvictedChunk) {
        let _ = chunk;
    }
}

/// A chunk whose packets have left the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictedChunk {
    /// The producer that the writer belongs to.
    pub producer_id: ProducerId,
    /// The writer. Its id is unique within the producer.
    pub writer_id: WriterId,
    /// The id of the chunk.
    pub chunk_id: ChunkId,
    /// The number of its payload bytes that have left. If its writer was filling the chunk, it may come
    /// again with more.
    pub payload_bytes: u16,
    /// True if no newer chunk of the writer has left before.
    pub is_newest: bool,
    /// The number of packets of the writer that the buffer has lost so far.
    pub lost: u64,
}

impl<F: FnMut(&Packet<'_>) -> Overwritten + Send> OverwriteObserver for F {
    fn packet(&mut self, packet: &Packet<'_>) -> Overwritten {
        self(packet)
    }
}

/// An observer that is set.
pub(super) struct Observer(Box<dyn OverwriteObserver>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl TraceBuffer {
    /// Sets an observer that gets every unread packet before it is overwritten, in the order of its
    /// sequence. The packet is still in the memory of the buffer.
    ///
    /// The observer gets whole packets only. If a packet still lacks patches or fragments when its
    /// begin is overwritten, the observer gets no part of it. The [loss](Packet::loss) of a packet
    /// is what a reader would see if it read the packet now, so it includes overwritten packets.
    /// Readers see the same losses with and without an observer: a packet that is folded into a state
    /// is missing in its sequence, too.
    ///
    /// The observer replaces an earlier one. It runs inside [`commit_chunk`](Self::commit_chunk).
    /// If it panics, the buffer must not be used any more. With an observer, evicting is slower,
    /// because it must walk over the fragments. A [clone](Self::clone_read_only) has no observer,
    /// as it overwrites nothing.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
    /// use tracezero_service::trace_buffer::{
    ///     ClientIdentity, FillPolicy, Overwritten, Packet, TraceBuffer, UntrustedChunk,
    /// };
    /// use tracezero_core::shm::layout::ChunkFlags;
    ///
    /// let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring)?;
    /// let (overwritten, last_words) = mpsc::channel();
    /// buffer.observe_overwrites(move |packet: &Packet<'_>| {
    ///     overwritten.send(packet.slices().collect::<Vec<_>>().concat()).unwrap();
    ///     Overwritten::Lost
    /// });
    ///
    /// // Each chunk takes 32 bytes, so there is room for 128 of them.
    /// for chunk_id in 0..129 {
    ///     buffer.commit_chunk(&UntrustedChunk {
    ///         producer_id: ProducerId::new(1),
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
    pub fn observe_overwrites(&mut self, observer: impl OverwriteObserver + 'static) {
        self.observer = Some(Observer(Box::new(observer)));
    }

    /// Removes the observer that [`observe_overwrites`](Self::observe_overwrites) has set.
    pub fn ignore_overwrites(&mut self) {
        self.observer = None;
    }

    /// Moves the write cursor to the next segment, or back to the start of the only one. Evicts the
    /// chunks between the cursor and the end of its segment; their slots stay there as padding.
    ///
    /// A ring that can grow does so rather than overwrite unread packets, unless it has too many
    /// slots.
    pub(super) fn wrap(&mut self) {
        while let Some(slot) = self.ring.slot_ahead(0) {
            self.clear(slot);
            self.ring.skip_slot_ahead();
        }
        let grows = self.ring.can_grow()
            && !self.ring.is_out_of_slots()
            && !self.is_segment_read(0)
            && self.ring.grow();
        if grows {
            self.stats.buffer_size = u64::from(self.ring.size_bytes());
        } else {
            self.shrink();
            self.stats.write_wrap_count += 1;
        }
        self.ring.wrap();
        (self.sequences).trim_queues(self.stats.chunks_written, self.ring.slots_max());
    }

    /// Returns true if nothing is unread in the segment at `position` ahead of the write cursor's.
    /// There must be no slot ahead of the write cursor in its own segment.
    fn is_segment_read(&self, position: usize) -> bool {
        if self.ring.is_unwritten(position) {
            return false;
        }
        let Some((mut id, end)) = self.ring.slots_of_segment_ahead(position) else {
            // This is the write cursor's own segment, where all slots are behind the cursor.
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

    /// Removes the oldest segment of a growing ring if everything in that segment and in the next
    /// one was read. Returns true if a segment was removed.
    ///
    /// The segment's slots must be the oldest ones. So nothing is removed while slots are ahead of
    /// the write cursor in its own segment.
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

    /// Evicts the chunks in the next `size_bytes` ahead of the write cursor. Returns by how much the
    /// slot for these bytes must be larger.
    #[inline]
    pub(super) fn clear_ahead(&mut self, size_bytes: u32) -> u32 {
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
                    return 0;
                }
                Covered::WithRest { rest_bytes } => return rest_bytes,
            }
        }
        0
    }

    /// Turns a slot into padding. Evicts its chunk, if it has one.
    #[inline]
    fn clear(&mut self, id: SlotId) {
        let slot = self.ring.slot(id);
        match slot.sequence {
            Some(sequence) => {
                if let Some(file) = self.ring.file() {
                    file.set_evicted();
                }
                self.evict_through(sequence, id);
            }
            None => {
                self.stats.padding_bytes_cleared += u64::from(slot.size_bytes());
                // Its chunk was read. In the file it is still there.
                self.ring.write_state(id);
            }
        }
    }

    /// Evicts the chunks of a sequence from its oldest one to the one in the slot `last`.
    #[inline]
    fn evict_through(&mut self, sequence: SequenceIndex, last: SlotId) {
        while let Some(front) = self.sequences[sequence].front() {
            // A chunk can be evicted by its descriptor alone only if no observer wants its packets.
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
                self.show_end_of_chunk(sequence, front);
                super::ring::stored();
            }
            // The chunk has left its slot, and a recovery must not find it there.
            self.ring.write_state(front.slot);
            if front.slot == last {
                break;
            }
        }
    }

    /// Shows the packet in `self.packet` to the observer, if there is one.
    fn show_overwritten(&mut self, sequence: SequenceIndex, front: QueuedChunk) {
        if let Some(Observer(observer)) = &mut self.observer {
            let loss = self.sequences[sequence].losses_before(front.id);
            let packet = Packet::new(
                &self.ring,
                &self.packet,
                self.sequences.account(sequence),
                loss,
            );
            if observer.packet(&packet) == Overwritten::Folded {
                let account = self.sequences.account_mut(sequence);
                account.hot.overwritten -= 1;
                account.counts.folded += 1;
            }
        }
    }

    /// Tells the observer, if there is one, that the oldest chunk of a sequence has left it.
    fn show_end_of_chunk(&mut self, sequence: SequenceIndex, front: QueuedChunk) {
        if let Some(Observer(observer)) = &mut self.observer {
            let last = self.sequences[sequence].last_consumed;
            let account = self.sequences.account(sequence);
            observer.end_of_chunk(EvictedChunk {
                producer_id: account.hot.producer_id,
                writer_id: account.hot.writer_id,
                chunk_id: front.id,
                payload_bytes: self.ring.slot(front.slot).payload_bytes,
                is_newest: last.is_some_and(|last| last.id == front.id),
                lost: account.lost(),
            });
        }
    }

    /// Evicts the whole packets in the oldest chunk of a sequence without reading their payload.
    /// Does nothing if there is an observer.
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

    /// Notes that packets in the oldest chunk of a sequence were lost.
    fn note_overwritten(&mut self, sequence: SequenceIndex, front: QueuedChunk) {
        self.sequences[sequence].add_loss(front.id, LossMask::OVERWRITE);
        self.list_losing_writer(sequence);
    }

    /// Evicts a chunk by its descriptor, without reading its payload.
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
