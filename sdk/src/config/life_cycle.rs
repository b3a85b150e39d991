//! When a session starts and ends, and beside which others it may run.

use std::time::Duration;

use tracezero_core::protos::owned;
use tracezero_core::protos::trace_config::LockdownModeOperation;

use super::{LockdownMode, TraceConfig, TriggerConfig, whole_ms};

/// A limit on how many sessions run at once that name the same semaphore.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSemaphore {
    message: owned::trace_config::SessionSemaphore,
}

impl SessionSemaphore {
    /// Beside this session at most `max_other_session_count` others run with the semaphore `name`.
    /// The lowest count among the sessions decides.
    #[must_use]
    pub fn new(name: impl Into<String>, max_other_session_count: u64) -> Self {
        Self {
            message: owned::trace_config::SessionSemaphore {
                name: Some(name.into()),
                max_other_session_count: Some(max_other_session_count),
                ..owned::trace_config::SessionSemaphore::default()
            },
        }
    }
}

impl TraceConfig {
    /// Lets the session wait for an explicit start. Until then it has its buffers, and data sources
    /// are set up.
    #[must_use]
    pub fn deferred_start(mut self) -> Self {
        self.message.deferred_start = Some(true);
        self
    }

    /// Ends the session after this time, in milliseconds, rounded up; zero for never.
    #[must_use]
    pub fn duration(mut self, duration: Duration) -> Self {
        self.message.duration_ms = Some(whole_ms(duration));
        self
    }

    /// Counts the time that the machine is suspended as part of the duration.
    #[must_use]
    pub fn prefer_suspend_clock_for_duration(mut self) -> Self {
        self.message.prefer_suspend_clock_for_duration = Some(true);
        self
    }

    /// Chooses how long data sources may take to stop, in milliseconds, rounded up; zero for the default of 5 s.
    #[must_use]
    pub fn data_source_stop_timeout(mut self, timeout: Duration) -> Self {
        self.message.data_source_stop_timeout_ms = Some(whole_ms(timeout));
        self
    }

    /// Lets triggers start, end or clone the session.
    #[must_use]
    pub fn triggers(mut self, triggers: TriggerConfig) -> Self {
        self.message.trigger_config = Some(triggers.message);
        self
    }

    /// Applies the limits of sessions on machines of users: at most 24 hours, buffers of whole
    /// pages of 4 KiB and 128 MiB together, no deferred start, and no name twice in 5 minutes.
    #[must_use]
    pub fn enable_extra_guardrails(mut self) -> Self {
        self.message.enable_extra_guardrails = Some(true);
        self
    }

    /// Raises what the guardrails allow all buffers together, in KiB.
    #[must_use]
    pub fn guardrail_max_tracing_buffer_size_kb(mut self, size_kb: u32) -> Self {
        let overrides = self.message.guardrail_overrides.get_or_insert_default();
        overrides.max_tracing_buffer_size_kb = Some(size_kb);
        self
    }

    /// Chooses whose producers the service accepts from now on.
    #[must_use]
    pub fn lockdown_mode(mut self, mode: LockdownMode) -> Self {
        self.message.lockdown_mode = Some(LockdownModeOperation(mode as i32));
        self
    }

    /// Gives the session a name that no other session has meanwhile.
    #[must_use]
    pub fn unique_session_name(mut self, name: impl Into<String>) -> Self {
        self.message.unique_session_name = Some(name.into());
        self
    }

    /// Adds a limit on sessions that run at once.
    #[must_use]
    pub fn add_session_semaphore(mut self, semaphore: SessionSemaphore) -> Self {
        self.message.session_semaphores.push(semaphore.message);
        self
    }

    /// Makes the session an exclusive one: it ends all others as it begins, and none begins beside
    /// it without a higher priority. 0 for a session that shares.
    #[must_use]
    pub fn exclusive_prio(mut self, priority: u32) -> Self {
        self.message.exclusive_prio = Some(priority);
        self
    }
}
