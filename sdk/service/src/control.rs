//! The service's books, under one lock: who is connected, which sessions there are, what is to be
//! done and when. Chunks are committed without it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::calls::Calls;
use super::environment::Environment;
use super::instance::{RegisteredDataSource, Registration};
use super::pending_clone::PendingClone;
use super::pending_flush::CloneId;
use super::producer_link::{ProducerLink, RefusedCommits};
use super::timers::{Timer, Timers};
use super::tracing_session::TracingSession;
use super::trigger_history::TriggerHistory;
use tracezero_core::coordination::Producer;
use tracezero_core::ids::{FlushId, InstanceId, ProducerId, SessionId};

/// How many sessions there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions that are not freed.
    pub sessions: usize,
    /// Of one user.
    pub sessions_per_uid: usize,
}

impl Default for Limits {
    /// Those of the reference.
    fn default() -> Self {
        Self {
            sessions: 15,
            sessions_per_uid: 5,
        }
    }
}

/// State that is read and changed under the service's lock. Methods are spread over the files of
/// this folder, by subject.
pub(crate) struct Control {
    pub(super) environment: Arc<dyn Environment>,
    pub(super) limits: Limits,
    pub(super) producers: BTreeMap<ProducerId, ConnectedProducer>,
    pub(super) sessions: BTreeMap<SessionId, TracingSession>,
    pub(super) timers: Timers,
    pub(super) calls: Calls,
    pub(super) triggers: TriggerHistory,
    pub(super) clones: BTreeMap<CloneId, PendingClone>,
    pub(super) last_clone: u64,
    /// When sessions with a name began, in nanoseconds on the trace clock.
    pub(super) name_starts: BTreeMap<String, u64>,
    pub(super) refused: Arc<RefusedCommits>,
    /// Whether only producers of the service's own user take part.
    pub(super) is_locked_down: bool,
    pub(super) last_producer: ProducerId,
    pub(super) last_registration: Registration,
    pub(super) last_session: SessionId,
    pub(super) last_instance: InstanceId,
    pub(super) last_flush: FlushId,
    /// The buffer id that was given out last; 0 at first.
    pub(super) last_buffer: u16,
}

/// A producer, and what it offers.
pub(super) struct ConnectedProducer {
    pub(super) name: String,
    pub(super) link: Arc<ProducerLink>,
    pub(super) calls_to: Arc<dyn Producer>,
    pub(super) data_sources: Vec<RegisteredDataSource>,
}

impl Control {
    pub(super) fn new(environment: Arc<dyn Environment>, limits: Limits) -> Self {
        Self {
            environment,
            limits,
            producers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            timers: Timers::default(),
            calls: Calls::default(),
            triggers: TriggerHistory::default(),
            clones: BTreeMap::new(),
            last_clone: 0,
            name_starts: BTreeMap::new(),
            refused: Arc::default(),
            is_locked_down: false,
            last_producer: ProducerId(0),
            last_registration: Registration(0),
            last_session: SessionId(0),
            last_instance: InstanceId(0),
            last_flush: FlushId(0),
            last_buffer: 0,
        }
    }

    /// Does what is due; returns when the next thing is, on the trace clock.
    pub(super) fn run_due_timers(&mut self) -> Option<u64> {
        let now_ns = self.environment.now_ns();
        while let Some((session, timer)) = self.timers.pop_due(now_ns) {
            self.timer_is_due(session, timer);
        }
        self.timers.next_deadline_ns()
    }

    fn timer_is_due(&mut self, session: SessionId, timer: Timer) {
        match timer {
            Timer::Duration | Timer::StopAfterTrigger => self.flush_and_disable(session),
            Timer::StartTriggerTimeout => self.disable(session),
            Timer::CloneAfterTrigger(trigger) => self.ask_for_clone(session, trigger),
            Timer::StopTimeout => self.disable_now(session),
            Timer::SlowStart => self.note_slow_starters(session),
            Timer::FlushTimeout(flush) => self.flush_timed_out(session, flush),
            Timer::PeriodicFlush => self.flush_periodically(session),
            Timer::WriteIntoFile => self.write_periodically(session),
            Timer::ClearIncrementalState => self.clear_incremental_state(session),
            Timer::SnapshotClocks => self.snapshot_clocks_periodically(session),
        }
    }

    /// Sets a timer `after_ms` milliseconds from now.
    pub(super) fn set_timer(&mut self, session: SessionId, after_ms: u64, timer: Timer) {
        let deadline_ns = self.environment.now_ns() + after_ms * 1_000_000;
        self.timers.set(deadline_ns, session, timer);
    }

    /// Sets a timer for the next multiple of `period_ms` of the time of day, so that sessions with
    /// the same period work together.
    pub(super) fn set_aligned_timer(&mut self, session: SessionId, period_ms: u32, timer: Timer) {
        let period_ms = u64::from(period_ms.max(1));
        let after_ms = period_ms - self.environment.time_of_day_ms() % period_ms;
        self.set_timer(session, after_ms, timer);
    }

    /// The producer is gone: what it has finished in its chunks is kept, its instances end. What is
    /// returned is to be dropped without the lock, like [`Control::free`]'s.
    #[must_use]
    pub(super) fn producer_disconnected(&mut self, id: ProducerId) -> Option<ConnectedProducer> {
        let producer = self.producers.remove(&id)?;
        for session in self.sessions.values() {
            producer.link.scrape(&session.buffers);
        }
        self.remove_instances(|instance| instance.producer == id);
        let flushing: Vec<SessionId> = self.sessions.keys().copied().collect();
        for session in flushing {
            self.producer_will_not_flush(session, id);
        }
        Some(producer)
    }
}
