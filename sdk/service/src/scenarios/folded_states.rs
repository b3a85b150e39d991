//! Tests of the states that a ring keeps of overwritten packets.
//!
//! Patches have about 1000 bytes, so that a ring of 4 KiB has room for three of them.

use protozero::HeapBuffered;
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_core::protos::trace_packet::{Data, ProtoVmsDecoder};
use tracezero_core::protos::{TestEvent, TracePacket, VmCursorEnum, VmInstruction, VmProgram};
use tracezero_producer::TraceWriter;

use super::harness::{ReadTrace, TestProducer, TestSession, World};
use crate::CloneSource;

/// Numbers of fields.
const FOR_TESTING: u32 = TracePacket::FOR_TESTING_FIELD_NUMBER;
const STR: u32 = TestEvent::STR_FIELD_NUMBER;
const SEQ_VALUE: u32 = TestEvent::SEQ_VALUE_FIELD_NUMBER;

/// Writes an instruction that sets one field of `for_testing` in the state to that of the patch.
fn copy(field: u32, out: &mut VmInstruction<'_>) {
    let path = |cursor, out: &mut VmInstruction<'_>| {
        out.select(|select| {
            select.set_cursor(cursor);
            for field in [FOR_TESTING, field] {
                select.add_relative_path(|component| {
                    component.set_field_id(field);
                });
            }
            select.set_create_if_not_exist(cursor == VmCursorEnum::VM_CURSOR_DST);
        });
    };
    path(VmCursorEnum::VM_CURSOR_SRC, out);
    out.add_nested_instructions(|out| {
        path(VmCursorEnum::VM_CURSOR_DST, out);
        out.add_nested_instructions(|out| {
            out.set(|_| {});
        });
    });
}

/// Returns a program that copies the text and the number of a patch into the state.
fn program(version: u32) -> Vec<u8> {
    let mut buffer = HeapBuffered::<VmProgram<'_>>::new();
    let mut out = buffer.message();
    out.set_version(version);
    out.add_instructions(|out| copy(STR, out));
    out.add_instructions(|out| copy(SEQ_VALUE, out));
    drop(out);
    buffer.to_vec()
}

fn config(limit_kib: Option<u32>) -> TraceConfig {
    config_of(BufferConfig::ring(4), limit_kib)
}

fn config_of(buffer: BufferConfig, limit_kib: Option<u32>) -> TraceConfig {
    let source = DataSourceConfig::new("ds");
    TraceConfig::empty()
        .add_buffer(buffer)
        .add_data_source(match limit_kib {
            Some(limit_kib) => source.state_limit_kib(limit_kib),
            None => source,
        })
}

/// Connects a producer with the data source `ds`, which has this program.
fn producer(world: &World, name: &str, program: &[u8]) -> TestProducer {
    let producer = world.producer(name);
    producer.register_with(DataSourceDescriptor {
        name: "ds".to_owned(),
        protovm_program: program.into(),
        ..DataSourceDescriptor::default()
    });
    producer
}

/// Returns the text of a patch.
fn text(number: u32) -> String {
    format!("{number:01000}")
}

/// Writes a patch, and commits it.
fn patch(writer: &mut TraceWriter, number: u32) {
    writer.trace_packet(|packet| {
        packet.for_testing(|event| {
            event.set_str(&text(number));
            event.set_seq_value(number);
        });
    });
    writer.flush();
}

/// Returns the numbers of the patches in a trace.
fn patches(trace: &ReadTrace) -> Vec<u32> {
    let number = |data: &Data<'_>| match data {
        Data::ForTesting(event) => event.seq_value().unwrap(),
        _ => None,
    };
    trace.data().iter().filter_map(number).collect()
}

/// A state in a trace.
#[derive(Debug, PartialEq, Eq)]
struct State {
    /// The number of the last patch that is part of it; `None` if it is empty.
    number: Option<u32>,
    limit_kib: u32,
    producers: Vec<i32>,
}

