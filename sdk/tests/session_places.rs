//! Sessions of one process that start and end beside each other, and the slots that they use.

use support::alone;
use tracezero::{InMemorySession, SessionState, TraceConfig, instant};
use tracezero_track_event::{BeginSessions, TRACK_EVENT};

/// A number of sessions beyond the number of slots for running ones.
const SESSIONS: usize = 40;

#[test]
fn sessions_that_never_started_leave_their_places_to_others() {
    let _alone = alone();
    // A data source registers when its first trace point is reached.
    instant!("app", "before");
    for _ in 0..SESSIONS {
        drop(
            TraceConfig::default()
                .deferred_start()
                .record_in_memory()
                .expect("there is a place"),
        );
    }
    let session = InMemorySession::start().expect("there is a place");
    instant!("app", "recorded");
    assert_eq!(session.finish().1.events, 1);
}

#[test]
fn evicted_session_says_why_and_keeps_its_events() {
    let _alone = alone();
    let session = InMemorySession::start().expect("there is a place");
    instant!("app", "recorded");
    let exclusive = TraceConfig::default()
        .exclusive_prio(1)
        .record_in_memory()
        .expect("nobody is more important");
    assert_eq!(session.control().state(), SessionState::Ended);
    let reason = session.control().end_reason().expect("there is one");
    assert!(reason.contains("exclusive"), "{reason}");
    assert_eq!(session.finish().1.events, 1);
    assert_eq!(exclusive.control().end_reason(), None);
}

#[test]
fn session_in_reused_slot_sees_no_part_of_open_slices() {
    let _alone = alone();
    let first = InMemorySession::start().expect("there is a place");
    let slots = TRACK_EVENT.active_slots();
    let begun = BeginSessions::in_slots(slots).expect("a session records");
    drop(first);

    let second = InMemorySession::start().expect("there is a place");
    assert_eq!(TRACK_EVENT.active_slots(), slots);
    let (mut begins, mut ends) = (0, 0);
    begun.begin(|_| begins += 1);
    begun.each(begun.active_slots(), |_| ends += 1);
    assert_eq!((begins, ends), (0, 0));

    let begun = BeginSessions::in_slots(slots).expect("a session records");
    begun.begin(|_| begins += 1);
    begun.each(begun.active_slots(), |_| ends += 1);
    assert_eq!((begins, ends), (1, 1));
    drop(second);
}
