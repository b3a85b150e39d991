//! Takes chunks in: checks them, finds out whether they came before, stores them.
//!
//! A chunk that is refused and a fragment that is malformed move counters and are not stored. `tests.rs` has
//! tests for chunks and patches that are refused.

use tracezero_core::ids::ChunkId;
use tracezero_core::shm::layout::ChunkFlags;

use super::chunk_queue::QueuedChunk;
use super::fragment::{self, Scan, ScanEnd};
use super::key_map::SequenceKey;
use super::sequence::{ConsumedChunk, SequenceIndex, is_newer};
use super::slot::{Slot, SlotId, slot_size_bytes};
use super::{ClientIdentity, FillPolicy, Intake, LossMask, TraceBuffer, UntrustedChunk};

/// The flags that may be added to a chunk when it comes again, but not removed.
const ABI_FLAGS: ChunkFlags = ChunkFlags::FIRST_PACKET_CONTINUES
    .union(ChunkFlags::LAST_PACKET_CONTINUES)
    .union(ChunkFlags::NEEDS_PATCHING);

/// A chunk after its fragments were checked.
#[derive(Clone, Copy)]
struct CheckedChunk<'a> {
    id: ChunkId,
    sequence: SequenceIndex,
    /// Fragments only.
    payload: &'a [u8],
    /// The length of `payload`.
    payload_bytes: u16,
    /// Where its last fragment starts.
    last_fragment_bytes: u16,
    /// Room to keep for it: more than that for a chunk that may still grow.
    reserved_bytes: u16,
    flags: ChunkFlags,
    is_complete: bool,
    is_aborted: bool,
    /// Packets that begin in it.
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

/// A chunk that is not stored. Its fragments may be more than fit into any.
#[derive(Clone, Copy)]
struct RefusedChunk<'a> {
    id: ChunkId,
    sequence: SequenceIndex,
    /// Fragments only.
    payload: &'a [u8],
    flags: ChunkFlags,
    is_complete: bool,
}

/// Why a chunk is not stored.
#[derive(Clone, Copy)]
enum Refusal {
    /// There is no room for it.
    Discarded,
    /// Its place in the sequence was read or evicted.
    Late,
}

/// What to do with a chunk that may have come before.
enum Admission {
    /// Store it; so much of it was consumed already.
    Store { consumed_bytes: u16 },
    /// Nothing is left to do.
    Settled,
}

/// What a chunk says of itself in a few bits. Goes into one register.
#[derive(Clone, Copy)]
struct Declared {
    fragments: u16,
    flags: ChunkFlags,
    is_complete: bool,
}

