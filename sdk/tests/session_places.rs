//! Sessions of one process that come and go beside each other.

use support::alone;
use tracezero::{InMemorySession, SessionState, TraceConfig, instant};
use tracezero_track_event::{Begun, TRACK_EVENT};

/// More than there are places for running sessions.
const SESSIONS: usize = 40;

#[test]
fn sessions_that_never_started_leave_their_places_to_others() {
    let _alone = alone();
    // Data sources make themselves known when they are reached.
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
fn a_session_that_had_to_make_way_says_why_and_keeps_what_it_recorded() {
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
fn a_session_in_the_place_of_another_sees_neither_begin_nor_end_of_slices_on_their_way() {
    let _alone = alone();
    let first = InMemorySession::start().expect("there is a place");
    let slots = TRACK_EVENT.active_slots();
    let begun = Begun::in_slots(slots).expect("a session records");
    drop(first);

    let second = InMemorySession::start().expect("there is a place");
    assert_eq!(TRACK_EVENT.active_slots(), slots);
    let (mut begins, mut ends) = (0, 0);
    begun.begin(|_| begins += 1);
    begun.each(begun.active_slots(), |_| ends += 1);
    assert_eq!((begins, ends), (0, 0));

    let begun = Begun::in_slots(slots).expect("a session records");
    begun.begin(|_| begins += 1);
    begun.each(begun.active_slots(), |_| ends += 1);
    assert_eq!((begins, ends), (1, 1));
    drop(second);
}
