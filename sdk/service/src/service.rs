//! The public methods of the service, which lock its state.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::calls::{CallWait, make_calls};
use super::central_buffer::CentralBuffer;
use super::context::Context;
use super::control::{Control, Limits};
use super::environment::Environment;
use super::error::SessionError;
use super::lifecycle::SessionRequest;
use super::packet_framer::ReadCounts;
use super::pending_clone::CloneRequest;
use super::pending_flush::{FlushOutcome, FlushThen};
use super::phase::{End, Phase, State};
use super::recording::Recording;
use super::service_state::{InstanceSummary, ServiceState};
use super::trace_reader::{Extent, Pass, TraceReader};
use super::trace_stats::TraceStats;
use super::tracing_session::TracingSession;
use tracezero_core::coordination::FlushFlags;
use tracezero_core::crash_files::SessionFolder;
use tracezero_core::ids::SessionId;
use tracezero_core::protos::sequences::recording_boundary::Kind as BoundaryKind;

/// A tracing service.
pub struct Service {
    control: Mutex<Control>,
    /// Notified after every possible change of the state.
    changed: Condvar,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

impl Service {
    /// Creates a service without producers and sessions.
    pub fn new(environment: Arc<dyn Environment>, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            control: Mutex::new(Control::new(environment, limits)),
            changed: Condvar::new(),
        })
    }

    /// Calls `work` with the state locked. Returns when the calls that `work` noted have been made.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Control) -> R) -> R {
        self.call_after(CallWait::Unlimited, work)
    }

    /// Calls `work` for every session with the state locked. Does not wait for calls that other
    /// threads are making, because the caller may be answering one of them.
    pub(super) fn answer(&self, work: impl FnMut(&mut TracingSession, &mut Context<'_>)) {
        self.call_after(CallWait::LeaveCalls, |control| {
            control.for_each_session(work);
        });
    }

    pub(super) fn call_after<R>(
        &self,
        patience: CallWait,
        work: impl FnOnce(&mut Control) -> R,
    ) -> R {
        let mut control = self.control.lock();
        let result = work(&mut control);
        self.changed.notify_all();
        self.make_noted_calls(control, patience);
        result
    }

    fn make_noted_calls(&self, control: MutexGuard<'_, Control>, patience: CallWait) {
        make_calls(
            control,
            |control| &mut control.calls,
            &self.changed,
            patience,
        );
    }

    /// Calls `work` with the state locked. The caller may hold the lock of a session's reader.
    /// Calls that `work` notes wait for the next [`Service::with`] or [`Service::answer`].
    pub(super) fn look<R>(&self, work: impl FnOnce(&mut Control) -> R) -> R {
        work(&mut self.control.lock())
    }

    /// Does [`Service::with`] for one session. Returns `None` if there is no such session.
    pub(super) fn with_session<R>(
        &self,
        id: SessionId,
        work: impl FnOnce(&mut TracingSession, &mut Context<'_>) -> R,
    ) -> Option<R> {
        self.with(|control| control.with_session(id, work))
    }

    /// Does [`Service::look`] for one session. Returns `None` if there is no such session.
    pub(super) fn look_at<R>(
        &self,
        id: SessionId,
        work: impl FnOnce(&mut TracingSession, &mut Context<'_>) -> R,
    ) -> Option<R> {
        self.look(|control| control.with_session(id, work))
    }

    /// Creates a session: allocates its buffers, sets up its data sources, and starts it unless it
    /// is to start later.
    ///
    /// # Errors
    ///
    /// Returns an error if memory or buffer ids run out, if there are too many sessions, or if
    /// other sessions forbid this one.
    pub fn enable(&self, request: SessionRequest) -> Result<SessionId, SessionError> {
        self.with(|control| control.enable(&request))
    }

    /// Starts a session that was set up to start later.
    pub fn start(&self, session: SessionId) {
        self.with_session(session, TracingSession::start_deferred);
    }

    /// Ends a session without a flush.
    pub fn disable(&self, session: SessionId) {
        self.with_session(session, |session, context| {
            session.disable(context, End::default());
        });
    }

    /// Flushes a session, then ends it.
    pub fn flush_and_disable(&self, session: SessionId) {
        self.with_session(session, TracingSession::flush_and_disable);
    }

    /// Flushes a session, then ends it, because the process ends. Waits little more than a second
    /// in all for data sources.
    pub fn end_with_process(&self, session: SessionId) {
        self.with_session(session, TracingSession::end_with_process);
    }

    /// Ends a session if it has not ended, and removes it with its buffers.
    pub fn free(&self, session: SessionId) {
        let freed = self.look(|control| control.free(session));
        // A buffer may be locked for long, by a scrape. And a call that is being made may wait for
        // room in it.
        for buffer in freed.iter().flat_map(|session| &session.buffers) {
            buffer.reader_is_gone();
        }
        self.with(|_| ());
        drop(freed);
    }

    /// Asks the data sources of a session to flush. Calls `done` with the outcome. A `timeout_ms`
    /// of 0 means the configured timeout.
    pub fn flush(
        &self,
        session: SessionId,
        timeout_ms: u32,
        flags: FlushFlags,
        done: impl FnOnce(FlushOutcome) + Send + 'static,
    ) {
        self.with(|control| {
            if !control.sessions.contains_key(&session) {
                let done = Box::new(move || done(FlushOutcome::Failed));
                return control.calls.note(done);
            }
            control.with_session(session, |session, context| {
                let then = FlushThen::Tell(Box::new(done));
                session.flush(context, timeout_ms, flags, None, then);
            });
        });
    }

    /// Clones a session, so that the present contents of its buffers can be read while the session
    /// goes on.
    pub fn clone_session(&self, request: CloneRequest) {
        self.with(|control| control.clone_session(request));
    }

    /// Applies the producer filters of a changed configuration.
    pub fn change_config(&self, session: SessionId, recording: Arc<Recording>) {
        self.with_session(session, |session, context| {
            session.change_config(context, &recording);
        });
    }

    /// Changes the configuration of a data source in a running session. See
    /// [`Producer::change_data_source`](tracezero_core::coordination::Producer::change_data_source).
    pub fn change_data_source(&self, session: SessionId, name: &str, config: Arc<[u8]>) {
        self.with_session(session, |session, context| {
            session.change_data_source(context, name, config);
        });
    }

    /// Returns the phase of a session's life; `None` if there is no such session.
    pub fn state(&self, session: SessionId) -> Option<State> {
        self.look_at(session, |session, _| session.state())
    }

    /// Returns the reason why a session ended, if it was not asked to.
    pub fn end_reason(&self, session: SessionId) -> Option<String> {
        self.look_at(session, |session, _| session.phase.end()?.reason.clone())?
    }

    /// Returns the UUID of a session's trace, as its two halves.
    pub fn uuid(&self, session: SessionId) -> Option<(i64, i64)> {
        self.look_at(session, |session, _| session.uuid)
    }

    /// Returns the configuration of a session.
    pub fn recording(&self, session: SessionId) -> Option<Arc<Recording>> {
        self.look_at(session, |session, _| Arc::clone(&session.recording))
    }

    /// Returns true if the session records, and all of its data sources have started.
    pub fn all_started(&self, session: SessionId) -> bool {
        self.look_at(session, |session, _| {
            matches!(session.phase, Phase::Started { all_started: true })
        })
        .unwrap_or(false)
    }

    /// Returns the state of each data source in a session.
    pub fn instances(&self, session: SessionId) -> Vec<InstanceSummary> {
        self.look_at(session, |session, _| session.instance_summaries())
            .unwrap_or_default()
    }

    /// Returns the buffers of a session, in the order of its configuration.
    pub fn buffers(&self, session: SessionId) -> Vec<Arc<CentralBuffer>> {
        self.look_at(session, |session, _| session.buffers.clone())
            .unwrap_or_default()
    }

    /// Waits until a session has ended, for at most `timeout`. Returns whether the session has
    /// ended.
    pub fn wait_until_disabled(&self, session: SessionId, timeout: Duration) -> bool {
        let mut control = self.control.lock();
        let is_live = |control: &mut Control| {
            let session = control.sessions.get(&session);
            session.is_some_and(TracingSession::is_live)
        };
        !self
            .changed
            .wait_while_for(&mut control, is_live, timeout)
            .timed_out()
    }

    /// Runs the timers that are due. Returns when the next timer is due, in nanoseconds on the
    /// trace clock.
    pub fn run_due_timers(&self) -> Option<u64> {
        self.with(Control::run_due_timers);
        // What follows from the calls that timers have noted may have set others.
        self.look(|control| control.timers.next_deadline_ns())
    }

    /// Waits until a timer is set that is due before `deadline_ns`, for at most `timeout`.
    pub fn wait_for_earlier_timer(&self, deadline_ns: Option<u64>, timeout: Duration) {
        let mut control = self.control.lock();
        let is_next = |control: &mut Control| {
            let next_ns = control.timers.next_deadline_ns();
            next_ns.unwrap_or(u64::MAX) >= deadline_ns.unwrap_or(u64::MAX)
        };
        self.changed.wait_while_for(&mut control, is_next, timeout);
    }

    /// Appends the packets of a session that can be read to `trace`. Appends nothing if the session
    /// writes into a file or waits for a trigger.
    pub fn read(&self, session: SessionId, trace: &mut Vec<u8>) {
        while self.read_some(session, usize::MAX, trace) {}
    }

    /// Does [`read`](Self::read) in parts: appends about `max_bytes`, and returns whether there are
    /// more packets to read. The first call begins to read what is there at that time.
    ///
    /// A part may be longer by a batch, which has about 64 KiB, or 512 KiB if the trace is
    /// compressed, or by one packet that is longer.
    pub fn read_some(&self, session: SessionId, max_bytes: usize, trace: &mut Vec<u8>) -> bool {
        let Some(reader) = self.readable(session) else {
            return false;
        };
        let mut reader = reader.lock();
        let new_pass = || {
            Pass::new(match self.is_live(session) {
                true => Extent::WhatIsThere,
                false => Extent::Everything,
            })
        };
        let mut pass = reader.pass.take().unwrap_or_else(new_pass);
        let end = trace.len().saturating_add(max_bytes);
        while trace.len() < end {
            if let Some(batch) = self.next_batch(session, &mut reader, &mut pass) {
                trace.extend_from_slice(&batch.newer);
                reader.batch_was_taken(batch);
                continue;
            }
            if pass.extent == Extent::Everything {
                trace.append(&mut self.recording_end(session, BoundaryKind::END));
                return false;
            }
            if self.is_live(session) {
                return false;
            }
            // The session has ended since the pass began. Its last packets need another pass.
            pass = new_pass();
        }
        reader.pass = Some(pass);
        true
    }

    /// Appends the packets that came since the last read, as a complete trace of their own: it
    /// continues exactly where the last read ended, and needs no earlier part. Appends nothing for
    /// the sessions for which [`read`](Self::read) appends nothing.
    pub fn read_part(&self, session: SessionId, trace: &mut Vec<u8>) {
        let Some(reader) = self.readable(session) else {
            return;
        };
        let mut reader = reader.lock();
        let has_crash_files = self.look_at(session, |session, context| {
            session.begin_trace_anew(context.environment);
            session.crash_files.is_some()
        });
        if has_crash_files == Some(true) {
            reader.write_positions();
        }
        reader.begin_part();
        reader.pass = None;
        let mut pass = Pass::new(Extent::WhatIsThere);
        while let Some(batch) = self.next_batch(session, &mut reader, &mut pass) {
            trace.extend_from_slice(&batch.newer);
            reader.batch_was_taken(batch);
        }
        trace.append(&mut self.recording_end(session, BoundaryKind::END));
    }

    /// Returns the folder for the crash files of a session, if it has them.
    pub fn crash_files(&self, session: SessionId) -> Option<Arc<SessionFolder>> {
        self.look_at(session, |session, _| session.crash_files.clone())?
    }

    fn readable(&self, session: SessionId) -> Option<Arc<Mutex<TraceReader>>> {
        self.look_at(session, |session, _| {
            let reader = session.can_be_read().then_some(&session.reader);
            reader.map(Arc::clone)
        })?
    }

    pub(super) fn reader(&self, session: SessionId) -> Option<Arc<Mutex<TraceReader>>> {
        self.look_at(session, |session, _| Arc::clone(&session.reader))
    }

    pub(super) fn is_live(&self, session: SessionId) -> bool {
        self.look_at(session, |session, _| session.is_live())
            .unwrap_or(false)
    }

    /// Returns how many packets of a session were read so far.
    pub fn read_counts(&self, session: SessionId) -> ReadCounts {
        let reader = self.reader(session);
        reader.map_or_else(ReadCounts::default, |reader| reader.lock().framer.counts)
    }

    /// Returns the producers and sessions that a user may see.
    pub fn service_state(&self, uid: u32) -> ServiceState {
        self.control.lock().service_state(uid)
    }

    /// Returns the current statistics of a session; `None` if there is no such session.
    pub fn stats(&self, session: SessionId) -> Option<TraceStats> {
        let reader = self.reader(session)?;
        let mut reader = reader.lock();
        self.look(|control| {
            let session = control.sessions.get(&session)?;
            Some(control.trace_stats(session, &mut reader))
        })
    }
}
