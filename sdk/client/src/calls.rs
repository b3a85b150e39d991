//! Makes the calls that the daemon commands, on a separate thread: a data source may take long to
//! start or stop.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use tracezero_core::commit::ServiceEndpoint;
use tracezero_core::coordination::{
    BufferExhaustedPolicy, DataSourceSetup, FlushFlags, FlushReason, MemorySizes, Producer as _,
    ServiceControl,
};
use tracezero_core::ids::{BufferId, FlushId, InstanceId, SessionId};
use tracezero_core::shm::ProducerMemory;
use tracezero_core::{forked_child, own_thread, reentry};
use tracezero_ipc::producer_port::{Command, DataSourceConfig};
use tracezero_producer::{
    self as producer, Arbiter, ArbiterConfig, DataSourceState, ProcessProducer, Realm, TraceWriter,
};

use crate::remote_service::RemoteService;
use crate::shared::Shared;

/// The maximum number of calls that wait. If a callback takes so long that more calls wait, the
/// connection ends.
const WAITING_MAX: usize = 4096;

/// The policy of writers that find no free chunk, if the configuration leaves the choice to the
/// producer.
const DEFAULT_POLICY: BufferExhaustedPolicy = BufferExhaustedPolicy::StallThenDrop;

/// The first of the session numbers that the client chooses. If a daemon does not number its
/// sessions, each instance gets such a number.
const OWN_NUMBERS: u64 = 1 << 63;

/// A call that the thread makes.
#[derive(Debug)]
enum Call {
    UseMemory(ProducerMemory),
    SetUp(InstanceId, OwnedConfig),
    Start(InstanceId, OwnedConfig),
    Stop(InstanceId),
    Flush(FlushId, Vec<InstanceId>, FlushFlags),
    ClearIncrementalState(Vec<InstanceId>),
    Change(InstanceId, Vec<u8>),
    RestartState,
    FinishSync(u64),
}

/// A copy of a configuration, which outlives the received frame.
#[derive(Debug)]
struct OwnedConfig {
    name: String,
    session: u64,
    target_buffer: BufferId,
    exhausted_policy: Option<BufferExhaustedPolicy>,
    bytes: Vec<u8>,
}

impl OwnedConfig {
    fn new(config: &DataSourceConfig<'_>) -> Self {
        Self {
            name: config.name.to_owned(),
            session: config.session,
            target_buffer: config.target_buffer,
            exhausted_policy: config.exhausted_policy,
            bytes: config.bytes.to_vec(),
        }
    }
}

/// The queue of calls. When it is dropped, the thread disconnects the realm and ends.
#[derive(Debug)]
pub(crate) struct Calls {
    queue: SyncSender<Call>,
}

/// The thread that makes the calls. The thread ends after it has disconnected the realm.
#[derive(Debug)]
pub(crate) struct CallsThread {
    /// The service of the connection, which lives as long as the connection's memory.
    pub(crate) service: Weak<RemoteService>,
    pub(crate) thread: JoinHandle<()>,
}

/// The error if too many calls wait: the producer is slower than the daemon's commands.
#[derive(Debug)]
pub(crate) struct TooManyCalls;

impl Calls {
    /// Connects the realm of a connection, and starts the thread.
    pub(crate) fn start(
        service: Arc<RemoteService>,
        first: &'static DataSourceState,
        stall_limit: Duration,
        shared: Arc<Shared>,
    ) -> io::Result<(Self, CallsThread)> {
        let (queue, calls) = sync_channel(WAITING_MAX);
        let weak = Arc::downgrade(&service);
        let work = move || run(&service, first, stall_limit, &shared, &calls);
        let thread = own_thread::spawn("tracezero-calls", work)?;
        let thread = CallsThread {
            service: weak,
            thread,
        };
        Ok((Self { queue }, thread))
    }

    /// Queues a call that uses the memory that the daemon has given.
    pub(crate) fn use_memory(&self, memory: ProducerMemory) -> Result<(), TooManyCalls> {
        self.push(Call::UseMemory(memory))
    }

    /// Queues the call for a command.
    pub(crate) fn command(&self, command: Command<'_>) -> Result<(), TooManyCalls> {
        self.push(match command {
            Command::SetUp(id, config) => Call::SetUp(id, OwnedConfig::new(&config)),
            Command::Start(id, config) => Call::Start(id, OwnedConfig::new(&config)),
            Command::Stop(id) => Call::Stop(id),
            Command::Flush {
                flush,
                instances,
                flags,
            } => Call::Flush(flush, instances, flags),
            Command::ClearIncrementalState(ids) => Call::ClearIncrementalState(ids),
            Command::Change(id, config) => Call::Change(id, config.to_vec()),
            Command::SetUpTracing { .. } | Command::Unknown => return Ok(()),
        })
    }

    /// Queues a call that makes the writers restart their incremental state.
    pub(crate) fn restart_state(&self) {
        // If the queue is full, this call is left out. A later one follows.
        let _ = self.push(Call::RestartState);
    }

    /// Queues a note that the daemon has answered a request of the kind Sync. The note takes effect
    /// once all earlier calls are made.
    pub(crate) fn finish_sync(&self, number: u64) -> Result<(), TooManyCalls> {
        self.push(Call::FinishSync(number))
    }

