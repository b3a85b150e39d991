//! What is recorded, by which producers, and into which buffer.

use std::time::Duration;

use tracezero_core::protos::data_source_config::BufferExhaustedPolicy as Policy;
use tracezero_core::protos::{self, owned};

use super::BufferExhaustedPolicy;

/// One data source to record, and the buffer that takes what it writes.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSourceConfig {
    pub(super) message: owned::trace_config::DataSource,
    pub(super) stall_limit: Option<Duration>,
}

impl DataSourceConfig {
    /// The data source of this name; `track_event` is what the macros write. Its target is the
    /// first buffer.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let config = owned::DataSourceConfig {
            name: Some(name.into()),
            ..owned::DataSourceConfig::default()
        };
        Self {
            message: owned::trace_config::DataSource {
                config: Some(config),
                ..owned::trace_config::DataSource::default()
            },
            stall_limit: None,
        }
    }

    /// Returns the part that the data source itself gets.
    pub(super) fn config(&mut self) -> &mut owned::DataSourceConfig {
        self.message.config.get_or_insert_default()
    }

    /// Targets the buffer with this index.
    #[must_use]
    pub fn target_index(mut self, index: usize) -> Self {
        self.config().target_buffer = Some(u32::try_from(index).unwrap_or(u32::MAX));
        self
    }

    /// Targets the buffer with this name; an empty one is none.
    #[must_use]
    pub fn target_name(mut self, name: impl Into<String>) -> Self {
        self.config().target_buffer_name = Some(name.into());
        self
    }

    /// Sets what its writers do when the shared memory has no free chunk, or when the file that the
    /// buffer is streamed into lags too far behind. By default they wait if the buffer is streamed
    /// into a file, and drop if it is not.
    #[must_use]
    pub fn exhausted_policy(mut self, policy: BufferExhaustedPolicy) -> Self {
        self.config().buffer_exhausted_policy = Some(match policy {
            BufferExhaustedPolicy::Drop => Policy::BUFFER_EXHAUSTED_DROP,
            BufferExhaustedPolicy::Stall => Policy::BUFFER_EXHAUSTED_STALL_THEN_ABORT,
            BufferExhaustedPolicy::StallThenDrop => Policy::BUFFER_EXHAUSTED_STALL_THEN_DROP,
        });
        self
    }

    /// Sets how long a writer that stalls waits; by default as long as
    /// [`TraceConfig::wait_limit`](crate::TraceConfig::wait_limit) says. After that the packet is
    /// dropped, and counted.
    #[must_use]
    pub fn stall_limit(mut self, limit: Duration) -> Self {
        self.stall_limit = Some(limit);
        self
    }

    /// Records the data source of the producer with this name. Each call, and each of
    /// [`producer_name_regex`](Self::producer_name_regex), adds producers; without any, all are
    /// recorded.
    #[must_use]
    pub fn producer_name(mut self, name: impl Into<String>) -> Self {
        self.message.producer_name_filter.push(name.into());
        self
    }

    /// Records the data source of producers whose whole name matches this regular expression.
    #[must_use]
    pub fn producer_name_regex(mut self, regex: impl Into<String>) -> Self {
        self.message.producer_name_regex_filter.push(regex.into());
        self
    }

    /// Hands encoded fields of `DataSourceConfig` to the data source, in addition to those before:
    /// messages of its own, from field number 100 on. Checking the configuration looks at the
    /// numbers.
    #[must_use]
    pub fn source_specific(mut self, fields: &[u8]) -> Self {
        let unknown_fields = &mut self.config().unknown_fields;
        unknown_fields.append::<protos::DataSourceConfig<'_>>(|config| {
            config.as_message_mut().append_raw(fields);
        });
        self
    }
}
