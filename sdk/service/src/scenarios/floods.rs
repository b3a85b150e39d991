//! Producers that ask for too much: data sources, instances, triggers and answers without end. The
//! service keeps a limited amount for each.
//!
//! `TRACEZERO_FLOOD=1000000` makes each flood that long.

use std::time::Duration;

use tracezero::{BufferConfig, DataSourceConfig, TraceConfig, Trigger, TriggerConfig, TriggerMode};
use tracezero_core::coordination::{
    CategoryDescriptor, DataSourceDescriptor, DataSourceError, NAME_MAX_BYTES, ServiceControl,
};
use tracezero_core::ids::{FlushId, InstanceId};

use super::harness::{Call, TestProducer, World, calls, write};

const DATA_SOURCES_MAX: usize = 1024;
const DESCRIPTORS_MAX_BYTES: usize = 4 << 20;

/// Returns the number of requests of a flood.
pub(super) fn flood_size() -> usize {
    const VARIABLE: &str = "TRACEZERO_FLOOD";
    std::env::var(VARIABLE).map_or(10_000, |size| size.parse().expect("a number"))
}

/// Returns a data source `ds`. `number` makes its schema different from others.
fn described(number: usize, schema_bytes: usize) -> DataSourceDescriptor {
    let mut schema = number.to_string().into_bytes();
    schema.resize(schema_bytes, 0);
    DataSourceDescriptor {
        name: "ds".to_owned(),
        extension_descriptors: schema.into(),
        ..DataSourceDescriptor::default()
    }
}

/// Returns a configuration that records a data source.
fn config(data_source: &str) -> TraceConfig {
    config_of(DataSourceConfig::new(data_source))
}

fn config_of(entry: DataSourceConfig) -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128))
        .add_data_source(entry)
}

fn is_too_many(registered: &Result<(), DataSourceError>) -> bool {
    matches!(registered, Err(DataSourceError::TooMany { .. }))
}

/// Returns how many data sources producers offer.
fn offered(world: &World) -> usize {
    let producers = world.service.service_state(0).producers.into_iter();
    producers.map(|producer| producer.data_sources.len()).sum()
}

/// Checks that a session records another producer.
fn assert_goes_on(world: &World) {
    let honest = world.producer("honest");
    honest.register("honest");
    let session = world.session(config("honest"));
    write(&mut honest.writer("honest"), "recorded");
    session.disable();
    assert_eq!(session.read().texts(), ["recorded"]);
}

