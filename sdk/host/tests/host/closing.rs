//! Consumers that disconnect in the middle of an operation: their sessions are freed, and other
//! sessions go on.

use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_ipc::consumer_port::requests::{CloneSource, Request};

use crate::consumer::{Consumer, cloning, enabling, encoded, recording};
use crate::daemon::TestDaemon;
use crate::producer::{Instance, Producer};

/// A daemon with two sessions. The consumer of one disconnects, which the other must not notice.
struct World {
    other_producer: Producer,
    other: Consumer,
    other_instance: Instance,
    producer: Producer,
    consumer: Consumer,
    /// Dropped last, so that the daemon need not wait for the connections above.
    daemon: TestDaemon,
}

impl World {
    fn new() -> Self {
        let daemon = TestDaemon::start();
        let mut other_producer = daemon.producer("other");
        other_producer.register("other");
        let mut other = daemon.consumer();
        other.enable(&recording("other"));
        let other_instance = other_producer.started();
        other_producer.write(&other_instance, 1);
        let mut producer = daemon.producer("p");
        producer.register_as(&DataSourceDescriptor {
            name: "ds".to_owned(),
            notifies_start: true,
            notifies_stop: true,
            ..DataSourceDescriptor::default()
        });
        let consumer = daemon.consumer();
        Self {
            other_producer,
            other,
            other_instance,
            producer,
            consumer,
            daemon,
        }
    }

    /// Starts the session that loses its consumer.
    fn start(&mut self) -> Instance {
        self.consumer.enable(&recording("ds"));
        let instance = self.producer.started();
        self.producer.notify_started(&instance);
        self.producer.write(&instance, 1);
        self.producer.sync();
        instance
    }

    /// Closes the consumer. If `stopped` is given, checks that the producer is told to stop this
    /// instance. Then checks that the daemon still works.
    #[track_caller]
    fn close(mut self, stopped: Option<&Instance>) {
        drop(self.consumer);
        self.daemon.wait_for_sessions(1);
        if let Some(stopped) = stopped {
            self.producer.expect_stop(stopped);
        }
        self.producer.sync();
        // A new session works like the first.
        let mut consumer = self.daemon.consumer();
        consumer.enable(&recording("ds"));
        let instance = self.producer.started();
        self.producer.write(&instance, 7);
        self.producer.sync();
        assert_eq!(consumer.read_numbers(), [7]);
        // The other session has noticed nothing.
        self.other_producer.write(&self.other_instance, 2);
        self.other_producer.sync();
        assert_eq!(self.other.read_numbers(), [1, 2]);
        assert_eq!(self.daemon.log_lines("ends"), Vec::<String>::new());
    }
}

#[test]
fn before_its_request_is_complete() {
    let mut world = World::new();
    let config = encoded(&recording("ds"));
    let request = enabling(&config);
    let body = request.encode();
    let mut frame = Vec::new();
    tracezero_ipc::wire::Frame {
        request_id: 1,
        body: crate::peer::invocation(request.method().id(), &body),
    }
    .append_to(&mut frame);
    world.consumer.peer.send_bytes(&frame[..frame.len() - 1]);
    world.close(None);
}

#[test]
fn while_the_session_is_set_up() {
    let mut world = World::new();
    let config = recording("ds");
    world
        .consumer
        .enable(&format!("{config} deferred_start: true"));
    let instance = world.producer.set_up();
    world.producer.sync();
    assert_eq!(world.daemon.state().num_sessions, 2);
    world.close(Some(&instance));
}

#[test]
fn while_data_sources_start() {
    let mut world = World::new();
    world.consumer.enable(&recording("ds"));
    let instance = world.producer.started();
    world.close(Some(&instance));
}

#[test]
fn while_the_session_records() {
    let mut world = World::new();
    let instance = world.start();
    world.close(Some(&instance));
}

#[test]
fn during_a_flush() {
    let mut world = World::new();
    let instance = world.start();
    world.consumer.ask_to_flush(0);
    world.producer.expect_flush();
    world.close(Some(&instance));
}

#[test]
fn while_data_sources_stop() {
    let mut world = World::new();
    let instance = world.start();
    world.consumer.disable();
    world.producer.expect_stop(&instance);
    world.close(None);
}

#[test]
fn while_it_reads() {
    let mut world = World::new();
    let instance = world.start();
    for number in 0..100 {
        world.producer.write(&instance, number);
        world.producer.sync();
    }
    world.consumer.ask(&Request::ReadBuffers);
    world.close(Some(&instance));
}

#[test]
fn during_a_clone() {
    let mut world = World::new();
    let instance = world.start();
    let mut sessions = world.daemon.state().sessions;
    let id = sessions.pop().unwrap().id;
    let mut cloner = world.daemon.consumer();
    cloner.ask(&cloning(CloneSource::Id(id)));
    let flush = world.producer.expect_flush();
    drop(cloner);
    // The flush before the clone ends although nobody wants the clone any more.
    let answer = tracezero_ipc::producer_port::flush_done(flush);
    world.producer.commit(&answer);
    world.producer.sync();
    world.daemon.wait_for_sessions(2);
    world.close(Some(&instance));
}

#[test]
fn with_a_clone() {
    let mut world = World::new();
    let instance = world.start();
    let id = world.daemon.state().sessions.pop().unwrap().id;
    let mut cloner = world.daemon.consumer();
    let request = cloner.ask(&cloning(CloneSource::Id(id)));
    world.producer.answer_flush();
    cloner.cloned(request).unwrap();
    assert_eq!(world.daemon.state().num_sessions, 3);
    drop(cloner);
    world.daemon.wait_for_sessions(2);
    world.close(Some(&instance));
}
