//! Reads a session's buffers as a trace.

use std::sync::Arc;

use super::Service;
use super::central_buffer::CentralBuffer;
use super::packet_framer::PacketFramer;
use super::trace_buffer::TraceBuffer;
use super::trace_output::TraceOutput;
use crate::consumer::{Compression, TraceConfig};
use crate::ids::SessionId;

/// Bytes of a buffer that are read while it is locked, more or less: writers wait that long.
const READ_BATCH_BYTES: usize = 64 * 1024;

/// What the reading of one session goes on from.
pub(crate) struct TraceReader {
    /// In the order of the configuration.
    buffers: Vec<Arc<CentralBuffer>>,
    pub(super) framer: PacketFramer,
    pub(super) compression: Compression,
    pub(super) output: Option<TraceOutput>,
    max_file_size_bytes: u64,
    /// Whether each pass goes on to the disk at once.
    syncs: bool,
    /// Bytes in the file so far.
    pub(super) written_bytes: u64,
}

impl TraceReader {
    pub(super) fn new(
        buffers: Vec<Arc<CentralBuffer>>,
        config: &TraceConfig,
        output: Option<TraceOutput>,
    ) -> Self {
        let mut reader = Self {
            buffers,
            framer: PacketFramer::new(),
            compression: config.compression,
            output: None,
            max_file_size_bytes: config.max_file_size_bytes,
            syncs: config.fflush_post_write,
            written_bytes: 0,
        };
        if let Some(output) = output {
            reader.attach_output(output);
        }
        reader
    }

    pub(super) fn attach_output(&mut self, output: TraceOutput) {
        self.output = Some(output.with_limits(self.max_file_size_bytes, self.syncs));
    }

    pub(super) fn buffers(&self) -> &[Arc<CentralBuffer>] {
        &self.buffers
    }

    /// Reads all packets that can be read now, with those of the service around them. They come in
    /// batches of framed packets; `take` gets each and empties it.
    pub(super) fn read_all<E>(
        &mut self,
        service: &Service,
        session: SessionId,
        batch: &mut Vec<u8>,
        mut take: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        service.look(|control| control.write_packets_before_data(session, self, batch));
        for buffer in &self.buffers {
            loop {
                let has_more = buffer.with(|buffer| read_batch(buffer, &mut self.framer));
                self.framer.append_to(batch);
                take(batch)?;
                if !has_more {
                    break;
                }
            }
        }
        service.look(|control| control.write_packets_after_data(session, self, batch));
        take(batch)
    }
}

/// Takes packets for as long as the buffer may stay locked. Returns whether there is more.
fn read_batch(buffer: &mut TraceBuffer, framer: &mut PacketFramer) -> bool {
    buffer.begin_read();
    while framer.taken_bytes() < READ_BATCH_BYTES {
        let Some(packet) = buffer.read_packet() else {
            return false;
        };
        framer.take(&packet);
    }
    true
}
