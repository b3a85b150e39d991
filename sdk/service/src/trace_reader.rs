//! Reads the buffers of a session as a trace.
//!
//! A reader locks a buffer for about 64 KiB of packets at a time (`READ_BATCH_BYTES` in
//! `packet_framer.rs`), and does no I/O while the buffer is locked.

use std::sync::Arc;

use super::central_buffer::CentralBuffer;
use super::compression::append_packed;
use super::packet_framer::{PacketFramer, READ_BATCH_BYTES};
use super::read_positions::ReadPositions;
use super::trace_buffer::TraceBuffer;
use super::trace_output::{END_MAX_BYTES, TraceOutput};
use tracezero_config::{Compression, SessionConfig};

/// The approximate number of bytes that are compressed together. Larger batches hardly compress
/// better.
const COMPRESSED_BATCH_BYTES: usize = 512 * 1024;

/// The end of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Read until nothing is left, including packets that come meanwhile.
    Everything,
    /// Read what was there at the begin of the read. So it ends however fast writers are.
    WhatIsThere,
}

/// The reason why a file ends before its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEnd {
    /// The file has reached its maximum size.
    Full,
    /// Writing to the file failed.
    Failed,
}

/// The state of reading one session.
pub(crate) struct TraceReader {
    /// The buffers in the order of the configuration.
    buffers: Vec<Arc<CentralBuffer>>,
    pub(super) framer: PacketFramer,
    /// The framed packets of the present batch, or of the batch that the file did not take.
    pub(super) packets: Vec<u8>,
    compression: Compression,
    /// The compressed batch.
    compressed: Vec<u8>,
    pub(super) output: Option<TraceOutput>,
    max_file_size_bytes: u64,
    /// True if the file is synced to the disk after each pass.
    syncs: bool,
    /// The number of bytes in the file so far.
    pub(super) written_bytes: u64,
    /// The reason why the file ends before the trace, if it does.
    pub(super) file_end: Option<FileEnd>,
    /// How far the sequences of the present batch were read. `None` unless a recovery needs it.
    positions: Option<ReadPositions>,
}

impl TraceReader {
    pub(super) fn new(buffers: Vec<Arc<CentralBuffer>>, config: &SessionConfig) -> Self {
        Self {
            buffers,
            framer: PacketFramer::new(),
            packets: Vec::new(),
            compression: config.compression,
            compressed: Vec::new(),
            output: None,
            max_file_size_bytes: config.max_file_size_bytes,
            syncs: config.fflush_post_write,
            written_bytes: 0,
            file_end: None,
            positions: None,
        }
    }

    /// Writes, behind each batch, how far sequences were read, so that a recovery can continue
    /// there.
    pub(super) fn write_positions(&mut self) {
        self.positions = Some(ReadPositions::default());
    }

    /// Creates the reader of a clone. It writes everything into `output`, without a limit.
    pub(super) fn of_clone(
        buffers: Vec<Arc<CentralBuffer>>,
        config: &SessionConfig,
        framer: PacketFramer,
        output: Option<TraceOutput>,
    ) -> Self {
        Self {
            framer,
            output,
            ..Self::new(buffers, config)
        }
    }

    pub(super) fn attach_output(&mut self, output: TraceOutput) {
        let limit_bytes = match self.max_file_size_bytes {
            0 => 0,
            // Reserve room for the packet that ends the trace.
            limit => limit.saturating_sub(END_MAX_BYTES as u64).max(1),
        };
        self.output = Some(output.with_limits(limit_bytes, self.syncs));
    }

    pub(super) fn buffers(&self) -> &[Arc<CentralBuffer>] {
        &self.buffers
    }

    /// Begins a read. The caller then puts the first packets of the trace into `packets`.
    pub(super) fn begin_reading(&mut self) {
        self.packets.clear();
        self.framer.begin_batch();
    }

