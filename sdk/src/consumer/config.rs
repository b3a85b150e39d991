//! What a session records: its buffers, its data sources, and which goes where.
//!
//! The rules for target buffers are those of the tracing service this crate is compatible with,
//! with one difference: index 0 given together with a name is checked like any other index.

use std::collections::HashMap;
use std::fmt;

pub use crate::producer::BufferExhaustedPolicy;
pub use crate::service::trace_buffer::FillPolicy;

use crate::protos;
use crate::shm::Geometry;

/// Buffers that one session may have.
const BUFFERS_MAX: usize = 128;
/// Size of the buffer of [`TraceConfig::default`], in KiB.
const DEFAULT_BUFFER_SIZE_KB: u32 = 32 * 1024;

/// What a session records.
///
/// ```
/// use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
///
/// let config = TraceConfig::new()
///     .buffer(BufferConfig::ring(16 * 1024).named("events"))
///     .buffer(BufferConfig::discard(1024).named("start-up"))
///     .data_source(DataSourceConfig::new("track_event").target_name("events"))
///     .data_source(DataSourceConfig::new("com.example.boot").target_name("start-up"));
/// assert!(config.check().is_ok());
///
/// let config = config.data_source(DataSourceConfig::new("com.example.gpu").target_index(2));
/// assert_eq!(
///     config.check().unwrap_err().to_string(),
///     "data_sources[2] (com.example.gpu) targets buffers[2], but the number of buffers is 2"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceConfig {
    buffers: Vec<BufferConfig>,
    data_sources: Vec<DataSourceConfig>,
    /// Every data source that is not listed goes to buffer 0.
    records_all: bool,
    shared_memory: Option<SharedMemoryConfig>,
}

/// Sizes of the memory between writers and service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SharedMemoryConfig {
    size_kb: u32,
    page_size_kb: u32,
}

impl SharedMemoryConfig {
    fn geometry(self) -> Result<Geometry, ConfigError> {
        let bytes = |kb: u32| kb as usize * 1024;
        Geometry::new(bytes(self.size_kb), bytes(self.page_size_kb)).map_err(|source| {
            ConfigError::SharedMemory {
                reason: source.to_string(),
            }
        })
    }
}

impl Default for TraceConfig {
    /// One ring of 32 MiB for every data source of the process.
    fn default() -> Self {
        Self {
            buffers: vec![BufferConfig::ring(DEFAULT_BUFFER_SIZE_KB)],
            data_sources: Vec::new(),
            records_all: true,
            shared_memory: None,
        }
    }
}

