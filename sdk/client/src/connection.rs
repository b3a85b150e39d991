//! One connection, from the first byte to its end.
//!
//! ```text
//!  Binding ----> Initializing ----> Connected ----> with memory
//!    reply with    reply              descriptor
//!    the methods                      of the memory
//! ```
//!
//! A daemon behind a network gives no memory. The connection then has memory of its own, and sends
//! the bytes: see `memory`.

use std::fmt;
use std::io;
use std::mem;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracezero_core::forked_child::ClosedInChild;
use tracezero_core::shm::{ProducerMemory, SharedFd};
use tracezero_ipc::address::Address;
use tracezero_ipc::producer_port::{self, Command, Introduction, Method, Methods};
use tracezero_ipc::socket::{Received, Socket};
use tracezero_ipc::wire::{Body, Frame};
use tracezero_producer::DataSourceState;

use crate::calls::{Calls, CallsThread, TooManyCalls};
use crate::memory::{EmulatedMemory, Memory};
use crate::options::Options;
use crate::outbox::{Batch, Outbox};
use crate::remote_service::RemoteService;
use crate::requests::Requests;
use crate::shared::Shared;
use crate::syncs::Syncs;
use crate::totals::Totals;
use crate::trust::is_trusted;

/// The period at which the thread looks for more commits while writers commit packets. So a writer
/// at full speed need not wake the thread.
const LOOK_PERIOD: Duration = Duration::from_millis(5);
/// How long the thread goes on looking after the last commit: until a look finds none. A writer that
/// commits less often wakes the thread each time, which costs less than looks in vain.
const LOOK_FOR: Duration = LOOK_PERIOD;
/// The period at which writers restart their incremental state. This also holds if this process
/// writes little, because other processes write to the same ring.
const RESTART_STATE_EVERY: Duration = Duration::from_secs(5);
/// The longest time until the daemon has answered the first requests.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// The longest time that the end of a connection waits for the socket to take what is left.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// The number of bytes waiting for a network above which the thread adds none. Writers then find no
/// free chunk, and wait or drop packets by their policies.
const NETWORK_UNSENT_MAX_BYTES: usize = 1 << 20;
/// The maximum number of bytes that wait for the socket.
const UNSENT_MAX_BYTES: usize = 16 << 20;
/// The maximum number of frames that cannot be decoded.
const MALFORMED_MAX: u32 = 16;

/// Why a connection has ended, or was not made.
#[derive(Debug)]
pub(crate) enum End {
    /// The application has dropped the client.
    Closed,
    Io(io::Error),
    /// The daemon has closed the connection.
    ByDaemon,
    Untrusted {
        uid: u32,
    },
    /// The daemon does not follow the protocol, or cannot do what is needed.
    Refused(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed"),
            Self::Io(error) => error.fmt(f),
            Self::ByDaemon => f.write_str("the daemon has closed the connection"),
            Self::Untrusted { uid } => write!(
                f,
                "the daemon belongs to user {uid}, and others than this user could have made the socket; \
                 trust the user with `trust_uid({uid})`"
            ),
            Self::Refused(text) => f.write_str(text),
        }
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::ByDaemon,
            _ => Self::Io(error),
        }
    }
}

fn refused(reason: impl fmt::Display) -> End {
    End::Refused(reason.to_string())
}

fn too_many_calls(_: TooManyCalls) -> End {
    refused("more commands of the daemon wait than data sources keep up with")
}

/// The stage that the connection has reached.
enum Stage {
    Binding,
    Initializing(Methods, u64),
    Connected(Connected),
}

/// A connection over which the producer records.
struct Connected {
    methods: Methods,
    outbox: Arc<Outbox>,
    calls: Calls,
    memory: Memory,
}

impl Connected {
    /// Returns true if items stay in the outbox for now.
    fn is_paused(&self, socket: &Socket) -> bool {
        matches!(self.memory, Memory::Emulated(_))
            && socket.unsent_bytes() > NETWORK_UNSENT_MAX_BYTES
    }
}

/// A connection.
pub(crate) struct Connection<'a> {
    shared: &'a Arc<Shared>,
    options: &'a Options,
    first: &'static DataSourceState,
    requests: Requests,
    /// A forked child closes its copy, so that the daemon notices the end of this process.
    _closed_in_child: ClosedInChild,
    stage: Stage,
    commands_request: u64,
    malformed_frames: u32,
    started: Instant,
    last_items: Instant,
    last_restart: Instant,
    batch: Batch,
    /// The thread that makes the daemon's calls, once the connection has one.
    pub(crate) calls_thread: Option<CallsThread>,
}

impl<'a> Connection<'a> {
    /// Connects to the daemon, and sends the first request.
    pub(crate) fn open(
        shared: &'a Arc<Shared>,
        options: &'a Options,
        first: &'static DataSourceState,
    ) -> Result<Self, End> {
        let socket = Socket::connect(&options.address)?;
        if !matches!(options.address, Address::Network(_)) {
            let uid = socket.peer()?.uid;
            if !is_trusted(&options.address, uid, &options.trusted_uids) {
                return Err(End::Untrusted { uid });
            }
        }
        let now = Instant::now();
        Ok(Self {
            shared,
            options,
            first,
            _closed_in_child: ClosedInChild::new(socket.descriptor())?,
            requests: Requests::bind(socket),
            stage: Stage::Binding,
            commands_request: 0,
            malformed_frames: 0,
            started: now,
            last_items: now,
            last_restart: now,
            batch: Batch::default(),
            calls_thread: None,
        })
    }

