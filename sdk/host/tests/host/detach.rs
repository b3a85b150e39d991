//! Sessions without a consumer.

use tracezero_ipc::consumer_port::replies::decode_attached;
use tracezero_ipc::consumer_port::requests::Request;

use crate::consumer::{Consumer, encoded, recording};
use crate::daemon::TestDaemon;
use crate::producer::{Instance, Producer};
use crate::triggers::{activate, triggered_by};

/// Starts a session, and detaches it.
#[track_caller]
fn detached(daemon: &TestDaemon, producer: &mut Producer, key: &str) -> Instance {
    let mut consumer = daemon.consumer();
    consumer.enable(&recording("ds"));
    let instance = producer.started();
    assert_eq!(consumer.call(&Request::Detach { key }), Some(vec![]));
    instance
}

#[track_caller]
fn attach(daemon: &TestDaemon, key: &str) -> Option<Consumer> {
    let mut consumer = daemon.consumer();
    let reply = consumer.call(&Request::Attach { key })?;
    let config = decode_attached(&reply).unwrap();
    assert_eq!(config, encoded(&recording("ds")));
    Some(consumer)
}

#[test]
fn a_detached_session_goes_on_until_another_consumer_attaches_it() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let instance = detached(&daemon, &mut producer, "key");
    producer.write(&instance, 1);
    producer.sync();
    assert_eq!(daemon.state().sessions[0].state, "STARTED");
    let mut consumer = attach(&daemon, "key").unwrap();
    let enabled = consumer.ask_for_end();
    producer.write(&instance, 2);
    assert!(!consumer.peer.has_answer(enabled));
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(consumer.read_numbers(), [1, 2]);
    drop(consumer);
    daemon.wait_for_sessions(0);
}

#[test]
fn only_its_key_attaches_a_session() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    detached(&daemon, &mut producer, "key");
    for key in ["", "ke", "key2", "KEY"] {
        assert!(attach(&daemon, key).is_none(), "{key}");
    }
    let _consumer = attach(&daemon, "key").unwrap();
    // The session is attached now.
    assert!(attach(&daemon, "key").is_none());
}

#[test]
fn a_key_belongs_to_one_session() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    detached(&daemon, &mut producer, "key");
    let mut second = daemon.consumer();
    second.enable(&recording("ds"));
    let instance = producer.started();
    assert_eq!(second.call(&Request::Detach { key: "key" }), None);
    assert_eq!(second.call(&Request::Detach { key: "" }), None);
    // The second consumer still has its session.
    producer.write(&instance, 2);
    producer.sync();
    assert_eq!(second.read_numbers(), [2]);
    assert_eq!(second.call(&Request::Detach { key: "other" }), Some(vec![]));
    // The second consumer has no session left to detach. A consumer that has a session cannot
    // attach another.
    assert_eq!(second.call(&Request::Detach { key: "third" }), None);
    let mut third = attach(&daemon, "key").unwrap();
    assert_eq!(third.call(&Request::Attach { key: "other" }), None);
    assert!(attach(&daemon, "other").is_some());
}

#[test]
fn a_connection_may_have_another_session_after_a_detach() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    consumer.enable(&recording("ds"));
    let first = producer.started();
    assert_eq!(consumer.call(&Request::Detach { key: "key" }), Some(vec![]));
    let enabled = consumer.enable(&recording("ds"));
    let second = producer.started();
    producer.write(&first, 1);
    producer.write(&second, 2);
    producer.sync();
    assert_eq!(consumer.read_numbers(), [2]);
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    consumer.call(&Request::FreeBuffers);
    assert!(consumer.call(&Request::Attach { key: "key" }).is_some());
    assert_eq!(consumer.read_numbers(), [1]);
}

#[test]
fn a_detached_session_that_ends_is_freed() {
    let daemon = TestDaemon::start();
    let mut consumer = daemon.consumer();
    consumer.enable(&triggered_by("trigger_mode: STOP_TRACING"));
    assert_eq!(consumer.call(&Request::Detach { key: "key" }), Some(vec![]));
    let mut producer = daemon.producer("p");
    activate(&mut producer, &["t"]);
    daemon.wait_for_sessions(0);
    daemon.wait_for_log("has ended, and nobody attached it");
    assert!(attach(&daemon, "key").is_none());
    // The key is free again.
    producer.register("ds");
    detached(&daemon, &mut producer, "key");
}

#[test]
fn a_session_that_has_ended_is_freed_when_it_is_detached() {
    let daemon = TestDaemon::start();
    let mut consumer = daemon.consumer();
    let enabled = consumer.enable(&recording("ds"));
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(consumer.call(&Request::Detach { key: "key" }), Some(vec![]));
    daemon.wait_for_sessions(0);
}

#[test]
fn a_session_that_ends_after_it_was_attached_tells_its_new_consumer() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut first = daemon.consumer();
    let former = first.enable(&triggered_by("trigger_mode: STOP_TRACING"));
    producer.started();
    assert_eq!(first.call(&Request::Detach { key: "key" }), Some(vec![]));
    let mut second = daemon.consumer();
    assert!(second.call(&Request::Attach { key: "key" }).is_some());
    let enabled = second.ask_for_end();
    assert!(!second.peer.has_answer(enabled));
    activate(&mut producer, &["t"]);
    producer.answer_flush();
    assert_eq!(second.ended(enabled), None);
    assert!(!first.peer.has_answer(former));
    // If the session has already ended, the consumer gets the reply at once.
    let again = second.ask_for_end();
    assert_eq!(second.ended(again), None);
}
