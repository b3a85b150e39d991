//! Peers that read slowly or not at all, and floods of requests.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_core::protos::TraceStatsDecoder;
use tracezero_ipc::consumer_port::events::ObservedEvents;
use tracezero_ipc::consumer_port::replies::decode_trace_stats;
use tracezero_ipc::consumer_port::requests::Request;
use tracezero_ipc::frame::FRAME_MAX_BYTES;
use tracezero_ipc::producer_port::{Introduction, Method};
use tracezero_ipc::wire::Frame;

use crate::consumer::{Consumer, recording};
use crate::daemon::TestDaemon;
use crate::peer::{ArrivedBody, invocation};
use crate::producer::{Instance, Producer, moved, packet_with};

/// The number of bytes that may wait for a producer. If more wait, it is disconnected.
const PRODUCER_QUEUE_MAX_BYTES: usize = 4 << 20;

/// The number of bytes waiting for a consumer above which no more of its trace is read.
const CONSUMER_QUEUE_HIGH_BYTES: u64 = 1 << 20;

/// The number of bytes that may wait for a consumer. If more wait, it is disconnected.
const CONSUMER_QUEUE_MAX_BYTES: u64 = 8 << 20;

/// An upper bound of the bytes in the socket, and of the last part that is read.
const SLACK_BYTES: u64 = 1 << 20;

/// The size of a configuration that fits a frame.
const CONFIG_BYTES: usize = 100_000;

/// Returns a configuration of about `CONFIG_BYTES`. The producer gets two copies for each instance.
fn large_config() -> String {
    let content = "x".repeat(CONFIG_BYTES);
    format!(
        "buffers {{ size_kb: 64 }} data_sources {{ config {{ name: 'ds' legacy_config: '{content}' }} }}"
    )
}

#[test]
fn a_producer_that_reads_nothing_is_dropped_when_its_queue_is_full() {
    let daemon = TestDaemon::start();
    let mut stuck = daemon.producer("stuck");
    stuck.register("ds");
    let mut honest = daemon.producer("honest");
    honest.register("ds");
    let mut consumer = daemon.consumer();
    let mut rounds = 0;
    while daemon.log_lines("it reads too slowly").is_empty() {
        rounds += 1;
        let enabled = consumer.enable(&large_config());
        let instance = honest.started();
        honest.write(&instance, rounds);
        honest.sync();
        consumer.disable();
        honest.expect_stop(&instance);
        assert_eq!(consumer.ended(enabled), None);
        assert_eq!(consumer.read_numbers(), [rounds]);
        consumer.call(&Request::FreeBuffers);
        assert!(rounds < 100, "the queue has no limit");
    }
    let rounds_max = (PRODUCER_QUEUE_MAX_BYTES as u64 + SLACK_BYTES) / (2 * CONFIG_BYTES as u64);
    assert!(rounds <= rounds_max + 1, "{rounds}");
    assert_eq!(daemon.state().producers, ["honest"]);
    // The producer can still read the commands that the daemon has sent before.
    stuck.started();
    stuck.peer.wait_for_end();
}

#[test]
fn a_consumer_that_reads_nothing_is_dropped_when_its_queue_is_full() {
    let daemon = TestDaemon::start();
    let mut consumer = daemon.consumer();
    consumer.enable(&large_config());
    let mut other = daemon.consumer();
    let mut rounds = 0;
    while daemon.log_lines("it reads too slowly").is_empty() {
        rounds += 1;
        // The reply to `Attach` contains the configuration.
        consumer.ask(&Request::Detach { key: "key" });
        consumer.ask(&Request::Attach { key: "key" });
        // The daemon handles both requests before the next turn of the other consumer.
        other.state();
        assert!(rounds < 200, "the queue has no limit");
    }
    let bytes = rounds * CONFIG_BYTES as u64;
    assert!(bytes > CONSUMER_QUEUE_MAX_BYTES, "{rounds}");
    let bytes_max = CONSUMER_QUEUE_MAX_BYTES + SLACK_BYTES;
    assert!(bytes <= bytes_max + CONFIG_BYTES as u64, "{rounds}");
    // The consumer can still read the replies that the daemon has sent before.
    assert!(consumer.peer.next().is_some());
    consumer.peer.wait_for_end();
}

