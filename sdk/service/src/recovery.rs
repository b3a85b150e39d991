//! Writes the trace of a session from its crash files.
//!
//! The caller has read the crash files (package `tracezero-crash`), and has committed the chunks in
//! them to new trace buffers. From there on, they are read like the buffers of a clone.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use super::central_buffer::{CentralBuffer, TakenBuffer};
use super::recovered_states::RecoveredStates;
use super::sequence_account::SequenceAccount;
use super::sequence_accounts::sequence_accounts;
use super::service_packets::{ServicePackets, encode_packets_at};
use super::trace_buffer::{BufferStats, TraceBuffer};
use super::trace_reader::{Extent, Pass, TraceReader};
use super::trace_stats::TraceStats;
use protozero::Decoder;
use tracezero_config::{LocalChoices, SessionConfig};
use tracezero_core::coordination::WriterTotals;
use tracezero_core::ids::{BufferId, ProducerId, WriterId};
use tracezero_core::protos::TraceDecoder;
use tracezero_core::protos::sequences::TracePacketDecoderExt as _;
use tracezero_core::protos::sequences::recording_boundary::Kind as BoundaryKind;

/// A trace buffer of the process that has recorded.
#[derive(Debug)]
pub struct RecoveredBuffer {
    /// A buffer with the chunks that were found.
    pub buffer: TraceBuffer,
    /// The writers of the buffer, with what they counted.
    pub writers: Vec<(ProducerId, WriterTotals)>,
    /// True if the ring had overwritten packets.
    pub has_evicted: bool,
    /// True if the buffer was full and discarded packets.
    pub is_sealed: bool,
    /// The ids that sequences have in the trace file that the recovered trace begins with.
    pub sequence_ids: Vec<(WriterId, u32)>,
    /// The states of what the ring has overwritten; none if the trace file has them.
    pub states: RecoveredStates,
}

/// The state of a recording when its crash files were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingState {
    /// The process was killed.
    EndedByKill,
    /// The process still records: the trace is a copy.
    Continues,
}

/// The content of a recovered trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveredCounts {
    /// The number of packets of writers.
    pub packets: u64,
    /// The number of track events.
    pub events: u64,
    /// The accounts of all sequences.
    pub sequences: Vec<SequenceAccount>,
}

/// The service's own packets in the crash files of a session.
#[derive(Clone, Copy, Debug)]
pub struct Preamble<'a> {
    /// The packets.
    pub packets: &'a [u8],
    /// True if the trace file that the recovered trace begins with has those of the begin.
    pub has_begun: bool,
}

