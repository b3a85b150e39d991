//! Turns packets of writers into packets of a trace.
//!
//! This happens in two steps, because writers wait while a buffer is locked. *Taking* copies
//! packets as they are, in whole runs, under the lock. *Framing* comes later, without the lock: it
//! inspects each packet once, appends it to the trace, and adds the fields that only the service
//! knows.
//!
//! The service's fields come last in a packet, so they win over fields that the writer set.
//! `packet_validator.rs` refuses packets with fields that only the service may write.
//!
//! Perfetto's own service reads, checks and frames packet by packet. Here packets that lie whole in
//! a chunk are copied in one piece, and counted by the chunk's descriptor
//! (`TraceBuffer::read_packets`). Other packets take a slower path with the same result: those that
//! cross chunks, those that are malformed, and those in a chunk that was patched after its packets
//! were counted.

use std::collections::HashMap;

use protozero::{Decoder, StaticBuffered, append_varint, types};

use super::event_run::{AppendedCounts, EventFramer, LastField, MOVED_BYTES, PACKET_TAG};
use super::packet_validator::{PACKET_MAX_BYTES, PacketInfo, inspect};
use super::trace_buffer::{
    ClientIdentity, LossMask, Origin, Packet, Packets, Run, TraceBuffer, split_first_packet,
};
use tracezero_core::ids::{ProducerId, WriterId};
use tracezero_core::packet_content::PacketContent;
use tracezero_core::protos::{Trace, TracePacket, TracePacketDecoder};

/// The maximum size of the trusted fields: four fields, each with a tag of 2 bytes and a varint of
/// at most 10 bytes.
const TRUSTED_FIELDS_MAX_BYTES: usize = 48;

/// The approximate number of bytes that are taken while a buffer is locked. Writers wait while
/// these bytes are copied.
pub(super) const READ_BATCH_BYTES: usize = 64 * 1024;

/// The maximum number of packets and runs that are taken while a buffer is locked. Packets without
/// bytes would not fill a batch.
const READ_BATCH_PACKETS_MAX: usize = 4096;

/// The maximum number of bytes that stay allocated for the next batch. A batch with a large packet
/// takes more for a moment.
pub(super) const KEPT_BYTES_MAX: usize = 2 << 20;

/// Gives back the memory of a large batch. `memory` must be empty.
pub(super) fn give_back(memory: &mut Vec<u8>) {
    if memory.capacity() > KEPT_BYTES_MAX {
        memory.shrink_to(KEPT_BYTES_MAX);
    }
}

/// Takes packets out of buffers and frames them.
pub(super) struct PacketFramer {
    /// The bytes of the taken packets, back to back.
    bytes: Vec<u8>,
    taken: Vec<TakenPackets>,
    positions: HashMap<Writer, usize>,
    events: EventFramer,
    /// The sequences in the order of their ids, from [`FIRST_SEQUENCE_ID`] on.
    sequences: Vec<Sequence>,
    /// The writer whose packets were framed last, and the position of its sequence. It saves
    /// look-ups, because chunks of one writer often follow each other.
    last: Option<(Writer, usize)>,
    /// The packets that were framed since the last [`PacketFramer::begin_batch`].
    batch: Framed<KindLog>,
    /// The counts of packets in the present segment, and in the one before it while that is split
    /// off. A trace without segments is a single one.
    segment_counts: Framed<ReadCounts>,
    /// The sequences that have left the older segment since the last
    /// [`PacketFramer::take_moved`], by position.
    moved: Vec<usize>,
    /// Writers of packets that were left out. They are told of the loss, because their next packets
    /// must not depend on packets that were left out.
    losing_writers: Vec<Writer>,
    pub(super) counts: ReadCounts,
}

/// The sequence id of the service's own packets. Writers get the ids above it.
pub const SERVICE_SEQUENCE_ID: u32 = 1;
/// The first sequence id of a writer.
const FIRST_SEQUENCE_ID: u32 = SERVICE_SEQUENCE_ID + 1;

