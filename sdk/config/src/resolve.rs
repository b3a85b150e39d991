//! Checks the buffers, and finds the target buffer of each data source.

use std::collections::HashMap;

use tracezero_core::coordination::MemorySizes;
use tracezero_core::shm::Geometry;

use crate::error::{BUFFERS_MAX, ConfigError};
use crate::place::Place;
use crate::session_config::{DataSource, SessionConfig, SharedMemory};

/// The largest size of a buffer: sizes and offsets in a trace buffer are 32-bit numbers of bytes.
const BUFFER_SIZE_MAX_KB: u32 = u32::MAX / 1024;

impl SessionConfig {
    /// Checks limits and contradictions, and finds the index of each data source's target buffer.
    /// The service calls this method when it starts a session.
    ///
    /// # Errors
    ///
    /// Returns the first contradiction, with the wrong value and its index.
    pub fn resolve(&self) -> Result<ResolvedConfig, ConfigError> {
        self.check_session()?;
        if self.buffers.is_empty() && (self.records_all || !self.data_sources.is_empty()) {
            return Err(ConfigError::NoBuffers);
        }
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
            if buffer.size_kb > BUFFER_SIZE_MAX_KB {
                return Err(Place::ROOT
                    .item("buffers", index)
                    .field("size_kb")
                    .invalid(format!(
                        "{} is more than the limit of {BUFFER_SIZE_MAX_KB}",
                        buffer.size_kb
                    )));
            }
            if let Some(limit_kb) = buffer.limit_kb
                && limit_kb > BUFFER_SIZE_MAX_KB
            {
                return Err(Place::ROOT
                    .item("buffers", index)
                    .field("limit_kb")
                    .invalid(format!(
                        "{limit_kb} is more than the limit of {BUFFER_SIZE_MAX_KB}"
                    )));
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
        let target_buffers = self
            .data_sources
            .iter()
            .enumerate()
            .map(|(index, data_source)| self.target(index, data_source, &index_of_name))
            .collect::<Result<_, _>>()?;
        Ok(ResolvedConfig {
            target_buffers,
            shared_memory: match self.is_foreign {
                true => None,
                false => self.shared_memory_of_process()?,
            },
        })
    }

    /// Returns the index of the buffer that a data source writes to.
    ///
    /// If both a name and an index are given, they must agree, even if the index is 0. In
    /// Perfetto's own service, an index 0 beside a name counts as not given.
    fn target(
        &self,
        index: usize,
        data_source: &DataSource,
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

    /// Returns the sizes of the shared memory that the configuration gives for a producer.
    #[must_use]
    pub fn memory_sizes_of(&self, producer_name: &str) -> MemorySizes {
        let mut sizes = self.shared_memory.iter();
        let found = sizes.find(|memory| memory.producer_name.as_deref() == Some(producer_name));
        found.map(SharedMemory::sizes).unwrap_or_default()
    }

    /// Returns the sizes of the shared memory for this process, if the configuration gives them.
    /// Checks the sizes for other producers, too.
    fn shared_memory_of_process(&self) -> Result<Option<Geometry>, ConfigError> {
        let mut of_process = None;
        for (index, memory) in self.shared_memory.iter().enumerate() {
            let geometry = memory.geometry(index)?;
            if memory.producer_name.is_none() {
                of_process = Some(geometry);
            }
        }
        Ok(of_process)
    }
}

impl SharedMemory {
    /// Returns the checked sizes. `index` is the index of this entry in `producers`, for errors.
    fn geometry(&self, index: usize) -> Result<Geometry, ConfigError> {
        let bytes = |kb: u32, default_bytes: usize| match kb {
            0 => default_bytes,
            kb => kb as usize * 1024,
        };
        Geometry::new(
            bytes(self.size_kb, Geometry::DEFAULT_SIZE_BYTES),
            bytes(self.page_size_kb, Geometry::DEFAULT_PAGE_SIZE_BYTES),
        )
        .map_err(|source| ConfigError::SharedMemory {
            index,
            reason: source.to_string(),
        })
    }
}

/// The result of [`SessionConfig::resolve`].
#[derive(Clone, Debug)]
pub struct ResolvedConfig {
    /// The index of the target buffer of each data source.
    pub target_buffers: Vec<usize>,
    /// The sizes of the shared memory for this process, if the configuration gives them. `None` for
    /// a configuration of another program.
    pub shared_memory: Option<Geometry>,
}