/// Writes a trace: the packets in `preamble`, those in the buffers, and statistics. Calls `take`
/// with batches of packets. `producer_id` is that of the only producer.
///
/// # Errors
///
/// If `take` fails.
#[expect(clippy::missing_panics_doc, reason = "an empty configuration is valid")]
pub fn write_recovered<E>(
    producer_id: ProducerId,
    preamble: Preamble<'_>,
    buffers: Vec<RecoveredBuffer>,
    state: RecordingState,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<RecoveredCounts, E> {
    let lost_by: Vec<LostBy> = buffers.iter().map(LostBy::of).collect();
    let counted = buffers
        .iter()
        .map(|it| it.states.counted_writers().collect());
    let counted: Vec<Vec<WriterId>> = counted.collect();
    let sequence_ids = buffers.iter().flat_map(|buffer| &buffer.sequence_ids);
    let sequence_ids: Vec<(WriterId, u32)> = sequence_ids.copied().collect();
    let open = |(index, recovered): (usize, RecoveredBuffer)| {
        let taken = TakenBuffer::new(recovered.buffer, recovered.states.states());
        let id = BufferId(index as u16 + 1);
        Arc::new(CentralBuffer::of_snapshot(id, taken, recovered.writers))
    };
    let buffers = buffers.into_iter().enumerate().map(open).collect();
    let config = SessionConfig::new(&Default::default(), &LocalChoices::default())
        .expect("an empty configuration is valid");
    let mut reader = TraceReader::new(buffers, &config);
    for (writer_id, sequence_id) in sequence_ids {
        reader
            .framer
            .continue_sequence((producer_id, writer_id), sequence_id);
    }

    preamble.write(&mut take)?;
    reader.begin_reading();
    let begin = RecordingBegin::find(preamble.packets);
    let provenance = reader.provenance();
    let states = reader.begin_states(&provenance);
    begin.append(&mut reader, |packets| {
        packets.trace_provenance(&provenance);
        packets.protovms(&states);
    });
    let mut pass = Pass::new(Extent::Everything);
    reader.enter_buffer(&mut pass, 0);
    while reader.fill_batch(&mut pass) {
        hand_out(&mut reader, &mut take)?;
    }

    let mut sequences = sequence_accounts(&mut reader, |buffers| {
        buffers.iter().map(|buffer| writers_of(buffer)).collect()
    });
    let sequences_of = |writers: Vec<WriterId>| {
        let writers = writers.into_iter();
        let ids = writers.map(|writer_id| reader.framer.sequence_id((producer_id, writer_id)));
        ids.collect()
    };
    let counted: Vec<HashSet<u32>> = counted.into_iter().map(sequences_of).collect();
    for account in &mut sequences {
        let sequence_id = account.sequence_id.unwrap_or_default();
        let is_counted = counted[account.buffer].contains(&sequence_id);
        lost_by[account.buffer].settle(account, is_counted);
    }
    let stats = TraceStats {
        buffers: reader
            .buffers()
            .iter()
            .map(|buffer| buffer.with(|buffer| recovered_stats(*buffer.stats())))
            .collect(),
        writers: reader.writer_stats(),
        sequences,
        invalid_packets: reader.framer.counts.invalid_packets,
        ..TraceStats::default()
    };
    begin.append(&mut reader, |packets| {
        packets.trace_stats(&stats);
        let end = match state {
            RecordingState::EndedByKill => BoundaryKind::END_RECOVERED,
            RecordingState::Continues => BoundaryKind::END,
        };
        packets.recording_boundary(begin.id, end);
    });
    hand_out(&mut reader, &mut take)?;
    let counts = reader.framer.counts;
    Ok(RecoveredCounts {
        packets: counts.packets,
        events: counts.events,
        sequences: stats.sequences,
    })
}

/// Passes the batch on.
fn hand_out<E>(
    reader: &mut TraceReader,
    take: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    if let Some(batch) = reader.take_batch() {
        take(&batch.newer)?;
        reader.batch_was_taken(batch);
    }
    Ok(())
}

/// Returns the statistics of a buffer that was filled from crash files. It refuses chunks that the
/// trace file has, or that were in the ring and in the shared memory. These were not discarded.
fn recovered_stats(stats: BufferStats) -> BufferStats {
    BufferStats {
        chunks_discarded: 0,
        ..stats
    }
}

impl Preamble<'_> {
    /// Writes the packets, except for those of the begin if the trace has them. Clocks and schemas
    /// may be newer than those in the trace; a second one does no harm.
    fn write<E>(self, take: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if !self.has_begun {
            return take(self.packets);
        }
        let mut fields = Decoder::new(self.packets).fields();
        let mut start = 0;
        while let Some(Ok(_)) = fields.next() {
            let end = fields.offset();
            let packet = &self.packets[start..end];
            if !is_of_begin(packet) {
                take(packet)?;
            }
            start = end;
        }
        Ok(())
    }
}

