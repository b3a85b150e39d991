//! Triggers: events, named by producers, that start, end or clone sessions.

use std::sync::Arc;

use super::control::Control;
use super::timers::Timer;
use super::tracing_session::State;
use super::trigger_history::ReceivedTrigger;
use tracezero_config::TriggerMode;
use tracezero_core::ids::{ProducerId, SessionId};

impl Control {
    /// A producer hit triggers: every session that waits for one of them takes it.
    pub(super) fn activate_triggers(&mut self, producer_id: ProducerId, names: &[&str]) {
        for name in names {
            let now_ns = self.environment.now_ns();
            let count = self.triggers.count(now_ns, name);
            let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
            let mut was_taken = false;
            for id in ids {
                was_taken |= self.take_trigger(id, producer_id, name, count);
            }
            if was_taken {
                self.triggers.note(now_ns, name);
            }
        }
    }

    /// Returns whether the session wanted the trigger.
    fn take_trigger(
        &mut self,
        id: SessionId,
        producer_id: ProducerId,
        name: &str,
        count_in_24_h: usize,
    ) -> bool {
        let (Some(session), Some(producer)) =
            (self.sessions.get_mut(&id), self.producers.get(&producer_id))
        else {
            return false;
        };
        if !matches!(session.state, State::Configured | State::Started) {
            return false;
        }
        let recording = Arc::clone(&session.recording);
        let Some(triggers) = &recording.config.triggers else {
            return false;
        };
        let found = triggers
            .triggers
            .iter()
            .position(|trigger| trigger.name == name);
        let Some(index) = found else {
            return false;
        };
        let trigger = &triggers.triggers[index];
        if !recording.trigger_admits_producer(index, &producer.name) {
            return false;
        }
        if self.environment.random_fraction() < trigger.skip_probability {
            return false;
        }
        if trigger.max_per_24_h > 0 && count_in_24_h >= trigger.max_per_24_h as usize {
            return false;
        }
        let is_first = !session.was_triggered;
        session.was_triggered = true;
        session.snapshot_clocks(&*self.environment);
        session.received_triggers.push(ReceivedTrigger {
            timestamp_ns: self.environment.now_ns(),
            name: name.to_owned(),
            producer_name: producer.name.clone(),
            producer_uid: producer.link.client().uid,
            stop_delay_ms: trigger.stop_delay_ms,
        });
        let received = session.received_triggers.len() - 1;
        let delay_ms = u64::from(trigger.stop_delay_ms);
        match triggers.effective_mode() {
            TriggerMode::Start if session.state == State::Configured => {
                self.start_deferred(id);
                // As with durations, 0 means that there is no end.
                if delay_ms > 0 {
                    self.set_timer(id, delay_ms, Timer::Duration);
                }
            }
            TriggerMode::Start => {}
            TriggerMode::Stop if is_first => {
                self.timers.cancel(id, |timer| *timer == Timer::Duration);
                self.set_timer(id, delay_ms, Timer::StopAfterTrigger);
            }
            TriggerMode::Stop => {}
            TriggerMode::CloneSnapshot => {
                let trigger = session.received_triggers[received].clone();
                self.set_timer(id, delay_ms, Timer::CloneAfterTrigger(trigger));
            }
        }
        true
    }

    /// The time has come for the snapshot that a trigger asks for.
    pub(super) fn ask_for_clone(&mut self, id: SessionId, trigger: ReceivedTrigger) {
        if let Some(session) = self.sessions.get(&id) {
            let owner = Arc::clone(&session.owner);
            self.calls.note(move || owner.clone_triggered(&trigger));
        }
    }
}
