//! Flushing: data sources commit what they hold and acknowledge it. Then the service scrapes the
//! chunks that writers have not committed.

use std::ops::RangeBounds;

use super::context::{AfterScrape, Context, Effect};
use super::lifecycle_events::Event;
use super::pending_flush::{FlushOutcome, FlushThen, PendingFlush};
use super::phase::End;
use super::timers::Timer;
use super::tracing_session::TracingSession;
use tracezero_core::coordination::{FlushFlags, FlushReason};
use tracezero_core::ids::{FlushId, ProducerId};

/// The maximum number of flushes of one session that may be pending.
const FLUSHES_MAX: usize = 1000;

impl TracingSession {
    /// Asks data sources to flush. If `buffers` gives positions of buffers, asks only data sources
    /// that write to one of them. A `timeout_ms` of 0 means the configured timeout.
    pub(super) fn flush(
        &mut self,
        context: &mut Context<'_>,
        timeout_ms: u32,
        flags: FlushFlags,
        buffers: Option<&[usize]>,
        then: FlushThen,
    ) {
        self.flush_counts.requested += 1;
        if !self.is_started() || self.flushes.len() >= FLUSHES_MAX {
            return self.flush_failed(context, then);
        }
        self.note_event(context.environment, Event::FlushStarted);
        context.last_flush.0 += 1;
        let flush = *context.last_flush;
        let asked = self.instances_by_producer(|instance| {
            instance.is_flushed()
                && buffers.is_none_or(|buffers| buffers.contains(&instance.buffer_index))
        });
        let pending = PendingFlush {
            producers: asked.keys().copied().collect(),
            flags,
            then,
        };
        self.flushes.insert(flush, pending);
        if asked.is_empty() {
            return self.complete_flush(context, flush);
        }
        for (producer, instances) in asked {
            context.call_producer(producer, move |to| to.flush(flush, &instances, flags));
        }
        let timeout_ms = match timeout_ms {
            0 => self.recording.config.flush_timeout_ms,
            timeout_ms => timeout_ms,
        };
        let timeout_ms = self.answer_timeout_ms(timeout_ms);
        context.set_timer(u64::from(timeout_ms), Timer::FlushTimeout(flush));
    }

    /// Removes a producer from pending flushes: it has acknowledged them, or has disconnected.
    pub(super) fn flushes_answered(
        &mut self,
        context: &mut Context<'_>,
        producer: ProducerId,
        flushes: impl RangeBounds<FlushId>,
    ) {
        let mut complete = Vec::new();
        for (&flush, pending) in self.flushes.iter_mut() {
            if flushes.contains(&flush)
                && let Ok(place) = pending.producers.binary_search(&producer)
            {
                pending.producers.remove(place);
                if pending.producers.is_empty() {
                    complete.push(flush);
                }
            }
        }
        for flush in complete {
            self.complete_flush(context, flush);
        }
    }

    pub(super) fn flush_timed_out(&mut self, context: &mut Context<'_>, flush: FlushId) {
        let Some(pending) = self.flushes.get(&flush) else {
            return;
        };
        if matches!(
            pending.flags.reason,
            FlushReason::TraceStop | FlushReason::TraceClone
        ) {
            let names = self.names_of(|instance| {
                pending.producers.contains(&instance.producer) && instance.is_flushed()
            });
            self.note_event(context.environment, Event::LastFlushSlowDataSources(names));
        }
        self.complete_flush(context, flush);
    }

    /// Ends a flush. If producers did not answer, the flush has failed. The session is scraped in
    /// any case.
    fn complete_flush(&mut self, context: &mut Context<'_>, flush: FlushId) {
        context.cancel_timers(|timer| *timer == Timer::FlushTimeout(flush));
        let Some(pending) = self.flushes.remove(&flush) else {
            return;
        };
        let outcome = if pending.producers.is_empty() {
            self.flush_counts.succeeded += 1;
            self.events
                .retract(|event| matches!(event, Event::LastFlushSlowDataSources(_)));
            FlushOutcome::Succeeded
        } else {
            self.flush_counts.failed += 1;
            FlushOutcome::Failed
        };
        self.note_event(context.environment, Event::AllDataSourcesFlushed);
        self.scrape_then(context, AfterScrape::Flushed(outcome, pending.then));
    }

    /// Handles a flush that could not begin, or whose session ended before it.
    pub(super) fn flush_failed(&mut self, context: &mut Context<'_>, then: FlushThen) {
        self.flush_counts.failed += 1;
        self.after_flush(context, FlushOutcome::Failed, then);
    }

    pub(super) fn after_flush(
        &mut self,
        context: &mut Context<'_>,
        outcome: FlushOutcome,
        then: FlushThen,
    ) {
        match then {
            FlushThen::Nothing => {}
            FlushThen::Disable => self.disable(context, End::after_flush(outcome)),
            FlushThen::WriteIntoFile => self.ask_to_write(context),
            FlushThen::Clone(clone, group) => {
                let flushed = Effect::CloneFlushed(clone, group, outcome);
                context.effects.push(flushed);
            }
            FlushThen::Tell(tell) => context.note_call(move || tell(outcome)),
        }
    }

    pub(super) fn flush_periodically(&mut self, context: &mut Context<'_>) {
        let Some(period_ms) = self.flush_period_ms() else {
            return;
        };
        let flags = FlushFlags::by_service(FlushReason::Periodic);
        self.flush(context, 0, flags, None, FlushThen::Nothing);
        context.set_aligned_timer(period_ms, Timer::PeriodicFlush);
    }
}
