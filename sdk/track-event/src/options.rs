//! How the events of an instance are written, as its configuration says.

use tracezero_core::protos::TrackEventConfigDecoder;

/// The part of a `TrackEventConfig` that is not about which events there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventOptions {
    /// Whether timestamps are distances from the sequence's last one.
    pub(super) has_incremental_timestamps: bool,
    /// Nanoseconds in one unit of timestamps and thread times; at least 1.
    pub(super) unit_ns: u64,
    pub(super) has_annotations: bool,
    /// Whether names that are no literals are written, or one name in place of all.
    pub(super) has_dynamic_names: bool,
    /// Nanoseconds between two readings of a thread's processor time, 0 for one at each event;
    /// `None` if nobody wants to know.
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

    /// What is malformed counts as absent: sessions are created only from configurations that have
    /// been checked.
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