/// Returns the states in a trace, which has them in one packet at most.
fn states(trace: &ReadTrace) -> Vec<State> {
    let data = trace.data();
    let mut found = data.iter().filter_map(|data| match data {
        Data::Protovms(vms) => Some(vms),
        _ => None,
    });
    let instances = found.next().into_iter().flat_map(ProtoVmsDecoder::instance);
    let states = instances.map(|instance| {
        let instance = instance.unwrap();
        assert!(instance.program().unwrap().is_some());
        let state = instance.state().unwrap().expect("each machine has a state");
        let number = state.for_testing().unwrap().map(|event| {
            let number = event.seq_value().unwrap().unwrap();
            assert_eq!(event.str().unwrap().unwrap(), text(number));
            number
        });
        State {
            number,
            limit_kib: instance.memory_limit_kb().unwrap().unwrap(),
            producers: instance.producer_id().map(|id| id.unwrap()).collect(),
        }
    });
    let states = states.collect();
    assert!(found.next().is_none(), "a trace has its states once");
    states
}

fn ended(session: &TestSession) -> ReadTrace {
    session.disable();
    session.read()
}

/// Returns the numbers of packets begun, folded and lost.
fn account(session: &TestSession) -> (u64, u64, u64) {
    let accounts = session.stats().sequences;
    accounts.iter().fold((0, 0, 0), |sum, account| {
        (
            sum.0 + account.begun,
            sum.1 + account.folded,
            sum.2 + account.lost(),
        )
    })
}

#[test]
fn a_ring_that_has_not_lapped_has_an_empty_state() {
    let world = World::new();
    let producer = producer(&world, "p", &program(1));
    let session = world.session(config(Some(16)));
    let mut writer = producer.writer("ds");
    (1..=3).for_each(|number| patch(&mut writer, number));
    let trace = ended(&session);
    let state = State {
        number: None,
        limit_kib: 16,
        producers: vec![1],
    };
    assert_eq!(states(&trace), [state]);
    assert_eq!(patches(&trace), [1, 2, 3]);
}

#[test]
fn overwritten_patches_are_in_the_state() {
    let world = World::new();
    let producer = producer(&world, "p", &program(1));
    let session = world.session(config(Some(16)));
    let mut writer = producer.writer("ds");
    (1..=5).for_each(|number| patch(&mut writer, number));
    assert_eq!(account(&session), (5, 2, 0));
    let [stats] = session.stats().states.try_into().unwrap();
    assert_eq!((stats.data_source.as_str(), stats.buffer), ("ds", 0));
    assert_eq!((stats.packets_folded, stats.packets_failed), (2, 0));
    assert!(stats.state_bytes > 1000);
    let trace = ended(&session);
    assert_eq!(states(&trace)[0].number, Some(2));
    assert_eq!(patches(&trace), [3, 4, 5]);
}

