//! The memory between writers and service, for each producer.

use super::{ConfigError, TraceConfig};
use tracezero_core::shm::Geometry;

/// Sizes of the memory between the writers of a producer and the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedMemoryConfig {
    /// `None`: this process.
    pub(crate) producer_name: Option<String>,
    /// 0: the default.
    pub(crate) size_kb: u32,
    /// 0: the default.
    pub(crate) page_size_kb: u32,
}

impl SharedMemoryConfig {
    /// Of entry `index`.
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

impl TraceConfig {
    /// Chooses the memory that writers of this process share with the service: `size_kb` KiB in
    /// pages of `page_size_kb` KiB, 16 MiB in pages of 4 KiB by default. Only the first session of a
    /// process can choose.
    ///
    /// Every thread that has recorded holds a part of a page for each data source in each session: a
    /// quarter at first, a whole page once it has written more, and a fourteenth when many hold one.
    /// So n pages suffice for 11 n threads: 4 MiB for 11,000, and the default for the 32,767 writers
    /// that there can be at once. Memory of less than eight pages is lent in whole pages.
    #[must_use]
    pub fn shared_memory(self, size_kb: u32, page_size_kb: u32) -> Self {
        self.add_shared_memory(None, size_kb, page_size_kb)
    }

    /// Chooses the memory of the producer with this name, likewise. Only the first session that
    /// the producer takes part in can choose.
    #[must_use]
    pub fn shared_memory_of(
        self,
        producer_name: impl Into<String>,
        size_kb: u32,
        page_size_kb: u32,
    ) -> Self {
        self.add_shared_memory(Some(producer_name.into()), size_kb, page_size_kb)
    }

    /// The last choice for a producer counts.
    pub(super) fn add_shared_memory(
        mut self,
        producer_name: Option<String>,
        size_kb: u32,
        page_size_kb: u32,
    ) -> Self {
        self.shared_memory
            .retain(|other| other.producer_name != producer_name);
        self.shared_memory.push(SharedMemoryConfig {
            producer_name,
            size_kb,
            page_size_kb,
        });
        self
    }

    /// The memory that was chosen for this process. Choices for other producers are checked too.
    pub(super) fn shared_memory_of_process(&self) -> Result<Option<Geometry>, ConfigError> {
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
