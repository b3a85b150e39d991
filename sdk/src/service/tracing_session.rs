//! The buffers of one session, read as a trace.

use std::collections::HashMap;
use std::sync::Arc;

use protozero::{Fields, HeapBuffered, Value};

use super::service_packets::{SERVICE_SEQUENCE_ID, ServicePackets};
use super::trace_buffer::{BufferError, FillPolicy, Packet, TraceBuffer};
use super::{CentralBuffer, Service};
use crate::consumer::{Losses, ResolvedConfig, TraceConfig};
use crate::error::Error;
use crate::ids::{ProducerId, WriterId};
use crate::protos;

/// Bytes of a buffer that are read while it is locked, more or less: writers wait that long.
const READ_BATCH_BYTES: usize = 64 * 1024;

/// Field numbers of the packets of a sequence that are not events.
const NOT_EVENTS: [u32; 2] = [
    protos::TracePacket::CLOCK_SNAPSHOT_FIELD_NUMBER,
    protos::TracePacket::TRACK_DESCRIPTOR_FIELD_NUMBER,
];

/// One session on the service's side.
pub(crate) struct TracingSession {
    config: TraceConfig,
    uuid: (i64, i64),
    /// In the order of the configuration.
    buffers: Vec<Arc<CentralBuffer>>,
    /// Sequence ids of the writers that were met so far.
    sequence_ids: HashMap<(ProducerId, WriterId), u32>,
    /// Packets read so far.
    pub(crate) packets_read: u64,
    /// Packets read so far that are events.
    pub(crate) events_read: u64,
}

impl TracingSession {
    /// Allocates the buffers and opens them for commits.
    pub(crate) fn start(
        service: &Service,
        config: TraceConfig,
        resolved: &ResolvedConfig,
        wake: impl Fn() + Send + Sync + Clone + 'static,
    ) -> Result<Self, Error> {
        let allocated: Result<Vec<TraceBuffer>, (usize, BufferError)> = resolved
            .buffers
            .iter()
            .enumerate()
            .map(|(index, buffer)| {
                TraceBuffer::new(u64::from(buffer.size_kb) * 1024, buffer.fill_policy)
                    .map_err(|source| (index, source))
            })
            .collect();
        let mut session = Self {
            config,
            uuid: random_uuid(),
            buffers: Vec::new(),
            sequence_ids: HashMap::new(),
            packets_read: 0,
            events_read: 0,
        };
        for (buffer, config) in allocated
            .map_err(|(index, source)| Error::Buffer { index, source })?
            .into_iter()
            .zip(&resolved.buffers)
        {
            let Some(id) = service.free_buffer_id() else {
                service.remove_buffers(&session.buffers);
                return Err(Error::TooManyBuffers);
            };
            // A buffer that is full for good has nothing to gain from being drained early.
            let wakes = config.fill_policy == FillPolicy::Ring;
            let wake = wakes.then(|| Box::new(wake.clone()) as Box<dyn Fn() + Send + Sync>);
            let buffer = Arc::new(CentralBuffer::new(id, buffer, wake));
            service.add_buffer(Arc::clone(&buffer));
            session.buffers.push(buffer);
        }
        Ok(session)
    }

    /// The buffers, in the order of the configuration.
    pub(crate) fn buffers(&self) -> &[Arc<CentralBuffer>] {
        &self.buffers
    }

    /// The packets that a trace begins with.
    pub(crate) fn preamble(&self) -> Vec<u8> {
        service_packets(|packets| packets.preamble(&self.config, self.uuid))
    }

    /// The packets that a trace ends with.
    pub(crate) fn epilogue(&self) -> Vec<u8> {
        let stats: Vec<_> = self
            .buffers
            .iter()
            .map(|buffer| *buffer.buffer.lock().stats())
            .collect();
        service_packets(|packets| packets.epilogue(&stats))
    }

