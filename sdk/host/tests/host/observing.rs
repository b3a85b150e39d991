//! Events that consumers observe.

use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_ipc::consumer_port::events::{ObservedEvent, ObservedEvents, decode_observed};
use tracezero_ipc::consumer_port::requests::Request;

use crate::consumer::{Consumer, recording};
use crate::daemon::TestDaemon;

const INSTANCES: ObservedEvents = ObservedEvents {
    instances: true,
    all_started: false,
    clone_triggers: false,
};

const ALL_STARTED: ObservedEvents = ObservedEvents {
    instances: false,
    all_started: true,
    clone_triggers: false,
};

/// An event that a consumer has observed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Started(String),
    Stopped(String),
    AllStarted,
    End,
}

fn observe(consumer: &mut Consumer, events: ObservedEvents) -> u64 {
    consumer.ask(&Request::ObserveEvents(events))
}

/// Returns the next reply with events.
#[track_caller]
fn seen(consumer: &mut Consumer, request: u64) -> Vec<Seen> {
    let (reply, has_more) = consumer.peer.reply_part(request);
    let reply = reply.expect("a success");
    if !has_more {
        assert!(reply.is_empty());
        return vec![Seen::End];
    }
    let events = decode_observed(&reply).unwrap();
    let events = events.into_iter().map(|event| match event {
        ObservedEvent::Instance(change) => {
            let name = format!("{}/{}", change.producer_name, change.data_source_name);
            match change.is_started {
                true => Seen::Started(name),
                false => Seen::Stopped(name),
            }
        }
        ObservedEvent::AllStarted => Seen::AllStarted,
        ObservedEvent::CloneTriggered { .. } => panic!("no trigger was asked for"),
    });
    events.collect()
}

fn descriptor(name: &str, notifies_start: bool) -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: name.to_owned(),
        notifies_start,
        ..DataSourceDescriptor::default()
    }
}

#[test]
fn instances_are_told_at_once_and_when_they_change() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register_as(&descriptor("slow", true));
    producer.register_as(&descriptor("fast", false));
    let mut consumer = daemon.consumer();
    consumer.enable(
        "buffers { size_kb: 64 } data_sources { config { name: 'slow' } } \
         data_sources { config { name: 'fast' } }",
    );
    let slow = producer.set_up();
    let request = observe(&mut consumer, INSTANCES);
    let mut states = seen(&mut consumer, request);
    states.sort_by_key(|it| format!("{it:?}"));
    let [slow_name, fast_name] = ["p/slow", "p/fast"].map(str::to_owned);
    assert_eq!(
        states,
        [
            Seen::Started(fast_name.clone()),
            Seen::Stopped(slow_name.clone())
        ]
    );
    producer.notify_started(&slow);
    assert_eq!(
        seen(&mut consumer, request),
        [Seen::Started(slow_name.clone())]
    );
    consumer.disable();
    let mut states = [seen(&mut consumer, request), seen(&mut consumer, request)].concat();
    states.sort_by_key(|it| format!("{it:?}"));
    assert_eq!(states, [Seen::Stopped(fast_name), Seen::Stopped(slow_name)]);
}

#[test]
fn all_started_is_told_once_all_have_started() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register_as(&descriptor("ds", true));
    let mut consumer = daemon.consumer();
    // Asks before the session is enabled, as `perfetto --background-wait` does.
    let request = observe(&mut consumer, ALL_STARTED);
    consumer.enable(&recording("ds"));
    let instance = producer.started();
    assert!(!consumer.peer.has_answer(request));
    producer.notify_started(&instance);
    assert_eq!(seen(&mut consumer, request), [Seen::AllStarted]);
    // A consumer that asks later gets the event at once. The second request ends the first.
    let second = observe(&mut consumer, ALL_STARTED);
    assert_eq!(seen(&mut consumer, request), [Seen::End]);
    assert_eq!(seen(&mut consumer, second), [Seen::AllStarted]);
    // A request for no events ends the earlier request and itself.
    let none = observe(&mut consumer, ObservedEvents::default());
    assert_eq!(seen(&mut consumer, second), [Seen::End]);
    assert_eq!(seen(&mut consumer, none), [Seen::End]);
    consumer.disable();
    assert!(!consumer.peer.has_answer(second));
}

#[test]
fn all_started_is_told_when_the_producer_that_has_not_started_goes() {
    let daemon = TestDaemon::start();
    let mut honest = daemon.producer("honest");
    honest.register("ds");
    let mut slow = daemon.producer("slow");
    slow.register_as(&descriptor("ds", true));
    let mut consumer = daemon.consumer();
    let request = observe(&mut consumer, ALL_STARTED);
    consumer.enable(&recording("ds"));
    honest.started();
    slow.started();
    assert!(!consumer.peer.has_answer(request));
    drop(slow);
    assert_eq!(seen(&mut consumer, request), [Seen::AllStarted]);
}
