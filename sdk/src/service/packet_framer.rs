//! Packets of writers on their way from a buffer into a trace.
//!
//! In two steps, because writers wait while a buffer is locked: packets are *taken* as they are,
//! under the lock; *framing* them, with what only the service knows about them, comes after it.

use std::collections::HashMap;

use protozero::{Decoder, StaticBuffered, types};

use super::packet_validator::{PacketKind, classify, classify_framed};
use super::service_packets::SERVICE_SEQUENCE_ID;
use super::trace_buffer::{ClientIdentity, LossMask, Packet};
use crate::ids::{ProducerId, WriterId};
use crate::protos::{Trace, TracePacket, TracePacketDecoder};

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
    pub(super) counts: ReadCounts,
}

/// What came of the packets of writers that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadCounts {
    /// Those that are in the trace.
    pub(crate) packets: u64,
    /// Those of them that are events.
    pub(crate) events: u64,
    /// Those that were left out.
    pub(crate) invalid_packets: u64,
}

/// What the trace calls a writer, and what it has told about it.
#[derive(Clone)]
struct Sequence {
    id: u32,
    /// Whether a packet has told where its packets come from.
    is_introduced: bool,
    /// What was lost before the next packet, besides what the buffer knows.
    owed_loss: LossMask,
    left_out: LeftOut,
}

/// Packets of a sequence that were read and are not in the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Malformed, or with fields that only the service writes.
    pub(super) invalid: u64,
    /// Beyond the limit of the file.
    pub(super) file_full: u64,
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
            counts: ReadCounts::default(),
        }
    }

    /// A framer that goes on where this one is: with its sequences and counts.
    pub(super) fn fork(&self) -> Self {
        Self {
            sequences: self.sequences.clone(),
            counts: self.counts,
            ..Self::new()
        }
    }

    /// Has every sequence say once more where it comes from: what is framed next is to be read
    /// without what was framed before.
    pub(super) fn introduce_anew(&mut self) {
        for sequence in self.sequences.values_mut() {
            sequence.is_introduced = false;
        }
        self.last = None;
    }

    /// Bytes of the packets that were taken and not framed yet.
    pub(super) fn taken_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The id of a writer's sequence, given to it now if it has none.
    pub(super) fn sequence_id(&mut self, writer: Writer) -> u32 {
        sequence_of(&mut self.sequences, writer).id
    }

    /// Packets of a writer that were read and are not in the trace.
    pub(super) fn left_out(&self, writer: Writer) -> LeftOut {
        let sequence = self.sequences.get(&writer);
        sequence.map_or_else(LeftOut::default, |sequence| sequence.left_out)
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

    /// Appends the packets that were taken to `trace`, each as a field of it; those that are not
    /// valid are left out. What only the service knows comes last in each: later fields win, so a
    /// writer cannot claim to be another.
    pub(super) fn append_to(&mut self, trace: &mut Vec<u8>) {
        let mut rest = self.bytes.as_slice();
        for mut packet in self.taken.drain(..) {
            let (bytes, later) = rest.split_at(packet.len);
            rest = later;
            let Some(kind) = classify(bytes) else {
                self.counts.invalid_packets += 1;
                // The next packet of the sequence tells of it, and of what this one would have.
                let sequence = sequence_of(&mut self.sequences, packet.writer);
                sequence.owed_loss |= packet.loss | LossMask::PRESENT;
                sequence.left_out.invalid += 1;
                self.last = None;
                continue;
            };
            let (sequence_id, is_first) = match self.last {
                Some((writer, sequence_id)) if writer == packet.writer => (sequence_id, false),
                _ => {
                    let sequence = sequence_of(&mut self.sequences, packet.writer);
                    packet.loss |= std::mem::take(&mut sequence.owed_loss);
                    let is_first = !std::mem::replace(&mut sequence.is_introduced, true);
                    (sequence.id, is_first)
                }
            };
            self.last = Some((packet.writer, sequence_id));
            let mut memory = [0; TRUSTED_FIELDS_MAX_BYTES];
            let trusted = trusted_fields(&mut memory, sequence_id, is_first, &packet);
            append_header(bytes.len() + trusted.len(), trace);
            trace.extend_from_slice(bytes);
            trace.extend_from_slice(trusted);
            self.counts.packets += 1;
            self.counts.events += u64::from(kind == PacketKind::Event);
        }
        self.bytes.clear();
    }

    /// Takes back packets that did not get into the trace after all.
    pub(super) fn take_back(&mut self, framed: &[u8]) {
        for packet in Decoder::new(framed).repeated::<types::Bytes>(Trace::PACKET_FIELD_NUMBER) {
            let packet = packet.expect("it was framed here");
            let sequence = TracePacketDecoder::new(packet).trusted_packet_sequence_id();
            if sequence != Ok(Some(SERVICE_SEQUENCE_ID)) {
                if let Ok(Some(id)) = sequence {
                    let of_id = |sequence: &&mut Sequence| sequence.id == id;
                    if let Some(sequence) = self.sequences.values_mut().find(of_id) {
                        sequence.left_out.file_full += 1;
                    }
                }
                self.counts.packets -= 1;
                let is_event = classify_framed(packet) == Some(PacketKind::Event);
                self.counts.events -= u64::from(is_event);
            }
        }
    }
}

