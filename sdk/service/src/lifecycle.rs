//! A session's way from its configuration to its end.

use std::fmt;
use std::sync::Arc;

use super::central_buffer::{CentralBuffer, Reader};
use super::control::Control;
use super::error::SessionError;
use super::instance::InstanceState;
use super::lifecycle_events::Event;
use super::pending_flush::{FlushOutcome, FlushThen};
use super::recording::Recording;
use super::timers::Timer;
use super::trace_buffer::{BufferError, FillPolicy, TraceBuffer};
use super::trace_reader::TraceReader;
use super::tracing_session::{SessionOwner, State, TracingSession};
use tracezero_config::TriggerMode;
use tracezero_core::coordination::{FlushFlags, FlushReason};
use tracezero_core::ids::{BufferId, SessionId};

/// Data sources that have not started after so long are named in the trace.
const SLOW_START_MS: u64 = 20_000;

/// What a session needs besides its configuration.
pub struct SessionRequest {
    /// The configuration of the session.
    pub recording: Arc<Recording>,
    /// User id of who asks.
    pub uid: u32,
    /// The owner of the session.
    pub owner: Arc<dyn SessionOwner>,
    /// Whether the trace is streamed into a file; [`Service::attach_output`] gives it.
    ///
    /// [`Service::attach_output`]: super::Service::attach_output
    pub writes_into_file: bool,
    /// Wakes whoever drains the buffers while the session goes on.
    pub wake: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for SessionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRequest")
            .field("recording", &self.recording)
            .finish_non_exhaustive()
    }
}

impl Control {
    /// Takes in a session: allocates its buffers, sets up its data sources, and starts it unless it
    /// is to start later.
    pub(super) fn enable(&mut self, request: &SessionRequest) -> Result<SessionId, SessionError> {
        let recording = Arc::clone(&request.recording);
        let config = &recording.config;
        self.set_lockdown(config.lockdown_mode);
        self.check_other_sessions(&recording, request.uid)?;
        let buffers = self.open_buffers(request)?;
        self.last_session.0 += 1;
        let id = self.last_session;
        self.note_name(&recording);
        let uuid = match config.trace_uuid {
            (0, 0) => random_uuid(|| self.environment.random_bits()),
            given => given,
        };
        let reader = TraceReader::new(buffers.clone(), config);
        let mut session = TracingSession::new(
            request.uid,
            Arc::clone(&recording),
            Arc::clone(&request.owner),
            buffers,
            uuid,
            reader,
        );
        session.writes_into_file = request.writes_into_file;
        self.sessions.insert(id, session);
        self.abort_for_priority(id, config.exclusive_prio);
        self.enter_state(id, State::Configured);
        self.tell_of_others(id);
        self.set_up_all(id);
        match &config.triggers {
            Some(triggers) if triggers.effective_mode() == TriggerMode::Start => {
                let timeout_ms = u64::from(triggers.trigger_timeout_ms);
                self.set_timer(id, timeout_ms, Timer::StartTriggerTimeout);
            }
            _ if config.deferred_start => {}
            _ => self.start(id),
        }
        Ok(id)
    }

    fn open_buffers(
        &mut self,
        request: &SessionRequest,
    ) -> Result<Vec<Arc<CentralBuffer>>, SessionError> {
        // All are allocated before any gets an id, so an error leaves nothing behind.
        let mut allocated = Vec::new();
        for (index, config) in request.recording.config.buffers.iter().enumerate() {
            let buffer = match (config.fill_policy, config.limit_kb) {
                (FillPolicy::Ring, Some(limit_kb)) if request.wake.is_some() => {
                    TraceBuffer::growing(u64::from(limit_kb) * 1024)
                }
                (fill_policy, _) => TraceBuffer::new(u64::from(config.size_kb) * 1024, fill_policy),
            };
            let buffer =
                buffer.map_err(|source: BufferError| SessionError::Buffer { index, source })?;
            allocated.push((buffer, config.fill_policy));
        }
        let mut opened: Vec<Arc<CentralBuffer>> = Vec::new();
        for (buffer, fill_policy) in allocated {
            let reader = match (fill_policy, &request.wake) {
                (FillPolicy::Ring, Some(wake)) => {
                    let wake = Arc::clone(wake);
                    Reader::Drains(Box::new(move || wake()))
                }
                (FillPolicy::Ring, None) => Reader::ReadsWhatIsLeft,
                // A buffer that is full for good has nothing to gain from being drained early.
                (FillPolicy::Discard, _) => Reader::ReadsAll,
            };
            let id = self
                .next_buffer_id(&opened)
                .ok_or(SessionError::TooManyBuffers)?;
            opened.push(Arc::new(CentralBuffer::new(id, buffer, reader)));
        }
        Ok(opened)
    }

