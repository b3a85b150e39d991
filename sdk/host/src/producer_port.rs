//! Handles the requests of a producer, method by method.

use std::mem;
use std::sync::Arc;

use tracezero_core::commit::{CommitRequest, ServiceEndpoint as _};
use tracezero_core::coordination::ServiceControl as _;
use tracezero_core::ids::BufferId;
use tracezero_core::received_file::ReceivedFile;
use tracezero_core::shm::CopiedHeader;
use tracezero_ipc::producer_port::{
    ChunkData, Commit, InitializeReply, Method, ReceivedIntroduction, Request, SERVICE, initialized,
};
use tracezero_service::{ConnectRequest, ProducerEndpoint, VIOLATIONS_MAX};

use crate::host::Host;
use crate::log::Subject;
use crate::outgoing::Outgoing;
use crate::peer::Peer;
use crate::port::{Answer, EndConnection, Invocation, Port};
use crate::remote_producer::RemoteProducer;

/// The number of names in one call that activates triggers.
const TRIGGERS_PER_CALL_MAX: usize = 64;

/// A producer's connection.
pub(crate) struct ProducerPort {
    host: Arc<Host>,
    peer: Peer,
    outgoing: Arc<Outgoing>,
    /// `None` until the producer has introduced itself.
    producer: Option<Connected>,
    /// The memory into which each commit is decoded.
    commit: CommitRequest,
    /// The number of requests, and of entries of commits, that have broken the rules.
    violations: u64,
    /// True if the last call has filled a buffer whose reader does not keep up.
    outran_reader: bool,
    /// True if a call has moved chunks since the last call of `take_has_moved`.
    has_moved: bool,
}

struct Connected {
    endpoint: ProducerEndpoint,
    remote: Arc<RemoteProducer>,
}

impl ProducerPort {
    pub(crate) fn new(host: Arc<Host>, peer: Peer, outgoing: Arc<Outgoing>) -> Self {
        Self {
            host,
            peer,
            outgoing,
            producer: None,
            commit: CommitRequest::default(),
            violations: 0,
            outran_reader: false,
            has_moved: false,
        }
    }

    /// Returns true if a call since the last one of this method has moved chunks.
    pub(crate) fn take_has_moved(&mut self) -> bool {
        mem::take(&mut self.has_moved)
    }

    /// Returns true if the last call has filled a buffer whose reader does not keep up.
    pub(crate) fn outran_reader(&self) -> bool {
        self.outran_reader
    }

    /// Returns the buffers whose readers do not keep up, and how many bytes were read of each.
    pub(crate) fn buffers_of_slow_readers(&self) -> Vec<(BufferId, u64)> {
        let producer = self.producer.as_ref();
        producer.map_or_else(Vec::new, |it| it.endpoint.buffers_of_slow_readers())
    }

    fn initialize(
        &mut self,
        introduction: &ReceivedIntroduction<'_>,
        descriptor: &mut Option<ReceivedFile>,
    ) -> Answer {
        if self.producer.is_some() {
            return Answer::Failed;
        }
        let name = introduction.producer_name;
        let remote = Arc::new(RemoteProducer::new(
            format!("producer {name:?} {}", self.peer),
            self.peer,
            Arc::clone(&self.outgoing),
            introduction,
            Arc::clone(&self.host.memory_quotas),
            self.host.log.clone(),
        ));
        let endpoint = self.host.service.connect_producer(ConnectRequest {
            name: name.to_owned(),
            sdk_version: introduction.sdk_version.to_owned(),
            client: self.peer.identity,
            memory: remote.memory().into(),
            may_be_scraped: introduction.may_be_scraped,
            calls_to: Arc::clone(&remote) as _,
        });
        let Some(endpoint) = endpoint else {
            return Answer::Failed;
        };
        let own_memory = descriptor.take().filter(|_| introduction.provides_memory);
        let adopted = own_memory.map(|file| {
            let page_size_bytes = introduction.page_size_bytes as usize;
            remote.adopt_memory(file, page_size_bytes)
        });
        if let Some(Err(reason)) = &adopted {
            self.host.log.line(
                Subject::Producer,
                format_args!(
                    "producer {name:?} {}: its own memory is not used: {reason}",
                    self.peer
                ),
            );
        }
        self.producer = Some(Connected { endpoint, remote });
        Answer::Reply(initialized(InitializeReply {
            uses_memory_of_producer: matches!(adopted, Some(Ok(()))),
            is_emulated: self.peer.is_on_network,
        }))
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Answer {
        let Some(Connected { endpoint, remote }) = &self.producer else {
            return Answer::Failed;
        };
        // Only producers that cannot share memory may send the bytes of chunks.
        let may_send_bytes = self.peer.is_on_network;
        let mut refused = 0;
        let (mut outran_reader, mut has_moved) = (false, false);
        let with_data = |chunk: &ChunkData<'_>| {
            let header = CopiedHeader {
                writer_id: chunk.writer_id,
                chunk_id: chunk.chunk_id,
                packets: chunk.packets,
            };
            let ChunkData {
                target_buffer,
                is_complete,
                payload,
                ..
            } = *chunk;
            match may_send_bytes {
                true => {
                    has_moved = true;
                    outran_reader |=
                        endpoint.commit_copy(target_buffer, &header, is_complete, payload);
                }
                false => refused += 1,
            }
        };
        let decoded = commit.decode(&mut self.commit, with_data);
        self.violations += refused;
        let Ok(left_out) = decoded else {
            self.violations += 1;
            return Answer::Failed;
        };
        self.violations += left_out as u64;
        outran_reader |= endpoint.commit_without_yielding(&self.commit);
        self.outran_reader = outran_reader;
        self.has_moved |= has_moved || !self.commit.chunks_to_move.is_empty();
        // Checks the incremental state now: a fast producer can fill a ring before the event loop's
        // next check.
        remote.restart_state();
        // Acknowledges the flush after the chunks are moved, so that whoever waits for the flush
        // finds them in the buffers.
        if let Ok(Some(flush)) = commit.flush() {
            endpoint.acknowledge_flush(flush);
        }
        Answer::EMPTY
    }

