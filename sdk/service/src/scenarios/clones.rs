use super::harness::StartError;
use crate::trace_buffer::memory_refusal;
use crate::{CloneSource, Refusal, SessionError, State};
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::coordination::{FlushFlags, FlushReason, ServiceControl};
use tracezero_core::ids::{FlushId, SessionId};
use tracezero_core::protos::trace_packet::Data;
use tracezero_core::protos::trace_stats::FinalFlushOutcome;

use super::harness::{Call, ReadTrace, TestProducer, TestSession, World, write};
use super::trace_file::TraceFile;

fn config() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128))
        .add_data_source(DataSourceConfig::new("ds"))
}

/// Adds a second buffer, for a second data source.
fn with_second(config: TraceConfig, name: &str, buffer: BufferConfig) -> TraceConfig {
    config
        .add_buffer(buffer)
        .add_data_source(DataSourceConfig::new(name).target_index(1))
}

fn producer(world: &World) -> TestProducer {
    let producer = world.producer("p");
    producer.register("ds");
    producer
}

fn clone(world: &World, source: &TestSession) -> TestSession {
    let clone = world.begin_clone(CloneSource::Id(source.id), 0);
    clone.finish().unwrap()
}

fn uuid(trace: &ReadTrace) -> (i64, i64) {
    let data = trace.data();
    let mut uuids = data.iter().filter_map(|data| match data {
        Data::TraceUuid(uuid) => Some((uuid.msb().unwrap()?, uuid.lsb().unwrap()?)),
        _ => None,
    });
    uuids.next().expect("the trace has a uuid")
}

fn final_flush(trace: &ReadTrace) -> Option<FinalFlushOutcome> {
    trace.data().iter().find_map(|data| match data {
        Data::TraceStats(stats) => stats.final_flush_outcome().unwrap(),
        _ => None,
    })
}

fn flushes(producer: &TestProducer) -> Vec<(FlushId, Vec<String>, FlushFlags)> {
    let calls = producer.calls().into_iter();
    let flush = |call| match call {
        Call::Flush(id, names, flags) => Some((id, names, flags)),
        _ => None,
    };
    calls.filter_map(flush).collect()
}

fn refusal(error: Result<TestSession, StartError>) -> Refusal {
    match error {
        Err(StartError::Session(SessionError::Refused(refusal))) => refusal,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("there is a clone"),
    }
}

#[test]
fn clone_holds_earlier_packets_and_has_its_own_uuid() {
    let world = World::new();
    let producer = producer(&world);
    let session = world.session(config());
    let mut writer = producer.writer("ds");
    let texts: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    texts.iter().for_each(|text| write(&mut writer, text));
    let clone = clone(&world, &session);
    write(&mut writer, "later");
    assert_eq!(clone.state(), Some(State::ClonedReadOnly));
    session.disable();
    let (cloned, source) = (clone.read(), session.read());
    assert_eq!(cloned.texts(), texts);
    assert_eq!(source.texts(), [&texts[..], &["later".to_owned()]].concat());
    assert_eq!(uuid(&cloned).1, uuid(&source).1);
    assert_ne!(uuid(&cloned).0, uuid(&source).0);
}

#[test]
fn only_its_owner_and_root_may_clone_a_session() {
    let world = World::new();
    let _producer = producer(&world);
    let session = world.try_session(config(), 1).unwrap();
    let clone = |uid| world.begin_clone(CloneSource::Id(session.id), uid).finish();
    assert_eq!(refusal(clone(2)), Refusal::SessionOfAnotherUser);
    assert!(clone(1).is_ok());
    assert!(clone(0).is_ok());
}

#[test]
fn a_session_that_is_not_there_cannot_be_cloned() {
    let world = World::new();
    let unknown = CloneSource::Id(SessionId::new(77));
    let clone = world.begin_clone(unknown, 0).finish();
    assert_eq!(refusal(clone), Refusal::NoSuchSession);
}

