//! Tests of what owners and traces learn about starts and stops of data sources.

use support::not_started;
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::coordination::{DataSourceDescriptor, ServiceControl};
use tracezero_core::protos::trace_packet::Data;

use crate::{FlushOutcome, State};

use super::harness::{OwnerCall, ReadTrace, TestProducer, TestSession, World};

fn config() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128))
        .add_data_source(DataSourceConfig::new("ds"))
        .add_data_source(DataSourceConfig::new("ds2"))
}

/// Registers a data source that reports when it has started.
fn register_slow(producer: &TestProducer, name: &str) {
    producer.register_with(DataSourceDescriptor {
        name: name.to_owned(),
        notifies_start: true,
        ..DataSourceDescriptor::default()
    });
}

fn notify_started(producer: &TestProducer, name: &str) {
    producer.endpoint.notify_started(producer.setup(name).0);
}

/// Returns what the owner was told about data sources: `"+p.ds"` for a start, `"-p.ds"` for a stop.
fn changes(session: &TestSession) -> Vec<String> {
    let change = |told| match told {
        OwnerCall::DataSource {
            producer,
            data_source,
            is_started,
        } => {
            let sign = if is_started { '+' } else { '-' };
            Some(format!("{sign}{producer}.{data_source}"))
        }
        _ => None,
    };
    session
        .owner_calls()
        .into_iter()
        .filter_map(change)
        .collect()
}

/// Returns how often the owner was told that all data sources have started.
fn times_all_started(session: &TestSession) -> usize {
    let told = session.owner_calls();
    told.iter()
        .filter(|told| **told == OwnerCall::AllDataSourcesStarted)
        .count()
}

fn tells_that_all_started(trace: &ReadTrace) -> bool {
    trace.events().contains(&"all_data_sources_started")
}

#[test]
fn an_owner_learns_of_data_sources_that_start_and_stop() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let session = world.session(config());
    assert_eq!(changes(&session), ["-p.ds", "+p.ds"]);
    session.disable();
    assert_eq!(changes(&session), ["-p.ds"]);

    let deferred = world.session(config().deferred_start());
    assert_eq!(changes(&deferred), ["-p.ds"]);
    deferred.start();
    assert_eq!(changes(&deferred), ["+p.ds"]);
    assert_eq!(changes(&session), [] as [&str; 0]);
}

#[test]
fn an_owner_learns_of_data_sources_that_go_away() {
    let world = World::new();
    let (p, q) = (world.producer("p"), world.producer("q"));
    p.register("ds");
    q.register("ds");
    let session = world.session(config());
    changes(&session);
    p.endpoint.unregister_data_source("ds");
    assert_eq!(changes(&session), ["-p.ds"]);
    drop(q);
    assert_eq!(changes(&session), ["-q.ds"]);
    session.disable();
    assert_eq!(changes(&session), [] as [&str; 0]);
}

#[test]
fn all_have_started_once_the_last_one_says_so() {
    let world = World::new();
    let producer = world.producer("p");
    register_slow(&producer, "ds");
    register_slow(&producer, "ds2");
    for _ in 0..3 {
        let session = world.session(config());
        notify_started(&producer, "ds");
        assert_eq!(times_all_started(&session), 0);
        let trace = session.read();
        assert!(trace.events().contains(&"tracing_started"));
        assert!(!tells_that_all_started(&trace));
        notify_started(&producer, "ds2");
        assert_eq!(times_all_started(&session), 1);
        assert!(tells_that_all_started(&session.read()));
        notify_started(&producer, "ds2");
        producer.register("ds");
        assert_eq!(times_all_started(&session), 0, "it is told once");
        for _ in 0..2 {
            producer.endpoint.unregister_data_source("ds");
        }
        register_slow(&producer, "ds");
    }
}

#[test]
fn clocks_are_read_when_all_have_started() {
    let world = World::new();
    let producer = world.producer("p");
    register_slow(&producer, "ds");
    let session = world.session(config());
    let clock_snapshots = || {
        let trace = session.read();
        let data = trace.data().into_iter();
        data.filter(|data| matches!(data, Data::ClockSnapshot(_)))
            .count()
    };
    assert_eq!(clock_snapshots(), 1);
    world.drift_ms(20);
    assert_eq!(clock_snapshots(), 0);
    notify_started(&producer, "ds");
    assert_eq!(clock_snapshots(), 1);
}

