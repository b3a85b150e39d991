//! The table `stats`, with the names and severities of trace processor's.

use protozero::{DecodeError, Decoder, types};
use tracezero_core::protos::TracePacket;

use crate::error::LakeError;
use crate::staging::Staging;
use crate::table_writer::TableWriter;

/// The field of `TraceStats` that holds the statistics of a buffer.
const BUFFER_STATS: u32 = 1;
/// The maximum number of buffers.
const BUFFERS_MAX: i64 = 1000;

const INFO: &str = "info";
const DATA_LOSS: &str = "data_loss";

/// Fields of the statistics of a buffer.
const OF_BUFFER: [(u32, &str, &str); 20] = [
    (9, "traced_buf_abi_violations", DATA_LOSS),
    (12, "traced_buf_buffer_size", INFO),
    (13, "traced_buf_bytes_overwritten", INFO),
    (14, "traced_buf_bytes_read", INFO),
    (1, "traced_buf_bytes_written", INFO),
    (18, "traced_buf_chunks_discarded", INFO),
    (3, "traced_buf_chunks_overwritten", INFO),
    (17, "traced_buf_chunks_read", INFO),
    (20, "traced_buf_chunks_relocated", INFO),
    (10, "traced_buf_chunks_rewritten", INFO),
    (2, "traced_buf_chunks_written", INFO),
    (11, "traced_buf_chunks_committed_out_of_order", INFO),
    (16, "traced_buf_padding_bytes_cleared", INFO),
    (15, "traced_buf_padding_bytes_written", INFO),
    (6, "traced_buf_patches_failed", DATA_LOSS),
    (5, "traced_buf_patches_succeeded", INFO),
    (8, "traced_buf_readaheads_failed", INFO),
    (7, "traced_buf_readaheads_succeeded", INFO),
    (19, "traced_buf_trace_writer_packet_loss", DATA_LOSS),
    (4, "traced_buf_write_wrap_count", INFO),
];

/// Fields of the statistics of the service.
const OF_SERVICE: [(u32, &str, &str); 11] = [
    (8, "traced_chunks_discarded", INFO),
    (4, "traced_data_sources_registered", INFO),
    (5, "traced_data_sources_seen", INFO),
    (14, "traced_flushes_failed", DATA_LOSS),
    (12, "traced_flushes_requested", INFO),
    (13, "traced_flushes_succeeded", INFO),
    (9, "traced_patches_discarded", INFO),
    (2, "traced_producers_connected", INFO),
    (3, "traced_producers_seen", INFO),
    (7, "traced_total_buffers", INFO),
    (6, "traced_tracing_sessions", INFO),
];

/// The statistics of the service that recorded a trace.
#[derive(Debug, Default)]
pub(super) struct StatsRows {
    rows: Vec<StatsRow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StatsRow {
    name: &'static str,
    /// The number of the buffer.
    buffer: Option<i64>,
    severity: &'static str,
    value: i64,
}

impl StatsRows {
    /// Replaces the statistics. Those of a later packet include those of an earlier one.
    pub(super) fn set(&mut self, packet: &[u8]) -> Result<(), DecodeError> {
        let fields = Decoder::new(packet);
        let Some(stats) = fields.last::<types::Bytes>(TracePacket::TRACE_STATS_FIELD_NUMBER)?
        else {
            return Ok(());
        };
        self.rows.clear();
        self.add(Decoder::new(stats), None, &OF_SERVICE)?;
        let buffers = Decoder::new(stats).repeated::<types::Bytes>(BUFFER_STATS);
        for (index, buffer) in (0..BUFFERS_MAX).zip(buffers) {
            self.add(Decoder::new(buffer?), Some(index), &OF_BUFFER)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        stats: Decoder<'_>,
        buffer: Option<i64>,
        known: &[(u32, &'static str, &'static str)],
    ) -> Result<(), DecodeError> {
        for (number, name, severity) in known {
            if let Some(value) = stats.last::<types::Uint64>(*number)? {
                self.rows.push(StatsRow {
                    name,
                    buffer,
                    severity,
                    value: value.cast_signed(),
                });
            }
        }
        Ok(())
    }

    /// Writes the rows of the table.
    pub(super) fn write(
        &self,
        table: &mut TableWriter,
        staging: &Staging,
    ) -> Result<(), LakeError> {
        for row in &self.rows {
            table
                .row(staging)?
                .text(row.name)
                .maybe_int(row.buffer)
                .text(row.severity)
                .int(row.value);
        }
        Ok(())
    }
}