    fn push(&self, call: Call) -> Result<(), TooManyCalls> {
        match self.queue.try_send(call) {
            Err(TrySendError::Full(_)) => Err(TooManyCalls),
            // The thread has ended. This happens only in a forked child.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }
}

/// The work of the thread.
fn run(
    service: &Arc<RemoteService>,
    first: &'static DataSourceState,
    stall_limit: Duration,
    shared: &Shared,
    calls: &Receiver<Call>,
) {
    let realm = Realm::of_new_connection();
    let control: Arc<dyn ServiceControl> = service.clone();
    {
        let Some(_inside) = forked_child::enter() else {
            return;
        };
        producer::connect(realm, &control, None, first);
    }
    if let Some(syncs) = &service.syncs {
        service.sync(syncs);
    }
    let mut realm = ConnectedRealm {
        realm,
        service,
        producer: ProcessProducer::new(realm),
        stall_limit,
        shared,
        arbiter: None,
        instances: HashMap::new(),
    };
    let _inside = reentry::TracerGuard::enter();
    for call in calls {
        realm.make(call);
    }
    service.outbox.close();
    if let Some(syncs) = &service.syncs {
        syncs.close();
    }
    producer::disconnect(realm.realm);
    shared.counts.end_connection();
}

/// The state of the thread.
struct ConnectedRealm<'a> {
    realm: Realm,
    service: &'a Arc<RemoteService>,
    producer: ProcessProducer,
    stall_limit: Duration,
    shared: &'a Shared,
    /// `None` until the daemon has given its memory.
    arbiter: Option<Arc<Arbiter>>,
    /// The instances that are set up.
    instances: HashMap<InstanceId, Instance>,
}

/// An instance of a data source that is set up.
struct Instance {
    name: String,
    session: SessionId,
    target_buffer: BufferId,
    /// Writes the schema, again and again into a ring. With a new writer for each time, a long session
    /// would have more sequences than its buffer takes.
    schema_writer: Option<TraceWriter>,
}

impl ConnectedRealm<'_> {
    fn make(&mut self, call: Call) {
        match call {
            Call::UseMemory(memory) => {
                let endpoint: Arc<dyn ServiceEndpoint> = self.service.clone();
                let arbiter = Arbiter::new(memory, endpoint, ArbiterConfig::default());
                self.producer.set_arbiter(&arbiter);
                producer::set_arbiter(self.realm, &arbiter);
                self.shared.counts.begin_connection(&arbiter);
                if let Some(totals) = &self.service.totals {
                    totals.set_arbiter(&arbiter);
                }
                self.arbiter = Some(arbiter);
            }
            Call::SetUp(id, config) => self.set_up(id, config),
            Call::Start(id, config) => {
                // Services before Android 10 send no set-up.
                if !self.instances.contains_key(&id) {
                    self.set_up(id, config);
                }
                self.write_schemas(&[id]);
                self.producer.start_data_source(id);
            }
            Call::Stop(id) => {
                self.instances.remove(&id);
                self.producer.stop_data_source(id);
            }
            Call::Flush(flush, ids, flags) => {
                // A ring may have overwritten the schemas, and the trace is about to be read.
                if let FlushReason::TraceStop | FlushReason::TraceClone = flags.reason {
                    self.write_schemas(&ids);
                }
                self.producer.flush(flush, &ids, flags);
            }
            Call::ClearIncrementalState(ids) => {
                self.write_schemas(&ids);
                self.producer.clear_incremental_state(&ids);
            }
            Call::Change(id, config) => self.producer.change_data_source(id, &config),
            Call::RestartState => producer::restart_state(self.realm),
            Call::FinishSync(number) => {
                if let Some(syncs) = &self.service.syncs {
                    syncs.finish(number);
                    self.shared.set_learned();
                }
            }
        }
    }

    fn set_up(&mut self, id: InstanceId, config: OwnedConfig) {
        let session = SessionId::new(match config.session {
            0 => OWN_NUMBERS + id.0,
            number => number,
        });
        let is_same = |it: &&Instance| it.name == config.name && it.session == session;
        let ordinal = self.instances.values().filter(is_same).count();
        let setup = DataSourceSetup {
            // No sizes are needed, because the connection already has its memory.
            memory_sizes: MemorySizes::default(),
            session,
            name: config.name.clone(),
            ordinal,
            target_buffer: config.target_buffer,
            progress: self.service.outbox.progress(config.target_buffer),
            exhausted_policy: config.exhausted_policy.unwrap_or(DEFAULT_POLICY),
            stall_limit: self.stall_limit,
            // All data sources of this process can clear their incremental state.
            clears_incremental_state: true,
            config: config.bytes,
        };
        let instance = Instance {
            name: config.name,
            session,
            target_buffer: config.target_buffer,
            schema_writer: None,
        };
        self.instances.insert(id, instance);
        // If this fails, the daemon does not learn of the failure. The instance then records
        // nothing, but still answers when it is stopped.
        self.producer.set_up_data_source(id, &setup);
    }

    /// Writes the schemas of instances to their buffers, for readers that do not know them. A
    /// service in the same process writes the schemas itself, but Perfetto's daemon does not have
    /// them.
    fn write_schemas(&mut self, ids: &[InstanceId]) {
        let Some(arbiter) = &self.arbiter else {
            return;
        };
        for id in ids {
            let descriptors = self.producer.descriptors(*id);
            let instance = self.instances.get_mut(id);
            let Some(instance) = instance.filter(|_| !descriptors.is_empty()) else {
                continue;
            };
            let writer = instance.schema_writer.get_or_insert_with(|| {
                // Waits for free chunks, because a schema may be larger than the free memory.
                let policy = BufferExhaustedPolicy::StallThenDrop;
                TraceWriter::new(arbiter, instance.target_buffer, policy)
                    .with_stall_limit(self.stall_limit)
            });
            writer.trace_packet(|packet| {
                packet.extension_descriptor(|out| {
                    out.extension_set(|out| {
                        out.as_message_mut().append_raw(descriptors);
                    });
                });
            });
            writer.flush();
        }
    }
}
