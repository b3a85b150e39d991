//! What the daemon tells the producer to do, on a thread of its own: a data source may take its time
//! to start or stop.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tracezero_core::commit::{RingProgress, ServiceEndpoint};
use tracezero_core::coordination::{
    BufferExhaustedPolicy, DataSourceSetup, FlushFlags, Producer as _, ServiceControl,
};
use tracezero_core::ids::{BufferId, FlushId, InstanceId, SessionId};
use tracezero_core::shm::ProducerMemory;
use tracezero_core::{forked_child, own_thread, reentry};
use tracezero_ipc::producer_port::{Command, DataSourceConfig};
use tracezero_producer::{
    self as producer, Arbiter, ArbiterConfig, DataSourceState, ProcessProducer, Realm,
};

use crate::remote_service::RemoteService;

/// The maximum number of calls that wait. If a callback takes so long that more come, the connection
/// ends.
const WAITING_MAX: usize = 4096;

/// The number of the first session of a daemon that does not number them.
const OWN_NUMBERS: u64 = 1 << 63;

/// A call.
#[derive(Debug)]
enum Call {
    UseMemory(ProducerMemory),
    SetUp(InstanceId, OwnedConfig),
    Start(InstanceId, OwnedConfig),
    Stop(InstanceId),
    Flush(FlushId, Vec<InstanceId>, FlushFlags),
    ClearIncrementalState(Vec<InstanceId>),
    RestartState,
}

/// A configuration that outlives its frame.
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

/// More calls are waiting than the producer can keep up with.
#[derive(Debug)]
pub(crate) struct TooManyCalls;

impl Calls {
    /// Connects the realm of a connection, and starts the thread.
    pub(crate) fn start(
        service: Arc<RemoteService>,
        first: &'static DataSourceState,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let (queue, calls) = sync_channel(WAITING_MAX);
        let thread = own_thread::spawn("tracezero-calls", move || run(&service, first, &calls))?;
        Ok((Self { queue }, thread))
    }

    /// Passes the memory on, which the daemon has given.
    pub(crate) fn use_memory(&self, memory: ProducerMemory) -> Result<(), TooManyCalls> {
        self.push(Call::UseMemory(memory))
    }

    /// Passes a command on.
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
            Command::SetUpTracing { .. } | Command::Unknown => return Ok(()),
        })
    }

    /// Makes the writers start their incremental state again.
    pub(crate) fn restart_state(&self) {
        // If many calls wait, this one is left out.
        let _ = self.push(Call::RestartState);
    }

    fn push(&self, call: Call) -> Result<(), TooManyCalls> {
        match self.queue.try_send(call) {
            Err(TrySendError::Full(_)) => Err(TooManyCalls),
            // The thread has ended, which happens in a forked child alone.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }
}

/// The work of the thread.
fn run(service: &Arc<RemoteService>, first: &'static DataSourceState, calls: &Receiver<Call>) {
    let realm = Realm::of_new_connection();
    let control: Arc<dyn ServiceControl> = service.clone();
    {
        let Some(_inside) = forked_child::enter() else {
            return;
        };
        producer::connect(realm, &control, None, first);
    }
    let mut realm = ConnectedRealm {
        realm,
        service,
        producer: ProcessProducer::new(realm),
        instances: HashMap::new(),
    };
    let _inside = reentry::TracerGuard::enter();
    for call in calls {
        realm.make(call);
    }
    service.outbox.close();
    producer::disconnect(realm.realm);
}

/// The state of the thread.
struct ConnectedRealm<'a> {
    realm: Realm,
    service: &'a Arc<RemoteService>,
    producer: ProcessProducer,
    /// The names and sessions of instances that are set up.
    instances: HashMap<InstanceId, (String, SessionId)>,
}

impl ConnectedRealm<'_> {
    fn make(&mut self, call: Call) {
        match call {
            Call::UseMemory(memory) => {
                let endpoint: Arc<dyn ServiceEndpoint> = self.service.clone();
                let arbiter = Arbiter::new(memory, endpoint, ArbiterConfig::default());
                self.producer.set_arbiter(&arbiter);
                producer::set_arbiter(self.realm, &arbiter);
            }
            Call::SetUp(id, config) => self.set_up(id, config),
            Call::Start(id, config) => {
                // Services before Android 10 send no set-up.
                if !self.instances.contains_key(&id) {
                    self.set_up(id, config);
                }
                self.producer.start_data_source(id);
            }
            Call::Stop(id) => {
                self.instances.remove(&id);
                self.producer.stop_data_source(id);
            }
            Call::Flush(flush, ids, flags) => self.producer.flush(flush, &ids, flags),
            Call::ClearIncrementalState(ids) => self.producer.clear_incremental_state(&ids),
            Call::RestartState => producer::restart_state(self.realm),
        }
    }

    fn set_up(&mut self, id: InstanceId, config: OwnedConfig) {
        let session = SessionId::new(match config.session {
            0 => OWN_NUMBERS + id.0,
            number => number,
        });
        let key = (config.name, session);
        let ordinal = self.instances.values().filter(|it| **it == key).count();
        self.instances.insert(id, key.clone());
        let setup = DataSourceSetup {
            session,
            name: key.0,
            ordinal,
            target_buffer: config.target_buffer,
            progress: Arc::new(RingProgress::default()),
            exhausted_policy: config.exhausted_policy.unwrap_or_default(),
            stall_limit: STALL_LIMIT,
            config: config.bytes,
        };
        self.producer.set_up_data_source(id, &setup);
    }
}

/// The longest time that a writer waits for a free chunk, if the configuration makes it wait.
const STALL_LIMIT: Duration = Duration::from_secs(30);