#[test]
fn a_trace_has_its_states_behind_the_provenance() {
    let world = World::new();
    let producer = producer(&world, "p", &program(1));
    let session = world.session(config(Some(16)));
    patch(&mut producer.writer("ds"), 1);
    let trace = ended(&session);
    let order: Vec<_> = trace
        .data()
        .iter()
        .filter_map(|data| match data {
            Data::TraceProvenance(_) => Some("provenance"),
            Data::Protovms(_) => Some("states"),
            Data::ForTesting(_) => Some("patch"),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["provenance", "states", "patch"]);
}

#[test]
fn a_producer_that_comes_late_has_a_state() {
    let world = World::new();
    let session = world.session(config(Some(16)));
    let producer = producer(&world, "p", &program(1));
    let mut writer = producer.writer("ds");
    (1..=5).for_each(|number| patch(&mut writer, number));
    let trace = ended(&session);
    assert_eq!(states(&trace)[0].number, Some(2));
    assert_eq!(patches(&trace), [3, 4, 5]);
}

#[test]
fn a_clone_has_the_state_of_its_moment() {
    let world = World::new();
    let producer = producer(&world, "p", &program(1));
    let session = world.session(config(Some(16)));
    let mut writer = producer.writer("ds");
    (1..=4).for_each(|number| patch(&mut writer, number));
    let clone = world.begin_clone(CloneSource::Id(session.id), 0);
    let clone = clone.finish().unwrap();
    patch(&mut writer, 5);
    let (cloned, source) = (clone.read(), ended(&session));
    assert_eq!(states(&cloned)[0].number, Some(1));
    assert_eq!(patches(&cloned), [2, 3, 4]);
    assert_eq!(states(&source)[0].number, Some(2));
    assert_eq!(patches(&source), [3, 4, 5]);
    // The reference loses whose the sequences are, so that its clones cannot be read.
    assert_eq!(states(&cloned)[0].producers, [1]);
    let provenance = |trace: &ReadTrace| {
        let data = trace.data();
        let mut sequences = data.iter().find_map(|data| match data {
            Data::TraceProvenance(it) => it.buffers().next()?.unwrap().sequences().next(),
            _ => None,
        });
        sequences.take().unwrap().unwrap().producer_id().unwrap()
    };
    assert_eq!(provenance(&cloned), Some(1));
}

#[test]
fn a_buffer_moved_into_a_clone_leaves_its_packets_in_the_state() {
    let world = World::new();
    let producer = producer(&world, "p", &program(1));
    let buffer = BufferConfig::ring(4).transfer_on_clone();
    let session = world.session(config_of(buffer, Some(16)));
    let mut writer = producer.writer("ds");
    (1..=4).for_each(|number| patch(&mut writer, number));
    let clone = world.begin_clone(CloneSource::Id(session.id), 0);
    let clone = clone.finish().unwrap();
    patch(&mut writer, 5);
    let (cloned, source) = (clone.read(), ended(&session));
    assert_eq!(
        (states(&cloned)[0].number, patches(&cloned)),
        (Some(1), vec![2, 3, 4])
    );
    assert_eq!(
        (states(&source)[0].number, patches(&source)),
        (Some(4), vec![5])
    );
}

#[test]
fn the_ring_of_a_moved_buffer_still_folds() {
    let world = World::new();
    let producer = producer(&world, "p", &program(1));
    let buffer = BufferConfig::ring(4).transfer_on_clone();
    let session = world.session(config_of(buffer, Some(16)));
    let mut writer = producer.writer("ds");
    patch(&mut writer, 1);
    let clone = world.begin_clone(CloneSource::Id(session.id), 0);
    drop(clone.finish().unwrap());
    (2..=6).for_each(|number| patch(&mut writer, number));
    let trace = ended(&session);
    assert_eq!(
        (states(&trace)[0].number, patches(&trace)),
        (Some(3), vec![4, 5, 6])
    );
}

#[test]
fn producers_with_one_program_share_a_state() {
    let world = World::new();
    let [a, b] = ["a", "b"].map(|name| producer(&world, name, &program(1)));
    let c = producer(&world, "c", &program(2));
    let without = world.producer("without");
    without.register("ds");
    let session = world.session(config(Some(16)));
    let mut writers = [&a, &b, &c, &without].map(|producer| producer.writer("ds"));
    for (writer, number) in writers.iter_mut().zip(1..) {
        patch(writer, number);
    }
    // These overwrite all of the above.
    (5..=7).for_each(|number| patch(&mut writers[3], number));
    let trace = ended(&session);
    let state = |number, producers| State {
        number: Some(number),
        limit_kib: 16,
        producers,
    };
    assert_eq!(states(&trace), [state(2, vec![1, 2]), state(3, vec![3])]);
    assert_eq!(patches(&trace), [5, 6, 7]);
}

#[test]
fn packets_that_are_not_for_the_program_are_lost() {
    let world = World::new();
    let producer = producer(&world, "p", &program(1));
    let session = world.session(config(Some(16)));
    let mut writer = producer.writer("ds");
    for _ in 0..5 {
        writer.trace_packet(|packet| {
            packet.for_testing(|event| {
                event.payload(|payload| {
                    payload.set_single_string(&text(0));
                });
            });
        });
        writer.flush();
    }
    assert_eq!(account(&session), (5, 0, 2));
    let trace = ended(&session);
    assert_eq!(states(&trace)[0].number, None);
}

#[test]
fn a_packet_that_is_applied_in_part_is_named() {
    let world = World::new();
    let producer = producer(&world, "p", &program(1));
    let session = world.session(config(Some(16)));
    let mut writer = producer.writer("ds");
    for number in 0..5 {
        writer.trace_packet(|packet| {
            packet.for_testing(|event| {
                event.set_str(&text(number));
            });
        });
        writer.flush();
    }
    let (_, folded, lost) = account(&session);
    let [stats] = session.stats().states.try_into().unwrap();
    assert_eq!((folded, stats.packets_failed), (0, lost));
    let error = stats.error.unwrap();
    assert!(error.contains("no field 2"), "{error}");
}

#[test]
fn a_full_state_keeps_what_it_has() {
    let world = World::new();
    let producer = producer(&world, "p", &program(1));
    let session = world.session(config(Some(1)));
    let mut writer = producer.writer("ds");
    (1..=5).for_each(|number| patch(&mut writer, number));
    let (_, folded, lost) = account(&session);
    let [stats] = session.stats().states.try_into().unwrap();
    assert_eq!((folded, lost), (0, 2));
    assert_eq!((stats.packets_folded, stats.packets_failed), (0, 2));
    let error = stats.error.clone().unwrap();
    assert!(error.contains("limit"), "{error}");
    // The log has it when the session ends.
    let line = stats.to_string();
    assert!(
        line.contains("\"ds\" lacks 2 overwritten packets"),
        "{line}"
    );
    assert_eq!(world.log(), [] as [&str; 0]);
    drop(session);
    assert_eq!(world.log(), [line]);
}

#[test]
fn a_packet_that_is_overwritten_behind_its_state_is_lost() {
    let world = World::new();
    let producer = producer(&world, "p", &program(1));
    let session = world.session(config(Some(16)));
    let mut writer = producer.writer("ds");
    (1..=5).for_each(|number| patch(&mut writer, number));
    let first = session.read();
    assert_eq!(
        (states(&first)[0].number, patches(&first)),
        (Some(2), vec![3, 4, 5])
    );
    // No trace gets the state that these leave.
    (6..=10).for_each(|number| patch(&mut writer, number));
    assert_eq!(account(&session), (10, 2, 2));
    let second = ended(&session);
    assert_eq!(
        (states(&second), patches(&second)),
        (vec![], vec![8, 9, 10])
    );
}

#[test]
fn a_program_that_takes_too_long_is_stopped() {
    const PACKETS: u64 = 250;
    // Visits each field of a patch a thousand times.
    let mut buffer = HeapBuffered::<VmProgram<'_>>::new();
    let mut out = buffer.message();
    for _ in 0..1000 {
        out.add_instructions(|out| {
            out.select(|select| {
                select.add_relative_path(|component| {
                    component.set_field_id(FOR_TESTING).set_is_repeated(true);
                });
            });
        });
    }
    drop(out);
    let world = World::new();
    let producer = producer(&world, "p", &buffer.to_vec());
    let session = world.session(config(Some(16)));
    let mut writer = producer.writer("ds");
    for _ in 0..PACKETS {
        writer.trace_packet(|packet| {
            for _ in 0..300 {
                packet.as_message_mut().append_bytes::<FOR_TESTING>(&[]);
            }
        });
        writer.flush();
    }
    let [stats] = session.stats().states.try_into().unwrap();
    let (_, folded, lost) = account(&session);
    assert_eq!((folded, stats.packets_failed), (0, lost));
    assert!(lost > PACKETS - 10);
    let error = stats.error.unwrap();
    // The first packet has taken too many steps already.
    assert!(error.contains("steps"), "{error}");
}

#[test]
fn a_session_without_a_limit_keeps_no_state() {
    let world = World::new();
    let producer = producer(&world, "p", &program(1));
    let session = world.session(config(None));
    let mut writer = producer.writer("ds");
    (1..=5).for_each(|number| patch(&mut writer, number));
    assert_eq!(account(&session), (5, 0, 2));
    assert_eq!(session.stats().states, []);
    assert_eq!(states(&ended(&session)), []);
}

#[test]
fn a_malformed_program_is_named_and_the_data_source_recorded() {
    let world = World::new();
    let producer = producer(&world, "p", b"\x12\x7f");
    let session = world.session(config(Some(16)));
    patch(&mut producer.writer("ds"), 1);
    let [stats] = session.stats().states.try_into().unwrap();
    let error = stats.error.unwrap();
    assert!(error.starts_with("the program is malformed"), "{error}");
    let log = world.log();
    let refused = "1 ProtoVM programs refused: malformed, or too many";
    assert!(log.iter().any(|line| line.contains(refused)), "{log:?}");
    let trace = ended(&session);
    assert_eq!((states(&trace), patches(&trace)), (vec![], vec![1]));
}

#[test]
fn a_data_source_has_at_most_four_programs() {
    let world = World::new();
    let producers: Vec<_> = (1..=5)
        .map(|version| producer(&world, &format!("p{version}"), &program(version)))
        .collect();
    let session = world.session(config(Some(16)));
    for producer in &producers {
        patch(&mut producer.writer("ds"), 1);
    }
    let errors = session.stats().states.into_iter().filter_map(|it| it.error);
    let [error] = Vec::from_iter(errors).try_into().unwrap();
    assert!(error.starts_with("too many programs"), "{error}");
    assert_eq!(states(&ended(&session)).len(), 4);
}
