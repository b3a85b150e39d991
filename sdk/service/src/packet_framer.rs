//! Packets of writers on their way from a buffer into a trace.
//!
//! In two steps, because writers wait while a buffer is locked. *Taking* copies packets as they
//! are, whole runs of them at once, under the lock. *Framing* comes after it: each packet is looked
//! at once, gets its place in the trace, and gets the fields that only the service knows.
//!
//! The service's fields come last in a packet, so they win over fields that the writer set.
//! `packet_validator.rs` refuses packets with fields that only the service may write.
//!
//! Perfetto's own service reads, checks and frames packet by packet. Here packets that lie whole in a chunk
//! are copied in one piece, and the chunk's descriptor accounts for them (`TraceBuffer::read_packets`). A
//! packet that crosses chunks, is malformed, or lies in a chunk that was patched where packets were counted
//! already, takes the long way, with the same result.

use std::collections::HashMap;

use protozero::{Decoder, StaticBuffered, append_varint, types};

use super::event_run::{Appended, EventFramer, LastField, MOVED_BYTES, PACKET_TAG};
use super::packet_validator::{Content, PacketInfo, inspect};
use super::trace_buffer::{
    ClientIdentity, LossMask, Origin, Packet, Packets, Run, TraceBuffer, split_first_packet,
};
use tracezero_core::ids::{ProducerId, WriterId};
use tracezero_core::protos::{Trace, TracePacket, TracePacketDecoder};

/// Room for the trusted fields: four of a 2-byte tag and a varint of at most 10 bytes each.
const TRUSTED_FIELDS_MAX_BYTES: usize = 48;

/// Bytes of a buffer that are taken while it is locked, more or less: writers wait that long.
pub(super) const READ_BATCH_BYTES: usize = 64 * 1024;

/// Takes packets, and frames them.
pub(super) struct PacketFramer {
    /// The bytes of what was taken, back to back.
    bytes: Vec<u8>,
    taken: Vec<Taken>,
    positions: HashMap<Writer, usize>,
    events: EventFramer,
    /// In the order of their ids, from [`FIRST_SEQUENCE_ID`] on.
    sequences: Vec<Sequence>,
    /// The writer of what was framed last, and the position of its sequence: chunks of one writer
    /// come in runs.
    last: Option<(Writer, usize)>,
    /// What the packets counted as that were framed since the last [`PacketFramer::begin_batch`], and
    /// how many did so one behind the other.
    batch: Vec<(Counted, u64)>,
    /// Writers of packets that were left out: what they write next must not build on those.
    losing_writers: Vec<Writer>,
    pub(super) counts: ReadCounts,
}

/// The sequence that the service writes to; writers count from the next number.
pub const SERVICE_SEQUENCE_ID: u32 = 1;
/// The id of the first sequence that is not the service's.
const FIRST_SEQUENCE_ID: u32 = SERVICE_SEQUENCE_ID + 1;

/// What came of the packets of writers that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Packets in the trace.
    pub packets: u64,
    /// Track events among them that can be decoded.
    pub events: u64,
    /// Packets of data sources among them that can be decoded.
    pub data_packets: u64,
    /// Packets that were left out.
    pub(crate) invalid_packets: u64,
}

/// What a packet in the trace counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Description,
    Event,
    Data,
    Undecodable,
}

/// What the trace calls a writer, and what it has told about it.
#[derive(Clone)]
struct Sequence {
    /// Whether a packet has told where its packets come from.
    is_introduced: bool,
    /// Whether it is introduced and owes no loss: the next packet gets the id alone.
    is_plain: bool,
    /// Whether readers have the incremental state that packets build on.
    has_state: bool,
    /// What was lost before the next packet, besides what the buffer knows.
    owed_loss: LossMask,
    left_out: LeftOut,
    trusted_id: LastField,
}

/// Packets of a sequence that were read and that no reader of the trace finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Malformed, or with fields that only the service writes.
    pub(super) invalid: u64,
    /// Beyond the end of the file.
    pub(super) beyond_end: u64,
    /// In the trace, but what they build on is lost.
    pub(super) undecodable: u64,
}

/// Names a sequence in the service.
pub(super) type Writer = (ProducerId, WriterId);

/// What was taken at once, besides its bytes.
struct Taken {
    len: usize,
    /// Whether the bytes are those of a [`Run`]; else they are one packet.
    is_run: bool,
    origin: Origin,
    loss: LossMask,
}

