//! Buffers and what targets them: checks, and names to indices.

use std::collections::HashMap;

use super::place::Place;
use super::{ConfigError, DataSourceConfig, TraceConfig};
use tracezero_core::shm::Geometry;

/// Buffers that one session may have.
pub(super) const BUFFERS_MAX: usize = 128;
/// Sizes and places in a buffer are 32-bit numbers of bytes.
const BUFFER_SIZE_MAX_KB: u32 = u32::MAX / 1024;

impl TraceConfig {
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
                        "{} is more than the {BUFFER_SIZE_MAX_KB} that a buffer can have",
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
                        "{limit_kb} is more than the {BUFFER_SIZE_MAX_KB} that a buffer can have"
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
            shared_memory: self.shared_memory_of_process()?,
        })
    }

    /// Returns the position of the buffer that a data source writes to.
    ///
    /// An index that was given counts, 0 like any other: it must agree with the name. Perfetto's own service
    /// takes 0 beside a name for "not set".
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
}

/// What a configuration that is free of contradictions comes to.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedConfig {
    /// By data source: the position of the buffer that it writes to.
    pub(crate) target_buffers: Vec<usize>,
    /// The shared memory of this process, if the configuration says anything about it.
    pub(crate) shared_memory: Option<Geometry>,
}

#[cfg(test)]
mod tests {
    use super::super::BufferConfig;
    use super::*;

    fn two_buffers() -> TraceConfig {
        TraceConfig::new()
            .buffer(BufferConfig::ring(64).named("a"))
            .buffer(BufferConfig::discard(64).named("b"))
    }

    fn target(data_source: DataSourceConfig) -> Result<usize, ConfigError> {
        let config = two_buffers().data_source(data_source).resolve()?;
        Ok(config.target_buffers[0])
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
}
