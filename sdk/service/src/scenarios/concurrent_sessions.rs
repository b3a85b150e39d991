//! Tests of what traces tell about other sessions.

use tracezero::{BufferConfig, BuiltinDataSources, DataSourceConfig, TraceConfig};
use tracezero_core::protos::concurrent_session_event::State;
use tracezero_core::protos::trace_packet::Data;

use super::harness::{TestSession, World};

fn config(name: &str) -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128))
        .add_data_source(DataSourceConfig::new("ds"))
        .unique_session_name(name)
}

fn watching(name: &str) -> TraceConfig {
    let builtin = BuiltinDataSources::new().with_concurrent_session_events();
    config(name).builtin_data_sources(builtin)
}

/// Reads the session, and returns the events about other sessions: state, name and user of each.
fn others(session: &TestSession) -> Vec<(State, String, i32)> {
    let trace = session.read();
    let event = |data| match data {
        Data::ConcurrentSessionEvent(event) => {
            assert_eq!(event.num_data_sources().unwrap(), Some(1));
            Some((
                event.state().unwrap().unwrap(),
                event.session_name().unwrap().unwrap().to_owned(),
                event.consumer_uid().unwrap().unwrap(),
            ))
        }
        _ => None,
    };
    trace.data().into_iter().filter_map(event).collect()
}

#[test]
fn trace_reports_other_sessions_and_their_states() {
    let world = World::new();
    let event = |state, name: &str, uid| (state, name.to_owned(), uid);
    let a = world.try_session(watching("a"), 1).unwrap();
    let b = world.try_session(watching("b"), 2).unwrap();
    assert_eq!(others(&b), [event(State::STARTED, "a", 1)]);
    b.disable();
    let c = world.try_session(watching("c"), 3).unwrap();
    assert_eq!(
        others(&c),
        [
            event(State::STARTED, "a", 1),
            event(State::DISABLED, "b", 2)
        ]
    );
    c.disable();
    let life = |name, uid| {
        [State::CONFIGURED, State::STARTED, State::DISABLED].map(|state| event(state, name, uid))
    };
    assert_eq!(others(&a), [life("b", 2), life("c", 3)].concat());
    assert_eq!(others(&a), []);
}

#[test]
fn a_session_keeps_4096_events_of_others_until_it_is_read() {
    const QUEUED_MAX: usize = 4096;
    let world = World::new();
    let session = world.session(watching("a"));
    // Each of these sessions causes three events, so there are more events than `session` keeps.
    (0..QUEUED_MAX / 2).for_each(|_| world.session(config("b")).disable());
    assert_eq!(others(&session).len(), QUEUED_MAX);
    world.session(config("b")).disable();
    assert_eq!(others(&session).len(), 3);
}

#[test]
fn other_sessions_are_reported_only_on_request() {
    let world = World::new();
    let a = world.session(config("a"));
    let b = world.session(config("b"));
    b.disable();
    assert_eq!(others(&a), []);
}
