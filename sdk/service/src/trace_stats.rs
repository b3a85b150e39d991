//! Statistics of a session, for its trace and for [`Service::stats`](crate::Service::stats).

use std::collections::HashMap;

use super::folded_state::StateStats;
use super::sequence_account::SequenceAccount;
use super::trace_buffer::{BufferStats, ChunkPayloadHistogram};
use protozero::HeapBuffered;
use tracezero_core::protos::{self, trace_stats};

/// Statistics of a session, and of the service that it is in.
///
/// ```
/// use tracezero::{InMemorySession, SequenceAccount, instant};
///
/// let session = InMemorySession::start()?;
/// instant!("app", "here");
/// assert!(session.control().flush());
///
/// let stats = session.control().stats();
/// assert_eq!(stats.tracing_sessions, 1);
/// assert_eq!(stats.sequences.iter().map(SequenceAccount::lost).sum::<u64>(), 0);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceStats {
    /// The statistics of each buffer, in the order of the configuration.
    pub buffers: Vec<BufferStats>,
    /// The statistics of writers, by sequence and buffer.
    pub writers: Vec<WriterStats>,
    /// The accounts of all packets, by sequence and buffer.
    pub sequences: Vec<SequenceAccount>,
    /// The states that rings keep of overwritten packets.
    pub states: Vec<StateStats>,
    /// The number of producers that are connected to the service.
    pub producers_connected: u32,
    /// The number of producers that were ever connected.
    pub producers_seen: u64,
    /// The number of data sources that producers offer.
    pub data_sources_registered: u32,
    /// The number of data sources that the service refused, over all producers: a producer may offer
    /// 1024, with 4 MiB of descriptors, a user 64 MiB, and their names have 1 to 256 bytes.
    pub data_sources_refused: u64,
    /// The number of instances of data sources that this session ever had.
    pub data_sources_seen: u64,
    /// The number of instances that were not set up, because this session had 16,384, or 64 MiB of
    /// schemas, or because their producer could not set them up.
    pub instances_refused: u64,
    /// The number of sessions in the service.
    pub tracing_sessions: u32,
    /// The number of buffers of all sessions.
    pub total_buffers: u32,
    /// The number of chunks that producers committed to buffers that they may not write to, over
    /// all sessions.
    pub chunks_discarded: u64,
    /// The number of patches for buffers that producers may not write to, over all sessions.
    pub patches_discarded: u64,
    /// The number of triggers that the service ignored, over all sessions, because too many came: a
    /// producer may activate triggers 100 times in a second, and at most 64 each time. Their names
    /// may have at most 256 bytes, and at most 64 of a session may wait to be read or to be answered
    /// with a clone.
    pub triggers_ignored: u64,
    /// The number of packets that were left out of the trace, because they are malformed or have
    /// fields that only the service may write.
    pub invalid_packets: u64,
    /// The number of flushes so far.
    pub flushes_requested: u64,
    /// The number of flushes that all data sources answered.
    pub flushes_succeeded: u64,
    /// The number of flushes that some data source did not answer.
    pub flushes_failed: u64,
    /// True if the flush at the end succeeded; `None` if there was none.
    pub final_flush_succeeded: Option<bool>,
}

/// The statistics of one writer in one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterStats {
    /// The sequence's id in the trace.
    pub sequence_id: u32,
    /// The position of the buffer in the configuration.
    pub buffer: usize,
    /// The sizes of its chunks.
    pub chunk_payloads: ChunkPayloadHistogram,
}