impl TraceConfig {
    /// A configuration without buffers and data sources.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buffers: Vec::new(),
            data_sources: Vec::new(),
            records_all: false,
            shared_memory: None,
        }
    }

    /// Adds a buffer; the first one has index 0.
    #[must_use]
    pub fn buffer(mut self, buffer: BufferConfig) -> Self {
        self.buffers.push(buffer);
        self
    }

    /// Adds a data source to record.
    #[must_use]
    pub fn data_source(mut self, data_source: DataSourceConfig) -> Self {
        self.data_sources.push(data_source);
        self
    }

    /// Records every data source of the process, also those that are not listed: these go to the
    /// first buffer.
    #[must_use]
    pub const fn record_all(mut self) -> Self {
        self.records_all = true;
        self
    }

    /// Chooses the memory that writers of this process share with the service: `size_kb` KiB in
    /// pages of `page_size_kb` KiB, 4 MiB in pages of 4 KiB by default. Every thread that records
    /// holds a page for each data source. Only the first session of a process can choose.
    #[must_use]
    pub const fn shared_memory(mut self, size_kb: u32, page_size_kb: u32) -> Self {
        self.shared_memory = Some(SharedMemoryConfig {
            size_kb,
            page_size_kb,
        });
        self
    }

    /// Checks the configuration, as starting a session with it does.
    ///
    /// # Errors
    ///
    /// The first contradiction, with the index and value at fault.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.resolve().map(drop)
    }

    /// Resolves names to indices.
    pub(crate) fn resolve(&self) -> Result<ResolvedConfig, ConfigError> {
        if self.buffers.len() > BUFFERS_MAX {
            return Err(ConfigError::TooManyBuffers {
                count: self.buffers.len(),
            });
        }
        let mut index_of_name = HashMap::new();
        for (index, buffer) in self.buffers.iter().enumerate() {
            if buffer.size_kb == 0 {
                return Err(ConfigError::EmptyBuffer { index });
            }
            let Some(name) = &buffer.name else { continue };
            if let Some(first_index) = index_of_name.insert(name.as_str(), index) {
                return Err(ConfigError::DuplicateBufferName {
                    name: name.clone(),
                    first_index,
                    index,
                });
            }
        }
        let mut buffer_of_data_source = HashMap::new();
        for (index, data_source) in self.data_sources.iter().enumerate() {
            let buffer_index = self.target(index, data_source, &index_of_name)?;
            let target = ResolvedDataSource {
                buffer_index,
                exhausted_policy: data_source.exhausted_policy,
            };
            if buffer_of_data_source
                .insert(data_source.name.clone(), target)
                .is_some()
            {
                return Err(ConfigError::DuplicateDataSource {
                    name: data_source.name.clone(),
                    index,
                });
            }
        }
        if self.buffers.is_empty() && (self.records_all || !self.data_sources.is_empty()) {
            return Err(ConfigError::NoBuffers);
        }
        Ok(ResolvedConfig {
            buffers: self.buffers.clone(),
            data_sources: buffer_of_data_source,
            records_all: self.records_all,
            shared_memory: self
                .shared_memory
                .map(SharedMemoryConfig::geometry)
                .transpose()?,
        })
    }

    fn target(
        &self,
        index: usize,
        data_source: &DataSourceConfig,
        index_of_name: &HashMap<&str, usize>,
    ) -> Result<usize, ConfigError> {
        let named = match &data_source.target_name {
            Some(buffer_name) => {
                Some(*index_of_name.get(buffer_name.as_str()).ok_or_else(|| {
                    ConfigError::UnknownBufferName {
                        data_source: data_source.name.clone(),
                        index,
                        buffer_name: buffer_name.clone(),
                    }
                })?)
            }
            None => None,
        };
        if let (Some(named), Some(indexed)) = (named, data_source.target_index)
            && named != indexed
        {
            return Err(ConfigError::TargetMismatch {
                data_source: data_source.name.clone(),
                index,
                named,
                indexed,
            });
        }
        let target = named.or(data_source.target_index).unwrap_or(0);
        if target >= self.buffers.len() {
            return Err(ConfigError::TargetOutOfBounds {
                data_source: data_source.name.clone(),
                index,
                target,
                buffer_count: self.buffers.len(),
            });
        }
        Ok(target)
    }

    /// Writes this configuration as the trace carries it.
    pub(crate) fn write(&self, config: &mut protos::TraceConfig<'_>) {
        for buffer in &self.buffers {
            config.add_buffers(|out| buffer.write(out));
        }
        for data_source in &self.data_sources {
            config.add_data_sources(|out| out.config(|out| data_source.write(out)));
        }
        if let Some(memory) = self.shared_memory {
            config.add_producers(|out| {
                out.set_shm_size_kb(memory.size_kb);
                out.set_page_size_kb(memory.page_size_kb);
            });
        }
    }
}

/// One central buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferConfig {
    pub(crate) size_kb: u32,
    pub(crate) fill_policy: FillPolicy,
    pub(crate) name: Option<String>,
}

impl BufferConfig {
    /// A buffer in which the newest data overwrites the oldest. `size_kb` counts KiB; memory is
    /// used only as far as the buffer ever fills.
    #[must_use]
    pub const fn ring(size_kb: u32) -> Self {
        Self {
            size_kb,
            fill_policy: FillPolicy::Ring,
            name: None,
        }
    }

    /// A buffer that keeps the oldest data and refuses the rest once it is full.
    #[must_use]
    pub const fn discard(size_kb: u32) -> Self {
        Self {
            size_kb,
            fill_policy: FillPolicy::Discard,
            name: None,
        }
    }

    /// Gives the buffer a name that data sources can target; unique in its configuration.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    fn write(&self, out: &mut protos::trace_config::BufferConfig<'_>) {
        use protos::trace_config::buffer_config::{ExperimentalMode, FillPolicy as Policy};
        out.set_size_kb(self.size_kb);
        out.set_fill_policy(match self.fill_policy {
            FillPolicy::Ring => Policy::RING_BUFFER,
            FillPolicy::Discard => Policy::DISCARD,
        });
        if let Some(name) = &self.name {
            out.set_name(name);
        }
        out.set_experimental_mode(ExperimentalMode::TRACE_BUFFER_V2);
    }
}

