//! Programs that activate triggers.

use tracezero::{System, activate_trigger, enabled, instant};

use super::{INSTANTS, say, wait_for_line};
use crate::machine::wait_until;

/// The name of the trigger.
pub const TRIGGER: &str = "com.example.now";

fn record(round: u64) {
    for index in 0..INSTANTS {
        instant!("test", "around a trigger", round, index);
    }
}

/// Records before and after the start of a session.
pub fn starts_a_session(_: &System) {
    wait_for_line();
    record(0);
    activate_trigger(TRIGGER);
    wait_until(|| enabled!("test"));
    record(1);
    say("done");
    wait_for_line();
}

/// Records before and after the end of a session.
pub fn stops_a_session(_: &System) {
    wait_until(|| enabled!("test"));
    record(0);
    activate_trigger(TRIGGER);
    wait_until(|| !enabled!("test"));
    record(1);
    say("done");
    wait_for_line();
}

/// Records before and after the first clone of a session.
pub fn clones_a_session(_: &System) {
    wait_until(|| enabled!("test"));
    for round in 0..2 {
        record(round);
        activate_trigger(TRIGGER);
        wait_for_line();
    }
    assert!(enabled!("test"), "the session goes on");
    say("done");
    wait_for_line();
}
