//! The state of the service, under one lock: producers, sessions, timers and noted calls. Commits
//! of chunks do not need this lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::calls::Calls;
use super::context::{AfterScrape, ConnectedProducer, Context, Effect, SetUp};
use super::environment::Environment;
use super::instance::Registration;
use super::limit_log::{LimitReached, ProducerLimit};
use super::pending_clone::PendingClone;
use super::pending_flush::{CloneId, FlushOutcome, FlushThen};
use super::producer_link::RefusedCommits;
use super::timers::Timers;
use super::tracing_session::TracingSession;
use super::trigger_history::TriggerHistory;
use tracezero_core::ids::{FlushId, InstanceId, ProducerId, SessionId};
use tracezero_core::small_map::SmallMap;

/// Limits on sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of sessions that may exist at once. A session exists until it is freed.
    pub sessions: usize,
    /// The number of sessions that one user may have.
    pub sessions_per_uid: usize,
    /// The size of the trace buffers of all sessions and clones, in bytes.
    pub buffers_bytes: u64,
}

impl Default for Limits {
    /// Returns the limits of Perfetto's own service, which does not limit the size of buffers.
    fn default() -> Self {
        Self {
            sessions: 15,
            sessions_per_uid: 5,
            buffers_bytes: u64::MAX,
        }
    }
}

/// State that is read and changed under the service's lock.
///
/// The methods are spread over the files of this folder by subject. This file has those that are
/// about several sessions. Methods about one session are in [`TracingSession`], and
/// [`Control::with_session`] calls them.
pub(crate) struct Control {
    pub(super) environment: Arc<dyn Environment>,
    pub(super) limits: Limits,
    pub(super) producers: SmallMap<ProducerId, ConnectedProducer>,
    pub(super) sessions: SmallMap<SessionId, TracingSession>,
    pub(super) timers: Timers,
    pub(super) calls: Calls<Self>,
    pub(super) triggers: TriggerHistory,
    /// The number of data sources that were refused because a limit was reached.
    pub(super) data_sources_refused: u64,
    /// The number of triggers that were ignored because a limit was reached.
    pub(super) triggers_ignored: u64,
    pub(super) clones: SmallMap<CloneId, PendingClone>,
    pub(super) last_clone: u64,
    /// For each session name, the time of the last start, in nanoseconds on the trace clock.
    pub(super) name_starts: SmallMap<String, u64>,
    pub(super) refused: Arc<RefusedCommits>,
    /// The only user whose producers take part; `None` admits all.
    pub(super) only_uid: Option<u32>,
    pub(super) last_producer: ProducerId,
    pub(super) last_registration: Registration,
    pub(super) last_session: SessionId,
    pub(super) last_instance: InstanceId,
    pub(super) last_flush: FlushId,
    /// The buffer id that was assigned last; 0 at first.
    pub(super) last_buffer: u16,
}

impl Control {
    pub(super) fn new(environment: Arc<dyn Environment>, limits: Limits) -> Self {
        Self {
            environment,
            limits,
            producers: SmallMap::new(),
            sessions: SmallMap::new(),
            timers: Timers::default(),
            calls: Calls::default(),
            triggers: TriggerHistory::default(),
            data_sources_refused: 0,
            triggers_ignored: 0,
            clones: SmallMap::new(),
            last_clone: 0,
            name_starts: SmallMap::new(),
            refused: Arc::default(),
            only_uid: None,
            last_producer: ProducerId::new(0),
            last_registration: Registration(0),
            last_session: SessionId::new(0),
            last_instance: InstanceId(0),
            last_flush: FlushId(0),
            last_buffer: 0,
        }
    }

    /// Returns an id that no producer has. Numbers come again after all others, so that no sequence
    /// of a producer that is gone is continued by another one.
    pub(super) fn next_producer_id(&mut self) -> ProducerId {
        loop {
            let number = self.last_producer.value().wrapping_add(1);
            self.last_producer = ProducerId::new(number);
            if number != 0 && !self.producers.contains_key(&self.last_producer) {
                return self.last_producer;
            }
        }
    }

