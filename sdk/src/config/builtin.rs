//! Which packets the service itself adds to a trace.

/// Milliseconds between two snapshots of the clocks, unless chosen otherwise.
const DEFAULT_SNAPSHOT_INTERVAL_MS: u32 = 10_000;

/// The packets of the service itself. All are on, except for the events of other sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuiltinDataSources {
    pub(crate) disable_clock_snapshotting: bool,
    pub(crate) disable_trace_config: bool,
    pub(crate) disable_system_info: bool,
    pub(crate) disable_service_events: bool,
    pub(crate) disable_chunk_usage_histograms: bool,
    pub(crate) disable_extension_descriptors: bool,
    pub(crate) enable_concurrent_session_events: bool,
    /// `None`: the clock of the trace, which is the one since boot.
    pub(crate) primary_trace_clock: Option<PrimaryTraceClock>,
    /// 0: [`BuiltinDataSources::effective_snapshot_interval_ms`] says how long.
    pub(crate) snapshot_interval_ms: u32,
}

impl BuiltinDataSources {
    /// What a session has that chooses nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            disable_clock_snapshotting: false,
            disable_trace_config: false,
            disable_system_info: false,
            disable_service_events: false,
            disable_chunk_usage_histograms: false,
            disable_extension_descriptors: false,
            enable_concurrent_session_events: false,
            primary_trace_clock: None,
            snapshot_interval_ms: 0,
        }
    }

    /// Leaves out snapshots of the clocks: timestamps of other clocks cannot be converted.
    #[must_use]
    pub const fn without_clock_snapshots(mut self) -> Self {
        self.disable_clock_snapshotting = true;
        self
    }

    /// Leaves out the configuration.
    #[must_use]
    pub const fn without_trace_config(mut self) -> Self {
        self.disable_trace_config = true;
        self
    }

    /// Leaves out the description of the system.
    #[must_use]
    pub const fn without_system_info(mut self) -> Self {
        self.disable_system_info = true;
        self
    }

    /// Leaves out the events of the session's life: started, flushed, disabled.
    #[must_use]
    pub const fn without_service_events(mut self) -> Self {
        self.disable_service_events = true;
        self
    }

    /// Leaves the histograms of chunk sizes out of the statistics.
    #[must_use]
    pub const fn without_chunk_usage_histograms(mut self) -> Self {
        self.disable_chunk_usage_histograms = true;
        self
    }

    /// Leaves out the schemas of data sources; see
    /// [`DataSource::DESCRIPTORS`](crate::DataSource::DESCRIPTORS).
    #[must_use]
    pub const fn without_extension_descriptors(mut self) -> Self {
        self.disable_extension_descriptors = true;
        self
    }

    /// Adds events for starts and ends of other sessions meanwhile.
    #[must_use]
    pub const fn with_concurrent_session_events(mut self) -> Self {
        self.enable_concurrent_session_events = true;
        self
    }

    /// Chooses the clock that readers convert all timestamps to.
    #[must_use]
    pub const fn primary_trace_clock(mut self, clock: PrimaryTraceClock) -> Self {
        self.primary_trace_clock = Some(clock);
        self
    }

    /// Chooses how often the clocks are looked at; 0 for the default of 10 s.
    #[must_use]
    pub const fn snapshot_interval_ms(mut self, interval_ms: u32) -> Self {
        self.snapshot_interval_ms = interval_ms;
        self
    }

    /// Milliseconds between two looks at the clocks.
    #[must_use]
    pub(crate) const fn effective_snapshot_interval_ms(&self) -> u32 {
        match self.snapshot_interval_ms {
            0 => DEFAULT_SNAPSHOT_INTERVAL_MS,
            interval_ms => interval_ms,
        }
    }
}

/// A clock that readers can convert timestamps to. The numbers are those of `BuiltinClock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum PrimaryTraceClock {
    /// The time of day, which steps when it is set.
    Realtime = 1,
    /// The same, as of the last tick.
    RealtimeCoarse = 2,
    /// Time since boot, without suspend.
    Monotonic = 3,
    /// The same, as of the last tick.
    MonotonicCoarse = 4,
    /// The same, not adjusted by time synchronisation.
    MonotonicRaw = 5,
    /// Time since boot, with suspend.
    Boottime = 6,
}
