//! The service: takes commits from producers, owns the central buffers, and turns them into
//! traces.
//!
//! Two halves that share the buffers:
//!
//! ```text
//!  producers   commit                  set up, start, stop, flush           owners of sessions
//!     |   '----------.                .--------------------------.              |
//!     |      +-------v--------+  allow, revoke, scrape  +--------+--------+     |
//!     |      | ProducerLink   |<------------------------|     Control     |<----'
//!     |      +-------+--------+                         | sessions,timers |
//!     |   chunks     |                                  +--------+--------+
//!     |      +-------v--------+                 service packets  |
//!     |      | CentralBuffer  |-----> TraceReader <--------------'
//!     |      +----------------+            '--> trace, file
//! ```
//!
//! Chunks take the left side: a commit is a function call that finds the producer's buffer, copies
//! the chunk and frees it; no thread, no system call, no queue, and not the service's lock. What
//! configures and ends sessions takes the right side, under one lock (`control`), and never holds
//! it while it calls anybody (`calls`). Time is asked of an `environment`, and timers run when
//! somebody lets them (`run_due_timers`): so tests have time in their hand.
//!
//! Locks are taken in this order: the reader of a session, `control`, a producer link, a buffer (`calls.rs`).
//! `service_scenarios/stress.rs` runs all of it at once from many threads.

// Data: chunks in, packets out.
pub mod trace_buffer; // the central ring: chunks in, whole packets out
mod central_buffer; // a ring in use: who writes to it, who reads it
mod reader_lag; // how far its reader is behind, and who waits for that
mod producer_endpoint; // where a producer commits to
mod trace_reader; // the buffers of a session, read as a trace
mod packet_validator; // what writers may put into a trace
mod event_run; // events of the usual form, many at once
mod packet_framer; // packets of writers, on their way into a trace
mod compression; // batches of packets as one
mod streaming; // a trace on its way into a file
mod trace_output; // the file
// Control: what sessions there are, and what they want.
mod control; // the books, under one lock
mod recording; // a configuration, ready to be worked with
mod tracing_session; // what is kept of one session
mod lifecycle; // from configuration to end
mod limits; // what a session may not do because of others
mod data_sources; // what producers offer
mod instances; // data sources in sessions
mod flush; // flushes and scrapes
mod triggers; // events that start, end or clone sessions
mod session_clone; // snapshots
mod timers; // what is done later
mod calls; // what producers and owners are told
mod environment; // time and chance
mod error; // why a session does not start, or is not cloned
// What the service says in a trace.
mod reading; // before and after the packets of writers
pub(crate) mod service_packets; // as packets
mod lifecycle_events; // what happened to a session
mod extension_descriptors; // schemas of data sources
mod concurrent_sessions; // what happened to others
mod trace_stats; // statistics
mod sequence_account; // what became of every packet
// What the service says to whoever asks.
mod service_state; // who is there
mod requested; // what a session asked for, and whether there is any

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use self::calls::Patience;
pub(crate) use self::central_buffer::CentralBuffer;
use self::control::{ConnectedProducer, Control};
pub(crate) use self::environment::{Environment, Machine};
pub use self::error::Refusal;
pub(crate) use self::error::SessionError;
pub(crate) use self::flush::FlushOutcome;
use self::flush::FlushThen;
pub(crate) use self::lifecycle::SessionRequest;
pub(crate) use self::limits::Limits;
pub(crate) use self::packet_framer::ReadCounts;
pub use self::packet_framer::read_as_trace;
pub(crate) use self::producer_endpoint::ProducerEndpoint;
use self::producer_endpoint::ProducerLink;
pub(crate) use self::recording::Recording;
pub(crate) use self::requested::RequestedDataSources;
pub use self::sequence_account::SequenceAccount;
pub use self::service_state::{ProducerState, ServiceState, SessionState, SessionSummary};
pub(crate) use self::session_clone::{CloneRequest, CloneSource};
pub(crate) use self::streaming::Writing;
use self::trace_buffer::ClientIdentity;
pub(crate) use self::trace_output::TraceOutput;
pub(crate) use self::trace_reader::FileEnd;
use self::trace_reader::{Extent, TraceReader};
pub use self::trace_stats::{TraceStats, WriterStats};
use self::tracing_session::TracingSession;
pub(crate) use self::tracing_session::{SessionOwner, State};
pub(crate) use self::triggers::ReceivedTrigger;
use tracezero_core::coordination::{FlushFlags, Producer};
use tracezero_core::ids::{ProducerId, SessionId};
use tracezero_core::protos::sequences::recording_boundary::Kind as BoundaryKind;
use tracezero_core::shm::ServiceMemory;

