//! Which track events to record.

use protozero::HeapBuffered;

use super::decode::check_source_specific;
use super::place::Place;
use super::{ConfigError, DataSourceConfig};
use tracezero_core::protos;

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
///     .buffer(BufferConfig::ring(4096))
///     .data_source(DataSourceConfig::new("track_event").track_event(&events));
/// assert!(config.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackEventConfig {
    disabled_categories: Vec<String>,
    enabled_categories: Vec<String>,
    disabled_tags: Vec<String>,
    enabled_tags: Vec<String>,
    disable_incremental_timestamps: bool,
    timestamp_unit_multiplier: u64,
    filter_debug_annotations: bool,
    enable_thread_time_sampling: bool,
    filter_dynamic_event_names: bool,
    thread_time_subsampling_ns: u64,
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
        self.disabled_categories.push(pattern.into());
        self
    }

    /// Enables the categories that match a pattern.
    #[must_use]
    pub fn enable(mut self, pattern: impl Into<String>) -> Self {
        self.enabled_categories.push(pattern.into());
        self
    }

    /// Disables the categories with a tag that matches a pattern.
    #[must_use]
    pub fn disable_tag(mut self, pattern: impl Into<String>) -> Self {
        self.disabled_tags.push(pattern.into());
        self
    }

    /// Enables the categories with a tag that matches a pattern.
    #[must_use]
    pub fn enable_tag(mut self, pattern: impl Into<String>) -> Self {
        self.enabled_tags.push(pattern.into());
        self
    }

    /// Writes each time stamp whole, and not as the difference to the one before.
    #[must_use]
    pub const fn disable_incremental_timestamps(mut self) -> Self {
        self.disable_incremental_timestamps = true;
        self
    }

    /// Chooses the unit of time stamps, in nanoseconds; 0 or 1 for one nanosecond.
    #[must_use]
    pub const fn timestamp_unit_multiplier(mut self, unit_ns: u64) -> Self {
        self.timestamp_unit_multiplier = unit_ns;
        self
    }

    /// Leaves out the arguments of events. Flows and typed fields stay.
    #[must_use]
    pub const fn filter_debug_annotations(mut self) -> Self {
        self.filter_debug_annotations = true;
        self
    }

    /// Leaves out names of events that are no literals: such events are all called `FILTERED`.
    #[must_use]
    pub const fn filter_dynamic_event_names(mut self) -> Self {
        self.filter_dynamic_event_names = true;
        self
    }

    /// Adds the processor time of a thread to events on its track: read at most once in
    /// `subsampling_ns` nanoseconds, or at each event for 0.
    #[must_use]
    pub const fn enable_thread_time_sampling(mut self, subsampling_ns: u64) -> Self {
        self.enable_thread_time_sampling = true;
        self.thread_time_subsampling_ns = subsampling_ns;
        self
    }

    /// As a serialized `DataSourceConfig`.
    fn encode(&self) -> Vec<u8> {
        let mut encoded = HeapBuffered::<protos::DataSourceConfig>::new();
        encoded.message().track_event_config(|out| self.write(out));
        encoded.to_vec()
    }

    /// Like [`Self::encode`]; an error if a whole configuration would be refused for this.
    pub(crate) fn to_checked_config(&self) -> Result<Vec<u8>, ConfigError> {
        let config = self.encode();
        check_source_specific(&config, &Place::ROOT)?;
        Ok(config)
    }

    fn write(&self, out: &mut protos::TrackEventConfig<'_>) {
        for pattern in &self.disabled_categories {
            out.add_disabled_categories(pattern);
        }
        for pattern in &self.enabled_categories {
            out.add_enabled_categories(pattern);
        }
        for pattern in &self.disabled_tags {
            out.add_disabled_tags(pattern);
        }
        for pattern in &self.enabled_tags {
            out.add_enabled_tags(pattern);
        }
        if self.disable_incremental_timestamps {
            out.set_disable_incremental_timestamps(true);
        }
        if self.timestamp_unit_multiplier != 0 {
            out.set_timestamp_unit_multiplier(self.timestamp_unit_multiplier);
        }
        if self.filter_debug_annotations {
            out.set_filter_debug_annotations(true);
        }
        if self.enable_thread_time_sampling {
            out.set_enable_thread_time_sampling(true);
        }
        if self.filter_dynamic_event_names {
            out.set_filter_dynamic_event_names(true);
        }
        if self.thread_time_subsampling_ns != 0 {
            out.set_thread_time_subsampling_ns(self.thread_time_subsampling_ns);
        }
    }
}

impl DataSourceConfig {
    /// Chooses which track events to record. A second choice adds to the first.
    #[must_use]
    pub fn track_event(self, config: &TrackEventConfig) -> Self {
        self.source_specific(&config.encode())
    }
}