/// The number of packets of writers that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Packets that are in the trace.
    pub packets: u64,
    /// Track events in the trace that can be decoded.
    pub events: u64,
    /// Packets of data sources in the trace that can be decoded.
    pub data_packets: u64,
    /// Packets that were left out.
    pub(crate) invalid_packets: u64,
}

impl ReadCounts {
    fn add(&mut self, kind: PacketKind, packets: u64) {
        self.packets += packets;
        match kind {
            PacketKind::Event => self.events += packets,
            PacketKind::Data => self.data_packets += packets,
            PacketKind::Description | PacketKind::Undecodable => {}
        }
    }
}

/// Values for the two segments that packets can go to (`segments.rs`): the newest one, and the one
/// before it while sequences are still in that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Framed<T> {
    pub(super) newer: T,
    pub(super) older: T,
}

impl<T> Framed<T> {
    /// Returns the value for the segment that a sequence is in.
    #[inline]
    fn of(&mut self, sequence: &Sequence) -> &mut T {
        match sequence.is_in_older {
            true => &mut self.older,
            false => &mut self.newer,
        }
    }
}

/// The kinds of packets in their order, run-length encoded.
type KindLog = Vec<(PacketKind, u64)>;

/// How a packet in the trace is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketKind {
    Description,
    Event,
    Data,
    Undecodable,
}

/// The state of one writer's sequence in the trace.
#[derive(Clone)]
struct Sequence {
    /// True if a packet in the trace has told who wrote the sequence.
    is_introduced: bool,
    /// True if the sequence is introduced and no loss is to be reported: the next packet gets the
    /// sequence id alone.
    is_plain: bool,
    /// True if readers of the trace have the incremental state that packets depend on.
    has_state: bool,
    /// True if the sequence has ever started an incremental state.
    starts_states: bool,
    /// True if the packets still go to the older segment.
    is_in_older: bool,
    /// True if the state of the sequence is in a segment that has ended.
    is_behind: bool,
    /// The number of packets of the sequence in the segment that it is in.
    packets_in_segment: u64,
    /// Losses that the next packet must report, besides those that the buffer reports.
    pending_loss: LossMask,
    left_out: LeftOutCounts,
    trusted_id: LastField,
}

/// The number of packets of a sequence that were read but are of no use to readers of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOutCounts {
    /// Packets that are malformed, or have fields that only the service may write.
    pub(super) invalid: u64,
    /// Packets that came after the end of the file.
    pub(super) beyond_end: u64,
    /// Packets in the trace whose incremental state is lost.
    pub(super) undecodable: u64,
}

/// The ids by which the service identifies a sequence.
pub(super) type Writer = (ProducerId, WriterId);

