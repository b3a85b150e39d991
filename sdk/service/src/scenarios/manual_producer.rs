//! Producers whose chunks the test writes.

use std::sync::Arc;

use support::IgnoringProducer;
use tracezero_core::commit::{ChunkToMove, ChunkToPatch, CommitRequest, Patch, ServiceEndpoint};
use tracezero_core::coordination::{DataSourceDescriptor, Producer, ServiceControl};
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::shm::{
    ChunkFlags, ChunkPlace, Geometry, NewChunk, PageLayout, ProducerMemory, WritableChunk,
    shared_memory,
};

use super::harness::World;
use crate::trace_buffer::ClientIdentity;
use crate::{ConnectRequest, LentMemory, ProducerEndpoint};

/// The size of a page of shared memory in bytes.
pub(super) const PAGE_BYTES: u32 = 4096;

/// Returns the geometry of memory with so many pages.
pub(super) fn pages_of_memory(pages: u32) -> Geometry {
    Geometry::new((pages * PAGE_BYTES) as usize, PAGE_BYTES as usize).unwrap()
}

impl World {
    /// Connects a producer with memory of so many pages, and registers its data source.
    pub(super) fn manual_producer(&self, data_source: &str, pages: u32) -> ManualProducer {
        let (memory, service_memory) = shared_memory(pages_of_memory(pages)).unwrap();
        self.manual_producer_with(data_source, memory, service_memory)
    }

    /// Connects a producer with the memory that it and the service share.
    pub(super) fn manual_producer_with(
        &self,
        data_source: &str,
        memory: ProducerMemory,
        service_memory: impl Into<LentMemory>,
    ) -> ManualProducer {
        let producer = Arc::new(IgnoringProducer);
        ManualProducer {
            memory,
            endpoint: self.connect(producer, data_source, service_memory),
        }
    }

    /// Connects a producer without a user, and registers its data source, which needs no flush.
    pub(super) fn connect(
        &self,
        producer: Arc<dyn Producer>,
        data_source: &str,
        memory: impl Into<LentMemory>,
    ) -> ProducerEndpoint {
        let client = ClientIdentity::default();
        let endpoint = (self.service)
            .connect_producer(ConnectRequest::new("by hand", client, memory, producer));
        let endpoint = endpoint.expect("it is taken in");
        let registered = endpoint.register_data_source(DataSourceDescriptor {
            name: data_source.to_owned(),
            needs_no_flush: true,
            ..DataSourceDescriptor::default()
        });
        registered.unwrap();
        endpoint
    }
}

/// A producer that ignores all calls. The test writes its chunks.
pub(super) struct ManualProducer {
    memory: ProducerMemory,
    pub(super) endpoint: ProducerEndpoint,
}

impl ManualProducer {
    pub(super) fn register_writer(&self, writer_id: WriterId, target_buffer: BufferId) {
        self.endpoint
            .register_writer(writer_id, target_buffer, &Arc::default());
    }

    /// Begins a chunk in a page.
    #[track_caller]
    pub(super) fn chunk(
        &self,
        page_index: u32,
        layout: PageLayout,
        header: NewChunk,
    ) -> WritableChunk {
        let chunk = self.memory.acquire_for_writing(page_index, layout, header);
        chunk.expect("the page has a free chunk")
    }

    /// Commits a chunk, which need not exist.
    pub(super) fn commit(&self, place: ChunkPlace, target_buffer: BufferId) {
        self.endpoint.commit(&CommitRequest {
            chunks_to_move: vec![ChunkToMove::new(place, target_buffer)],
            chunks_to_patch: Vec::new(),
        });
    }

    /// Commits patches for a chunk.
    pub(super) fn patch(
        &self,
        writer_id: WriterId,
        chunk_id: ChunkId,
        target_buffer: BufferId,
        patches: Vec<Patch>,
    ) {
        self.endpoint.commit(&CommitRequest {
            chunks_to_move: Vec::new(),
            chunks_to_patch: vec![ChunkToPatch {
                writer_id,
                chunk_id,
                target_buffer,
                patches,
                has_more_patches: false,
            }],
        });
    }
}

/// Returns the header of a chunk without flags.
pub(super) fn header(writer_id: WriterId, chunk_id: ChunkId) -> NewChunk {
    NewChunk {
        writer_id,
        chunk_id,
        flags: ChunkFlags::NONE,
    }
}
