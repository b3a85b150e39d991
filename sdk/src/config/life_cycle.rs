//! The configuration of when a session starts and ends, and which other sessions may run beside it.

use std::time::Duration;

use tracezero_core::protos::owned;

use super::{TraceConfig, TriggerConfig, whole_ms};

/// A limit on the number of sessions that run at the same time with a semaphore of the same name.
///
/// ```
/// use tracezero::{SessionSemaphore, TraceConfig};
///
/// let alone = TraceConfig::default().add_session_semaphore(SessionSemaphore::new("profiler", 0));
/// let session = alone.clone().record_in_memory()?;
/// assert!(alone.clone().record_in_memory().is_err());
/// drop(session);
/// assert!(alone.record_in_memory().is_ok());
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSemaphore {
    message: owned::trace_config::SessionSemaphore,
}

impl SessionSemaphore {
    /// Creates a semaphore. Beside this session, at most `max_other_session_count` others may run
    /// with the semaphore `name`. If the sessions give different counts, the lowest count holds.
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
    /// Lets the session wait for [`SessionControl::start`](crate::SessionControl::start). Until
    /// then its buffers exist and its data sources are set up, but nothing is recorded.
    #[must_use]
    pub fn deferred_start(mut self) -> Self {
        self.message.deferred_start = Some(true);
        self
    }

    /// Ends the session after this time, rounded up to milliseconds. Zero means that no time limit
    /// is set.
    #[must_use]
    pub fn duration(mut self, duration: Duration) -> Self {
        self.message.duration_ms = Some(whole_ms(duration));
        self
    }

    /// Tells data sources to count the time in which the machine is suspended toward the session's
    /// duration.
    ///
    /// The service itself always counts it. But it may notice the end of the duration late, at most
    /// one [`snapshot_interval`](crate::BuiltinDataSources::snapshot_interval) after the machine
    /// resumes.
    #[must_use]
    pub fn prefer_suspend_clock_for_duration(mut self) -> Self {
        self.message.prefer_suspend_clock_for_duration = Some(true);
        self
    }

    /// Sets how long data sources may take to stop, rounded up to milliseconds. Zero stands for the
    /// default of 5 s.
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

    /// Sets the name of the session. The session does not start while another one has the same
    /// name.
    #[must_use]
    pub fn unique_session_name(mut self, name: impl Into<String>) -> Self {
        self.message.unique_session_name = Some(name.into());
        self
    }

    /// Adds a limit on the number of sessions that run at the same time with the same semaphore.
    #[must_use]
    pub fn add_session_semaphore(mut self, semaphore: SessionSemaphore) -> Self {
        self.message.session_semaphores.push(semaphore.message);
        self
    }

    /// Makes the session exclusive: it ends all other sessions when it starts, and while it runs,
    /// only a session with a higher priority can start. With a priority of 0, the session is not
    /// exclusive.
    #[must_use]
    pub fn exclusive_prio(mut self, priority: u32) -> Self {
        self.message.exclusive_prio = Some(priority);
        self
    }
}