/// A packet or a run that was taken, without its bytes.
struct TakenPackets {
    len: usize,
    kind: TakenKind,
    origin: Origin,
    loss: LossMask,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TakenKind {
    /// A [`Run`].
    Run,
    /// A single packet.
    One,
    /// A packet with more than [`PACKET_MAX_BYTES`]. Its bytes were not copied.
    TooLarge,
}

impl TakenPackets {
    fn writer(&self) -> Writer {
        (self.origin.producer_id, self.origin.writer_id)
    }
}

/// Returns `trusted_packet_sequence_id` of a sequence as an encoded field.
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
            batch: Framed::default(),
            segment_counts: Framed::default(),
            moved: Vec::new(),
            losing_writers: Vec::new(),
            counts: ReadCounts::default(),
        }
    }

    /// Creates a framer that continues with the sequences and counts of this one.
    pub(super) fn fork(&self) -> Self {
        Self {
            positions: self.positions.clone(),
            sequences: self.sequences.clone(),
            counts: self.counts,
            ..Self::new()
        }
    }

    /// Makes every sequence tell again who wrote it. Call this before framing a trace that is read
    /// without the earlier packets.
    pub(super) fn introduce_anew(&mut self) {
        for sequence in &mut self.sequences {
            sequence.is_introduced = false;
            sequence.is_plain = false;
        }
    }

    /// Begins another segment. Sequences that never start a state are in it at once; all others stay
    /// in the older segment until they start their state again.
    pub(super) fn begin_segment(&mut self) {
        self.segment_counts = Framed {
            newer: ReadCounts::default(),
            older: self.segment_counts.newer,
        };
        for (position, sequence) in self.sequences.iter_mut().enumerate() {
            sequence.packets_in_segment = 0;
            sequence.is_in_older = sequence.starts_states && !sequence.is_behind;
            if !sequence.is_in_older {
                sequence.enter_segment();
                self.moved.push(position);
            }
        }
    }

    /// Ends the older segment. Packets that still need a state in it cannot be read any more, and
    /// are left out.
    pub(super) fn end_segment(&mut self) {
        for sequence in self.sequences.iter_mut().filter(|it| it.is_in_older) {
            sequence.is_in_older = false;
            sequence.is_behind = true;
            sequence.has_state = false;
            sequence.enter_segment();
        }
    }

    /// Returns the sequences that have left the older segment since the last call, each with the
    /// number of its packets in the newest one.
    pub(super) fn take_moved(&mut self) -> Vec<(u32, u64)> {
        let Self {
            moved, sequences, ..
        } = self;
        moved
            .drain(..)
            .map(|position| (id_of(position), sequences[position].packets_in_segment))
            .collect()
    }

    /// Returns the sequences that are in the older segment.
    pub(super) fn sequences_in_older(&self) -> impl Iterator<Item = u32> {
        let sequences = self.sequences.iter().enumerate();
        let in_older = sequences.filter(|(_, sequence)| sequence.is_in_older);
        in_older.map(|(position, _)| id_of(position))
    }

    /// Returns the counts of the packets in the newest segment, and in the one before it.
    pub(super) fn segment_counts(&self) -> &Framed<ReadCounts> {
        &self.segment_counts
    }

    /// Returns the id of a writer's sequence. Assigns one if it has none.
    pub(super) fn sequence_id(&mut self, writer: Writer) -> u32 {
        id_of(self.position(writer))
    }

    /// Continues a sequence that has this id in an earlier part of the trace. An id that no service
    /// assigns is ignored.
    pub(super) fn continue_sequence(&mut self, writer: Writer, id: u32) {
        /// Writer ids have 16 bits.
        const SEQUENCES_MAX: u32 = 1 << 16;
        let position = id.checked_sub(FIRST_SEQUENCE_ID);
        let Some(position) = position.filter(|position| *position < SEQUENCES_MAX) else {
            return;
        };
        let position = position as usize;
        while self.sequences.len() <= position {
            self.sequences.push(Sequence::new(self.sequences.len()));
        }
        // Readers have the state that the earlier part has defined.
        self.sequences[position].has_state = true;
        self.positions.insert(writer, position);
    }

    /// Returns the number of a writer's packets that were read but are of no use to readers of the
    /// trace.
    pub(super) fn left_out(&self, writer: Writer) -> LeftOutCounts {
        let position = self.positions.get(&writer);
        position.map_or_else(LeftOutCounts::default, |&position| {
            self.sequences[position].left_out
        })
    }

    /// Returns the writers whose packets were left out since the last call.
    pub(super) fn take_losing_writers(&mut self) -> impl Iterator<Item = Writer> + '_ {
        self.losing_writers.drain(..)
    }

    /// Takes packets for as long as the buffer may stay locked. Returns whether there may be more.
    pub(super) fn take_batch(&mut self, buffer: &mut TraceBuffer) -> bool {
        // The last chunk may exceed the batch, and copies of fixed size reach beyond the last
        // packet.
        self.bytes.reserve(2 * READ_BATCH_BYTES + MOVED_BYTES);
        buffer.begin_read();
        while self.bytes.len() < READ_BATCH_BYTES && self.taken.len() < READ_BATCH_PACKETS_MAX {
            let Some(packets) = buffer.read_packets() else {
                return false;
            };
            self.take(&packets);
        }
        true
    }

    /// Returns the writers of the packets that were taken and are not appended yet.
    pub(super) fn taken_writers(&self) -> Vec<Writer> {
        let mut writers: Vec<Writer> = self.taken.iter().map(TakenPackets::writer).collect();
        writers.sort_unstable();
        writers.dedup();
        writers
    }

    /// Calls `each` with the writer and the bytes of each packet that was taken and is not appended yet,
    /// except for those that were too large to be copied.
    pub(super) fn each_taken(&self, mut each: impl FnMut(Writer, &[u8])) {
        let mut rest = self.bytes.as_slice();
        for taken in &self.taken {
            let (mut bytes, behind) = rest.split_at(taken.len);
            rest = behind;
            match taken.kind {
                TakenKind::One => each(taken.writer(), bytes),
                TakenKind::Run => {
                    while let Some((packet, next)) = split_first_packet(bytes) {
                        each(taken.writer(), packet);
                        bytes = next;
                    }
                }
                TakenKind::TooLarge => {}
            }
        }
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
        let mut len = packet.len_bytes();
        let mut kind = TakenKind::One;
        if len > PACKET_MAX_BYTES {
            (len, kind) = (0, TakenKind::TooLarge);
        } else {
            // Reserves the whole length at once, so that the bytes are not copied while the memory
            // grows.
            self.bytes.reserve(len);
            for slice in packet.slices() {
                self.bytes.extend_from_slice(slice);
            }
        }
        self.taken.push(TakenPackets {
            len,
            kind,
            origin: packet.origin(),
            loss: packet.loss(),
        });
    }

    fn take_run(&mut self, run: &Run<'_>) {
        self.bytes.extend_from_slice(run.bytes());
        self.taken.push(TakenPackets {
            len: run.bytes().len(),
            kind: TakenKind::Run,
            origin: run.origin(),
            loss: run.loss(),
        });
    }

    /// Begins a batch, whose last packets [`PacketFramer::take_back`] can take back.
    pub(super) fn begin_batch(&mut self) {
        let Self {
            batch,
            segment_counts,
            ..
        } = self;
        for (log, counts) in [
            (&mut batch.newer, &mut segment_counts.newer),
            (&mut batch.older, &mut segment_counts.older),
        ] {
            for (kind, packets) in log.drain(..) {
                counts.add(kind, packets);
            }
        }
    }

    /// Appends the taken packets to the trace of the segment that each is in, each as a field of
    /// it. Leaves out invalid packets.
    ///
    /// The fields that only the service knows come last in each packet. Later fields win, so a
    /// writer cannot claim to be another.
    pub(super) fn append_to(&mut self, traces: &mut Framed<Vec<u8>>) {
        let mut taken_bytes = std::mem::take(&mut self.bytes);
        // Copies of fixed size reach beyond the last packet.
        taken_bytes.resize(taken_bytes.len() + MOVED_BYTES, 0);
        let mut taken_list = std::mem::take(&mut self.taken);
        let mut rest = taken_bytes.as_slice();
        for mut taken in taken_list.drain(..) {
            let position = self.position(taken.writer());
            match taken.kind {
                TakenKind::Run => self.append_run(rest, position, &mut taken, traces),
                TakenKind::One => {
                    self.append_packet(&rest[..taken.len], position, &mut taken, traces);
                }
                TakenKind::TooLarge => {
                    self.counts.invalid_packets += 1;
                    self.sequences[position].left_out.invalid += 1;
                    self.leave_out(position, &mut taken);
                }
            }
            rest = &rest[taken.len..];
        }
        self.taken = taken_list;
        self.bytes = taken_bytes;
        self.bytes.clear();
        give_back(&mut self.bytes);
    }

    /// Appends the packets of a run. The run is at the start of `bytes`.
    fn append_run(
        &mut self,
        bytes: &[u8],
        position: usize,
        taken: &mut TakenPackets,
        traces: &mut Framed<Vec<u8>>,
    ) {
        let mut at = 0;
        loop {
            let sequence = &mut self.sequences[position];
            if sequence.is_plain && taken.loss.is_empty() {
                let (has_state, id) = (sequence.has_state, &sequence.trusted_id);
                let rest_bytes = taken.len - at;
                let trace = traces.of(sequence);
                let AppendedCounts { events, bytes } =
                    self.events
                        .append_events(&bytes[at..], rest_bytes, has_state, id, trace);
                at += bytes;
                sequence.packets_in_segment += events;
                self.counts.add(PacketKind::Event, events);
                self.batch.of(sequence).push((PacketKind::Event, events));
            }
            let Some((packet, rest)) = split_first_packet(&bytes[at..taken.len]) else {
                return;
            };
            at = taken.len - rest.len();
            self.append_packet(packet, position, taken, traces);
        }
    }

    /// Appends one packet. The loss in `taken` is reported on it.
    #[inline(never)]
    fn append_packet(
        &mut self,
        packet: &[u8],
        position: usize,
        taken: &mut TakenPackets,
        traces: &mut Framed<Vec<u8>>,
    ) {
        let sequence = &mut self.sequences[position];
        let Some(info) = inspect(packet) else {
            self.counts.invalid_packets += 1;
            sequence.left_out.invalid += 1;
            return self.leave_out(position, taken);
        };
        if info.starts_state {
            if sequence.is_in_older {
                sequence.is_in_older = false;
                sequence.enter_segment();
                self.moved.push(position);
            }
            sequence.is_behind = false;
            sequence.starts_states = true;
        } else if sequence.is_behind && info.needs_state {
            sequence.left_out.undecodable += 1;
            return self.leave_out(position, taken);
        }
        let trace = traces.of(sequence);
        let loss = std::mem::take(&mut taken.loss) | std::mem::take(&mut sequence.pending_loss);
        let counted = sequence.count(info, loss);
        self.batch.of(sequence).push((counted, 1));
        self.counts.add(counted, 1);
        sequence.packets_in_segment += 1;
        if counted == PacketKind::Undecodable {
            sequence.left_out.undecodable += 1;
        }
        // Trace processor takes the process of a track from the packet that describes the track.
        let states_client = !sequence.is_introduced || info.describes_track;
        if !states_client && loss.is_empty() {
            let id = sequence.trusted_id.bytes();
            append_header(packet.len() + id.len(), trace);
            trace.extend_from_slice(packet);
            trace.extend_from_slice(id);
        } else {
            sequence.is_introduced = true;
            let mut memory = [0; TRUSTED_FIELDS_MAX_BYTES];
            let client = states_client.then_some(taken.origin.client);
            let trusted = trusted_fields(&mut memory, id_of(position), client, loss);
            append_header(packet.len() + trusted.len(), trace);
            trace.extend_from_slice(packet);
            trace.extend_from_slice(trusted);
        }
        sequence.is_plain = true;
    }

    /// Leaves out a packet that is invalid, or whose state is in a segment that has ended. The caller
    /// has counted it.
    ///
    /// Perfetto's own service only counts invalid packets. Here the next packet of the sequence also
    /// reports a loss, because it may depend on the packet that is left out, and the account of the
    /// sequence counts such packets.
    #[cold]
    fn leave_out(&mut self, position: usize, taken: &mut TakenPackets) {
        self.losing_writers.push(taken.writer());
        // The next packet of the sequence reports this loss, and the loss that the packet would have
        // reported.
        let sequence = &mut self.sequences[position];
        sequence.is_plain = false;
        sequence.pending_loss |= std::mem::take(&mut taken.loss) | LossMask::PRESENT;
    }

    /// Takes back packets at the end of each segment's part of the batch that did not get into the
    /// trace. `framed` are their framed bytes.
    pub(super) fn take_back(&mut self, framed: Framed<&[u8]>) {
        let Framed { newer, older } = std::mem::take(&mut self.batch);
        let counts = std::mem::take(&mut self.segment_counts);
        self.segment_counts = Framed {
            newer: self.take_back_of(framed.newer, newer, counts.newer),
            older: self.take_back_of(framed.older, older, counts.older),
        };
    }

    /// Takes back packets of one segment, whose part of the batch is in `log`. Returns the counts of the
    /// segment, which were `counts` before the batch.
    fn take_back_of(&mut self, framed: &[u8], log: KindLog, mut counts: ReadCounts) -> ReadCounts {
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
        let log = log.into_iter();
        let counted = log.flat_map(|(counted, count)| (0..count).map(move |_| counted));
        let mut counted: Vec<_> = counted.collect();
        let first = counted.len() - ids.len();
        for (id, counted) in ids.into_iter().zip(counted.drain(first..)) {
            let left_out = &mut self.sequences[(id - FIRST_SEQUENCE_ID) as usize].left_out;
            left_out.beyond_end += 1;
            self.counts.packets -= 1;
            match counted {
                PacketKind::Event => self.counts.events -= 1,
                PacketKind::Data => self.counts.data_packets -= 1,
                PacketKind::Description => {}
                PacketKind::Undecodable => left_out.undecodable -= 1,
            }
        }
        counted.into_iter().for_each(|kind| counts.add(kind, 1));
        counts
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
            self.sequences.push(Sequence::new(position));
        }
        self.last = Some((writer, position));
        position
    }
}

