//! Sessions of one process that start and end beside each other, the slots that they use, and
//! handles that threads share.

use support::alone;
use tracezero::reader::{ReadError, Record, TraceReader};
use tracezero::{
    AsyncSpan, BufferError, CaptureHandle, ConfigError, CounterTrack, Error, FlightError,
    FlightRecorder, FlightRecorderBuilder, FlightStats, Flow, InMemorySession, MemoryError,
    Refusal, Report, SavingSnapshot, ServiceState, Session, SessionControl, SessionError,
    SessionState, Snapshot, TraceConfig, TraceStats, TraceparentError, Track, TscError, Warning,
    instant,
};
use tracezero_track_event::{BeginSessions, TRACK_EVENT};

/// A number of sessions beyond the number of slots for running ones.
const SESSIONS: usize = 40;

/// Accepts a type whose values threads can send and share.
fn is_shared<T: Send + Sync>() {}

/// As [`is_shared`], for an error that is passed up as a `Box<dyn Error + Send + Sync>`.
fn is_error<T: std::error::Error + Send + Sync + 'static>() {}

/// This fails to compile, rather than to run.
#[test]
fn threads_can_share_handles_reports_and_errors() {
    is_shared::<Session>();
    is_shared::<InMemorySession>();
    is_shared::<SessionControl>();
    is_shared::<FlightRecorder>();
    is_shared::<FlightRecorderBuilder>();
    is_shared::<SavingSnapshot>();
    is_shared::<CaptureHandle>();
    is_shared::<(Track, CounterTrack, Flow, AsyncSpan)>();

    is_shared::<TraceConfig>();
    is_shared::<(Report, Warning, FlightStats)>();
    is_shared::<(Snapshot, ServiceState, TraceStats)>();
    is_shared::<(TraceReader<&[u8]>, Record<'_>)>();

    is_error::<Error>();
    is_error::<ConfigError>();
    is_error::<FlightError>();
    is_error::<SessionError>();
    is_error::<Refusal>();
    is_error::<BufferError>();
    is_error::<MemoryError>();
    is_error::<TraceparentError>();
    is_error::<TscError>();
    is_error::<ReadError>();
    is_error::<protozero::DecodeError>();
    is_error::<protozero::FramingError>();
    is_error::<protozero::OverflowError>();
}

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
