//! Which packets the service itself adds to a trace.

use std::time::Duration;

use tracezero_core::protos::BuiltinClock;
use tracezero_core::protos::owned::trace_config as owned;

use super::{PrimaryTraceClock, whole_ms};

/// The packets of the service itself. All are on, except for the events of other sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BuiltinDataSources {
    pub(super) message: owned::BuiltinDataSource,
}

impl BuiltinDataSources {
    /// What a session has that chooses nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves out snapshots of the clocks: timestamps of other clocks cannot be converted.
    #[must_use]
    pub fn without_clock_snapshots(mut self) -> Self {
        self.message.disable_clock_snapshotting = Some(true);
        self
    }

    /// Leaves out the configuration.
    #[must_use]
    pub fn without_trace_config(mut self) -> Self {
        self.message.disable_trace_config = Some(true);
        self
    }

    /// Leaves out the description of the system.
    #[must_use]
    pub fn without_system_info(mut self) -> Self {
        self.message.disable_system_info = Some(true);
        self
    }

    /// Leaves out the events of the session's life: started, flushed, disabled.
    #[must_use]
    pub fn without_service_events(mut self) -> Self {
        self.message.disable_service_events = Some(true);
        self
    }

    /// Leaves the histograms of chunk sizes out of the statistics.
    #[must_use]
    pub fn without_chunk_usage_histograms(mut self) -> Self {
        self.message.disable_chunk_usage_histograms = Some(true);
        self
    }

    /// Leaves out the schemas of data sources; see
    /// [`DataSource::DESCRIPTORS`](crate::DataSource::DESCRIPTORS).
    #[must_use]
    pub fn without_extension_descriptors(mut self) -> Self {
        self.message.disable_extension_descriptors = Some(true);
        self
    }

    /// Adds events for starts and ends of other sessions meanwhile.
    #[must_use]
    pub fn with_concurrent_session_events(mut self) -> Self {
        self.message.enable_concurrent_session_events = Some(true);
        self
    }

    /// Chooses the clock that readers convert all timestamps to.
    #[must_use]
    pub fn primary_trace_clock(mut self, clock: PrimaryTraceClock) -> Self {
        self.message.primary_trace_clock = Some(BuiltinClock(clock as i32));
        self
    }

    /// Chooses how often the trace gets a snapshot of the clocks, in milliseconds, rounded up; zero for the default of 10 s.
    #[must_use]
    pub fn snapshot_interval(mut self, interval: Duration) -> Self {
        self.message.snapshot_interval_ms = Some(whole_ms(interval));
        self
    }
}