fn sequence_of(sequences: &mut HashMap<Writer, Sequence>, writer: Writer) -> &mut Sequence {
    let next_id = SERVICE_SEQUENCE_ID + 1 + sequences.len() as u32;
    sequences.entry(writer).or_insert(Sequence {
        id: next_id,
        is_introduced: false,
        owed_loss: LossMask::NONE,
        left_out: LeftOut::default(),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protos::TraceDecoder;

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
        let mut framer = PacketFramer::new();
        let writer = |id| (ProducerId(1), WriterId(id));
        assert_eq!(framer.sequence_id(writer(9)), 2);
        assert_eq!(framer.sequence_id(writer(4)), 3);
        assert_eq!(framer.sequence_id(writer(9)), 2);
        assert_eq!(framer.fork().sequence_id(writer(5)), 4);
    }

    /// As `take` would have noted it: nothing but its bytes and what was lost before it.
    fn take_bytes(framer: &mut PacketFramer, bytes: &[u8], loss: LossMask) {
        framer.bytes.extend_from_slice(bytes);
        framer.taken.push(Taken {
            len: bytes.len(),
            writer: (ProducerId(1), WriterId(1)),
            client: ClientIdentity::default(),
            loss,
        });
    }

    #[test]
    fn a_packet_that_is_not_valid_is_left_out_and_the_next_one_of_its_sequence_tells() {
        const FORGED: &[u8] = &[0x50, 7, 0x5a, 0];
        const CUT_OFF: &[u8] = &[0x5a, 3, 1];
        const EVENT: &[u8] = &[0x5a, 0];
        let mut framer = PacketFramer::new();
        take_bytes(&mut framer, EVENT, LossMask::NONE);
        take_bytes(&mut framer, FORGED, LossMask::OVERWRITE);
        take_bytes(&mut framer, CUT_OFF, LossMask::NONE);
        take_bytes(&mut framer, EVENT, LossMask::READ_GAP);
        take_bytes(&mut framer, EVENT, LossMask::NONE);
        let mut trace = Vec::new();
        framer.append_to(&mut trace);
        let counts = ReadCounts {
            packets: 3,
            events: 3,
            invalid_packets: 2,
        };
        assert_eq!(framer.counts, counts);
        let packets = TraceDecoder::new(&trace).packet();
        let losses: Vec<_> = packets
            .map(|packet| packet.unwrap().previous_packet_dropped().unwrap())
            .collect();
        let told = LossMask::OVERWRITE | LossMask::READ_GAP;
        assert_eq!(losses, [None, Some(told.bits()), None]);
    }

    #[test]
    fn a_sequence_says_where_it_comes_from_once_or_once_more_if_it_is_asked_to() {
        let mut framer = PacketFramer::new();
        let mut trace = Vec::new();
        for is_anew in [false, false, true, false] {
            if is_anew {
                framer.introduce_anew();
            }
            take_bytes(&mut framer, &[0x5a, 0], LossMask::NONE);
            framer.append_to(&mut trace);
        }
        let packets = TraceDecoder::new(&trace).packet();
        let told: Vec<_> = packets
            .map(|packet| packet.unwrap().trusted_uid().unwrap().is_some())
            .collect();
        assert_eq!(told, [true, false, true, false]);
    }

    #[test]
    fn packets_that_are_taken_back_do_not_count() {
        let mut framer = PacketFramer::new();
        let mut trace = Vec::new();
        for packet in [&[0x5a, 0][..], &[0x40, 1], &[0x5a, 0]] {
            take_bytes(&mut framer, packet, LossMask::NONE);
        }
        framer.append_to(&mut trace);
        let second = 2 + usize::from(trace[1]);
        framer.take_back(&trace[second..]);
        let counts = ReadCounts {
            packets: 1,
            events: 1,
            invalid_packets: 0,
        };
        assert_eq!(framer.counts, counts);
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
}
