//! A service whose time the test controls, with producers and sessions for the test.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use protozero::HeapBuffered;

use crate::trace_buffer::ClientIdentity;
use crate::{
    CloneRequest, CloneSource, ConnectRequest, Environment, FlushOutcome, LimitReached, Limits,
    ProducerEndpoint, ReceivedTrigger, Recording, Service, SessionError, SessionOwner,
    SessionRequest, State, StateStats, TraceOutput, TraceStats,
};
use tracezero::TraceConfig;
use tracezero_config::{ConfigError, LocalChoices};
use tracezero_core::commit::ServiceEndpoint;
use tracezero_core::coordination::{
    BufferExhaustedPolicy, DataSourceDescriptor, DataSourceSetup, FlushFlags, Producer,
    ServiceControl, WriterTotals,
};
use tracezero_core::ids::{BufferId, FlushId, InstanceId, SessionId};
use tracezero_core::protos::trace_packet::Data;
use tracezero_core::protos::tracing_service_event::EventType;
use tracezero_core::protos::{
    TraceDecoder, TracePacket, TracePacketDecoder, TracingServiceEventDecoder,
};
use tracezero_core::shm::{Geometry, PageLayout, shared_memory};
use tracezero_producer::{Arbiter, ArbiterConfig, TraceWriter};

/// The time of the trace clock at which each test begins, in milliseconds.
pub(super) const BEGIN_MS: u64 = 1_000_000;

/// The user that the service runs as.
pub(super) const SERVICE_UID: u32 = 1;

/// The reason why a session did not start.
#[derive(Debug)]
pub(super) enum StartError {
    Config(ConfigError),
    Session(SessionError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "invalid trace config: {error}"),
            Self::Session(error) => error.fmt(f),
        }
    }
}

impl From<SessionError> for StartError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

/// Encodes and decodes a configuration, then prepares it for the service.
pub(super) fn recording(config: &TraceConfig) -> Result<Recording, ConfigError> {
    let message = tracezero_config::decode(&config.encode())?;
    Recording::new(&message, &LocalChoices::default())
}

/// A service whose time and random numbers the test controls.
pub(super) struct World {
    pub(super) service: Arc<Service>,
    machine: Arc<TestMachine>,
}

/// An environment with controlled time and random numbers.
#[derive(Debug)]
struct TestMachine {
    now_ns: Mutex<u64>,
    /// The time by which the second clock is ahead of the first.
    drift_ns: Mutex<u64>,
    /// The fractions that are returned next, in place of random ones.
    fractions: Mutex<VecDeque<f64>>,
    bits: Mutex<u64>,
    /// The lines of the log.
    log: Mutex<Vec<String>>,
}

impl Environment for TestMachine {
    fn now_ns(&self) -> u64 {
        *self.now_ns.lock()
    }

    fn time_of_day_ms(&self) -> u64 {
        self.now_ns() / 1_000_000
    }

    fn clocks(&self) -> Vec<(u32, u64)> {
        let now_ns = self.now_ns();
        vec![(6, now_ns), (1, now_ns + *self.drift_ns.lock())]
    }

    fn uid(&self) -> u32 {
        SERVICE_UID
    }

    fn random_bits(&self) -> u64 {
        let mut bits = self.bits.lock();
        *bits += 1;
        bits.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn limit_reached(&self, reached: &LimitReached) {
        self.log.lock().push(reached.to_string());
    }

    fn state_incomplete(&self, _session: SessionId, state: &StateStats) {
        self.log.lock().push(state.to_string());
    }

    fn random_fraction(&self) -> f64 {
        self.fractions.lock().pop_front().unwrap_or(0.5)
    }
}

impl World {
    pub(super) fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub(super) fn with_limits(limits: Limits) -> Self {
        let machine = Arc::new(TestMachine {
            now_ns: Mutex::new(BEGIN_MS * 1_000_000),
            drift_ns: Mutex::default(),
            fractions: Mutex::default(),
            bits: Mutex::default(),
            log: Mutex::default(),
        });
        Self {
            service: Service::new(Arc::clone(&machine) as Arc<dyn Environment>, limits),
            machine,
        }
    }

    /// Advances time. Timers that are due meanwhile run at their time.
    pub(super) fn advance_ms(&self, ms: u64) {
        let end_ns = self.machine.now_ns() + ms * 1_000_000;
        while let Some(due_ns) = self.service.run_due_timers()
            && due_ns <= end_ns
        {
            *self.machine.now_ns.lock() = due_ns;
        }
        *self.machine.now_ns.lock() = end_ns;
        self.service.run_due_timers();
    }

