//! Turns patches into full states, by the programs that the trace contains.

use std::collections::HashMap;

use protozero::{DecodeError, Decoder, Value, append_varint};
use tracezero_core::protos::trace_packet::ProtoVmsDecoder;
use tracezero_core::protos::{TracePacket, TraceProvenanceDecoder};
use tracezero_protovm::{Program, Vm};

/// The maximum number of machines of a trace.
const MACHINES_MAX: usize = 64;

/// The maximum size of the states of all machines together, in bytes.
const STATES_MAX_BYTES: usize = 256 << 20;

/// The maximum number of sequences whose producers are stored.
const SEQUENCES_MAX: usize = 1 << 20;

/// The fields that a packet with a full state takes over from its patch: what the service vouches for.
const TRUSTED_FIELDS: [u32; 4] = [
    TracePacket::TRUSTED_UID_FIELD_NUMBER,
    TracePacket::TRUSTED_PACKET_SEQUENCE_ID_FIELD_NUMBER,
    TracePacket::TRUSTED_PID_FIELD_NUMBER,
    TracePacket::MACHINE_ID_FIELD_NUMBER,
];

/// Turns the patches of a trace into full states.
///
/// A data source may record changes of a state, and bring a program that applies them
/// ([`DataSource::PROTOVM_PROGRAM`](https://docs.rs/tracezero)). The trace then begins with the state
/// that overwritten changes have left. Give all packets of such a trace to [`apply`](Self::apply), in
/// the order of the file: it returns the whole state behind each change, as trace processor shows it.
///
/// A trace can make a reader keep at most 64 states, of 256 MiB in all. Further ones stay patches.
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
    /// The producers of sequences, which the trace names before its programs.
    producers: HashMap<u32, i32>,
    machines: Vec<Vm>,
    /// The machines of each sequence, in the order in which they are tried.
    of_sequence: HashMap<u32, Vec<usize>>,
    /// The size that further states may have.
    left_bytes: usize,
    /// The packet that was returned last.
    packet: Vec<u8>,
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
            machines: Vec::new(),
            of_sequence: HashMap::new(),
            left_bytes: STATES_MAX_BYTES,
            packet: Vec::new(),
        }
    }

    /// Takes the next packet of the trace. If it is a patch, returns a packet with the full state behind
    /// the patch, and with the patch's writer: a `TracePacket` that replaces the patch.
    ///
    /// Returns `None` for other packets, and for patches that their program cannot apply.
    ///
    /// # Errors
    ///
    /// If the packet is malformed.
    pub fn apply(&mut self, packet: &[u8]) -> Result<Option<&[u8]>, DecodeError> {
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
                    self.add_machines(bytes)?;
                }
                _ => {}
            }
        }
        let machines = self.of_sequence.get(&sequence_id);
        for &index in machines.into_iter().flatten() {
            let vm = &mut self.machines[index];
            if vm.apply(packet).is_ok() {
                self.packet.clear();
                vm.append_state(&mut self.packet);
                append_trusted(packet, &mut self.packet)?;
                return Ok(Some(&self.packet));
            }
        }
        Ok(None)
    }

    /// Returns the present states, each an encoded `TracePacket`, in the order of the trace.
    pub fn states(&self) -> impl Iterator<Item = Vec<u8>> {
        self.machines.iter().map(Vm::state)
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

    /// Adds the machines that a packet tells of.
    ///
    /// Trace processor makes another machine if a later packet tells of a program again. Then writers that
    /// came at different times do not share a state.
    #[cold]
    fn add_machines(&mut self, machines: &[u8]) -> Result<(), DecodeError> {
        // A later packet tells of further sequences of a machine.
        let told_before = self.machines.len();
        for instance in ProtoVmsDecoder::new(machines).instance() {
            let instance = instance?;
            let producers: Vec<i32> = instance.producer_id().collect::<Result<_, _>>()?;
            let program = instance
                .program()?
                .map(|it| Program::parse(it.as_decoder().bytes()));
            let Some(Ok(program)) = program else {
                continue;
            };
            let limit_kib = instance.memory_limit_kb()?.unwrap_or_default();
            let limit_bytes = (limit_kib as usize)
                .saturating_mul(1024)
                .min(self.left_bytes);
            let state = instance.state()?;
            let state = state.as_ref().map_or(&[][..], |it| it.as_decoder().bytes());
            let index = match self.machines[..told_before]
                .iter()
                .position(|it| it.program_bytes() == program.bytes())
            {
                Some(index) => index,
                None if self.machines.len() >= MACHINES_MAX => continue,
                None => {
                    let Ok(vm) = Vm::with_state(program, limit_bytes, state) else {
                        continue;
                    };
                    self.left_bytes -= limit_bytes;
                    self.machines.push(vm);
                    self.machines.len() - 1
                }
            };
            let sequences = self.producers.iter();
            for (sequence, _) in sequences.filter(|(_, producer)| producers.contains(producer)) {
                let machines = self.of_sequence.entry(*sequence).or_default();
                if !machines.contains(&index) {
                    machines.push(index);
                }
            }
        }
        Ok(())
    }
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
