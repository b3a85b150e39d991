//! Reads packets: walks over the slots of the buffer, and for each chunk over its sequence.

use std::fmt;
use std::iter::FusedIterator;

use tracezero_core::ids::{ProducerId, WriterId};

use super::account::Account;
use super::chunk_queue::QueuedChunk;
use super::fragment::FragmentKind;
use super::fragment::{Token, token_at};
use super::reassembly::{Cause, Reassembly};
use super::ring::{self, Fragment, Ring, Unread};
use super::sequence::SequenceIndex;
use super::slot::SlotId;
use super::{ClientIdentity, LossMask, TraceBuffer};

/// The purpose for which packets are consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To return them to a reader, which waits for fragments and patches that may still come.
    Read,
    /// To make room at once.
    Evict,
}

/// The progress of a read cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadCycle {
    /// The slot that is being visited.
    visited: SlotId,
    /// The end of the slots to visit, exclusive.
    end: SlotId,
}

/// A moment in the life of a buffer. It separates what was in the buffer then from what came later.
///
/// A read can be limited to what came before a mark. So it ends however fast writers are.
/// `trace_reader.rs` and `sdk/tests/flight_recorder/snapshots.rs` have the tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// The first slot that came later.
    slot: SlotId,
    /// The number of bytes written until then.
    pub(crate) bytes_written: u64,
}

impl Mark {
    pub(super) fn is_before(self, slot: SlotId) -> bool {
        slot.is_at_or_behind(self.slot)
    }
}

/// The outcome of consuming a fragment.
enum FragmentOutcome {
    /// A packet was completed. It is in `TraceBuffer::packet`.
    Packet,
    /// The fragment was consumed without completing a packet.
    Nothing,
    /// The rest of the packet may still come, so the sequence waits for it.
    Stalled,
}

impl TraceBuffer {
    /// Starts a read cycle at the oldest chunk. Stalled sequences are tried again.
    pub fn begin_read(&mut self) {
        self.read_cycles += 1;
        self.cycle = Some(ReadCycle {
            visited: self.ring.first_held(),
            end: self.ring.end(),
        });
    }