    /// Sets the time since the begin, and runs no timers.
    pub(super) fn set_ms(&self, ms: u64) {
        *self.machine.now_ns.lock() = (BEGIN_MS + ms) * 1_000_000;
    }

    /// Moves the second clock ahead.
    pub(super) fn drift_ms(&self, ms: u64) {
        *self.machine.drift_ns.lock() += ms * 1_000_000;
    }

    /// Sets the next random fractions.
    pub(super) fn set_chance(&self, fractions: &[f64]) {
        self.machine.fractions.lock().extend(fractions);
    }

    /// Returns the lines of the log since this was last called.
    pub(super) fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.machine.log.lock())
    }

    /// Connects a producer of user 1000.
    pub(super) fn producer(&self, name: &str) -> TestProducer {
        self.producer_of(name, 1000)
    }

    pub(super) fn producer_of(&self, name: &str, uid: u32) -> TestProducer {
        self.try_producer_of(name, uid).expect("it is taken in")
    }

    pub(super) fn try_producer_of(&self, name: &str, uid: u32) -> Option<TestProducer> {
        let geometry = Geometry::new(256 * 1024, 4096).unwrap();
        let (producer_memory, service_memory) = shared_memory(geometry).unwrap();
        let calls = Arc::new(ProducerCalls::default());
        let client = ClientIdentity {
            uid: Some(uid),
            pid: Some(uid + 1),
        };
        let endpoint = self
            .service
            .connect_producer(ConnectRequest::new(
                name,
                client,
                service_memory,
                calls.clone(),
            ))
            .map(Arc::new)?;
        *calls.endpoint.lock() = Some(Arc::downgrade(&endpoint));
        let commits: Arc<dyn ServiceEndpoint> = endpoint.clone();
        // Use the simplest layout: the service handles chunks of all sizes alike.
        let config = ArbiterConfig {
            page_layout: Some(PageLayout::One),
            ..ArbiterConfig::default()
        };
        let arbiter = Arbiter::new(producer_memory, commits, config);
        *calls.arbiter.lock() = Some(Arc::downgrade(&arbiter));
        Some(TestProducer {
            arbiter,
            endpoint,
            calls,
        })
    }

    /// Starts a session of user 0.
    pub(super) fn session(&self, config: TraceConfig) -> TestSession {
        self.try_session(config, 0).unwrap()
    }

    pub(super) fn try_session(
        &self,
        config: TraceConfig,
        uid: u32,
    ) -> Result<TestSession, StartError> {
        self.begin(recording(&config).map_err(StartError::Config)?, uid, None)
    }

    /// Starts a session of user 0 that writes into `output`. See [`TestSession::writes`].
    pub(super) fn file_session(&self, config: TraceConfig, output: TraceOutput) -> TestSession {
        self.begin(recording(&config).unwrap(), 0, Some(output))
            .unwrap()
    }

    /// Starts a session of user 0 that writes into segments, the first of which is `output`.
    pub(super) fn segment_session(&self, config: &TraceConfig, output: TraceOutput) -> TestSession {
        let mut recording = recording(config).unwrap();
        recording.segment_bytes = Some(1 << 20);
        self.begin(recording, 0, Some(output)).unwrap()
    }

    /// Starts a session of user 0 from a prepared configuration.
    pub(super) fn session_of(&self, recording: Recording) -> TestSession {
        self.begin(recording, 0, None).unwrap()
    }

    fn begin(
        &self,
        recording: Recording,
        uid: u32,
        output: Option<TraceOutput>,
    ) -> Result<TestSession, StartError> {
        let owner = Arc::new(OwnerCalls::default());
        let id = self.service.enable(SessionRequest {
            recording: Arc::new(recording),
            uid,
            owner: owner.clone(),
            writes_into_file: output.is_some(),
            wake: None,
            crash_files: None,
        })?;
        if let Some(output) = output {
            self.service.attach_output(id, output);
        }
        Ok(TestSession {
            service: Arc::clone(&self.service),
            id,
            owner,
        })
    }

    /// Begins a clone of `source` for the user `uid`. The clone is not done before flushes are
    /// answered.
    pub(super) fn begin_clone(&self, source: CloneSource, uid: u32) -> PendingClone {
        self.begin_clone_into(source, uid, None, None)
    }

    pub(super) fn begin_clone_into(
        &self,
        source: CloneSource,
        uid: u32,
        trigger: Option<ReceivedTrigger>,
        output: Option<TraceOutput>,
    ) -> PendingClone {
        let owner = Arc::new(OwnerCalls::default());
        let outcome = Arc::new(Mutex::new(None));
        let done = Arc::clone(&outcome);
        self.service.clone_session(CloneRequest {
            source,
            uid,
            owner: owner.clone(),
            output,
            trigger,
            done: Box::new(move |made| *done.lock() = Some(made)),
        });
        PendingClone {
            service: Arc::clone(&self.service),
            owner,
            outcome,
        }
    }
}