    /// An id that no buffer has.
    ///
    /// Ids are not used again soon: a thread that still holds a chunk for a buffer that is gone
    /// commits it later, and it must not end up in somebody else's trace.
    pub(super) fn next_buffer_id(&mut self, opened: &[Arc<CentralBuffer>]) -> Option<BufferId> {
        for _ in 0..u16::MAX {
            self.last_buffer = self.last_buffer.checked_add(1).unwrap_or(1);
            let id = BufferId(self.last_buffer);
            let mut in_use = self
                .sessions
                .values()
                .flat_map(|session| &session.buffers)
                .chain(opened);
            if !in_use.any(|buffer| buffer.id == id) {
                return Some(id);
            }
        }
        None
    }

    /// Starts a session that is set up; does nothing to others.
    pub(super) fn start(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session.state != State::Configured {
            return;
        }
        session.note_event(&*self.environment, Event::TracingStarted);
        let recording = Arc::clone(&session.recording);
        let config = &recording.config;
        let writes_into_file = session.writes_into_file;
        let flush_period_ms = session.flush_period_ms();
        self.timers
            .cancel(id, |timer| *timer == Timer::StartTriggerTimeout);
        if let Some(duration_ms) = recording.duration_ms() {
            self.set_timer(id, duration_ms, Timer::Duration);
        }
        if writes_into_file {
            let period_ms = config.file_write_period_ms;
            self.set_aligned_timer(id, period_ms, Timer::WriteIntoFile);
        }
        if let Some(period_ms) = flush_period_ms {
            self.set_aligned_timer(id, period_ms, Timer::PeriodicFlush);
        }
        if config.incremental_state_clear_period_ms > 0 {
            let period_ms = config.incremental_state_clear_period_ms;
            self.set_aligned_timer(id, period_ms, Timer::ClearIncrementalState);
        }
        // The first look at the clocks comes with the start.
        let interval_ms = config.builtin_data_sources.snapshot_interval_ms;
        self.set_aligned_timer(id, interval_ms, Timer::SnapshotClocks);
        self.mark_stream(id);
        self.set_timer(id, SLOW_START_MS, Timer::SlowStart);
        self.enter_state(id, State::Started);
        self.start_instances(id);
    }

    /// Starts a session that was not started when it was set up. Its first packets are due in the file.
    pub(super) fn start_deferred(&mut self, id: SessionId) {
        self.start(id);
        if self.sessions.get(&id).is_some_and(|it| it.writes_into_file) {
            self.ask_to_write(id);
        }
    }

    /// Has data sources flush, if they have started, then ends the session.
    pub(super) fn flush_and_disable(&mut self, id: SessionId) {
        let session = self.sessions.get(&id);
        if !session.is_some_and(|session| session.state == State::Started) {
            return self.disable(id);
        }
        let flags = FlushFlags::by_service(FlushReason::TraceStop);
        self.flush(id, 0, flags, None, FlushThen::Disable);
    }

