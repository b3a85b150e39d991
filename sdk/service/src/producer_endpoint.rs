//! The endpoint of a producer: it commits chunks here and reports on its data sources.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::calls::CallWait;
use super::context::ConnectedProducer;
use super::lent_memory::LentMemory;
use super::limit_log::LimitCounts;
use super::producer_link::ProducerLink;
use super::service::Service;
use super::trace_buffer::ClientIdentity;
use super::trigger_history::TriggerRate;
use tracezero_core::commit::{CommitRequest, LossCount, ServiceEndpoint};
use tracezero_core::coordination::{
    DataSourceDescriptor, DataSourceError, NAME_MAX_BYTES, Producer, ServiceControl,
};
use tracezero_core::ids::{BufferId, FlushId, InstanceId, ProducerId, WriterId};
use tracezero_core::shm::CopiedHeader;

/// The connection of one producer to the service. Dropping it disconnects the producer.
pub struct ProducerEndpoint {
    id: ProducerId,
    service: Arc<Service>,
    link: Arc<ProducerLink>,
}

impl fmt::Debug for ProducerEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerEndpoint")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A request to connect a producer.
pub struct ConnectRequest {
    /// The name by which configurations choose the producer. If it has more than [`NAME_MAX_BYTES`],
    /// only the begin counts, up to that size.
    pub name: String,
    /// The name and version of the producer's library, for lists of producers. May be empty.
    pub sdk_version: String,
    /// The user and process of the producer.
    pub client: ClientIdentity,
    /// The shared memory.
    pub memory: LentMemory,
    /// False if the service must not read chunks that are not complete.
    pub may_be_scraped: bool,
    /// The producer itself, which the service calls.
    pub calls_to: Arc<dyn Producer>,
}

impl ConnectRequest {
    /// Returns a request for a producer that may be scraped and does not say what its library is.
    pub fn new(
        name: &str,
        client: ClientIdentity,
        memory: impl Into<LentMemory>,
        calls_to: Arc<dyn Producer>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            sdk_version: String::new(),
            client,
            memory: memory.into(),
            may_be_scraped: true,
            calls_to,
        }
    }
}

impl fmt::Debug for ConnectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectRequest")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Service {
    /// Connects a producer. Returns `None` if its user is locked out.
    pub fn connect_producer(self: &Arc<Self>, request: ConnectRequest) -> Option<ProducerEndpoint> {
        let ConnectRequest {
            mut name,
            sdk_version,
            client,
            memory,
            may_be_scraped,
            calls_to,
        } = request;
        name.truncate(name.floor_char_boundary(NAME_MAX_BYTES));
        self.with(|control| {
            if control.only_uid.is_some_and(|uid| client.uid != Some(uid)) {
                return None;
            }
            let id = control.next_producer_id();
            let refused = Arc::clone(&control.refused);
            let link = ProducerLink::new(id, client, memory, may_be_scraped, refused);
            let link = Arc::new(link);
            control.producers.insert(
                id,
                ConnectedProducer {
                    name,
                    sdk_version,
                    link: Arc::clone(&link),
                    calls_to,
                    data_sources: Vec::new(),
                    descriptors_bytes: 0,
                    trigger_rate: TriggerRate::default(),
                    limits: LimitCounts::default(),
                },
            );
            Some(ProducerEndpoint::new(id, Arc::clone(self), link))
        })
    }
}

impl ProducerEndpoint {
    pub(super) fn new(id: ProducerId, service: Arc<Service>, link: Arc<ProducerLink>) -> Self {
        Self { id, service, link }
    }

    /// Returns whether the producer may write to a buffer: that of a session that records it.
    #[must_use]
    pub fn may_write_to(&self, buffer: BufferId) -> bool {
        self.link.buffer(buffer).is_some()
    }

    /// Commits a chunk whose bytes have come with the commit: the producer's memory is on another
    /// machine. A chunk that is not complete is as one that was scraped.
    ///
    /// Returns true as [`commit_without_yielding`](Self::commit_without_yielding) does.
    #[must_use]
    pub fn commit_copy(
        &self,
        target_buffer: BufferId,
        header: &CopiedHeader,
        is_complete: bool,
        payload: &[u8],
    ) -> bool {
        self.link
            .commit_copy(target_buffer, header, is_complete, payload)
    }

