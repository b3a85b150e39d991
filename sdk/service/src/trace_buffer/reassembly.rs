//! Puts a packet together from fragments in several chunks.
//!
//! Only the last fragment of a chunk can need patches, so a packet waits for patches only if its own fragment
//! is that one. Perfetto's own buffer also holds a packet back whose end lies in a chunk that waits for any.
//! While a thread is in the middle of a long packet, this holds back everything that it wrote since.

use tracezero_core::shm::layout::ChunkFlags;

use super::fragment::FragmentKind;
use super::packet_reader::Purpose;
use super::ring::{Fragment, Unread};
use super::sequence::SequenceIndex;
use super::{LossMask, TraceBuffer};

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reassembly {
    /// The packet is whole.
    Done,
    /// Patches or chunks are missing that may still come.
    NotYet,
    /// The packet will never be whole.
    Lost(Cause),
}

/// Why a packet that was begun will never be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Chunk ids are missing where it should go on.
    Gap,
    /// The bytes where it should go on are no fragment.
    Corrupted,
    /// The next fragment starts another packet.
    BrokenChain,
    /// So it does, and before it the writer gave up a packet: this one.
    Aborted,
}

impl Cause {
    pub(super) fn mask(self) -> LossMask {
        match self {
            Self::Gap => LossMask::REASSEMBLY_GAP,
            Self::Corrupted => LossMask::CHUNK_CORRUPTED,
            Self::BrokenChain | Self::Aborted => LossMask::REASSEMBLY_BROKEN_CHAIN,
        }
    }
}

impl TraceBuffer {
    /// Collects the fragments of the packet that starts with `begin`, the next unread fragment of
    /// the oldest chunk of its sequence, in `self.packet`. Consumes what it collected unless the
    /// rest may still come and somebody waits for it.
    pub(super) fn reassemble(
        &mut self,
        sequence: SequenceIndex,
        begin: Fragment,
        purpose: Purpose,
    ) -> Reassembly {
        self.packet.clear();
        self.packet.push(begin);
        let outcome = self.collect_continuations(sequence);
        match outcome {
            Reassembly::Done => self.stats.readaheads_succeeded += 1,
            Reassembly::NotYet | Reassembly::Lost(_) => self.stats.readaheads_failed += 1,
        }
        if outcome != Reassembly::NotYet || purpose == Purpose::Evict {
            for i in 0..self.packet.len() {
                let fragment = self.packet[i];
                self.consume(&fragment, purpose);
            }
        }
        outcome
    }

    fn collect_continuations(&mut self, sequence: SequenceIndex) -> Reassembly {
        let sequence = &self.sequences[sequence];
        let mut chunks = sequence.chunks();
        let Some(mut previous) = chunks.next() else {
            return Reassembly::NotYet;
        };
        if self
            .ring
            .slot(previous.slot)
            .flags
            .contains(ChunkFlags::NEEDS_PATCHING)
        {
            return Reassembly::NotYet;
        }
        let mut is_aborted = self.ring.slot(previous.slot).is_aborted;
        for chunk in chunks {
            let slot = self.ring.slot(chunk.slot);
            if chunk.id != previous.id.next() {
                return Reassembly::Lost(Cause::Gap);
            }
            match self.ring.next_unread(chunk.slot) {
                Unread::Fragment(fragment) => match fragment.kind {
                    // Patches concern the last fragment of a chunk, and this is it. An end with
                    // another packet's begin behind it need not wait for that one's patches.
                    FragmentKind::Continue if slot.flags.contains(ChunkFlags::NEEDS_PATCHING) => {
                        return Reassembly::NotYet;
                    }
                    FragmentKind::Continue => self.packet.push(fragment),
                    FragmentKind::End => {
                        self.packet.push(fragment);
                        return Reassembly::Done;
                    }
                    FragmentKind::Whole | FragmentKind::Begin if is_aborted => {
                        return Reassembly::Lost(Cause::Aborted);
                    }
                    FragmentKind::Whole | FragmentKind::Begin => {
                        return Reassembly::Lost(Cause::BrokenChain);
                    }
                },
                Unread::Corrupted => return Reassembly::Lost(Cause::Corrupted),
                // The continuation may be the very fragment that was left out.
                Unread::Nothing if slot.is_incomplete => return Reassembly::NotYet,
                // Its writer gave it up, right where it should go on.
                Unread::Nothing if slot.is_aborted => return Reassembly::Lost(Cause::Aborted),
                Unread::Nothing => {}
            }
            is_aborted |= slot.is_aborted;
            previous = chunk;
        }
        Reassembly::NotYet
    }
}
