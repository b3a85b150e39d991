//! Connects to the daemon, again and again.

use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracezero_core::{forked_child, own_thread, reentry};
use tracezero_ipc::address::Address;
use tracezero_ipc::producer_port::Introduction;
use tracezero_producer::DataSourceState;

use crate::back_off::BackOff;
use crate::connection::{Connection, End};
use crate::outbox::Waker;
use crate::shared::{ClientState, Shared};

/// How long a client that is dropped waits for its threads. A data source whose callback hangs must
/// not hang the application.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// How to connect.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the daemon listens.
    pub address: Address,
    /// The name by which configurations choose this producer.
    pub producer_name: String,
    /// The size of the shared memory that the producer would like, in bytes; 0 for no wish.
    pub memory_size_bytes: u32,
    /// The size of its pages, in bytes; 0 for no wish.
    pub page_size_bytes: u32,
    /// Users whose daemons are trusted, in addition to root and the own user.
    pub trusted_uids: Vec<u32>,
}

/// The size of the shared memory that is asked for by default, in bytes. With the 256 KiB that daemons
/// give by themselves, two threads at full speed lose events before the daemon has read them.
const MEMORY_SIZE_BYTES: u32 = 4 << 20;

impl Options {
    /// Returns the default settings.
    #[must_use]
    pub fn new(address: Address, producer_name: String) -> Self {
        Self {
            address,
            producer_name,
            memory_size_bytes: MEMORY_SIZE_BYTES,
            page_size_bytes: 0,
            trusted_uids: Vec::new(),
        }
    }
}

/// The reason why a client cannot connect at all.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// This process is a forked child of a process that records.
    ForkedChild,
    /// The system gives no thread or no descriptor.
    Io(io::Error),
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForkedChild => {
                f.write_str("a forked child of a process that records cannot record")
            }
            Self::Io(error) => write!(f, "no thread for the connection: {error}"),
        }
    }
}

impl std::error::Error for ClientError {}

/// A connection to a daemon, which is made again whenever it ends. Dropping it disconnects.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// Connects in the background. `first` is a data source of the SDK that every service knows.
    /// From now on, forked children of this process record nothing.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub fn connect(options: Options, first: &'static DataSourceState) -> Result<Self, ClientError> {
        let inside = forked_child::enter().ok_or(ClientError::ForkedChild)?;
        let waker = Waker::new().map_err(io::Error::from)?;
        let shared = Arc::new(Shared::new(waker));
        let of_thread = Arc::clone(&shared);
        let work = move || run(&of_thread, &options, first);
        let thread = own_thread::spawn("tracezero-system", work)?;
        inside.make_permanent();
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Returns the state of the connection.
    #[must_use]
    pub fn state(&self) -> ClientState {
        self.shared.state()
    }

    /// Waits until the daemon has accepted this process. Returns whether it has.
    #[must_use]
    pub fn wait_connected(&self, timeout: Duration) -> bool {
        self.shared.wait_for(&ClientState::Connected, timeout)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let thread = self.thread.take();
        if forked_child::is_disabled() {
            // The thread is the parent's.
            mem::forget(thread);
            mem::forget(Arc::clone(&self.shared));
            return;
        }
        self.shared.begin_closing();
        self.shared.wait_for(&ClientState::Closed, DROP_LIMIT);
    }
}

/// The work of the thread.
fn run(shared: &Shared, options: &Options, first: &'static DataSourceState) {
    let _inside = reentry::TracerGuard::enter();
    let introduction = Introduction {
        producer_name: options.producer_name.clone(),
        memory_size_bytes: options.memory_size_bytes,
        page_size_bytes: options.page_size_bytes,
        sdk_version: concat!("tracezero ", env!("CARGO_PKG_VERSION")).to_owned(),
    };
    let mut back_off = BackOff::default();
    loop {
        shared.set(ClientState::Connecting);
        let (end, calls_thread) = attempt(shared, options, &introduction, first);
        if calls_thread.is_some() {
            back_off.reset();
        }
        // No second connection while callbacks of the first one run.
        while calls_thread.as_ref().is_some_and(|it| !it.is_finished()) && !shared.is_closing() {
            shared.sleep(Duration::from_millis(1));
        }
        if shared.is_closing() {
            if let Some(thread) = calls_thread {
                // It has disconnected the realm, or a callback hangs.
                let limit = Instant::now() + DROP_LIMIT / 2;
                while !thread.is_finished() && Instant::now() < limit {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            return shared.set(ClientState::Closed);
        }
        let retry_in = back_off.next();
        shared.set(ClientState::Waiting {
            retry_in,
            reason: end.to_string(),
        });
        shared.sleep(retry_in);
        if shared.is_closing() {
            return shared.set(ClientState::Closed);
        }
    }
}

/// Connects once. Returns why the connection has ended, and the thread of its calls if it had one.
fn attempt(
    shared: &Shared,
    options: &Options,
    introduction: &Introduction,
    first: &'static DataSourceState,
) -> (End, Option<JoinHandle<()>>) {
    let opened = Connection::open(shared, &options.address, &options.trusted_uids, first);
    match opened {
        Ok(mut connection) => {
            let end = connection.serve(introduction);
            (end, connection.calls_thread.take())
        }
        Err(end) => (end, None),
    }
}
