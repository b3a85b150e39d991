//! The trace writer: writes one sequence of packets into chunks.

use std::sync::Arc;
use std::time::Duration;

use protozero::{CompactValue, DELIMITED_ROOM_BYTES, FixedSource, Message, Writer};

use crate::arbiter::Arbiter;
use crate::chunk_stream::{ChunkStream, LastPacket, is_compact};
use crate::port::WriterPort;
use tracezero_core::coordination::{BufferExhaustedPolicy, PacketCounts};
use tracezero_core::ids::{BufferId, WriterId};
use tracezero_core::protos::TracePacket;

/// The field `TracePacket.previous_packet_dropped`: packets before this one were lost, and why.
const PREVIOUS_PACKET_DROPPED_FIELD: u32 = 42;
/// The field `TracePacket.first_packet_on_sequence`.
const FIRST_PACKET_ON_SEQUENCE_FIELD: u32 = 87;
/// The value for a loss because the shared memory was exhausted.
const LOST_SHARED_MEMORY_FULL: u32 = 1 | 256;

/// Writes the packets of one sequence, which go to one trace buffer.
///
/// Writing never fails, and waits only with the policies [`BufferExhaustedPolicy::Stall`] and
/// [`BufferExhaustedPolicy::StallThenDrop`]. When the shared memory is exhausted, packets are
/// dropped and counted; the next packet that is written states that some were lost.
///
/// ```text
///             begin_packet                    no free chunk
///  [no chunk] ------------> [packet in chunk] -----------------> [packet dropped]
///      ^       new chunk       |      ^  | end of chunk:             |     ^ | begin_packet,
///      |                finish |      |  | new chunk, packet         |     | | no free chunk
///      |                       v      |  '--> goes on         finish |     '-'
///      '----- flush ------- [chunk open] <---------------------------'
///                                           begin_packet, new chunk: marked as after a loss
/// ```
#[derive(Debug)]
pub struct TraceWriter {
    stream: ChunkStream,
}

impl TraceWriter {
    /// Creates a writer of packets for `target_buffer`.
    ///
    /// If the arbiter is shut down, or all writer ids are in use, the writer drops and counts all
    /// packets.
    #[must_use]
    pub fn new(
        arbiter: &Arc<Arbiter>,
        target_buffer: BufferId,
        policy: BufferExhaustedPolicy,
    ) -> Self {
        let port = WriterPort::open(arbiter, target_buffer, policy);
        Self {
            stream: ChunkStream::new(port),
        }
    }

    /// Sets how long the writer waits for a free chunk, if its policy is to stall. After that, the
    /// packet is dropped and counted.
    #[must_use]
    pub fn with_stall_limit(mut self, limit: Duration) -> Self {
        self.stream.port_mut().set_stall_limit(limit);
        self
    }

    /// Returns the writer's id; `None` if it drops all packets.
    #[must_use]
    pub fn writer_id(&self) -> Option<WriterId> {
        self.stream.port().writer_id()
    }

    /// Returns the buffer that the packets go to.
    #[must_use]
    pub fn target_buffer(&self) -> BufferId {
        self.stream.port().target_buffer()
    }

    /// Returns the counts of packets so far.
    #[must_use]
    pub fn packet_counts(&self) -> PacketCounts {
        self.stream.port().packet_counts()
    }

    /// Returns true if the last packet was dropped because the shared memory was exhausted.
    #[must_use]
    pub fn is_dropping(&self) -> bool {
        self.stream.last_packet() == LastPacket::Dropped
    }

    /// Returns a number that changes when packets of this writer are lost, here or in the service.
    /// Code whose packets build on earlier ones compares it with an earlier value.
    #[inline]
    #[must_use]
    pub(crate) fn loss_mark(&self) -> u64 {
        self.stream.port().losses().value()
    }

    /// Returns the number of packets that were begun so far.
    pub(crate) fn packets_begun(&self) -> u64 {
        self.stream.port().counters().packets_begun()
    }

