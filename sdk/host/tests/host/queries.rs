//! Queries about the daemon and its sessions.

use tracezero_core::protos::TraceStatsDecoder;
use tracezero_ipc::consumer_port::replies::{
    decode_capabilities, decode_packet_totals, decode_trace_stats,
};
use tracezero_ipc::consumer_port::requests::Request;
use tracezero_ipc::protos::DataSourceDescriptorDecoder;

use crate::consumer::{encoded, recording};
use crate::daemon::TestDaemon;

#[test]
fn the_state_has_producers_data_sources_and_sessions() {
    let daemon = TestDaemon::start();
    let state = daemon.state();
    assert_eq!((state.num_sessions, state.num_sessions_started), (0, 0));
    assert!(state.producers.is_empty() && state.data_sources.is_empty());

    let mut producer = daemon.producer("p");
    let _other = daemon.producer("other");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    consumer.enable(&format!("{} unique_session_name: 'name'", recording("ds")));
    producer.started();
    let mut deferred = daemon.consumer();
    deferred.enable(&format!("{} deferred_start: true", recording("ds")));
    producer.set_up();
    let mut state = daemon.state();
    state.producers.sort();
    assert_eq!(state.producers, ["other", "p"]);
    let descriptor = DataSourceDescriptorDecoder::new(&state.data_sources[0]);
    assert_eq!(descriptor.name(), Ok(Some("ds")));
    let sessions = state.sessions.iter();
    let found: Vec<_> = sessions
        .map(|it| (it.state.as_str(), it.name.as_str(), it.is_started))
        .collect();
    assert_eq!(
        found,
        [("STARTED", "name", true), ("CONFIGURED", "", false)]
    );
    assert_eq!((state.num_sessions, state.num_sessions_started), (2, 1));

    consumer.disable();
    assert_eq!(daemon.state().sessions[0].state, "DISABLED");
    drop(producer);
    support::wait_until(|| daemon.state().producers == ["other"]);
    assert!(daemon.state().data_sources.is_empty());
}

#[test]
fn a_large_state_comes_in_parts() {
    const DATA_SOURCES: usize = 40;
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    for index in 0..DATA_SOURCES {
        producer.register_large(&format!("ds{index:02}"), 100_000);
    }
    let state = daemon.state();
    assert_eq!(state.data_sources.len(), DATA_SOURCES);
    assert!(state.data_sources.iter().all(|it| it.len() > 100_000));
}

#[test]
fn capabilities_are_told() {
    let daemon = TestDaemon::start();
    let reply = daemon.consumer().call(&Request::QueryCapabilities).unwrap();
    let capabilities = decode_capabilities(&reply).unwrap();
    let events = capabilities.events;
    assert!(events.instances && events.all_started && events.clone_triggers);
    assert!(capabilities.has_clone_session);
    // The daemon creates files for its own user, as which this test runs.
    assert!(capabilities.has_output_path);
}

#[test]
fn traces_are_not_saved_for_bug_reports() {
    let daemon = TestDaemon::start();
    let reply = daemon.consumer().call(&Request::SaveTraceForBugreport);
    let reply = reply.unwrap();
    assert_eq!(reply[..2], [8, 0]);
    assert!(String::from_utf8_lossy(&reply).contains("clone the session"));
}

#[test]
fn statistics_are_those_of_the_session() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    assert_eq!(consumer.call(&Request::GetTraceStats), None);
    consumer.enable(&recording("ds"));
    let instance = producer.started();
    producer.write(&instance, 1);
    producer.sync();
    let reply = consumer.call(&Request::GetTraceStats).unwrap();
    let stats = TraceStatsDecoder::new(decode_trace_stats(&reply).unwrap());
    assert_eq!(stats.producers_connected(), Ok(Some(1)));
    assert_eq!(stats.tracing_sessions(), Ok(Some(1)));
    let buffer = stats.buffer_stats().next().unwrap().unwrap();
    assert_eq!(buffer.chunks_written(), Ok(Some(1)));
}

#[test]
fn packets_are_counted_by_session() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    assert_eq!(consumer.call(&Request::TracezeroPacketTotals), None);
    consumer.enable(&recording("ds"));
    let instance = producer.started();
    producer.write(&instance, 1);
    producer.sync();
    let reply = consumer.call(&Request::TracezeroPacketTotals).unwrap();
    let totals = decode_packet_totals(&reply).unwrap();
    assert_eq!((totals.begun, totals.lost, totals.events), (1, 0, 0));
}

#[test]
fn a_changed_configuration_adds_producers() {
    let daemon = TestDaemon::start();
    let [mut a, mut b] = ["a", "b"].map(|name| daemon.producer(name));
    a.register("ds");
    b.register("ds");
    let filtered = |filter: &str| {
        format!("buffers {{ size_kb: 64 }} data_sources {{ config {{ name: 'ds' }} {filter} }}")
    };
    let mut consumer = daemon.consumer();
    consumer.enable(&filtered("producer_name_filter: 'a'"));
    a.started();
    // A configuration that cannot be decoded changes nothing.
    consumer.call(&Request::ChangeTraceConfig { config: &[0xff] });
    let both = "producer_name_filter: 'a' producer_name_filter: 'b'";
    let config = encoded(&filtered(both));
    let reply = consumer.call(&Request::ChangeTraceConfig { config: &config });
    assert_eq!(reply, Some(vec![]));
    let instance = b.started();
    b.write(&instance, 2);
    b.sync();
    assert_eq!(consumer.read_numbers(), [2]);
}

#[test]
fn a_session_may_start_later() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let enabled = consumer.enable(&format!("{} deferred_start: true", recording("ds")));
    let instance = producer.set_up();
    assert_eq!(daemon.state().sessions[0].state, "CONFIGURED");
    assert_eq!(consumer.call(&Request::StartTracing), Some(vec![]));
    let started = producer.told();
    assert_eq!(started, crate::producer::Told::Start(instance.clone()));
    producer.write(&instance, 1);
    producer.sync();
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(consumer.read_numbers(), [1]);
}

#[test]
fn requests_without_a_session_are_answered_except_flushes() {
    let daemon = TestDaemon::start();
    let mut consumer = daemon.consumer();
    let flush = consumer.ask_to_flush(1);
    for request in [
        Request::DisableTracing,
        Request::StartTracing,
        Request::FreeBuffers,
    ] {
        assert_eq!(consumer.call(&request), Some(vec![]), "{request:?}");
    }
    assert!(consumer.read().is_empty());
    let config = &encoded(&recording("ds"));
    assert_eq!(
        consumer.call(&Request::ChangeTraceConfig { config }),
        Some(vec![])
    );
    assert_eq!(consumer.call(&Request::Detach { key: "key" }), None);
    assert_eq!(consumer.call(&Request::Attach { key: "key" }), None);
    assert!(!consumer.peer.has_answer(flush));
}

#[test]
fn a_flush_that_nobody_answers_fails_after_its_time() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    consumer.enable(&recording("ds"));
    producer.started();
    let flush = consumer.ask_to_flush(20);
    producer.expect_flush();
    assert_eq!(consumer.peer.reply(flush), None);
}