/// Appends those packets of `buffer` that can be read now to `trace`, each as a field of it.
/// Sessions do the same with their buffers, but in batches.
pub fn read_as_trace(buffer: &mut TraceBuffer, trace: &mut Vec<u8>) {
    let mut framer = PacketFramer::new();
    let mut traces = Framed {
        newer: std::mem::take(trace),
        older: Vec::new(),
    };
    while framer.take_batch(buffer) {
        framer.append_to(&mut traces);
    }
    framer.append_to(&mut traces);
    *trace = traces.newer;
}

impl Sequence {
    fn new(position: usize) -> Self {
        Self {
            is_introduced: false,
            is_plain: false,
            has_state: false,
            starts_states: false,
            is_in_older: false,
            is_behind: false,
            packets_in_segment: 0,
            pending_loss: LossMask::NONE,
            left_out: LeftOutCounts::default(),
            trusted_id: trusted_id(id_of(position)),
        }
    }

    /// Lets the next packet tell who wrote the sequence: it is the first one in its segment.
    fn enter_segment(&mut self) {
        self.is_introduced = false;
        self.is_plain = false;
        self.packets_in_segment = 0;
    }

    /// Returns how the next packet counts if `loss` precedes it. Readers decide in the same way: a
    /// loss ends the incremental state unless the packet itself starts it anew.
    #[inline]
    fn count(&mut self, info: PacketInfo, loss: LossMask) -> PacketKind {
        if info.starts_state {
            self.has_state = true;
        } else if info.follows_loss || !loss.is_empty() {
            self.has_state = false;
        }
        if info.needs_state && !self.has_state {
            return PacketKind::Undecodable;
        }
        match info.content {
            PacketContent::Event => PacketKind::Event,
            PacketContent::Data => PacketKind::Data,
            PacketContent::Description => PacketKind::Description,
        }
    }
}

