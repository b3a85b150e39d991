//! Flushing: data sources commit what they hold, and say so; then what writers have not committed
//! is scraped.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::control::Control;
use super::lifecycle_events::{DataSourceName, Event};
use super::pending_flush::{FlushOutcome, FlushThen, PendingFlush};
use super::timers::Timer;
use super::tracing_session::{State, TracingSession};
use tracezero_core::coordination::{FlushFlags, FlushReason};
use tracezero_core::ids::{FlushId, InstanceId, ProducerId, SessionId};

/// Flushes of one session that may be under way at once.
const FLUSHES_MAX: usize = 1000;

impl Control {
    /// Has the data sources of a session flush; those that write to one of `buffers` only, if
    /// given by their position. A `timeout_ms` of 0 means that of the configuration.
    pub(super) fn flush(
        &mut self,
        id: SessionId,
        timeout_ms: u32,
        flags: FlushFlags,
        buffers: Option<&[usize]>,
        then: FlushThen,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return self.after_flush(id, FlushOutcome::Failed, then);
        };
        if session.state != State::Started || session.flushes.len() >= FLUSHES_MAX {
            session.flush_counts.requested += 1;
            session.flush_counts.failed += 1;
            self.after_flush(id, FlushOutcome::Failed, then);
            return;
        }
        session.flush_counts.requested += 1;
        session.note_event(&*self.environment, Event::FlushStarted);
        self.last_flush.0 += 1;
        let flush = self.last_flush;
        let mut contacted = BTreeSet::new();
        for (&producer_id, producer) in &self.producers {
            let instances: Vec<InstanceId> = session
                .instances
                .iter()
                .filter(|instance| {
                    instance.producer == producer_id
                        && !instance.descriptor.needs_no_flush
                        && buffers.is_none_or(|buffers| buffers.contains(&instance.buffer_index))
                })
                .map(|instance| instance.id)
                .collect();
            if !instances.is_empty() {
                contacted.insert(producer_id);
                let link = Arc::clone(&producer.calls_to);
                self.calls
                    .note(move || link.flush(flush, &instances, flags));
            }
        }
        let timeout_ms = match timeout_ms {
            0 => session.recording.config.flush_timeout_ms,
            timeout_ms => timeout_ms,
        };
        let timeout_ms = session.answer_timeout_ms(timeout_ms);
        let is_done = contacted.is_empty();
        session.flushes.insert(
            flush,
            PendingFlush {
                producers: contacted,
                flags,
                then,
            },
        );
        if is_done {
            self.complete_flush(id, flush);
        } else {
            self.set_timer(id, u64::from(timeout_ms), Timer::FlushTimeout(flush));
        }
    }

    /// A producer has finished a flush and all before it, in whatever session.
    pub(super) fn flush_acknowledged(&mut self, producer: ProducerId, acknowledged: FlushId) {
        let mut complete = Vec::new();
        for (&id, session) in &mut self.sessions {
            for (&flush, pending) in session.flushes.range_mut(..=acknowledged) {
                if pending.producers.remove(&producer) && pending.producers.is_empty() {
                    complete.push((id, flush));
                }
            }
        }
        for (id, flush) in complete {
            self.complete_flush(id, flush);
        }
    }

    /// A producer is gone: nobody waits for it.
    pub(super) fn producer_will_not_flush(&mut self, id: SessionId, producer: ProducerId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let mut complete = Vec::new();
        for (&flush, pending) in &mut session.flushes {
            if pending.producers.remove(&producer) && pending.producers.is_empty() {
                complete.push(flush);
            }
        }
        for flush in complete {
            self.complete_flush(id, flush);
        }
    }

    pub(super) fn flush_timed_out(&mut self, id: SessionId, flush: FlushId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(pending) = session.flushes.get(&flush) else {
            return;
        };
        if matches!(
            pending.flags.reason,
            FlushReason::TraceStop | FlushReason::TraceClone
        ) {
            let names = session
                .instances
                .iter()
                .filter(|instance| {
                    pending.producers.contains(&instance.producer)
                        && !instance.descriptor.needs_no_flush
                })
                .map(|instance| DataSourceName {
                    producer: instance.producer_name.clone(),
                    data_source: instance.descriptor.name.clone(),
                })
                .collect();
            session.note_event(&*self.environment, Event::LastFlushSlowDataSources(names));
        }
        self.complete_flush(id, flush);
    }

    /// Ends a flush. One that producers are missing from has failed, but is scraped like any other.
    fn complete_flush(&mut self, id: SessionId, flush: FlushId) {
        self.timers
            .cancel(id, |timer| *timer == Timer::FlushTimeout(flush));
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(pending) = session.flushes.remove(&flush) else {
            return;
        };
        let outcome = if pending.producers.is_empty() {
            session.flush_counts.succeeded += 1;
            session
                .events
                .retract(|event| matches!(event, Event::LastFlushSlowDataSources(_)));
            FlushOutcome::Succeeded
        } else {
            session.flush_counts.failed += 1;
            FlushOutcome::Failed
        };
        session.note_event(&*self.environment, Event::AllDataSourcesFlushed);
        self.scrape(id);
        self.after_flush(id, outcome, pending.then);
    }

    fn after_flush(&mut self, id: SessionId, outcome: FlushOutcome, then: FlushThen) {
        match then {
            FlushThen::Nothing => {}
            FlushThen::Disable => {
                self.note_final_flush(id, outcome);
                self.disable(id);
            }
            FlushThen::WriteIntoFile => self.ask_to_write(id),
            FlushThen::Clone(clone, group) => self.clone_flushed(clone, &group, outcome),
            FlushThen::Tell(tell) => self.calls.note(move || tell(outcome)),
        }
    }

    /// The session ended before a flush did.
    pub(super) fn finish_flush_of_ended(&mut self, id: SessionId, pending: PendingFlush) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.flush_counts.failed += 1;
        }
        self.after_flush(id, FlushOutcome::Failed, pending.then);
    }

    pub(super) fn flush_periodically(&mut self, id: SessionId) {
        let Some(period_ms) = self
            .sessions
            .get(&id)
            .and_then(TracingSession::flush_period_ms)
        else {
            return;
        };
        let flags = FlushFlags::by_service(FlushReason::Periodic);
        self.flush(id, 0, flags, None, FlushThen::Nothing);
        self.set_aligned_timer(id, period_ms, Timer::PeriodicFlush);
    }
}
