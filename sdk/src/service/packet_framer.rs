//! Packets of writers on their way from a buffer into a trace.
//!
//! In two steps, because writers wait while a buffer is locked: packets are *taken* as they are,
//! under the lock; *framing* them, with what only the service knows about them, comes after it.

use std::collections::HashMap;

use protozero::{Decoder, StaticBuffered, Value};

use super::service_packets::SERVICE_SEQUENCE_ID;
use super::trace_buffer::{ClientIdentity, LossMask, Packet};
use crate::ids::{ProducerId, WriterId};
use crate::protos::{Trace, TracePacket};

/// Field numbers of the packets of a sequence that are not events.
const DESCRIPTORS: [u32; 2] = [
    TracePacket::CLOCK_SNAPSHOT_FIELD_NUMBER,
    TracePacket::TRACK_DESCRIPTOR_FIELD_NUMBER,
];

/// Room for the trusted fields: four of a 2-byte tag and a varint of at most 10 bytes each.
const TRUSTED_FIELDS_MAX_BYTES: usize = 48;

/// Takes packets, and frames them.
pub(super) struct PacketFramer {
    /// The bytes of the packets taken, back to back.
    bytes: Vec<u8>,
    taken: Vec<Taken>,
    sequences: HashMap<Writer, Sequence>,
    /// The writer of the last packet framed, and its sequence: packets of one writer come in runs.
    last: Option<(Writer, u32)>,
    /// Packets framed so far.
    pub(super) packets: u64,
    /// Those of them that are events.
    pub(super) events: u64,
    /// Packets that were left out.
    pub(super) invalid_packets: u64,
}

/// What the trace calls a writer, and whether it has told where its packets come from.
struct Sequence {
    id: u32,
    is_introduced: bool,
}

/// Names a sequence in the service.
pub(super) type Writer = (ProducerId, WriterId);

/// What a packet is besides its bytes.
struct Taken {
    len: usize,
    writer: Writer,
    client: ClientIdentity,
    loss: LossMask,
}

impl PacketFramer {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            taken: Vec::new(),
            sequences: HashMap::new(),
            last: None,
            packets: 0,
            events: 0,
            invalid_packets: 0,
        }
    }

    /// Bytes of the packets that were taken and not framed yet.
    pub(super) fn taken_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The id of a writer's sequence, given to it now if it has none.
    pub(super) fn sequence_id(&mut self, writer: Writer) -> u32 {
        sequence_of(&mut self.sequences, writer).id
    }

    pub(super) fn take(&mut self, packet: &Packet<'_>) {
        for slice in packet.slices() {
            self.bytes.extend_from_slice(slice);
        }
        self.taken.push(Taken {
            len: packet.len_bytes(),
            writer: (packet.producer_id(), packet.writer_id()),
            client: packet.client(),
            loss: packet.loss(),
        });
    }

    /// Appends the packets that were taken to `trace`, each as a field of it. What only the service
    /// knows comes last in each: later fields win, so a writer cannot claim to be another.
    pub(super) fn append_to(&mut self, trace: &mut Vec<u8>) {
        let mut rest = self.bytes.as_slice();
        for packet in self.taken.drain(..) {
            let (bytes, later) = rest.split_at(packet.len);
            rest = later;
            let (sequence_id, is_first) = match self.last {
                Some((writer, sequence_id)) if writer == packet.writer => (sequence_id, false),
                _ => introduce(&mut self.sequences, packet.writer),
            };
            self.last = Some((packet.writer, sequence_id));
            let mut memory = [0; TRUSTED_FIELDS_MAX_BYTES];
            let trusted = trusted_fields(&mut memory, sequence_id, is_first, &packet);
            append_header(bytes.len() + trusted.len(), trace);
            trace.extend_from_slice(bytes);
            trace.extend_from_slice(trusted);
            self.packets += 1;
            self.events += u64::from(is_event(bytes));
        }
        self.bytes.clear();
    }
}

