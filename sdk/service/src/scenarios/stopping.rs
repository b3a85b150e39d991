//! Tests of data sources that report when they have stopped, in time or too late.

use std::time::Duration;

use crate::State;
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::coordination::{DataSourceDescriptor, ServiceControl};

use super::harness::{BEGIN_MS, OwnerCall, TestProducer, World, calls, write};

fn config() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128))
        .add_data_source(DataSourceConfig::new("slow"))
        .add_data_source(DataSourceConfig::new("quick"))
        .add_data_source(DataSourceConfig::new("late"))
}

/// Registers a data source that reports when it has stopped.
fn register_slow(producer: &TestProducer, name: &str) {
    producer.register_with(DataSourceDescriptor {
        name: name.to_owned(),
        notifies_stop: true,
        ..DataSourceDescriptor::default()
    });
}

#[test]
fn session_ends_when_its_last_data_source_has_stopped() {
    let world = World::new();
    let (p, q) = (world.producer("p"), world.producer("q"));
    register_slow(&p, "slow");
    p.register("quick");
    register_slow(&q, "slow");
    let session = world.session(config());
    p.calls();
    q.calls();
    let mut writer = p.writer("slow");

    session.disable();
    assert_eq!(p.calls(), calls(&["stop slow", "stop quick"]));
    assert_eq!(q.calls(), calls(&["stop slow"]));
    assert_eq!(session.state(), Some(State::Stopping));
    write(&mut writer, "on the way out");
    p.endpoint.notify_stopped(p.setup("slow").0);
    assert_eq!(session.state(), Some(State::Stopping));
    assert!(!session.owner_calls().contains(&OwnerCall::Disabled(None)));
    q.endpoint.notify_stopped(q.setup("slow").0);
    assert_eq!(session.state(), Some(State::Disabled));
    assert!(session.owner_calls().contains(&OwnerCall::Disabled(None)));
    assert_eq!(session.read().texts(), ["on the way out"]);
}

#[test]
fn only_its_own_producer_can_report_an_instance_stopped() {
    let world = World::new();
    let (p, stranger) = (world.producer("p"), world.producer("stranger"));
    register_slow(&p, "slow");
    let session = world.session(config());
    let instance = p.setup("slow").0;
    p.endpoint.notify_stopped(instance);
    assert_eq!(session.state(), Some(State::Started), "nobody asked yet");
    session.disable();
    stranger.endpoint.notify_stopped(instance);
    assert_eq!(session.state(), Some(State::Stopping));
    p.endpoint.notify_stopped(instance);
    assert_eq!(session.state(), Some(State::Disabled));
}

#[test]
fn data_sources_are_not_set_up_while_a_session_ends() {
    let world = World::new();
    let producer = world.producer("p");
    register_slow(&producer, "slow");
    let session = world.session(config());
    session.disable();
    producer.calls();
    producer.register("late");
    assert_eq!(producer.calls(), []);
    producer.endpoint.notify_stopped(producer.setup("slow").0);
    assert_eq!(session.state(), Some(State::Disabled));
    assert_eq!(producer.calls(), []);
}

#[test]
fn session_waits_for_slow_data_sources_until_the_timeout() {
    let world = World::new();
    let producer = world.producer("p");
    register_slow(&producer, "slow");
    for (config, timeout_ms) in [
        (config(), 5000),
        (
            config().data_source_stop_timeout(Duration::from_millis(1)),
            1,
        ),
    ] {
        let session = world.session(config);
        let mut writer = producer.writer("slow");
        session.disable();
        write(&mut writer, "still at it");
        world.advance_ms(timeout_ms - 1);
        assert_eq!(session.state(), Some(State::Stopping));
        world.advance_ms(1);
        assert_eq!(session.state(), Some(State::Disabled));
        assert!(session.owner_calls().contains(&OwnerCall::Disabled(None)));
        // This report is too late and does nothing.
        producer.endpoint.notify_stopped(producer.setup("slow").0);
        assert_eq!(session.state(), Some(State::Disabled));
        assert_eq!(session.read().texts(), ["still at it"]);
    }
}

