//! Fuzzes a daemon: producers and consumers that connect, call methods with sound and with changed
//! arguments, send descriptors and any bytes, write chunks, read or do not read, and go.
//!
//! The daemon runs on the thread of the target, and gets its turns between the steps. A panic in it
//! counts, although the daemon catches it. The target checks
//! - that a new consumer is served at the end, and finds no producer, and no session but those that
//!   are detached,
//! - that the daemon ends in order,
//! - that no descriptor is left then.
//!
//! Timers run by the machine's clock, so sessions whose configuration has times may differ between two
//! runs of one input.
#![no_main]

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use protozero::HeapBuffered;
use tracezero_core::commit::{ChunkToMove, Patch};
use tracezero_core::coordination::{DataSourceDescriptor, FlushFlags};
use tracezero_core::ids::{BufferId, ChunkId, FlushId, InstanceId, WriterId};
use tracezero_core::protos::TraceConfig;
use tracezero_core::protos::trace_config::trigger_config::TriggerMode;
use tracezero_core::shm::{ChunkFlags, NewChunk, PageLayout, ProducerMemory, SharedFd};
use tracezero_host::{Address, Daemon, DaemonOptions, Log};
use tracezero_ipc::consumer_port::events::ObservedEvents;
use tracezero_ipc::consumer_port::requests::{
    BEST_FOR_BUGREPORT, CloneSession, CloneSource, Request, Trigger,
};
use tracezero_ipc::consumer_port::service_state::decode_service_state;
use tracezero_ipc::frame::{FRAME_MAX_BYTES, append_frame};
use tracezero_ipc::producer_port::{self, Command, Introduction, Method, PatchedChunk};
use tracezero_ipc::protos::TracingServiceStateDecoder;
use tracezero_ipc::socket::{Received, Socket};
use tracezero_ipc::wire::{Body, Frame};

const STEPS_MAX: usize = 64;
const PEERS_MAX: usize = 6;
const NAMES: [&str; 4] = ["a", "b", "", "c"];

#[derive(Arbitrary, Debug)]
enum Step {
    Connect {
        is_consumer: bool,
    },
    Close(u8),
    Call {
        peer: u8,
        call: Call,
        sent_as: SentAs,
    },
    /// Any bytes, as one frame.
    Frame(u8, Vec<u8>),
    /// Any bytes of the stream.
    Bytes(u8, Vec<u8>),
    /// Takes what the daemon has sent.
    Read(u8),
    /// Writes a packet into a chunk, and commits it.
    Write {
        peer: u8,
        page: u8,
        target: u8,
        packet: Vec<u8>,
        commits: bool,
    },
    /// Lets the daemon handle what was sent.
    Settle,
}

