//! Commits chunks: checks them, finds earlier copies of them, and stores them.
//!
//! Refused chunks and malformed fragments are not stored and only change counters. `tests.rs` has
//! tests for chunks and patches that are refused.

use tracezero_core::ids::ChunkId;
use tracezero_core::shm::layout::ChunkFlags;

use super::chunk_queue::QueuedChunk;
use super::fragment::{self, Scan, ScanEnd};
use super::key_map::SequenceKey;
use super::sequence::{ConsumedChunk, SequenceIndex};
use super::slot::{Slot, SlotId, reserved_bytes_of, slot_size_bytes};
use super::{ClientIdentity, FillPolicy, Intake, LossMask, TraceBuffer, UntrustedChunk};

/// Flags that a chunk may gain when it is committed again, but not lose.
const ABI_FLAGS: ChunkFlags = ChunkFlags::FIRST_PACKET_CONTINUES
    .union(ChunkFlags::LAST_PACKET_CONTINUES)
    .union(ChunkFlags::NEEDS_PATCHING);

/// A chunk whose fragments were checked.
#[derive(Clone, Copy)]
struct CheckedChunk<'a> {
    id: ChunkId,
    sequence: SequenceIndex,
    /// The fragments, without the bytes behind them.
    payload: &'a [u8],
    /// The length of `payload`.
    payload_bytes: u16,
    /// The offset of the last fragment.
    last_fragment_bytes: u16,
    /// The room to reserve for the payload. It exceeds `payload_bytes` if the chunk may still grow,
    /// or takes the place of a larger one.
    reserved_bytes: u16,
    flags: ChunkFlags,
    is_complete: bool,
    is_aborted: bool,
    /// The number of packets that begin in the chunk.
    packets: u16,
}

impl<'a> CheckedChunk<'a> {
    fn refused(&self) -> RefusedChunk<'a> {
        RefusedChunk {
            id: self.id,
            sequence: self.sequence,
            payload: self.payload,
            flags: self.flags,
            is_complete: self.is_complete,
        }
    }
}

/// A chunk that is not stored. Its payload may be longer than the payload of a stored chunk can be.
#[derive(Clone, Copy)]
struct RefusedChunk<'a> {
    id: ChunkId,
    sequence: SequenceIndex,
    /// The fragments, without the bytes behind them.
    payload: &'a [u8],
    flags: ChunkFlags,
    is_complete: bool,
}

/// The reason why a chunk is not stored.
#[derive(Clone, Copy)]
enum Refusal {
    /// The buffer has no room for it.
    Discarded,
    /// Reading or eviction has already passed its place in the sequence.
    Late,
}

/// How to continue with a chunk that may have come before.
enum Admission {
    /// Store it. The first `consumed_bytes` of its payload were consumed already.
    Store { consumed_bytes: u16 },
    /// Nothing is left to do.
    Settled,
}

/// The part of a chunk's header that says what its payload holds. It fits into one register.
#[derive(Clone, Copy)]
struct DeclaredFragments {
    fragments: u16,
    flags: ChunkFlags,
    is_complete: bool,
}

impl DeclaredFragments {
    /// Leaves out the last fragment if the chunk is incomplete.
    #[inline]
    fn visible(self) -> Self {
        if self.is_complete || self.fragments == 0 {
            return self;
        }
        // The writer may still change the last fragment. These flags describe only the last
        // fragment.
        const OF_LAST: ChunkFlags =
            ChunkFlags::LAST_PACKET_CONTINUES.union(ChunkFlags::NEEDS_PATCHING);
        Self {
            fragments: self.fragments - 1,
            flags: self.flags.difference(OF_LAST),
            ..self
        }
    }
}

