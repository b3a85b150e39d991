//! What sessions are told of each other, if their configurations ask for it.

use super::context::{Context, Effect};
use super::control::Control;
use super::phase::Phase;
use super::tracing_session::{ConcurrentSessionEvent, TracingSession};
use tracezero_core::ids::SessionId;

/// Changes that wait to be read, at most.
const QUEUED_MAX: usize = 4096;

impl Control {
    /// Tells the others that a session changed its state.
    pub(super) fn tell_others(&mut self, event: &ConcurrentSessionEvent) {
        for (&id, session) in self.sessions.iter_mut() {
            if id != event.session {
                session.queue(event);
            }
        }
    }

    /// Describes to a new session those that are there.
    pub(super) fn describe_others(&self, new: SessionId) -> Vec<ConcurrentSessionEvent> {
        let timestamp_ns = self.environment.now_ns();
        self.sessions
            .iter()
            // A snapshot is no session to those that record.
            .filter(|(id, session)| **id != new && !session.is_snapshot())
            .map(|(&id, session)| session.describe(id, timestamp_ns))
            .collect()
    }
}

impl TracingSession {
    /// Takes the session on in its life; the others are told.
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

    /// Keeps what another session did, if the trace is to tell it.
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
