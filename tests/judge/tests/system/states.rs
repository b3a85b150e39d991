//! States that a ring of the daemon keeps of the packets that it overwrites.

use std::collections::BTreeMap;

use judge::{ExtraSchema, Options, judge_with};
use protozero::{Decoder, Value, append_varint};
use tracezero::protos::trace_packet::ProtoVmsDecoder;
use tracezero::protos::{TraceDecoder, VmProgramDecoder};
use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_ipc::wire::Body;
use tracezero_protovm::{AbortCause, ApplyError, Program, Vm};

use crate::machine::Machine;
use crate::peer::Peer;
use crate::producer::{Producer, Told, packet_with};
use crate::programs::table_schema::{TABLE_PROGRAM, TracePacketDecoderExt as _};
use crate::programs::{CHANGES, TABLE, Table, change, patch};
use crate::{build, random};

/// A state in a trace, and the number of changes after it.
struct Recorded {
    /// The encoded state, as the daemon has written it.
    state: Vec<u8>,
    table: Table,
    changes: u32,
}

impl Recorded {
    fn of(trace: &[u8]) -> Self {
        let (mut states, mut changes) = (Vec::new(), 0);
        for packet in TraceDecoder::new(trace).packet() {
            let packet = packet.unwrap();
            changes += u32::from(packet.connection_patch().unwrap().is_some());
            for instance in packet
                .protovms()
                .unwrap()
                .iter()
                .flat_map(ProtoVmsDecoder::instance)
            {
                states.push(instance.unwrap().state().unwrap().unwrap());
            }
        }
        let [state] = states.try_into().unwrap();
        let table = state.connection_table().unwrap().unwrap();
        let connections = table.connections().map(|connection| {
            let connection = connection.unwrap();
            let sent_bytes = connection.sent_bytes().unwrap();
            (connection.id().unwrap().unwrap(), sent_bytes.unwrap())
        });
        Self {
            state: state.as_decoder().bytes().to_vec(),
            table: connections.collect(),
            changes,
        }
    }
}

/// Encodes a message again, with all lengths in the shortest form, also in what may be a message inside.
/// Where memory blocks of `traced` end, it writes longer ones.
fn compact(message: &[u8]) -> Vec<u8> {
    try_compact(message).unwrap()
}

fn try_compact(message: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut offset = 0;
    let mut fields = Decoder::new(message).fields();
    while let Some(field) = fields.next() {
        let field = field.ok()?;
        let end = fields.offset();
        match field.value {
            Value::Bytes(bytes) => {
                let bytes = try_compact(bytes).unwrap_or_else(|| bytes.to_vec());
                append_varint(u64::from(field.number) << 3 | 2, &mut out);
                append_varint(bytes.len() as u64, &mut out);
                out.extend(bytes);
            }
            _ => out.extend_from_slice(&message[offset..end]),
        }
        offset = end;
    }
    Some(out)
}

/// Records changes of a table into a ring that laps. The state and the changes in the trace must be all
/// that happened, and the state must be that of our machine.
#[test]
fn a_lapped_ring_has_the_state_of_all_that_it_has_overwritten() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let config = format!(
        r#"buffers {{ size_kb: 64 experimental_mode: TRACE_BUFFER_V2 }}
           data_sources {{ config {{
             name: "{TABLE}" buffer_exhausted_policy: BUFFER_EXHAUSTED_STALL_THEN_DROP
             protovm_config {{ memory_limit_kb: 1024 }}
           }} }}"#
    );
    let recording = machine.record("table.pftrace", &config);
    let mut program = machine.program("table");
    program.wait_for("done");
    let trace = recording.finish();
    let extra = ExtraSchema::new().extensions("../../examples/protos/connections.proto");
    let options = Options {
        allow_unreadable_after_loss: true,
        ..Options::default()
    };
    judge_with(&trace, &extra, options).unwrap();

    let recorded = Recorded::of(&trace);
    assert!(recorded.changes < CHANGES / 4, "the ring has not lapped");
    let program = Program::parse(TABLE_PROGRAM).unwrap();
    let mut vm = Vm::new(program, 1 << 20);
    let mut table = Table::new();
    for number in 0..CHANGES - recorded.changes {
        vm.apply(&patch(change(&mut table, number))).unwrap();
    }
    assert_eq!(recorded.table, table);
    assert_eq!(compact(&recorded.state), compact(&vm.state()));
}

/// The number of random programs, each with a buffer of its own.
const PROGRAMS: usize = 100;

/// The size of a packet that fills a buffer, in bytes. A buffer of 4 KiB has room for three.
const FILLER_BYTES: usize = 1000;
const FILLERS: u32 = 5;

/// A random program, with a version that no other has.
struct RandomProgram {
    encoded: Vec<u8>,
    patches: Vec<Vec<u8>>,
}