    /// Does what [`ServiceEndpoint::commit`] does, on a thread that others wait for. Returns true if
    /// more than half of a buffer is unread, although a thread reads it. Then look at
    /// [`buffers_of_slow_readers`](Self::buffers_of_slow_readers) before the next commit.
    #[must_use]
    pub fn commit_without_yielding(&self, request: &CommitRequest) -> bool {
        let mut lags = false;
        for chunk in &request.chunks_to_move {
            lags |= self.link.move_chunk(chunk);
        }
        self.patch_chunks(request);
        lags
    }

    fn patch_chunks(&self, request: &CommitRequest) {
        for patch in &request.chunks_to_patch {
            self.link.patch_chunk(patch);
        }
    }

    /// Returns the buffers of the producer whose readers do not keep up with what it and others write,
    /// and how many bytes were read of each so far. Such a reader is the thread that writes a session's
    /// file. It does not keep up while writers in this process would wait for it: what is committed may
    /// soon overwrite what it has not read.
    #[must_use]
    pub fn buffers_of_slow_readers(&self) -> Vec<(BufferId, u64)> {
        self.link.buffers_of_slow_readers()
    }

    /// Returns how often the producer has broken the rules of the shared memory: it has committed a
    /// chunk that was not complete, or has changed a page while the service had a chunk of it. From
    /// [`VIOLATIONS_MAX`](crate::VIOLATIONS_MAX) on, the service takes nothing from it, and the
    /// caller should end the connection.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.link.violations()
    }
}

impl ServiceEndpoint for ProducerEndpoint {
    fn commit(&self, request: &CommitRequest) {
        for chunk in &request.chunks_to_move {
            if self.link.move_chunk(chunk) {
                thread::yield_now();
            }
        }
        self.patch_chunks(request);
    }

    fn wait_for_room(&self, target_buffer: BufferId, timeout: Duration) -> bool {
        // Do not wait for a buffer that is gone.
        self.link
            .buffer(target_buffer)
            .is_none_or(|buffer| buffer.wait_for_room(timeout))
    }

    fn register_writer(
        &self,
        writer_id: WriterId,
        target_buffer: BufferId,
        losses: &Arc<LossCount>,
    ) {
        self.link.register_writer(writer_id, target_buffer, losses);
    }

    fn unregister_writer(&self, writer_id: WriterId) {
        self.link.unregister_writer(writer_id);
    }
}

impl ServiceControl for ProducerEndpoint {
    fn register_data_source(
        &self,
        descriptor: DataSourceDescriptor,
    ) -> Result<(), DataSourceError> {
        self.service
            .with(|control| control.register_data_source(self.id, descriptor))
    }

    fn offer_data_source(&self, descriptor: DataSourceDescriptor) -> Result<(), DataSourceError> {
        self.service
            .look(|control| control.register_data_source(self.id, descriptor))
    }

    fn make_calls(&self, limit: Duration) {
        let patience = CallWait::Until(Instant::now() + limit);
        self.service.call_after(patience, |_| ());
    }

    fn update_data_source(&self, descriptor: DataSourceDescriptor) -> Result<(), DataSourceError> {
        // No calls follow from an update, so there is nothing to wait for.
        self.service
            .look(|control| control.update_data_source(self.id, descriptor))
    }

    fn unregister_data_source(&self, name: &str) {
        self.service
            .with(|control| control.unregister_data_source(self.id, name));
    }

    fn notify_started(&self, instance: InstanceId) {
        self.service.answer(|session, context| {
            session.instance_answered(context, self.id, instance, true);
        });
    }

    fn notify_stopped(&self, instance: InstanceId) {
        self.service.answer(|session, context| {
            session.instance_answered(context, self.id, instance, false);
        });
    }

    fn acknowledge_flush(&self, flush: FlushId) {
        // The acknowledgment holds for all earlier flushes of the producer, in all sessions.
        self.service.answer(|session, context| {
            session.flushes_answered(context, self.id, ..=flush);
        });
    }

    fn activate_triggers(&self, names: &[&str]) {
        self.service
            .with(|control| control.activate_triggers(self.id, names));
    }
}

impl Drop for ProducerEndpoint {
    fn drop(&mut self) {
        let producer = self
            .service
            .with(|control| control.producer_disconnected(self.id));
        drop(producer);
    }
}
