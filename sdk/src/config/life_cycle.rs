//! When a session starts and ends, and beside which others it may run.

use super::{TraceConfig, TriggerConfig};

/// Milliseconds that data sources have to stop, unless chosen otherwise.
const DEFAULT_STOP_TIMEOUT_MS: u32 = 5000;

/// Whose producers the service accepts. It holds for the whole service, also after the session.
/// The numbers are those of `LockdownModeOperation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum LockdownMode {
    /// As before.
    #[default]
    Unchanged = 0,
    /// Producers of every user.
    Clear = 1,
    /// Only producers of the user that the service runs as.
    Set = 2,
}

/// A limit on how many sessions run at once that name the same semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSemaphore {
    pub(crate) name: String,
    pub(crate) max_other_session_count: u64,
}

impl SessionSemaphore {
    /// Beside this session at most `max_other_session_count` others run with the semaphore `name`.
    /// The lowest count among the sessions decides.
    #[must_use]
    pub fn new(name: impl Into<String>, max_other_session_count: u64) -> Self {
        Self {
            name: name.into(),
            max_other_session_count,
        }
    }
}

impl TraceConfig {
    /// Lets the session wait for an explicit start. Until then it has its buffers, and data sources
    /// are set up.
    #[must_use]
    pub const fn deferred_start(mut self) -> Self {
        self.deferred_start = true;
        self
    }

    /// Ends the session after `duration_ms` milliseconds; 0 for never.
    #[must_use]
    pub const fn duration_ms(mut self, duration_ms: u32) -> Self {
        self.duration_ms = duration_ms;
        self
    }

    /// Counts the time that the machine is suspended as part of the duration.
    #[must_use]
    pub const fn prefer_suspend_clock_for_duration(mut self) -> Self {
        self.prefer_suspend_clock_for_duration = true;
        self
    }

    /// Chooses how long data sources may take to stop; 0 for the default of 5 s.
    #[must_use]
    pub const fn data_source_stop_timeout_ms(mut self, timeout_ms: u32) -> Self {
        self.data_source_stop_timeout_ms = timeout_ms;
        self
    }

    /// Lets triggers start, end or clone the session.
    #[must_use]
    pub fn triggers(mut self, triggers: TriggerConfig) -> Self {
        self.trigger_config = Some(triggers);
        self
    }

    /// Applies the limits of sessions on machines of users: at most 24 hours, buffers of whole
    /// pages of 4 KiB and 128 MiB together, no deferred start, and no name twice in 5 minutes.
    #[must_use]
    pub const fn enable_extra_guardrails(mut self) -> Self {
        self.enable_extra_guardrails = true;
        self
    }

    /// Raises what the guardrails allow all buffers together, in KiB.
    #[must_use]
    pub const fn guardrail_max_tracing_buffer_size_kb(mut self, size_kb: u32) -> Self {
        self.guardrail_max_tracing_buffer_size_kb = size_kb;
        self
    }

    /// Chooses whose producers the service accepts from now on.
    #[must_use]
    pub const fn lockdown_mode(mut self, mode: LockdownMode) -> Self {
        self.lockdown_mode = mode;
        self
    }

    /// Gives the session a name that no other session has meanwhile.
    #[must_use]
    pub fn unique_session_name(mut self, name: impl Into<String>) -> Self {
        self.unique_session_name = Some(name.into());
        self
    }

    /// Adds a limit on sessions that run at once.
    #[must_use]
    pub fn session_semaphore(mut self, semaphore: SessionSemaphore) -> Self {
        self.session_semaphores.push(semaphore);
        self
    }

    /// Makes the session an exclusive one: it ends all others as it begins, and none begins beside
    /// it without a higher priority. 0 for a session that shares.
    #[must_use]
    pub const fn exclusive_prio(mut self, priority: u32) -> Self {
        self.exclusive_prio = priority;
        self
    }

    /// Milliseconds that data sources have to stop.
    #[must_use]
    pub(crate) const fn effective_data_source_stop_timeout_ms(&self) -> u32 {
        match self.data_source_stop_timeout_ms {
            0 => DEFAULT_STOP_TIMEOUT_MS,
            timeout_ms => timeout_ms,
        }
    }
}