#[test]
fn transferred_buffer_is_in_one_clone_only() {
    let world = World::new();
    let producer = producer(&world);
    producer.register("moved");
    let moved = BufferConfig::ring(128).transfer_on_clone();
    let session = world.session(with_second(config(), "moved", moved));
    let (mut stays, mut moves) = (producer.writer("ds"), producer.writer("moved"));
    write(&mut stays, "stays");
    for round in ["1", "2", "3"] {
        write(&mut moves, round);
        moves.flush();
        assert_eq!(clone(&world, &session).read().texts(), ["stays", round]);
    }
    session.disable();
    assert_eq!(session.read().texts(), ["stays"]);
}

#[test]
fn clone_refused_for_lack_of_memory_changes_no_buffer() {
    for buffer in [
        BufferConfig::ring(128).transfer_on_clone(),
        BufferConfig::ring(128).clear_before_clone(),
    ] {
        let world = World::new();
        let producer = producer(&world);
        producer.register("second");
        let config = TraceConfig::empty()
            .add_buffer(buffer.clone())
            .add_data_source(DataSourceConfig::new("ds"));
        let session = world.session(with_second(config, "second", buffer));
        for (data_source, text) in [("ds", "1"), ("second", "2")] {
            let mut writer = producer.writer(data_source);
            write(&mut writer, text);
            writer.flush();
        }
        let source = CloneSource::Id(session.id);
        let refused = memory_refusal::after(1, || world.begin_clone(source, 0).finish());
        assert!(
            matches!(refusal(refused), Refusal::CloneFailed { .. }),
            "the second buffer finds no memory"
        );
        session.disable();
        assert_eq!(session.read().texts(), ["1", "2"]);
    }
}

#[test]
fn a_chunk_that_its_writer_still_fills_is_in_no_clone_twice() {
    let world = World::new();
    let producer = producer(&world);
    let moved = BufferConfig::ring(128).transfer_on_clone();
    let session = world.session(
        TraceConfig::empty()
            .add_buffer(moved)
            .add_data_source(DataSourceConfig::new("ds")),
    );
    let mut writer = producer.writer("ds");
    for round in ["1", "2", "3"] {
        write(&mut writer, round);
        assert_eq!(clone(&world, &session).read().texts(), [round]);
    }
    write(&mut writer, "4");
    session.disable();
    assert_eq!(session.read().texts(), ["4"]);
}

#[test]
fn buffer_cleared_before_a_clone_holds_flushed_packets() {
    let world = World::new();
    let producer = producer(&world);
    let buffer = BufferConfig::ring(128).clear_before_clone();
    let session = world.session(
        TraceConfig::empty()
            .add_buffer(buffer)
            .add_data_source(DataSourceConfig::new("ds")),
    );
    let mut writer = producer.writer("ds");
    for round in ["1", "2"] {
        write(&mut writer, "before");
        writer.flush();
        producer.ignore_flushes(true);
        let clone = world.begin_clone(CloneSource::Id(session.id), 0);
        write(&mut writer, round);
        writer.flush();
        let (flush, ..) = flushes(&producer).remove(0);
        producer.endpoint.acknowledge_flush(flush);
        assert_eq!(clone.finish().unwrap().read().texts(), [round]);
    }
}

#[test]
fn a_session_that_is_over_can_be_cloned_but_not_flushed() {
    let world = World::new();
    let producer = producer(&world);
    let session = world.session(config());
    write(&mut producer.writer("ds"), "before the end");
    session.disable();
    let trace = clone(&world, &session).read();
    assert_eq!(trace.texts(), ["before the end"]);
    assert_eq!(
        final_flush(&trace),
        Some(FinalFlushOutcome::FINAL_FLUSH_FAILED)
    );
}

