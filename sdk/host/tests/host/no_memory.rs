//! Producers that get no shared memory.

use support::not_started;

use crate::consumer::recording;
use crate::daemon::TestDaemon;

#[test]
fn a_refusal_of_the_system_ends_no_session_and_is_told() {
    let daemon = TestDaemon::without_memory();
    let mut producer = daemon.producer("p");
    producer.register_slow_to_stop("ds");
    for _ in 0..3 {
        let mut consumer = daemon.consumer();
        let enabled = consumer.enable(&recording("ds"));
        let flush = consumer.ask_to_flush(10_000);
        assert_eq!(consumer.peer.reply(flush), Some(vec![]));
        consumer.disable();
        assert_eq!(consumer.ended(enabled), None);
        let trace = consumer.read();
        assert_eq!(not_started(&trace), [("p".to_owned(), "ds".to_owned())]);
    }
    producer.sync();
    assert!(!producer.has_command());
    assert_eq!(daemon.log_lines("gets no shared memory").len(), 1);
}
