//! The life of a session, from its configuration to its end.

use std::fmt;
use std::sync::Arc;

use super::central_buffer::{CentralBuffer, ReadMode};
use super::context::{AfterScrape, Context, Effect, Scrape};
use super::control::Control;
use super::environment::Environment;
use super::error::SessionError;
use super::instance::Instance;
use super::lifecycle_events::Event;
use super::pending_flush::FlushThen;
use super::phase::{End, Phase};
use super::recording::Recording;
use super::timers::Timer;
use super::trace_buffer::{BufferError, FillPolicy, TraceBuffer};
use super::trace_reader::TraceReader;
use super::tracing_session::{BeforeWriting, FileOutput, SessionOwner, TracingSession};
use tracezero_config::{SessionConfig, TriggerMode};
use tracezero_core::coordination::{FlushFlags, FlushReason};
use tracezero_core::crash_files::SessionFolder;
use tracezero_core::ids::{BufferId, ProducerId, SessionId};

/// The time after which the trace names data sources that have not started.
const SLOW_START_MS: u64 = 20_000;

/// A request for a new session: its configuration, and what the service needs besides.
pub struct SessionRequest {
    /// The configuration of the session.
    pub recording: Arc<Recording>,
    /// The id of the user who asks for the session.
    pub uid: u32,
    /// The owner of the session.
    pub owner: Arc<dyn SessionOwner>,
    /// True if the trace is streamed into a file, which [`Service::attach_output`] passes later.
    ///
    /// [`Service::attach_output`]: super::Service::attach_output
    pub writes_into_file: bool,
    /// A function that wakes the thread that reads the buffers while the session is recording.
    pub wake: Option<Arc<dyn Fn() + Send + Sync>>,
    /// The folder for the session's crash files, if it has them.
    pub crash_files: Option<Arc<SessionFolder>>,
}

impl fmt::Debug for SessionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRequest")
            .field("recording", &self.recording)
            .finish_non_exhaustive()
    }
}

impl Control {
    /// Creates a session: allocates its buffers, sets up its data sources, and starts it unless it
    /// is to start later.
    pub(super) fn enable(&mut self, request: &SessionRequest) -> Result<SessionId, SessionError> {
        let recording = Arc::clone(&request.recording);
        let config = &recording.config;
        self.set_lockdown(config.lockdown_mode);
        self.check_other_sessions(&recording, request.uid)?;
        let buffers = self.open_buffers(request)?;
        self.last_session = SessionId::new(self.last_session.value() + 1);
        let id = self.last_session;
        self.note_name(&recording);
        let uuid = match config.trace_uuid {
            (0, 0) => self.environment.random_uuid(),
            given => given,
        };
        let mut reader = TraceReader::new(buffers, config);
        if let Some(segment_bytes) = recording.segment_bytes {
            reader.write_segments(segment_bytes);
        }
        if request.writes_into_file && request.crash_files.is_some() {
            reader.write_positions();
        }
        let owner = Arc::clone(&request.owner);
        let mut session =
            TracingSession::new(request.uid, Arc::clone(&recording), owner, uuid, reader);
        session.crash_files.clone_from(&request.crash_files);
        session.trace_attributes = trace_attributes(&*self.environment, config).into();
        if request.writes_into_file {
            session.file = FileOutput::Open {
                scrape_is_due: false,
            };
        }
        self.sessions.insert(id, session);
        self.abort_for_priority(id, config.exclusive_prio);
        let others = self.describe_others(id);
        self.with_session(id, |session, context| {
            session.begin_preamble(context.environment);
            session.enter(context, Phase::Configured);
            others.iter().for_each(|other| session.queue(other));
            session.set_up_all(context);
            match &config.triggers {
                Some(triggers) if triggers.effective_mode() == TriggerMode::Start => {
                    let timeout_ms = u64::from(triggers.trigger_timeout_ms);
                    context.set_timer(timeout_ms, Timer::StartTriggerTimeout);
                }
                _ if config.deferred_start => {}
                _ => session.start(context),
            }
        });
        Ok(id)
    }

