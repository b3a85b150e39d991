//! The configuration of the memory that each producer shares with the service.

use tracezero_core::protos::owned::trace_config::ProducerConfig;

use super::TraceConfig;

impl TraceConfig {
    /// Sets the size of the memory that this process shares with the service: `size_kib` KiB in
    /// pages of `page_size_kib` KiB. The default is 16 MiB in pages of 4 KiB. Only the first
    /// session of a process can choose the size.
    ///
    /// Trace writers take this memory in chunks. Every thread that has recorded holds one chunk per
    /// data source and session. A chunk is a quarter of a page at first, a whole page once the
    /// writer has written more, and a fourteenth of a page while there are many writers. So while
    /// there are many writers, each page has room for about 11 of them: 4 MiB are enough for 11,000
    /// writers, and the default is enough for all 32,767 writers that can exist at once. A thread
    /// whose packet continues in another chunk holds two chunks for a moment. So five threads per
    /// page lose nothing, even if all of them record at once. In a memory of less than eight pages,
    /// each chunk is a whole page.
    #[must_use]
    pub fn shared_memory(self, size_kib: u32, page_size_kib: u32) -> Self {
        self.add_shared_memory(None, size_kib, page_size_kib)
    }

    /// Sets the size of the memory of the producer with this name, in KiB, as
    /// [`shared_memory`](Self::shared_memory) does for this process. An empty name stands for this
    /// process. Only the first session in which the producer takes part can choose the size.
    #[must_use]
    pub fn shared_memory_for(
        self,
        producer_name: impl Into<String>,
        size_kib: u32,
        page_size_kib: u32,
    ) -> Self {
        self.add_shared_memory(Some(producer_name.into()), size_kib, page_size_kib)
    }

    /// Sets the memory of a producer and replaces an earlier choice for the same producer.
    fn add_shared_memory(
        mut self,
        producer_name: Option<String>,
        size_kib: u32,
        page_size_kib: u32,
    ) -> Self {
        let producers = &mut self.message.producers;
        // An empty name stands for this process, which is `None` here.
        let producer_name = producer_name.filter(|name| !name.is_empty());
        let name = producer_name.as_deref().unwrap_or_default();
        producers.retain(|other| other.producer_name.as_deref().unwrap_or_default() != name);
        producers.push(ProducerConfig {
            producer_name,
            shm_size_kb: Some(size_kib),
            page_size_kb: Some(page_size_kib),
            ..ProducerConfig::default()
        });
        self
    }
}