    /// Flushes a session, if it has started, then ends it, because the process ends: data sources that do
    /// not answer are not waited for as long as usual. Once is enough.
    pub(super) fn end_with_process(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut session.ends_with_process, true) {
            return;
        }
        if session.state == State::Stopping {
            return self.set_stop_timer(id);
        }
        self.flush_and_disable(id);
    }

    /// Ends a session: at once if it never started, else when its data sources are done.
    pub(super) fn disable(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        match session.state {
            State::Configured => self.disable_now(id),
            State::Started => {
                self.stop_instances(id, false);
                if self.all_stopped(id) {
                    return self.disable_now(id);
                }
                self.enter_state(id, State::Stopping);
                // What began before goes on: flushes, and writing what is in the buffers.
                self.timers.cancel(id, |timer| {
                    !matches!(timer, Timer::FlushTimeout(_) | Timer::WriteIntoFile)
                });
                self.set_stop_timer(id);
            }
            State::Stopping | State::Disabled | State::ClonedReadOnly => {}
        }
    }

    /// Ends a session that is stopping when its data sources have had their time.
    fn set_stop_timer(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let config = &session.recording.config;
        let timeout_ms = session.answer_timeout_ms(config.data_source_stop_timeout_ms);
        self.set_timer(id, u64::from(timeout_ms), Timer::StopTimeout);
    }

    /// Goes on with the end of a session when its last data source is done.
    pub(super) fn check_all_stopped(&mut self, id: SessionId) {
        let session = self.sessions.get(&id);
        let is_stopping = session.is_some_and(|session| session.state == State::Stopping);
        if is_stopping && self.all_stopped(id) {
            self.disable_now(id);
        }
    }

    fn all_stopped(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_none_or(|session| {
            let mut instances = session.instances.iter();
            instances.all(|instance| instance.state == InstanceState::Stopped)
        })
    }

    /// Ends a session, whatever its data sources say.
    pub(super) fn disable_now(&mut self, id: SessionId) {
        if !self.sessions.get(&id).is_some_and(TracingSession::is_live) {
            return;
        }
        self.stop_instances(id, true);
        self.timers.cancel(id, |_| true);
        self.scrape(id);
        self.enter_state(id, State::Disabled);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.note_event(&*self.environment, Event::TracingDisabled);
        session.stats_are_due = true;
        let reason = session.end_reason.clone();
        let owner = Arc::clone(&session.owner);
        let flushes = std::mem::take(&mut session.flushes);
        for (_, flush) in flushes {
            self.finish_flush_of_ended(id, flush);
        }
        self.calls.note(move || owner.disabled(reason.as_deref()));
    }

    /// Nothing more is written into a session's file: the session ends. `reason` is told to its
    /// owner.
    pub(super) fn file_is_closed(&mut self, id: SessionId, reason: Option<String>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.file_is_closed = true;
            session.end_reason = session.end_reason.take().or(reason);
        }
        self.fail_clones_that_wait_for_file(id);
        self.disable(id);
    }

    /// Ends a session, if it has not ended, and forgets it with its buffers. What is returned is to
    /// be dropped without the lock: its owner may hold whatever an application likes.
    #[must_use]
    pub(super) fn free(&mut self, id: SessionId) -> Option<TracingSession> {
        self.fail_clones_of(id);
        self.disable_now(id);
        let session = self.sessions.remove(&id)?;
        for producer in self.producers.values() {
            producer.link.revoke(&session.buffers);
        }
        for buffer in &session.buffers {
            buffer.reader_is_gone();
        }
        Some(session)
    }

    /// Copies what is finished in the chunks of the producers that take part in a session.
    pub(super) fn scrape(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        for (producer_id, producer) in &self.producers {
            let takes_part = session
                .instances
                .iter()
                .any(|instance| instance.producer == *producer_id);
            if takes_part {
                producer.link.scrape(&session.buffers);
            }
        }
    }

    /// Scrapes for a pass over the buffers of a session, if the period is over or `is_wanted`.
    pub(super) fn scrape_for_file(&mut self, id: SessionId, is_wanted: bool) {
        if let Some(session) = self.sessions.get_mut(&id)
            && (std::mem::take(&mut session.scrape_is_due) || is_wanted)
        {
            self.scrape(id);
        }
    }

    /// What is in the buffers is due in the file.
    pub(super) fn write_periodically(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let period_ms = session.recording.config.file_write_period_ms;
        let flushes_before = session.flushes_before_writing();
        session.scrape_is_due = session.scrapes_before_writing();
        let is_started = session.state == State::Started;
        self.set_aligned_timer(id, period_ms, Timer::WriteIntoFile);
        if flushes_before && is_started {
            let flags = FlushFlags::by_service(FlushReason::Periodic);
            self.flush(id, 0, flags, None, FlushThen::WriteIntoFile);
        } else {
            self.ask_to_write(id);
        }
    }

    pub(super) fn ask_to_write(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get(&id) {
            let owner = Arc::clone(&session.owner);
            self.calls.note(move || owner.write_into_file());
        }
    }

    pub(super) fn snapshot_clocks_periodically(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.snapshot_clocks(&*self.environment);
        let interval_ms = session
            .recording
            .config
            .builtin_data_sources
            .snapshot_interval_ms;
        self.mark_stream(id);
        self.set_aligned_timer(id, interval_ms, Timer::SnapshotClocks);
    }

    /// The next read begins with a mark that a stream can be picked up at, and tells statistics.
    fn mark_stream(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.sync_marker_is_due = true;
            session.stats_are_due = true;
        }
    }

    /// The outcome of the flush that came before the end.
    pub(super) fn note_final_flush(&mut self, id: SessionId, outcome: FlushOutcome) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.final_flush = Some(outcome);
        }
    }

    /// What a session records of data sources whose configuration changed: filters only.
    pub(super) fn change_config(&mut self, id: SessionId, changed: &Recording) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if !matches!(session.state, State::Configured | State::Started) {
            return;
        }
        session.recording = Arc::new(session.recording.with_filters_of(changed));
        self.set_up_all(id);
    }
}

/// A random UUID, version 4, as its two halves.
pub(super) fn random_uuid(random_bits: impl Fn() -> u64) -> (i64, i64) {
    let msb = random_bits() & !0xf000 | 0x4000;
    let lsb = random_bits() & !(0xc << 60) | 0x8 << 60;
    (msb as i64, lsb as i64)
}

#[cfg(test)]
mod tests {
    use super::super::environment::{Environment, Machine};
    use super::*;

    #[test]
    fn uuids_are_of_version_4_and_differ() {
        let uuid = || random_uuid(|| Machine.random_bits());
        let (msb, lsb) = uuid();
        assert_eq!(msb as u64 >> 12 & 0xf, 4);
        assert_eq!(lsb as u64 >> 62, 0b10);
        assert_ne!((msb, lsb), uuid());
    }
}