    fn open_buffers(
        &mut self,
        request: &SessionRequest,
    ) -> Result<Vec<Arc<CentralBuffer>>, SessionError> {
        // Allocate all buffers before the first gets an id, so that an error leaves nothing behind.
        let mut allocated = Vec::new();
        for (index, config) in request.recording.config.buffers.iter().enumerate() {
            let size_bytes = u64::from(config.size_kb) * 1024;
            let streams = request.wake.is_some() && config.fill_policy == FillPolicy::Ring;
            let limit_bytes = config.limit_kb.map(|limit_kb| u64::from(limit_kb) * 1024);
            let buffer = match (&request.crash_files, limit_bytes) {
                // A ring of fixed size would overwrite what was read and is not in the file yet.
                (Some(folder), limit_bytes) if streams => {
                    let limit_bytes = limit_bytes.unwrap_or(size_bytes);
                    TraceBuffer::growing_in_crash_file(folder, index, limit_bytes)
                }
                (Some(folder), _) => {
                    TraceBuffer::in_crash_file(folder, index, size_bytes, config.fill_policy)
                }
                (None, Some(limit_bytes)) if streams => TraceBuffer::growing(limit_bytes),
                (None, _) if self.environment.prefers_short_commits() => {
                    TraceBuffer::of_small_pages(size_bytes, config.fill_policy)
                }
                (None, _) => TraceBuffer::new(size_bytes, config.fill_policy),
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
                    ReadMode::Streams(Box::new(move || wake()))
                }
                (FillPolicy::Ring, None) => ReadMode::RingAtEnd,
                // A discarding buffer that is full stays full, so reading it early gains nothing.
                (FillPolicy::Discard, _) => ReadMode::AllAtEnd,
            };
            let id = self
                .next_buffer_id(&opened)
                .ok_or(SessionError::TooManyBuffers)?;
            buffer.note_id(id);
            let mut buffer = CentralBuffer::new(id, buffer, reader);
            if let Some(segment_bytes) = request.recording.segment_bytes {
                buffer = buffer.in_segments(segment_bytes);
            }
            opened.push(Arc::new(buffer));
        }
        Ok(opened)
    }

    /// Returns a buffer id that is not in use.
    ///
    /// An id is not used again soon. A thread may still hold a chunk for a freed buffer and commit
    /// it later, and that chunk must not get into another session's trace.
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

    /// Ends a session whose file is closed. The owner is told `reason`.
    pub(super) fn file_is_closed(&mut self, id: SessionId, reason: Option<String>) {
        self.fail_clones_that_wait_for_file(id);
        self.with_session(id, |session, context| {
            if session.file != FileOutput::None {
                session.file = FileOutput::Closed;
            }
            session.disable(context, End::because_of(reason));
        });
    }

    /// Ends a session if it has not ended, and removes it with its buffers.
    ///
    /// The caller must drop the returned session without the lock, because its owner may hold
    /// arbitrary values of the application.
    #[must_use]
    pub(super) fn free(&mut self, id: SessionId) -> Option<TracingSession> {
        self.fail_clones_of(id);
        self.with_session(id, |session, context| {
            session.abandon(context);
        });
        let session = self.sessions.remove(&id)?;
        for producer in self.producers.values() {
            producer.link.revoke(&session.buffers);
        }
        let mut states = Vec::new();
        for (index, buffer) in session.buffers.iter().enumerate() {
            buffer.states.add_stats(index, &mut states);
        }
        states.retain(|state| state.packets_failed > 0);
        if !states.is_empty() {
            let environment = Arc::clone(&self.environment);
            self.calls.note(Box::new(move || {
                for state in &states {
                    environment.state_incomplete(id, state);
                }
            }));
        }
        Some(session)
    }
}

impl TracingSession {
    /// Starts a session in the phase `Configured`. Does nothing in other phases.
    pub(super) fn start(&mut self, context: &mut Context<'_>) {
        if !matches!(self.phase, Phase::Configured) {
            return;
        }
        self.started_ns = Some(context.environment.now_ns());
        self.note_event(context.environment, Event::TracingStarted);
        context.cancel_timers(|timer| *timer == Timer::StartTriggerTimeout);
        if let Some(duration_ms) = self.recording.duration_ms() {
            context.set_timer(duration_ms, Timer::Duration);
        }
        let config = &self.recording.config;
        if self.file != FileOutput::None {
            context.set_aligned_timer(config.file_write_period_ms, Timer::WriteIntoFile);
        }
        if let Some(period_ms) = self.flush_period_ms() {
            context.set_aligned_timer(period_ms, Timer::PeriodicFlush);
        }
        if config.incremental_state_clear_period_ms > 0 {
            let period_ms = config.incremental_state_clear_period_ms;
            context.set_aligned_timer(period_ms, Timer::ClearIncrementalState);
        }
        // Noting `TracingStarted` has taken the first snapshot of the clocks already.
        self.mark_stream_periodically(context);
        context.set_timer(SLOW_START_MS, Timer::SlowStart);
        self.enter(context, Phase::Started { all_started: false });
        self.start_instances(context, 0);
    }

    /// Starts a session that did not start when it was set up. Its first packets are written to the
    /// file at once.
    pub(super) fn start_deferred(&mut self, context: &mut Context<'_>) {
        self.start(context);
        if self.file != FileOutput::None {
            self.ask_to_write(context);
        }
    }

