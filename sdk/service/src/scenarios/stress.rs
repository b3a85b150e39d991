use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::harness::recording;
use crate::trace_buffer::ClientIdentity;
use crate::{
    CloneRequest, CloneSource, ConnectRequest, Limits, Machine, ProducerEndpoint, Service,
    SessionOwner, SessionRequest,
};
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig, Trigger, TriggerConfig, TriggerMode};
use tracezero_core::commit::ServiceEndpoint;
use tracezero_core::coordination::{
    BufferExhaustedPolicy, DataSourceDescriptor, DataSourceSetup, FlushFlags, Producer,
    ServiceControl,
};
use tracezero_core::ids::{FlushId, InstanceId, SessionId};
use tracezero_core::protos::TraceDecoder;
use tracezero_core::shm::{Geometry, shared_memory};
use tracezero_producer::{Arbiter, ArbiterConfig, TraceWriter};

use super::harness::{Random, write};

const THREADS: u64 = 8;
const STEPS: usize = 2000;

/// The number of callbacks that the service was given, and of those that it has called.
#[derive(Default)]
struct CallbackCounts {
    given: AtomicU64,
    called: AtomicU64,
}

impl CallbackCounts {
    fn count(count: &AtomicU64) {
        // Relaxed: read after the threads were joined.
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn assert_all_called(&self) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        assert!(load(&self.given) > 0);
        assert_eq!(load(&self.given), load(&self.called));
    }
}

/// An owner that calls the service back during every call.
struct CuriousOwner {
    service: Weak<Service>,
    id: Mutex<Option<SessionId>>,
}

impl CuriousOwner {
    fn look(&self) {
        let id = *self.id.lock();
        if let (Some(service), Some(id)) = (self.service.upgrade(), id) {
            let _ = service.state(id);
            let _ = service.stats(id);
        }
    }
}

impl SessionOwner for CuriousOwner {
    fn disabled(&self, _reason: Option<&str>) {
        self.look();
    }

    fn all_data_sources_started(&self) {
        self.look();
    }

    fn data_source_changed(&self, _producer: &str, _data_source: &str, _is_started: bool) {
        self.look();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    SetUp,
    Started,
    Stopped,
}

/// A producer that checks the order of its calls. It answers them during the call, except for one
/// flush in eight.
#[derive(Default)]
struct StrictProducer {
    endpoint: Mutex<Weak<ProducerEndpoint>>,
    stages: Mutex<HashMap<InstanceId, Stage>>,
}

impl StrictProducer {
    fn advance(&self, instance: InstanceId, from: &[Option<Stage>], to: Stage) {
        let before = self.stages.lock().insert(instance, to);
        assert!(from.contains(&before), "{instance:?}: {before:?} to {to:?}");
    }

    fn answer(&self, answer: impl FnOnce(&ProducerEndpoint)) {
        let endpoint = self.endpoint.lock().upgrade();
        if let Some(endpoint) = endpoint {
            answer(&endpoint);
        }
    }
}

impl Producer for StrictProducer {
    fn set_up_data_source(&self, instance: InstanceId, _setup: &DataSourceSetup) -> bool {
        self.advance(instance, &[None], Stage::SetUp);
        true
    }

    fn start_data_source(&self, instance: InstanceId) {
        self.advance(instance, &[Some(Stage::SetUp)], Stage::Started);
        self.answer(|endpoint| endpoint.notify_started(instance));
    }

    fn stop_data_source(&self, instance: InstanceId) {
        let set_up = [Some(Stage::SetUp), Some(Stage::Started)];
        self.advance(instance, &set_up, Stage::Stopped);
        self.answer(|endpoint| endpoint.notify_stopped(instance));
    }

    fn flush(&self, flush: FlushId, _instances: &[InstanceId], _flags: FlushFlags) {
        if !flush.0.is_multiple_of(8) {
            self.answer(|endpoint| endpoint.acknowledge_flush(flush));
        }
    }

    fn clear_incremental_state(&self, instances: &[InstanceId]) {
        assert!(!instances.is_empty());
    }
}

/// A connected producer with its arbiter.
struct Connection {
    endpoint: Arc<ProducerEndpoint>,
    arbiter: Arc<Arbiter>,
}

fn connect(service: &Arc<Service>, name: &str) -> Connection {
    let geometry = Geometry::new(64 * 1024, 4096).unwrap();
    let (producer_memory, service_memory) = shared_memory(geometry).unwrap();
    let calls = Arc::new(StrictProducer::default());
    let endpoint = service
        .connect_producer(ConnectRequest::new(
            name,
            ClientIdentity::default(),
            service_memory,
            calls.clone(),
        ))
        .map(Arc::new)
        .unwrap();
    *calls.endpoint.lock() = Arc::downgrade(&endpoint);
    let commits: Arc<dyn ServiceEndpoint> = endpoint.clone();
    Connection {
        endpoint,
        arbiter: Arbiter::new(producer_memory, commits, ArbiterConfig::default()),
    }
}

fn descriptor(name: &str) -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: name.to_owned(),
        notifies_start: true,
        notifies_stop: true,
        clears_incremental_state: true,
        ..DataSourceDescriptor::default()
    }
}

/// The state that all threads share.
struct Arena {
    service: Arc<Service>,
    producer: Connection,
    /// Sessions and clones that are not freed yet.
    sessions: Mutex<Vec<SessionId>>,
    callbacks: CallbackCounts,
}

