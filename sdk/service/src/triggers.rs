//! Triggers: named events, sent by producers, that start, end or clone sessions.

use std::sync::Arc;

use super::context::Context;
use super::control::Control;
use super::phase::Phase;
use super::timers::Timer;
use super::tracing_session::TracingSession;
use super::trigger_history::ReceivedTrigger;
use tracezero_config::TriggerMode;
use tracezero_core::ids::ProducerId;

impl Control {
    /// Handles triggers that a producer has hit. A session takes a trigger only if its
    /// configuration names it.
    pub(super) fn activate_triggers(&mut self, producer: ProducerId, names: &[&str]) {
        for name in names {
            let now_ns = self.environment.now_ns();
            let count = self.triggers.count(now_ns, name);
            let mut was_taken = false;
            self.for_each_session(|session, context| {
                was_taken |= session.take_trigger(context, producer, name, count);
            });
            if was_taken {
                self.triggers.note(now_ns, name);
            }
        }
    }
}

impl TracingSession {
    /// Handles a trigger. Returns whether the session took it.
    fn take_trigger(
        &mut self,
        context: &mut Context<'_>,
        producer: ProducerId,
        name: &str,
        count_in_24_h: usize,
    ) -> bool {
        if self.phase.end().is_some() {
            return false;
        }
        let recording = Arc::clone(&self.recording);
        let (Some(triggers), Some(producer)) =
            (&recording.config.triggers, context.producers.get(&producer))
        else {
            return false;
        };
        let mut numbered = triggers.triggers.iter().enumerate();
        let Some((index, trigger)) = numbered.find(|(_, trigger)| trigger.name == name) else {
            return false;
        };
        if !recording.trigger_admits_producer(index, &producer.name)
            || context.environment.random_fraction() < trigger.skip_probability
            || (trigger.max_per_24_h > 0 && count_in_24_h >= trigger.max_per_24_h as usize)
        {
            return false;
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
                context.set_timer(delay_ms, Timer::CloneAfterTrigger(received));
            }
        }
        true
    }

    /// Asks the owner for the clone that a trigger requested.
    pub(super) fn ask_for_clone(&self, context: &mut Context<'_>, trigger: ReceivedTrigger) {
        context.call_owner(&self.owner, move |owner| owner.clone_triggered(&trigger));
    }
}
