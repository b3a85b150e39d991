use std::time::Duration;

use crate::{FlushOutcome, State};
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig, Trigger, TriggerConfig, TriggerMode};
use tracezero_core::coordination::{DataSourceDescriptor, FlushFlags, FlushReason, ServiceControl};
use tracezero_core::ids::FlushId;

use super::harness::{Call, TestProducer, World, write};

fn config() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128))
        .add_data_source(DataSourceConfig::new("ds"))
}

fn producer(world: &World) -> TestProducer {
    let producer = world.producer("p");
    producer.register("ds");
    producer
}

/// Returns the flushes that a producer was asked for since the last call.
fn flushes(producer: &TestProducer) -> Vec<(FlushId, Vec<String>, FlushFlags)> {
    let calls = producer.calls().into_iter();
    calls
        .filter_map(|call| match call {
            Call::Flush(id, names, flags) => Some((id, names, flags)),
            _ => None,
        })
        .collect()
}

fn flags(producer: &TestProducer) -> Vec<FlushFlags> {
    let flushes = flushes(producer).into_iter();
    flushes.map(|(_, _, flags)| flags).collect()
}

#[test]
fn a_flush_that_the_owner_asks_for_says_so() {
    let world = World::new();
    let producer = producer(&world);
    let session = world.session(config());
    let outcome = session.flush(0);
    assert_eq!(flags(&producer), [FlushFlags::explicit()]);
    assert_eq!(*outcome.lock(), Some(FlushOutcome::Succeeded));
}

#[test]
fn a_session_flushes_before_its_time_is_up() {
    let world = World::new();
    let producer = producer(&world);
    let session = world.session(config().duration(Duration::from_millis(10)));
    let mut writer = producer.writer("ds");
    write(&mut writer, "unfinished chunk");
    producer.ignore_flushes(true);
    world.advance_ms(10);
    let asked = flushes(&producer);
    let [(id, names, flags)] = &asked[..] else {
        panic!("{asked:?} is not one flush");
    };
    assert_eq!(*names, ["ds"]);
    assert_eq!(*flags, FlushFlags::by_service(FlushReason::TraceStop));
    assert_eq!(session.state(), Some(State::Started));
    producer.endpoint.acknowledge_flush(*id);
    assert_eq!(session.state(), Some(State::Disabled));
    assert_eq!(session.read().texts(), ["unfinished chunk"]);
}

#[test]
fn a_session_flushes_before_a_trigger_ends_it() {
    let world = World::new();
    let producer = producer(&world);
    let triggers = TriggerConfig::new(TriggerMode::Stop, Duration::from_secs(1))
        .add_trigger(Trigger::new("stop"));
    let session = world.session(config().triggers(triggers));
    producer.endpoint.activate_triggers(&["stop"]);
    world.advance_ms(0);
    let expected = FlushFlags::by_service(FlushReason::TraceStop);
    assert_eq!(flags(&producer), [expected]);
    assert_eq!(session.state(), Some(State::Disabled));
}

#[test]
fn the_answer_to_a_flush_answers_all_before_it() {
    let world = World::new();
    let producer = producer(&world);
    let session = world.session(config());
    producer.ignore_flushes(true);
    let outcomes: Vec<_> = (0..3).map(|_| session.flush(10_000)).collect();
    let late = session.flush(10);
    let third = flushes(&producer)[2].0;
    producer.endpoint.acknowledge_flush(third);
    for outcome in outcomes {
        assert_eq!(*outcome.lock(), Some(FlushOutcome::Succeeded));
    }
    assert_eq!(*late.lock(), None);
    world.advance_ms(10);
    assert_eq!(*late.lock(), Some(FlushOutcome::Failed));
}

#[test]
fn flush_without_timeout_has_the_configured_one() {
    let world = World::new();
    let producer = producer(&world);
    let session = world.session(config().flush_timeout(Duration::from_millis(300)));
    producer.ignore_flushes(true);
    let outcome = session.flush(0);
    world.advance_ms(299);
    assert_eq!(*outcome.lock(), None);
    world.advance_ms(1);
    assert_eq!(*outcome.lock(), Some(FlushOutcome::Failed));
}

#[test]
fn data_sources_flush_once_a_period() {
    let world = World::new();
    let producer = producer(&world);
    let _session = world.session(config().flush_period(Duration::from_millis(1)));
    let periodic = FlushFlags::by_service(FlushReason::Periodic);
    world.advance_ms(3);
    assert_eq!(flags(&producer), [periodic; 3]);
}

#[test]
fn only_data_sources_that_need_flushes_are_asked() {
    let world = World::new();
    let idle = |name: &str| DataSourceDescriptor {
        name: name.to_owned(),
        needs_no_flush: true,
        ..DataSourceDescriptor::default()
    };
    let (first, second) = (world.producer("first"), world.producer("second"));
    first.register("ds");
    first.register_with(idle("idle"));
    second.register_with(idle("idle"));
    let session = world.session(config().add_data_source(DataSourceConfig::new("idle")));
    let outcome = session.flush(0);
    let asked = flushes(&first);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1, ["ds"]);
    assert!(flushes(&second).is_empty());
    assert_eq!(*outcome.lock(), Some(FlushOutcome::Succeeded));
}

#[test]
fn a_flush_does_not_wait_for_a_producer_that_is_gone() {
    let world = World::new();
    let producer = producer(&world);
    let session = world.session(config());
    producer.ignore_flushes(true);
    let outcome = session.flush(10_000);
    assert_eq!(*outcome.lock(), None);
    drop(producer);
    assert_eq!(*outcome.lock(), Some(FlushOutcome::Succeeded));
}

#[test]
fn a_flush_beyond_a_thousand_fails_at_once() {
    let world = World::new();
    let producer = producer(&world);
    let session = world.session(config());
    producer.ignore_flushes(true);
    let pending: Vec<_> = (0..1000).map(|_| session.flush(10_000)).collect();
    assert_eq!(*session.flush(10_000).lock(), Some(FlushOutcome::Failed));
    let last = flushes(&producer).last().unwrap().0;
    producer.endpoint.acknowledge_flush(last);
    let succeeded = |outcome: &Option<FlushOutcome>| *outcome == Some(FlushOutcome::Succeeded);
    assert!(pending.iter().all(|outcome| succeeded(&outcome.lock())));
}

#[test]
fn a_flush_of_a_session_that_does_not_record_fails_at_once() {
    let world = World::new();
    let _producer = producer(&world);
    let session = world.session(config());
    session.disable();
    assert_eq!(*session.flush(0).lock(), Some(FlushOutcome::Failed));
}

#[test]
fn freeing_a_session_answers_its_pending_flushes() {
    let world = World::new();
    let producer = producer(&world);
    producer.ignore_flushes(true);
    let session = world.session(config().duration(Duration::from_millis(10)));
    let explicit = session.flush(10_000);
    world.advance_ms(10);
    let ids: Vec<FlushId> = flushes(&producer)
        .into_iter()
        .map(|flush| flush.0)
        .collect();
    assert_eq!(ids.len(), 2);
    drop(session);
    assert_eq!(*explicit.lock(), Some(FlushOutcome::Failed));
    // Late answers and timeouts do nothing.
    ids.iter()
        .for_each(|id| producer.endpoint.acknowledge_flush(*id));
    world.advance_ms(20_000);
    assert!(flushes(&producer).is_empty());
}