impl Arena {
    fn new() -> Self {
        let limits = Limits {
            sessions: 30,
            sessions_per_uid: 30,
            ..Limits::default()
        };
        let service = Service::new(Arc::new(Machine), limits);
        Self {
            producer: connect(&service, "first"),
            service,
            sessions: Mutex::default(),
            callbacks: CallbackCounts::default(),
        }
    }

    fn step(self: &Arc<Self>, random: &mut Random) {
        let what = random.below(14);
        if what == 0 {
            return self.begin_session(random);
        }
        if what == 1 {
            return self.change_data_sources(random);
        }
        let Some(session) = self.any_session(random) else {
            return self.begin_session(random);
        };
        match what {
            2 => self.service.start(session),
            3 => self.service.disable(session),
            4 => self.service.flush_and_disable(session),
            5 | 6 => self.flush(session),
            7 => self.clone_session(session),
            8 => self.free(session),
            9 => self.read(session),
            10 => self.producer.endpoint.activate_triggers(&["a", "b"]),
            11 => drop(self.service.run_due_timers()),
            _ => self.write(session, random),
        }
    }

    fn any_session(&self, random: &mut Random) -> Option<SessionId> {
        let sessions = self.sessions.lock();
        let index = random.below(sessions.len().max(1) as u64);
        sessions.get(index as usize).copied()
    }

    fn begin_session(&self, random: &mut Random) {
        let mut config = TraceConfig::empty()
            .add_buffer(BufferConfig::ring(64))
            .add_buffer(BufferConfig::ring(16).transfer_on_clone())
            .add_data_source(DataSourceConfig::new("a").target_index(0))
            .add_data_source(DataSourceConfig::new("b").target_index(1));
        match random.below(4) {
            0 => config = config.deferred_start(),
            1 => {
                config = config
                    .duration(Duration::from_millis(1))
                    .flush_period(Duration::from_millis(1));
            }
            2 => config = config.incremental_state_clear_period(Duration::from_millis(1)),
            _ => {
                let triggers = TriggerConfig::new(TriggerMode::Stop, Duration::from_secs(1));
                config = config.triggers(triggers.add_trigger(Trigger::new("a")));
            }
        }
        let owner = Arc::new(CuriousOwner {
            service: Arc::downgrade(&self.service),
            id: Mutex::default(),
        });
        let begun = self.service.enable(SessionRequest {
            recording: Arc::new(recording(&config).unwrap()),
            uid: 0,
            owner: owner.clone(),
            writes_into_file: false,
            wake: None,
            crash_files: None,
        });
        if let Ok(id) = begun {
            *owner.id.lock() = Some(id);
            self.sessions.lock().push(id);
        }
    }

    fn change_data_sources(&self, random: &mut Random) {
        let name = ["a", "b"][random.below(2) as usize];
        let endpoint = &self.producer.endpoint;
        match random.below(3) {
            0 => endpoint.unregister_data_source(name),
            1 => endpoint.register_data_source(descriptor(name)).unwrap(),
            _ => {
                let passing = connect(&self.service, "passing");
                let registered = passing.endpoint.register_data_source(descriptor(name));
                registered.unwrap();
            }
        }
    }

    fn flush(self: &Arc<Self>, session: SessionId) {
        CallbackCounts::count(&self.callbacks.given);
        let arena = Arc::clone(self);
        self.service
            .flush(session, 1, FlushFlags::explicit(), move |_| {
                CallbackCounts::count(&arena.callbacks.called);
            });
    }

    fn clone_session(self: &Arc<Self>, session: SessionId) {
        if self.sessions.lock().len() > 50 {
            return;
        }
        CallbackCounts::count(&self.callbacks.given);
        let arena = Arc::clone(self);
        self.service.clone_session(CloneRequest {
            source: CloneSource::Id(session),
            uid: 0,
            owner: Arc::new(CuriousOwner {
                service: Weak::new(),
                id: Mutex::default(),
            }),
            output: None,
            trigger: None,
            done: Box::new(move |made| {
                CallbackCounts::count(&arena.callbacks.called);
                arena.sessions.lock().extend(made);
            }),
        });
    }

    fn free(&self, session: SessionId) {
        self.sessions.lock().retain(|other| *other != session);
        self.service.free(session);
        assert_eq!(self.service.state(session), None);
    }

    fn read(&self, session: SessionId) {
        let mut trace = Vec::new();
        self.service.read(session, &mut trace);
        assert!(
            TraceDecoder::new(&trace)
                .packet()
                .all(|packet| packet.is_ok())
        );
    }

    fn write(&self, session: SessionId, random: &mut Random) {
        let buffers = self.service.buffers(session);
        if let Some(buffer) = buffers.get(random.below(2) as usize) {
            let arbiter = &self.producer.arbiter;
            let mut writer = TraceWriter::new(arbiter, buffer.id, BufferExhaustedPolicy::Drop);
            let text = "x".repeat(random.below(6000) as usize);
            (0..10).for_each(|_| write(&mut writer, &text));
        }
    }
}

#[test]
fn concurrent_use_answers_every_callback() {
    let arena = Arc::new(Arena::new());
    let begin = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for seed in 1..=THREADS {
            let (arena, begin) = (&arena, &begin);
            scope.spawn(move || {
                let mut random = Random(seed * 0x9e37_79b9);
                begin.wait();
                (0..STEPS).for_each(|_| arena.step(&mut random));
            });
        }
    });
    // Freeing the last sessions answers pending flushes and clones.
    loop {
        let Some(session) = arena.sessions.lock().pop() else {
            break;
        };
        arena.free(session);
    }
    arena.callbacks.assert_all_called();
    assert_eq!(arena.service.run_due_timers(), None);
}