fn sequence_of(sequences: &mut HashMap<Writer, Sequence>, writer: Writer) -> &mut Sequence {
    let next_id = SERVICE_SEQUENCE_ID + 1 + sequences.len() as u32;
    sequences.entry(writer).or_insert(Sequence {
        id: next_id,
        is_introduced: false,
    })
}

/// The id of a writer's sequence, and whether this is its first packet.
fn introduce(sequences: &mut HashMap<Writer, Sequence>, writer: Writer) -> (u32, bool) {
    let sequence = sequence_of(sequences, writer);
    let is_first = !std::mem::replace(&mut sequence.is_introduced, true);
    (sequence.id, is_first)
}

/// Where a packet comes from, and what was lost before it.
fn trusted_fields<'m>(
    memory: &'m mut [u8; TRUSTED_FIELDS_MAX_BYTES],
    sequence_id: u32,
    is_first: bool,
    packet: &Taken,
) -> &'m [u8] {
    let mut buffer = StaticBuffered::<TracePacket<'_>>::new(memory);
    {
        let mut fields = buffer.message();
        if is_first {
            // All packets of a sequence have the same origin: once is enough.
            fields.set_trusted_uid(packet.client.uid.map_or(-1, |uid| uid as i32));
            if let Some(pid) = packet.client.pid {
                fields.set_trusted_pid(pid as i32);
            }
        }
        fields.set_trusted_packet_sequence_id(sequence_id);
        if !packet.loss.is_empty() {
            fields.set_previous_packet_dropped(packet.loss.bits());
        }
    }
    let len = buffer.finish().expect("there is room for all four fields");
    &memory[..len]
}

/// Appends tag and length of a packet in a trace.
fn append_header(packet_bytes: usize, trace: &mut Vec<u8>) {
    const PACKET_TAG: u8 = (Trace::PACKET_FIELD_NUMBER << 3 | 2) as u8;
    trace.push(PACKET_TAG);
    let mut rest = packet_bytes;
    while rest >= 0x80 {
        trace.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    trace.push(rest as u8);
}

/// Whether a packet is something that happened, rather than a description needed to read others.
fn is_event(packet: &[u8]) -> bool {
    for field in Decoder::new(packet).fields() {
        match field {
            Ok(field) if DESCRIPTORS.contains(&field.number) => return false,
            // Data comes as a message; nothing else before it does, but defaults.
            Ok(field)
                if matches!(field.value, Value::Bytes(_))
                    && field.number != TracePacket::TRACE_PACKET_DEFAULTS_FIELD_NUMBER =>
            {
                return true;
            }
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn writers_get_sequence_ids_from_2_on_in_order_of_appearance() {
        let mut sequences = HashMap::new();
        let writer = |id| (ProducerId(1), WriterId(id));
        assert_eq!(introduce(&mut sequences, writer(9)), (2, true));
        assert_eq!(sequence_of(&mut sequences, writer(4)).id, 3);
        assert_eq!(introduce(&mut sequences, writer(4)), (3, true));
        assert_eq!(introduce(&mut sequences, writer(9)), (2, false));
    }

    #[test]
    fn the_largest_trusted_fields_fit() {
        let packet = Taken {
            len: 0,
            writer: (ProducerId(1), WriterId(1)),
            client: ClientIdentity {
                uid: Some(u32::MAX),
                pid: Some(u32::MAX),
            },
            loss: LossMask::OVERWRITE,
        };
        let mut memory = [0; TRUSTED_FIELDS_MAX_BYTES];
        let fields = trusted_fields(&mut memory, u32::MAX, true, &packet);
        assert_eq!(fields.len(), 11 + 12 + 6 + 3);
    }

    #[test]
    fn descriptors_are_no_events() {
        assert!(is_event(&[0x40, 5, 0x5a, 0]));
        assert!(is_event(&[0xa2, 0x38, 0]));
        assert!(!is_event(&[0x40, 5, 0xe2, 0x03, 0]));
        assert!(!is_event(&[0x40, 5]));
    }
}
