//! All tests again, with our daemon.

use std::env;
use std::process::Command;

use crate::machine::{DAEMON, Daemon};

#[test]
fn all_tests_pass_with_our_daemon() {
    if Daemon::of_this_run() == Daemon::Ours {
        return;
    }
    let mut tests = Command::new(env::current_exe().unwrap());
    // One at a time: the others run meanwhile.
    tests.env(DAEMON, "tracezero").arg("--test-threads=1");
    let output = tests.output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
