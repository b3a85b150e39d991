//! What is recorded, by which producers, and into which buffer.

use std::time::Duration;

use super::BufferExhaustedPolicy;

/// One data source to record, and the buffer that takes what it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSourceConfig {
    pub(crate) name: String,
    pub(crate) target_index: Option<usize>,
    pub(crate) target_name: Option<String>,
    /// `None`: writers wait if the buffer is streamed into a file, and drop if it is not.
    pub(crate) exhausted_policy: Option<BufferExhaustedPolicy>,
    pub(crate) stall_limit: Option<Duration>,
    /// Producers by name. With `producer_name_regex_filter` also empty: all of them.
    pub(crate) producer_name_filter: Vec<String>,
    /// Producers by an expression that their whole name matches.
    pub(crate) producer_name_regex_filter: Vec<String>,
    /// Fields of the encoded `DataSourceConfig` from number 100 on, for the data source to decode:
    /// `track_event_config` (113), or messages of schemas that this crate does not know.
    pub(crate) source_specific: Vec<u8>,
}

impl DataSourceConfig {
    /// The data source of this name; `track_event` is what the macros write. Its target is the
    /// first buffer.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            target_index: None,
            target_name: None,
            exhausted_policy: None,
            stall_limit: None,
            producer_name_filter: Vec::new(),
            producer_name_regex_filter: Vec::new(),
            source_specific: Vec::new(),
        }
    }

    /// Targets the buffer with this index.
    #[must_use]
    pub const fn target_index(mut self, index: usize) -> Self {
        self.target_index = Some(index);
        self
    }

    /// Targets the buffer with this name.
    #[must_use]
    pub fn target_name(mut self, name: impl Into<String>) -> Self {
        self.target_name = Some(name.into());
        self
    }

    /// Sets what its writers do when the shared memory has no free chunk, or when the file that the
    /// buffer is streamed into lags too far behind. By default they wait if the buffer is streamed
    /// into a file, and drop if it is not.
    #[must_use]
    pub const fn exhausted_policy(mut self, policy: BufferExhaustedPolicy) -> Self {
        self.exhausted_policy = Some(policy);
        self
    }

    /// Sets how long a writer that stalls waits; by default as long as
    /// [`TraceConfig::wait_limit`](crate::TraceConfig::wait_limit) says. After that the packet is
    /// dropped, and counted.
    #[must_use]
    pub const fn stall_limit(mut self, limit: Duration) -> Self {
        self.stall_limit = Some(limit);
        self
    }

    /// Records the data source of the producer with this name. Each call, and each of
    /// [`producer_name_regex`](Self::producer_name_regex), adds producers; without any, all are
    /// recorded.
    #[must_use]
    pub fn producer_name(mut self, name: impl Into<String>) -> Self {
        self.producer_name_filter.push(name.into());
        self
    }

    /// Records the data source of producers whose whole name matches this regular expression.
    #[must_use]
    pub fn producer_name_regex(mut self, regex: impl Into<String>) -> Self {
        self.producer_name_regex_filter.push(regex.into());
        self
    }

    /// Hands encoded fields of `DataSourceConfig` to the data source, in addition to those before:
    /// messages of its own, from field number 100 on. Checking the configuration looks at the
    /// numbers.
    #[must_use]
    pub fn source_specific(mut self, fields: &[u8]) -> Self {
        self.source_specific.extend(fields);
        self
    }
}