impl Taken {
    fn writer(&self) -> Writer {
        (self.origin.producer_id, self.origin.writer_id)
    }
}

/// `trusted_packet_sequence_id` of a sequence, as a field.
fn trusted_id(id: u32) -> LastField {
    let mut memory = [0; TRUSTED_FIELDS_MAX_BYTES];
    let mut buffer = StaticBuffered::<TracePacket<'_>>::new(&mut memory);
    buffer.message().set_trusted_packet_sequence_id(id);
    let len = buffer.finish().expect("a tag and an id take 6 bytes");
    LastField::new(&memory[..len]).expect("those are no more than 8")
}

impl PacketFramer {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            taken: Vec::new(),
            positions: HashMap::new(),
            events: EventFramer::default(),
            sequences: Vec::new(),
            last: None,
            batch: Vec::new(),
            losing_writers: Vec::new(),
            counts: ReadCounts::default(),
        }
    }

    /// Returns a framer that goes on where this one is: with its sequences and counts.
    pub(super) fn fork(&self) -> Self {
        Self {
            positions: self.positions.clone(),
            sequences: self.sequences.clone(),
            counts: self.counts,
            ..Self::new()
        }
    }

    /// Makes every sequence say once more where it comes from: what is framed next is to be read
    /// without what was framed before.
    pub(super) fn introduce_anew(&mut self) {
        for sequence in &mut self.sequences {
            sequence.is_introduced = false;
            sequence.is_plain = false;
        }
    }

    /// The id of a writer's sequence, given to it now if it has none.
    pub(super) fn sequence_id(&mut self, writer: Writer) -> u32 {
        id_of(self.position(writer))
    }

    /// Packets of a writer that were read and that no reader of the trace finds.
    pub(super) fn left_out(&self, writer: Writer) -> LeftOut {
        let position = self.positions.get(&writer);
        position.map_or_else(LeftOut::default, |&position| {
            self.sequences[position].left_out
        })
    }

    /// Takes the writers whose packets were left out since the last call.
    pub(super) fn take_losing_writers(&mut self) -> impl Iterator<Item = Writer> + '_ {
        self.losing_writers.drain(..)
    }

    /// Takes packets for as long as the buffer may stay locked. Returns whether there is more.
    pub(super) fn take_batch(&mut self, buffer: &mut TraceBuffer) -> bool {
        // The last chunk, and moves of the framer, reach beyond the batch.
        self.bytes.reserve(2 * READ_BATCH_BYTES + MOVED_BYTES);
        buffer.begin_read();
        while self.bytes.len() < READ_BATCH_BYTES {
            let Some(packets) = buffer.read_packets() else {
                return false;
            };
            self.take(&packets);
        }
        true
    }

    /// Copies packets out of a buffer.
    #[inline]
    fn take(&mut self, packets: &Packets<'_>) {
        match packets {
            Packets::One(packet) => self.take_one(packet),
            Packets::Run(run) => self.take_run(run),
        }
    }

    fn take_one(&mut self, packet: &Packet<'_>) {
        for slice in packet.slices() {
            self.bytes.extend_from_slice(slice);
        }
        self.taken.push(Taken {
            len: packet.len_bytes(),
            is_run: false,
            origin: packet.origin(),
            loss: packet.loss(),
        });
    }

    fn take_run(&mut self, run: &Run<'_>) {
        self.bytes.extend_from_slice(run.bytes());
        self.taken.push(Taken {
            len: run.bytes().len(),
            is_run: true,
            origin: run.origin(),
            loss: run.loss(),
        });
    }

    /// Begins a batch: [`PacketFramer::take_back`] takes back the end of one.
    pub(super) fn begin_batch(&mut self) {
        self.batch.clear();
    }

    /// Appends the packets that were taken to `trace`, each as a field of it; those that are not
    /// valid are left out. What only the service knows comes last in each: later fields win, so a
    /// writer cannot claim to be another.
    pub(super) fn append_to(&mut self, trace: &mut Vec<u8>) {
        let mut taken_bytes = std::mem::take(&mut self.bytes);
        // Room for moves that reach beyond the last packet.
        taken_bytes.resize(taken_bytes.len() + MOVED_BYTES, 0);
        let mut taken_list = std::mem::take(&mut self.taken);
        let mut rest = taken_bytes.as_slice();
        for mut taken in taken_list.drain(..) {
            let position = self.position(taken.writer());
            if taken.is_run {
                self.append_run(rest, position, &mut taken, trace);
            } else {
                self.append_packet(&rest[..taken.len], position, &mut taken, trace);
            }
            rest = &rest[taken.len..];
        }
        self.taken = taken_list;
        self.bytes = taken_bytes;
        self.bytes.clear();
    }

    /// Appends the packets of a run, which `bytes` start with.
    fn append_run(
        &mut self,
        bytes: &[u8],
        position: usize,
        taken: &mut Taken,
        trace: &mut Vec<u8>,
    ) {
        let mut at = 0;
        loop {
            let sequence = &self.sequences[position];
            if sequence.is_plain && taken.loss.is_empty() {
                let (has_state, id) = (sequence.has_state, &sequence.trusted_id);
                let rest_bytes = taken.len - at;
                let Appended { events, bytes } =
                    self.events
                        .append_events(&bytes[at..], rest_bytes, has_state, id, trace);
                at += bytes;
                self.counts.packets += events;
                self.counts.events += events;
                self.batch.push((Counted::Event, events));
            }
            let Some((packet, rest)) = split_first_packet(&bytes[at..taken.len]) else {
                return;
            };
            at = taken.len - rest.len();
            self.append_packet(packet, position, taken, trace);
        }
    }

    /// Appends a packet, which `taken` starts with.
    #[inline(never)]
    fn append_packet(
        &mut self,
        packet: &[u8],
        position: usize,
        taken: &mut Taken,
        trace: &mut Vec<u8>,
    ) {
        let sequence = &mut self.sequences[position];
        let Some(info) = inspect(packet) else {
            return self.leave_out(position, taken);
        };
        let loss = std::mem::take(&mut taken.loss) | std::mem::take(&mut sequence.owed_loss);
        let counted = sequence.count(info, loss);
        self.batch.push((counted, 1));
        self.counts.packets += 1;
        match counted {
            Counted::Event => self.counts.events += 1,
            Counted::Data => self.counts.data_packets += 1,
            Counted::Description => {}
            Counted::Undecodable => sequence.left_out.undecodable += 1,
        }
        if sequence.is_introduced && loss.is_empty() {
            let id = sequence.trusted_id.bytes();
            append_header(packet.len() + id.len(), trace);
            trace.extend_from_slice(packet);
            trace.extend_from_slice(id);
        } else {
            let is_first = !std::mem::replace(&mut sequence.is_introduced, true);
            let mut memory = [0; TRUSTED_FIELDS_MAX_BYTES];
            let client = is_first.then_some(taken.origin.client);
            let trusted = trusted_fields(&mut memory, id_of(position), client, loss);
            append_header(packet.len() + trusted.len(), trace);
            trace.extend_from_slice(packet);
            trace.extend_from_slice(trusted);
        }
        sequence.is_plain = true;
    }

    /// Leaves out a packet that is not valid.
    ///
    /// Perfetto's own service counts it, and that is all. Here the next packet of the sequence is marked as
    /// well, because it may build on this one. Invalid packets are a cause in the account of the sequence.
    #[cold]
    fn leave_out(&mut self, position: usize, taken: &mut Taken) {
        self.counts.invalid_packets += 1;
        self.losing_writers.push(taken.writer());
        // The next packet of the sequence tells of it, and of what this one would have.
        let sequence = &mut self.sequences[position];
        sequence.is_plain = false;
        sequence.owed_loss |= std::mem::take(&mut taken.loss) | LossMask::PRESENT;
        sequence.left_out.invalid += 1;
    }

    /// Takes back packets that did not get into the trace after all: the end of the batch.
    pub(super) fn take_back(&mut self, framed: &[u8]) {
        let mut ids = Vec::new();
        for packet in Decoder::new(framed).repeated::<types::Bytes>(Trace::PACKET_FIELD_NUMBER) {
            let packet = packet.expect("it was framed here");
            let id = TracePacketDecoder::new(packet).trusted_packet_sequence_id();
            let id = id.ok().flatten().expect("each packet has one");
            // The service's own packets are not counted.
            if id != SERVICE_SEQUENCE_ID {
                ids.push(id);
            }
        }
        let batch = self.batch.drain(..);
        let counted = batch.flat_map(|(counted, count)| (0..count).map(move |_| counted));
        let mut counted: Vec<_> = counted.collect();
        let first = counted.len() - ids.len();
        for (id, counted) in ids.into_iter().zip(counted.drain(first..)) {
            let left_out = &mut self.sequences[(id - FIRST_SEQUENCE_ID) as usize].left_out;
            left_out.beyond_end += 1;
            self.counts.packets -= 1;
            match counted {
                Counted::Event => self.counts.events -= 1,
                Counted::Data => self.counts.data_packets -= 1,
                Counted::Description => {}
                Counted::Undecodable => left_out.undecodable -= 1,
            }
        }
    }

    #[inline]
    fn position(&mut self, writer: Writer) -> usize {
        if let Some((last, position)) = self.last
            && last == writer
        {
            return position;
        }
        let next = self.sequences.len();
        let position = *self.positions.entry(writer).or_insert(next);
        if position == next {
            self.sequences.push(Sequence {
                is_introduced: false,
                is_plain: false,
                has_state: false,
                owed_loss: LossMask::NONE,
                left_out: LeftOut::default(),
                trusted_id: trusted_id(id_of(position)),
            });
        }
        self.last = Some((writer, position));
        position
    }
}