impl RandomProgram {
    /// Chooses programs and patches for which Perfetto's machine has a defined result.
    fn choose() -> Vec<Self> {
        let cases = (0..).map(random::case);
        let programs = cases.zip(1..).map(|(case, version)| Self {
            encoded: [build::varint(1, version), random::encode(&case.program)].concat(),
            patches: case.patches,
        });
        programs.filter(Self::is_defined).take(PROGRAMS).collect()
    }

    fn version(&self) -> u32 {
        VmProgramDecoder::new(&self.encoded)
            .version()
            .unwrap()
            .unwrap()
    }

    fn vm(&self) -> Vm {
        Vm::new(Program::parse(&self.encoded).unwrap(), 1 << 20)
    }

    /// Returns false if a patch reaches bytes that are no message, or something in which our machine
    /// differs on purpose (see the documentation of `tracezero_protovm`).
    fn is_defined(&self) -> bool {
        let mut vm = self.vm();
        let is_sound = |patch: &Vec<u8>| try_compact(patch).is_some();
        self.patches.iter().all(is_sound)
            && self.patches.iter().all(|patch| match vm.apply(patch) {
                Ok(()) | Err(ApplyError::Missing { .. }) => true,
                Err(ApplyError::Abort { cause, .. }) => !matches!(
                    cause,
                    AbortCause::MalformedPatch(_)
                        | AbortCause::MalformedState(_)
                        | AbortCause::NoKey { .. }
                        // Entered by an index.
                        | AbortCause::PatchIsScalar
                        | AbortCause::DuplicateKey { .. }
                        // By a merge.
                        | AbortCause::FieldIsKeyed { .. }
                        | AbortCause::CursorUnsupported { .. }
                        | AbortCause::UnknownAbortLevel { .. }
                ),
            })
    }

    /// Returns the state after all patches and the first fillers.
    fn state(&self, fillers: std::ops::Range<u32>) -> Vec<u8> {
        let mut vm = self.vm();
        let fillers = fillers.map(filler);
        for patch in self.patches.iter().cloned().chain(fillers) {
            // Whatever the outcome, the daemon's machine should have the same.
            let _ = vm.apply(&patch);
        }
        vm.state()
    }
}

/// A packet without a field that random programs know, in which readers find a number.
fn filler(number: u32) -> Vec<u8> {
    packet_with(number.into(), &"-".repeat(FILLER_BYTES))
}

/// Runs random programs over random patches in the daemon. The states must be those of our machine.
#[test]
fn random_programs_leave_the_same_states() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let programs = RandomProgram::choose();
    let mut peer = Peer::connect(machine.producer_socket());
    let bind = peer.send(Body::Bind {
        service: "ProducerPort",
    });
    peer.next_for(bind);
    let mut producer = Producer::new(peer, "random");
    let mut config = String::new();
    for (index, program) in programs.iter().enumerate() {
        producer.register_as(&DataSourceDescriptor {
            name: format!("random.{index}"),
            needs_no_flush: true,
            protovm_program: program.encoded.as_slice().into(),
            ..DataSourceDescriptor::default()
        });
        config += &format!(
            r#"buffers {{ size_kb: 4 experimental_mode: TRACE_BUFFER_V2 }}
               data_sources {{ config {{
                 name: "random.{index}" target_buffer: {index}
                 protovm_config {{ memory_limit_kb: 1024 }}
               }} }}
            "#
        );
    }
    let recording = machine.record("random.pftrace", &config);
    let mut started = 0;
    while started < PROGRAMS {
        match producer.told() {
            Told::SetUpTracing | Told::SetUp(_) => {}
            Told::Start(instance) => {
                let index: u32 = instance.data_source["random.".len()..].parse().unwrap();
                for patch in &programs[index as usize].patches {
                    producer.write_packet(&instance, patch);
                }
                for number in index * FILLERS..(index + 1) * FILLERS {
                    producer.write_packet(&instance, &filler(number));
                }
                // The daemon frees the memory of what it was sent.
                producer.sync();
                started += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    let trace = recording.finish();
    let mut states = BTreeMap::new();
    // The first filler that is left, by the position of the program.
    let mut left = BTreeMap::new();
    for packet in TraceDecoder::new(&trace).packet() {
        let packet = packet.unwrap();
        for instance in packet
            .protovms()
            .unwrap()
            .iter()
            .flat_map(ProtoVmsDecoder::instance)
        {
            let instance = instance.unwrap();
            let version = instance.program().unwrap().unwrap().version().unwrap();
            let state = instance.state().unwrap();
            let state = state.map_or_else(Vec::new, |it| it.as_decoder().bytes().to_vec());
            states.insert(version.unwrap(), state);
        }
        if let Some(event) = packet.for_testing().unwrap() {
            let number = event.counter().unwrap().unwrap() as u32;
            left.entry(number / FILLERS).or_insert(number);
        }
    }
    for (program, index) in programs.iter().zip(0..) {
        let ours = program.state(index * FILLERS..left[&index]);
        let state = &states[&program.version()];
        assert_eq!(
            compact(state),
            compact(&ours),
            "version {}",
            program.version()
        );
    }
}