    /// Reads the packets of writers that can be read now. Calls `take` with batches of framed
    /// packets. The last batch stays in `packets`, so that the caller can append to it.
    pub(super) fn read_buffers<E>(
        &mut self,
        extent: Extent,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let batch_bytes = match self.compression {
            Compression::None => READ_BATCH_BYTES,
            Compression::Deflate | Compression::Zstd { .. } => COMPRESSED_BATCH_BYTES,
        };
        for index in 0..self.buffers.len() {
            let end = match extent {
                Extent::Everything => None,
                Extent::WhatIsThere => Some(self.buffers[index].with(|buffer| buffer.mark())),
            };
            loop {
                let buffer = &self.buffers[index];
                let goes_on = buffer.read(end, |buffer| {
                    let goes_on = self.framer.take_batch(buffer);
                    if let Some(positions) = &mut self.positions {
                        positions.note(index, buffer, &mut self.framer);
                    }
                    goes_on
                });
                self.framer.append_to(&mut self.packets);
                for writer in self.framer.take_losing_writers() {
                    buffer.note_loss(writer);
                }
                if self.packets.len() >= batch_bytes {
                    self.hand_out(&mut take)?;
                }
                if !goes_on {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Passes the batch to `take`, and clears it unless `take` fails.
    pub(super) fn hand_out<E>(
        &mut self,
        take: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.packets.is_empty() {
            return Ok(());
        }
        let batch = if self.compression == Compression::None {
            &mut self.packets
        } else {
            self.compressed.clear();
            append_packed(self.compression, &self.packets, &mut self.compressed);
            &mut self.compressed
        };
        if let Some(positions) = &mut self.positions {
            // In the same write, so that a batch without its positions is not whole.
            batch.append(&mut positions.take_packet());
        }
        take(batch)?;
        if self.positions.is_some() {
            for buffer in &self.buffers {
                buffer.with(TraceBuffer::note_written);
            }
        }
        self.packets.clear();
        self.framer.begin_batch();
        Ok(())
    }

    /// Notes that the file ends before the trace, after the first `written` bytes of the last
    /// batch.
    pub(super) fn file_ended_early(&mut self, end: FileEnd, written: usize) {
        self.file_end = Some(end);
        // A compressed batch is a single packet, of which the file has all or nothing.
        let refused = match self.compression {
            Compression::None => &self.packets[written..],
            Compression::Deflate | Compression::Zstd { .. } => &self.packets,
        };
        self.framer.take_back(refused);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use protozero::HeapBuffered;

    use super::*;
    use crate::central_buffer::ReadMode;
    use crate::trace_buffer::{ClientIdentity, FillPolicy, TraceBuffer, UntrustedChunk};
    use tracezero_config::LocalChoices;
    use tracezero_core::ids::{BufferId, ChunkId, ProducerId, WriterId};
    use tracezero_core::protos::{TraceDecoder, TracePacket};
    use tracezero_core::shm::ChunkFlags;

    /// Commits a chunk with one fragment.
    fn commit(buffer: &CentralBuffer, writer: u16, chunk: u32, flags: ChunkFlags, fragment: &[u8]) {
        let mut payload = vec![0x80; 4];
        for (index, byte) in payload.iter_mut().enumerate() {
            *byte |= (fragment.len() >> (7 * index)) as u8 & 0x7f;
        }
        payload[3] &= 0x7f;
        payload.extend(fragment);
        buffer.commit(&UntrustedChunk {
            producer_id: ProducerId::new(1),
            client: ClientIdentity::default(),
            writer_id: WriterId(writer),
            chunk_id: ChunkId(chunk),
            fragment_count: 1,
            flags,
            complete: true,
            payload: &payload,
        });
    }

    fn packet(text: &str) -> Vec<u8> {
        let mut buffer = HeapBuffered::<TracePacket<'_>>::new();
        buffer.message().for_testing(|event| {
            event.set_str(text);
        });
        buffer.to_vec()
    }

    #[test]
    fn long_packet_that_ends_later_does_not_end_the_read() {
        let ring = TraceBuffer::new(1 << 20, FillPolicy::Ring).unwrap();
        let buffer = CentralBuffer::new(BufferId(1), ring, ReadMode::RingAtEnd);
        let buffer = Arc::new(buffer);
        let long = packet(&"x".repeat(100_000));
        let (begin, end) = long.split_at(50_000);
        commit(&buffer, 1, 0, ChunkFlags::LAST_PACKET_CONTINUES, begin);
        for chunk in 0..2 {
            commit(
                &buffer,
                2,
                chunk,
                ChunkFlags::NONE,
                &packet(&"y".repeat(40_000)),
            );
        }
        commit(&buffer, 3, 0, ChunkFlags::NONE, &packet("was there"));

        let config = SessionConfig::new(&Default::default(), &LocalChoices::default()).unwrap();
        let mut reader = TraceReader::new(vec![Arc::clone(&buffer)], &config);
        let mut lengths = Vec::new();
        let mut take = |batch: &[u8]| {
            if lengths.is_empty() {
                commit(&buffer, 1, 1, ChunkFlags::FIRST_PACKET_CONTINUES, end);
            }
            for packet in TraceDecoder::new(batch).packet() {
                let text = packet.unwrap().for_testing().unwrap();
                lengths.push(text.unwrap().str().unwrap().unwrap_or_default().len());
            }
            Ok::<(), Infallible>(())
        };
        reader.begin_reading();
        let Ok(()) = reader.read_buffers(Extent::WhatIsThere, &mut take);
        let Ok(()) = reader.hand_out(&mut take);
        assert_eq!(lengths, [40_000, 40_000, 100_000, "was there".len()]);
    }
}