    /// Handles a request of a producer that has introduced itself.
    fn request(
        violations: &mut u64,
        producer: &Connected,
        request: Request<'_>,
        request_id: u64,
    ) -> Answer {
        let Connected { endpoint, remote } = producer;
        match request {
            Request::RegisterDataSource(Some(descriptor)) => {
                // Ignores a failure, as Perfetto's service does, because clients expect none.
                let _ = endpoint.register_data_source(descriptor);
            }
            Request::UpdateDataSource(Some(descriptor)) => {
                let _ = endpoint.update_data_source(descriptor);
            }
            Request::UnregisterDataSource { name } => {
                endpoint.unregister_data_source(name);
            }
            Request::RegisterTraceWriter(Some(writer)) => {
                endpoint.register_writer(writer.writer_id, writer.target_buffer, &Arc::default());
            }
            Request::UnregisterTraceWriter(Some(writer_id)) => {
                endpoint.unregister_writer(writer_id);
            }
            Request::NotifyDataSourceStarted(instance) => endpoint.notify_started(instance),
            Request::NotifyDataSourceStopped(instance) => endpoint.notify_stopped(instance),
            Request::ActivateTriggers { mut names } => {
                names.truncate(TRIGGERS_PER_CALL_MAX);
                endpoint.activate_triggers(&names);
            }
            Request::WriterTotals(totals) => {
                remote.take_totals(totals, |buffer| endpoint.may_write_to(buffer));
            }
            Request::GetAsyncCommand => {
                return match remote.take_commands_request(request_id) {
                    true => Answer::Later,
                    false => Answer::Failed,
                };
            }
            Request::RegisterDataSource(None)
            | Request::UpdateDataSource(None)
            | Request::RegisterTraceWriter(None)
            | Request::UnregisterTraceWriter(None) => *violations += 1,
            Request::Sync | Request::InitializeConnection(_) | Request::CommitData(_) => {}
        }
        Answer::EMPTY
    }
}

impl ProducerPort {
    /// Clears incremental state that is too old: see [`RemoteProducer::restart_state`].
    pub(crate) fn restart_state(&self) {
        if let Some(producer) = &self.producer {
            producer.remote.restart_state();
        }
    }
}

impl Port for ProducerPort {
    const SERVICE: &'static str = SERVICE;

    fn methods() -> Vec<(&'static str, u32)> {
        Method::ALL.map(|it| (it.name(), it.id())).to_vec()
    }

    fn invoke(
        &mut self,
        invocation: &Invocation<'_>,
        descriptor: &mut Option<ReceivedFile>,
    ) -> Result<Answer, EndConnection> {
        self.outran_reader = false;
        let method = Method::from_id(invocation.method_id);
        let Some(Ok(request)) = method.map(|it| Request::decode(it, invocation.args)) else {
            return Ok(Answer::Failed);
        };
        let answer = match (&request, &self.producer) {
            (Request::InitializeConnection(introduction), _) => {
                self.initialize(introduction, descriptor)
            }
            (Request::CommitData(commit), _) => self.commit(commit),
            (_, Some(producer)) => Self::request(
                &mut self.violations,
                producer,
                request,
                invocation.request_id,
            ),
            (_, None) => Answer::Failed,
        };
        let of_memory = self.producer.as_ref().map(|it| it.endpoint.violations());
        if self.violations + of_memory.unwrap_or(0) >= VIOLATIONS_MAX {
            return Err(EndConnection::Violations);
        }
        Ok(answer)
    }

    fn is_introduced(&self) -> bool {
        self.producer.is_some()
    }
}