#[test]
fn data_sources_beyond_the_limit_are_refused() {
    let world = World::new();
    let producer = world.producer("p");
    let session = world.session(config("ds"));
    let endpoint = &producer.endpoint;
    let flood = flood_size();
    let refused = (0..flood)
        .filter(|&number| is_too_many(&endpoint.register_data_source(described(number, 0))));
    assert_eq!(refused.count(), flood - DATA_SOURCES_MAX);
    assert_eq!(offered(&world), DATA_SOURCES_MAX);
    let stats = session.stats();
    assert_eq!(
        stats.data_sources_refused,
        (flood - DATA_SOURCES_MAX) as u64
    );
    assert_eq!(stats.data_sources_seen, DATA_SOURCES_MAX as u64);
    let error = endpoint.register_data_source(described(0, 0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a producer may offer 1024 data sources with 4194304 bytes of descriptors; unregister some, \
         or shorten their schemas and categories"
    );
    endpoint.unregister_data_source("ds");
    assert_eq!(endpoint.register_data_source(described(0, 0)), Ok(()));
    // Another producer has a limit of its own.
    assert_goes_on(&world);
}

#[test]
fn descriptors_of_a_user_beyond_64_mib_are_refused() {
    const SCHEMA_BYTES: usize = 1 << 20;
    const PRODUCERS: usize = 24;
    let world = World::new();
    let producers: Vec<_> = (0..PRODUCERS).map(|_| world.producer_of("p", 7)).collect();
    // A producer may have 4 MiB of descriptors: three with such a schema fit.
    let offers = producers.iter().flat_map(|producer| {
        (0..3)
            .map(|number| (producer.endpoint).register_data_source(described(number, SCHEMA_BYTES)))
    });
    let refused: Vec<_> = offers.filter_map(Result::err).collect();
    assert_eq!(refused.len(), 3 * PRODUCERS - 63);
    assert_eq!(
        refused[0].to_string(),
        "the producers of a user may offer data sources with 67108864 bytes of descriptors; shorten \
         their schemas and categories, or end some of the producers"
    );
    // Other users have limits of their own, and a producer that goes makes room.
    let other = world.producer_of("other", 8);
    let schema = || described(0, SCHEMA_BYTES);
    assert_eq!(other.endpoint.register_data_source(schema()), Ok(()));
    drop(producers);
    let next = world.producer_of("next", 7);
    assert_eq!(next.endpoint.register_data_source(schema()), Ok(()));
}

#[test]
fn descriptors_beyond_the_limit_are_refused() {
    const SCHEMA_BYTES: usize = 128 << 10;
    let world = World::new();
    let producer = world.producer("p");
    let endpoint = &producer.endpoint;
    let register = |number| endpoint.register_data_source(described(number, SCHEMA_BYTES));
    // One less than the limit divided by the size of a schema: names and descriptors need room,
    // too.
    let fitting = DESCRIPTORS_MAX_BYTES / SCHEMA_BYTES - 1;
    for _ in 0..2 {
        assert!((0..fitting).all(|number| register(number).is_ok()));
        assert!(is_too_many(&register(fitting)));
        assert_eq!(offered(&world), fitting);
        (0..fitting).for_each(|_| endpoint.unregister_data_source("ds"));
    }
    let with_id = DataSourceDescriptor {
        id: 7,
        ..described(0, 0)
    };
    assert_eq!(endpoint.register_data_source(with_id.clone()), Ok(()));
    let update = |categories| {
        endpoint.update_data_source(DataSourceDescriptor {
            categories: vec![
                CategoryDescriptor {
                    name: "c".repeat(100),
                    ..CategoryDescriptor::default()
                };
                categories
            ],
            ..with_id.clone()
        })
    };
    let too_many = DESCRIPTORS_MAX_BYTES / 100;
    assert!(is_too_many(&update(too_many)));
    // Each update replaces the one before, so repeated updates take no more room than one.
    assert!((0..10).all(|_| update(too_many / 4).is_ok()));
}

#[test]
fn names_of_data_sources_have_1_to_256_bytes() {
    let named = |name: String| DataSourceDescriptor {
        name,
        id: 7,
        ..described(0, 0)
    };
    let world = World::new();
    let producer = world.producer("p");
    let endpoint = &producer.endpoint;
    for (refused, bytes) in (1..).zip([0, 257, 1 << 20]) {
        let error = DataSourceError::WrongName {
            bytes,
            bytes_max: NAME_MAX_BYTES,
        };
        let name = "n".repeat(bytes);
        assert_eq!(
            endpoint.register_data_source(named(name.clone())),
            Err(error.clone())
        );
        assert_eq!(endpoint.update_data_source(named(name)), Err(error));
        let session = world.session(config("ds"));
        assert_eq!(session.stats().data_sources_refused, 2 * refused);
    }
    assert_eq!(offered(&world), 0);
    let longest = "é".repeat(128);
    let registered = [longest.clone(), "n".to_owned()].map(|name| {
        endpoint.register_data_source(DataSourceDescriptor {
            id: 0,
            ..named(name)
        })
    });
    assert_eq!(registered, [Ok(()), Ok(())]);
    let _session = world.session(config(&longest));
    let expected = [Call::SetUp(longest.clone()), Call::Start(longest)];
    assert_eq!(producer.calls(), expected);
    let error = endpoint
        .register_data_source(named("n".repeat(257)))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the name of a data source has 1 to 256 bytes, and this one has 257; choose another"
    );
}

#[test]
fn long_name_of_a_producer_is_cut_between_characters() {
    let world = World::new();
    let name = format!("a{}", "é".repeat(1 << 20));
    let cut = &name[..255];
    let producer = world.producer(&name);
    let known = world.service.service_state(0).producers[0].name.clone();
    assert_eq!(known, cut);
    producer.register("ds");
    let entry = DataSourceConfig::new("ds").producer_name(cut);
    let _session = world.session(config_of(entry));
    assert_eq!(producer.calls(), calls(&["set_up ds", "start ds"]));
    let _ = producer
        .endpoint
        .register_data_source(described(0, 5 << 20));
    let line = &world.log()[0];
    assert!(
        line.starts_with(&format!("producer 1 {cut:?} of user 1000: 1 ")),
        "{line}"
    );
    let whole = "n".repeat(NAME_MAX_BYTES);
    let _longest = world.producer(&whole);
    assert_eq!(world.service.service_state(0).producers[1].name, whole);
}

#[test]
fn schemas_of_data_sources_that_are_gone_are_limited() {
    const SCHEMA_BYTES: usize = 1 << 20;
    const SCHEMAS_MAX: u64 = 64;
    let world = World::new();
    let producer = world.producer("p");
    let session = world.session(config("ds"));
    let flood = flood_size() / 100;
    for number in 0..flood {
        producer.register_with(described(number, SCHEMA_BYTES));
        producer.endpoint.unregister_data_source("ds");
        producer.calls();
        session.owner_calls();
    }
    let stats = session.stats();
    assert_eq!(stats.data_sources_seen, SCHEMAS_MAX);
    assert_eq!(stats.instances_refused, flood as u64 - SCHEMAS_MAX);
    // A data source is still set up if the session knows its schema already, or if it has no
    // schema.
    producer.register_with(described(0, SCHEMA_BYTES));
    producer.register("ds");
    assert_eq!(session.stats().data_sources_seen, SCHEMAS_MAX + 2);
}