#[test]
fn stop_does_not_wait_for_a_data_source_that_is_gone() {
    let world = World::new();
    let (p, q) = (world.producer("p"), world.producer("q"));
    register_slow(&p, "slow");
    register_slow(&q, "quick");
    let session = world.session(config());
    session.disable();
    drop(p);
    assert_eq!(session.state(), Some(State::Stopping));
    q.endpoint.unregister_data_source("quick");
    assert_eq!(session.state(), Some(State::Disabled));
}

#[test]
fn stopping_session_runs_no_periodic_timers() {
    let world = World::new();
    let producer = world.producer("p");
    register_slow(&producer, "slow");
    let session = world.session(
        config()
            .flush_period(Duration::from_millis(100))
            .duration(Duration::from_millis(1050)),
    );
    world.advance_ms(1050);
    assert_eq!(session.state(), Some(State::Stopping));
    let at_the_end = session.stats();
    assert_eq!(at_the_end.final_flush_succeeded, Some(true));
    world.advance_ms(4000);
    assert_eq!(session.state(), Some(State::Stopping));
    let later = session.stats();
    assert_eq!(later.flushes_requested, at_the_end.flushes_requested);
    assert_eq!(later.flushes_failed, 0);
    assert_eq!(later.final_flush_succeeded, Some(true));
}

#[test]
fn ending_a_session_once_more_changes_nothing() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("quick");
    let session = world.session(config());
    world.service.flush_and_disable(session.id);
    world.service.flush_and_disable(session.id);
    session.disable();
    assert_eq!(
        session
            .owner_calls()
            .iter()
            .filter(|told| **told == OwnerCall::Disabled(None))
            .count(),
        1
    );
    let stats = session.stats();
    assert_eq!((stats.flushes_requested, stats.flushes_failed), (1, 0));
    assert_eq!(stats.final_flush_succeeded, Some(true));

    let never_started = world.session(config().deferred_start());
    world.service.flush_and_disable(never_started.id);
    assert_eq!(never_started.state(), Some(State::Disabled));
    assert_eq!(never_started.stats().final_flush_succeeded, None);
}

#[test]
fn end_of_process_waits_only_a_second_for_data_sources() {
    let world = World::new();
    let producer = world.producer("p");
    register_slow(&producer, "slow");
    producer.ignore_flushes(true);
    let flushes = world.session(config());
    let stops = world.session(config());
    stops.disable();
    for session in [&flushes, &stops] {
        world.service.end_with_process(session.id);
        world.service.end_with_process(session.id);
    }
    world.advance_ms(599);
    assert_eq!(flushes.state(), Some(State::Started));
    assert_eq!(stops.state(), Some(State::Stopping));
    world.advance_ms(1);
    assert_eq!(flushes.state(), Some(State::Stopping));
    assert_eq!(stops.state(), Some(State::Disabled));
    world.advance_ms(600);
    assert_eq!(flushes.state(), Some(State::Disabled));
    assert_eq!(flushes.stats().flushes_requested, 1);
}

#[test]
fn the_next_timer_may_be_one_that_a_timer_has_set() {
    let world = World::new();
    let p = world.producer("p");
    register_slow(&p, "slow");
    p.ignore_flushes(true);
    let session = world.session(config());
    world.service.end_with_process(session.id);
    let due_ms = || world.service.run_due_timers().unwrap() / 1_000_000 - BEGIN_MS;
    assert_eq!(due_ms(), 600);
    world.set_ms(600);
    // The flush has failed. A scrape comes before the end, and sets the timer for it.
    assert_eq!(due_ms(), 1200);
    world.set_ms(1200);
    world.service.run_due_timers();
    assert_eq!(session.state(), Some(State::Disabled));
}

#[test]
fn a_session_that_is_freed_does_not_wait() {
    let world = World::new();
    let producer = world.producer("p");
    register_slow(&producer, "slow");
    let session = world.session(config());
    session.disable();
    producer.calls();
    let id = session.id;
    drop(session);
    assert_eq!(world.service.state(id), None);
    assert_eq!(producer.calls(), [], "it was told before");
}
