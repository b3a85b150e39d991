//! What was lost, as far as the trace says.

use std::collections::BTreeMap;

use protozero::{DecodeError, Decoder, types};
use tracezero::protos::TraceStatsDecoder;
use tracezero::protos::sequences::{SequenceAccounts, SequenceAccountsDecoder};
use tracezero::reader::Loss;

/// Fields of an account that count lost packets, with what became of them.
const LOST: [(u32, &str); 8] = [
    (9, "dropped"),
    (10, "overwritten"),
    (11, "discarded"),
    (12, "late"),
    (13, "aborted"),
    (14, "corrupted"),
    (15, "invalid"),
    (16, "file full"),
];

/// Losses by sequence and by buffer.
#[derive(Debug, Default)]
pub(super) struct Losses {
    pub(super) sequences: BTreeMap<u32, SequenceLosses>,
    /// Packets that the buffers' statistics call lost, by buffer.
    pub(super) buffers: Vec<BufferLosses>,
}

/// What a sequence lost.
#[derive(Debug, Default)]
pub(super) struct SequenceLosses {
    /// Places where something is missing.
    pub(super) gaps: u64,
    /// Index of the first packet behind a gap.
    pub(super) first_packet: Option<u64>,
    /// Why: all bits that came.
    pub(super) bits: u32,
    pub(super) causes: Vec<&'static str>,
    /// The sequence's account, for traces that have one: packets by what became of them.
    pub(super) packets: Vec<(&'static str, u64)>,
    pub(super) thread_name: String,
}

/// What a buffer lost, in the words of the trace's statistics.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BufferLosses {
    pub(super) chunks_overwritten: u64,
    pub(super) chunks_discarded: u64,
    pub(super) writer_packets_lost: u64,
}

impl Losses {
    pub(super) fn add(&mut self, loss: &Loss) {
        let sequence = self.sequences.entry(loss.sequence_id).or_default();
        sequence.gaps += 1;
        sequence.first_packet.get_or_insert(loss.place.index);
        if sequence.bits | loss.bits != sequence.bits {
            sequence.bits |= loss.bits;
            let all = Loss {
                bits: sequence.bits,
                ..*loss
            };
            sequence.causes = all.causes().collect();
        }
    }

    /// Takes over the accounts of sequences: later ones go on where earlier ones were.
    pub(super) fn set_accounts(&mut self, payload: &[u8]) -> Result<(), DecodeError> {
        for sequence in &mut self.sequences.values_mut() {
            sequence.packets.clear();
        }
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
            if packets.is_empty() {
                continue;
            }
            let id = account.sequence_id()?.unwrap_or_default();
            let sequence = self.sequences.entry(id).or_default();
            sequence.thread_name = account.thread_name()?.unwrap_or_default().to_owned();
            sequence.packets = packets;
        }
        Ok(())
    }

    pub(super) fn set_stats(&mut self, payload: &[u8]) -> Result<(), DecodeError> {
        self.buffers.clear();
        for buffer in TraceStatsDecoder::new(payload).buffer_stats() {
            let buffer = buffer?;
            self.buffers.push(BufferLosses {
                chunks_overwritten: buffer.chunks_overwritten()?.unwrap_or_default(),
                chunks_discarded: buffer.chunks_discarded()?.unwrap_or_default(),
                writer_packets_lost: buffer.trace_writer_packet_loss()?.unwrap_or_default(),
            });
        }
        Ok(())
    }

    /// Packets that are known to be lost. There may be more: not every producer counts them.
    pub(super) fn packets(&self) -> u64 {
        self.sequences
            .values()
            .map(SequenceLosses::packets_lost)
            .sum()
    }

    pub(super) fn gaps(&self) -> u64 {
        self.sequences.values().map(|sequence| sequence.gaps).sum()
    }
}

impl SequenceLosses {
    pub(super) fn packets_lost(&self) -> u64 {
        self.packets.iter().map(|(_, count)| count).sum()
    }
}
