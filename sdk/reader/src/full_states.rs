//! Turns changes into full states, by the programs that the trace contains.

use std::collections::{HashMap, HashSet};

use protozero::{DecodeError, Decoder, Value, append_varint};
use tracezero_core::protos::trace_packet::ProtoVmsDecoder;
use tracezero_core::protos::trace_packet::proto_vms::InstanceDecoder;
use tracezero_core::protos::{TracePacket, TraceProvenanceDecoder};
use tracezero_protovm::{Program, Vm};

/// The maximum number of states of a trace.
const STATES_MAX: usize = 64;

/// The maximum size of all states together, in bytes.
const STATES_MAX_BYTES: usize = 256 << 20;

/// The maximum number of sequences, and of producers of all states, that are stored.
const SEQUENCES_MAX: usize = 1 << 20;

/// The work that the programs of a trace may do for each byte of packets, and in all besides: about ten
/// seconds. Then changes stay as they are.
const WORK_PER_BYTE_MAX: u64 = 4096;
const WORK_MAX: u64 = 1 << 30;

/// The fields that a packet with a full state takes over from its change: what the service vouches for.
const TRUSTED_FIELDS: [u32; 4] = [
    TracePacket::TRUSTED_UID_FIELD_NUMBER,
    TracePacket::TRUSTED_PACKET_SEQUENCE_ID_FIELD_NUMBER,
    TracePacket::TRUSTED_PID_FIELD_NUMBER,
    TracePacket::MACHINE_ID_FIELD_NUMBER,
];

/// Turns the changes in a trace into full states.
///
/// A data source may record changes of a state, and bring a program that applies them
/// ([`DataSource::PROTOVM_PROGRAM`](https://docs.rs/tracezero)). The trace then begins with the state
/// that overwritten changes have left. Give all packets of such a trace to [`apply`](Self::apply), in
/// the order of the file: it returns the whole state after each change, as trace processor shows it.
/// If the trace reports a loss between two changes, later states lack what was lost.
///
/// A trace can make a reader keep at most 64 states, of 256 MiB in all, and compute for a limited time.
/// Beyond that, `apply` returns `None`.
///
/// ```
/// use tracezero::reader::{FullStates, PacketItem, PacketReader};
/// use tracezero::{InMemorySession, instant};
///
/// let session = InMemorySession::start()?;
/// instant!("app", "here");
/// let (trace, _) = session.finish();
///
/// let mut packets = PacketReader::new(&trace[..]);
/// let mut states = FullStates::new();
/// while let Some(item) = packets.next()? {
///     if let PacketItem::Packet(packet) = item {
///         let full = states.apply(packet.bytes)?;
///         assert_eq!(full, None, "no data source records changes here");
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FullStates {
    /// The producers of sequences.
    producers: HashMap<u32, i32>,
    states: Vec<State>,
    /// The states of each producer, in the order in which they are tried.
    of_producer: HashMap<i32, Vec<usize>>,
    /// The number of entries of all states' producers.
    producers_of_states: usize,
    /// The size that further states may have.
    left_bytes: usize,
    /// The work that programs may still do.
    left_work: u64,
    /// The packet that was returned last.
    packet: Vec<u8>,
}

#[derive(Debug)]
struct State {
    vm: Vm,
    producers: HashSet<i32>,
}

impl Default for FullStates {
    fn default() -> Self {
        Self::new()
    }
}

