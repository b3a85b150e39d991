//! Which track events to record.

use protozero::OwnedMessage as _;
use tracezero_core::protos::owned;

use super::{ConfigError, DataSourceConfig};

/// Which track events to record, and how: the configuration of the data source `track_event`.
///
/// A pattern is the name of a category, or the beginning of names with a `*` behind it. Of the
/// patterns that match a category whole names decide before beginnings, and `*` decides last; where
/// that is equal, enabling ones do before disabling ones. What none matches is recorded.
///
/// Patterns for tags decide about the categories that were [declared](crate::categories) with such
/// tags, among equally exact ones after the patterns for categories, and disabling ones first. A
/// configuration without any of them disables the tags `slow` and `debug`.
///
/// An event with several categories, such as `"io,network"`, is recorded if one of them is.
///
/// ```
/// use tracezero::{BufferConfig, DataSourceConfig, TraceConfig, TrackEventConfig};
///
/// let events = TrackEventConfig::new().disable("*").enable("rendering");
/// let config = TraceConfig::new()
///     .add_buffer(BufferConfig::ring(4096))
///     .add_data_source(DataSourceConfig::new("track_event").track_event(&events));
/// assert!(config.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrackEventConfig {
    message: owned::TrackEventConfig,
}

impl TrackEventConfig {
    /// The configuration of a session that chooses nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Disables the categories that match a pattern.
    #[must_use]
    pub fn disable(mut self, pattern: impl Into<String>) -> Self {
        self.message.disabled_categories.push(pattern.into());
        self
    }

    /// Enables the categories that match a pattern.
    #[must_use]
    pub fn enable(mut self, pattern: impl Into<String>) -> Self {
        self.message.enabled_categories.push(pattern.into());
        self
    }

    /// Disables the categories with a tag that matches a pattern.
    #[must_use]
    pub fn disable_tag(mut self, pattern: impl Into<String>) -> Self {
        self.message.disabled_tags.push(pattern.into());
        self
    }

    /// Enables the categories with a tag that matches a pattern.
    #[must_use]
    pub fn enable_tag(mut self, pattern: impl Into<String>) -> Self {
        self.message.enabled_tags.push(pattern.into());
        self
    }

    /// Writes each time stamp whole, and not as the difference to the one before.
    #[must_use]
    pub fn disable_incremental_timestamps(mut self) -> Self {
        self.message.disable_incremental_timestamps = Some(true);
        self
    }

    /// Chooses the unit of time stamps, in nanoseconds; 0 or 1 for one nanosecond.
    #[must_use]
    pub fn timestamp_unit_multiplier(mut self, unit_ns: u64) -> Self {
        self.message.timestamp_unit_multiplier = Some(unit_ns);
        self
    }

    /// Leaves out the arguments of events. Flows and typed fields stay.
    #[must_use]
    pub fn filter_debug_annotations(mut self) -> Self {
        self.message.filter_debug_annotations = Some(true);
        self
    }

    /// Leaves out names of events that are no literals: such events are all called `FILTERED`.
    #[must_use]
    pub fn filter_dynamic_event_names(mut self) -> Self {
        self.message.filter_dynamic_event_names = Some(true);
        self
    }

    /// Adds the processor time of a thread to events on its track: read at most once in
    /// `subsampling_ns` nanoseconds, or at each event for 0.
    #[must_use]
    pub fn enable_thread_time_sampling(mut self, subsampling_ns: u64) -> Self {
        self.message.enable_thread_time_sampling = Some(true);
        self.message.thread_time_subsampling_ns = Some(subsampling_ns);
        self
    }

    /// As a `DataSourceConfig`, encoded; an error if a whole configuration would be refused for this.
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
    /// Chooses which track events to record. A second choice adds to the first.
    #[must_use]
    pub fn track_event(self, config: &TrackEventConfig) -> Self {
        self.source_specific(&config.to_config().encode_to_vec())
    }
}
