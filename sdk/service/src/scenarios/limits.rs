//! Tests of conflicts between sessions, and of the limits on their number.

use std::time::Duration;

use super::harness::StartError;
use crate::{CloneSource, Limits, Refusal, SessionError, State};
use tracezero::android::{AndroidConfig, LockdownMode};
use tracezero::{BufferConfig, DataSourceConfig, SessionSemaphore, TraceConfig};

use super::harness::{OwnerCall, SERVICE_UID, TestSession, World, calls};

fn config() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128))
        .add_data_source(DataSourceConfig::new("ds"))
}

fn guarded(config: TraceConfig) -> TraceConfig {
    config.android(AndroidConfig::new().enable_extra_guardrails())
}

fn named(name: &str) -> TraceConfig {
    config().unique_session_name(name)
}

fn refusal(outcome: Result<TestSession, StartError>) -> Refusal {
    match outcome {
        Err(StartError::Session(SessionError::Refused(refusal))) => refusal,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[test]
fn a_name_belongs_to_one_session_until_that_is_freed() {
    let world = World::new();
    let name = || "foo".to_owned();
    let first = world.session(named("foo"));
    let _bystander = world.session(named("bar"));
    let second = || world.try_session(named("foo"), 0);
    assert_eq!(refusal(second()), Refusal::NameInUse { name: name() });
    first.disable();
    assert_eq!(refusal(second()), Refusal::NameInUse { name: name() });
    drop(first);
    assert!(second().is_ok());
    let _nameless = [world.session(named("")), world.session(named(""))];
}

#[test]
fn guarded_sessions_of_one_name_begin_five_minutes_apart() {
    let world = World::new();
    let name = || "foo".to_owned();
    let begin = || world.try_session(guarded(named("foo")), 0);
    drop(begin().unwrap());
    assert_eq!(
        refusal(begin()),
        Refusal::StartedTooRecently { name: name() }
    );
    world.advance_ms(299_999);
    drop(world.try_session(guarded(named("other")), 0).unwrap());
    assert_eq!(
        refusal(begin()),
        Refusal::StartedTooRecently { name: name() }
    );
    world.advance_ms(1);
    assert!(begin().is_ok());
    let nameless = || world.try_session(guarded(config()), 0);
    assert!(nameless().is_ok() && nameless().is_ok());
}

#[test]
fn a_session_lasts_a_week_at_most_or_a_day_with_guardrails() {
    const DAY_MS: u32 = 24 * 60 * 60 * 1000;
    let world = World::new();
    let lasting = |ms: u32| config().duration(Duration::from_millis(ms.into()));
    assert!(world.try_session(lasting(7 * DAY_MS), 0).is_ok());
    assert!(matches!(
        world.try_session(lasting(7 * DAY_MS + 1), 0),
        Err(StartError::Config(_))
    ));
    let lasting_guarded = |ms| guarded(lasting(ms));
    assert!(world.try_session(lasting_guarded(DAY_MS), 0).is_ok());
    assert!(matches!(
        world.try_session(lasting_guarded(DAY_MS + 1), 0),
        Err(StartError::Config(_))
    ));
}

#[test]
fn buffer_too_large_for_its_offsets_is_refused_by_index() {
    let world = World::new();
    let config = config().add_buffer(BufferConfig::ring(4 * 1024 * 1024));
    let message = world.try_session(config, 0).err().unwrap().to_string();
    assert!(message.contains("buffers[1].size_kb"), "{message}");
    assert_eq!(world.service.service_state(0).session_count, 0);
}

#[test]
fn sessions_are_limited_per_user_and_in_total() {
    let world = World::new();
    let begin = |uid| world.try_session(config(), uid);
    let limit_of = |outcome: Result<TestSession, StartError>| match outcome {
        Err(StartError::Session(SessionError::TooManySessions { limit })) => Some(limit),
        _ => None,
    };
    let Limits {
        sessions,
        sessions_per_uid,
        ..
    } = Limits::default();
    let mut begun = Vec::new();
    for uid in [10, 11] {
        begun.extend((0..sessions_per_uid).map(|_| begin(uid).unwrap()));
    }
    for uid in [10, 11] {
        assert_eq!(limit_of(begin(uid)), Some(sessions_per_uid));
    }
    begun.extend((0..sessions_per_uid).map(|_| begin(12).unwrap()));
    assert_eq!(begun.len(), sessions);
    assert_eq!(limit_of(begin(13)), Some(sessions));
    begun[0].disable();
    assert_eq!(
        limit_of(begin(10)),
        Some(sessions_per_uid),
        "it is still there"
    );
    begun.remove(0);
    assert!(begin(10).is_ok());
}

#[test]
fn buffers_are_limited_over_all_sessions_and_clones() {
    let world = World::with_limits(Limits {
        buffers_bytes: 256 * 1024,
        ..Limits::default()
    });
    let one = world.session(config());
    let clone = || world.begin_clone(CloneSource::Id(one.id), 0).finish();
    let is_too_large = |outcome: Result<TestSession, StartError>| {
        let Err(StartError::Session(error)) = outcome else {
            return false;
        };
        error.to_string()
            == "buffers of 128 KiB are too large: all sessions may have 256 KiB, and others have 256 \
                KiB; use smaller buffers, or finish a session first"
    };
    let other = world.session(config());
    assert!(is_too_large(world.try_session(config(), 0)));
    assert!(is_too_large(clone()));
    drop(other);
    let of_one = clone().unwrap();
    assert!(is_too_large(clone()));
    drop(of_one);
}

#[test]
fn lockdown_keeps_out_producers_of_other_users() {
    let world = World::new();
    let stranger = world.producer_of("stranger", SERVICE_UID + 1);
    stranger.register("ds");
    let lockdown = |mode| world.session(config().android(AndroidConfig::new().lockdown_mode(mode)));

    let session = lockdown(LockdownMode::Set);
    assert_eq!(stranger.calls(), [], "one that is there takes no part");
    assert!(world.try_producer_of("late", SERVICE_UID + 1).is_none());
    let own = world.try_producer_of("own", SERVICE_UID).unwrap();
    own.register("ds");
    assert_eq!(own.calls(), calls(&["set_up ds", "start ds"]));
    drop(session);
    let unchanged = world.session(config());
    assert_eq!(stranger.calls(), [], "it holds beyond the session");
    drop(unchanged);

    let _session = lockdown(LockdownMode::Clear);
    assert_eq!(stranger.calls(), calls(&["set_up ds", "start ds"]));
    assert!(world.try_producer_of("late", SERVICE_UID + 1).is_some());
}

#[test]
fn strictest_holder_sets_the_limit_of_a_semaphore() {
    let world = World::new();
    let begin = |semaphore: &str, others| {
        let semaphore = SessionSemaphore::new(semaphore, others);
        world.try_session(config().add_session_semaphore(semaphore), 0)
    };
    let held = |holders, limit| Refusal::SemaphoreHeld {
        name: "s".to_owned(),
        holders,
        limit,
    };
    let strict = begin("s", 0).unwrap();
    assert_eq!(refusal(begin("s", 0)), held(1, 0));
    assert_eq!(
        refusal(begin("s", 3)),
        held(1, 0),
        "the other one is stricter"
    );
    assert!(begin("t", 0).is_ok(), "another semaphore");
    strict.disable();
    let lax = begin("s", 3).unwrap();
    assert_eq!(
        refusal(begin("s", 0)),
        held(1, 0),
        "the new one is stricter"
    );
    let others: Vec<TestSession> = (0..3).map(|_| begin("s", 3).unwrap()).collect();
    assert_eq!(refusal(begin("s", 3)), held(4, 3));
    drop((lax, others));
    assert!(begin("s", 0).is_ok());
}

#[test]
fn exclusive_session_ends_others_and_blocks_new_ones() {
    let world = World::new();
    let exclusive = |priority| world.try_session(config().exclusive_prio(priority), 0);
    let blocked = |requested| Refusal::ExclusiveSession {
        active: 3,
        requested,
    };
    let shared = [world.session(config()), world.session(named("foo"))];
    let first = exclusive(3).unwrap();
    for session in &shared {
        assert_eq!(session.state(), Some(State::Disabled));
        let reason = session
            .owner_calls()
            .into_iter()
            .find_map(|told| match told {
                OwnerCall::Disabled(reason) => reason,
                _ => None,
            });
        assert!(reason.unwrap().contains("priority (3)"));
    }
    for requested in [0, 2, 3] {
        assert_eq!(refusal(exclusive(requested)), blocked(requested));
    }
    assert_eq!(first.state(), Some(State::Started));
    let second = exclusive(4).unwrap();
    assert_eq!(first.state(), Some(State::Disabled));
    second.disable();
    assert!(exclusive(0).is_ok(), "only those that run count");
}

#[test]
fn an_exclusive_session_that_is_refused_ends_nobody() {
    let world = World::new();
    let foo = world.session(named("foo"));
    let second = world.try_session(named("foo").exclusive_prio(1), 0);
    assert!(matches!(refusal(second), Refusal::NameInUse { .. }));
    assert_eq!(foo.state(), Some(State::Started));
}
