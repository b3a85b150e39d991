//! The memory between writers and service, for each producer.

use tracezero_core::protos::owned::trace_config::ProducerConfig;

use super::TraceConfig;

impl TraceConfig {
    /// Chooses the memory that writers of this process share with the service: `size_kb` KiB in
    /// pages of `page_size_kb` KiB, 16 MiB in pages of 4 KiB by default. Only the first session of a
    /// process can choose.
    ///
    /// Every thread that has recorded holds a part of a page for each data source in each session: a
    /// quarter at first, a whole page once it has written more, and a fourteenth when many hold one.
    /// So n pages suffice for 11 n parts: 4 MiB for 11,000, and the default for the 32,767 writers
    /// that there can be at once. A thread whose packet goes on in another part holds two for that
    /// moment, so 5 n threads lose nothing even if all of them record at once. Memory of less than eight pages is lent in whole pages.
    #[must_use]
    pub fn shared_memory(self, size_kb: u32, page_size_kb: u32) -> Self {
        self.add_shared_memory(None, size_kb, page_size_kb)
    }

    /// Chooses the memory of the producer with this name, likewise; that of this process if it is empty. Only the first session that
    /// the producer takes part in can choose.
    #[must_use]
    pub fn shared_memory_for(
        self,
        producer_name: impl Into<String>,
        size_kb: u32,
        page_size_kb: u32,
    ) -> Self {
        self.add_shared_memory(Some(producer_name.into()), size_kb, page_size_kb)
    }

    /// The last choice for a producer counts.
    fn add_shared_memory(
        mut self,
        producer_name: Option<String>,
        size_kb: u32,
        page_size_kb: u32,
    ) -> Self {
        let producers = &mut self.message.producers;
        // An empty name is none.
        let producer_name = producer_name.filter(|name| !name.is_empty());
        let name = producer_name.as_deref().unwrap_or_default();
        producers.retain(|other| other.producer_name.as_deref().unwrap_or_default() != name);
        producers.push(ProducerConfig {
            producer_name,
            shm_size_kb: Some(size_kb),
            page_size_kb: Some(page_size_kb),
            ..ProducerConfig::default()
        });
        self
    }
}
