//! Counts the instructions of reading a trace buffer into a trace. The module `callgrind` describes
//! how.
//!
//! ```sh
//! cargo bench -p tracezero --bench read_instructions
//! ```

#[path = "../../protozero/benches/callgrind/mod.rs"]
mod callgrind;

use std::process::ExitCode;

use support::trace_buffer::chunk;
use tracezero_service::read_as_trace;
use tracezero_service::trace_buffer::{FillPolicy, TraceBuffer};

/// The number of packets in each buffer.
const PACKETS: usize = CHUNKS as usize * PACKETS_PER_CHUNK;
const CHUNKS: u32 = 16;
const PACKETS_PER_CHUNK: usize = 64;

/// Buffers that are not yet read, and the trace that they are read into.
struct Unread {
    buffers: Vec<TraceBuffer>,
    read: Vec<TraceBuffer>,
    trace: Vec<u8>,
}

impl Unread {
    /// Creates buffers with packets of `packet_bytes` bytes, with the fields of events.
    fn of(packet_bytes: usize) -> Self {
        let mut packet = vec![0x40, 0x85, 0x01, 0x68, 2, 0x5a, (packet_bytes - 7) as u8];
        packet.resize(packet_bytes, 1);
        packet.insert(0, packet_bytes as u8);
        let payload = packet.repeat(PACKETS_PER_CHUNK);
        // The first packet has the flag that starts the incremental state, which all other packets
        // need.
        let mut first_payload = payload.clone();
        first_payload[5] = 1;
        let buffer = || {
            let mut buffer = TraceBuffer::new(128 * 1024, FillPolicy::Ring).expect("memory");
            for id in 0..CHUNKS {
                let payload = if id == 0 { &first_payload } else { &payload };
                buffer.commit_chunk(&chunk(id, PACKETS_PER_CHUNK as u16, payload));
            }
            buffer
        };
        Self {
            buffers: std::iter::repeat_with(buffer).take(10).collect(),
            read: Vec::with_capacity(10),
            trace: Vec::with_capacity(1 << 20),
        }
    }

    fn read_one(&mut self) {
        let mut buffer = self.buffers.pop().expect("one is left");
        read_as_trace(&mut buffer, &mut self.trace);
        self.read.push(buffer);
    }
}

/// Buffers of each size of packets.
type Sizes = [Unread; 2];

const _: () = assert!(
    PACKETS == 1024,
    "the names and limits below are for that many"
);

callgrind::subjects! {
    |sizes: &mut Sizes, _v: &()|
    read_1024_packets_of_28_bytes: 112000, sizes[0].read_one();
    read_1024_packets_of_60_bytes: 122000, sizes[1].read_one();
}

fn main() -> ExitCode {
    callgrind::main(SUBJECTS, |read| {
        read(&mut [Unread::of(28), Unread::of(60)], &());
    })
}
