//! What is recorded, by which producers, and into which buffer.

use super::BufferExhaustedPolicy;

/// One data source to record, and the buffer that takes what it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSourceConfig {
    pub(crate) name: String,
    pub(crate) target_index: Option<usize>,
    pub(crate) target_name: Option<String>,
    pub(crate) exhausted_policy: BufferExhaustedPolicy,
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
            exhausted_policy: BufferExhaustedPolicy::Drop,
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

    /// What its writers do when the shared memory has no free chunk; by default they drop.
    #[must_use]
    pub const fn exhausted_policy(mut self, policy: BufferExhaustedPolicy) -> Self {
        self.exhausted_policy = policy;
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