/// How a call is sent.
#[derive(Arbitrary, Debug)]
struct SentAs {
    drops_reply: bool,
    descriptor: Descriptor,
    /// A byte of the arguments that is changed.
    changed: Option<(u8, u8)>,
    /// The number of bytes that are missing at the end of the arguments.
    cut: u8,
    /// Bytes behind the arguments.
    more: Vec<u8>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Descriptor {
    None,
    None2,
    None3,
    File,
    ReadOnly,
    PathOnly,
    Folder,
    Socket,
    Null,
    Full,
}

#[derive(Arbitrary, Debug)]
enum Call {
    Producer(ProducerCall),
    Consumer(ConsumerCall),
    Unknown { service_id: u8, method_id: u8 },
}

#[derive(Arbitrary, Debug)]
enum ProducerCall {
    InitializeConnection {
        name: u8,
        size_kib: u16,
        page_size_kib: u8,
    },
    Register(Descriptors),
    Update(Descriptors),
    Unregister(u8),
    Move(Vec<(u8, u8, u8)>),
    Patch {
        writer_id: u8,
        chunk_id: u8,
        target: u8,
        patches: Vec<(u8, [u8; 4])>,
    },
    FlushDone(u8),
    GetAsyncCommand,
    RegisterWriter(u8, u8),
    UnregisterWriter(u8),
    Started(u8),
    Stopped(u8),
    ActivateTriggers(Vec<u8>),
    Sync,
}

#[derive(Arbitrary, Debug)]
struct Descriptors {
    name: u8,
    id: u8,
    flags: u8,
}

#[derive(Arbitrary, Debug)]
enum ConsumerCall {
    Enable(Config),
    AttachNotification,
    Disable,
    Read,
    Free,
    Flush(u8),
    Start,
    Change(Config),
    Detach(u8),
    Attach(u8),
    Stats,
    Observe(u8),
    State(bool),
    Capabilities,
    Save,
    Clone { source: Source, has_trigger: bool },
}

#[derive(Arbitrary, Debug)]
enum Source {
    Id(u8),
    Name(u8),
    Best,
}

#[derive(Arbitrary, Debug)]
struct Config {
    /// Each with its size in units of 4 KiB, and its fill policy and more.
    buffers: Vec<(u8, u8)>,
    /// Each with its name and target.
    data_sources: Vec<(u8, u8)>,
    is_deferred: bool,
    writes_into_file: bool,
    duration_ms: u8,
    write_period_ms: u8,
    clear_period_ms: u8,
    trigger_mode: u8,
    name: u8,
    bugreport_score: u8,
    memory: Option<(u16, u8)>,
}

impl Config {
    fn encode(&self) -> Vec<u8> {
        let mut buffer = HeapBuffered::<TraceConfig<'_>>::new();
        let mut out = buffer.message();
        for &(size, flags) in self.buffers.iter().take(4) {
            out.add_buffers(|out| {
                out.set_size_kb(u32::from(size) * 4);
                out.set_transfer_on_clone(flags & 1 > 0);
                out.set_clear_before_clone(flags & 2 > 0);
                out.set_name(NAMES[usize::from(flags >> 2) % 4]);
            });
        }
        for &(name, target) in self.data_sources.iter().take(4) {
            out.add_data_sources(|out| {
                out.config(|out| {
                    out.set_name(NAMES[usize::from(name) % 4]);
                    out.set_target_buffer(u32::from(target) % 4);
                });
            });
        }
        out.set_deferred_start(self.is_deferred);
        out.set_write_into_file(self.writes_into_file);
        if self.trigger_mode.is_multiple_of(2) {
            out.set_duration_ms(self.duration_ms.into());
        } else {
            out.trigger_config(|out| {
                out.set_trigger_mode(TriggerMode::from(i32::from(self.trigger_mode / 2 % 5)));
                out.set_trigger_timeout_ms(10_000);
                out.add_triggers(|out| {
                    out.set_name("a");
                    out.set_stop_delay_ms(self.duration_ms.into());
                });
            });
        }
        if self.write_period_ms > 0 {
            out.set_file_write_period_ms(self.write_period_ms.into());
        }
        if self.clear_period_ms > 0 {
            out.incremental_state_config(|out| {
                out.set_clear_period_ms(self.clear_period_ms.into());
            });
        }
        out.set_unique_session_name(NAMES[usize::from(self.name) % 4]);
        if self.bugreport_score > 0 {
            out.set_bugreport_score(self.bugreport_score.into());
        }
        if let Some((size_kb, page_size_kb)) = self.memory {
            out.add_producers(|out| {
                out.set_producer_name("a");
                out.set_shm_size_kb(u32::from(size_kb) % 2048);
                out.set_page_size_kb(page_size_kb.into());
            });
        }
        drop(out);
        buffer.to_vec()
    }
}

impl ProducerCall {
    /// Returns the number of the method, and the arguments.
    fn encode(&self) -> (u32, Vec<u8>) {
        let name = |name: u8| NAMES[usize::from(name) % 4];
        let buffer = |id: u8| BufferId(u16::from(id) % 16);
        let writer = |id: u8| WriterId(u16::from(id) % 8);
        let instance = |id: u8| InstanceId(u64::from(id) % 16);
        let descriptor = |it: &Descriptors| DataSourceDescriptor {
            name: name(it.name).to_owned(),
            id: u64::from(it.id) % 8,
            notifies_start: it.flags & 1 > 0,
            notifies_stop: it.flags & 2 > 0,
            needs_no_flush: it.flags & 4 > 0,
            clears_incremental_state: it.flags & 8 > 0,
            ..DataSourceDescriptor::default()
        };
        let mut args = Vec::new();
        let method = match self {
            Self::InitializeConnection {
                name: producer_name,
                size_kib,
                page_size_kib,
            } => {
                args = producer_port::initialize_connection(&Introduction {
                    producer_name: name(*producer_name).to_owned(),
                    memory_size_bytes: u32::from(*size_kib) % 2048 * 1024,
                    page_size_bytes: u32::from(*page_size_kib) * 1024,
                    ..Introduction::default()
                });
                Method::InitializeConnection
            }
            Self::Register(data_source) => {
                args = producer_port::register_data_source(&descriptor(data_source));
                Method::RegisterDataSource
            }
            Self::Update(data_source) => {
                args = producer_port::update_data_source(&descriptor(data_source));
                Method::UpdateDataSource
            }
            Self::Unregister(data_source) => {
                args = producer_port::unregister_data_source(name(*data_source));
                Method::UnregisterDataSource
            }
            Self::Move(chunks) => {
                let chunks: Vec<_> = chunks
                    .iter()
                    .map(|&(page, chunk, target)| ChunkToMove {
                        page_index: page.into(),
                        chunk_index: chunk,
                        target_buffer: buffer(target),
                        payload_bytes: 0,
                    })
                    .collect();
                producer_port::commit_moves(&chunks, |part| args.extend_from_slice(part));
                Method::CommitData
            }
            Self::Patch {
                writer_id,
                chunk_id,
                target,
                patches,
            } => {
                let patches: Vec<_> = patches
                    .iter()
                    .map(|&(offset, data)| Patch {
                        offset_bytes: offset.into(),
                        data,
                    })
                    .collect();
                let patched = PatchedChunk {
                    writer_id: writer(*writer_id),
                    chunk_id: ChunkId(u32::from(*chunk_id)),
                    target_buffer: buffer(*target),
                    patches: &patches,
                    has_more_patches: false,
                };
                producer_port::commit_patches(&patched, |part| args.extend_from_slice(part));
                Method::CommitData
            }
            Self::FlushDone(flush) => {
                args = producer_port::flush_done(FlushId(u64::from(*flush) % 16));
                Method::CommitData
            }
            Self::GetAsyncCommand => Method::GetAsyncCommand,
            Self::RegisterWriter(id, target) => {
                args = producer_port::register_trace_writer(writer(*id), buffer(*target));
                Method::RegisterTraceWriter
            }
            Self::UnregisterWriter(id) => {
                args = producer_port::unregister_trace_writer(writer(*id));
                Method::UnregisterTraceWriter
            }
            Self::Started(id) => {
                args = producer_port::notify_started(instance(*id));
                Method::NotifyDataSourceStarted
            }
            Self::Stopped(id) => {
                args = producer_port::notify_stopped(instance(*id));
                Method::NotifyDataSourceStopped
            }
            Self::ActivateTriggers(names) => {
                let names: Vec<_> = names.iter().map(|it| name(*it).to_owned()).collect();
                args = producer_port::activate_triggers(&names);
                Method::ActivateTriggers
            }
            Self::Sync => Method::Sync,
        };
        (method.id(), args)
    }
}

impl ConsumerCall {
    /// Returns the number of the method, and the arguments.
    fn encode(&self) -> (u32, Vec<u8>) {
        let name = |name: &u8| NAMES[usize::from(*name) % 4];
        let config;
        let request = match self {
            Self::Enable(it) => {
                config = it.encode();
                Request::EnableTracing {
                    config: &config,
                    attaches_notification_only: false,
                }
            }
            Self::AttachNotification => Request::EnableTracing {
                config: &[],
                attaches_notification_only: true,
            },
            Self::Disable => Request::DisableTracing,
            Self::Read => Request::ReadBuffers,
            Self::Free => Request::FreeBuffers,
            Self::Flush(timeout_ms) => Request::Flush {
                timeout_ms: (*timeout_ms).into(),
                flags: FlushFlags::explicit(),
            },
            Self::Start => Request::StartTracing,
            Self::Change(it) => {
                config = it.encode();
                Request::ChangeTraceConfig { config: &config }
            }
            Self::Detach(key) => Request::Detach { key: name(key) },
            Self::Attach(key) => Request::Attach { key: name(key) },
            Self::Stats => Request::GetTraceStats,
            Self::Observe(events) => Request::ObserveEvents(ObservedEvents {
                instances: events & 1 > 0,
                all_started: events & 2 > 0,
                clone_triggers: events & 4 > 0,
            }),
            Self::State(sessions_only) => Request::QueryServiceState {
                sessions_only: *sessions_only,
            },
            Self::Capabilities => Request::QueryCapabilities,
            Self::Save => Request::SaveTraceForBugreport,
            Self::Clone {
                source,
                has_trigger,
            } => Request::CloneSession(CloneSession {
                source: match source {
                    Source::Id(id) => CloneSource::Id(u64::from(*id) % 8),
                    Source::Name(it) => CloneSource::Name(name(it)),
                    Source::Best => CloneSource::Id(BEST_FOR_BUGREPORT),
                },
                skips_trace_filter: false,
                is_for_bugreport: false,
                trigger: has_trigger.then_some(Trigger {
                    name: "a",
                    producer_name: "b",
                    ..Trigger::default()
                }),
            }),
        };
        (request.method().id(), request.encode())
    }
}

/// A producer or consumer.
struct Peer {
    socket: Socket,
    is_consumer: bool,
    last_request: u64,
    memory: Option<ProducerMemory>,
    last_chunk: u32,
}

impl Peer {
    fn connect(is_consumer: bool) -> Option<Self> {
        Some(Self {
            socket: Socket::connect(&address(is_consumer)).ok()?,
            is_consumer,
            last_request: 0,
            memory: None,
            last_chunk: 0,
        })
    }