#[test]
fn dropped_producer_counts_as_started_at_once() {
    /// More instances than the producer's queue has room for.
    const INSTANCES: usize = 30;
    /// Far more turns than the daemon needs.
    const TURNS_OF_OTHER: usize = 2000;
    let daemon = TestDaemon::start();
    let mut stuck = daemon.producer("stuck");
    for _ in 0..INSTANCES {
        stuck.register_as(&DataSourceDescriptor {
            name: "ds".to_owned(),
            notifies_start: true,
            ..DataSourceDescriptor::default()
        });
    }
    let mut consumer = daemon.consumer();
    let events = consumer.ask(&Request::ObserveEvents(ObservedEvents {
        all_started: true,
        ..ObservedEvents::default()
    }));
    consumer.state();
    let other_daemon = TestDaemon::start();
    let mut other_producer = other_daemon.producer("other");
    consumer.enable(&large_config());
    daemon.wait_for_log("it reads too slowly");
    // The daemon's loop wakes after ten seconds in any case, so the test must check earlier. It
    // measures time in turns of another daemon, because these take longer on a slow machine, too.
    for _ in 0..TURNS_OF_OTHER {
        other_producer.sync();
    }
    assert!(consumer.peer.is_readable());
    // All instances count as started, because those of the dropped producer do not count any more.
    let (reply, has_more) = consumer.peer.reply_part(events);
    assert_eq!((reply, has_more), (Some(vec![0x0a, 2, 0x10, 1]), true));
    assert_eq!(daemon.log_lines("it reads too slowly").len(), 1);
}

