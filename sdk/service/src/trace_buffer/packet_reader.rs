//! Reads packets: the walk over the buffer, and inside it the walk over a sequence.

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

/// What packets are taken out of their chunks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// For a reader, who waits for what may still come.
    Read,
    /// To make room, now.
    Evict,
}

/// How far a read cycle has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadCycle {
    /// The slot that is being visited.
    visited: SlotId,
    /// Behind the last slot to visit.
    end: SlotId,
}

/// A moment in the life of a buffer: what was in it then lies before, what comes later behind.
///
/// A reading of a part goes on until its mark: it sees all that was there at its begin, and ends however fast
/// writers are. `trace_reader.rs` and `sdk/tests/flight_recorder/snapshots.rs` have the tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// The first slot behind.
    slot: SlotId,
    /// What was written so far.
    pub(crate) bytes_written: u64,
}

impl Mark {
    pub(super) fn is_before(self, slot: SlotId) -> bool {
        slot.is_at_or_behind(self.slot)
    }
}

/// What came of a fragment.
enum Taken {
    /// A packet; it is in `TraceBuffer::packet`.
    Packet,
    /// The fragment was consumed without one.
    Nothing,
    /// Its packet may come later: the sequence waits for it.
    Stalled,
}

impl TraceBuffer {
    /// Starts a read cycle at the oldest chunk. Sequences that had to wait get another try.
    pub fn begin_read(&mut self) {
        self.read_cycles += 1;
        self.cycle = Some(ReadCycle {
            visited: self.ring.first_held(),
            end: self.ring.end(),
        });
    }

    /// The next packet of this read cycle.
    ///
    /// Returns `None` at its end, and if the buffer was written to since
    /// [`begin_read`](Self::begin_read): then start another cycle, which goes on where this one
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

    /// The next packets of this read cycle: as many as lie whole, one behind the other, in a chunk,
    /// or one that does not. The packets and their order are those of
    /// [`read_packet`](Self::read_packet), and so is the end.
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

    /// Consumes the whole packets at the front of a sequence.
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

    /// This moment.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            slot: self.ring.end(),
            bytes_written: self.stats.bytes_written,
        }
    }

    /// Whether this read cycle has visited all that was there at `mark`.
    pub(crate) fn has_read_until(&self, mark: Mark) -> bool {
        self.cycle
            .is_some_and(|cycle| mark.is_before(cycle.visited))
    }

    /// Walks over the buffer until there is a packet in `self.packet`; returns its sequence.
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

    /// Walks over a sequence, from its oldest chunk up to the one in the slot `last`, until there
    /// is a packet in `self.packet`; returns whether there is. What was passed is consumed, and
    /// chunks that have nothing left are released.
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
                        Taken::Packet => return true,
                        Taken::Nothing => {}
                        Taken::Stalled => return false,
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

    /// Deals with the next unread fragment of a sequence.
    #[inline]
    fn take_fragment(
        &mut self,
        sequence: SequenceIndex,
        front: QueuedChunk,
        fragment: Fragment,
        purpose: Purpose,
    ) -> Taken {
        match fragment.kind {
            FragmentKind::Whole => {
                self.consume(&fragment, purpose);
                if !fragment.counts_as_packet() {
                    return Taken::Nothing;
                }
                self.packet.clear();
                self.packet.push(fragment);
            }
            FragmentKind::Continue | FragmentKind::End => {
                self.consume(&fragment, purpose);
                self.sequences[sequence].add_loss(front.id, LossMask::ORPHAN_CONTINUATION);
                return Taken::Nothing;
            }
            FragmentKind::Begin => match self.reassemble(sequence, fragment, purpose) {
                Reassembly::Done => {}
                Reassembly::NotYet => match purpose {
                    Purpose::Read => {
                        self.sequences[sequence].stalled_in_cycle = self.read_cycles;
                        return Taken::Stalled;
                    }
                    Purpose::Evict => {
                        self.sequences.account_mut(sequence).hot.overwritten += 1;
                        self.sequences[sequence].add_loss(front.id, LossMask::OVERWRITE);
                        self.list_losing_writer(sequence);
                        return Taken::Nothing;
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
                    return Taken::Nothing;
                }
            },
        }
        let account = self.sequences.account_mut(sequence);
        match purpose {
            Purpose::Read => account.counts.read += 1,
            Purpose::Evict => account.hot.overwritten += 1,
        }
        Taken::Packet
    }

    /// To be called before the oldest chunk of a sequence is consumed.
    #[inline]
    pub(super) fn reach_front(&mut self, sequence: SequenceIndex, front: QueuedChunk) {
        let slot = self.ring.slot_mut(front.slot);
        if !slot.is_gap_checked {
            slot.is_gap_checked = true;
            self.sequences[sequence].check_gap(front.id);
        }
    }

    /// Releases the oldest chunk of a sequence, of which nothing more can be consumed.
    #[inline]
    pub(super) fn leave_front(&mut self, sequence: SequenceIndex, front: QueuedChunk) {
        let slot = self.ring.slot(front.slot);
        if slot.is_aborted {
            self.sequences[sequence].add_loss(front.id, LossMask::WRITER_ABORT);
        }
        // Only in a chunk that a patch destroyed.
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

/// What [`TraceBuffer::read_packets`] returns.
#[derive(Clone, Copy, Debug)]
pub enum Packets<'a> {
    /// A packet whose fragments lie in several chunks, or that stands alone for another reason.
    One(Packet<'a>),
    /// Packets that lie whole in one chunk.
    Run(Run<'a>),
}

/// Who wrote a packet.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The producer that the writer belongs to.
    pub producer_id: ProducerId,
    /// The writer, by an id that is its own within the producer.
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

/// Packets of one sequence that lie whole in one chunk, still in the memory of the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    bytes: &'a [u8],
    origin: Origin,
    loss: LossMask,
}

impl<'a> Run<'a> {
    /// The bytes of all packets, each behind its size as a varint. [`split_first_packet`] takes
    /// them apart.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Who wrote the packets.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// What was lost between the packet that came before in this sequence and the first of these.
    #[must_use]
    pub fn loss(&self) -> LossMask {
        self.loss
    }
}

/// The first packet of the bytes of a [`Run`], and the bytes behind it. Fragments without bytes are no
/// packets.
#[inline]
#[must_use]
pub fn split_first_packet(run: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    // A buffer makes runs of nothing but fragments.
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
/// The bytes are what the writer wrote; whether they are a valid message was not looked at.
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

    /// The bytes, in order. No slice is empty; a packet without bytes has none.
    #[must_use]
    pub fn slices(&self) -> Slices<'a> {
        Slices {
            ring: self.ring,
            fragments: self.fragments.iter(),
        }
    }

    /// How many bytes the packet has.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.fragments
            .iter()
            .map(|fragment| fragment.len_bytes as usize)
            .sum()
    }

    /// Who wrote the packet.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// What was lost between the packet that came before in this sequence and this one.
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

/// The slices of a [`Packet`].
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