/// One data source to record, and the buffer that takes what it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSourceConfig {
    name: String,
    target_index: Option<usize>,
    target_name: Option<String>,
    exhausted_policy: BufferExhaustedPolicy,
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

    fn write(&self, out: &mut protos::DataSourceConfig<'_>) {
        use protos::data_source_config::BufferExhaustedPolicy as Policy;
        out.set_name(&self.name);
        if let Some(index) = self.target_index {
            out.set_target_buffer(u32::try_from(index).unwrap_or(u32::MAX));
        }
        if let Some(name) = &self.target_name {
            out.set_target_buffer_name(name);
        }
        out.set_buffer_exhausted_policy(match self.exhausted_policy {
            BufferExhaustedPolicy::Drop => Policy::BUFFER_EXHAUSTED_DROP,
            // Both stalling policies end in a counted drop here; neither aborts the process.
            BufferExhaustedPolicy::Stall | BufferExhaustedPolicy::StallThenDrop => {
                Policy::BUFFER_EXHAUSTED_STALL_THEN_DROP
            }
        });
    }
}

/// A configuration whose targets are known to exist.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedConfig {
    pub(crate) buffers: Vec<BufferConfig>,
    data_sources: HashMap<String, ResolvedDataSource>,
    records_all: bool,
    pub(crate) shared_memory: Option<Geometry>,
}

/// Where one data source writes to, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolvedDataSource {
    pub(crate) buffer_index: usize,
    pub(crate) exhausted_policy: BufferExhaustedPolicy,
}

impl ResolvedConfig {
    /// Where data source `name` writes to; `None` if it is not recorded.
    pub(crate) fn data_source(&self, name: &str) -> Option<ResolvedDataSource> {
        let unlisted = ResolvedDataSource {
            buffer_index: 0,
            exhausted_policy: BufferExhaustedPolicy::Drop,
        };
        let listed = self.data_sources.get(name).copied();
        listed.or(self.records_all.then_some(unlisted))
    }
}

