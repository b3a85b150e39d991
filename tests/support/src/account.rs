//! The outcomes of packets, as a trace tells them.

use tracezero_core::protos::TraceDecoder;
use tracezero_core::protos::sequences::{SequenceAccountDecoder, TracePacketDecoderExt as _};

/// The outcomes of packets, over all or some sequences.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Packets that writers have begun: the sum of all others.
    pub begun: u64,
    /// Packets in the trace.
    pub read: u64,
    /// Packets in the trace that need incremental state that was lost.
    pub undecodable: u64,
    /// Packets for which there was no shared memory.
    pub dropped: u64,
    /// Packets that the ring has overwritten.
    pub overwritten: u64,
    /// Packets that the ring has overwritten, and that are part of its state.
    pub folded: u64,
    /// Packets that were lost for any other reason.
    pub otherwise_lost: u64,
    /// Packets that have not reached the buffer.
    pub in_flight: u64,
    /// Packets that wait in the buffer, or were taken out of it by a clone.
    pub elsewhere: u64,
    /// The sequences.
    pub sequence_ids: Vec<u32>,
    /// The names of the threads that write them, as far as they are known.
    pub threads: Vec<String>,
}

impl Account {
    /// Adds up the last accounts in a trace.
    #[must_use]
    pub fn of(trace: &[u8]) -> Self {
        let packets = TraceDecoder::new(trace).packet().map(Result::unwrap);
        let accounts = packets.filter_map(|packet| packet.sequence_accounts().unwrap());
        let last = accounts.last().expect("a trace ends with its statistics");
        let mut account = Self::default();
        for sequence in last.sequences() {
            account.add(&sequence.unwrap());
        }
        account
    }

    fn add(&mut self, sequence: &SequenceAccountDecoder<'_>) {
        let count = |count: Result<Option<u64>, _>| count.unwrap().unwrap_or_default();
        self.begun += count(sequence.begun());
        self.read += count(sequence.read());
        self.undecodable += count(sequence.undecodable());
        self.dropped += count(sequence.dropped());
        self.overwritten += count(sequence.overwritten());
        self.folded += count(sequence.folded());
        self.otherwise_lost += count(sequence.discarded())
            + count(sequence.late())
            + count(sequence.aborted())
            + count(sequence.corrupted())
            + count(sequence.invalid())
            + count(sequence.file_full())
            + count(sequence.write_failed());
        self.in_flight += count(sequence.in_flight());
        self.elsewhere += count(sequence.buffered()) + count(sequence.removed());
        self.sequence_ids.extend(sequence.sequence_id().unwrap());
        let name = sequence.thread_name().unwrap();
        self.threads.extend(name.map(str::to_owned));
    }
}