/// A clone that may not be done yet.
pub(super) struct PendingClone {
    service: Arc<Service>,
    owner: Arc<OwnerCalls>,
    outcome: Arc<Mutex<Option<Result<SessionId, SessionError>>>>,
}

impl PendingClone {
    pub(super) fn is_done(&self) -> bool {
        self.outcome.lock().is_some()
    }

    /// Returns the clone, or the reason why there is none. Panics if the clone is not done.
    pub(super) fn finish(self) -> Result<TestSession, StartError> {
        let outcome = self.outcome.lock().take().expect("the clone is made");
        Ok(TestSession {
            service: self.service,
            id: outcome?,
            owner: self.owner,
        })
    }
}

/// A call that the service made to a producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    SetUp(String),
    Start(String),
    /// The name of the data source, and the configuration.
    Change(String, Vec<u8>),
    Stop(String),
    /// The flush, the names of the data sources, and the flags.
    Flush(FlushId, Vec<String>, FlushFlags),
    Clear(Vec<String>),
}

/// Parses calls, each written as a verb and the name of a data source: `"start ds"`.
pub(super) fn calls(calls: &[&str]) -> Vec<Call> {
    let call = |call: &&str| {
        let (verb, name) = call.split_once(' ').expect("a verb and a name");
        let name = name.to_owned();
        match verb {
            "set_up" => Call::SetUp(name),
            "start" => Call::Start(name),
            "stop" => Call::Stop(name),
            other => panic!("{other} is no call"),
        }
    };
    calls.iter().map(call).collect()
}

#[derive(Default)]
struct ProducerCalls {
    endpoint: Mutex<Option<Weak<ProducerEndpoint>>>,
    arbiter: Mutex<Option<Weak<Arbiter>>>,
    calls: Mutex<Vec<Call>>,
    setups: Mutex<Vec<(InstanceId, DataSourceSetup)>>,
    /// True if flushes are not acknowledged.
    ignores_flushes: Mutex<bool>,
    /// True if instances are not set up.
    fails_setups: Mutex<bool>,
}

impl ProducerCalls {
    fn note(&self, call: Call) {
        self.calls.lock().push(call);
    }

    fn name(&self, instance: InstanceId) -> String {
        let setups = self.setups.lock();
        let found = setups.iter().find(|(id, _)| *id == instance);
        found.expect("it was set up").1.name.clone()
    }
}

impl Producer for ProducerCalls {
    fn set_up_data_source(&self, instance: InstanceId, setup: &DataSourceSetup) -> bool {
        self.setups.lock().push((instance, setup.clone()));
        self.note(Call::SetUp(setup.name.clone()));
        !*self.fails_setups.lock()
    }

    fn start_data_source(&self, instance: InstanceId) {
        self.note(Call::Start(self.name(instance)));
    }

    fn change_data_source(&self, instance: InstanceId, config: &[u8]) {
        self.note(Call::Change(self.name(instance), config.to_vec()));
    }

    fn stop_data_source(&self, instance: InstanceId) {
        self.note(Call::Stop(self.name(instance)));
    }

    fn flush(&self, flush: FlushId, instances: &[InstanceId], flags: FlushFlags) {
        let names = instances.iter().map(|id| self.name(*id)).collect();
        self.note(Call::Flush(flush, names, flags));
        if *self.ignores_flushes.lock() {
            return;
        }
        let endpoint = self.endpoint.lock().as_ref().and_then(Weak::upgrade);
        if let Some(endpoint) = endpoint {
            endpoint.acknowledge_flush(flush);
        }
    }

    fn clear_incremental_state(&self, instances: &[InstanceId]) {
        let names = instances.iter().map(|id| self.name(*id)).collect();
        self.note(Call::Clear(names));
    }

