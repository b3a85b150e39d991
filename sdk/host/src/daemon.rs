//! A daemon: listens, serves, and ends in order.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tracezero_core::own_attributes::refused_environment;
use tracezero_ipc::address::Address;
use tracezero_ipc::listener::{Listener, Permissions};
use tracezero_ipc::waker::Waker;
use tracezero_service::{Environment, Limits, Machine, Service, SessionState, SessionSummary};

use crate::detached::Detached;
use crate::event_loop::{EventLoop, Side};
use crate::host::Host;
use crate::limits::{END_LIMIT, SLOW_READER_LIMIT, STUCK_READER_LIMIT};
use crate::log::{Log, Subject};
use crate::log_environment::LogEnvironment;
use crate::memory::MemoryQuotas;
use crate::outgoing::Noted;
use crate::output_folder::OutputFolder;
use crate::slow_readers::WaitLimits;

/// The options of a daemon: addresses, permissions and limits.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// The sockets for producers.
    pub producer_addresses: Vec<Address>,
    /// The permissions of these sockets: any local user may connect, by default.
    pub producer_permissions: Permissions,
    /// The sockets for consumers.
    pub consumer_addresses: Vec<Address>,
    /// The permissions of these sockets: the user of the daemon and root may connect, by default.
    pub consumer_permissions: Permissions,
    /// The size of the trace buffers of all sessions and clones, in bytes: half of the machine's
    /// memory, by default.
    pub buffers_max_bytes: u64,
    /// The folder in which sessions of other users may create trace files with `output_path`. If it
    /// is `None`, these sessions must pass open files. With a folder, the daemon must run as root,
    /// because the files belong to these users.
    pub output_folder: Option<PathBuf>,
    /// True if sessions also record data sources that their configurations do not list, into their
    /// first buffer.
    pub records_all: bool,
    /// How long a producer waits for a file that takes no bytes of its trace: 500 ms, by default.
    /// While the producer waits, its shared memory fills, so its threads wait or drop packets.
    /// After this time, the trace loses packets.
    pub stuck_file_limit: Duration,
    /// The total time that a producer waits for a file that takes its trace slowly, until the file
    /// has caught up: 2 s, by default.
    pub slow_file_limit: Duration,
    /// The log.
    pub log: Log,
}

impl DaemonOptions {
    /// Returns the options of a daemon without sockets.
    #[must_use]
    pub fn new(log: Log) -> Self {
        Self {
            producer_addresses: Vec::new(),
            producer_permissions: Permissions {
                mode: 0o666,
                gid: None,
            },
            consumer_addresses: Vec::new(),
            consumer_permissions: Permissions {
                mode: 0o600,
                gid: None,
            },
            buffers_max_bytes: machine_memory_bytes() / 2,
            output_folder: None,
            records_all: false,
            stuck_file_limit: STUCK_READER_LIMIT,
            slow_file_limit: SLOW_READER_LIMIT,
            log,
        }
    }
}

/// The reason why a daemon cannot start.
#[derive(Debug)]
#[non_exhaustive]
pub enum DaemonError {
    /// The daemon cannot listen at an address.
    Listen {
        /// The address.
        address: Address,
        /// The reason.
        source: io::Error,
    },
    /// The daemon cannot open the folder for trace files.
    OutputFolder {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The system has refused another resource.
    Io(io::Error),
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, source } => {
                write!(f, "cannot listen at {address}: {source}")?;
                f.write_str(remedy(source.kind()))
            }
            Self::OutputFolder { path, source } => {
                let path = path.display();
                write!(
                    f,
                    "the folder for trace files, {path}, cannot be opened: {source}"
                )
            }
            Self::Io(error) => error.fmt(f),
        }
    }
}

/// Returns what to do if a daemon cannot listen for this reason.
fn remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::AddrInUse => {
            "; another daemon listens there: end that one, or choose another address"
        }
        io::ErrorKind::AlreadyExists => {
            "; a file that is no socket is there: remove it, or choose another address"
        }
        io::ErrorKind::NotFound => {
            "; the folder does not exist: make it, or choose another address"
        }
        io::ErrorKind::PermissionDenied => {
            "; the user of the daemon must be able to write to the folder, and be a member of the group \
             that the socket gets"
        }
        _ => "",
    }
}

impl std::error::Error for DaemonError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { source, .. } | Self::OutputFolder { source, .. } | Self::Io(source) => {
                Some(source)
            }
        }
    }
}

impl From<io::Error> for DaemonError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A tracing daemon. Programs of Perfetto and of tracezero connect to it as to Perfetto's `traced`.
///
/// ```
/// use tracezero_host::{Daemon, DaemonOptions, Log};
///
/// # let folder = std::env::temp_dir().join(format!("host-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let mut options = DaemonOptions::new(Log::new(|line| eprintln!("{line}")));
/// options.producer_addresses = vec![folder.join("producers").try_into()?];
/// options.consumer_addresses = vec![folder.join("consumers").try_into()?];
/// let daemon = Daemon::bind(options)?;
/// let stopper = daemon.stopper();
/// let thread = std::thread::spawn(|| daemon.run());
/// // Later, from any thread or from a signal handler:
/// stopper.stop();
/// thread.join().unwrap()?;
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Daemon {
    host: Arc<Host>,
    event_loop: EventLoop,
    stopping: Arc<AtomicBool>,
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").finish_non_exhaustive()
    }
}