    /// Serves the connection until it ends.
    pub(crate) fn serve(&mut self) -> End {
        let end = loop {
            if let Err(end) = self.turn() {
                break end;
            }
        };
        if matches!(end, End::Closed) {
            self.send_rest();
        }
        if let Stage::Connected(connected) = mem::replace(&mut self.stage, Stage::Binding) {
            connected.outbox.close();
            if self.shared.is_exiting() {
                // Dropping the queue would make the calls thread disconnect the realm, and call the
                // application.
                mem::forget(connected.calls);
            }
        }
        end
    }

    /// Sends what waits, waits for more to send or receive, and handles the frames that have
    /// arrived.
    fn turn(&mut self) -> Result<(), End> {
        if self.shared.is_closing() {
            return Err(End::Closed);
        }
        self.send_items()?;
        let is_sent = self.requests.socket.send()?;
        self.wait(is_sent)?;
        self.shared.waker.reset();
        let received = self.requests.socket.receive()?;
        self.handle_frames()?;
        match received {
            Received::End => Err(End::ByDaemon),
            Received::Bytes | Received::Nothing => Ok(()),
        }
    }

    fn wait(&mut self, is_sent: bool) -> Result<(), End> {
        let timeout = self.timeout()?;
        let mut interest = PollFlags::IN;
        if !is_sent {
            interest |= PollFlags::OUT;
        }
        let mut fds = [
            PollFd::from_borrowed_fd(self.requests.socket.as_fd(), interest),
            PollFd::from_borrowed_fd(self.shared.waker.as_fd(), PollFlags::IN),
        ];
        let timeout = Timespec::try_from(timeout).unwrap_or_default();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// Returns how long to wait for the socket or the outbox.
    fn timeout(&mut self) -> Result<Duration, End> {
        let Stage::Connected(connected) = &self.stage else {
            return match HANDSHAKE_LIMIT.checked_sub(self.started.elapsed()) {
                Some(rest) => Ok(rest),
                None => Err(refused(format_args!(
                    "the daemon has not answered for {HANDSHAKE_LIMIT:?}"
                ))),
            };
        };
        if self.last_restart.elapsed() >= RESTART_STATE_EVERY {
            self.last_restart = Instant::now();
            connected.calls.restart_state();
        }
        if connected.is_paused(&self.requests.socket) {
            return Ok(RESTART_STATE_EVERY);
        }
        if self.last_items.elapsed() < LOOK_FOR {
            return Ok(LOOK_PERIOD);
        }
        match connected.outbox.sleep() {
            true => Ok(RESTART_STATE_EVERY),
            false => Ok(Duration::ZERO),
        }
    }

    fn handle_frames(&mut self) -> Result<(), End> {
        loop {
            // Copies the frame, because handling it may need the socket.
            let frame = self.requests.socket.next_frame().map_err(refused)?;
            let Some(bytes) = frame.map(<[u8]>::to_vec) else {
                return Ok(());
            };
            let Ok(frame) = Frame::decode(&bytes) else {
                self.malformed_frames += 1;
                if self.malformed_frames > MALFORMED_MAX {
                    return Err(refused("the daemon sends frames that are malformed"));
                }
                continue;
            };
            self.handle(&frame)?;
        }
    }

    fn handle(&mut self, frame: &Frame<'_>) -> Result<(), End> {
        match (&frame.body, &self.stage) {
            (Body::Bound(bound), Stage::Binding) => {
                let bound = bound.as_ref();
                let bound = bound.ok_or_else(|| refused("the daemon takes no producers here"))?;
                let methods = Methods::new(bound).map_err(refused)?;
                let request = producer_port::initialize_connection(&Introduction {
                    producer_name: self.options.producer_name.clone(),
                    memory_size_bytes: self.options.memory_size_bytes,
                    page_size_bytes: self.options.page_size_bytes,
                    sdk_version: concat!("tracezero ", env!("CARGO_PKG_VERSION")).to_owned(),
                    takes_changes: methods.are_of_tracezero(),
                });
                let requests = &mut self.requests;
                let request_id = requests.ask(&methods, Method::InitializeConnection, &request);
                self.commands_request = requests.ask(&methods, Method::GetAsyncCommand, &[]);
                self.stage = Stage::Initializing(methods, request_id);
                Ok(())
            }
            (Body::Reply { reply, .. }, Stage::Initializing(methods, request_id))
                if frame.request_id == *request_id =>
            {
                let reply = reply.ok_or_else(|| refused("the daemon has refused this producer"))?;
                let is_emulated = producer_port::needs_emulation(reply).map_err(refused)?;
                let methods = methods.clone();
                self.connected(methods, is_emulated)
            }
            (Body::Reply { reply, has_more }, Stage::Connected(_))
                if frame.request_id == self.commands_request =>
            {
                if let Some(reply) = reply {
                    // A command that cannot be decoded is ignored.
                    let command = Command::decode(reply).unwrap_or(Command::Unknown);
                    self.command(command)?;
                }
                match has_more {
                    true => Ok(()),
                    false => Err(refused("the daemon sends no more commands")),
                }
            }
            (Body::Reply { .. }, Stage::Connected(connected)) => {
                match self.requests.answered_sync(frame.request_id) {
                    Some(number) => connected.calls.finish_sync(number).map_err(too_many_calls),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Starts the calls thread after the daemon has accepted the producer. That thread offers all
    /// data sources to the daemon.
    fn connected(&mut self, methods: Methods, is_emulated: bool) -> Result<(), End> {
        let outbox = Arc::new(Outbox::new(Arc::clone(&self.shared.waker)));
        let service = Arc::new(RemoteService {
            outbox: Arc::clone(&outbox),
            totals: methods.are_of_tracezero().then(Totals::default),
            syncs: self.options.waits_for_daemon.then(Syncs::default),
        });
        let (calls, thread) = Calls::start(
            service,
            self.first,
            self.options.stall_limit,
            Arc::clone(self.shared),
        )?;
        self.calls_thread = Some(thread);
        self.stage = Stage::Connected(Connected {
            methods,
            outbox,
            calls,
            memory: Memory::None { is_emulated },
        });
        self.shared.set_connected();
        Ok(())
    }

    fn command(&mut self, command: Command<'_>) -> Result<(), End> {
        let Stage::Connected(connected) = &mut self.stage else {
            return Ok(());
        };
        let passed = match command {
            Command::SetUpTracing { page_size_kib } => {
                let page_bytes = page_size_kib.saturating_mul(1024) as usize;
                let memory = match connected.memory {
                    Memory::None { is_emulated: false } => {
                        let fd = self.requests.socket.take_descriptor();
                        let fd = fd.ok_or_else(|| refused("the daemon has given no memory"))?;
                        let shared =
                            SharedFd::attach(fd.into_descriptor(), page_bytes).map_err(refused)?;
                        connected.memory = Memory::Shared;
                        ProducerMemory::attach(&shared).map_err(refused)?
                    }
                    Memory::None { is_emulated: true } => {
                        let (memory, emulated) =
                            EmulatedMemory::new(page_bytes).map_err(refused)?;
                        connected.memory = Memory::Emulated(emulated);
                        memory
                    }
                    Memory::Shared | Memory::Emulated(_) => {
                        return Err(refused("the daemon has given memory twice"));
                    }
                };
                // Reserves two batches, because the outbox and this thread exchange theirs.
                self.batch.reserve(memory.geometry());
                connected.outbox.set_geometry(memory.geometry());
                connected.calls.use_memory(memory)
            }
            command => connected.calls.command(command),
        };
        passed.map_err(too_many_calls)
    }

    /// Sends what is in the outbox.
    fn send_items(&mut self) -> Result<(), End> {
        let Stage::Connected(connected) = &mut self.stage else {
            return Ok(());
        };
        if connected.is_paused(&self.requests.socket) {
            return Ok(());
        }
        let is_in_time = connected.outbox.take(&mut self.batch);
        if !self.batch.is_empty() {
            self.last_items = Instant::now();
        }
        let Connected {
            methods, memory, ..
        } = connected;
        self.requests.queue(methods, &self.batch, memory);
        self.batch.clear();
        if is_in_time && self.requests.socket.unsent_bytes() <= UNSENT_MAX_BYTES {
            Ok(())
        } else {
            Err(refused("the daemon has not read for too long"))
        }
    }

    /// Sends what writers have committed. A daemon on this machine reads the other chunks from the
    /// shared memory. For a daemon on a network, this sends the packets of those chunks, too.
    fn send_rest(&mut self) {
        let limit = Instant::now() + CLOSE_LIMIT;
        let thread = self.calls_thread.as_ref();
        if let Some(service) = thread.and_then(|thread| thread.service.upgrade()) {
            service.push_totals();
        }
        self.send_all(limit);
        // The commands above have registered all writers in the memory.
        if let Stage::Connected(connected) = &mut self.stage
            && let Memory::Emulated(memory) = &mut connected.memory
        {
            self.requests.scrape(&connected.methods, memory);
            self.send_all(limit);
        }
    }

    /// Sends what is in the outbox. What writers add meanwhile may stay there.
    fn send_all(&mut self, limit: Instant) {
        while Instant::now() < limit {
            let socket = &self.requests.socket;
            let was_paused =
                matches!(&self.stage, Stage::Connected(connected) if connected.is_paused(socket));
            if self.send_items().is_err() {
                return;
            }
            match self.requests.socket.send() {
                Ok(true) if was_paused => {}
                Ok(false) => thread::sleep(LOOK_PERIOD),
                Ok(true) | Err(_) => return,
            }
        }
    }
}
