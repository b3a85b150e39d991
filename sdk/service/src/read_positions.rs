//! How far sequences were read, for a recovery of a session that streams into a file.
//!
//! Each write to the file ends with these positions. A recovery takes the file up to the last
//! positions that are whole, and everything that the buffers have behind them. So a packet is in
//! the recovered trace once, whenever the process was killed. Until a write is complete, the rings
//! keep what was read (`TraceBuffer::note_written`).

use std::collections::HashMap;

use super::packet_framer::{PacketFramer, SERVICE_SEQUENCE_ID, Writer};
use super::trace_buffer::{ReadPosition, TraceBuffer};
use protozero::HeapBuffered;
use tracezero_core::protos;
use tracezero_core::protos::sequences::TracePacketExt as _;

/// The positions of the sequences in the present batch.
#[derive(Debug, Default)]
pub(super) struct ReadPositions {
    /// For each writer of the buffer with this index, the id of its sequence and its position.
    positions: HashMap<(usize, Writer), (u32, ReadPosition)>,
}

impl ReadPositions {
    /// Notes the positions of the writers whose packets `framer` has just taken out of a buffer.
    pub(super) fn note(&mut self, index: usize, buffer: &TraceBuffer, framer: &mut PacketFramer) {
        for writer in framer.taken_writers() {
            if let Some(position) = buffer.read_position(writer.0, writer.1) {
                let sequence_id = framer.sequence_id(writer);
                self.positions
                    .insert((index, writer), (sequence_id, position));
            }
        }
    }

    /// Returns the packet with the positions since the last call, as a trace has it.
    pub(super) fn take_packet(&mut self) -> Vec<u8> {
        let mut buffer = HeapBuffered::<protos::Trace<'_>>::new();
        buffer.message().add_packet(|packet| {
            packet.set_trusted_packet_sequence_id(SERVICE_SEQUENCE_ID);
            packet.read_positions(|out| {
                for ((buffer, writer), (sequence_id, position)) in self.positions.drain() {
                    out.add_positions(|out| {
                        out.set_buffer(buffer as u32);
                        out.set_writer_id(writer.1.0.into());
                        out.set_sequence_id(sequence_id);
                        out.set_chunk_id(position.chunk_id.0);
                        out.set_chunk_bytes(position.chunk_bytes.into());
                        out.set_read(position.read);
                    });
                }
            });
        });
        buffer.to_vec()
    }
}
