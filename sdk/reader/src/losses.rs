//! Losses, as far as the trace reports them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use protozero::{DecodeError, Decoder, Value, types};
use tracezero_core::protos::sequences::{SequenceAccounts, SequenceAccountsDecoder};
use tracezero_core::protos::{TracePacket, TraceStatsDecoder};

use crate::record::Loss;

const OVERWRITTEN: &str = "overwritten";

/// The fields of an account that count lost packets, with a name for the kind of loss.
const LOST: [(u32, &str); 9] = [
    (9, "dropped"),
    (10, OVERWRITTEN),
    (11, "discarded"),
    (12, "late"),
    (13, "aborted"),
    (14, "corrupted"),
    (15, "invalid"),
    (16, "file full"),
    (17, "not written"),
];

/// The field of an account that counts packets that are part of a state.
const FOLDED: u32 = 19;

/// The maximum number of sequences whose losses are listed. The losses of further sequences are
/// counted together.
const MAX_SEQUENCES: usize = 100_000;
/// The maximum number of buffers whose losses are listed.
const MAX_BUFFERS: usize = 1000;

/// The losses of a trace, by sequence and by buffer.
///
/// Memory is bounded: at most 100,000 sequences are listed.
///
/// ```
/// use tracezero::reader::{Losses, Record, TraceReader};
/// use tracezero::{InMemorySession, instant};
///
/// let session = InMemorySession::start()?;
/// instant!("app", "started");
/// let (trace, _) = session.finish();
///
/// let mut reader = TraceReader::new(&trace[..]);
/// let mut losses = Losses::default();
/// while let Some(record) = reader.next()? {
///     match record {
///         Record::Loss(loss) => losses.add(&loss),
///         Record::Packet(packet) => losses.add_packet(packet.packet.bytes())?,
///         _ => {}
///     }
/// }
/// assert_eq!((losses.gaps(), losses.packets()), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Losses {
    sequences: BTreeMap<u32, SequenceLosses>,
    /// The number of gaps in sequences for which there was no room.
    pub further_gaps: u64,
    /// The number of packets that sequences without room lost, by the sequences' accounts.
    further_packets: u64,
    /// The number of packets that are part of states, by the accounts of all sequences.
    pub folded: u64,
    /// The losses of each buffer, from the buffers' statistics.
    pub buffers: Vec<BufferLosses>,
}

/// The losses of a sequence.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SequenceLosses {
    /// The number of places where packets are missing.
    pub gaps: u64,
    /// The index of the first packet behind a gap.
    pub first_packet: Option<u64>,
    /// The reasons for the losses: the union of all bits.
    pub bits: u32,
    /// The names of the reasons.
    pub causes: Vec<&'static str>,
    /// The numbers of lost packets by kind of loss, from the sequence's account, if the trace has
    /// one.
    pub packets: Vec<(&'static str, u64)>,
    /// The name of the thread, from the sequence's account.
    pub thread_name: String,
    /// True if packets are missing that are part of a state. The packet behind them reports a gap.
    has_folded: bool,
}

/// The losses of a buffer, from the trace's statistics.
#[derive(Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferLosses {
    /// The number of chunks that newer ones have overwritten.
    pub chunks_overwritten: u64,
    /// The number of chunks for which there was no room.
    pub chunks_discarded: u64,
    /// The number of times that writers reported a loss.
    pub writer_packets_lost: u64,
}

impl Losses {
    /// The number of the packet field that holds the accounts of sequences: counts of written and lost
    /// packets. Only this SDK writes the field.
    pub const ACCOUNTS_FIELD_NUMBER: u32 = 1990;