    /// Appends the packets that can be read now to `trace`, a batch at a time; after each batch,
    /// `flush` gets what was appended and empties it.
    pub(crate) fn read<E>(
        &mut self,
        trace: &mut Vec<u8>,
        mut flush: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        for index in 0..self.buffers.len() {
            let buffer = Arc::clone(&self.buffers[index]);
            buffer.note_drained();
            loop {
                let has_more = self.read_batch(&mut buffer.buffer.lock(), trace);
                flush(trace)?;
                if !has_more {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads for as long as the buffer may stay locked. Returns whether there is more.
    fn read_batch(&mut self, buffer: &mut TraceBuffer, trace: &mut Vec<u8>) -> bool {
        let enough = trace.len() + READ_BATCH_BYTES;
        buffer.begin_read();
        while trace.len() < enough {
            let Some(packet) = buffer.read_packet() else {
                return false;
            };
            self.append_packet(&packet, trace);
        }
        true
    }

    /// Frames a packet as a field of the trace, and appends what only the service knows: whose it
    /// is and what was lost before it. Later fields win, so a writer cannot claim to be another.
    fn append_packet(&mut self, packet: &Packet<'_>, trace: &mut Vec<u8>) {
        let next_id = SERVICE_SEQUENCE_ID + 1 + self.sequence_ids.len() as u32;
        let mut is_first = false;
        let sequence_id = *self
            .sequence_ids
            .entry((packet.producer_id(), packet.writer_id()))
            .or_insert_with(|| {
                is_first = true;
                next_id
            });
        let mut memory = [0; TRUSTED_FIELDS_BYTES];
        let mut trusted = protozero::StaticBuffered::<protos::TracePacket>::new(&mut memory);
        {
            let mut fields = trusted.message();
            if is_first {
                // All packets of a sequence have the same origin: once is enough.
                fields.set_trusted_uid(packet.client().uid.map_or(-1, |uid| uid as i32));
                if let Some(pid) = packet.client().pid {
                    fields.set_trusted_pid(pid as i32);
                }
            }
            fields.set_trusted_packet_sequence_id(sequence_id);
            if !packet.loss().is_empty() {
                fields.set_previous_packet_dropped(packet.loss().bits());
            }
        }
        let trusted_len = trusted.finish().unwrap_or(0);
        append_header(packet.len_bytes() + trusted_len, trace);
        let start = trace.len();
        for slice in packet.slices() {
            trace.extend_from_slice(slice);
        }
        self.packets_read += 1;
        self.events_read += u64::from(is_event(protozero::Decoder::new(&trace[start..]).fields()));
        trace.extend_from_slice(&memory[..trusted_len]);
    }

    /// Adds up what the buffers lost.
    pub(crate) fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        for buffer in &self.buffers {
            for (_, _, counts) in buffer.buffer.lock().all_packet_counts() {
                losses.overwritten += counts.overwritten;
                losses.discarded += counts.discarded;
                losses.aborted += counts.aborted;
                losses.corrupted += counts.gap + counts.broken_chain + counts.corrupted;
                losses.unfinished += counts.unread;
            }
        }
        losses
    }
}

/// Room for the trusted fields: four of a 2-byte tag and a varint of at most 10 bytes each.
const TRUSTED_FIELDS_BYTES: usize = 64;

/// Appends tag and length of a packet in a trace.
fn append_header(packet_bytes: usize, trace: &mut Vec<u8>) {
    const PACKET_TAG: u8 = (protos::Trace::PACKET_FIELD_NUMBER << 3 | 2) as u8;
    trace.push(PACKET_TAG);
    let mut rest = packet_bytes;
    while rest >= 0x80 {
        trace.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    trace.push(rest as u8);
}

/// Whether a packet is something that happened, rather than a description needed to read others.
fn is_event(fields: Fields<'_>) -> bool {
    for field in fields {
        match field {
            Ok(field) if NOT_EVENTS.contains(&field.number) => return false,
            // Data comes as a message; nothing else before it does, but defaults.
            Ok(field)
                if matches!(field.value, Value::Bytes(_))
                    && field.number != protos::TracePacket::TRACE_PACKET_DEFAULTS_FIELD_NUMBER =>
            {
                return true;
            }
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    false
}

fn service_packets(write: impl FnOnce(&mut ServicePackets<'_, '_>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<protos::Trace>::new();
    write(&mut ServicePackets {
        trace: &mut buffer.message(),
    });
    buffer.to_vec()
}

/// A random UUID, version 4, as its two halves.
fn random_uuid() -> (i64, i64) {
    use std::hash::{BuildHasher, RandomState};
    // The keys of a hash map's hasher are random, and differ each time.
    let random = |salt: u64| RandomState::new().hash_one(salt);
    let msb = random(1) & !0xf000 | 0x4000;
    let lsb = random(2) & !(0xc << 60) | 0x8 << 60;
    (msb as i64, lsb as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_of_version_4_and_differ() {
        let (msb, lsb) = random_uuid();
        assert_eq!(msb as u64 >> 12 & 0xf, 4);
        assert_eq!(lsb as u64 >> 62, 0b10);
        assert_ne!((msb, lsb), random_uuid());
    }

    #[test]
    fn packet_headers_are_a_tag_and_the_shortest_length() {
        let header = |len| {
            let mut trace = Vec::new();
            append_header(len, &mut trace);
            trace
        };
        assert_eq!(header(0), [0x0a, 0]);
        assert_eq!(header(127), [0x0a, 127]);
        assert_eq!(header(300), [0x0a, 0xac, 0x02]);
    }
}