/// Returns the id of the sequence at a position.
fn id_of(position: usize) -> u32 {
    FIRST_SEQUENCE_ID + position as u32
}

/// Encodes the fields that tell who wrote a packet and what was lost before it.
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
        // All packets of a sequence have the same client, so few of them state it.
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

/// Appends the tag and the length of a packet in a trace.
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
        let writer = |id| (ProducerId::new(1), WriterId(id));
        assert_eq!(framer.sequence_id(writer(9)), 2);
        assert_eq!(framer.sequence_id(writer(4)), 3);
        assert_eq!(framer.sequence_id(writer(9)), 2);
        assert_eq!(framer.fork().sequence_id(writer(5)), 4);
    }

    /// Appends the taken packets to a trace without segments.
    fn append(framer: &mut PacketFramer, trace: &mut Vec<u8>) {
        let mut traces = Framed::default();
        framer.append_to(&mut traces);
        assert!(traces.older.is_empty());
        trace.append(&mut traces.newer);
    }

    /// Adds a packet as `take` does, but from its bytes and the loss before it alone.
    fn take_bytes(framer: &mut PacketFramer, bytes: &[u8], loss: LossMask) {
        framer.bytes.extend_from_slice(bytes);
        framer.taken.push(TakenPackets {
            len: bytes.len(),
            kind: TakenKind::One,
            origin: Origin {
                producer_id: ProducerId::new(1),
                writer_id: WriterId(1),
                client: ClientIdentity::default(),
            },
            loss,
        });
    }

    #[test]
    fn invalid_packet_is_left_out_and_the_next_reports_a_loss() {
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
        append(&mut framer, &mut trace);
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

    /// Packets of writers as they lie in chunks, good and bad.
    const SAMPLES: [&[u8]; 9] = [
        &[0x40, 5, 0x68, 1],                   // starts the incremental state
        &[0x40, 5, 0x68, 2, 0x5a, 1, 7],       // an event that needs that state
        &[0x40, 0x85, 1, 0x68, 2, 0x5a, 1, 7], // a longer time stamp
        &[0x40, 5, 0xa2, 0x38, 0],             // a packet of a data source
        &[0x50, 7, 0x5a, 0],                   // claims to be of another sequence
        &[0x5a, 3, 1],                         // cut off
        &[0xd0, 0x02, 1, 0x40, 5],             // its writer lost something
        &[],                                   // a filler
        &[0x40; 130],                          // long enough for a size of two bytes
    ];

    /// Creates a buffer with 200 chunks of two writers. Some packets continue in the next chunk.
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
                producer_id: ProducerId::new(1),
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
        append(&mut framer, &mut expected);
        assert!(framer.counts.invalid_packets > 50, "{:?}", framer.counts);
        assert!(framer.counts.packets > 500, "{:?}", framer.counts);
        assert_eq!(trace, expected);
    }

    /// Commits a chunk with one fragment.
    fn commit_fragment(buffer: &mut TraceBuffer, id: u32, flags: ChunkFlags, payload: &[u8]) {
        buffer.commit_chunk(&UntrustedChunk {
            producer_id: ProducerId::new(1),
            client: ClientIdentity::default(),
            writer_id: WriterId(1),
            chunk_id: ChunkId(id),
            fragment_count: 1,
            flags,
            complete: true,
            payload,
        });
    }

    /// Returns a buffer with a packet in three chunks. Its middle can be repeated to any multiple of
    /// 4096 bytes; in all, the packet then has 256 MiB - `missing_bytes`.
    fn buffer_of_large_packet(missing_bytes: usize) -> TraceBuffer {
        const MIDDLE_BYTES: usize = 4096;
        let field_bytes = (1 << 28) - missing_bytes;
        // A field of a data source: a tag and the length of its value, which has the rest.
        let mut begin = vec![0xa2, 0x38];
        append_varint((field_bytes - 6) as u64, &mut begin);
        let end_bytes = (field_bytes - begin.len()) % MIDDLE_BYTES;
        let mut buffer = TraceBuffer::new(1 << 16, FillPolicy::Ring).unwrap();
        let goes_on = ChunkFlags::LAST_PACKET_CONTINUES;
        let came = ChunkFlags::FIRST_PACKET_CONTINUES;
        for (id, flags, fragment) in [
            (0, goes_on, begin),
            (1, goes_on.union(came), vec![7; MIDDLE_BYTES]),
            (2, came, vec![7; end_bytes]),
        ] {
            let mut payload = Vec::new();
            append_varint(fragment.len() as u64, &mut payload);
            payload.extend(fragment);
            commit_fragment(&mut buffer, id, flags, &payload);
        }
        buffer
    }

    #[test]
    fn packets_have_up_to_256_mib_and_larger_ones_are_not_copied() {
        const LARGE_BYTES: usize = (1 << 28) - 1;
        assert_eq!(PACKET_MAX_BYTES, LARGE_BYTES);
        let mut framer = PacketFramer::new();
        let mut trace = Vec::new();
        let repeats = LARGE_BYTES / 4096;
        let mut buffer = buffer_of_large_packet(0);
        buffer.begin_read();
        let too_large = buffer.read_packet_repeating(repeats).unwrap();
        assert_eq!(too_large.len_bytes(), LARGE_BYTES + 1);
        framer.take(&Packets::One(too_large));
        assert_eq!((framer.bytes.len(), framer.bytes.capacity()), (0, 0));
        append(&mut framer, &mut trace);
        assert!(trace.is_empty());
        assert_eq!(framer.counts.invalid_packets, 1);

        let mut buffer = buffer_of_large_packet(1);
        buffer.begin_read();
        let large = buffer.read_packet_repeating(repeats).unwrap();
        assert_eq!(large.len_bytes(), LARGE_BYTES);
        framer.take(&Packets::One(large));
        append(&mut framer, &mut trace);
        assert_eq!(
            (framer.counts.packets, framer.counts.invalid_packets),
            (1, 1)
        );
        assert!(framer.bytes.capacity() <= KEPT_BYTES_MAX);
        let packet = TraceDecoder::new(&trace).packet().next().unwrap().unwrap();
        let loss = packet.previous_packet_dropped().unwrap();
        assert_eq!(loss, Some(LossMask::PRESENT.bits()));
    }

    #[test]
    fn batch_has_a_limited_number_of_packets_without_bytes() {
        let mut buffer = TraceBuffer::new(1 << 20, FillPolicy::Ring).unwrap();
        // Each packet consists of two empty fragments in two chunks.
        for id in 0..4 * READ_BATCH_PACKETS_MAX as u32 {
            let flags = match id % 2 {
                0 => ChunkFlags::LAST_PACKET_CONTINUES,
                _ => ChunkFlags::FIRST_PACKET_CONTINUES,
            };
            commit_fragment(&mut buffer, id, flags, &[0]);
        }
        let mut framer = PacketFramer::new();
        assert!(framer.take_batch(&mut buffer));
        assert_eq!(framer.taken.len(), READ_BATCH_PACKETS_MAX);
        append(&mut framer, &mut Vec::new());
        assert!(framer.take_batch(&mut buffer));
    }

    #[test]
    fn packets_without_their_state_count_as_undecodable() {
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
        append(&mut framer, &mut trace);
        let left_out = framer.left_out((ProducerId::new(1), WriterId(1)));
        assert_eq!((framer.counts.events, left_out.undecodable), (2, 3));

        // Take back the last two packets.
        let packets = Decoder::new(&trace).repeated::<types::Bytes>(Trace::PACKET_FIELD_NUMBER);
        let lengths: Vec<usize> = packets.map(|packet| 2 + packet.unwrap().len()).collect();
        let kept: usize = lengths[..5].iter().sum();
        framer.take_back(Framed {
            newer: &trace[kept..],
            older: &[],
        });
        let left_out = framer.left_out((ProducerId::new(1), WriterId(1)));
        assert_eq!((framer.counts.events, left_out.undecodable), (1, 3));
        assert_eq!((framer.counts.packets, left_out.beyond_end), (5, 2));
    }

    #[test]
    fn sequence_is_introduced_once_and_again_on_request() {
        let mut framer = PacketFramer::new();
        let mut trace = Vec::new();
        for is_anew in [false, false, true, false] {
            if is_anew {
                framer.introduce_anew();
            }
            take_bytes(&mut framer, &[0x5a, 0], LossMask::NONE);
            append(&mut framer, &mut trace);
        }
        let packets = TraceDecoder::new(&trace).packet();
        let told: Vec<_> = packets
            .map(|packet| packet.unwrap().trusted_uid().unwrap().is_some())
            .collect();
        assert_eq!(told, [true, false, true, false]);
    }

    #[test]
    fn packets_that_describe_tracks_state_their_client() {
        let mut framer = PacketFramer::new();
        let mut trace = Vec::new();
        // An event, a track descriptor (field 60), an event.
        for packet in [&[0x5a, 0][..], &[0xe2, 3, 0], &[0x5a, 0]] {
            take_bytes(&mut framer, packet, LossMask::NONE);
        }
        append(&mut framer, &mut trace);
        let packets = TraceDecoder::new(&trace).packet();
        let told: Vec<_> = packets
            .map(|packet| packet.unwrap().trusted_uid().unwrap().is_some())
            .collect();
        assert_eq!(told, [true, true, false]);
    }

    #[test]
    fn packets_that_are_taken_back_do_not_count() {
        let mut framer = PacketFramer::new();
        let mut trace = Vec::new();
        for packet in [&[0x5a, 0][..], &[0x40, 1], &[0x5a, 0]] {
            take_bytes(&mut framer, packet, LossMask::NONE);
        }
        append(&mut framer, &mut trace);
        let second = 2 + usize::from(trace[1]);
        framer.take_back(Framed {
            newer: &trace[second..],
            older: &[],
        });
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
