//! How the events of an instance are encoded, as its configuration states it.

use tracezero_core::protos::TrackEventConfigDecoder;

/// The options of a `TrackEventConfig`, apart from the choice of categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventOptions {
    /// True if timestamps are distances from the sequence's last event.
    pub(super) has_incremental_timestamps: bool,
    /// The number of nanoseconds in one unit of timestamps and thread times; at least 1.
    pub(super) unit_ns: u64,
    pub(super) has_annotations: bool,
    /// True if names that are not literals are written; otherwise one fixed name stands for all of
    /// them.
    pub(super) has_dynamic_names: bool,
    /// The least time between two readings of a thread's processor time, in nanoseconds; 0 to read
    /// it at each event. `None` if the session does not ask for it.
    pub(super) thread_time_period_ns: Option<u64>,
}

impl EventOptions {
    pub(crate) const DEFAULT: Self = Self {
        has_incremental_timestamps: true,
        unit_ns: 1,
        has_annotations: true,
        has_dynamic_names: true,
        thread_time_period_ns: None,
    };

    /// Reads the options. Malformed fields count as absent: they do not occur, because
    /// configurations are checked before a session is created.
    pub(super) fn new(config: &TrackEventConfigDecoder<'_>) -> Self {
        let is_set = |option| matches!(option, Ok(Some(true)));
        let number = |option| match option {
            Ok(Some(number)) => number,
            Ok(None) | Err(_) => 0,
        };
        Self {
            has_incremental_timestamps: !is_set(config.disable_incremental_timestamps()),
            unit_ns: number(config.timestamp_unit_multiplier()).max(1),
            has_annotations: !is_set(config.filter_debug_annotations()),
            has_dynamic_names: !is_set(config.filter_dynamic_event_names()),
            thread_time_period_ns: is_set(config.enable_thread_time_sampling())
                .then(|| number(config.thread_time_subsampling_ns())),
        }
    }
}
