//! The configuration of triggers, which start, end or clone a session.

use std::time::Duration;

use tracezero_core::protos::owned::trace_config as owned;
use tracezero_core::protos::trace_config::trigger_config as schema;

use super::{TriggerMode, whole_ms};

/// The triggers of a session.
///
/// ```
/// use std::time::Duration;
///
/// use tracezero::{TraceConfig, Trigger, TriggerConfig, TriggerMode, activate_trigger, instant};
///
/// let triggers = TriggerConfig::new(TriggerMode::Stop, Duration::from_secs(60))
///     .add_trigger(Trigger::new("too slow"));
/// let session = TraceConfig::default()
///     .triggers(triggers)
///     .record_in_memory()?;
/// instant!("app", "before");
/// activate_trigger("too slow");
/// assert!(session.control().wait(Duration::from_secs(10)));
/// instant!("app", "after");
/// assert_eq!(session.finish().1.events, 1);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TriggerConfig {
    pub(super) message: owned::TriggerConfig,
}

impl TriggerConfig {
    /// Creates a configuration without triggers. If no trigger arrives within `trigger_timeout`,
    /// rounded up to milliseconds, the session ends. In the mode [`TriggerMode::CloneSnapshot`], it
    /// ends at that time even if triggers have arrived.
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

    /// Adds a trigger. Its name must be unique in the configuration.
    #[must_use]
    pub fn add_trigger(mut self, trigger: Trigger) -> Self {
        self.message.triggers.push(trigger.message);
        self
    }

    /// Replaces [`TriggerMode::Stop`] by [`TriggerMode::CloneSnapshot`] if the service supports
    /// clones.
    #[must_use]
    pub fn use_clone_snapshot_if_available(mut self) -> Self {
        self.message.use_clone_snapshot_if_available = Some(true);
        self
    }
}

/// A trigger, which producers activate by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    message: owned::trigger_config::Trigger,
}

impl Trigger {
    /// Creates a trigger that any producer can activate, as often as it likes.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            message: owned::trigger_config::Trigger {
                name: Some(name.into()),
                ..owned::trigger_config::Trigger::default()
            },
        }
    }

    /// Limits the trigger to producers whose whole name matches this regular expression.
    #[must_use]
    pub fn producer_name_regex(mut self, regex: impl Into<String>) -> Self {
        self.message.producer_name_regex = Some(regex.into());
        self
    }

    /// Sets the time from the trigger until the session is ended or cloned, rounded up to
    /// milliseconds.
    #[must_use]
    pub fn stop_delay(mut self, delay: Duration) -> Self {
        self.message.stop_delay_ms = Some(whole_ms(delay));
        self
    }

    /// Ignores the trigger after it was activated `count` times within 24 hours, or 10,000 times if
    /// `count` is larger. 0 stands for no limit.
    #[must_use]
    pub fn max_per_24_h(mut self, count: u32) -> Self {
        self.message.max_per_24_h = Some(count);
        self
    }

    /// Ignores the trigger with this probability, from 0 to 1.
    #[must_use]
    pub fn skip_probability(mut self, probability: f64) -> Self {
        self.message.skip_probability = Some(probability);
        self
    }
}
