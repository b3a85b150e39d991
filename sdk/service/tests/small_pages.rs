//! A buffer of small pages takes memory from the system as it is written, a little ahead.

#![cfg(target_os = "linux")]

use std::process;

use support::resident_bytes;
use support::trace_buffer::chunk;
use tracezero_service::trace_buffer::{FillPolicy, TraceBuffer};

const MIB: usize = 1 << 20;

/// The memory that the test takes besides, and that the system counts late.
const SLACK_BYTES: usize = 2 * MIB;

/// The size of a chunk's payload: one packet, with its size.
const PAYLOAD_BYTES: usize = 4000;

#[test]
fn memory_comes_as_it_is_written() {
    let payload = [&[0x9e, 0x1f][..], &[b'_'; PAYLOAD_BYTES - 2]].concat();
    let mut buffer = TraceBuffer::of_small_pages(64 * MIB as u64, FillPolicy::Ring).unwrap();
    let before = resident_bytes(process::id());
    let (mut next, mut written) = (0, 0);
    for size_bytes in [MIB, 32 * MIB, 64 * MIB] {
        while written < size_bytes {
            buffer.commit_chunk(&chunk(next, 1, &payload));
            next += 1;
            written += PAYLOAD_BYTES;
        }
        let more = resident_bytes(process::id()) - before;
        let expected = size_bytes.saturating_sub(SLACK_BYTES)..size_bytes + SLACK_BYTES;
        assert!(expected.contains(&more), "{more} for {size_bytes}");
    }
    // The next lap writes over the oldest.
    for _ in 0..100 {
        buffer.commit_chunk(&chunk(next, 1, &payload));
        next += 1;
    }
    buffer.begin_read();
    let mut packets = 0;
    while let Some(packet) = buffer.read_packet() {
        assert_eq!(packet.len_bytes(), PAYLOAD_BYTES - 2);
        packets += 1;
    }
    assert!(packets * PAYLOAD_BYTES > 63 * MIB, "{packets}");
}
