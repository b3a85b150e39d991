//! The configuration of data sources: what is recorded, by which producers, and into which buffer.

use std::time::Duration;

use tracezero_core::protos::data_source_config::BufferExhaustedPolicy as Policy;
use tracezero_core::protos::{self, owned};

use super::BufferExhaustedPolicy;

/// The configuration of one data source, and the buffer that it writes to.
///
/// ```
/// use std::time::Duration;
///
/// use tracezero::{BufferConfig, BufferExhaustedPolicy, DataSourceConfig, TraceConfig, instant};
///
/// let events = DataSourceConfig::new("track_event")
///     .target_name("events")
///     .exhausted_policy(BufferExhaustedPolicy::Stall)
///     .stall_limit(Duration::from_millis(50));
/// let session = TraceConfig::empty()
///     .add_buffer(BufferConfig::ring(1024).named("events"))
///     .add_data_source(events)
///     .record_in_memory()?;
/// instant!("app", "here");
/// assert_eq!(session.finish().1.events, 1);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DataSourceConfig {
    pub(super) message: owned::trace_config::DataSource,
    pub(super) stall_limit: Option<Duration>,
}

impl DataSourceConfig {
    /// Creates a configuration for the data source with this name, for example `track_event`, which
    /// the macros write to. The data source writes to the first buffer, unless
    /// [`target_index`](Self::target_index) or [`target_name`](Self::target_name) sets another one.
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

    /// Returns the part of the configuration that is handed to the data source.
    pub(super) fn config(&mut self) -> &mut owned::DataSourceConfig {
        self.message.config.get_or_insert_default()
    }

    /// Targets the buffer with this index.
    #[must_use]
    pub fn target_index(mut self, index: usize) -> Self {
        self.config().target_buffer = Some(u32::try_from(index).unwrap_or(u32::MAX));
        self
    }

    /// Targets the buffer with this name. An empty name counts as no name.
    #[must_use]
    pub fn target_name(mut self, name: impl Into<String>) -> Self {
        self.config().target_buffer_name = Some(name.into());
        self
    }

    /// Sets what a trace writer does when the shared memory has no free chunk, or when the buffer
    /// is streamed into a file and the file lags too far behind. By default the writer waits if the
    /// buffer is streamed into a file, and drops the packet otherwise.
    #[must_use]
    pub fn exhausted_policy(mut self, policy: BufferExhaustedPolicy) -> Self {
        self.config().buffer_exhausted_policy = Some(match policy {
            BufferExhaustedPolicy::Drop => Policy::BUFFER_EXHAUSTED_DROP,
            BufferExhaustedPolicy::Stall => Policy::BUFFER_EXHAUSTED_STALL_THEN_ABORT,
            BufferExhaustedPolicy::StallThenDrop => Policy::BUFFER_EXHAUSTED_STALL_THEN_DROP,
        });
        self
    }

    /// Sets how long a trace writer waits at most, if [`exhausted_policy`](Self::exhausted_policy)
    /// lets it wait. After that time the packet is dropped and counted. The default is
    /// [`TraceConfig::wait_limit`](crate::TraceConfig::wait_limit).
    #[must_use]
    pub fn stall_limit(mut self, limit: Duration) -> Self {
        self.stall_limit = Some(limit);
        self
    }

    /// Keeps the state of this data source when a ring overwrites its packets: the program of the data
    /// source ([`DataSource::PROTOVM_PROGRAM`](crate::DataSource::PROTOVM_PROGRAM)) folds them into a
    /// state, with which the trace begins. In memory, the state takes at most `limit_kib` KiB: about 100
    /// bytes for each field and element, and those of texts, so several times what it takes in the trace.
    /// Nothing is allocated before it is needed. Data sources without a program have no state. A data source that is recorded without being listed has a state of at most 4 MiB.
    #[must_use]
    pub fn state_limit_kib(mut self, limit_kib: u32) -> Self {
        self.config().protovm_config = Some(owned::ProtoVmConfig {
            memory_limit_kb: Some(limit_kib),
            ..owned::ProtoVmConfig::default()
        });
        self
    }

    /// Records the data source only in the producer with this name. Each call of this method or of
    /// [`producer_name_regex`](Self::producer_name_regex) adds producers. Without a call of either
    /// method, the data source is recorded in all producers.
    #[must_use]
    pub fn producer_name(mut self, name: impl Into<String>) -> Self {
        self.message.producer_name_filter.push(name.into());
        self
    }

    /// Records the data source only in producers whose whole name matches this regular expression.
    /// Each call adds producers, as with [`producer_name`](Self::producer_name).
    #[must_use]
    pub fn producer_name_regex(mut self, regex: impl Into<String>) -> Self {
        self.message.producer_name_regex_filter.push(regex.into());
        self
    }

    /// Adds encoded fields of `DataSourceConfig` that are handed to the data source as they are.
    /// They contain the messages that only this data source knows, whose field numbers are 100 or
    /// higher. [`TraceConfig::check`](crate::TraceConfig::check) checks the field numbers.
    #[must_use]
    pub fn source_specific(mut self, fields: &[u8]) -> Self {
        let unknown_fields = &mut self.config().unknown_fields;
        unknown_fields.append::<protos::DataSourceConfig<'_>>(|config| {
            config.as_message_mut().append_raw(fields);
        });
        self
    }
}