impl TraceBuffer {
    /// Copies a chunk into the buffer. Ends the read cycle, if there is one.
    ///
    /// Chunks that cannot be stored are counted in [`TraceBuffer::stats`]. Packets that are lost
    /// with them are counted in [`TraceBuffer::packet_counts`].
    //
    // This wrapper is inlined, so that the fields are passed in registers. If they were passed
    // through memory, the compiler would read neighboring fields with one load, and no CPU forwards
    // several stores from its store buffer to one load. So the load would wait until all earlier
    // stores have reached the cache, among them the copy of the previous chunk.
    #[inline]
    pub fn commit_chunk(&mut self, untrusted: &UntrustedChunk<'_>) {
        let declared = DeclaredFragments {
            fragments: untrusted.fragment_count,
            flags: untrusted.flags,
            is_complete: untrusted.complete,
        };
        self.commit(
            SequenceKey::new(untrusted.producer_id, untrusted.writer_id),
            &untrusted.client,
            untrusted.chunk_id,
            declared,
            untrusted.payload,
        );
    }

    #[inline(never)]
    fn commit(
        &mut self,
        key: SequenceKey,
        client: &ClientIdentity,
        id: ChunkId,
        declared: DeclaredFragments,
        untrusted: &[u8],
    ) {
        self.cycle = None;
        let Some(sequence) = self.sequences.find_or_add(key) else {
            self.stats.chunks_discarded += 1;
            return;
        };
        let DeclaredFragments {
            fragments,
            flags,
            is_complete,
        } = declared.visible();
        let scan = Scan::new(untrusted, 0, usize::from(fragments));
        let payload = &untrusted[..scan.len_bytes];
        let refused = RefusedChunk {
            id,
            sequence,
            payload,
            flags,
            is_complete,
        };
        if self.intake != Intake::Open {
            return self.discard(&refused, Refusal::Discarded);
        }
        if scan.end == ScanEnd::Malformed {
            self.stats.abi_violations += 1;
        }
        let reserved = if is_complete { payload } else { untrusted }.len();
        let reserved_bytes = u16::try_from(reserved).ok();
        let Some(reserved_bytes) = reserved_bytes
            .filter(|&reserved_bytes| slot_size_bytes(reserved_bytes) <= self.ring.segment_bytes())
        else {
            self.stats.abi_violations += 1;
            return self.account_refused(&refused, Refusal::Discarded);
        };
        let mut chunk = CheckedChunk {
            id,
            sequence,
            payload,
            // These numbers fit into 16 bits: the payload is at most `reserved_bytes` long, and
            // each packet that begins takes at least one byte of the payload, for its size.
            payload_bytes: scan.len_bytes as u16,
            last_fragment_bytes: scan.last_bytes as u16,
            reserved_bytes,
            flags,
            is_complete,
            is_aborted: scan.end == ScanEnd::Aborted,
            packets: scan.packets(flags) as u16,
        };
        self.sequences.remember(sequence, client);
        self.sequences
            .account_mut(sequence)
            .histogram
            .add(chunk.payload_bytes);
        if chunk.is_aborted {
            self.stats.trace_writer_packet_loss += 1;
        }
        let Admission::Store { consumed_bytes } = self.admit(&chunk) else {
            return;
        };
        let size_bytes = slot_size_bytes(reserved_bytes);
        let fits_before_end = size_bytes <= self.ring.tail_bytes() && !self.ring.is_out_of_slots();
        if !fits_before_end && self.policy == FillPolicy::Discard {
            self.intake = Intake::Sealed;
            if let Some(file) = self.ring.file() {
                file.set_sealed();
            }
            return self.discard(&refused, Refusal::Discarded);
        }
        self.sequences[sequence].expect(chunk.id);
        if !fits_before_end {
            self.wrap();
        }
        let rest_bytes = self.clear_ahead(size_bytes);
        if rest_bytes > 0 {
            chunk.reserved_bytes = reserved_bytes_of(size_bytes + rest_bytes);
        }
        self.sequences[sequence].expect_none();
        self.store(&chunk, consumed_bytes);
        self.sequences.forget_stale();
    }