impl TraceStats {
    /// Returns the counts of packets, chunks and flushes since `earlier`, which are statistics of the same
    /// session. The accounts of sequences and the states are those of `self`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        for (buffer, earlier) in since.buffers.iter_mut().zip(&earlier.buffers) {
            *buffer = buffer.since(earlier);
        }
        let writers: HashMap<_, _> = earlier
            .writers
            .iter()
            .map(|writer| ((writer.sequence_id, writer.buffer), &writer.chunk_payloads))
            .collect();
        for writer in &mut since.writers {
            if let Some(earlier) = writers.get(&(writer.sequence_id, writer.buffer)) {
                writer.chunk_payloads = writer.chunk_payloads.since(earlier);
            }
        }
        since.writers.retain(|it| !it.chunk_payloads.is_empty());
        since.chunks_discarded -= earlier.chunks_discarded;
        since.patches_discarded -= earlier.patches_discarded;
        since.invalid_packets -= earlier.invalid_packets;
        since.flushes_requested -= earlier.flushes_requested;
        since.flushes_succeeded -= earlier.flushes_succeeded;
        since.flushes_failed -= earlier.flushes_failed;
        since
    }

    /// Encodes the statistics as a trace carries them: a `TraceStats` of Perfetto's schema.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut buffer = HeapBuffered::<protos::TraceStats<'_>>::new();
        self.write(&mut buffer.message());
        buffer.to_vec()
    }

    /// Writes the statistics as a trace carries them.
    #[cold]
    pub(super) fn write(&self, out: &mut protos::TraceStats<'_>) {
        for buffer in &self.buffers {
            out.add_buffer_stats(|out| write_buffer_stats(buffer, out));
        }
        out.set_producers_connected(self.producers_connected);
        out.set_producers_seen(self.producers_seen);
        out.set_data_sources_registered(self.data_sources_registered);
        out.set_data_sources_seen(self.data_sources_seen);
        out.set_tracing_sessions(self.tracing_sessions);
        out.set_total_buffers(self.total_buffers);
        out.set_chunks_discarded(self.chunks_discarded);
        out.set_patches_discarded(self.patches_discarded);
        out.set_invalid_packets(self.invalid_packets);
        out.set_flushes_requested(self.flushes_requested);
        out.set_flushes_succeeded(self.flushes_succeeded);
        out.set_flushes_failed(self.flushes_failed);
        if let Some(succeeded) = self.final_flush_succeeded {
            use trace_stats::FinalFlushOutcome as Outcome;
            out.set_final_flush_outcome(if succeeded {
                Outcome::FINAL_FLUSH_SUCCEEDED
            } else {
                Outcome::FINAL_FLUSH_FAILED
            });
        }
        if self.writers.is_empty() {
            return;
        }
        for bound_bytes in ChunkPayloadHistogram::BOUNDS_BYTES {
            out.add_chunk_payload_histogram_def(i64::from(bound_bytes));
        }
        for writer in &self.writers {
            out.add_writer_stats(|out| {
                out.set_sequence_id(u64::from(writer.sequence_id));
                out.set_buffer(writer.buffer as u32);
                out.set_chunk_payload_histogram_counts(writer.chunk_payloads.counts());
                let sums = writer.chunk_payloads.sums_bytes();
                out.set_chunk_payload_histogram_sum(sums.map(|sum| sum as i64));
            });
        }
    }
}

#[cold]
fn write_buffer_stats(stats: &BufferStats, out: &mut trace_stats::BufferStats<'_>) {
    out.set_buffer_size(stats.buffer_size);
    out.set_bytes_written(stats.bytes_written);
    out.set_bytes_overwritten(stats.bytes_overwritten);
    out.set_bytes_read(stats.bytes_read);
    out.set_padding_bytes_written(stats.padding_bytes_written);
    out.set_padding_bytes_cleared(stats.padding_bytes_cleared);
    out.set_chunks_written(stats.chunks_written);
    out.set_chunks_rewritten(stats.chunks_rewritten);
    out.set_chunks_relocated(stats.chunks_relocated);
    out.set_chunks_overwritten(stats.chunks_overwritten);
    out.set_chunks_discarded(stats.chunks_discarded);
    out.set_chunks_read(stats.chunks_read);
    out.set_chunks_committed_out_of_order(stats.chunks_committed_out_of_order);
    out.set_write_wrap_count(stats.write_wrap_count);
    out.set_patches_succeeded(stats.patches_succeeded);
    out.set_patches_failed(stats.patches_failed);
    out.set_readaheads_succeeded(stats.readaheads_succeeded);
    out.set_readaheads_failed(stats.readaheads_failed);
    out.set_abi_violations(stats.abi_violations);
    out.set_trace_writer_packet_loss(stats.trace_writer_packet_loss);
}
