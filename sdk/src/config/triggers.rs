//! Events, named by their triggers, that start, end or clone a session.

/// What triggers do to a session. The numbers are those of the enum of the same name in the
/// schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum TriggerMode {
    /// The session waits for a trigger, and ends [`Trigger::stop_delay_ms`] after it.
    Start = 1,
    /// The session records, and ends [`Trigger::stop_delay_ms`] after its first trigger.
    Stop = 2,
    /// The session records; each trigger asks for a clone of it.
    CloneSnapshot = 4,
}

/// The triggers of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct TriggerConfig {
    pub(crate) mode: TriggerMode,
    pub(crate) triggers: Vec<Trigger>,
    pub(crate) trigger_timeout_ms: u32,
    pub(crate) use_clone_snapshot_if_available: bool,
}

impl TriggerConfig {
    /// A session that is ended after `trigger_timeout_ms` milliseconds if there was no trigger.
    #[must_use]
    pub const fn new(mode: TriggerMode, trigger_timeout_ms: u32) -> Self {
        Self {
            mode,
            triggers: Vec::new(),
            trigger_timeout_ms,
            use_clone_snapshot_if_available: false,
        }
    }

    /// Adds a trigger; its name is unique.
    #[must_use]
    pub fn trigger(mut self, trigger: Trigger) -> Self {
        self.triggers.push(trigger);
        self
    }

    /// Turns [`TriggerMode::Stop`] into [`TriggerMode::CloneSnapshot`] where the service can clone.
    #[must_use]
    pub const fn use_clone_snapshot_if_available(mut self) -> Self {
        self.use_clone_snapshot_if_available = true;
        self
    }

    /// What triggers do: this service can clone.
    #[must_use]
    pub(crate) const fn effective_mode(&self) -> TriggerMode {
        match self.mode {
            TriggerMode::Stop if self.use_clone_snapshot_if_available => TriggerMode::CloneSnapshot,
            mode => mode,
        }
    }
}

/// One trigger: producers activate it by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    pub(crate) name: String,
    /// Empty: any producer can activate it.
    pub(crate) producer_name_regex: String,
    pub(crate) stop_delay_ms: u32,
    /// 0: no limit.
    pub(crate) max_per_24_h: u32,
    /// 0 to 1.
    pub(crate) skip_probability: f64,
}

impl Trigger {
    /// A trigger that any producer can activate, as often as it likes.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            producer_name_regex: String::new(),
            stop_delay_ms: 0,
            max_per_24_h: 0,
            skip_probability: 0.0,
        }
    }

    /// Only producers whose whole name matches this regular expression can activate it.
    #[must_use]
    pub fn producer_name_regex(mut self, regex: impl Into<String>) -> Self {
        self.producer_name_regex = regex.into();
        self
    }

    /// Milliseconds from the trigger to the end of the session, or to its clone.
    #[must_use]
    pub const fn stop_delay_ms(mut self, delay_ms: u32) -> Self {
        self.stop_delay_ms = delay_ms;
        self
    }

    /// Ignores the trigger once it was activated so often within 24 hours; 0 for no limit.
    #[must_use]
    pub const fn max_per_24_h(mut self, count: u32) -> Self {
        self.max_per_24_h = count;
        self
    }

    /// Ignores the trigger with this probability, 0 to 1.
    #[must_use]
    pub const fn skip_probability(mut self, probability: f64) -> Self {
        self.skip_probability = probability;
        self
    }
}