    /// Returns the next packet of this read cycle.
    ///
    /// Returns `None` at the end of the cycle, and if the buffer was written to since
    /// [`begin_read`](Self::begin_read). Then start another cycle, which continues where this one
    /// stopped.
    pub fn read_packet(&mut self) -> Option<Packet<'_>> {
        let sequence = self.advance()?;
        if let Some(last) = self.packet.last() {
            self.ring.warm_up_behind(last);
        }
        let loss = self.sequences[sequence].take_losses();
        Some(Packet::new(
            &self.ring,
            &self.packet,
            self.sequences.account(sequence),
            loss,
        ))
    }

    /// Does [`read_packet`](Self::read_packet), but repeats the second fragment of the packet, so that
    /// it has this many. Tests make large packets with it that take little memory.
    #[cfg(test)]
    pub(crate) fn read_packet_repeating(&mut self, times: usize) -> Option<Packet<'_>> {
        let sequence = self.advance()?;
        let second = std::iter::repeat_n(self.packet[1], times);
        self.packet.splice(1..2, second);
        let loss = self.sequences[sequence].take_losses();
        let account = self.sequences.account(sequence);
        Some(Packet::new(&self.ring, &self.packet, account, loss))
    }

    /// Returns the next packets of this read cycle: a run of whole packets in one chunk, or a
    /// single packet. Packets, order and end are the same as with
    /// [`read_packet`](Self::read_packet).
    pub fn read_packets(&mut self) -> Option<Packets<'_>> {
        let mut cycle = self.cycle?;
        while cycle.visited != cycle.end {
            if let Some(sequence) = self.ring.slot(cycle.visited).sequence
                && self.sequences[sequence].stalled_in_cycle != self.read_cycles
            {
                if let Some(run) = self.take_run(sequence) {
                    self.cycle = Some(cycle);
                    return Some(Packets::Run(self.run(sequence, &run)));
                }
                if self.next_packet(sequence, cycle.visited, Purpose::Read) {
                    self.cycle = Some(cycle);
                    let loss = self.sequences[sequence].take_losses();
                    let account = self.sequences.account(sequence);
                    let packet = Packet::new(&self.ring, &self.packet, account, loss);
                    return Some(Packets::One(packet));
                }
            }
            cycle.visited = cycle.visited.next();
        }
        self.cycle = Some(cycle);
        None
    }

    /// Consumes the run of whole packets at the front of a sequence, if there is one.
    #[inline]
    fn take_run(&mut self, sequence: SequenceIndex) -> Option<ring::Run> {
        let front = self.sequences[sequence].front()?;
        let run = self.ring.next_run(front.slot)?;
        self.reach_front(sequence, front);
        if let Some(size_bytes) = self.ring.consume_run(&run) {
            self.stats.chunks_read += 1;
            self.stats.bytes_read += u64::from(size_bytes);
        }
        self.sequences.account_mut(sequence).counts.read += u64::from(run.packets);
        Some(run)
    }

    #[inline]
    fn run(&mut self, sequence: SequenceIndex, run: &ring::Run) -> Run<'_> {
        let loss = self.sequences[sequence].take_losses();
        let account = self.sequences.account(sequence);
        Run {
            bytes: self.ring.run_bytes(run),
            origin: Origin::of(account),
            loss,
        }
    }

    /// Returns a mark of the present moment.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            slot: self.ring.end(),
            bytes_written: self.stats.bytes_written,
        }
    }

    /// Returns true if this read cycle has visited everything that was there at `mark`.
    pub(crate) fn has_read_until(&self, mark: Mark) -> bool {
        self.cycle
            .is_some_and(|cycle| mark.is_before(cycle.visited))
    }

    /// Walks over the buffer until a packet is in `self.packet`. Returns its sequence.
    fn advance(&mut self) -> Option<SequenceIndex> {
        let mut cycle = self.cycle?;
        while cycle.visited != cycle.end {
            if let Some(sequence) = self.ring.slot(cycle.visited).sequence
                && self.sequences[sequence].stalled_in_cycle != self.read_cycles
                && self.next_packet(sequence, cycle.visited, Purpose::Read)
            {
                self.cycle = Some(cycle);
                return Some(sequence);
            }
            cycle.visited = cycle.visited.next();
        }
        self.cycle = Some(cycle);
        None
    }

    /// Walks over a sequence, from its oldest chunk to the one in the slot `last`, until a packet
    /// is in `self.packet`. Returns whether there is one. Fragments on the way are consumed, and
    /// chunks with nothing left are released.
    pub(super) fn next_packet(
        &mut self,
        sequence: SequenceIndex,
        last: SlotId,
        purpose: Purpose,
    ) -> bool {
        while let Some(front) = self.sequences[sequence].front() {
            self.reach_front(sequence, front);
            match self.ring.next_unread(front.slot) {
                Unread::Fragment(fragment) => {
                    match self.take_fragment(sequence, front, fragment, purpose) {
                        FragmentOutcome::Packet => return true,
                        FragmentOutcome::Nothing => {}
                        FragmentOutcome::Stalled => return false,
                    }
                }
                Unread::Nothing | Unread::Corrupted
                    if purpose == Purpose::Read && self.ring.slot(front.slot).is_incomplete =>
                {
                    self.sequences[sequence].stalled_in_cycle = self.read_cycles;
                    return false;
                }
                unread => {
                    if matches!(unread, Unread::Corrupted) {
                        self.sequences[sequence].add_loss(front.id, LossMask::CHUNK_CORRUPTED);
                    }
                    self.leave_front(sequence, front);
                    if front.slot == last {
                        return false;
                    }
                }
            }
        }
        false
    }

    /// Handles the next unread fragment of a sequence.
    #[inline]
    fn take_fragment(
        &mut self,
        sequence: SequenceIndex,
        front: QueuedChunk,
        fragment: Fragment,
        purpose: Purpose,
    ) -> FragmentOutcome {
        match fragment.kind {
            FragmentKind::Whole => {
                self.consume(&fragment, purpose);
                if !fragment.counts_as_packet() {
                    return FragmentOutcome::Nothing;
                }
                self.packet.clear();
                self.packet.push(fragment);
            }
            FragmentKind::Continue | FragmentKind::End => {
                self.consume(&fragment, purpose);
                self.sequences[sequence].add_loss(front.id, LossMask::ORPHAN_CONTINUATION);
                return FragmentOutcome::Nothing;
            }
            FragmentKind::Begin => match self.reassemble(sequence, fragment, purpose) {
                Reassembly::Done => {}
                Reassembly::NotYet => match purpose {
                    Purpose::Read => {
                        self.sequences[sequence].stalled_in_cycle = self.read_cycles;
                        return FragmentOutcome::Stalled;
                    }
                    Purpose::Evict => {
                        self.sequences.account_mut(sequence).hot.overwritten += 1;
                        self.sequences[sequence].add_loss(front.id, LossMask::OVERWRITE);
                        self.list_losing_writer(sequence);
                        return FragmentOutcome::Nothing;
                    }
                },
                Reassembly::Lost(cause) => {
                    self.sequences[sequence].add_loss(front.id, cause.mask());
                    let counts = &mut self.sequences.account_mut(sequence).counts;
                    *match cause {
                        Cause::Gap => &mut counts.gap,
                        Cause::Corrupted => &mut counts.corrupted,
                        Cause::BrokenChain => &mut counts.broken_chain,
                        Cause::Aborted => &mut counts.aborted,
                    } += 1;
                    self.list_losing_writer(sequence);
                    return FragmentOutcome::Nothing;
                }
            },
        }
        let account = self.sequences.account_mut(sequence);
        match purpose {
            Purpose::Read => account.counts.read += 1,
            Purpose::Evict => account.hot.overwritten += 1,
        }
        FragmentOutcome::Packet
    }

    /// Checks for a gap before the oldest chunk. Call this before consuming any of that chunk.
    #[inline]
    pub(super) fn reach_front(&mut self, sequence: SequenceIndex, front: QueuedChunk) {
        let slot = self.ring.slot_mut(front.slot);
        if !slot.is_gap_checked {
            slot.is_gap_checked = true;
            self.sequences[sequence].check_gap(front.id);
        }
    }

    /// Releases the oldest chunk of a sequence, when nothing more of it can be consumed.
    #[inline]
    pub(super) fn leave_front(&mut self, sequence: SequenceIndex, front: QueuedChunk) {
        let slot = self.ring.slot(front.slot);
        if slot.is_aborted {
            self.sequences[sequence].add_loss(front.id, LossMask::WRITER_ABORT);
        }
        // Nonzero only if a patch has destroyed the chunk.
        let unreadable = slot.unread_packets;
        if unreadable != 0 {
            self.sequences.account_mut(sequence).counts.corrupted += u64::from(unreadable);
            self.list_losing_writer(sequence);
        }
        self.release(sequence, front.slot);
    }

    /// Consumes a fragment.
    #[inline]
    pub(super) fn consume(&mut self, fragment: &Fragment, purpose: Purpose) {
        if let Some(size_bytes) = self.ring.consume(fragment) {
            let (chunks, bytes) = match purpose {
                Purpose::Read => (&mut self.stats.chunks_read, &mut self.stats.bytes_read),
                Purpose::Evict => (
                    &mut self.stats.chunks_overwritten,
                    &mut self.stats.bytes_overwritten,
                ),
            };
            *chunks += 1;
            *bytes += u64::from(size_bytes);
        }
    }
}

