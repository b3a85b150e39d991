//! The tests again, with our daemon.

use std::env;
use std::process::Command;

use crate::machine::{DAEMON, Daemon};

/// Tests of the program alone, and tests that repeat others with other sizes. They take half of the
/// time.
const LEFT_OUT: [&str; 8] = [
    "allocations::",
    "a_forked_child_records_nothing",
    "a_stopped_daemon_delays",
    "a_ring_that_has_lapped_can_be_read",
    "a_lapped_ring_with_a_clear_period",
    "pages_of_8_kib",
    "pages_of_16_kib",
    "pages_of_32_kib",
];

#[test]
fn tests_pass_with_our_daemon() {
    if Daemon::of_this_run() == Daemon::Ours {
        return;
    }
    let mut tests = Command::new(env::current_exe().unwrap());
    // One at a time: the others run meanwhile.
    tests.env(DAEMON, "tracezero").arg("--test-threads=1");
    for name in LEFT_OUT {
        tests.args(["--skip", name]);
    }
    let output = tests.output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
