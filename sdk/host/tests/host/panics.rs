//! Requests that make the daemon panic.

use crate::consumer::recording;
use crate::daemon::TestDaemon;

#[test]
fn a_panic_ends_its_connection_alone() {
    // The test makes the log panic, because it is the only code of a test that a handler calls.
    let daemon = TestDaemon::with_log(|line| {
        assert!(!line.contains("was refused"), "a panic that the test wants");
    });
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut other = daemon.consumer();
    let enabled = other.enable(&recording("ds"));
    let instance = producer.started();

    let mut consumer = daemon.consumer();
    consumer.enable("buffers { size_kb: 64 } write_into_file: true");
    consumer.peer.wait_for_end();
    daemon.wait_for_log("its request has made this program panic");
    assert_eq!(daemon.log_lines("panic").len(), 1);

    producer.write(&instance, 1);
    producer.sync();
    other.disable();
    assert_eq!(other.ended(enabled), None);
    assert_eq!(other.read_numbers(), [1]);
    assert_eq!(daemon.state().num_sessions, 1);
}