/// The packets that [`TraceBuffer::read_packets`] returns.
#[derive(Clone, Copy, Debug)]
pub enum Packets<'a> {
    /// A packet with fragments in several chunks, or a packet that is not part of a run for another
    /// reason.
    One(Packet<'a>),
    /// A run of whole packets in one chunk.
    Run(Run<'a>),
}

/// The writer of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The producer that the writer belongs to.
    pub producer_id: ProducerId,
    /// The writer. Its id is unique within the producer.
    pub writer_id: WriterId,
    /// The user and the process of the producer.
    pub client: ClientIdentity,
}

impl Origin {
    #[inline]
    fn of(account: &Account) -> Self {
        Self {
            producer_id: account.hot.producer_id,
            writer_id: account.hot.writer_id,
            client: account.hot.client,
        }
    }
}

/// A run: consecutive whole packets of one sequence in one chunk, still in the memory of the
/// buffer.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    bytes: &'a [u8],
    origin: Origin,
    loss: LossMask,
}

impl<'a> Run<'a> {
    /// Returns the bytes of all packets, each behind its size as a varint. [`split_first_packet`]
    /// splits them.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the writer of the packets.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns what was lost between the previous packet of this sequence and the first packet of
    /// the run.
    #[must_use]
    pub fn loss(&self) -> LossMask {
        self.loss
    }
}

/// Splits the bytes of a [`Run`] into the first packet and the bytes behind it. Skips fragments
/// without bytes, because they are not packets.
#[inline]
#[must_use]
pub fn split_first_packet(run: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    // The bytes of a run consist of fragments only.
    while let Token::Fragment { start, end } = token_at(run, at) {
        if start != end {
            return Some((&run[start..end], &run[end..]));
        }
        at = end;
    }
    None
}

/// A whole packet, still in the memory of the buffer: one slice of bytes for each fragment.
///
/// The bytes are as the writer wrote them. They may not be a valid message.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    ring: &'a Ring,
    fragments: &'a [Fragment],
    origin: Origin,
    loss: LossMask,
}

impl<'a> Packet<'a> {
    #[inline]
    pub(super) fn new(
        ring: &'a Ring,
        fragments: &'a [Fragment],
        account: &Account,
        loss: LossMask,
    ) -> Self {
        Self {
            ring,
            fragments,
            origin: Origin::of(account),
            loss,
        }
    }

    /// Returns the bytes as slices, in order. No slice is empty. A packet without bytes has no
    /// slices.
    #[must_use]
    pub fn slices(&self) -> Slices<'a> {
        Slices {
            ring: self.ring,
            fragments: self.fragments.iter(),
        }
    }

    /// Returns the size of the packet in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.fragments
            .iter()
            .map(|fragment| fragment.len_bytes as usize)
            .sum()
    }

    /// Returns the writer of the packet.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns what was lost between the previous packet of this sequence and this one.
    #[must_use]
    pub fn loss(&self) -> LossMask {
        self.loss
    }
}

impl fmt::Debug for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet")
            .field("origin", &self.origin)
            .field("loss", &self.loss)
            .field("slices", &self.slices())
            .finish()
    }
}

/// An iterator over the slices of a [`Packet`].
#[derive(Clone)]
pub struct Slices<'a> {
    ring: &'a Ring,
    fragments: std::slice::Iter<'a, Fragment>,
}

impl<'a> Iterator for Slices<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let fragment = self.fragments.find(|fragment| fragment.len_bytes != 0)?;
        Some(self.ring.bytes(fragment))
    }
}

impl FusedIterator for Slices<'_> {}

impl fmt::Debug for Slices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
