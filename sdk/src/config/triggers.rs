//! Events, named by their triggers, that start, end or clone a session.

use std::time::Duration;

use tracezero_core::protos::owned::trace_config as owned;
use tracezero_core::protos::trace_config::trigger_config as schema;

use super::{TriggerMode, whole_ms};

/// The triggers of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct TriggerConfig {
    pub(super) message: owned::TriggerConfig,
}

impl TriggerConfig {
    /// A session that is ended after `trigger_timeout`, in milliseconds, rounded up, if there was no trigger.
    #[must_use]
    pub fn new(mode: TriggerMode, trigger_timeout: Duration) -> Self {
        Self {
            message: owned::TriggerConfig {
                trigger_mode: Some(schema::TriggerMode(mode as i32)),
                trigger_timeout_ms: Some(whole_ms(trigger_timeout)),
                ..owned::TriggerConfig::default()
            },
        }
    }

    /// Adds a trigger; its name is unique.
    #[must_use]
    pub fn add_trigger(mut self, trigger: Trigger) -> Self {
        self.message.triggers.push(trigger.message);
        self
    }

    /// Turns [`TriggerMode::Stop`] into [`TriggerMode::CloneSnapshot`] where the service can clone.
    #[must_use]
    pub fn use_clone_snapshot_if_available(mut self) -> Self {
        self.message.use_clone_snapshot_if_available = Some(true);
        self
    }
}

/// One trigger: producers activate it by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    message: owned::trigger_config::Trigger,
}

impl Trigger {
    /// A trigger that any producer can activate, as often as it likes.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            message: owned::trigger_config::Trigger {
                name: Some(name.into()),
                ..owned::trigger_config::Trigger::default()
            },
        }
    }

    /// Only producers whose whole name matches this regular expression can activate it.
    #[must_use]
    pub fn producer_name_regex(mut self, regex: impl Into<String>) -> Self {
        self.message.producer_name_regex = Some(regex.into());
        self
    }

    /// Ends or clones the session so long after the trigger, in milliseconds, rounded up.
    #[must_use]
    pub fn stop_delay(mut self, delay: Duration) -> Self {
        self.message.stop_delay_ms = Some(whole_ms(delay));
        self
    }

    /// Ignores the trigger once it was activated so often within 24 hours; 0 for no limit.
    #[must_use]
    pub fn max_per_24_h(mut self, count: u32) -> Self {
        self.message.max_per_24_h = Some(count);
        self
    }

    /// Ignores the trigger with this probability, 0 to 1.
    #[must_use]
    pub fn skip_probability(mut self, probability: f64) -> Self {
        self.message.skip_probability = Some(probability);
        self
    }
}