    /// Looks up whether a chunk with this id came before, and handles it if it needs no new slot.
    #[inline]
    fn admit(&mut self, chunk: &CheckedChunk<'_>) -> Admission {
        let sequence = &mut self.sequences[chunk.sequence];
        let mut consumed_bytes = 0;
        if let Some(last) = sequence.last_consumed
            && !chunk.id.is_newer_than(last.id)
        {
            let is_last = chunk.id == last.id && last.was_incomplete;
            if is_last && last.payload_bytes < chunk.payload_bytes {
                // The bytes that came with the earlier copy were consumed. The rest is new.
                consumed_bytes = last.payload_bytes;
            } else {
                if is_last && chunk.is_complete && chunk.is_aborted {
                    sequence.add_loss(chunk.id, LossMask::WRITER_ABORT);
                }
                match chunk.is_complete {
                    true => self.discard(&chunk.refused(), Refusal::Late),
                    // A scrape has copied the chunk before its writer committed it, and comes behind.
                    false => self.account_refused(&chunk.refused(), Refusal::Late),
                }
                return Admission::Settled;
            }
        }
        // Look for an earlier copy before evicting, which could destroy the copy that is to be
        // rewritten.
        let sequence = &self.sequences[chunk.sequence];
        match sequence.back() {
            Some(newest) if !chunk.id.is_newer_than(newest.id) => match sequence.find(chunk.id) {
                Some(present) => self.recommit(chunk, present.slot),
                None => Admission::Store { consumed_bytes },
            },
            _ => Admission::Store { consumed_bytes },
        }
    }

    /// Commits a chunk again that is still in the buffer.
    fn recommit(&mut self, chunk: &CheckedChunk<'_>, present: SlotId) -> Admission {
        let slot = *self.ring.slot(present);
        let removed_flags = slot.flags.difference(chunk.flags);
        if chunk.payload_bytes < slot.payload_bytes
            || chunk.payload_bytes > slot.reserved_bytes
            || removed_flags.difference(ABI_FLAGS) != removed_flags
        {
            self.stats.abi_violations += 1;
            return Admission::Settled;
        }
        let grows = chunk.payload_bytes > slot.payload_bytes;
        let front = self.sequences[chunk.sequence].front();
        // Relocate a drained slot: it may lie right ahead of the write cursor, where its new
        // packets would be overwritten before anyone could read them. A discarding buffer never
        // overwrites. A chunk that is still incomplete is relocated only if the write cursor is
        // less than half the capacity away: its slot has room for all that the chunk can grow to.
        let is_soon_overwritten =
            self.ring.bytes_ahead(slot.offset) < self.ring.capacity_bytes() / 2;
        if slot.is_incomplete
            && slot.is_drained()
            && (chunk.is_complete || is_soon_overwritten)
            && grows
            && self.policy == FillPolicy::Ring
            && let Some(front) = front.filter(|front| front.slot == present)
        {
            self.stats.chunks_relocated += 1;
            // Handle the losses in front of the chunk first: an empty copy may be released here
            // before a read has handled them.
            self.reach_front(chunk.sequence, front);
            self.release(chunk.sequence, present);
            // Mark the old slot as released in the crash file, so that a recovery does not find the
            // chunk twice.
            self.ring.write_state(present);
            return Admission::Store {
                consumed_bytes: slot.payload_bytes,
            };
        }
        let (packets, is_sound) =
            fragment::packets_from(chunk.payload, usize::from(slot.consumed_bytes), chunk.flags);
        let stored = self.ring.slot_mut(present);
        stored.is_incomplete &= !chunk.is_complete;
        stored.is_aborted |= chunk.is_aborted;
        if grows {
            if slot.is_drained() && slot.payload_bytes != 0 {
                self.storage.reopened.add(slot.size_bytes());
            }
            stored.flags = stored.flags.union(chunk.flags);
            stored.unread_packets = packets as u16;
            stored.last_fragment_bytes = chunk.last_fragment_bytes;
            stored.is_altered |= !is_sound;
            self.ring
                .rewrite(present, chunk.payload, chunk.payload_bytes);
            self.stats.chunks_rewritten += 1;
        }
        self.ring.write_state(present);
        Admission::Settled
    }

