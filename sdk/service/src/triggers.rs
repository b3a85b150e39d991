//! Triggers: named events, sent by producers, that start, end or clone sessions.

use std::sync::Arc;

use super::context::Context;
use super::control::Control;
use super::limit_log::ProducerLimit;
use super::phase::Phase;
use super::timers::Timer;
use super::tracing_session::TracingSession;
use super::trigger_history::{HITS_KEPT_MAX, ReceivedTrigger};
use tracezero_config::TriggerMode;
use tracezero_core::coordination::NAME_MAX_BYTES;
use tracezero_core::ids::ProducerId;

/// The maximum number of triggers that one call activates.
const TRIGGERS_PER_CALL_MAX: usize = 64;

/// The maximum number of triggers of a session that wait to be in a trace, and the maximum number of
/// those that wait to ask for a clone.
const RECEIVED_TRIGGERS_MAX: usize = 64;

/// The outcome of a trigger in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TriggerOutcome {
    Taken,
    /// The session does not wait for it.
    NotMeant,
    /// The session has too many others.
    Ignored,
}

impl Control {
    /// Handles triggers that a producer has hit. A session takes a trigger only if its
    /// configuration names it.
    ///
    /// Perfetto's own service takes any number. Here the limits hold for all producers, because each
    /// trigger may make a clone.
    pub(super) fn activate_triggers(&mut self, producer_id: ProducerId, names: &[&str]) {
        let now_ns = self.environment.now_ns();
        let Some(producer) = self.producers.get_mut(&producer_id) else {
            return;
        };
        let heard_max = match producer.trigger_rate.admits(now_ns) {
            true => TRIGGERS_PER_CALL_MAX,
            false => 0,
        };
        let (heard, unheard) = names.split_at(names.len().min(heard_max));
        if !unheard.is_empty() {
            self.limit_reached(producer_id, ProducerLimit::Triggers, unheard.len() as u64);
        }
        for name in heard {
            self.activate_trigger(producer_id, now_ns, name);
        }
    }

    fn activate_trigger(&mut self, producer: ProducerId, now_ns: u64, name: &str) {
        if name.len() > NAME_MAX_BYTES {
            return self.limit_reached(producer, ProducerLimit::Triggers, 1);
        }
        let count = self.triggers.count(now_ns, name);
        let mut was_taken = false;
        let mut ignored = 0;
        self.for_each_session(|session, context| {
            match session.take_trigger(context, producer, name, count) {
                TriggerOutcome::Taken => was_taken = true,
                TriggerOutcome::NotMeant => {}
                TriggerOutcome::Ignored => ignored += 1,
            }
        });
        if ignored > 0 {
            self.limit_reached(producer, ProducerLimit::Triggers, ignored);
        }
        if was_taken {
            self.triggers.note(now_ns, name);
        }
    }
}

impl TracingSession {
    /// Handles a trigger.
    fn take_trigger(
        &mut self,
        context: &mut Context<'_>,
        producer: ProducerId,
        name: &str,
        count_in_24_h: usize,
    ) -> TriggerOutcome {
        if self.phase.end().is_some() {
            return TriggerOutcome::NotMeant;
        }
        let recording = Arc::clone(&self.recording);
        let (Some(triggers), Some(producer)) =
            (&recording.config.triggers, context.producers.get(&producer))
        else {
            return TriggerOutcome::NotMeant;
        };
        let mut numbered = triggers.triggers.iter().enumerate();
        let Some((index, trigger)) = numbered.find(|(_, trigger)| trigger.name == name) else {
            return TriggerOutcome::NotMeant;
        };
        let hits_max = (trigger.max_per_24_h as usize).min(HITS_KEPT_MAX);
        if !recording.trigger_admits_producer(index, &producer.name)
            || context.environment.random_fraction() < trigger.skip_probability
            || (hits_max > 0 && count_in_24_h >= hits_max)
        {
            return TriggerOutcome::NotMeant;
        }
        if self.received_triggers.len().max(self.clones_due) >= RECEIVED_TRIGGERS_MAX {
            return TriggerOutcome::Ignored;
        }
        let received = ReceivedTrigger {
            timestamp_ns: context.environment.now_ns(),
            name: name.to_owned(),
            producer_name: producer.name.clone(),
            producer_uid: producer.link.client().uid,
            stop_delay_ms: trigger.stop_delay_ms,
        };
        let is_first = !std::mem::replace(&mut self.was_triggered, true);
        self.snapshot_clocks(context.environment);
        self.received_triggers.push(received.clone());
        let delay_ms = u64::from(trigger.stop_delay_ms);
        match triggers.effective_mode() {
            TriggerMode::Start if matches!(self.phase, Phase::Configured) => {
                self.start_deferred(context);
                // As for durations, 0 means that the session does not end by itself.
                if delay_ms > 0 {
                    context.set_timer(delay_ms, Timer::Duration);
                }
            }
            TriggerMode::Stop if is_first => {
                context.cancel_timers(|timer| *timer == Timer::Duration);
                context.set_timer(delay_ms, Timer::StopAfterTrigger);
            }
            TriggerMode::Start | TriggerMode::Stop => {}
            TriggerMode::CloneSnapshot => {
                self.clones_due += 1;
                context.set_timer(delay_ms, Timer::CloneAfterTrigger(received));
            }
        }
        TriggerOutcome::Taken
    }

    /// Asks the owner for the clone that a trigger requested.
    pub(super) fn ask_for_clone(&mut self, context: &mut Context<'_>, trigger: ReceivedTrigger) {
        self.clones_due -= 1;
        context.call_owner(&self.owner, move |owner| owner.clone_triggered(&trigger));
    }
}
