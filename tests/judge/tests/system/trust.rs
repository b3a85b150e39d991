//! Daemons of other users.

use crate::machine::{Machine, judged};
use crate::programs::{STRANGER, UNTRUSTING};
use crate::recordings::EVERYTHING;

#[test]
fn a_squatted_socket_is_refused_until_its_user_is_trusted() {
    let Some(machine) = Machine::of_user(STRANGER) else {
        return;
    };
    // The session begins first, and would see all that the program records.
    let recording = machine.record("stranger.pftrace", EVERYTHING);
    let mut program = machine.program(UNTRUSTING);
    let reason = format!("belongs to user {STRANGER}");
    while !program.line(&reason).contains(&reason) {}
    program.wait_for("done");
    let verdict = judged(&recording.finish());
    assert_eq!(verdict.events_named("tick").count(), 100);
    let uids: Vec<_> = verdict
        .events_named("tick")
        .map(|event| verdict.packets[event.packet].trusted_uid())
        .collect();
    // The daemon knows whom the events are from.
    assert!(uids.iter().all(|uid| *uid == 0), "{uids:?}");
    program.go_on();
    program.wait();
}
