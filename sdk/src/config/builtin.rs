//! The choice of packets that the service itself adds to a trace.

use std::time::Duration;

use tracezero_core::protos::BuiltinClock;
use tracezero_core::protos::owned::trace_config as owned;

use super::{PrimaryTraceClock, whole_ms};

/// The packets that the service itself adds to a trace. By default it adds all of them except for
/// events about other sessions.
///
/// ```
/// use tracezero::{BuiltinDataSources, TraceConfig};
///
/// let builtin = BuiltinDataSources::new()
///     .without_system_info()
///     .without_trace_config();
/// let small = TraceConfig::default().builtin_data_sources(builtin);
/// let (small, _) = small.record_in_memory()?.finish();
/// let (whole, _) = TraceConfig::default().record_in_memory()?.finish();
/// assert!(small.len() < whole.len());
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BuiltinDataSources {
    pub(super) message: owned::BuiltinDataSource,
    pub(super) without_trace_attributes: bool,
}

impl BuiltinDataSources {
    /// Chooses the default: the service adds all of its own packets, except events about other
    /// sessions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves out snapshots of the clocks. Readers then cannot convert timestamps between clocks.
    #[must_use]
    pub fn without_clock_snapshots(mut self) -> Self {
        self.message.disable_clock_snapshotting = Some(true);
        self
    }

    /// Leaves out the configuration of the session.
    #[must_use]
    pub fn without_trace_config(mut self) -> Self {
        self.message.disable_trace_config = Some(true);
        self
    }

    /// Leaves out the description of the system, and the attributes of the machine and the process, as
    /// [`without_trace_attributes`](Self::without_trace_attributes) does.
    #[must_use]
    pub fn without_system_info(mut self) -> Self {
        self.message.disable_system_info = Some(true);
        self
    }

    /// Leaves out the [attributes](crate::set_service) that name the machine, its boot, the service and
    /// the process. Those of the configuration stay in the trace. The message of a configuration, which a
    /// daemon gets, has no field for this; `disable_system_info` does it there.
    #[must_use]
    pub fn without_trace_attributes(mut self) -> Self {
        self.without_trace_attributes = true;
        self
    }

    /// Leaves out the lifecycle events of the session: started, flushed, disabled.
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

    /// Adds an event whenever another session starts or ends during this one.
    #[must_use]
    pub fn with_concurrent_session_events(mut self) -> Self {
        self.message.enable_concurrent_session_events = Some(true);
        self
    }

    /// Sets the clock that readers convert all timestamps to.
    #[must_use]
    pub fn primary_trace_clock(mut self, clock: PrimaryTraceClock) -> Self {
        self.message.primary_trace_clock = Some(BuiltinClock(clock as i32));
        self
    }

    /// Sets how often the service adds a snapshot of the clocks, rounded up to milliseconds. Zero
    /// stands for the default of 10 s.
    #[must_use]
    pub fn snapshot_interval(mut self, interval: Duration) -> Self {
        self.message.snapshot_interval_ms = Some(whole_ms(interval));
        self
    }
}