    fn writer_totals(&self) -> Vec<WriterTotals> {
        let arbiter = self.arbiter.lock().as_ref().and_then(Weak::upgrade);
        arbiter.map_or_else(Vec::new, |arbiter| arbiter.writer_totals())
    }
}

/// A producer with shared memory of its own. It disconnects when it and all its writers are
/// dropped.
pub(super) struct TestProducer {
    pub(super) endpoint: Arc<ProducerEndpoint>,
    pub(super) arbiter: Arc<Arbiter>,
    calls: Arc<ProducerCalls>,
}

impl TestProducer {
    /// Registers a data source that does not report its start or stop.
    pub(super) fn register(&self, name: &str) {
        self.register_with(DataSourceDescriptor {
            name: name.to_owned(),
            ..DataSourceDescriptor::default()
        });
    }

    pub(super) fn register_with(&self, descriptor: DataSourceDescriptor) {
        self.endpoint.register_data_source(descriptor).unwrap();
    }

    /// Returns the calls since this was last called.
    pub(super) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.calls.lock())
    }

    /// Sets whether flushes are left without an answer.
    pub(super) fn ignore_flushes(&self, ignores: bool) {
        *self.calls.ignores_flushes.lock() = ignores;
    }

    /// Sets whether the producer sets up no instances.
    pub(super) fn fail_setups(&self, fails: bool) {
        *self.calls.fails_setups.lock() = fails;
    }

    /// Returns the setup of the newest instance of a data source.
    pub(super) fn setup(&self, data_source: &str) -> (InstanceId, DataSourceSetup) {
        let setups = self.calls.setups.lock();
        let newest = setups
            .iter()
            .rev()
            .find(|(_, setup)| setup.name == data_source);
        newest.expect("it was set up").clone()
    }

    /// Creates a writer for the newest instance of a data source.
    pub(super) fn writer(&self, data_source: &str) -> TraceWriter {
        self.writer_to(self.setup(data_source).1.target_buffer)
    }

    pub(super) fn writer_to(&self, buffer: BufferId) -> TraceWriter {
        TraceWriter::new(&self.arbiter, buffer, BufferExhaustedPolicy::Drop)
    }
}

/// Writes a packet with this text.
pub(super) fn write(writer: &mut TraceWriter, text: &str) {
    writer.trace_packet(|packet| {
        packet.for_testing(|event| {
            event.set_str(text);
        });
    });
}

/// Encodes a packet with this text.
pub(super) fn packet(text: &str) -> Vec<u8> {
    let mut buffer = HeapBuffered::<TracePacket<'_>>::new();
    buffer.message().for_testing(|event| {
        event.set_str(text);
    });
    buffer.to_vec()
}

/// A call that the service made to the owner of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OwnerCall {
    WriteIntoFile,
    Disabled(Option<String>),
    AllDataSourcesStarted,
    DataSource {
        producer: String,
        data_source: String,
        is_started: bool,
    },
    CloneTriggered(ReceivedTrigger),
}

#[derive(Default)]
struct OwnerCalls {
    calls: Mutex<Vec<OwnerCall>>,
}

impl SessionOwner for OwnerCalls {
    fn write_into_file(&self) {
        self.calls.lock().push(OwnerCall::WriteIntoFile);
    }

    fn disabled(&self, reason: Option<&str>) {
        self.calls
            .lock()
            .push(OwnerCall::Disabled(reason.map(str::to_owned)));
    }

    fn all_data_sources_started(&self) {
        self.calls.lock().push(OwnerCall::AllDataSourcesStarted);
    }

    fn data_source_changed(&self, producer: &str, data_source: &str, is_started: bool) {
        self.calls.lock().push(OwnerCall::DataSource {
            producer: producer.to_owned(),
            data_source: data_source.to_owned(),
            is_started,
        });
    }

    fn clone_triggered(&self, trigger: &ReceivedTrigger) {
        self.calls
            .lock()
            .push(OwnerCall::CloneTriggered(trigger.clone()));
    }
}

/// A small, deterministic random number generator.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns an index below `len`; `None` if there is none.
    pub(super) fn index(&mut self, len: usize) -> Option<usize> {
        (len > 0).then(|| self.below(len as u64) as usize)
    }
}

/// A session. It is freed when this is dropped.
pub(super) struct TestSession {
    service: Arc<Service>,
    pub(super) id: SessionId,
    owner: Arc<OwnerCalls>,
}

