//! Tests of sessions and their data sources, from setup to end.

use std::time::Duration;

use crate::State;
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::coordination::DataSourceDescriptor;

use super::harness::{Call, OwnerCall, World, calls, write};

fn config() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128))
        .add_data_source(DataSourceConfig::new("ds"))
}

#[test]
fn session_sets_up_starts_and_stops_data_sources() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let session = world.session(config());
    assert_eq!(producer.calls(), calls(&["set_up ds", "start ds"]));
    let mut writer = producer.writer("ds");
    write(&mut writer, "one");
    write(&mut writer, "two");
    session.disable();
    assert_eq!(producer.calls(), calls(&["stop ds"]));
    assert_eq!(session.state(), Some(State::Disabled));
    assert!(session.owner_calls().contains(&OwnerCall::Disabled(None)));
    assert_eq!(session.read().texts(), ["one", "two"]);
}

#[test]
fn deferred_session_starts_only_on_request() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let session = world.session(config().deferred_start().duration(Duration::from_secs(1)));
    assert_eq!(producer.calls(), calls(&["set_up ds"]));
    world.advance_ms(5000);
    assert_eq!(session.state(), Some(State::Configured));

    session.start();
    assert_eq!(producer.calls(), calls(&["start ds"]));
    assert_eq!(session.state(), Some(State::Started));
    session.start();
    assert_eq!(producer.calls(), [], "it starts once");
    world.advance_ms(999);
    assert_eq!(session.state(), Some(State::Started));
    world.advance_ms(1);
    assert_eq!(session.state(), Some(State::Disabled));
}

#[test]
fn session_that_never_started_stops_its_data_sources() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let session = world.session(config().deferred_start());
    producer.calls();
    session.disable();
    assert_eq!(session.state(), Some(State::Disabled));
    assert_eq!(producer.calls(), calls(&["stop ds"]));
    session.start();
    assert_eq!(producer.calls(), [], "what is over does not start");
}

#[test]
fn a_session_whose_owner_is_gone_ends_and_is_forgotten() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let session = world.session(config());
    let id = session.id;
    producer.calls();
    drop(session);
    assert_eq!(producer.calls(), calls(&["stop ds"]));
    assert_eq!(world.service.state(id), None);
    assert!(world.service.stats(id).is_none());
}

#[test]
fn statistics_are_there_as_long_as_the_session() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let session = world.session(config());
    let mut writer = producer.writer("ds");
    write(&mut writer, "one");
    writer.flush();
    let stats = session.stats();
    assert_eq!((stats.producers_connected, stats.data_sources_seen), (1, 1));
    assert_eq!(stats.buffers[0].chunks_written, 1);
    session.disable();
    assert_eq!(session.stats().buffers[0].chunks_written, 1);
}

#[test]
fn successive_sessions_have_different_ids() {
    let world = World::new();
    let producers = [world.producer("p"), world.producer("q")];
    for producer in &producers {
        producer.register("ds");
    }
    let mut ids = Vec::new();
    for _ in 0..3 {
        let session = world.session(config());
        let seen = producers.each_ref().map(|p| p.setup("ds").1.session);
        assert_eq!(seen, [session.id; 2], "all instances know their session");
        assert!(!ids.contains(&session.id));
        ids.push(session.id);
    }
}

#[test]
fn incremental_state_is_cleared_periodically_on_request() {
    let world = World::new();
    let (p, q) = (world.producer("p"), world.producer("q"));
    for (producer, name, clears) in [(&p, "a", true), (&p, "b", false), (&q, "a", true)] {
        producer.register_with(DataSourceDescriptor {
            name: name.to_owned(),
            clears_incremental_state: clears,
            ..DataSourceDescriptor::default()
        });
    }
    q.register_with(DataSourceDescriptor {
        name: "not in the session".to_owned(),
        clears_incremental_state: true,
        ..DataSourceDescriptor::default()
    });
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128))
        .add_data_source(DataSourceConfig::new("a"))
        .add_data_source(DataSourceConfig::new("b"))
        .incremental_state_clear_period(Duration::from_millis(100));
    let session = world.session(config);
    p.calls();
    q.calls();
    for _ in 0..3 {
        world.advance_ms(100);
        assert_eq!(p.calls(), [Call::Clear(vec!["a".to_owned()])]);
        assert_eq!(q.calls(), [Call::Clear(vec!["a".to_owned()])]);
    }
    session.disable();
    p.calls();
    q.calls();
    world.advance_ms(1000);
    assert_eq!((p.calls(), q.calls()), (vec![], vec![]));
}
