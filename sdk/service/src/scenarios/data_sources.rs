//! Tests of producers and their data sources, and of which of them a session records.

use std::sync::Arc;
use std::time::Duration;

use crate::SessionState;
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::coordination::{DataSourceDescriptor, DataSourceError, ServiceControl};
use tracezero_core::ids::ProducerId;

use super::harness::{Call, TestProducer, TestSession, World, calls, recording, write};

fn config(data_source: DataSourceConfig) -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128))
        .add_data_source(data_source)
}

fn ds() -> DataSourceConfig {
    DataSourceConfig::new("ds")
}

/// Connects a producer with the data source `ds`.
fn producer(world: &World, name: &str) -> TestProducer {
    let producer = world.producer(name);
    producer.register("ds");
    producer
}

fn change_filters(world: &World, session: &TestSession, changed: TraceConfig) {
    let recording = Arc::new(recording(&changed).unwrap());
    world.service.change_config(session.id, recording);
}

fn producers(world: &World) -> Vec<(ProducerId, String)> {
    let state = world.service.service_state(0);
    let producers = state.producers.into_iter();
    producers
        .map(|producer| (producer.id, producer.name))
        .collect()
}

#[test]
fn producers_have_ids_from_1_until_they_disconnect() {
    let world = World::new();
    let (p, q) = (world.producer("p"), world.producer("q"));
    let (first, second) = (ProducerId::new(1), ProducerId::new(2));
    assert_eq!(
        producers(&world),
        [(first, "p".to_owned()), (second, "q".to_owned())]
    );
    drop(p);
    assert_eq!(producers(&world), [(second, "q".to_owned())]);
    drop(q);
    assert_eq!(producers(&world), []);
    let _r = world.producer("r");
    assert_eq!(producers(&world), [(ProducerId::new(3), "r".to_owned())]);
}

#[test]
fn a_pattern_picks_producers_by_their_whole_names() {
    let world = World::new();
    let (alpha, beta, alphabet) = (
        producer(&world, "mock_alpha"),
        producer(&world, "mock_beta"),
        producer(&world, "mock_alphabet"),
    );
    let session = world.session(config(ds().producer_name_regex("mock_al.*a")));
    assert_eq!(alpha.calls(), calls(&["set_up ds", "start ds"]));
    session.disable();
    assert_eq!(alpha.calls(), calls(&["stop ds"]));
    for other in [beta, alphabet] {
        assert_eq!(other.calls(), []);
    }
}

#[test]
fn changed_filters_add_producers_and_remove_none() {
    let world = World::new();
    let names = ["p1", "p2", "p3"];
    let [p1, p2, p3] = names.map(|name| producer(&world, name));
    p3.register("unasked");
    let session = world.session(config(ds().producer_name("p1")));
    let started = calls(&["set_up ds", "start ds"]);
    assert_eq!(p1.calls(), started);
    assert_eq!((p2.calls(), p3.calls()), (vec![], vec![]));

    let by_pattern = ds().producer_name("p1").producer_name_regex(".*2");
    change_filters(&world, &session, config(by_pattern));
    assert_eq!(
        (p1.calls(), p2.calls(), p3.calls()),
        (vec![], started.clone(), vec![])
    );

    let by_name =
        config(ds().producer_name("p3")).add_data_source(DataSourceConfig::new("unasked"));
    change_filters(&world, &session, by_name);
    assert_eq!(
        (p1.calls(), p2.calls(), p3.calls()),
        (vec![], vec![], started.clone())
    );
    let late = producer(&world, "p1");
    assert_eq!(
        late.calls(),
        [],
        "for those that come later, the new filters hold alone"
    );
    session.disable();
    for producer in [p1, p2, p3] {
        assert_eq!(producer.calls(), calls(&["stop ds"]));
    }
}

#[test]
fn changed_filters_apply_per_data_source() {
    let world = World::new();
    let names = ["p1", "p2"];
    let [p1, p2] = names.map(|name| producer(&world, name));
    for producer in [&p1, &p2] {
        producer.register("other");
    }
    let filters = |of_ds: &str, of_other: &str| {
        let other = DataSourceConfig::new("other").producer_name(of_other);
        config(ds().producer_name(of_ds)).add_data_source(other)
    };
    let session = world.session(filters("p1", "p2"));
    assert_eq!(p1.calls(), calls(&["set_up ds", "start ds"]));
    assert_eq!(p2.calls(), calls(&["set_up other", "start other"]));
    change_filters(&world, &session, filters("p1", "p1"));
    assert_eq!(p1.calls(), calls(&["set_up other", "start other"]));
    assert_eq!(p2.calls(), []);
}

#[test]
fn entries_of_one_name_have_their_own_filters() {
    let world = World::new();
    let (p, q) = (producer(&world, "p"), producer(&world, "q"));
    let filters = |first: &str, second: &str| {
        config(ds().producer_name(first)).add_data_source(ds().producer_name(second))
    };
    let session = world.session(filters("nobody", "p"));
    assert_eq!(p.setup("ds").1.ordinal, 1);
    p.calls();
    change_filters(&world, &session, filters("p", "q"));
    for producer in [&p, &q] {
        assert_eq!(producer.calls(), calls(&["set_up ds", "start ds"]));
    }
    assert_eq!(p.setup("ds").1.ordinal, 0);
    assert_eq!(q.setup("ds").1.ordinal, 1);
}

#[test]
fn a_session_that_is_over_takes_no_new_filters() {
    let world = World::new();
    let producer = producer(&world, "p");
    let session = world.session(config(ds().producer_name("nobody")));
    session.disable();
    change_filters(&world, &session, config(ds()));
    assert_eq!(producer.calls(), []);
}

