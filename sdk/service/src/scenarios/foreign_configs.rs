//! Tests of configurations that other programs make: their bytes reach producers and traces.

use std::sync::Arc;

use protozero::{HeapBuffered, Message};
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::protos::DataSourceConfigDecoder;
use tracezero_core::protos::data_source_config::{BufferExhaustedPolicy, SessionInitiator};

use super::harness::{Call, ReadTrace, World, write};
use crate::Recording;

/// Encodes a message.
fn encoded(write: impl FnOnce(&mut Message<'_>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<Message<'_>>::new();
    write(&mut buffer.message());
    buffer.to_vec()
}

/// A `DataSourceConfig` with fields that no schema has, and with fields that the service sets.
fn source_config() -> Vec<u8> {
    encoded(|out| {
        out.append_string::<1>("ds");
        out.append_uint32::<2>(0);
        out.append_uint32::<3>(77);
        out.append_uint64::<4>(77);
        out.append_bool::<6>(true);
        out.append_uint32::<7>(77);
        out.append_int32::<8>(SessionInitiator::TRUSTED_SYSTEM.0);
        out.append_int32::<9>(BufferExhaustedPolicy::BUFFER_EXHAUSTED_STALL_THEN_ABORT.0);
        out.append_string::<99>("a later field");
        out.append_bytes::<200>(b"not even a message");
    })
}

/// A configuration with these data sources, and with fields that no schema has.
fn config(sources: &[Vec<u8>]) -> Vec<u8> {
    encoded(|out| {
        out.append_string::<300>("a later field");
        out.append_bytes::<7>(b"");
        out.append_bytes::<1>(&encoded(|out| {
            out.append_uint32::<1>(128);
            out.append_uint32::<99>(1);
        }));
        for source in sources {
            out.append_bytes::<2>(source);
        }
        out.append_uint32::<3>(5000);
        out.append_uint32::<23>(2000);
    })
}

/// Encodes a `DataSource`, for this machine or another one.
fn source(machine: &str) -> Vec<u8> {
    encoded(|out| {
        out.append_bytes::<1>(&source_config());
        out.append_string::<4>(machine);
    })
}

/// Returns the bytes of the `trace_config` in each packet that has one.
fn config_packets(trace: &ReadTrace) -> Vec<Vec<u8>> {
    let packets = trace.packets();
    let configs = packets.iter().filter_map(|it| it.trace_config().unwrap());
    configs
        .map(|config| config.as_decoder().bytes().to_vec())
        .collect()
}

#[test]
fn unknown_fields_survive_to_the_producer_and_the_trace() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let bytes = config(&[source("host")]);
    let (recording, ignored) = Recording::foreign(&bytes).unwrap();
    assert_eq!(
        ignored,
        [
            "300",
            "statsd_metadata",
            "buffers[0].99",
            "data_sources[0].config.99"
        ]
    );
    let session = world.session_of(recording);
    let (_, setup) = producer.setup("ds");
    assert!(setup.config.starts_with(&source_config()));
    write(&mut producer.writer("ds"), "event");
    session.disable();
    let trace = session.read();
    assert_eq!(config_packets(&trace), [bytes]);
    assert_eq!(trace.texts(), ["event"]);
}

#[test]
fn producer_gets_the_values_of_the_service() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    // Take the first buffer id, so that the buffer's index and id differ.
    let _first = world.session(TraceConfig::empty().add_buffer(BufferConfig::ring(128)));
    let (recording, _) = Recording::foreign(&config(&[source("host")])).unwrap();
    let session = world.session_of(recording);
    let (_, setup) = producer.setup("ds");
    let decoder = DataSourceConfigDecoder::new(&setup.config);
    assert_eq!(
        decoder.target_buffer().unwrap(),
        Some(u32::from(setup.target_buffer.0))
    );
    assert_ne!(setup.target_buffer.0, 0);
    assert_eq!(decoder.trace_duration_ms().unwrap(), Some(5000));
    assert_eq!(
        decoder.tracing_session_id().unwrap(),
        Some(session.id.value())
    );
    assert_eq!(decoder.enable_extra_guardrails().unwrap(), Some(false));
    assert_eq!(decoder.stop_timeout_ms().unwrap(), Some(2000));
    assert_eq!(
        decoder.session_initiator().unwrap(),
        Some(SessionInitiator::UNSPECIFIED)
    );
    assert_eq!(
        decoder.buffer_exhausted_policy().unwrap(),
        Some(BufferExhaustedPolicy::BUFFER_EXHAUSTED_STALL_THEN_ABORT)
    );
    assert_eq!(decoder.prefer_suspend_clock_for_duration().unwrap(), None);
}