    fn send(&mut self, bytes: &[u8], descriptor: Option<OwnedFd>) {
        // What does not fit is sent later, or never.
        let queue = self.socket.queue();
        match descriptor {
            Some(descriptor) if !bytes.is_empty() => {
                queue.push_with_descriptor(descriptor, |out| out.extend_from_slice(bytes));
            }
            _ => queue.push(|out| out.extend_from_slice(bytes)),
        }
        let _ = self.socket.send();
    }

    fn call(&mut self, call: &Call, sent_as: &SentAs, files: &Files) {
        let (service_id, (method_id, mut args)) = match call {
            Call::Producer(call) => (1, call.encode()),
            Call::Consumer(call) => (1, call.encode()),
            Call::Unknown {
                service_id,
                method_id,
            } => (u32::from(*service_id), (u32::from(*method_id), vec![])),
        };
        args.truncate(args.len().saturating_sub(usize::from(sent_as.cut % 8)));
        if let Some((at, byte)) = sent_as.changed
            && !args.is_empty()
        {
            let at = usize::from(at) % args.len();
            args[at] ^= byte;
        }
        args.extend_from_slice(&sent_as.more);
        self.last_request += 1;
        let mut frame = Vec::new();
        let body = Body::Invoke {
            service_id,
            method_id,
            args: &args,
            drops_reply: sent_as.drops_reply,
        };
        let request_id = self.last_request;
        if (Frame { request_id, body }).append_if_it_fits(&mut frame) {
            self.send(&frame, files.open(sent_as.descriptor));
        }
    }