    pub(super) fn timer_is_due(&mut self, context: &mut Context<'_>, timer: Timer) {
        match timer {
            Timer::Duration | Timer::StopAfterTrigger => self.flush_and_disable(context),
            Timer::StartTriggerTimeout => self.disable(context, End::default()),
            Timer::CloneAfterTrigger(trigger) => self.ask_for_clone(context, trigger),
            Timer::StopTimeout => self.disable_now(context, End::default()),
            Timer::SlowStart => self.note_slow_starters(context),
            Timer::FlushTimeout(flush) => self.flush_timed_out(context, flush),
            Timer::PeriodicFlush => self.flush_periodically(context),
            Timer::WriteIntoFile => self.write_periodically(context),
            Timer::ClearIncrementalState => self.clear_incremental_state(context),
            Timer::SnapshotClocks => {
                self.snapshot_clocks(context.environment);
                self.mark_stream_periodically(context);
            }
        }
    }

    /// Asks data sources to flush, if they have started, then ends the session.
    pub(super) fn flush_and_disable(&mut self, context: &mut Context<'_>) {
        if !self.is_started() {
            return self.disable(context, End::default());
        }
        let flags = FlushFlags::by_service(FlushReason::TraceStop);
        self.flush(context, 0, flags, None, FlushThen::Disable);
    }

    /// Flushes the session, if it has started, then ends it, because the process ends. Waits less
    /// long than usual for data sources that do not answer. Further calls do nothing.
    pub(super) fn end_with_process(&mut self, context: &mut Context<'_>) {
        if std::mem::replace(&mut self.ends_with_process, true) {
            return;
        }
        if matches!(self.phase, Phase::Stopping(_)) {
            return self.set_stop_timer(context);
        }
        self.flush_and_disable(context);
    }

    /// Ends the session: at once if it never started, else when its data sources have stopped.
    pub(super) fn disable(&mut self, context: &mut Context<'_>, end: End) {
        match &mut self.phase {
            Phase::Configured => self.disable_now(context, end),
            Phase::Started { .. } => {
                self.stop_instances(context, false);
                if self.all_stopped() {
                    return self.disable_now(context, end);
                }
                self.enter(context, Phase::Stopping(end));
                // Only pending flushes and writing the file go on.
                context.cancel_timers(|timer| {
                    !matches!(timer, Timer::FlushTimeout(_) | Timer::WriteIntoFile)
                });
                self.set_stop_timer(context);
            }
            Phase::Stopping(known)
            | Phase::Ending(known)
            | Phase::Disabled(known)
            | Phase::ClonedReadOnly(_, known) => known.add(end),
        }
    }

    /// Sets the timer that ends a stopping session even if its data sources have not stopped.
    fn set_stop_timer(&self, context: &mut Context<'_>) {
        let timeout_ms = self.recording.config.data_source_stop_timeout_ms;
        let timeout_ms = self.answer_timeout_ms(timeout_ms);
        context.set_timer(u64::from(timeout_ms), Timer::StopTimeout);
    }

    /// Ends a stopping session if its last data source has stopped.
    pub(super) fn check_all_stopped(&mut self, context: &mut Context<'_>) {
        if matches!(self.phase, Phase::Stopping(_)) && self.all_stopped() {
            self.disable_now(context, End::default());
        }
    }

    fn all_stopped(&self) -> bool {
        let mut instances = self.instances.iter();
        instances.all(Instance::is_over)
    }

    /// Ends the session without waiting for its data sources.
    pub(super) fn disable_now(&mut self, context: &mut Context<'_>, end: End) {
        if self.begin_end(context, end) {
            self.scrape_then(context, AfterScrape::End);
        }
    }

    /// Ends the session, whose packets nobody will read.
    fn abandon(&mut self, context: &mut Context<'_>) {
        self.begin_end(context, End::default());
        self.finish_end(context);
    }

    /// Stops all data sources. Returns false if the session has ended or is about to.
    fn begin_end(&mut self, context: &mut Context<'_>, mut end: End) -> bool {
        match &mut self.phase {
            Phase::Configured | Phase::Started { .. } => {}
            // If `end` has a reason, it wins over the reason why the session began to stop.
            Phase::Stopping(known) => end.add(std::mem::take(known)),
            Phase::Ending(_) | Phase::Disabled(_) | Phase::ClonedReadOnly(..) => return false,
        }
        self.stop_instances(context, true);
        context.cancel_timers(|_| true);
        self.phase = Phase::Ending(end);
        true
    }