impl Daemon {
    /// Listens at the addresses. From then on, connections wait until [`run`](Self::run) accepts
    /// them.
    ///
    /// # Errors
    ///
    /// If the daemon cannot listen at an address, or if descriptors run out. A network address is
    /// refused unless all users may connect.
    pub fn bind(options: DaemonOptions) -> Result<Self, DaemonError> {
        let mut listeners = Vec::new();
        for (side, addresses, permissions) in [
            (
                Side::Producers,
                options.producer_addresses,
                options.producer_permissions,
            ),
            (
                Side::Consumers,
                options.consumer_addresses,
                options.consumer_permissions,
            ),
        ] {
            for address in addresses {
                let listener = Listener::bind(&address, permissions);
                let listener =
                    listener.map_err(|source| DaemonError::Listen { address, source })?;
                listeners.push((side, listener));
            }
        }
        let output_folder = options.output_folder.map(|path| {
            let opened = OutputFolder::open(&path);
            opened.map_err(|source| DaemonError::OutputFolder { path, source })
        });
        let limits = Limits {
            buffers_bytes: options.buffers_max_bytes,
            ..Limits::default()
        };
        for refused in refused_environment() {
            options
                .log
                .line(Subject::Session, format_args!("{refused}"));
        }
        let environment = LogEnvironment::new(options.log.clone());
        let host = Arc::new(Host {
            uid: Machine.uid(),
            service: Service::new(Arc::new(environment), limits),
            log: options.log,
            memory_quotas: Arc::new(MemoryQuotas::default()),
            output_folder: output_folder.transpose()?,
            records_all: options.records_all,
            wait_limits: WaitLimits {
                without_progress: options.stuck_file_limit,
                in_all: options.slow_file_limit,
            },
            detached: Detached::default(),
            is_ending: AtomicBool::new(false),
            open_files: AtomicUsize::new(0),
            noted: Arc::new(Noted::new(Waker::new()?)),
        });
        Ok(Self {
            event_loop: EventLoop::new(Arc::clone(&host), listeners)?,
            host,
            stopping: Arc::default(),
        })
    }

    /// Returns a handle that stops the daemon.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper {
            stopping: Arc::clone(&self.stopping),
            noted: Arc::clone(&self.host.noted),
        }
    }

    /// Serves until the daemon is stopped. Then flushes and ends all sessions, and finishes their
    /// files, which may take 5 s. Consumers get another 5 s to read the traces of their sessions.
    ///
    /// # Errors
    ///
    /// If the system does not let the daemon wait for connections.
    pub fn run(mut self) -> io::Result<()> {
        self.host.noted.enter_loop();
        // Acquire pairs with the release in `Stopper::stop`.
        while !self.stopping.load(Ordering::Acquire) {
            self.event_loop.turn(None)?;
        }
        self.event_loop.stop_listening();
        self.end_sessions()
    }

    /// Serves until there is nothing to do at once. For fuzz targets, which have one thread.
    ///
    /// # Errors
    ///
    /// If the system does not let the daemon wait for connections.
    #[cfg(fuzzing)]
    pub fn settle(&mut self) -> io::Result<()> {
        self.host.noted.enter_loop();
        while self.event_loop.turn(Some(Instant::now()))? {}
        Ok(())
    }

    fn end_sessions(&mut self) -> io::Result<()> {
        // Relaxed, like the load: the same thread stores the flag and handles the requests for
        // sessions.
        self.host.is_ending.store(true, Ordering::Relaxed);
        let service = &self.host.service;
        for session in service.service_state(0).sessions {
            service.end_with_process(session.id);
        }
        self.turn_while(Self::has_work)?;
        self.turn_while(|it| it.has_work() || it.event_loop.has_readers())?;
        // Consumers learn that their sessions have ended.
        self.event_loop.send_noted();
        Ok(())
    }

    /// Serves while `waits` returns true, but not longer than [`END_LIMIT`].
    fn turn_while(&mut self, waits: impl Fn(&Self) -> bool) -> io::Result<()> {
        let deadline = Instant::now() + END_LIMIT;
        while Instant::now() < deadline && waits(self) {
            self.event_loop.turn(Some(deadline))?;
        }
        Ok(())
    }

    /// Returns true if a session has not ended, or a file is not complete.
    fn has_work(&self) -> bool {
        let sessions = self.host.service.service_state(0).sessions;
        let has_ended = |session: &SessionSummary| session.state == SessionState::Ended;
        // Relaxed: as in `file_session`.
        !sessions.iter().all(has_ended) || self.host.open_files.load(Ordering::Relaxed) > 0
    }
}

/// Returns the size of the machine's memory; the largest number if the system does not tell.
fn machine_memory_bytes() -> u64 {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total_kib = memory.lines().find_map(|line| {
        let value = line.strip_prefix("MemTotal:")?.strip_suffix("kB")?;
        value.trim().parse::<u64>().ok()
    });
    total_kib.map_or(u64::MAX, |kib| kib * 1024)
}

/// Stops a daemon.
#[derive(Clone, Debug)]
pub struct Stopper {
    stopping: Arc<AtomicBool>,
    noted: Arc<Noted>,
}

impl Stopper {
    /// Makes [`Daemon::run`] return. Async-signal-safe.
    pub fn stop(&self) {
        // Release pairs with the acquire in `Daemon::run`.
        self.stopping.store(true, Ordering::Release);
        self.noted.waker.wake();
    }
}
