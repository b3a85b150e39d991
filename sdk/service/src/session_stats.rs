//! Collects the statistics of a session.

use super::announced_states::Provenance;
use super::control::Control;
use super::folded_state::StateStats;
use super::pending_flush::FlushOutcome;
use super::sequence_accounts::sequence_accounts;
use super::trace_reader::TraceReader;
use super::trace_stats::{TraceStats, WriterStats};
use super::tracing_session::TracingSession;

impl Control {
    pub(super) fn trace_stats(
        &self,
        session: &TracingSession,
        reader: &mut TraceReader,
    ) -> TraceStats {
        let (chunks_discarded, patches_discarded) = self.refused.counts();
        let builtin = &session.recording.config.builtin_data_sources;
        TraceStats {
            buffers: session
                .buffers
                .iter()
                .map(|buffer| buffer.with(|buffer| *buffer.stats()))
                .collect(),
            writers: if builtin.disable_chunk_usage_histograms {
                Vec::new()
            } else {
                reader.writer_stats()
            },
            sequences: sequence_accounts(reader, |buffers| self.writers_of(buffers)),
            states: reader.state_stats(),
            producers_connected: self.producers.len() as u32,
            producers_seen: u64::from(self.last_producer.value()),
            data_sources_registered: self
                .producers
                .values()
                .map(|producer| producer.data_sources.len() as u32)
                .sum(),
            data_sources_refused: self.data_sources_refused,
            data_sources_seen: session.instances_ever,
            instances_refused: session.instances_refused,
            tracing_sessions: self.sessions.len() as u32,
            total_buffers: self
                .sessions
                .values()
                .filter(|session| !session.is_snapshot())
                .map(|session| session.buffers.len() as u32)
                .sum(),
            chunks_discarded,
            patches_discarded,
            triggers_ignored: self.triggers_ignored,
            invalid_packets: reader.framer.counts.invalid_packets,
            flushes_requested: session.flush_counts.requested,
            flushes_succeeded: session.flush_counts.succeeded,
            flushes_failed: session.flush_counts.failed,
            final_flush_succeeded: session
                .phase
                .end()
                .and_then(|end| end.flush)
                .map(|outcome| outcome == FlushOutcome::Succeeded),
        }
    }
}

impl TraceReader {
    /// Returns, for each buffer, the known sequences with their producers.
    pub(super) fn provenance(&mut self) -> Provenance {
        let mut buffers = Vec::new();
        for index in 0..self.buffers().len() {
            let writers = self.buffers()[index].with(|buffer| {
                let counts = buffer.all_packet_counts();
                counts
                    .map(|(producer, writer, _)| (producer, writer))
                    .collect::<Vec<_>>()
            });
            let sequences = writers
                .into_iter()
                .map(|writer| (self.framer.sequence_id(writer), writer.0));
            buffers.push(sequences.collect());
        }
        buffers
    }

    fn state_stats(&self) -> Vec<StateStats> {
        let mut stats = Vec::new();
        for (index, buffer) in self.buffers().iter().enumerate() {
            buffer.states.add_stats(index, &mut stats);
        }
        stats
    }

    pub(super) fn writer_stats(&mut self) -> Vec<WriterStats> {
        let mut stats = Vec::new();
        for index in 0..self.buffers().len() {
            let histograms = self.buffers()[index].with(|buffer| {
                let writers = buffer.all_packet_counts();
                writers
                    .filter_map(|(producer, writer, _)| {
                        let histogram = buffer.writer_histogram(producer, writer)?;
                        Some(((producer, writer), histogram.clone()))
                    })
                    .collect::<Vec<_>>()
            });
            for (writer, chunk_payloads) in histograms {
                stats.push(WriterStats {
                    sequence_id: self.framer.sequence_id(writer),
                    buffer: index,
                    chunk_payloads,
                });
            }
        }
        stats
    }
}