impl Declared {
    /// Leaves out the last fragment of a chunk that its writer still works on.
    #[inline]
    fn visible(self) -> Self {
        if self.is_complete || self.fragments == 0 {
            return self;
        }
        // That fragment may still change, and these flags speak of it alone.
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
    /// Whatever cannot be stored is counted in [`TraceBuffer::stats`] and, if packets are lost
    /// with it, in [`TraceBuffer::packet_counts`].
    //
    // A shell to be inlined, so that the fields go into registers. If they went through memory, the
    // compiler would read neighbours with one load, and no store buffer forwards several stores to
    // one load: each commit would wait until the stores of the one before, a whole chunk, are done.
    #[inline]
    pub fn commit_chunk(&mut self, untrusted: &UntrustedChunk<'_>) {
        let declared = Declared {
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
        declared: Declared,
        untrusted: &[u8],
    ) {
        self.cycle = None;
        let sequence = self.sequences.find_or_add(key);
        let Declared {
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
        let chunk = CheckedChunk {
            id,
            sequence,
            payload,
            // Both fit: the payload is at most as long as what is reserved for it, and no packet
            // begins without a byte.
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
        let fits_before_end = size_bytes <= self.ring.tail_bytes();
        if !fits_before_end && self.policy == FillPolicy::Discard {
            self.intake = Intake::Sealed;
            return self.discard(&refused, Refusal::Discarded);
        }
        self.sequences[sequence].expect(chunk.id);
        if !fits_before_end {
            self.wrap();
        }
        self.clear_ahead(size_bytes);
        self.sequences[sequence].expect_none();
        self.store(&chunk, consumed_bytes);
        self.sequences.forget_stale();
    }

    /// Compares a chunk with what is known of its id, and settles what needs no new slot.
    #[inline]
    fn admit(&mut self, chunk: &CheckedChunk<'_>) -> Admission {
        let sequence = &mut self.sequences[chunk.sequence];
        let mut consumed_bytes = 0;
        if let Some(last) = sequence.last_consumed
            && !is_newer(chunk.id, last.id)
        {
            let is_last = chunk.id == last.id && last.was_incomplete;
            if is_last && last.payload_bytes < chunk.payload_bytes {
                // Consumed as far as it had come then; the rest is new.
                consumed_bytes = last.payload_bytes;
            } else {
                if is_last && chunk.is_complete && chunk.is_aborted {
                    sequence.add_loss(chunk.id, LossMask::WRITER_ABORT);
                }
                self.discard(&chunk.refused(), Refusal::Late);
                return Admission::Settled;
            }
        }
        // Before anything is evicted: that could destroy the chunk that is to be rewritten.
        let sequence = &self.sequences[chunk.sequence];
        match sequence.back() {
            Some(newest) if !is_newer(chunk.id, newest.id) => match sequence.find(chunk.id) {
                Some(present) => self.recommit(chunk, present.slot),
                None => Admission::Store { consumed_bytes },
            },
            _ => Admission::Store { consumed_bytes },
        }
    }

    /// Takes a chunk that is in the buffer already.
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
        // A drained slot may lie right before the write cursor, where its new packets would be
        // overwritten before anyone could read them. A discard buffer never gets there. What may
        // grow again stays where it is for half a lap: its place is as large as it may become.
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
            // An empty copy may come to its end here before anyone has looked at what precedes it.
            self.reach_front(chunk.sequence, front);
            self.release(chunk.sequence, present);
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
        Admission::Settled
    }

    /// Puts a chunk into the space that was made for it.
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
        let queued = QueuedChunk {
            id: chunk.id,
            slot: self.ring.push(slot, chunk.payload),
        };
        if self.sequences.insert(chunk.sequence, queued) {
            self.stats.chunks_committed_out_of_order += 1;
        }
        self.stats.chunks_written += 1;
        self.stats.bytes_written += u64::from(slot.size_bytes());
    }

    /// Takes the oldest chunk of a sequence out of it. Its slot becomes padding.
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

    /// Refuses a chunk that there is no place for, neither in the memory nor in its sequence.
    #[cold]
    fn discard(&mut self, chunk: &RefusedChunk<'_>, refusal: Refusal) {
        self.stats.chunks_discarded += 1;
        self.account_refused(chunk, refusal);
    }

    /// Counts the packets that are lost with a refused chunk: those that begin in it, unless an
    /// earlier copy of it brought them.
    #[cold]
    fn account_refused(&mut self, chunk: &RefusedChunk<'_>, refusal: Refusal) {
        let present = self.sequences[chunk.sequence].find(chunk.id);
        let account = self.sequences.account_mut(chunk.sequence);
        let Some(mut news_bytes) = account.hot.accounted.news(chunk.id) else {
            return;
        };
        if let Some(present) = present {
            let slot = self.ring.slot(present.slot);
            if !slot.is_incomplete {
                return;
            }
            news_bytes = news_bytes.max(slot.payload_bytes);
        }
        let (packets, _) =
            fragment::packets_from(chunk.payload, usize::from(news_bytes), chunk.flags);
        *match refusal {
            Refusal::Discarded => &mut account.counts.discarded,
            Refusal::Late => &mut account.counts.late,
        } += packets as u64;
        let is_loss = packets > 0;
        let payload_bytes = u16::try_from(chunk.payload.len()).unwrap_or(u16::MAX);
        account
            .hot
            .accounted
            .note(chunk.id, payload_bytes.max(news_bytes), chunk.is_complete);
        if is_loss {
            self.list_losing_writer(chunk.sequence);
        }
    }
}
