//! Sessions, from the configuration to the trace.

use tracezero_core::ids::InstanceId;
use tracezero_ipc::consumer_port::requests::Request;
use tracezero_ipc::consumer_port::{self, SERVICE as CONSUMERS};
use tracezero_ipc::producer_port::{self, Introduction, Method, SERVICE as PRODUCERS, flush_done};
use tracezero_ipc::wire::Body;

use crate::consumer::recording;
use crate::daemon::TestDaemon;
use crate::peer::{ArrivedBody, Peer};
use crate::producer::{Producer, Told, moved, packet};

fn methods(peer: &mut Peer, service: &str) -> Option<Vec<(String, u32)>> {
    let request = peer.send(Body::Bind { service });
    match peer.next_for(request).body {
        ArrivedBody::Bound(methods) => methods,
        other => panic!("not bound: {other:?}"),
    }
}

#[test]
fn clients_bind_the_service_of_their_socket() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer_peer();
    let mut consumer = daemon.consumer_peer();
    let names = producer_port::Method::ALL.map(|it| (it.name().to_owned(), it.id()));
    assert_eq!(methods(&mut producer, PRODUCERS), Some(names.to_vec()));
    let names = consumer_port::Method::ALL.map(|it| (it.name().to_owned(), it.id()));
    assert_eq!(methods(&mut consumer, CONSUMERS), Some(names.to_vec()));
    for other in [CONSUMERS, "", "RelayPort", "producer_port"] {
        assert_eq!(methods(&mut producer, other), None, "{other}");
    }
    assert_eq!(methods(&mut consumer, PRODUCERS), None);
}

#[test]
fn a_session_records_flushes_and_is_read() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let enabled = consumer.enable(&recording("ds"));
    // The memory comes first, then the set-up, then the start.
    let instance = producer.started();
    assert_eq!(instance.data_source, "ds");
    assert_ne!(instance.target.0, 0);
    assert_ne!(instance.session, 0);

    producer.write(&instance, 1);
    producer.write(&instance, 2);
    let flush = consumer.ask_to_flush(0);
    // The answer to the flush is in the same commit as the last chunk. The session must also have
    // this chunk.
    let flush_id = producer.expect_flush();
    let place = producer.completed_chunk(7, &packet(3));
    let mut commit = moved(&[place], instance.target);
    commit.extend(flush_done(flush_id));
    producer.commit(&commit);
    assert_eq!(consumer.peer.reply(flush), Some(vec![]));

    consumer.disable();
    producer.expect_stop(&instance);
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(consumer.read_numbers(), [1, 2, 3]);
    // Reading removes the packets.
    assert!(consumer.read_numbers().is_empty());
    assert_eq!(consumer.call(&Request::FreeBuffers), Some(vec![]));
    assert!(daemon.state().sessions.is_empty());
}

#[test]
fn commands_wait_for_their_request_and_keep_their_order() {
    let daemon = TestDaemon::start();
    let introduction = Introduction::default();
    let mut producer = Producer::introduced(daemon.producer_peer(), &introduction);
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let enabled = consumer.enable(&recording("ds"));
    let flush = consumer.ask_to_flush(0);
    consumer.disable();
    producer.sync();
    producer.ask_for_commands();
    let instance = producer.started();
    let flush_id = producer.expect_flush();
    producer.expect_stop(&instance);
    producer.commit(&flush_done(flush_id));
    assert_eq!(consumer.ended(enabled), None);
    // The end of the session has ended the flush.
    assert!(consumer.peer.has_answer(flush));
}

#[test]
fn memory_sizes_are_configured_then_wished_then_default() {
    const KIB: u32 = 1024;
    let configured = "producers { producer_name: 'configured' shm_size_kb: 512 page_size_kb: 8 }";
    for (name, wished_kib, size_kib, page_kib) in [
        ("configured", 1024, 512, 8),
        ("wishes", 1024, 1024, 16),
        ("neither", 0, 256, 4),
    ] {
        let daemon = TestDaemon::start();
        let introduction = Introduction {
            producer_name: name.to_owned(),
            memory_size_bytes: wished_kib * KIB,
            page_size_bytes: if wished_kib > 0 { 16 * KIB } else { 0 },
            ..Introduction::default()
        };
        let mut producer = Producer::introduced(daemon.producer_peer(), &introduction);
        producer.ask_for_commands();
        producer.register("ds");
        let mut consumer = daemon.consumer();
        consumer.enable(&format!("{} {configured}", recording("ds")));
        let instance = producer.started();
        producer.write(&instance, 1);
        let geometry = producer.memory.as_ref().unwrap().geometry();
        let found = (geometry.size_bytes(), geometry.page_size_bytes());
        let expected = (size_kib * KIB as usize, page_kib * KIB as usize);
        assert_eq!(found, expected, "{name}");
        consumer.disable();
        assert_eq!(consumer.read_numbers(), [1], "{name}");
    }
}

#[test]
fn memory_is_given_once() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumers = [daemon.consumer(), daemon.consumer()];
    let mut instances = Vec::new();
    for consumer in &mut consumers {
        consumer.enable(&recording("ds"));
        instances.push(producer.started());
    }
    assert_ne!(instances[0].target, instances[1].target);
    assert_ne!(instances[0].session, instances[1].session);
    for (instance, number) in instances.iter().zip(1..) {
        producer.write(instance, number);
    }
    producer.sync();
    for (consumer, number) in consumers.iter_mut().zip(1..) {
        assert_eq!(consumer.read_numbers(), [number]);
    }
}