/// Appends the packets of `buffer` that can be read now to `trace`, each as a field of it: what a
/// session does with its buffers, in one go.
pub fn read_as_trace(buffer: &mut TraceBuffer, trace: &mut Vec<u8>) {
    let mut framer = PacketFramer::new();
    while framer.take_batch(buffer) {
        framer.append_to(trace);
    }
    framer.append_to(trace);
}

impl Sequence {
    /// What the next packet counts as, with `loss` before it. Readers see it the same way: a loss
    /// ends the incremental state, unless the packet itself starts it anew.
    #[inline]
    fn count(&mut self, info: PacketInfo, loss: LossMask) -> Counted {
        if info.starts_state {
            self.has_state = true;
        } else if info.follows_loss || !loss.is_empty() {
            self.has_state = false;
        }
        if info.needs_state && !self.has_state {
            return Counted::Undecodable;
        }
        match info.content {
            Content::Event => Counted::Event,
            Content::Data => Counted::Data,
            Content::Description => Counted::Description,
        }
    }
}

/// The id of the sequence at a position.
fn id_of(position: usize) -> u32 {
    FIRST_SEQUENCE_ID + position as u32
}

/// Where a packet comes from, and what was lost before it.
#[cold]
fn trusted_fields(
    memory: &mut [u8; TRUSTED_FIELDS_MAX_BYTES],
    sequence_id: u32,
    client: Option<ClientIdentity>,
    loss: LossMask,
) -> &[u8] {
    let mut buffer = StaticBuffered::<TracePacket<'_>>::new(memory);
    {
        let mut fields = buffer.message();
        // All packets of a sequence have the same client: once is enough.
        if let Some(client) = client {
            fields.set_trusted_uid(client.uid.map_or(-1, |uid| uid as i32));
            if let Some(pid) = client.pid {
                fields.set_trusted_pid(pid as i32);
            }
        }
        fields.set_trusted_packet_sequence_id(sequence_id);
        if !loss.is_empty() {
            fields.set_previous_packet_dropped(loss.bits());
        }
    }
    let len = buffer.finish().expect("there is room for all four fields");
    &memory[..len]
}