impl FullStates {
    /// Creates an adapter that has seen no packet yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            producers: HashMap::new(),
            states: Vec::new(),
            of_producer: HashMap::new(),
            producers_of_states: 0,
            left_bytes: STATES_MAX_BYTES,
            left_work: WORK_MAX,
            packet: Vec::new(),
        }
    }

    /// Takes the next packet of the trace. If the packet changes a state, applies the change, and
    /// returns a `TracePacket` that replaces the packet. The returned packet contains the full
    /// state after the change, and the user id, process id, sequence id and machine id of the
    /// replaced packet.
    ///
    /// Returns `None` if the packet changes no state, or if no program in the trace can apply the
    /// change.
    ///
    /// # Errors
    ///
    /// If the packet is malformed. A packet may list producers and states of the trace. Those that
    /// precede the malformed place still count for later packets.
    pub fn apply(&mut self, packet: &[u8]) -> Result<Option<&[u8]>, DecodeError> {
        let Some(index) = self.update(packet)? else {
            return Ok(None);
        };
        self.packet.clear();
        self.states[index].vm.append_state(&mut self.packet);
        // Writing eight bytes of a state takes as long as a unit of work.
        self.left_work = self.left_work.saturating_sub(self.packet.len() as u64 / 8);
        append_trusted(packet, &mut self.packet)?;
        Ok(Some(&self.packet))
    }

    /// Takes the next packet of the trace, as [`apply`](Self::apply) does, but writes no packet. If it is
    /// a change, returns the position of its state in [`states`](Self::states).
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply).
    pub fn update(&mut self, packet: &[u8]) -> Result<Option<usize>, DecodeError> {
        let mut sequence_id = 0;
        for field in Decoder::new(packet).fields() {
            let field = field?;
            match (field.number, field.value) {
                (TracePacket::TRUSTED_PACKET_SEQUENCE_ID_FIELD_NUMBER, Value::Varint(id)) => {
                    // Sequence ids have 32 bits.
                    sequence_id = id as u32;
                }
                (TracePacket::TRACE_PROVENANCE_FIELD_NUMBER, Value::Bytes(bytes)) => {
                    self.add_producers(bytes)?;
                }
                (TracePacket::PROTOVMS_FIELD_NUMBER, Value::Bytes(bytes)) => {
                    self.add_states(bytes)?;
                }
                _ => {}
            }
        }
        if self.states.is_empty() {
            return Ok(None);
        }
        let len_bytes = packet.len() as u64;
        self.left_work = self.left_work.saturating_add(WORK_PER_BYTE_MAX * len_bytes);
        let producer = self.producers.get(&sequence_id);
        let states = producer.and_then(|producer| self.of_producer.get(producer));
        for &index in states.into_iter().flatten() {
            let vm = &mut self.states[index].vm;
            if self.left_work == 0 {
                break;
            }
            let before = vm.work();
            let applied = vm.apply(packet);
            self.left_work = self.left_work.saturating_sub(vm.work() - before);
            if applied.is_ok() {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Returns the present states, each an encoded `TracePacket`, in the order of the trace.
    pub fn states(&self) -> impl Iterator<Item = Vec<u8>> {
        self.states.iter().map(|state| state.vm.state())
    }

    #[cold]
    fn add_producers(&mut self, provenance: &[u8]) -> Result<(), DecodeError> {
        for buffer in TraceProvenanceDecoder::new(provenance).buffers() {
            for sequence in buffer?.sequences() {
                let sequence = sequence?;
                if let (Some(id), Some(producer)) = (sequence.id()?, sequence.producer_id()?)
                    && self.producers.len() < SEQUENCES_MAX
                {
                    self.producers.insert(id, producer);
                }
            }
        }
        Ok(())
    }

    /// Adds the states that a packet contains. A later packet that names new producers beside known ones
    /// adds these to the state. One that names known ones alone begins a part of the trace, such as that of
    /// a flight recorder: its state replaces the one before, which may lack what was lost.
    ///
    /// Trace processor keeps another state in both cases. So it shows other states if the producers of one
    /// state come at different times, or if something was lost between two parts.
    #[cold]
    fn add_states(&mut self, states: &[u8]) -> Result<(), DecodeError> {
        let known_before = self.states.len();
        let mut named = HashSet::new();
        for instance in ProtoVmsDecoder::new(states).instance() {
            let instance = instance?;
            let Some(program) = instance.program()? else {
                continue;
            };
            let program = program.as_decoder().bytes();
            let mut producers = HashSet::new();
            for producer in instance.producer_id() {
                let room = SEQUENCES_MAX - self.producers_of_states;
                if producers.len() < room {
                    producers.insert(producer?);
                }
            }
            let known = self.states[..known_before].iter().enumerate();
            let known = known.filter(|(index, state)| {
                // Two buffers may each have a state of the same producers.
                !named.contains(index)
                    && state.vm.program_bytes() == program
                    && !state.producers.is_disjoint(&producers)
            });
            let known = known.map(|(index, _)| index).next();
            if let Some(index) = known {
                named.insert(index);
                let state = &mut self.states[index];
                if producers.is_subset(&state.producers)
                    && let Some(vm) = vm_of(program, &instance, state.vm.memory_limit_bytes())
                {
                    state.vm = vm;
                }
            }
            let Some(index) = known.or_else(|| self.new_state(program, &instance)) else {
                continue;
            };
            let state = &mut self.states[index];
            for producer in producers {
                if state.producers.insert(producer) {
                    self.producers_of_states += 1;
                    self.of_producer.entry(producer).or_default().push(index);
                }
            }
        }
        Ok(())
    }

    /// Returns the position of a new state; `None` if there is no room, or if the program or the state is
    /// malformed.
    fn new_state(&mut self, program: &[u8], instance: &InstanceDecoder<'_>) -> Option<usize> {
        if self.states.len() >= STATES_MAX {
            return None;
        }
        let limit_kib = instance.memory_limit_kb().ok()?.unwrap_or_default();
        let limit_bytes = (limit_kib as usize).saturating_mul(1024);
        let limit_bytes = limit_bytes.min(self.left_bytes);
        let vm = vm_of(program, instance, limit_bytes)?;
        self.left_bytes -= limit_bytes;
        self.states.push(State {
            vm,
            producers: HashSet::new(),
        });
        Some(self.states.len() - 1)
    }
}

/// Returns a machine with the state of an announcement; `None` if program or state are malformed.
fn vm_of(program: &[u8], instance: &InstanceDecoder<'_>, limit_bytes: usize) -> Option<Vm> {
    let state = instance.state().ok()?;
    let state = state.as_ref().map_or(&[][..], |it| it.as_decoder().bytes());
    Vm::with_state(Program::parse(program).ok()?, limit_bytes, state).ok()
}

/// Appends the fields of a packet that the service vouches for.
fn append_trusted(packet: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    for field in Decoder::new(packet).fields() {
        let field = field?;
        if let Value::Varint(value) = field.value
            && TRUSTED_FIELDS.contains(&field.number)
        {
            append_varint(u64::from(field.number) << 3, out);
            append_varint(value, out);
        }
    }
    Ok(())
}