    /// Takes what has arrived. Calls `each` with each reply.
    fn read(&mut self, mut each: impl FnMut(u64, Option<&[u8]>, bool)) {
        let _ = self.socket.send();
        while let Ok(Received::Bytes) = self.socket.receive() {
            loop {
                // The daemon sends sound frames.
                let Some(bytes) = self.socket.next_frame().expect("a short frame") else {
                    break;
                };
                let frame = Frame::decode(bytes).expect("a sound frame");
                let Body::Reply { reply, has_more } = frame.body else {
                    continue;
                };
                each(frame.request_id, reply, has_more);
                let Some(reply) = reply.filter(|_| !self.is_consumer && has_more) else {
                    continue;
                };
                let command = Command::decode(reply).expect("a sound command");
                if let Command::SetUpTracing { page_size_kib } = command {
                    let fd = self.socket.take_descriptor().expect("memory comes with it");
                    let shared = SharedFd::attach(fd, page_size_kib as usize * 1024);
                    let memory = ProducerMemory::attach(&shared.expect("sound memory"));
                    self.memory = Some(memory.expect("sound memory"));
                }
            }
        }
    }

    fn write(&mut self, page: u8, target: u8, packet: &[u8], commits: bool) {
        let Some(memory) = &self.memory else {
            return;
        };
        let page_index = u32::from(page) % memory.geometry().page_count();
        let header = NewChunk {
            writer_id: WriterId(u16::from(target) % 8),
            chunk_id: ChunkId(self.last_chunk),
            flags: ChunkFlags::NONE,
        };
        self.last_chunk += 1;
        let chunk = memory.acquire_for_writing(page_index, PageLayout::One, header);
        let Some(mut chunk) = chunk else {
            return;
        };
        let len = packet.len().min(chunk.free_bytes().saturating_sub(4));
        chunk.append_packet(&packet[..len]);
        chunk.publish_finished();
        if !commits {
            // The daemon finds it in the memory.
            std::mem::forget(chunk);
            return;
        }
        let place = chunk.complete();
        let chunk_index = place.chunk_index;
        let (_, args) = ProducerCall::Move(vec![(page_index as u8, chunk_index, target)]).encode();
        let mut frame = Vec::new();
        Frame {
            request_id: 0,
            body: Body::Invoke {
                service_id: 1,
                method_id: Method::CommitData.id(),
                args: &args,
                drops_reply: true,
            },
        }
        .append_to(&mut frame);
        self.send(&frame, None);
    }
}

fn address(is_consumer: bool) -> Address {
    let side = if is_consumer {
        "consumers"
    } else {
        "producers"
    };
    let name = format!("@tracezero-fuzz-{}-{side}", std::process::id());
    name.parse().expect("an address")
}

/// The files whose descriptors are sent.
struct Files {
    folder: PathBuf,
}

impl Files {
    fn new() -> Self {
        let name = format!("tracezero-fuzz-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("read-only"), "content").expect("a file");
        Self { folder }
    }

    fn open(&self, descriptor: Descriptor) -> Option<OwnedFd> {
        /// Opens the path alone.
        const O_PATH: i32 = 0o10_000_000;
        let mut options = File::options();
        let opened = match descriptor {
            Descriptor::None | Descriptor::None2 | Descriptor::None3 => return None,
            Descriptor::File => {
                let options = options.read(true).write(true).create(true).truncate(true);
                options.open(self.folder.join("trace"))
            }
            Descriptor::ReadOnly => File::open(self.folder.join("read-only")),
            Descriptor::PathOnly => {
                let options = options.read(true).custom_flags(O_PATH);
                options.open(self.folder.join("read-only"))
            }
            Descriptor::Folder => File::open(&self.folder),
            Descriptor::Socket => {
                let (one, _) = UnixStream::pair().expect("sockets");
                return Some(one.into());
            }
            Descriptor::Null => options.read(true).write(true).open("/dev/null"),
            Descriptor::Full => options.read(true).write(true).open("/dev/full"),
        };
        Some(opened.expect("it can be opened").into())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the number of descriptors of this process.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd")
        .expect("it is mounted")
        .count()
}

fuzz_target!(|steps: Vec<Step>| {
    let files = Files::new();
    let descriptors_before = descriptors();
    let detached = Arc::<AtomicUsize>::default();
    let mut daemon = daemon(&detached);
    let mut peers: Vec<Peer> = Vec::new();
    for step in steps.into_iter().take(STEPS_MAX) {
        run(step, &mut daemon, &mut peers, &files);
    }
    daemon.settle().expect("it serves");
    drop(peers);
    daemon.settle().expect("it serves");
    check_state(&mut daemon, detached.load(Ordering::Relaxed));
    daemon.stopper().stop();
    daemon.run().expect("it ends");
    let has_closed = || descriptors() == descriptors_before;
    // A thread that wrote a file ends a little later.
    let mut looks = 0..1000;
    let closes = looks.any(|_| {
        has_closed() || {
            std::thread::sleep(std::time::Duration::from_millis(1));
            false
        }
    });
    assert!(closes, "descriptors are left");
});

fn daemon(detached: &Arc<AtomicUsize>) -> Daemon {
    let detached = Arc::clone(detached);
    let mut options = DaemonOptions::new(Log::new(move |line| {
        // Relaxed: it is a count.
        if line.ends_with("is detached") {
            detached.fetch_add(1, Ordering::Relaxed);
        }
    }));
    options.producer_addresses = vec![address(false)];
    options.consumer_addresses = vec![address(true)];
    options.buffers_max_bytes = 16 << 20;
    Daemon::bind(options).expect("nobody listens there")
}

fn run(step: Step, daemon: &mut Daemon, peers: &mut Vec<Peer>, files: &Files) {
    let count = peers.len();
    match step {
        Step::Connect { is_consumer } if count < PEERS_MAX => {
            peers.extend(Peer::connect(is_consumer));
            return;
        }
        Step::Connect { .. } => {}
        Step::Close(number) if count > 0 => {
            peers.swap_remove(usize::from(number) % count);
            return;
        }
        Step::Close(_) => {}
        Step::Call {
            peer: number,
            call,
            sent_as,
        } => {
            // Calls go to a peer that may make them, if there is one.
            let is_wanted = |peer: &Peer| match call {
                Call::Producer(_) => !peer.is_consumer,
                Call::Consumer(_) => peer.is_consumer,
                Call::Unknown { .. } => true,
            };
            let wanted = peers.iter_mut().filter(|peer| is_wanted(peer));
            let mut wanted: Vec<_> = wanted.collect();
            let count = wanted.len();
            if let Some(peer) = wanted.get_mut(usize::from(number) % count.max(1)) {
                peer.call(&call, &sent_as, files);
            }
        }
        Step::Frame(number, bytes) => {
            if let Some(peer) = peers.get_mut(usize::from(number) % count.max(1))
                && bytes.len() <= FRAME_MAX_BYTES
            {
                let mut frame = Vec::new();
                append_frame(&mut frame, &bytes);
                peer.send(&frame, None);
            }
        }
        Step::Bytes(number, bytes) => {
            if let Some(peer) = peers.get_mut(usize::from(number) % count.max(1)) {
                peer.send(&bytes, None);
            }
        }
        Step::Read(number) => {
            if let Some(peer) = peers.get_mut(usize::from(number) % count.max(1)) {
                peer.read(|_, _, _| ());
            }
        }
        Step::Write {
            peer: number,
            page,
            target,
            packet,
            commits,
        } => {
            if let Some(peer) = peers.get_mut(usize::from(number) % count.max(1)) {
                peer.write(page, target, &packet, commits);
            }
        }
        Step::Settle => daemon.settle().expect("it serves"),
    }
}

/// Checks what a new consumer finds when all others have gone.
fn check_state(daemon: &mut Daemon, detached_max: usize) {
    let mut consumer = Peer::connect(true).expect("it takes connections");
    let sessions_only = false;
    let query = Request::QueryServiceState { sessions_only };
    let mut frame = Vec::new();
    Frame {
        request_id: 1,
        body: Body::Invoke {
            service_id: 1,
            method_id: query.method().id(),
            args: &query.encode(),
            drops_reply: false,
        },
    }
    .append_to(&mut frame);
    consumer.send(&frame, None);
    daemon.settle().expect("it serves");
    let mut replies = 0;
    consumer.read(|_, reply, has_more| {
        let state = decode_service_state(reply.expect("a success")).expect("a sound reply");
        let state = TracingServiceStateDecoder::new(state);
        assert_eq!(state.producers().count(), 0);
        assert!(state.tracing_sessions().count() <= detached_max);
        assert!(!has_more);
        replies += 1;
    });
    assert_eq!(replies, 1);
}
