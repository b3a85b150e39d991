//! Triggers that start, stop and clone sessions.

use tracezero_ipc::consumer_port::events::{ObservedEvent, ObservedEvents, decode_observed};
use tracezero_ipc::consumer_port::requests::{CloneSession, CloneSource, Request, Trigger};
use tracezero_ipc::producer_port::{Method, activate_triggers};

use crate::consumer::recording;
use crate::daemon::TestDaemon;
use crate::producer::{Producer, Told};

/// A configuration whose trigger, `t`, does this.
pub fn triggered_by(mode: &str) -> String {
    format!(
        "{} trigger_config {{ {mode} trigger_timeout_ms: 30000 \
         triggers {{ name: 't' stop_delay_ms: 1 }} }}",
        recording("ds")
    )
}

/// Activates triggers, and waits until the daemon has handled that.
pub fn activate(producer: &mut Producer, names: &[&str]) {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    producer.call(Method::ActivateTriggers, &activate_triggers(&names));
}

#[test]
fn a_trigger_starts_a_session() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let enabled = consumer.enable(&triggered_by("trigger_mode: START_TRACING"));
    let instance = producer.set_up();
    activate(&mut producer, &["other"]);
    assert_eq!(daemon.state().sessions[0].state, "CONFIGURED");
    assert!(consumer.read().is_empty());
    activate(&mut producer, &["other", "t"]);
    assert_eq!(producer.told(), Told::Start(instance.clone()));
    producer.write(&instance, 1);
    producer.answer_flush();
    producer.expect_stop(&instance);
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(consumer.read_numbers(), [1]);
}

#[test]
fn a_trigger_stops_a_session() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let enabled = consumer.enable(&triggered_by("trigger_mode: STOP_TRACING"));
    let instance = producer.started();
    producer.write(&instance, 1);
    producer.sync();
    // Before the trigger, nothing can be read.
    assert!(consumer.read().is_empty());
    activate(&mut producer, &["t"]);
    producer.answer_flush();
    producer.expect_stop(&instance);
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(consumer.read_numbers(), [1]);
}

#[test]
fn a_trigger_asks_for_clones() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    consumer.enable(&triggered_by("trigger_mode: CLONE_SNAPSHOT"));
    let instance = producer.started();
    let events = consumer.ask(&Request::ObserveEvents(ObservedEvents {
        clone_triggers: true,
        ..ObservedEvents::default()
    }));
    for number in 1..=2 {
        producer.write(&instance, number);
        activate(&mut producer, &["t"]);
        let (reply, has_more) = consumer.peer.reply_part(events);
        assert!(has_more);
        let reply = reply.unwrap();
        let [
            ObservedEvent::CloneTriggered {
                session_id,
                trigger_name,
                producer_name,
                producer_uid,
                boot_time_ns,
                delay_ms,
            },
        ] = decode_observed(&reply).unwrap()[..]
        else {
            panic!("no trigger");
        };
        assert_eq!((trigger_name, producer_name, delay_ms), ("t", "p", 1));
        let mut cloner = daemon.consumer();
        let request = cloner.ask(&Request::CloneSession(CloneSession {
            source: CloneSource::Id(session_id),
            skips_trace_filter: false,
            is_for_bugreport: false,
            trigger: Some(Trigger {
                name: trigger_name,
                producer_name,
                uid: producer_uid as i32,
                boot_time_ns,
                delay_ms,
            }),
        }));
        producer.answer_flush();
        cloner.cloned(request).unwrap();
        assert_eq!(cloner.read_numbers(), Vec::from_iter(1..=number));
    }
}

#[test]
fn a_call_activates_64_triggers_at_most() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    let mut consumer = daemon.consumer();
    consumer.enable(&triggered_by("trigger_mode: START_TRACING"));
    let mut names = vec!["other"; 64];
    names.push("t");
    activate(&mut producer, &names);
    assert_eq!(daemon.state().sessions[0].state, "CONFIGURED");
    activate(&mut producer, &names[1..]);
    support::wait_until(|| daemon.state().sessions[0].state == "DISABLED");
}