impl TestSession {
    pub(super) fn start(&self) {
        self.service.start(self.id);
    }

    pub(super) fn disable(&self) {
        self.service.disable(self.id);
    }

    pub(super) fn state(&self) -> Option<State> {
        self.service.state(self.id)
    }

    pub(super) fn stats(&self) -> TraceStats {
        self.service.stats(self.id).expect("there is a session")
    }

    /// Begins a flush. The returned value holds the outcome once it is known.
    pub(super) fn flush(&self, timeout_ms: u32) -> Arc<Mutex<Option<FlushOutcome>>> {
        let outcome = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&outcome);
        self.service
            .flush(self.id, timeout_ms, FlushFlags::explicit(), move |it| {
                *noted.lock() = Some(it);
            });
        outcome
    }

    /// Returns the calls to the owner since this was last called.
    pub(super) fn owner_calls(&self) -> Vec<OwnerCall> {
        std::mem::take(&mut self.owner.calls.lock())
    }

    /// Writes into the file as often as the service has asked for it since the last call. In a real
    /// session, a thread does this.
    pub(super) fn writes(&self) -> std::io::Result<()> {
        for call in self.owner_calls() {
            if matches!(call, OwnerCall::WriteIntoFile | OwnerCall::Disabled(_)) {
                self.service.write_into_file(self.id)?;
            }
        }
        Ok(())
    }

    /// Writes into the file once. The owner of a clone is not asked to write.
    pub(super) fn writes_once(&self) -> std::io::Result<()> {
        self.service.write_into_file(self.id).map(drop)
    }

    /// Reads the packets that can be read now.
    pub(super) fn read(&self) -> ReadTrace {
        let mut bytes = Vec::new();
        self.service.read(self.id, &mut bytes);
        ReadTrace { bytes }
    }
}

impl Drop for TestSession {
    fn drop(&mut self) {
        self.service.free(self.id);
    }
}

/// A trace, or a part of one.
pub(super) struct ReadTrace {
    pub(super) bytes: Vec<u8>,
}

impl ReadTrace {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn packets(&self) -> Vec<TracePacketDecoder<'_>> {
        let trace = TraceDecoder::new(&self.bytes);
        trace.packet().map(|packet| packet.unwrap()).collect()
    }

    /// Returns the data of the packets, in order.
    pub(super) fn data(&self) -> Vec<Data<'_>> {
        self.packets()
            .iter()
            .filter_map(|packet| packet.data().unwrap())
            .collect()
    }

    /// Returns the texts that [`write`] wrote, in order.
    pub(super) fn texts(&self) -> Vec<String> {
        let text = |data: &Data<'_>| match data {
            Data::ForTesting(event) => Some(event.str().unwrap().unwrap_or_default().to_owned()),
            _ => None,
        };
        self.data().iter().filter_map(text).collect()
    }

    /// Returns the events of the session, by the names of their fields.
    pub(super) fn events(&self) -> Vec<&'static str> {
        let name = |data: &Data<'_>| match data {
            Data::ServiceEvent(event) => Some(event_name(event)),
            _ => None,
        };
        self.data().iter().filter_map(name).collect()
    }

    /// Returns the names of the triggers in the trace.
    pub(super) fn triggers(&self) -> Vec<String> {
        let name = |data: &Data<'_>| match data {
            Data::Trigger(trigger) => Some(trigger.trigger_name().unwrap().unwrap().to_owned()),
            _ => None,
        };
        self.data().iter().filter_map(name).collect()
    }
}

fn event_name(event: &TracingServiceEventDecoder<'_>) -> &'static str {
    match event.event_type().unwrap().unwrap() {
        EventType::AllDataSourcesStarted(_) => "all_data_sources_started",
        EventType::TracingStarted(_) => "tracing_started",
        EventType::AllDataSourcesFlushed(_) => "all_data_sources_flushed",
        EventType::ReadTracingBuffersCompleted(_) => "read_tracing_buffers_completed",
        EventType::TracingDisabled(_) => "tracing_disabled",
        EventType::SeizedForBugreport(_) => "seized_for_bugreport",
        EventType::SlowStartingDataSources(_) => "slow_starting_data_sources",
        EventType::LastFlushSlowDataSources(_) => "last_flush_slow_data_sources",
        EventType::FlushStarted(_) => "flush_started",
        EventType::CloneStarted(_) => "clone_started",
        EventType::BufferCloned(_) => "buffer_cloned",
    }
}