/// A tracing service.
pub(crate) struct Service {
    control: Mutex<Control>,
    /// Notified after whatever may have changed the books.
    changed: Condvar,
}

impl Service {
    pub(crate) fn new(environment: Arc<dyn Environment>, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            control: Mutex::new(Control::new(environment, limits)),
            changed: Condvar::new(),
        })
    }

    /// Calls `work` with the books locked; returns when the calls that it noted have been made.
    fn with<R>(&self, work: impl FnOnce(&mut Control) -> R) -> R {
        self.call_after(Patience::Waits, work)
    }

    /// Like [`Service::with`], for what answers a call: does not wait for other threads.
    fn answer(&self, work: impl FnOnce(&mut Control)) {
        self.call_after(Patience::LeavesCalls, work);
    }

    fn call_after<R>(&self, patience: Patience, work: impl FnOnce(&mut Control) -> R) -> R {
        let mut control = self.control.lock();
        let result = work(&mut control);
        self.changed.notify_all();
        calls::make_calls(control, &self.changed, patience);
        result
    }

    /// Calls `work` with the books locked; also while a reader is. The calls that it notes, if any,
    /// wait for the next [`Service::with`] or [`Service::answer`].
    fn look<R>(&self, work: impl FnOnce(&mut Control) -> R) -> R {
        work(&mut self.control.lock())
    }

    /// Takes in a producer; `None` if all ids are in use, or users like this one locked out.
    pub(crate) fn connect_producer(
        self: &Arc<Self>,
        name: &str,
        client: ClientIdentity,
        memory: ServiceMemory,
        calls_to: Arc<dyn Producer>,
    ) -> Option<ProducerEndpoint> {
        self.with(|control| {
            if !control.admits_user(client.uid) {
                return None;
            }
            let id = ProducerId(control.last_producer.0.checked_add(1)?);
            control.last_producer = id;
            let refused = Arc::clone(&control.refused);
            let link = Arc::new(ProducerLink::new(id, client, memory, refused));
            control.producers.insert(
                id,
                ConnectedProducer {
                    name: name.to_owned(),
                    link: Arc::clone(&link),
                    calls_to,
                    data_sources: Vec::new(),
                },
            );
            Some(ProducerEndpoint::new(id, Arc::clone(self), link))
        })
    }

    /// Begins a session; see [`Control::enable`].
    pub(crate) fn enable(&self, request: SessionRequest) -> Result<SessionId, SessionError> {
        self.with(|control| control.enable(&request))
    }

    /// Starts a session that waits for that.
    pub(crate) fn start(&self, session: SessionId) {
        self.with(|control| control.start_deferred(session));
    }

    /// Ends a session without a flush.
    pub(crate) fn disable(&self, session: SessionId) {
        self.with(|control| control.disable(session));
    }

    /// Flushes a session, then ends it.
    pub(crate) fn flush_and_disable(&self, session: SessionId) {
        self.with(|control| control.flush_and_disable(session));
    }

    /// Flushes a session, then ends it, because the process ends: data sources are waited for a little
    /// more than a second in all.
    pub(crate) fn end_with_process(&self, session: SessionId) {
        self.with(|control| control.end_with_process(session));
    }

    /// Forgets a session and its buffers, after ending it if it goes on.
    pub(crate) fn free(&self, session: SessionId) {
        drop(self.with(|control| control.free(session)));
    }

    /// Has the data sources of a session flush; `done` is told how it went. A `timeout_ms` of 0
    /// means that of the configuration.
    pub(crate) fn flush(
        &self,
        session: SessionId,
        timeout_ms: u32,
        flags: FlushFlags,
        done: impl FnOnce(FlushOutcome) + Send + 'static,
    ) {
        let then = FlushThen::Tell(Box::new(done));
        self.with(|control| control.flush(session, timeout_ms, flags, None, then));
    }

    /// Takes a snapshot of a session.
    pub(crate) fn clone_session(&self, request: CloneRequest) {
        self.with(|control| control.clone_session(request));
    }

    /// Takes over the producer filters of a changed configuration.
    pub(crate) fn change_config(&self, session: SessionId, recording: Arc<Recording>) {
        self.with(|control| control.change_config(session, &recording));
    }

    /// Has a data source do something else in a session that goes on; see
    /// [`Producer::change_data_source`].
    pub(crate) fn change_data_source(&self, session: SessionId, name: &str, config: Arc<[u8]>) {
        self.with(|control| control.change_data_source(session, name, config));
    }

    /// Where a session is in its life; `None` if there is no such session.
    pub(crate) fn state(&self, session: SessionId) -> Option<State> {
        self.look(|control| Some(control.sessions.get(&session)?.state))
    }

    /// Why a session ended, if nobody asked it to.
    pub(crate) fn end_reason(&self, session: SessionId) -> Option<String> {
        self.control
            .lock()
            .sessions
            .get(&session)?
            .end_reason
            .clone()
    }

    /// The buffers of a session, in the order of its configuration.
    pub(crate) fn buffers(&self, session: SessionId) -> Vec<Arc<CentralBuffer>> {
        self.look(|control| {
            let session = control.sessions.get(&session);
            session.map_or_else(Vec::new, |session| session.buffers.clone())
        })
    }

    /// Waits until a session is over, at most so long. Returns whether it is.
    pub(crate) fn wait_until_disabled(&self, session: SessionId, timeout: Duration) -> bool {
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
    pub(crate) fn run_due_timers(&self) -> Option<u64> {
        self.with(Control::run_due_timers)
    }

    /// Waits until a timer is set that is due before `deadline_ns`, or until `timeout` is over.
    pub(crate) fn wait_for_earlier_timer(&self, deadline_ns: Option<u64>, timeout: Duration) {
        let mut control = self.control.lock();
        let is_next = |control: &mut Control| {
            let next_ns = control.timers.next_deadline_ns();
            next_ns.unwrap_or(u64::MAX) >= deadline_ns.unwrap_or(u64::MAX)
        };
        self.changed.wait_while_for(&mut control, is_next, timeout);
    }

    /// Appends what can be read of a session to `trace`. Nothing comes of sessions that write into a
    /// file, or wait for a trigger.
    pub(crate) fn read(&self, session: SessionId, trace: &mut Vec<u8>) {
        let Some(reader) = self.readable(session) else {
            return;
        };
        let is_over = !self.is_live(session);
        let mut reader = reader.lock();
        let Ok(()) = reader.read_all(self, session, Extent::Everything, |batch| {
            trace.extend_from_slice(batch);
            Ok::<(), Infallible>(())
        });
        if is_over {
            self.append_recording_end(session, trace);
        }
    }

    /// Appends what has come until now since this was read last, with all that makes it a trace of its
    /// own: what is read goes on exactly where the last reading ended. Nothing comes of the sessions that
    /// [`read`](Self::read) leaves out.
    pub(crate) fn read_part(&self, session: SessionId, trace: &mut Vec<u8>) {
        let Some(reader) = self.readable(session) else {
            return;
        };
        let mut reader = reader.lock();
        self.look(|control| {
            let session = control.sessions.get_mut(&session);
            session.map(TracingSession::begin_trace_anew)
        });
        reader.framer.introduce_anew();
        let Ok(()) = reader.read_all(self, session, Extent::WhatIsThere, |batch| {
            trace.extend_from_slice(batch);
            Ok::<(), Infallible>(())
        });
        self.append_recording_end(session, trace);
    }

    fn append_recording_end(&self, session: SessionId, trace: &mut Vec<u8>) {
        trace.append(&mut self.look(|control| control.recording_end(session, BoundaryKind::END)));
    }

    fn readable(&self, session: SessionId) -> Option<Arc<Mutex<TraceReader>>> {
        self.look(|control| {
            let session = control.sessions.get(&session)?;
            Control::can_be_read(session).then(|| Arc::clone(&session.reader))
        })
    }

    fn reader(&self, session: SessionId) -> Option<Arc<Mutex<TraceReader>>> {
        self.look(|control| Some(Arc::clone(&control.sessions.get(&session)?.reader)))
    }

    fn is_live(&self, session: SessionId) -> bool {
        self.look(|control| {
            let session = control.sessions.get(&session);
            session.is_some_and(TracingSession::is_live)
        })
    }

    /// What was read of a session so far.
    pub(crate) fn read_counts(&self, session: SessionId) -> ReadCounts {
        let reader = self.reader(session);
        reader.map_or_else(ReadCounts::default, |reader| reader.lock().framer.counts)
    }

    /// What a user may see of producers and sessions.
    pub(crate) fn service_state(&self, uid: u32) -> ServiceState {
        self.control.lock().service_state(uid)
    }

    /// Statistics as they are now; `None` if there is no such session.
    pub(crate) fn stats(&self, session: SessionId) -> Option<TraceStats> {
        let reader = self.reader(session)?;
        let mut reader = reader.lock();
        self.look(|control| control.trace_stats(session, &mut reader))
    }
}
