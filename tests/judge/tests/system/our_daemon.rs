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

fn tests() -> Command {
    Command::new(env::current_exe().unwrap())
}

/// Returns the number of tests that passed, from what the test program prints in the end.
fn passed(output: &str) -> usize {
    let counts = output.split_once("test result: ok. ").unwrap().1;
    counts.split_once(" passed;").unwrap().0.parse().unwrap()
}

#[test]
fn names_of_tests_that_are_left_out_exist() {
    let output = tests().arg("--list").output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    for name in LEFT_OUT {
        assert!(listed.contains(name), "no test has {name:?} in its name");
    }
}

#[test]
fn tests_pass_with_our_daemon() {
    if Daemon::of_this_run() == Daemon::Ours {
        return;
    }
    let mut tests = tests();
    // The child process runs one test at a time, because this process runs its own tests at the
    // same time.
    tests.env(DAEMON, "tracezero").arg("--test-threads=1");
    for name in LEFT_OUT {
        tests.args(["--skip", name]);
    }
    let output = tests.output().unwrap();
    let [said, errors] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(output.status.success(), "{said}{errors}");
    assert!(passed(&said) > 0, "{said}{errors}");
}