#[test]
fn clone_says_that_its_flush_succeeded() {
    let world = World::new();
    let producer = producer(&world);
    let session = world.session(config());
    let trace = clone(&world, &session).read();
    assert_eq!(
        final_flush(&trace),
        Some(FinalFlushOutcome::FINAL_FLUSH_SUCCEEDED)
    );
    let (_, names, flags) = flushes(&producer).remove(0);
    assert_eq!(names, ["ds"]);
    assert_eq!(flags, FlushFlags::by_service(FlushReason::TraceClone));
}

#[test]
fn a_clone_fails_if_its_source_is_freed_while_it_flushes() {
    let world = World::new();
    let producer = producer(&world);
    producer.ignore_flushes(true);
    let session = world.session(config());
    let clone = world.begin_clone(CloneSource::Id(session.id), 0);
    assert!(!clone.is_done());
    drop(session);
    assert_eq!(refusal(clone.finish()), Refusal::SessionEnded);
}

#[test]
fn clone_succeeds_if_its_source_ends_during_the_flush() {
    let world = World::new();
    let producer = producer(&world);
    producer.ignore_flushes(true);
    let session = world.session(config());
    write(&mut producer.writer("ds"), "before the end");
    let clone = world.begin_clone(CloneSource::Id(session.id), 0);
    session.disable();
    let trace = clone.finish().unwrap().read();
    assert_eq!(trace.texts(), ["before the end"]);
    assert_eq!(
        final_flush(&trace),
        Some(FinalFlushOutcome::FINAL_FLUSH_FAILED)
    );
}

#[test]
fn each_group_of_buffers_is_cloned_after_its_own_flush() {
    let world = World::new();
    let (first, second) = (producer(&world), world.producer("second"));
    second.register("moved");
    let moved = BufferConfig::ring(128).transfer_on_clone();
    let session = world.session(with_second(config(), "moved", moved));
    let (mut stays, mut moves) = (first.writer("ds"), second.writer("moved"));
    first.ignore_flushes(true);
    second.ignore_flushes(true);
    write(&mut stays, "stays 1");
    write(&mut moves, "moves 1");
    let clone = world.begin_clone(CloneSource::Id(session.id), 0);
    second.endpoint.acknowledge_flush(flushes(&second)[0].0);
    write(&mut stays, "stays 2");
    write(&mut moves, "moves 2");
    moves.flush();
    assert!(!clone.is_done());
    first.endpoint.acknowledge_flush(flushes(&first)[0].0);
    let texts = clone.finish().unwrap().read().texts();
    assert_eq!(texts, ["stays 1", "stays 2", "moves 1"]);
}

#[test]
fn a_name_finds_the_session_and_never_a_clone_of_it() {
    let world = World::new();
    let producer = producer(&world);
    let session = world.session(config().unique_session_name("named"));
    write(&mut producer.writer("ds"), "in the source");
    let by_name = || {
        let source = CloneSource::Name("named".to_owned());
        world.begin_clone(source, 0).finish()
    };
    let first = by_name().unwrap();
    drop(session);
    assert_eq!(refusal(by_name()), Refusal::NoSuchSession);
    assert_eq!(clone(&world, &first).read().texts(), ["in the source"]);
}

#[test]
fn clone_of_a_session_without_file_ignores_a_given_file() {
    let world = World::new();
    let producer = producer(&world);
    let session = world.session(config());
    write(&mut producer.writer("ds"), "cloned");
    let file = TraceFile::new();
    let output = file.output();
    let clone = world
        .begin_clone_into(CloneSource::Id(session.id), 0, None, Some(output))
        .finish()
        .unwrap();
    assert_eq!(clone.read().texts(), ["cloned"]);
    assert_eq!(file.bytes(), []);
}

#[test]
fn clones_stay_when_the_source_is_freed() {
    let world = World::new();
    let producer = producer(&world);
    let session = world.session(config());
    write(&mut producer.writer("ds"), "cloned");
    let clone = clone(&world, &session);
    drop(session);
    drop(producer);
    assert_eq!(clone.read().texts(), ["cloned"]);
}
