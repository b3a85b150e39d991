use crate::{CloneSource, FlushOutcome};
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::coordination::ServiceControl;
use tracezero_core::protos::trace_packet::Data;
use tracezero_core::protos::tracing_service_event::EventType;

use super::harness::{Call, ReadTrace, TestProducer, World};

fn config() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128))
        .add_data_source(DataSourceConfig::new("ds"))
}

/// Returns the events in a trace, with their times in milliseconds.
fn events_at(trace: &ReadTrace) -> Vec<(&'static str, u64)> {
    let packets = trace.packets();
    let times_ms = packets
        .iter()
        .filter(|packet| matches!(packet.data().unwrap(), Some(Data::ServiceEvent(_))))
        .map(|packet| packet.timestamp().unwrap().unwrap() / 1_000_000);
    trace.events().into_iter().zip(times_ms).collect()
}

fn time_of(trace: &ReadTrace, event: &str) -> u64 {
    let events = events_at(trace);
    let found = events.iter().find(|(name, _)| *name == event);
    found
        .unwrap_or_else(|| panic!("{event} is in {events:?}"))
        .1
}

/// Returns the producers and data sources that the trace names as slow to flush.
fn slow_to_flush(trace: &ReadTrace) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for data in trace.data() {
        let Data::ServiceEvent(event) = data else {
            continue;
        };
        let Some(EventType::LastFlushSlowDataSources(sources)) = event.event_type().unwrap() else {
            continue;
        };
        names.extend(sources.data_source().map(|source| {
            let source = source.unwrap();
            (
                source.producer_name().unwrap().unwrap().to_owned(),
                source.data_source_name().unwrap().unwrap().to_owned(),
            )
        }));
    }
    names
}

fn newest_flush(producer: &TestProducer) -> tracezero_core::ids::FlushId {
    let calls = producer.calls().into_iter().rev();
    let mut flushes = calls.filter_map(|call| match call {
        Call::Flush(id, ..) => Some(id),
        _ => None,
    });
    flushes.next().expect("there was a flush")
}

#[test]
fn trace_has_events_for_start_flush_and_end() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let session = world.session(config());
    assert_eq!(
        session.read().events(),
        [
            "tracing_started",
            "all_data_sources_started",
            "read_tracing_buffers_completed"
        ]
    );
    assert_eq!(*session.flush(0).lock(), Some(FlushOutcome::Succeeded));
    assert_eq!(
        session.read().events(),
        [
            "flush_started",
            "all_data_sources_flushed",
            "read_tracing_buffers_completed"
        ]
    );
    session.disable();
    assert_eq!(
        session.read().events(),
        ["tracing_disabled", "read_tracing_buffers_completed"]
    );
}

#[test]
fn trace_has_the_times_of_each_flush() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    producer.ignore_flushes(true);
    let session = world.session(config());
    let begin_ms = time_of(&session.read(), "tracing_started");
    for _ in 0..2 {
        session.flush(0);
        world.advance_ms(3);
        producer.endpoint.acknowledge_flush(newest_flush(&producer));
        world.advance_ms(1);
    }
    assert_eq!(
        events_at(&session.read())[..4],
        [
            ("flush_started", begin_ms),
            ("all_data_sources_flushed", begin_ms + 3),
            ("flush_started", begin_ms + 4),
            ("all_data_sources_flushed", begin_ms + 7),
        ]
    );
}

#[test]
fn clone_and_not_its_source_has_the_clone_events() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    producer.ignore_flushes(true);
    let session = world.session(config());
    let clone = world.begin_clone(CloneSource::Id(session.id), 0);
    world.advance_ms(1000);
    producer.endpoint.acknowledge_flush(newest_flush(&producer));
    let trace = clone.finish().unwrap().read();
    let started_ms = time_of(&trace, "clone_started");
    assert_eq!(time_of(&trace, "tracing_disabled"), started_ms + 1000);
    let source = session.read().events();
    assert!(!source.contains(&"clone_started"), "{source:?}");
    assert!(!source.contains(&"tracing_disabled"), "{source:?}");
}

#[test]
fn the_events_of_a_clone_come_in_the_order_of_their_times() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    producer.ignore_flushes(true);
    let session = world.session(config());
    let clone = world.begin_clone(CloneSource::Id(session.id), 0);
    let flush = newest_flush(&producer);
    world.advance_ms(10);
    session.flush(0);
    world.advance_ms(10);
    producer.endpoint.acknowledge_flush(flush);
    let events = events_at(&clone.finish().unwrap().read());
    assert!(
        events.is_sorted_by_key(|(_, time_ms)| *time_ms),
        "{events:?}"
    );
}

#[test]
fn clone_has_one_event_for_each_of_its_buffers() {
    let world = World::new();
    let (fast, slow) = (world.producer("fast"), world.producer("slow"));
    fast.register("fast");
    slow.register("slow");
    slow.ignore_flushes(true);
    let session = world.session(
        TraceConfig::empty()
            .add_buffer(BufferConfig::ring(128).transfer_on_clone())
            .add_buffer(BufferConfig::ring(128))
            .add_data_source(DataSourceConfig::new("fast").target_index(0))
            .add_data_source(DataSourceConfig::new("slow").target_index(1)),
    );
    let clone = world.begin_clone(CloneSource::Id(session.id), 0);
    world.advance_ms(1000);
    slow.endpoint.acknowledge_flush(newest_flush(&slow));
    let clone = clone.finish().unwrap();
    let trace = clone.read();
    let buffers: Vec<u32> = trace
        .data()
        .iter()
        .filter_map(|data| match data {
            Data::ServiceEvent(event) => match event.event_type().unwrap() {
                Some(EventType::BufferCloned(index)) => Some(index),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(buffers, [0, 1]);
    let events = events_at(&trace);
    let times_ms: Vec<u64> = events
        .iter()
        .filter(|(name, _)| *name == "buffer_cloned")
        .map(|(_, time_ms)| *time_ms)
        .collect();
    assert_eq!(times_ms[1] - times_ms[0], 1000);
    assert!(!clone.read().events().contains(&"buffer_cloned"));
}

#[test]
fn slow_data_sources_are_named_until_a_flush_succeeds() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let session = world.session(config());
    let clone = || world.begin_clone(CloneSource::Id(session.id), 0);
    producer.ignore_flushes(true);
    let failed = clone();
    world.advance_ms(5000);
    let slow = ("p".to_owned(), "ds".to_owned());
    assert_eq!(slow_to_flush(&failed.finish().unwrap().read()), [slow]);
    producer.ignore_flushes(false);
    assert!(slow_to_flush(&clone().finish().unwrap().read()).is_empty());
}
