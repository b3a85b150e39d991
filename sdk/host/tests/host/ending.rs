//! The end of the daemon.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use tracezero_ipc::consumer_port::requests::Request;

use crate::consumer::recording;
use crate::daemon::TestDaemon;

/// How long the daemon waits for consumers that have not freed their sessions.
const END_LIMIT: Duration = Duration::from_secs(5);

#[test]
fn sockets_are_removed_and_connections_closed() {
    let mut daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    let mut consumer = daemon.consumer();
    consumer.state();
    assert!(daemon.producers().exists() && daemon.consumers().exists());
    daemon.stop();
    assert!(!daemon.producers().exists() && !daemon.consumers().exists());
    producer.peer.wait_for_end();
    consumer.peer.wait_for_end();
}

#[test]
fn files_are_finished() {
    /// More packets than the daemon writes into a file at once.
    const PACKETS: u64 = 2000;
    for _ in 0..5 {
        let mut daemon = TestDaemon::start();
        let mut producer = daemon.producer("p");
        producer.register("ds");
        let mut sessions = Vec::new();
        for name in ["a", "b"] {
            let path = daemon.folder.file(name);
            let mut consumer = daemon.consumer();
            let config = "buffers { size_kb: 16384 } data_sources { config { name: 'ds' } } \
                          write_into_file: true file_write_period_ms: 100000 \
                          write_flush_mode: WRITE_FLUSH_DISABLED";
            let enabled = consumer.enable_with(config, File::create_new(&path).unwrap());
            let instance = producer.started();
            for number in 0..PACKETS {
                producer.write(&instance, number);
                if number % 32 == 31 {
                    producer.sync();
                }
            }
            producer.sync();
            sessions.push((consumer, enabled, path));
        }
        daemon.stopper.stop();
        // The daemon flushes the data sources of both sessions.
        producer.answer_flush();
        producer.answer_flush();
        daemon.stop();
        for (mut consumer, enabled, path) in sessions {
            let bytes = fs::read(&path).unwrap();
            assert!(support::is_whole(&bytes));
            assert_eq!(support::numbers(&bytes), Vec::from_iter(0..PACKETS));
            // The consumer gets the reply before the connection closes.
            assert_eq!(consumer.ended(enabled), None);
        }
    }
}

#[test]
fn consumers_are_told_and_read_their_traces() {
    let mut daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let enabled = consumer.enable(&recording("ds"));
    let instance = producer.started();
    for number in 0..10 {
        producer.write(&instance, number);
    }
    producer.sync();
    daemon.stopper.stop();
    producer.answer_flush();
    producer.expect_stop(&instance);
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(consumer.read_numbers(), Vec::from_iter(0..10));
    consumer.ask(&Request::FreeBuffers);
    daemon.stop();
}

#[test]
fn producers_that_answer_nothing_do_not_hold_up_the_end() {
    let mut daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register_slow_to_stop("ds");
    let mut consumer = daemon.consumer();
    let enabled = consumer.enable(&recording("ds"));
    let instance = producer.started();
    producer.write(&instance, 1);
    producer.sync();
    daemon.stopper.stop();
    assert_eq!(consumer.ended(enabled), None);
    drop(consumer);
    daemon.stop();
}

#[test]
fn consumers_that_read_nothing_hold_up_the_end_for_5_seconds() {
    let mut daemon = TestDaemon::start();
    let mut consumer = daemon.consumer();
    let enabled = consumer.enable(&recording("ds"));
    daemon.wait_for_sessions(1);
    let mut other = daemon.consumer();
    other.state();
    let stopped = Instant::now();
    daemon.stopper.stop();
    assert_eq!(consumer.ended(enabled), None);
    // Meanwhile, no consumer can start another session.
    let reason = other.refused(&recording("ds"));
    assert!(reason.contains("the daemon ends"), "{reason}");
    daemon.stop();
    assert!(stopped.elapsed() >= END_LIMIT);
    consumer.peer.wait_for_end();
}