#[test]
fn producer_learns_that_the_session_counts_suspended_time() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let mut bytes = config(&[source("host")]);
    bytes.extend(encoded(|out| out.append_bool::<36>(true)));
    let (recording, _) = Recording::foreign(&bytes).unwrap();
    let _session = world.session_of(recording);
    let (_, setup) = producer.setup("ds");
    let decoder = DataSourceConfigDecoder::new(&setup.config);
    let prefers = decoder.prefer_suspend_clock_for_duration().unwrap();
    assert_eq!(prefers, Some(true));
}

#[test]
fn own_configurations_reach_the_producer_in_the_same_way() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let fields = encoded(|out| out.append_bytes::<200>(b"not even a message"));
    let own = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128))
        .add_data_source(DataSourceConfig::new("ds").source_specific(&fields));
    let bytes = own.encode();
    let session = world.session(own);
    let (_, setup) = producer.setup("ds");
    let config = encoded(|out| {
        out.append_string::<1>("ds");
        out.append_bytes::<200>(b"not even a message");
    });
    assert!(setup.config.starts_with(&config));
    session.disable();
    assert_eq!(config_packets(&session.read()), [bytes]);
}

#[test]
fn data_source_of_another_machine_is_not_set_up() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let bytes = config(&[source("guest"), source("host")]);
    let (recording, ignored) = Recording::foreign(&bytes).unwrap();
    assert!(ignored.contains(&"data_sources[0].machine_name_filter[0]".to_owned()));
    let session = world.session_of(recording);
    let (_, setup) = producer.setup("ds");
    assert_eq!(setup.ordinal, 1);
    let set_up = Call::SetUp("ds".to_owned());
    assert_eq!(
        producer.calls().iter().filter(|it| **it == set_up).count(),
        1
    );
    // Nor does a change of the filters of producers admit it.
    let (recording, _) = Recording::foreign(&bytes).unwrap();
    world.service.change_config(session.id, Arc::new(recording));
    assert_eq!(producer.calls(), []);
}

#[test]
fn changed_fields_of_a_data_source_reach_its_instances() {
    let world = World::new();
    let producer = world.producer("producer");
    producer.register("ds");
    let recording = |of_source: &[u8]| {
        let source = encoded(|out| {
            out.append_bytes::<1>(&encoded(|out| {
                out.append_string::<1>("ds");
                out.append_uint32::<9>(1);
                if !of_source.is_empty() {
                    out.append_bytes::<200>(of_source);
                }
            }));
        });
        Recording::foreign(&config(&[source])).unwrap().0
    };
    let session = world.session_of(recording(b"first"));
    producer.calls();
    let change = |of_source: &[u8]| {
        let changed = Arc::new(recording(of_source));
        world.service.change_config(session.id, changed);
        producer.calls()
    };
    let told = |of_source| {
        let config = encoded(|out| out.append_bytes::<200>(of_source));
        [Call::Change("ds".to_owned(), config)]
    };
    assert_eq!(change(b"first"), []);
    assert_eq!(change(b"second"), told(b"second"));
    assert_eq!(change(b"second"), []);
    assert_eq!(change(b""), []);
    // Back to what the session began with.
    assert_eq!(change(b"first"), told(b"first"));
}
