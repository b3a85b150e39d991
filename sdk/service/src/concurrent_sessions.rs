//! What sessions are told of each other, if their configurations ask for it.

use super::control::Control;
use super::tracing_session::{ConcurrentSessionEvent, State, TracingSession};
use tracezero_core::ids::SessionId;

/// Changes that wait to be read, at most.
const QUEUED_MAX: usize = 4096;

impl Control {
    /// Takes a session on in its life, and tells the others.
    pub(super) fn enter_state(&mut self, changed: SessionId, state: State) {
        if let Some(session) = self.sessions.get_mut(&changed) {
            session.state = state;
        }
        let timestamp_ns = self.environment.now_ns();
        let Some(event) = self.describe(changed, timestamp_ns) else {
            return;
        };
        for (&id, session) in &mut self.sessions {
            if id != changed {
                queue(session, &event);
            }
        }
    }

    /// Tells a new session of those that are there.
    pub(super) fn tell_of_others(&mut self, new: SessionId) {
        let timestamp_ns = self.environment.now_ns();
        let others: Vec<ConcurrentSessionEvent> = self
            .sessions
            .keys()
            .filter(|id| **id != new)
            .filter_map(|&id| self.describe(id, timestamp_ns))
            .collect();
        if let Some(session) = self.sessions.get_mut(&new) {
            for event in &others {
                queue(session, event);
            }
        }
    }

    fn describe(&self, id: SessionId, timestamp_ns: u64) -> Option<ConcurrentSessionEvent> {
        let session = self.sessions.get(&id)?;
        let config = &session.recording.config;
        // A snapshot is no session to those that record.
        (session.state != State::ClonedReadOnly).then(|| ConcurrentSessionEvent {
            timestamp_ns,
            session: id,
            session_name: config.unique_session_name.clone().unwrap_or_default(),
            state: session.state,
            uid: session.uid,
            data_source_count: config.data_sources.len() as u32,
        })
    }
}

fn queue(session: &mut TracingSession, event: &ConcurrentSessionEvent) {
    let wants = session
        .recording
        .config
        .builtin_data_sources
        .enable_concurrent_session_events;
    if wants && session.is_live() && session.concurrent_events.len() < QUEUED_MAX {
        session.concurrent_events.push_back(event.clone());
    }
}
