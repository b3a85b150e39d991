//! The part of the service that one session works with, and the effects of the session on the rest
//! of the service.
//!
//! A method of a session changes that session, sets its timers and notes effects. It never changes
//! another session. `Control::with_session` applies the effects afterwards, in the order in which
//! they were noted.

use std::sync::Arc;

use super::calls::Call;
use super::central_buffer::CentralBuffer;
use super::environment::Environment;
use super::instance::RegisteredDataSource;
use super::limit_log::LimitCounts;
use super::pending_flush::{CloneId, FlushOutcome, FlushThen};
use super::producer_link::ProducerLink;
use super::timers::{Timer, Timers};
use super::tracing_session::{ConcurrentSessionEvent, SessionOwner};
use super::trigger_history::TriggerRate;
use tracezero_core::coordination::{DataSourceSetup, Producer};
use tracezero_core::ids::{FlushId, InstanceId, ProducerId, SessionId};
use tracezero_core::small_map::SmallMap;

/// The state that one session works with while the service is locked.
pub(super) struct Context<'a> {
    /// The id of the session.
    pub(super) session: SessionId,
    pub(super) environment: &'a dyn Environment,
    pub(super) producers: &'a SmallMap<ProducerId, ConnectedProducer>,
    /// The only user whose producers take part; `None` admits all.
    pub(super) only_uid: Option<u32>,
    pub(super) timers: &'a mut Timers,
    pub(super) last_instance: &'a mut InstanceId,
    pub(super) last_flush: &'a mut FlushId,
    pub(super) effects: Vec<Effect>,
}

/// An effect beyond the session that caused it.
pub(super) enum Effect {
    /// Calls a producer or the owner of the session.
    Call(Call),
    /// Calls a producer to set up an instance. The session continues without it if that fails.
    SetUp(SetUp),
    /// Tells the other sessions that this one changed its state.
    StateChanged(ConcurrentSessionEvent),
    /// Counts that a producer has reached the limit of instances.
    InstanceRefused(ProducerId),
    /// A ProtoVM program of this producer was refused.
    ProgramRefused(ProducerId),
    /// Continues a clone after a group of its buffers was flushed.
    CloneFlushed(CloneId, Vec<usize>, FlushOutcome),
    /// Scrapes, without the lock of the service. Then the session continues.
    Scrape(Scrape, AfterScrape),
}

/// The call that sets up an instance.
pub(super) struct SetUp {
    producer: Arc<dyn Producer>,
    pub(super) instance: InstanceId,
    setup: DataSourceSetup,
    /// The configuration that the session has changed to meanwhile.
    changed_config: Option<Arc<[u8]>>,
}

impl SetUp {
    /// Makes the call. Returns false if the producer cannot record.
    pub(super) fn run(&self) -> bool {
        let is_set_up = (self.producer).set_up_data_source(self.instance, &self.setup);
        if let Some(config) = &self.changed_config
            && is_set_up
        {
            self.producer.change_data_source(self.instance, config);
        }
        is_set_up
    }
}

/// Copies finished packets out of chunks that writers still hold. That takes long, so it is done
/// without the lock of the service.
pub(super) struct Scrape {
    pub(super) producers: Vec<Arc<ProducerLink>>,
    pub(super) buffers: Vec<Arc<CentralBuffer>>,
}

impl Scrape {
    pub(super) fn run(&self) {
        for producer in &self.producers {
            producer.scrape(&self.buffers);
        }
    }

    /// Scrapes while the session goes on: only what the thread that writes its file keeps up with.
    pub(super) fn run_while_read(&self) {
        for producer in &self.producers {
            producer.scrape_while_read(&self.buffers);
        }
    }
}

/// The next step of a session, after a scrape.
pub(super) enum AfterScrape {
    /// Ends a flush.
    Flushed(FlushOutcome, FlushThen),
    /// Ends the session.
    End,
}

/// A producer and the data sources that it has registered.
pub(super) struct ConnectedProducer {
    pub(super) name: String,
    pub(super) link: Arc<ProducerLink>,
    pub(super) calls_to: Arc<dyn Producer>,
    pub(super) data_sources: Vec<RegisteredDataSource>,
    /// The name and version of its library; empty if it does not say.
    pub(super) sdk_version: String,
    /// The size of the descriptors of `data_sources`, in bytes.
    pub(super) descriptors_bytes: usize,
    pub(super) trigger_rate: TriggerRate,
    pub(super) limits: LimitCounts,
}

impl Context<'_> {
    /// Notes a call to the owner of the session.
    pub(super) fn call_owner(
        &mut self,
        owner: &Arc<dyn SessionOwner>,
        call: impl FnOnce(&dyn SessionOwner) + Send + 'static,
    ) {
        let owner = Arc::clone(owner);
        self.note_call(move || call(&*owner));
    }

    /// Notes the call that sets up an instance.
    pub(super) fn set_up(
        &mut self,
        producer: &ConnectedProducer,
        instance: InstanceId,
        setup: DataSourceSetup,
        changed_config: Option<Arc<[u8]>>,
    ) {
        self.effects.push(Effect::SetUp(SetUp {
            producer: Arc::clone(&producer.calls_to),
            instance,
            setup,
            changed_config,
        }));
    }

    /// Notes a call to a producer, unless the producer is gone.
    pub(super) fn call_producer(
        &mut self,
        id: ProducerId,
        call: impl FnOnce(&dyn Producer) + Send + 'static,
    ) {
        if let Some(producer) = self.producers.get(&id) {
            let producer = Arc::clone(&producer.calls_to);
            self.note_call(move || call(&*producer));
        }
    }

    pub(super) fn note_call(&mut self, call: impl FnOnce() + Send + 'static) {
        self.effects.push(Effect::Call(Box::new(call)));
    }

    /// Sets a timer `after_ms` milliseconds from now.
    pub(super) fn set_timer(&mut self, after_ms: u64, timer: Timer) {
        let deadline_ns = self.environment.now_ns() + after_ms * 1_000_000;
        self.timers.set(deadline_ns, self.session, timer);
    }

    /// Sets a timer for the next time of day that is a multiple of `period_ms`. So sessions with
    /// the same period act at the same time.
    pub(super) fn set_aligned_timer(&mut self, period_ms: u32, timer: Timer) {
        let period_ms = u64::from(period_ms.max(1));
        let after_ms = period_ms - self.environment.time_of_day_ms() % period_ms;
        self.set_timer(after_ms, timer);
    }

    /// Cancels those timers of the session for which `matches` returns true.
    pub(super) fn cancel_timers(&mut self, matches: impl Fn(&Timer) -> bool) {
        self.timers.cancel(self.session, matches);
    }
}