    /// Stores a chunk in the space that was cleared for it.
    #[inline]
    fn store(&mut self, chunk: &CheckedChunk<'_>, consumed_bytes: u16) {
        let (packets, is_sound) = match consumed_bytes {
            0 => (chunk.packets, true),
            _ => {
                let offset = usize::from(consumed_bytes);
                let (packets, is_sound) =
                    fragment::packets_from(chunk.payload, offset, chunk.flags);
                (packets as u16, is_sound)
            }
        };
        let slot = Slot {
            offset: 0,
            chunk_id: chunk.id,
            sequence: Some(chunk.sequence),
            reserved_bytes: chunk.reserved_bytes,
            payload_bytes: chunk.payload_bytes,
            consumed_bytes,
            unread_packets: packets,
            last_fragment_bytes: chunk.last_fragment_bytes,
            flags: chunk.flags,
            is_incomplete: !chunk.is_complete,
            is_aborted: chunk.is_aborted,
            is_gap_checked: false,
            is_altered: !is_sound,
        };
        let writer_id = self.sequences.account(chunk.sequence).hot.writer_id;
        let queued = QueuedChunk {
            id: chunk.id,
            slot: self.ring.push(slot, writer_id, chunk.payload),
        };
        if self.sequences.insert(chunk.sequence, queued) {
            self.stats.chunks_committed_out_of_order += 1;
        }
        self.stats.chunks_written += 1;
        self.stats.bytes_written += u64::from(slot.size_bytes());
    }

    /// Removes the oldest chunk of a sequence. Its slot becomes padding.
    #[inline]
    pub(super) fn release(&mut self, sequence: SequenceIndex, id: SlotId) {
        let slot = self.ring.slot_mut(id);
        slot.sequence = None;
        if slot.payload_bytes == 0 {
            self.storage.empty.add(slot.size_bytes());
        } else if !slot.is_drained() {
            self.storage.unreadable.add(slot.size_bytes());
        }
        let consumed = ConsumedChunk {
            id: slot.chunk_id,
            payload_bytes: slot.payload_bytes,
            was_incomplete: slot.is_incomplete,
        };
        self.sequences.pop_front(sequence, consumed);
    }

    /// Refuses a chunk that has no place in the memory or in its sequence.
    #[cold]
    fn discard(&mut self, chunk: &RefusedChunk<'_>, refusal: Refusal) {
        self.stats.chunks_discarded += 1;
        self.account_refused(chunk, refusal);
    }

    /// Counts the packets that are lost with a refused chunk: the packets that begin in the chunk,
    /// except for those that came with an earlier copy of the chunk.
    #[cold]
    fn account_refused(&mut self, chunk: &RefusedChunk<'_>, refusal: Refusal) {
        let present = self.sequences[chunk.sequence].find(chunk.id);
        let account = self.sequences.account_mut(chunk.sequence);
        let Some(mut first_uncounted) = account.hot.accounted.first_uncounted(chunk.id) else {
            return;
        };
        if let Some(present) = present {
            let slot = self.ring.slot(present.slot);
            if !slot.is_incomplete {
                return;
            }
            first_uncounted = first_uncounted.max(slot.payload_bytes);
        }
        let (packets, _) =
            fragment::packets_from(chunk.payload, usize::from(first_uncounted), chunk.flags);
        *match refusal {
            Refusal::Discarded => &mut account.counts.discarded,
            Refusal::Late => &mut account.counts.late,
        } += packets as u64;
        let is_loss = packets > 0;
        let payload_bytes = u16::try_from(chunk.payload.len()).unwrap_or(u16::MAX);
        account.hot.accounted.note(
            chunk.id,
            payload_bytes.max(first_uncounted),
            chunk.is_complete,
        );
        if is_loss {
            self.list_losing_writer(chunk.sequence);
        }
    }
}