#[test]
fn a_session_has_a_limited_number_of_instances() {
    const INSTANCES_MAX: usize = 16_384;
    let world = World::new();
    let session = world.session(config("ds"));
    let producers: Vec<TestProducer> = (0..INSTANCES_MAX / DATA_SOURCES_MAX + 1)
        .map(|_| world.producer("p"))
        .collect();
    for producer in &producers {
        (0..DATA_SOURCES_MAX).for_each(|number| producer.register_with(described(number, 0)));
    }
    let stats = session.stats();
    assert_eq!(stats.data_sources_seen, INSTANCES_MAX as u64);
    assert_eq!(stats.instances_refused, DATA_SOURCES_MAX as u64);
    let lines = world.log();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(": 1 instances not set up"), "{lines:?}");
    let summary = |world: &World| world.service.service_state(0).sessions[0].instance_count;
    assert_eq!(summary(&world), INSTANCES_MAX);
    // Data sources that are unregistered make room for others.
    (0..DATA_SOURCES_MAX).for_each(|_| producers[0].endpoint.unregister_data_source("ds"));
    assert_eq!(summary(&world), INSTANCES_MAX - DATA_SOURCES_MAX);
    (0..=DATA_SOURCES_MAX).for_each(|number| {
        let _ = producers[0]
            .endpoint
            .register_data_source(described(number, 0));
    });
    assert_eq!(summary(&world), INSTANCES_MAX);
}

#[test]
fn triggers_beyond_64_are_ignored() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let triggers = TriggerConfig::new(TriggerMode::CloneSnapshot, Duration::from_secs(86_400))
        .add_trigger(Trigger::new("go"));
    let session = world.session(config("ds").triggers(triggers));
    let flood = flood_size();
    for number in 0..flood {
        if number % 1000 == 0 {
            world.advance_ms(1000);
        }
        producer.endpoint.activate_triggers(&["go"]);
    }
    world.advance_ms(1000);
    let ignored = session.stats().triggers_ignored;
    assert_eq!(ignored, flood as u64 - 64);
    assert_goes_on(&world);
}

#[test]
fn answers_to_nothing_change_nothing() {
    const STARTED: &str = "all_data_sources_started";
    let world = World::new();
    let (honest, hostile) = (world.producer("honest"), world.producer("hostile"));
    honest.register_with(DataSourceDescriptor {
        notifies_start: true,
        ..described(0, 0)
    });
    hostile.register("ds");
    let session = world.session(config("ds"));
    honest.ignore_flushes(true);
    let flushes: Vec<_> = (0..100).map(|_| session.flush(0)).collect();
    let instance = honest.setup("ds").0;
    for number in 0..flood_size() as u64 {
        hostile.endpoint.acknowledge_flush(FlushId(u64::MAX));
        for id in [instance, InstanceId(number), InstanceId(u64::MAX - number)] {
            hostile.endpoint.notify_started(id);
            hostile.endpoint.notify_stopped(id);
        }
    }
    assert!(flushes.iter().all(|outcome| outcome.lock().is_none()));
    assert!(!session.read().events().contains(&STARTED));
    honest.endpoint.acknowledge_flush(FlushId(u64::MAX));
    assert!(flushes.iter().all(|outcome| outcome.lock().is_some()));
    honest.endpoint.notify_started(instance);
    assert!(session.read().events().contains(&STARTED));
}

#[test]
fn log_has_one_line_for_each_limit_of_a_producer_and_minute() {
    let world = World::new();
    let name = "a\nproducer\u{1b}[2J";
    let producer = world.producer(name);
    let too_large = described(0, 5 << 20);
    let flood = || {
        for _ in 0..1000 {
            let _ = producer.endpoint.register_data_source(too_large.clone());
            producer.endpoint.activate_triggers(&["go"]);
        }
    };
    let line = |count, refused| {
        let name = r#""a\nproducer\u{1b}[2J""#;
        format!("producer 1 {name} of user 1000: {count} {refused}, because a limit was reached")
    };
    flood();
    let first = [line(1, "data sources refused"), line(1, "triggers ignored")];
    assert_eq!(world.log(), first);
    world.advance_ms(59_000);
    flood();
    assert!(world.log().is_empty());
    world.advance_ms(1000);
    flood();
    // Each flood activates 1000 triggers, of which 100 are not ignored. The lines count the rest of
    // the first flood, the second one, and the first refusal of the third.
    let next = [
        line(2000, "data sources refused"),
        line(1800, "triggers ignored"),
    ];
    assert_eq!(world.log(), next);
    drop(producer);
    let last = [
        line(999, "data sources refused"),
        line(899, "triggers ignored"),
    ];
    assert_eq!(world.log(), last);
    drop(world.producer("next"));
    assert!(world.log().is_empty());
}
