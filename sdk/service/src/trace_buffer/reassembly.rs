//! Puts a packet together from fragments in several chunks.
//!
//! Only the last fragment of a chunk can need patches. So a packet waits for patches only if its
//! own fragment is the last one. Perfetto's own buffer also holds back a packet whose end lies in a
//! chunk that waits for patches. There, a thread in the middle of a long packet holds back earlier
//! packets that are whole already.

use tracezero_core::shm::layout::ChunkFlags;

use super::fragment::FragmentKind;
use super::packet_reader::Purpose;
use super::ring::{Fragment, Unread};
use super::sequence::SequenceIndex;
use super::{LossMask, TraceBuffer};

/// The outcome of a reassembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reassembly {
    /// The packet is complete.
    Done,
    /// Patches or fragments are missing that may still come.
    NotYet,
    /// The packet can never be completed.
    Lost(Cause),
}

/// The reason why a packet that was begun can never be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Chunk ids are missing where the packet's next fragment should be.
    Gap,
    /// The bytes where the packet's next fragment should be are not a fragment.
    Corrupted,
    /// The next fragment begins another packet.
    BrokenChain,
    /// The writer gave up this packet, or ended in the middle of it. The next fragment, if there is one,
    /// begins another packet.
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
    /// Collects the fragments of a packet in `self.packet`. `begin` is its first fragment, and the
    /// next unread fragment of the oldest chunk of the sequence. Consumes the collected fragments,
    /// unless the rest may still come and the purpose is to read.
    pub(super) fn reassemble(
        &mut self,
        sequence: SequenceIndex,
        begin: Fragment,
        purpose: Purpose,
    ) -> Reassembly {
        self.packet.clear();
        self.packet.push(begin);
        let mut outcome = self.collect_continuations(sequence);
        if outcome == Reassembly::NotYet && self.sequences.account(sequence).has_ended {
            outcome = Reassembly::Lost(Cause::Aborted);
        }
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
                    // Missing patches belong to the last fragment of a chunk. A `Continue` is the
                    // only fragment of its chunk. An `End` needs no patches: if its chunk does,
                    // they belong to a packet that begins behind the `End`.
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
                // The next fragment may be the one that was left out of the incomplete chunk.
                Unread::Nothing if slot.is_incomplete => return Reassembly::NotYet,
                // The writer gave up the packet where it should continue.
                Unread::Nothing if slot.is_aborted => return Reassembly::Lost(Cause::Aborted),
                Unread::Nothing => {}
            }
            is_aborted |= slot.is_aborted;
            previous = chunk;
        }
        Reassembly::NotYet
    }
}