#[test]
fn first_and_newest_16_clock_snapshots_are_kept_until_they_are_read() {
    const SNAPSHOTS_MAX: usize = 16;
    let world = World::new();
    let session = world.session(config());
    for _ in 0..3 * SNAPSHOTS_MAX {
        world.drift_ms(20);
        session.flush(0);
    }
    let trace = session.read();
    let data = trace.data().into_iter();
    let snapshots = data.filter(|data| matches!(data, Data::ClockSnapshot(_)));
    assert_eq!(snapshots.count(), 1 + SNAPSHOTS_MAX);
}

#[test]
fn all_have_started_if_there_are_none() {
    let world = World::new();
    let session = world.session(config());
    assert_eq!(times_all_started(&session), 1);
    assert!(tells_that_all_started(&session.read()));
}

#[test]
fn only_data_sources_that_report_starts_are_waited_for() {
    let world = World::new();
    let producer = world.producer("p");
    register_slow(&producer, "ds");
    producer.register("ds2");
    let session = world.session(config());
    assert_eq!(times_all_started(&session), 0);
    notify_started(&producer, "ds");
    assert_eq!(times_all_started(&session), 1);

    producer.endpoint.unregister_data_source("ds");
    producer.register("ds");
    let nobody_answers = world.session(config().deferred_start());
    assert_eq!(times_all_started(&nobody_answers), 0);
    nobody_answers.start();
    assert_eq!(times_all_started(&nobody_answers), 1);
}

#[test]
fn start_does_not_wait_for_a_data_source_that_is_gone() {
    let world = World::new();
    let (p, q) = (world.producer("p"), world.producer("q"));
    p.register("ds");
    register_slow(&q, "ds");
    let session = world.session(config());
    assert_eq!(times_all_started(&session), 0);
    drop(q);
    assert_eq!(times_all_started(&session), 1);
}

#[test]
fn data_source_added_after_the_start_is_not_called_slow() {
    let world = World::new();
    let producer = world.producer("p");
    let session = world.session(config());
    world.advance_ms(19_999);
    register_slow(&producer, "ds");
    world.advance_ms(1);
    let events = session.read().events();
    assert!(!events.contains(&"slow_starting_data_sources"));
}

#[test]
fn data_sources_not_started_after_20_s_are_named() {
    let world = World::new();
    let (p, q) = (world.producer("p"), world.producer("q"));
    register_slow(&p, "ds");
    register_slow(&q, "ds");
    p.register("ds2");
    let session = world.session(config());
    notify_started(&p, "ds");
    world.advance_ms(19_999);
    let slow = "slow_starting_data_sources";
    assert!(!session.read().events().contains(&slow));
    world.advance_ms(1);
    let named = not_started(&session.read().bytes);
    assert_eq!(named, [("q".to_owned(), "ds".to_owned())]);
    world.advance_ms(60_000);
    assert!(!session.read().events().contains(&slow), "it is told once");
}

#[test]
fn data_sources_that_are_not_set_up_are_named_and_hold_up_nothing() {
    let world = World::new();
    let (p, q) = (world.producer("p"), world.producer("q"));
    register_slow(&p, "ds");
    register_slow(&q, "ds");
    q.fail_setups(true);
    let session = world.session(config());
    assert_eq!(times_all_started(&session), 0);
    notify_started(&p, "ds");
    assert_eq!(times_all_started(&session), 1);
    let named = not_started(&session.read().bytes);
    assert_eq!(named, [("q".to_owned(), "ds".to_owned())]);
    assert_eq!(session.stats().instances_refused, 1);
    // A flush asks only the others.
    q.calls();
    assert_eq!(*session.flush(0).lock(), Some(FlushOutcome::Succeeded));
    assert_eq!(q.calls(), []);
    session.disable();
    assert_eq!(session.state(), Some(State::Disabled));
}

#[test]
fn a_session_waits_for_no_end_of_a_data_source_that_is_not_set_up() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register_with(DataSourceDescriptor {
        name: "ds".to_owned(),
        notifies_stop: true,
        ..DataSourceDescriptor::default()
    });
    producer.fail_setups(true);
    let session = world.session(config());
    session.disable();
    assert_eq!(session.state(), Some(State::Disabled));
}

#[test]
fn an_event_names_32_slow_data_sources() {
    const NAMES_MAX: usize = 32;
    let world = World::new();
    let producer = world.producer("p");
    (0..2 * NAMES_MAX).for_each(|_| register_slow(&producer, "ds"));
    let session = world.session(config());
    world.advance_ms(20_000);
    assert_eq!(not_started(&session.read().bytes).len(), NAMES_MAX);
}