#[test]
fn closing_frees_the_session_and_stops_its_data_sources() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    consumer.enable(&recording("ds"));
    let instance = producer.started();
    assert_eq!(daemon.state().sessions.len(), 1);
    drop(consumer);
    producer.expect_stop(&instance);
    daemon.wait_for_sessions(0);
    // The producer may go on writing, although no session gets the packets.
    producer.write(&instance, 1);
    producer.sync();
}

#[test]
fn a_data_source_that_is_registered_later_takes_part() {
    let daemon = TestDaemon::start();
    let mut consumer = daemon.consumer();
    let enabled = consumer.enable(&recording("ds"));
    consumer.state();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let instance = producer.started();
    producer.write(&instance, 1);
    let args = producer_port::unregister_data_source("ds");
    producer.call(Method::UnregisterDataSource, &args);
    producer.expect_stop(&instance);
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(consumer.read_numbers(), [1]);
}

#[test]
fn the_end_waits_for_data_sources_that_report_when_they_have_stopped() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register_slow_to_stop("ds");
    let mut consumer = daemon.consumer();
    let enabled = consumer.enable(&recording("ds"));
    let instance = producer.started();
    consumer.disable();
    producer.expect_stop(&instance);
    assert!(!consumer.peer.has_answer(enabled));
    assert_eq!(daemon.state().sessions[0].state, "STOP_WAIT");
    // The trace contains packets that the producer commits before it reports the stop.
    producer.write(&instance, 1);
    producer.notify_stopped(&instance);
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(consumer.read_numbers(), [1]);
}

#[test]
fn a_session_ends_though_its_producer_answers_nothing() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register_slow_to_stop("ds");
    let mut consumer = daemon.consumer();
    let limits = "duration_ms: 100 flush_timeout_ms: 10 data_source_stop_timeout_ms: 10";
    let config = format!("{} {limits} deferred_start: true", recording("ds"));
    let enabled = consumer.enable(&config);
    let instance = producer.set_up();
    // Writes before the duration of the session begins, so that the packet never comes too late.
    producer.write(&instance, 1);
    producer.sync();
    assert_eq!(consumer.call(&Request::StartTracing), Some(vec![]));
    // Nothing but timers wakes the daemon from here on.
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(consumer.read_numbers(), [1]);
}

#[test]
fn a_producer_that_goes_leaves_what_it_has_written() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let enabled = consumer.enable(&recording("ds"));
    let instance = producer.started();
    producer.write(&instance, 1);
    // The daemon finds an uncommitted chunk in the producer's memory.
    let args =
        producer_port::register_trace_writer(tracezero_core::ids::WriterId(1), instance.target);
    producer.tell(Method::RegisterTraceWriter, &args);
    let mut chunk = producer.chunk(9).unwrap();
    chunk.append_packet(&packet(2));
    chunk.publish_finished();
    chunk.append_packet(&packet(3));
    producer.sync();
    drop((chunk, producer));
    // Waits until the daemon has handled the end of the producer.
    support::wait_until(|| daemon.state().producers.is_empty());
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(consumer.read_numbers(), [1, 2]);
}

#[test]
fn requests_about_instances_of_others_change_nothing() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register_slow_to_stop("ds");
    let mut other = daemon.producer("other");
    let mut consumer = daemon.consumer();
    let enabled = consumer.enable(&recording("ds"));
    let instance = producer.started();
    consumer.disable();
    producer.expect_stop(&instance);
    other.notify_stopped(&instance);
    for id in [0, instance.id.0 + 1, u64::MAX] {
        let args = producer_port::notify_stopped(InstanceId(id));
        other.tell(Method::NotifyDataSourceStopped, &args);
        producer.tell(Method::NotifyDataSourceStopped, &args);
    }
    other.sync();
    producer.sync();
    assert!(!consumer.peer.has_answer(enabled));
    producer.notify_stopped(&instance);
    assert_eq!(consumer.ended(enabled), None);
}

#[test]
fn incremental_state_is_cleared_when_the_period_is_over() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register_clearing("ds");
    let mut consumer = daemon.consumer();
    let config = recording("ds");
    consumer.enable(&format!(
        "{config} incremental_state_config {{ clear_period_ms: 1 }}"
    ));
    let instance = producer.started();
    assert_eq!(producer.told(), Told::Clear(vec![instance.id]));
}

#[test]
fn incremental_state_is_cleared_at_the_commit_that_fills_a_quarter_of_a_ring() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register_clearing("ds");
    let mut consumer = daemon.consumer();
    consumer.enable("buffers { size_kb: 64 } data_sources { config { name: 'ds' } }");
    let instance = producer.started();
    for _ in 0..5 {
        for page in 0..6 {
            let place = producer.completed_chunk(page, &[0; 3000]);
            producer.commit(&moved(&[place], instance.target));
        }
        // The daemon sends the command at once, without waiting for a timer or for more commits.
        assert!(producer.has_command());
        assert_eq!(producer.told(), Told::Clear(vec![instance.id]));
    }
}

#[test]
fn a_commit_has_many_chunks() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    consumer.enable(&recording("ds"));
    let instance = producer.started();
    let places = (0..32).map(|page| producer.completed_chunk(page, &packet(page.into())));
    let commit = moved(&Vec::from_iter(places), instance.target);
    producer.call(Method::CommitData, &commit);
    assert_eq!(consumer.read_numbers(), Vec::from_iter(0..32));
}