/// A contradiction in a [`TraceConfig`]. Indices count from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The shared memory cannot have the size that was asked for.
    SharedMemory {
        /// Why not.
        reason: String,
    },
    /// There is something to record, but no buffer to put it in: add a [`BufferConfig`].
    NoBuffers,
    /// More than 128 buffers.
    TooManyBuffers {
        /// Buffers in the configuration.
        count: usize,
    },
    /// A buffer of size 0.
    EmptyBuffer {
        /// Index of the buffer.
        index: usize,
    },
    /// Two buffers have the same name.
    DuplicateBufferName {
        /// The name.
        name: String,
        /// Index of the first buffer with this name.
        first_index: usize,
        /// Index of the second.
        index: usize,
    },
    /// A data source is listed twice.
    DuplicateDataSource {
        /// Name of the data source.
        name: String,
        /// Index of its second mention.
        index: usize,
    },
    /// A data source targets a buffer name that no buffer has.
    UnknownBufferName {
        /// Name of the data source.
        data_source: String,
        /// Its index.
        index: usize,
        /// The name that it targets.
        buffer_name: String,
    },
    /// A data source targets a name and an index which are two different buffers.
    TargetMismatch {
        /// Name of the data source.
        data_source: String,
        /// Its index.
        index: usize,
        /// Index of the buffer that it targets by name.
        named: usize,
        /// The buffer that it targets by index.
        indexed: usize,
    },
    /// A data source targets a buffer index that does not exist.
    TargetOutOfBounds {
        /// Name of the data source.
        data_source: String,
        /// Its index.
        index: usize,
        /// The index that it targets.
        target: usize,
        /// Buffers in the configuration.
        buffer_count: usize,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SharedMemory { reason } => write!(f, "shared_memory: {reason}"),
            Self::NoBuffers => f.write_str("there are data sources to record, but no buffers"),
            Self::TooManyBuffers { count } => {
                write!(
                    f,
                    "{count} buffers are more than the limit of {BUFFERS_MAX}"
                )
            }
            Self::EmptyBuffer { index } => {
                write!(f, "buffers[{index}] has size_kb 0: give it at least 1")
            }
            Self::DuplicateBufferName {
                name,
                first_index,
                index,
            } => write!(
                f,
                "buffers[{index}] has the name {name:?} of buffers[{first_index}]"
            ),
            Self::DuplicateDataSource { name, index } => {
                write!(f, "data_sources[{index}] ({name}) is listed before already")
            }
            Self::UnknownBufferName {
                data_source,
                index,
                buffer_name,
            } => write!(
                f,
                "data_sources[{index}] ({data_source}) targets the buffer {buffer_name:?}, \
                 which does not exist"
            ),
            Self::TargetMismatch {
                data_source,
                index,
                named,
                indexed,
            } => write!(
                f,
                "data_sources[{index}] ({data_source}) targets buffers[{named}] by name, \
                 but buffers[{indexed}] by index"
            ),
            Self::TargetOutOfBounds {
                data_source,
                index,
                target,
                buffer_count,
            } => write!(
                f,
                "data_sources[{index}] ({data_source}) targets buffers[{target}], \
                 but the number of buffers is {buffer_count}"
            ),
        }
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_buffers() -> TraceConfig {
        TraceConfig::new()
            .buffer(BufferConfig::ring(64).named("a"))
            .buffer(BufferConfig::discard(64).named("b"))
    }

    fn target(data_source: DataSourceConfig) -> Result<usize, ConfigError> {
        let config = two_buffers().data_source(data_source).resolve()?;
        Ok(config.data_source("x").expect("listed").buffer_index)
    }

    #[test]
    fn a_target_is_an_index_a_name_or_both_and_buffer_0_by_default() {
        let x = || DataSourceConfig::new("x");
        assert_eq!(target(x()), Ok(0));
        assert_eq!(target(x().target_index(1)), Ok(1));
        assert_eq!(target(x().target_name("b")), Ok(1));
        assert_eq!(target(x().target_name("b").target_index(1)), Ok(1));
    }

    #[test]
    fn targets_that_do_not_exist_or_contradict_are_refused_with_their_values() {
        let x = || DataSourceConfig::new("x");
        let message = |data_source| target(data_source).unwrap_err().to_string();
        assert_eq!(
            message(x().target_index(2)),
            "data_sources[0] (x) targets buffers[2], but the number of buffers is 2"
        );
        assert_eq!(
            message(x().target_name("c")),
            "data_sources[0] (x) targets the buffer \"c\", which does not exist"
        );
        assert_eq!(
            message(x().target_name("b").target_index(0)),
            "data_sources[0] (x) targets buffers[1] by name, but buffers[0] by index"
        );
    }

    #[test]
    fn buffers_need_a_size_and_distinct_names() {
        let config = two_buffers().buffer(BufferConfig::ring(64).named("a"));
        assert_eq!(
            config.check().unwrap_err().to_string(),
            "buffers[2] has the name \"a\" of buffers[0]"
        );
        let config = two_buffers().buffer(BufferConfig::ring(0));
        assert_eq!(config.check(), Err(ConfigError::EmptyBuffer { index: 2 }));
        let config = (0..129).fold(TraceConfig::new(), |config, _| {
            config.buffer(BufferConfig::ring(4))
        });
        assert_eq!(
            config.check(),
            Err(ConfigError::TooManyBuffers { count: 129 })
        );
    }

    #[test]
    fn shared_memory_comes_in_whole_pages_of_a_legal_size() {
        assert_eq!(two_buffers().shared_memory(256, 4).check(), Ok(()));
        for (size_kb, page_size_kb) in [(256, 3), (18, 16), (2, 4), (64 << 10, 4)] {
            let config = two_buffers().shared_memory(size_kb, page_size_kb);
            assert!(matches!(
                config.check(),
                Err(ConfigError::SharedMemory { .. })
            ));
        }
    }

    #[test]
    fn recording_something_needs_a_buffer() {
        assert_eq!(TraceConfig::new().check(), Ok(()));
        assert_eq!(
            TraceConfig::new().record_all().check(),
            Err(ConfigError::NoBuffers)
        );
    }

    #[test]
    fn a_data_source_is_listed_once() {
        let config = two_buffers()
            .data_source(DataSourceConfig::new("x"))
            .data_source(DataSourceConfig::new("x"));
        assert_eq!(
            config.check().unwrap_err().to_string(),
            "data_sources[1] (x) is listed before already"
        );
    }

    #[test]
    fn unlisted_data_sources_are_recorded_only_on_request() {
        let config = two_buffers().resolve().expect("valid");
        assert!(config.data_source("y").is_none());
        let config = two_buffers().record_all().resolve().expect("valid");
        assert_eq!(config.data_source("y").expect("recorded").buffer_index, 0);
    }
}