    /// Adds what an encoded packet tells of losses: accounts of sequences, and statistics of buffers. Later
    /// ones replace earlier ones, whose counts they include.
    ///
    /// # Errors
    ///
    /// If an account or the statistics are malformed.
    pub fn add_packet(&mut self, packet: &[u8]) -> Result<(), DecodeError> {
        for field in Decoder::new(packet).fields() {
            let field = field?;
            match (field.number, field.value) {
                (TracePacket::TRACE_STATS_FIELD_NUMBER, Value::Bytes(stats)) => {
                    self.set_stats(stats)?;
                }
                (Self::ACCOUNTS_FIELD_NUMBER, Value::Bytes(accounts)) => {
                    self.set_accounts(accounts)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds a loss.
    pub fn add(&mut self, loss: &Loss) {
        let Some(sequence) = self.sequence(loss.sequence_id) else {
            self.further_gaps += 1;
            return;
        };
        sequence.gaps += 1;
        sequence.first_packet.get_or_insert(loss.place.index);
        if sequence.bits | loss.bits != sequence.bits {
            sequence.bits |= loss.bits;
            let mut all = *loss;
            all.bits = sequence.bits;
            sequence.causes = all.causes().collect();
        }
    }

    /// Returns the losses of a sequence so far; `None` if there is no room for it.
    fn sequence(&mut self, id: u32) -> Option<&mut SequenceLosses> {
        let is_full = self.sequences.len() >= MAX_SEQUENCES;
        match self.sequences.entry(id) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(_) if is_full => None,
            Entry::Vacant(place) => Some(place.insert(SequenceLosses::default())),
        }
    }

    /// Returns the sequences that lost anything.
    pub fn lossy(&self) -> impl Iterator<Item = (&u32, &SequenceLosses)> {
        let sequences = self.sequences.iter();
        sequences.filter(|(_, sequence)| sequence.has_lost())
    }

    fn set_accounts(&mut self, payload: &[u8]) -> Result<(), DecodeError> {
        for sequence in &mut self.sequences.values_mut() {
            sequence.packets.clear();
            sequence.has_folded = false;
        }
        (self.further_packets, self.folded) = (0, 0);
        let accounts = SequenceAccountsDecoder::new(payload).sequences();
        let encoded = Decoder::new(payload)
            .repeated::<types::Bytes>(SequenceAccounts::SEQUENCES_FIELD_NUMBER);
        for (account, encoded) in accounts.zip(encoded) {
            let (account, encoded) = (account?, Decoder::new(encoded?));
            let mut packets = Vec::new();
            for (number, fate) in LOST {
                let count = encoded.last::<types::Uint64>(number)?.unwrap_or_default();
                packets.extend((count > 0).then_some((fate, count)));
            }
            let id = account.sequence_id()?.unwrap_or_default();
            let folded = encoded.last::<types::Uint64>(FOLDED)?.unwrap_or_default();
            self.folded = self.folded.saturating_add(folded);
            if folded > 0
                && let Some(sequence) = self.sequences.get_mut(&id)
            {
                sequence.has_folded = true;
            }
            if packets.is_empty() {
                continue;
            }
            let Some(sequence) = self.sequence(id) else {
                self.further_packets = self.further_packets.saturating_add(sum(&packets));
                continue;
            };
            sequence.has_folded |= folded > 0;
            sequence.thread_name = account.thread_name()?.unwrap_or_default().to_owned();
            // A sequence has an account for each buffer that it was written to.
            sequence.packets.extend(packets);
        }
        Ok(())
    }

    fn set_stats(&mut self, payload: &[u8]) -> Result<(), DecodeError> {
        self.buffers.clear();
        let buffers = TraceStatsDecoder::new(payload).buffer_stats();
        for buffer in buffers.take(MAX_BUFFERS) {
            let buffer = buffer?;
            self.buffers.push(BufferLosses {
                chunks_overwritten: buffer.chunks_overwritten()?.unwrap_or_default(),
                chunks_discarded: buffer.chunks_discarded()?.unwrap_or_default(),
                writer_packets_lost: buffer.trace_writer_packet_loss()?.unwrap_or_default(),
            });
        }
        Ok(())
    }

    /// Removes the packets that were overwritten, and returns their number. Those that should be part of a
    /// state stay, because it lacks them.
    pub fn take_overwritten(&mut self) -> u64 {
        let mut taken = 0_u64;
        let sequences = self.sequences.values_mut();
        for sequence in sequences.filter(|sequence| !sequence.has_folded) {
            let of_kind = sequence
                .packets
                .extract_if(.., |(kind, _)| *kind == OVERWRITTEN);
            taken = of_kind.fold(taken, |sum, (_, count)| sum.saturating_add(count));
        }
        taken
    }

    /// Returns the number of packets that are known to be lost. There may be more, because not
    /// every producer counts them.
    #[must_use]
    pub fn packets(&self) -> u64 {
        let lost = self.sequences.values().map(SequenceLosses::packets_lost);
        lost.fold(self.further_packets, u64::saturating_add)
    }

    /// Returns the number of places where packets are missing.
    #[must_use]
    pub fn gaps(&self) -> u64 {
        let gaps = self.lossy().map(|(_, sequence)| sequence.gaps);
        self.further_gaps + gaps.sum::<u64>()
    }
}

impl SequenceLosses {
    fn has_lost(&self) -> bool {
        !self.packets.is_empty() || self.gaps > 0 && !self.has_folded
    }

    /// Returns the number of lost packets, from the sequence's accounts.
    #[must_use]
    pub fn packets_lost(&self) -> u64 {
        sum(&self.packets)
    }
}

/// Adds counts without overflow: a trace may claim any numbers.
fn sum(packets: &[(&str, u64)]) -> u64 {
    let counts = packets.iter().map(|(_, count)| *count);
    counts.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_loss_counts_do_not_overflow() {
        // Sequence 2, "dropped" and "overwritten": all ones.
        let mut account = vec![0x08, 2];
        for tag in [9 << 3, 10 << 3] {
            account.push(tag);
            account.extend([0xff; 9]);
            account.push(0x01);
        }
        let mut payload = vec![0x0a, account.len() as u8];
        payload.extend(account);
        let mut losses = Losses::default();
        losses.set_accounts(&payload).unwrap();
        assert_eq!(losses.packets(), u64::MAX);
    }

    #[test]
    fn gaps_beyond_the_sequence_limit_are_counted_together() {
        let mut losses = Losses::default();
        for sequence_id in (0..MAX_SEQUENCES as u32 + 2).chain([7]) {
            losses.add(&Loss {
                sequence_id,
                bits: 1,
                ..Loss::default()
            });
        }
        assert_eq!(losses.lossy().count(), MAX_SEQUENCES);
        assert_eq!(losses.further_gaps, 2);
        assert_eq!(losses.gaps(), MAX_SEQUENCES as u64 + 3);
    }
}