#[test]
fn replies_to_many_requests_at_once_are_limited() {
    const QUERIES: usize = 200;
    const DESCRIPTOR_BYTES: usize = 100_000;
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    for _ in 0..40 {
        producer.register_large("ds", DESCRIPTOR_BYTES);
    }
    let mut consumer = daemon.consumer_peer();
    let sessions_only = false;
    let query = Request::QueryServiceState { sessions_only };
    let mut stream = Vec::new();
    for request_id in 1..=QUERIES as u64 {
        let body = invocation(query.method().id(), &[]);
        Frame { request_id, body }.append_to(&mut stream);
    }
    consumer.send_bytes(&stream);
    let (mut answered, mut failed) = (0, 0);
    while answered + failed < QUERIES {
        match consumer.next().unwrap().body {
            ArrivedBody::Reply { reply: None, .. } => failed += 1,
            ArrivedBody::Reply { has_more: true, .. } => {}
            ArrivedBody::Reply { .. } => answered += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(answered > 0 && failed > QUERIES / 2, "{answered} {failed}");
    // A consumer that reads each reply may ask again and again.
    let mut consumer = daemon.consumer();
    for _ in 0..5 {
        assert_eq!(consumer.state().data_sources.len(), 40);
    }
}

/// Fills a ring with packets of about 4 KiB. Returns their number.
fn fill(producer: &mut Producer, instance: &Instance, bytes: usize) -> u64 {
    let text = "t".repeat(4000);
    let count = (bytes / 4096) as u64;
    let pages = producer.memory.as_ref().unwrap().geometry().page_count();
    let mut numbers = 0..count;
    loop {
        // The daemon has freed the chunks of the round before.
        let places = (0..pages)
            .zip(&mut numbers)
            .map(|(page, number)| producer.completed_chunk(page, &packet_with(number, &text)));
        let places = Vec::from_iter(places);
        if places.is_empty() {
            return count;
        }
        producer.call(Method::CommitData, &moved(&places, instance.target));
    }
}

/// Records about `bytes` bytes into a ring of 32 MiB. Returns the producer, the consumer and the
/// number of packets.
fn large_trace(daemon: &TestDaemon, bytes: usize) -> (Producer, Consumer, u64) {
    let introduction = Introduction {
        producer_name: "p".to_owned(),
        memory_size_bytes: 4 << 20,
        ..Introduction::default()
    };
    let mut producer = Producer::introduced(daemon.producer_peer(), &introduction);
    producer.ask_for_commands();
    producer.register("ds");
    let mut consumer = daemon.consumer();
    consumer.enable("buffers { size_kb: 32768 } data_sources { config { name: 'ds' } }");
    let instance = producer.started();
    let count = fill(&mut producer, &instance, bytes);
    (producer, consumer, count)
}

#[test]
fn a_trace_that_is_read_slowly_stays_in_its_ring() {
    let daemon = TestDaemon::start();
    let (_producer, mut consumer, count) = large_trace(&daemon, 24 << 20);
    let reading = consumer.ask(&Request::ReadBuffers);
    // Gives the daemon many turns, in which it could read more of the trace.
    let mut other = daemon.consumer();
    for _ in 0..50 {
        other.state();
    }
    let stats = consumer.ask(&Request::GetTraceStats);
    other.state();
    let trace = consumer.read_replies(reading);
    assert_eq!(support::numbers(&trace), Vec::from_iter(0..count));
    let reply = consumer.peer.reply(stats).unwrap();
    let stats = TraceStatsDecoder::new(decode_trace_stats(&reply).unwrap());
    let buffer = stats.buffer_stats().next().unwrap().unwrap();
    let read = buffer.bytes_read().unwrap().unwrap_or_default();
    assert!(
        read > 0 && read <= CONSUMER_QUEUE_HIGH_BYTES + SLACK_BYTES,
        "{read}"
    );
}

#[test]
fn others_have_their_turns_while_a_trace_is_read() {
    let daemon = TestDaemon::start();
    let (mut producer, mut consumer, count) = large_trace(&daemon, 24 << 20);
    let reading = consumer.ask(&Request::ReadBuffers);
    let mut turns = 0;
    let trace = consumer.read_replies_and(reading, || {
        producer.sync();
        turns += 1;
    });
    assert_eq!(support::numbers(&trace), Vec::from_iter(0..count));
    // There is one turn for each reply but the last, and a reply is no longer than a frame.
    assert!(turns > trace.len() / FRAME_MAX_BYTES, "{turns}");
}

/// A guard that ends a flood when it is dropped, so also if the test fails.
struct EndOfFlood<'a>(&'a AtomicBool);

impl Drop for EndOfFlood<'_> {
    fn drop(&mut self) {
        // Relaxed: the flag only tells threads to stop, and orders no other memory.
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn others_are_served_during_a_flood_of_requests() {
    const FLOODERS: usize = 8;
    const FLUSHES: usize = 100;
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("honest");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    consumer.enable(&recording("ds"));
    let instance = producer.started();
    let is_over = AtomicBool::new(false);
    let rounds = [const { AtomicUsize::new(0) }; FLOODERS];
    std::thread::scope(|scope| {
        let _end = EndOfFlood(&is_over);
        for round in &rounds {
            let mut flooder = daemon.producer("flooder");
            let is_over = &is_over;
            scope.spawn(move || {
                let mut last = 100;
                // Relaxed: the flag only tells threads to stop, and orders no other memory.
                while !is_over.load(Ordering::Relaxed) {
                    let mut stream = Vec::new();
                    let requests = last + 1..=last + 2000;
                    for request_id in requests.clone() {
                        let body = invocation(Method::Sync.id(), &[]);
                        Frame { request_id, body }.append_to(&mut stream);
                    }
                    flooder.peer.send_bytes(&stream);
                    for request_id in requests {
                        assert_eq!(flooder.peer.reply(request_id), Some(vec![]));
                    }
                    last += 2000;
                    // Relaxed: the count only shows that the flood goes on, and orders no other
                    // memory.
                    round.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let wait_for_round_of_each = || {
            for round in &rounds {
                let before = round.load(Ordering::Relaxed);
                support::wait_until(|| round.load(Ordering::Relaxed) > before);
            }
        };
        // Waits for a round of each thread before the first flush and after the last answer. So the
        // flood lasts during all flushes.
        wait_for_round_of_each();
        for _ in 0..FLUSHES {
            let flush = consumer.ask_to_flush(0);
            producer.answer_flush();
            assert_eq!(consumer.peer.reply(flush), Some(vec![]));
        }
        wait_for_round_of_each();
    });
    producer.write(&instance, 1);
    producer.sync();
    assert_eq!(consumer.read_numbers(), [1]);
}