/// Appends tag and length of a packet in a trace.
#[inline]
fn append_header(packet_bytes: usize, trace: &mut Vec<u8>) {
    if packet_bytes < 0x80 {
        return trace.extend_from_slice(&[PACKET_TAG, packet_bytes as u8]);
    }
    trace.push(PACKET_TAG);
    append_varint(packet_bytes as u64, trace);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_buffer::{FillPolicy, UntrustedChunk};
    use tracezero_core::ids::ChunkId;
    use tracezero_core::protos::TraceDecoder;
    use tracezero_core::shm::ChunkFlags;

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
            is_run: false,
            origin: Origin {
                producer_id: ProducerId(1),
                writer_id: WriterId(1),
                client: ClientIdentity::default(),
            },
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
            data_packets: 0,
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

    /// What stands in chunks: packets of writers, good and bad.
    const SAMPLES: [&[u8]; 9] = [
        &[0x40, 5, 0x68, 1],                   // starts the incremental state
        &[0x40, 5, 0x68, 2, 0x5a, 1, 7],       // an event that needs it
        &[0x40, 0x85, 1, 0x68, 2, 0x5a, 1, 7], // a longer time stamp
        &[0x40, 5, 0xa2, 0x38, 0],             // a packet of a data source
        &[0x50, 7, 0x5a, 0],                   // pretends to be another sequence
        &[0x5a, 3, 1],                         // cut off
        &[0xd0, 0x02, 1, 0x40, 5],             // its writer lost something
        &[],                                   // a filler
        &[0x40; 130],                          // long enough for a size of two bytes
    ];

    /// A buffer with 200 chunks of two writers, and packets that go on from one to the next.
    fn buffer_of_samples() -> TraceBuffer {
        let mut buffer = TraceBuffer::new(1 << 20, FillPolicy::Ring).unwrap();
        let mut seed = 1_u32;
        let mut below = |bound: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % bound
        };
        let mut goes_on = [false; 2];
        for id in 0..200_u32 {
            let writer = below(2) as usize;
            let mut payload = Vec::new();
            let fragments = 1 + below(20);
            for _ in 0..fragments {
                let sample = SAMPLES[below(SAMPLES.len() as u32) as usize];
                append_varint(sample.len() as u64, &mut payload);
                payload.extend(sample);
            }
            let mut flags = ChunkFlags::NONE;
            if goes_on[writer] {
                flags = flags.union(ChunkFlags::FIRST_PACKET_CONTINUES);
            }
            goes_on[writer] = below(2) == 0;
            if goes_on[writer] {
                flags = flags.union(ChunkFlags::LAST_PACKET_CONTINUES);
            }
            buffer.commit_chunk(&UntrustedChunk {
                producer_id: ProducerId(1),
                client: ClientIdentity::default(),
                writer_id: WriterId(1 + writer as u16),
                chunk_id: ChunkId(id / 2),
                fragment_count: fragments as u16,
                flags,
                complete: true,
                payload: &payload,
            });
        }
        buffer
    }

    #[test]
    fn runs_are_framed_like_single_packets() {
        let mut in_runs = buffer_of_samples();
        let mut one_by_one = in_runs.clone_read_only().unwrap();
        let mut trace = Vec::new();
        read_as_trace(&mut in_runs, &mut trace);

        let mut framer = PacketFramer::new();
        one_by_one.begin_read();
        while let Some(packet) = one_by_one.read_packet() {
            framer.take(&Packets::One(packet));
        }
        let mut expected = Vec::new();
        framer.append_to(&mut expected);
        assert!(framer.counts.invalid_packets > 50, "{:?}", framer.counts);
        assert!(framer.counts.packets > 500, "{:?}", framer.counts);
        assert_eq!(trace, expected);
    }

    #[test]
    fn packets_that_build_on_what_is_lost_are_told_apart() {
        const STARTS: &[u8] = &[0x68, 1];
        const EVENT: &[u8] = &[0x68, 2, 0x5a, 0];
        let mut framer = PacketFramer::new();
        for (packet, loss) in [
            (EVENT, LossMask::NONE),
            (STARTS, LossMask::NONE),
            (EVENT, LossMask::NONE),
            (EVENT, LossMask::OVERWRITE),
            (EVENT, LossMask::NONE),
            (STARTS, LossMask::OVERWRITE),
            (EVENT, LossMask::NONE),
        ] {
            take_bytes(&mut framer, packet, loss);
        }
        let mut trace = Vec::new();
        framer.append_to(&mut trace);
        let left_out = framer.left_out((ProducerId(1), WriterId(1)));
        assert_eq!((framer.counts.events, left_out.undecodable), (2, 3));

        // The last two are taken back.
        let packets = Decoder::new(&trace).repeated::<types::Bytes>(Trace::PACKET_FIELD_NUMBER);
        let lengths: Vec<usize> = packets.map(|packet| 2 + packet.unwrap().len()).collect();
        let kept: usize = lengths[..5].iter().sum();
        framer.take_back(&trace[kept..]);
        let left_out = framer.left_out((ProducerId(1), WriterId(1)));
        assert_eq!((framer.counts.events, left_out.undecodable), (1, 3));
        assert_eq!((framer.counts.packets, left_out.beyond_end), (5, 2));
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
            data_packets: 0,
            invalid_packets: 0,
        };
        assert_eq!(framer.counts, counts);
    }

    #[test]
    fn the_largest_trusted_fields_fit() {
        let client = ClientIdentity {
            uid: Some(u32::MAX),
            pid: Some(u32::MAX),
        };
        let mut memory = [0; TRUSTED_FIELDS_MAX_BYTES];
        let fields = trusted_fields(&mut memory, u32::MAX, Some(client), LossMask::OVERWRITE);
        assert_eq!(fields.len(), 11 + 12 + 6 + 3);
    }
}