#[test]
fn a_producer_that_comes_back_is_set_up_and_started_again() {
    let world = World::new();
    let session = world.session(config(ds()));
    for text in ["before", "after"] {
        let producer = producer(&world, "p");
        assert_eq!(producer.calls(), calls(&["set_up ds", "start ds"]));
        let mut writer = producer.writer("ds");
        write(&mut writer, text);
        // The writers are dropped first, which commits their chunks. Then the producer disconnects.
    }
    session.disable();
    assert_eq!(session.read().texts(), ["before", "after"]);
}

#[test]
fn of_data_sources_with_one_name_the_first_is_unregistered() {
    let world = World::new();
    let producer = world.producer("p");
    let with_id = |id| DataSourceDescriptor {
        name: "ds".to_owned(),
        id,
        ..DataSourceDescriptor::default()
    };
    for id in [1, 2] {
        producer.register_with(with_id(id));
    }
    let session = world.session(config(ds()));
    producer.calls();
    producer.endpoint.unregister_data_source("ds");
    assert_eq!(producer.calls(), calls(&["stop ds"]));
    let state = world.service.service_state(0);
    let left: Vec<u64> = (state.producers[0].data_sources.iter())
        .map(|data_source| data_source.id)
        .collect();
    assert_eq!((left, state.sessions[0].instance_count), (vec![2], 1));
    session.disable();
}

#[test]
fn unregistered_data_source_is_stopped() {
    let world = World::new();
    let producer = producer(&world, "p");
    let session = world.session(config(ds()));
    producer.calls();
    producer.endpoint.unregister_data_source("ds");
    assert_eq!(producer.calls(), calls(&["stop ds"]));
    session.disable();
    assert_eq!(producer.calls(), []);
}

#[test]
fn service_state_lists_data_sources_and_sessions() {
    let world = World::new();
    let (p, q) = (producer(&world, "p"), producer(&world, "q"));
    p.register("ds");
    q.register("other");
    let named = config(ds())
        .unique_session_name("mine")
        .duration(Duration::from_secs(1));
    let mine = world.try_session(named, 7).unwrap();
    let _deferred = world.try_session(config(ds()).deferred_start(), 8).unwrap();

    let state = world.service.service_state(7);
    let offered = state.producers.iter().map(|producer| {
        let names = producer.data_sources.iter();
        let names: Vec<_> = names.map(|data_source| data_source.name.as_str()).collect();
        (producer.name.as_str(), producer.uid, names)
    });
    let expected = [
        ("p", Some(1000), vec!["ds", "ds"]),
        ("q", Some(1000), vec!["ds", "other"]),
    ];
    assert!(offered.eq(expected));
    assert_eq!((state.session_count, state.started_session_count), (2, 1));
    let [session] = state.sessions.as_slice() else {
        panic!("sessions of other users are counted, not shown: {state:?}");
    };
    assert_eq!((session.id, session.uid), (mine.id, 7));
    assert_eq!(session.name.as_deref(), Some("mine"));
    assert_eq!(session.state, SessionState::Started);
    assert_eq!(
        (session.buffer_sizes_kib.as_slice(), session.duration),
        (&[128][..], Some(Duration::from_secs(1)))
    );
    assert_eq!((session.data_source_count, session.instance_count), (1, 3));
    let of_root = world.service.service_state(0).sessions;
    let states: Vec<_> = of_root.iter().map(|session| session.state).collect();
    assert_eq!(states, [SessionState::Started, SessionState::Configured]);
}

#[test]
fn changed_config_reaches_present_and_later_instances() {
    let world = World::new();
    let p = producer(&world, "p");
    let session = world.session(config(ds()).add_data_source(DataSourceConfig::new("other")));
    p.register("other");
    p.calls();
    let change = |config: &[u8]| {
        let service = &world.service;
        service.change_data_source(session.id, "ds", config.into());
    };
    let changed = |config: &[u8]| Call::Change("ds".to_owned(), config.to_vec());
    change(b"first");
    change(b"second");
    assert_eq!(p.calls(), [changed(b"first"), changed(b"second")]);

    let q = producer(&world, "q");
    let [set_up, start] =
        [calls(&["set_up ds"]), calls(&["start ds"])].map(|mut one| one.remove(0));
    assert_eq!(q.calls(), [set_up, changed(b"second"), start]);

    session.disable();
    p.calls();
    change(b"third");
    assert_eq!(p.calls(), []);
}

#[test]
fn only_a_data_source_with_an_id_can_be_updated() {
    let world = World::new();
    let producer = world.producer("p");
    let with_id = |id, needs_no_flush| DataSourceDescriptor {
        name: "ds".to_owned(),
        id,
        needs_no_flush,
        ..DataSourceDescriptor::default()
    };
    for id in [1, 2, 0] {
        producer.register_with(with_id(id, false));
    }
    let endpoint = &producer.endpoint;
    assert_eq!(
        endpoint.register_data_source(with_id(2, true)),
        Err(DataSourceError::IdInUse { id: 2 })
    );
    let elsewhere = world.producer("q");
    elsewhere.register_with(with_id(2, false));
    assert_eq!(endpoint.update_data_source(with_id(2, true)), Ok(()));
    for id in [0, 3] {
        let unknown = DataSourceError::Unknown {
            id,
            name: "ds".to_owned(),
        };
        assert_eq!(endpoint.update_data_source(with_id(id, true)), Err(unknown));
    }
    let state = world.service.service_state(0);
    let offered = state.producers.iter().flat_map(|producer| {
        let data_sources = producer.data_sources.iter();
        data_sources.map(|data_source| (data_source.id, data_source.needs_no_flush))
    });
    assert!(offered.eq([(1, false), (2, true), (0, false), (2, false)]));
}