    /// Begins a packet, which ends when the handle is dropped. First ends a packet whose handle was
    /// leaked.
    #[inline]
    pub fn begin_packet(&mut self) -> Packet<'_> {
        self.open_packet();
        Packet { writer: self }
    }

    /// Writes a packet.
    #[inline]
    pub fn packet<R>(&mut self, write: impl FnOnce(&mut Message<'_>) -> R) -> R {
        let mut packet = self.begin_packet();
        write(&mut packet.message())
    }

    /// Writes a `TracePacket`.
    #[inline]
    pub fn trace_packet<R>(&mut self, write: impl FnOnce(&mut TracePacket<'_>) -> R) -> R {
        let mut packet = self.begin_packet();
        write(&mut packet.message_as::<TracePacket<'_>>())
    }

    /// Writes a packet whose fields are already encoded, without checking the bytes. This is the
    /// fastest way for packets of at most 126 bytes.
    #[inline]
    pub fn write_packet(&mut self, fields: &[u8]) {
        if !self.stream.write_short_packet(fields) {
            self.write_packet_slow(fields);
        }
    }

    /// Writes a packet of 1 to 126 bytes that `put` encodes. Returns false, and writes nothing, if
    /// `put` returns false or encodes more bytes. `put` may be called twice.
    #[inline(always)]
    pub fn write_packet_by(&mut self, put: impl Fn(&mut CompactValue<'_>) -> bool) -> bool {
        let mut does_fit = true;
        let is_written = self.stream.write_short_packet_by(|packet| {
            does_fit = put(packet);
            does_fit
        });
        is_written || (does_fit && self.write_packet_across(put))
    }

    /// Like [`write_packet_by`](Self::write_packet_by), if the chunk has too little room: encodes
    /// the packet in a separate buffer first.
    #[cold]
    #[inline(never)]
    fn write_packet_across(&mut self, put: impl Fn(&mut CompactValue<'_>) -> bool) -> bool {
        let mut memory = [0; DELIMITED_ROOM_BYTES];
        let mut stream = FixedSource::stream(&mut memory);
        let put = |packet: &mut CompactValue<'_>| put(packet) && is_compact(packet.len());
        let len = stream.append_delimited_by(put);
        drop(stream);
        let packet = len.and_then(|len| memory.get(1..=len));
        packet
            .map(|packet| self.write_packet_slow(packet))
            .is_some()
    }

    #[cold]
    #[inline(never)]
    fn write_packet_slow(&mut self, fields: &[u8]) {
        self.packet(|packet| packet.append_raw(fields));
    }

    /// Commits all packets that were written. The rest of the chunk stays unused; the next packet
    /// takes a new chunk.
    pub fn flush(&mut self) {
        self.finish_packet();
        self.stream.return_chunk();
    }

    #[inline]
    fn open_packet(&mut self) {
        if !self.stream.begin_packet() {
            self.open_packet_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn open_packet_slow(&mut self) {
        // Ends a packet whose handle was leaked.
        self.finish_packet();
        if !self.stream.begin_packet() {
            self.open_packet_in_other_chunk();
        }
    }

    fn open_packet_in_other_chunk(&mut self) {
        let last_packet = self.stream.last_packet();
        if !self.stream.begin_packet_in_other_chunk() {
            return;
        }
        let mut message = self.stream.message();
        match last_packet {
            // Only on the very first packet: to readers, the field means that nothing was lost
            // before.
            LastPacket::None => message.append_bool::<FIRST_PACKET_ON_SEQUENCE_FIELD>(true),
            LastPacket::Written => {}
            LastPacket::Dropped => {
                message.append_uint32::<PREVIOUS_PACKET_DROPPED_FIELD>(LOST_SHARED_MEMORY_FULL);
            }
        }
    }

    /// Ends the open packet, if there is one.
    #[inline]
    fn finish_packet(&mut self) {
        if !self.stream.end_short_packet() {
            self.finish_packet_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn finish_packet_slow(&mut self) {
        if self.stream.end_packet() {
            self.stream.return_chunk();
        }
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        self.flush();
    }
}

/// A packet that is being written. It ends when this handle is dropped.
#[derive(Debug)]
#[must_use = "the packet ends when the handle is dropped"]
pub struct Packet<'w> {
    writer: &'w mut TraceWriter,
}

impl Packet<'_> {
    /// Returns the packet's root message. Further calls continue the same message.
    #[inline]
    pub fn message(&mut self) -> Message<'_> {
        self.writer.stream.message()
    }

    /// Returns the packet's root message as the generated writer of type `M`.
    #[inline]
    pub fn message_as<M: Writer>(&mut self) -> M::At<'_> {
        M::from_message(self.message())
    }
}

impl Drop for Packet<'_> {
    #[inline]
    fn drop(&mut self) {
        self.writer.finish_packet();
    }
}

#[cfg(test)]
mod tests;