    /// Calls `work` with a session, then applies the effects that it noted. Returns `None` if there
    /// is no such session.
    pub(super) fn with_session<R>(
        &mut self,
        id: SessionId,
        work: impl FnOnce(&mut TracingSession, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let session = self.sessions.get_mut(&id)?;
        let mut context = Context {
            session: id,
            environment: &*self.environment,
            producers: &self.producers,
            only_uid: self.only_uid,
            timers: &mut self.timers,
            last_instance: &mut self.last_instance,
            last_flush: &mut self.last_flush,
            effects: Vec::new(),
        };
        let result = work(session, &mut context);
        let effects = context.effects;
        self.apply(id, effects);
        Some(result)
    }

    fn apply(&mut self, id: SessionId, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Call(call) => self.calls.note(call),
                Effect::SetUp(set_up) => self.note_set_up(id, set_up),
                Effect::StateChanged(event) => self.tell_others(&event),
                Effect::InstanceRefused(producer) => {
                    self.limit_reached(producer, ProducerLimit::Instances, 1);
                }
                Effect::ProgramRefused(producer) => {
                    self.limit_reached(producer, ProducerLimit::Programs, 1);
                }
                Effect::CloneFlushed(clone, group, outcome) => {
                    self.clone_flushed(clone, &group, outcome);
                }
                Effect::Scrape(scrape, then) => self.calls.note_work(
                    match then {
                        // Nothing is scraped later.
                        AfterScrape::End => Box::new(move || scrape.run()),
                        AfterScrape::Flushed(..) => Box::new(move || scrape.run_while_read()),
                    },
                    Box::new(move |control| control.continue_after_scrape(id, then)),
                ),
            }
        }
    }

    fn note_set_up(&mut self, session: SessionId, set_up: SetUp) {
        let instance = set_up.instance;
        let has_failed = Arc::new(AtomicBool::new(false));
        let fails = Arc::clone(&has_failed);
        self.calls.note_work(
            // Relaxed, like the load: the thread that makes a call continues after it.
            Box::new(move || fails.store(!set_up.run(), Ordering::Relaxed)),
            Box::new(move |control| {
                if has_failed.load(Ordering::Relaxed) {
                    control.with_session(session, |session, context| {
                        session.instance_failed(context, instance);
                    });
                }
            }),
        );
    }

    fn continue_after_scrape(&mut self, id: SessionId, then: AfterScrape) {
        if self.sessions.contains_key(&id) {
            self.with_session(id, |session, context| {
                session.continue_after_scrape(context, then);
            });
        } else if let AfterScrape::Flushed(_, FlushThen::Tell(tell)) = then {
            // The session was freed meanwhile.
            self.calls
                .note(Box::new(move || tell(FlushOutcome::Failed)));
        }
    }

    pub(super) fn for_each_session(
        &mut self,
        mut work: impl FnMut(&mut TracingSession, &mut Context<'_>),
    ) {
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.with_session(id, &mut work);
        }
    }

    /// Runs the timers that are due.
    pub(super) fn run_due_timers(&mut self) {
        let now_ns = self.environment.now_ns();
        while let Some((session, timer)) = self.timers.pop_due(now_ns) {
            self.with_session(session, |session, context| {
                session.timer_is_due(context, timer);
            });
        }
    }

    /// Removes a producer. Packets that it has finished in its chunks are kept, then its instances
    /// end.
    ///
    /// The caller must drop the returned value without the lock, as for [`Control::free`].
    #[must_use]
    pub(super) fn producer_disconnected(&mut self, id: ProducerId) -> Option<ConnectedProducer> {
        self.tell_last_limits(id);
        let producer = self.producers.remove(&id)?;
        let link = Arc::clone(&producer.link);
        for totals in producer.calls_to.writer_totals() {
            if let Some(buffer) = link.buffer(totals.target_buffer) {
                buffer.note_gone(id, totals);
            }
        }
        self.calls.note_work(
            Box::new(move || {
                link.scrape_all();
                link.unregister_writers();
            }),
            Box::new(move |control| {
                control.for_each_session(|session, context| {
                    session.remove_instances(context, |instance| instance.producer == id);
                });
                // Do not wait for the producer to answer flushes.
                control.for_each_session(|session, context| {
                    session.flushes_answered(context, id, ..);
                });
            }),
        );
        Some(producer)
    }

    /// Counts that a producer has reached a limit, and tells the environment.
    pub(super) fn limit_reached(&mut self, id: ProducerId, limit: ProducerLimit, count: u64) {
        match limit {
            ProducerLimit::DataSources => self.data_sources_refused += count,
            ProducerLimit::Triggers => self.triggers_ignored += count,
            // The session has counted it.
            ProducerLimit::Instances => {}
            // Nothing is lost but the state.
            ProducerLimit::Programs => {}
        }
        let now_ns = self.environment.now_ns();
        let producer = self.producers.get_mut(&id);
        let told = producer.and_then(|producer| producer.limits.note(now_ns, limit, count));
        if let Some(count) = told {
            self.tell_limit(id, limit, count);
        }
    }

    /// Tells the counts of a producer that is about to be removed.
    fn tell_last_limits(&mut self, id: ProducerId) {
        for limit in ProducerLimit::ALL {
            let producer = self.producers.get(&id);
            let untold = producer.map_or(0, |it| it.limits.untold(limit));
            if untold > 0 {
                self.tell_limit(id, limit, untold);
            }
        }
    }

    fn tell_limit(&mut self, id: ProducerId, limit: ProducerLimit, count: u64) {
        let Some(producer) = self.producers.get(&id) else {
            return;
        };
        let reached = LimitReached {
            producer: id,
            producer_name: producer.name.clone(),
            uid: producer.link.client().uid,
            limit,
            count,
        };
        let environment = Arc::clone(&self.environment);
        self.calls
            .note(Box::new(move || environment.limit_reached(&reached)));
    }
}
