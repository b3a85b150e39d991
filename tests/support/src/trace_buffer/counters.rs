//! Names the statistics of a trace buffer, to compare them with a text or a model.

use tracezero_service::trace_buffer::BufferStats;

/// Returns each counter except the size, with the name that the service's scenario files use.
#[must_use]
pub fn counters(stats: &BufferStats) -> [(&'static str, u64); 19] {
    // No `..`, so a new counter does not compile until it has a name here.
    let BufferStats {
        buffer_size: _,
        bytes_written,
        chunks_written,
        bytes_overwritten,
        chunks_overwritten,
        bytes_read,
        chunks_read,
        padding_bytes_written,
        padding_bytes_cleared,
        chunks_rewritten,
        chunks_relocated,
        chunks_discarded,
        chunks_committed_out_of_order,
        write_wrap_count,
        patches_succeeded,
        patches_failed,
        readaheads_succeeded,
        readaheads_failed,
        abi_violations,
        trace_writer_packet_loss,
    } = *stats;
    [
        ("bytes_written", bytes_written),
        ("chunks_written", chunks_written),
        ("bytes_overwritten", bytes_overwritten),
        ("chunks_overwritten", chunks_overwritten),
        ("bytes_read", bytes_read),
        ("chunks_read", chunks_read),
        ("padding_bytes_written", padding_bytes_written),
        ("padding_bytes_cleared", padding_bytes_cleared),
        ("chunks_rewritten", chunks_rewritten),
        ("chunks_relocated", chunks_relocated),
        ("chunks_discarded", chunks_discarded),
        (
            "chunks_committed_out_of_order",
            chunks_committed_out_of_order,
        ),
        ("write_wrap_count", write_wrap_count),
        ("patches_succeeded", patches_succeeded),
        ("patches_failed", patches_failed),
        ("readaheads_succeeded", readaheads_succeeded),
        ("readaheads_failed", readaheads_failed),
        ("abi_violations", abi_violations),
        ("trace_writer_packet_loss", trace_writer_packet_loss),
    ]
}
