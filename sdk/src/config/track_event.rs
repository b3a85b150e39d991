//! The choice of track events to record.

use std::time::Duration;

use protozero::OwnedMessage as _;
use tracezero_core::protos::owned;

use super::{ConfigError, DataSourceConfig};

/// The choice of track events to record, and how: the configuration of the data source
/// `track_event`.
///
/// A pattern is the name of a category, or a prefix followed by `*`. If several patterns match a
/// category, the most exact kind decides: whole names first, then prefixes, then `*` alone. Among
/// patterns of the same kind, an enabling one wins over a disabling one. A category that no pattern
/// matches is recorded.
///
/// Patterns for tags apply to categories that were [declared](crate::categories) with a matching
/// tag. Among patterns of the same kind, patterns for categories decide before patterns for tags.
/// Among patterns for tags, a disabling pattern wins over an enabling one. A configuration without
/// any pattern for tags disables the tags `slow` and `debug`.
///
/// An event with several categories, like `"io,network"`, is recorded if at least one of its
/// categories is recorded.
///
/// ```
/// use tracezero::{BufferConfig, DataSourceConfig, TraceConfig, TrackEventConfig};
///
/// let events = TrackEventConfig::new().disable("*").enable("rendering");
/// let config = TraceConfig::empty()
///     .add_buffer(BufferConfig::ring(4096))
///     .add_data_source(DataSourceConfig::new("track_event").track_event(&events));
/// assert!(config.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrackEventConfig {
    message: owned::TrackEventConfig,
}

impl TrackEventConfig {
    /// Creates a configuration without patterns.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Disables the categories whose names match the pattern.
    #[must_use]
    pub fn disable(mut self, pattern: impl Into<String>) -> Self {
        self.message.disabled_categories.push(pattern.into());
        self
    }

    /// Enables the categories whose names match the pattern.
    #[must_use]
    pub fn enable(mut self, pattern: impl Into<String>) -> Self {
        self.message.enabled_categories.push(pattern.into());
        self
    }

    /// Disables the categories with a tag that matches the pattern.
    #[must_use]
    pub fn disable_tag(mut self, pattern: impl Into<String>) -> Self {
        self.message.disabled_tags.push(pattern.into());
        self
    }

    /// Enables the categories with a tag that matches the pattern.
    #[must_use]
    pub fn enable_tag(mut self, pattern: impl Into<String>) -> Self {
        self.message.enabled_tags.push(pattern.into());
        self
    }

    /// Writes each timestamp as an absolute value, not as the difference from the previous
    /// timestamp.
    #[must_use]
    pub fn disable_incremental_timestamps(mut self) -> Self {
        self.message.disable_incremental_timestamps = Some(true);
        self
    }

    /// Sets the unit of timestamps, a whole number of nanoseconds. The default is one nanosecond;
    /// zero stands for the default.
    #[must_use]
    pub fn timestamp_unit(mut self, unit: Duration) -> Self {
        self.message.timestamp_unit_multiplier = Some(whole_ns(unit));
        self
    }

    /// Leaves out the arguments of events. Flows and typed fields stay.
    #[must_use]
    pub fn filter_debug_annotations(mut self) -> Self {
        self.message.filter_debug_annotations = Some(true);
        self
    }

    /// Leaves out names of events that are not literals. Events with a dynamic name are all called
    /// `FILTERED`.
    #[must_use]
    pub fn filter_dynamic_event_names(mut self) -> Self {
        self.message.filter_dynamic_event_names = Some(true);
        self
    }

    /// Adds the CPU time of the thread to events on its track, at most once in each `period`, or to
    /// every event if `period` is zero.
    #[must_use]
    pub fn thread_time_sampling(mut self, period: Duration) -> Self {
        self.message.enable_thread_time_sampling = Some(true);
        self.message.thread_time_subsampling_ns = Some(whole_ns(period));
        self
    }

    /// Encodes the choice as a `DataSourceConfig`. Returns an error if the service would reject a
    /// [`TraceConfig`](crate::TraceConfig) that contains the choice.
    pub(crate) fn to_checked_config(&self) -> Result<Vec<u8>, ConfigError> {
        let config = self.to_config();
        tracezero_config::check_source_specific(&config)?;
        Ok(config.encode_to_vec())
    }

    fn to_config(&self) -> owned::DataSourceConfig {
        owned::DataSourceConfig {
            track_event_config: Some(self.message.clone()),
            ..owned::DataSourceConfig::default()
        }
    }
}

impl DataSourceConfig {
    /// Sets which track events to record. A second call adds its patterns to those of the first
    /// call.
    #[must_use]
    pub fn track_event(self, config: &TrackEventConfig) -> Self {
        self.source_specific(&config.to_config().encode_to_vec())
    }
}

/// Returns the nanoseconds of a duration. A duration above 584 years, which `u64` cannot hold,
/// counts as 584 years.
fn whole_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
