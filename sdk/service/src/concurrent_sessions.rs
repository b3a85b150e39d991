//! Events that tell a session of the other sessions, if its configuration asks for them.

use super::context::{Context, Effect};
use super::control::Control;
use super::phase::Phase;
use super::tracing_session::{ConcurrentSessionEvent, TracingSession};
use tracezero_core::ids::SessionId;

/// The maximum number of events that wait to be read.
const QUEUED_MAX: usize = 4096;

impl Control {
    /// Tells the other sessions that a session changed its state.
    pub(super) fn tell_others(&mut self, event: &ConcurrentSessionEvent) {
        for (&id, session) in self.sessions.iter_mut() {
            if id != event.session {
                session.queue(event);
            }
        }
    }

    /// Returns the events that tell a new session of the existing sessions, one event for each.
    pub(super) fn describe_others(&self, new: SessionId) -> Vec<ConcurrentSessionEvent> {
        let timestamp_ns = self.environment.now_ns();
        self.sessions
            .iter()
            // Clones do not count: they do not record.
            .filter(|(id, session)| **id != new && !session.is_snapshot())
            .map(|(&id, session)| session.describe(id, timestamp_ns))
            .collect()
    }
}

impl TracingSession {
    /// Moves the session to its next phase, and notes the effect that tells the other sessions.
    pub(super) fn enter(&mut self, context: &mut Context<'_>, phase: Phase) {
        self.phase = phase;
        let event = self.describe(context.session, context.environment.now_ns());
        context.effects.push(Effect::StateChanged(event));
    }

    fn describe(&self, session: SessionId, timestamp_ns: u64) -> ConcurrentSessionEvent {
        let config = &self.recording.config;
        ConcurrentSessionEvent {
            timestamp_ns,
            session,
            session_name: config.unique_session_name.clone().unwrap_or_default(),
            state: self.state(),
            uid: self.uid,
            data_source_count: config.data_sources.len() as u32,
        }
    }

    /// Queues a state change of another session, if this session's trace is to contain it.
    pub(super) fn queue(&mut self, event: &ConcurrentSessionEvent) {
        let builtin = &self.recording.config.builtin_data_sources;
        if builtin.enable_concurrent_session_events
            && self.is_live()
            && self.concurrent_events.len() < QUEUED_MAX
        {
            self.concurrent_events.push_back(event.clone());
        }
    }
}