/// Returns true if a trace has this packet once, at its begin.
fn is_of_begin(packet: &[u8]) -> bool {
    let mut packets = TraceDecoder::new(packet).packet().flatten();
    packets.any(|packet| {
        matches!(packet.trace_config(), Ok(Some(_)))
            || matches!(packet.trace_uuid(), Ok(Some(_)))
            || matches!(packet.system_info(), Ok(Some(_)))
            || matches!(packet.trace_attributes(), Ok(Some(_)))
            || matches!(packet.recording_boundary(), Ok(Some(_)))
    })
}

/// Returns the writers of a buffer. Where their counts are damaged, so that the buffer has more packets
/// than were begun, as many were begun as the buffer has.
fn writers_of(buffer: &CentralBuffer) -> Vec<(ProducerId, WriterTotals)> {
    let known: HashMap<_, _> = buffer.counts().into_iter().collect();
    let mut writers = buffer.writers_then.clone().unwrap_or_default();
    for (producer_id, totals) in &mut writers {
        let writer = totals.writer_id.map(|id| (*producer_id, id));
        let counts = writer.and_then(|writer| known.get(&writer));
        let in_buffer = counts.map_or(0, |it| {
            it.counts.read + it.counts.unread + it.counts.lost() + it.removed
        });
        let counts = &mut totals.counts;
        let least = in_buffer
            .saturating_add(counts.packets_dropped)
            .saturating_add(counts.packets_empty);
        counts.packets_begun = counts.packets_begun.max(least);
    }
    writers
}

/// The outcomes of packets that were begun and are not in the files.
#[derive(Clone, Copy)]
enum LostBy {
    /// They were overwritten, but for at most one that the writer was in the middle of. Nobody knows which
    /// it is, unless a log counts those that were overwritten.
    Overwriting,
    Discarding,
    /// The process was killed before they ended.
    TheKill,
}

impl LostBy {
    fn of(recovered: &RecoveredBuffer) -> Self {
        if recovered.is_sealed {
            Self::Discarding
        } else if recovered.has_evicted {
            Self::Overwriting
        } else {
            Self::TheKill
        }
    }

    /// Completes the account of a writer. `is_counted` says whether it has all packets that were overwritten.
    fn settle(self, account: &mut SequenceAccount, is_counted: bool) {
        match self {
            Self::Overwriting => {
                let in_middle = u64::from(is_counted).min(account.in_flight);
                account.overwritten += account.in_flight - in_middle;
                account.in_flight = in_middle;
            }
            // The rest of an incomplete packet was discarded, too.
            Self::Discarding => {
                account.discarded += mem::take(&mut account.in_flight);
                account.discarded += mem::take(&mut account.buffered);
            }
            Self::TheKill => {}
        }
    }
}

/// Returns the id of the recording that begins with these packets of the service; 0 if they do not
/// say.
#[must_use]
pub fn recording_id(preamble: &[u8]) -> u64 {
    RecordingBegin::find(preamble).id
}

/// The content of the first packet of a recording.
#[derive(Clone, Copy, Debug, Default)]
struct RecordingBegin {
    id: u64,
    timestamp_ns: u64,
    uid: u32,
}

impl RecordingBegin {
    /// Finds the packet in the preamble. Returns zeros if it is missing.
    fn find(preamble: &[u8]) -> Self {
        let packets = TraceDecoder::new(preamble).packet().flatten();
        let begins = packets.filter_map(|packet| {
            let boundary = packet.recording_boundary().ok()??;
            Some(Self {
                id: boundary.recording_id().ok()??,
                timestamp_ns: packet.timestamp().ok()??,
                uid: packet.trusted_uid().ok()?.unwrap_or(0) as u32,
            })
        });
        begins.last().unwrap_or_default()
    }

    /// Appends packets with the time of the begin. The present time may be long after the end of
    /// the recording, or of another boot, and would stretch the trace.
    fn append(self, reader: &mut TraceReader, write: impl FnOnce(&mut ServicePackets<'_, '_>)) {
        let packets = encode_packets_at(self.uid, self.timestamp_ns, write);
        reader.packets.newer.extend_from_slice(&packets);
    }
}
