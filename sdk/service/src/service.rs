//! Requests to the service: the outermost layer, which locks the state.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::calls::{Patience, make_calls};
use super::central_buffer::CentralBuffer;
use super::context::Context;
use super::control::{Control, Limits};
use super::environment::Environment;
use super::error::SessionError;
use super::lifecycle::SessionRequest;
use super::packet_framer::ReadCounts;
use super::pending_clone::CloneRequest;
use super::pending_flush::{FlushOutcome, FlushThen};
use super::phase::{End, State};
use super::recording::Recording;
use super::service_state::ServiceState;
use super::trace_reader::{Extent, TraceReader};
use super::trace_stats::TraceStats;
use super::tracing_session::TracingSession;
use tracezero_core::coordination::FlushFlags;
use tracezero_core::ids::SessionId;
use tracezero_core::protos::sequences::recording_boundary::Kind as BoundaryKind;

/// A tracing service.
pub struct Service {
    control: Mutex<Control>,
    /// Notified after whatever may have changed the books.
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

    /// Calls `work` with the books locked; returns when the calls that it noted have been made.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Control) -> R) -> R {
        self.call_after(Patience::Waits, work)
    }

    /// Like [`Service::with`] for every session, for what answers a call: does not wait for other threads.
    pub(super) fn answer(&self, work: impl FnMut(&mut TracingSession, &mut Context<'_>)) {
        self.call_after(Patience::LeavesCalls, |control| {
            control.for_each_session(work);
        });
    }

    pub(super) fn call_after<R>(
        &self,
        patience: Patience,
        work: impl FnOnce(&mut Control) -> R,
    ) -> R {
        let mut control = self.control.lock();
        let result = work(&mut control);
        self.changed.notify_all();
        self.make_noted_calls(control, patience);
        result
    }

    fn make_noted_calls(&self, control: MutexGuard<'_, Control>, patience: Patience) {
        make_calls(
            control,
            |control| &mut control.calls,
            &self.changed,
            patience,
        );
    }

    /// Calls `work` with the books locked; also while a reader is. The calls that it notes, if any,
    /// wait for the next [`Service::with`] or [`Service::answer`].
    pub(super) fn look<R>(&self, work: impl FnOnce(&mut Control) -> R) -> R {
        work(&mut self.control.lock())
    }

    /// [`Service::with`] for one session; `None` if there is no such session.
    fn with_session<R>(
        &self,
        id: SessionId,
        work: impl FnOnce(&mut TracingSession, &mut Context<'_>) -> R,
    ) -> Option<R> {
        self.with(|control| control.with_session(id, work))
    }

    /// [`Service::look`] for one session; `None` if there is no such session.
    pub(super) fn look_at<R>(
        &self,
        id: SessionId,
        work: impl FnOnce(&mut TracingSession, &mut Context<'_>) -> R,
    ) -> Option<R> {
        self.look(|control| control.with_session(id, work))
    }

    /// Takes in a session: allocates its buffers, sets up its data sources, and starts it unless it
    /// is to start later.
    ///
    /// # Errors
    ///
    /// If there is no memory or place for it, or others are in its way.
    pub fn enable(&self, request: SessionRequest) -> Result<SessionId, SessionError> {
        self.with(|control| control.enable(&request))
    }

    /// Starts a session that waits for that.
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

    /// Flushes a session, then ends it, because the process ends: data sources are waited for a little
    /// more than a second in all.
    pub fn end_with_process(&self, session: SessionId) {
        self.with_session(session, TracingSession::end_with_process);
    }

    /// Forgets a session and its buffers, after ending it if it goes on.
    pub fn free(&self, session: SessionId) {
        drop(self.with(|control| control.free(session)));
    }

    /// Asks the data sources of a session to flush; `done` is told how it went. A `timeout_ms` of 0
    /// means that of the configuration.
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

    /// Takes a snapshot of a session.
    pub fn clone_session(&self, request: CloneRequest) {
        self.with(|control| control.clone_session(request));
    }

    /// Takes over the producer filters of a changed configuration.
    pub fn change_config(&self, session: SessionId, recording: Arc<Recording>) {
        self.with_session(session, |session, context| {
            session.change_config(context, &recording);
        });
    }

    /// Changes what a data source does in a session that goes on; see
    /// [`Producer::change_data_source`](tracezero_core::coordination::Producer::change_data_source).
    pub fn change_data_source(&self, session: SessionId, name: &str, config: Arc<[u8]>) {
        self.with_session(session, |session, context| {
            session.change_data_source(context, name, config);
        });
    }

    /// Where a session is in its life; `None` if there is no such session.
    pub fn state(&self, session: SessionId) -> Option<State> {
        self.look_at(session, |session, _| session.state())
    }

    /// Why a session ended, if nobody asked it to.
    pub fn end_reason(&self, session: SessionId) -> Option<String> {
        self.look_at(session, |session, _| session.phase.end()?.reason.clone())?
    }

    /// The buffers of a session, in the order of its configuration.
    pub fn buffers(&self, session: SessionId) -> Vec<Arc<CentralBuffer>> {
        self.look_at(session, |session, _| session.buffers.clone())
            .unwrap_or_default()
    }

    /// Waits until a session is over, at most so long. Returns whether it is.
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

    /// Does what is due; returns when the next thing is, in nanoseconds on the trace clock.
    pub fn run_due_timers(&self) -> Option<u64> {
        self.with(Control::run_due_timers)
    }

    /// Waits until a timer is set that is due before `deadline_ns`, or until `timeout` is over.
    pub fn wait_for_earlier_timer(&self, deadline_ns: Option<u64>, timeout: Duration) {
        let mut control = self.control.lock();
        let is_next = |control: &mut Control| {
            let next_ns = control.timers.next_deadline_ns();
            next_ns.unwrap_or(u64::MAX) >= deadline_ns.unwrap_or(u64::MAX)
        };
        self.changed.wait_while_for(&mut control, is_next, timeout);
    }

    /// Appends what can be read of a session to `trace`. Nothing comes of sessions that write into a
    /// file, or wait for a trigger.
    pub fn read(&self, session: SessionId, trace: &mut Vec<u8>) {
        let Some(reader) = self.readable(session) else {
            return;
        };
        let is_over = !self.is_live(session);
        let mut reader = reader.lock();
        let Ok(()) = self.read_all(session, &mut reader, Extent::Everything, |batch| {
            trace.extend_from_slice(batch);
            Ok::<(), Infallible>(())
        });
        if is_over {
            trace.append(&mut self.recording_end(session, BoundaryKind::END));
        }
    }

    /// Appends what has come until now since this was read last, with all that makes it a trace of its
    /// own: what is read goes on exactly where the last reading ended. Nothing comes of the sessions that
    /// [`read`](Self::read) leaves out.
    pub fn read_part(&self, session: SessionId, trace: &mut Vec<u8>) {
        let Some(reader) = self.readable(session) else {
            return;
        };
        let mut reader = reader.lock();
        self.look_at(session, |session, _| session.begin_trace_anew());
        reader.framer.introduce_anew();
        let Ok(()) = self.read_all(session, &mut reader, Extent::WhatIsThere, |batch| {
            trace.extend_from_slice(batch);
            Ok::<(), Infallible>(())
        });
        trace.append(&mut self.recording_end(session, BoundaryKind::END));
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

    /// What was read of a session so far.
    pub fn read_counts(&self, session: SessionId) -> ReadCounts {
        let reader = self.reader(session);
        reader.map_or_else(ReadCounts::default, |reader| reader.lock().framer.counts)
    }

    /// What a user may see of producers and sessions.
    pub fn service_state(&self, uid: u32) -> ServiceState {
        self.control.lock().service_state(uid)
    }

    /// Statistics as they are now; `None` if there is no such session.
    pub fn stats(&self, session: SessionId) -> Option<TraceStats> {
        let reader = self.reader(session)?;
        let mut reader = reader.lock();
        self.look(|control| {
            let session = control.sessions.get(&session)?;
            Some(control.trace_stats(session, &mut reader))
        })
    }
}
