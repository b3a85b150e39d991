//! Producers that get no shared memory.

use tracezero_core::protos::TraceDecoder;
use tracezero_core::protos::tracing_service_event::EventType;

use crate::consumer::recording;
use crate::daemon::TestDaemon;

/// Returns the producers and names of the data sources that have not started, as a trace says.
fn not_started(trace: &[u8]) -> Vec<(String, String)> {
    let names = TraceDecoder::new(trace).packet().filter_map(|packet| {
        match packet.unwrap().service_event().unwrap()?.event_type() {
            Ok(Some(EventType::SlowStartingDataSources(names))) => Some(names),
            _ => None,
        }
    });
    let names = names.flat_map(|names| names.data_source().map(Result::unwrap));
    names
        .map(|it| {
            let producer = it.producer_name().unwrap().unwrap();
            let data_source = it.data_source_name().unwrap().unwrap();
            (producer.to_owned(), data_source.to_owned())
        })
        .collect()
}

#[test]
fn a_refusal_of_the_system_ends_no_session_and_is_told() {
    let daemon = TestDaemon::without_memory();
    let mut producer = daemon.producer("p");
    producer.register_slow_to_stop("ds");
    for _ in 0..3 {
        let mut consumer = daemon.consumer();
        let enabled = consumer.enable(&recording("ds"));
        daemon.wait_for_log("gets no shared memory");
        consumer.disable();
        assert_eq!(consumer.ended(enabled), None);
        let trace = consumer.read();
        assert_eq!(not_started(&trace), [("p".to_owned(), "ds".to_owned())]);
    }
    producer.sync();
    assert!(!producer.has_command());
}