    /// Ends a session whose chunks were scraped. Does nothing if it has ended meanwhile.
    fn finish_end(&mut self, context: &mut Context<'_>) {
        let Phase::Ending(end) = &mut self.phase else {
            return;
        };
        let end = std::mem::take(end);
        let reason = end.reason.clone();
        self.enter(context, Phase::Disabled(end));
        self.note_event(context.environment, Event::TracingDisabled);
        self.due.stats = true;
        for (_, flush) in std::mem::take(&mut self.flushes) {
            self.flush_failed(context, flush.then);
        }
        context.call_owner(&self.owner, move |owner| owner.disabled(reason.as_deref()));
    }

    /// Returns a scrape of the producers that take part.
    fn scrape(&self, context: &Context<'_>) -> Scrape {
        let takes_part = |id: &ProducerId| self.instances.iter().any(|it| it.producer == *id);
        let producers = context.producers.iter();
        Scrape {
            producers: producers
                .filter(|(id, _)| takes_part(id))
                .map(|(_, producer)| Arc::clone(&producer.link))
                .collect(),
            buffers: self.buffers.clone(),
        }
    }

    /// Scrapes the producers that take part, then continues.
    pub(super) fn scrape_then(&self, context: &mut Context<'_>, then: AfterScrape) {
        let scrape = self.scrape(context);
        context.effects.push(Effect::Scrape(scrape, then));
    }

    pub(super) fn continue_after_scrape(&mut self, context: &mut Context<'_>, then: AfterScrape) {
        match then {
            AfterScrape::Flushed(outcome, then) => self.after_flush(context, outcome, then),
            AfterScrape::End => self.finish_end(context),
        }
    }

    /// Returns the scrape before a pass over the buffers, if a periodic one is due or `is_wanted`.
    pub(super) fn scrape_for_file(
        &mut self,
        context: &Context<'_>,
        is_wanted: bool,
    ) -> Option<Scrape> {
        let is_due = match &mut self.file {
            FileOutput::Open { scrape_is_due } => std::mem::take(scrape_is_due),
            FileOutput::None | FileOutput::Closed => false,
        };
        (is_due || is_wanted).then(|| self.scrape(context))
    }

    /// Writes the contents of the buffers into the file, after a flush or scrape if the
    /// configuration asks for it.
    fn write_periodically(&mut self, context: &mut Context<'_>) {
        let before = self.before_writing();
        if let FileOutput::Open { scrape_is_due } = &mut self.file {
            *scrape_is_due = before == BeforeWriting::Scrape;
        }
        let period_ms = self.recording.config.file_write_period_ms;
        context.set_aligned_timer(period_ms, Timer::WriteIntoFile);
        if before == BeforeWriting::Flush && self.is_started() {
            let flags = FlushFlags::by_service(FlushReason::Periodic);
            self.flush(context, 0, flags, None, FlushThen::WriteIntoFile);
        } else {
            self.ask_to_write(context);
        }
    }

    pub(super) fn ask_to_write(&self, context: &mut Context<'_>) {
        context.call_owner(&self.owner, |owner| owner.write_into_file());
    }

    /// Makes the next read begin with a sync marker, at which readers can enter a stream, and
    /// include statistics.
    fn mark_stream_periodically(&mut self, context: &mut Context<'_>) {
        self.due.sync_marker = true;
        self.due.stats = true;
        let builtin = &self.recording.config.builtin_data_sources;
        context.set_aligned_timer(builtin.snapshot_interval_ms, Timer::SnapshotClocks);
    }

    /// Applies a changed configuration: the producer filters of its data sources, and the fields that
    /// are meant for the data sources, as far as producers take changes of these.
    pub(super) fn change_config(&mut self, context: &mut Context<'_>, changed: &Recording) {
        if self.phase.end().is_none() {
            for name in changed.source_names() {
                let present = match self.changed_configs.get(name) {
                    Some(config) => Some(config.to_vec()),
                    None => self.recording.fields_for_source(name),
                };
                let new = changed.fields_for_source(name).unwrap_or_default();
                if !new.is_empty() && present.is_some_and(|present| present != new) {
                    self.change_data_source(context, name, new.into());
                }
            }
            self.recording = Arc::new(self.recording.with_filters_of(changed));
            self.set_up_all(context);
        }
    }
}

/// Returns the encoded attributes of the trace of a session that starts now. Those of the configuration
/// count more than those of the process: readers take the last value of a key, and the configuration comes
/// before this packet.
fn trace_attributes(environment: &dyn Environment, config: &SessionConfig) -> Vec<u8> {
    if config.builtin_data_sources.disable_trace_attributes {
        return Vec::new();
    }
    let mut attributes = environment.trace_attributes();
    if !attributes.is_empty() {
        attributes.put_message_over(&config.trace_attributes);
    }
    attributes.encode()
}
