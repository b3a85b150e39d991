//! Connects to the daemon, again and again.

use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracezero_core::{forked_child, own_thread, reentry};
use tracezero_ipc::waker::Waker;
use tracezero_producer::DataSourceState;

use crate::back_off::BackOff;
use crate::connection::Connection;
use crate::counts::ClientStats;
use crate::options::Options;
use crate::process_exit;
use crate::shared::{ClientState, Shared};
use crate::socket_watch::SocketWatch;

/// How long dropping a client waits for the client's threads. A data source whose callback hangs
/// must not hang the application.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// The reason why a client cannot connect at all.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// This process is a forked child of a process that records.
    ForkedChild,
    /// The system has no thread or no descriptor left.
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

/// How often the client looks whether callbacks of an ended connection are over.
const CALLBACK_PERIOD: Duration = Duration::from_millis(1);

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
        let waker = Waker::new()?;
        let shared = Arc::new(Shared::new(waker));
        let of_thread = Arc::clone(&shared);
        let work = move || run(&of_thread, &options, first);
        let thread = own_thread::spawn("tracezero-system", work)?;
        process_exit::watch(&shared);
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

    /// Counts what became of the packets of all connections so far.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        self.shared.counts.sum()
    }

    /// Waits until the daemon has said which data sources it records, and they have started. Needs
    /// [`Options::waits_for_daemon`].
    ///
    /// # Errors
    ///
    /// Returns the state of the connection if there is no daemon, or if it does not answer in time.
    pub fn wait_learned(&self, timeout: Duration) -> Result<(), ClientState> {
        self.shared.wait_learned(timeout)
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
            // The thread exists only in the parent process.
            mem::forget(thread);
            mem::forget(Arc::clone(&self.shared));
            return;
        }
        self.shared.begin_closing();
        self.shared.wait_for(&ClientState::Closed, DROP_LIMIT);
    }
}

/// The work of the thread.
fn run(shared: &Arc<Shared>, options: &Options, first: &'static DataSourceState) {
    let _inside = reentry::TracerGuard::enter();
    let mut back_off = BackOff::default();
    let mut watch = None;
    loop {
        shared.set(ClientState::Connecting);
        let end = match Connection::open(shared, options, first) {
            Ok(mut connection) => {
                watch = None;
                let end = connection.serve();
                if let Some(calls) = connection.calls_thread.take() {
                    back_off.reset();
                    wait_for_callbacks(shared, &calls.thread);
                    back_off.add_ended(calls.service);
                }
                end
            }
            Err(end) => end,
        };
        if shared.is_closing() {
            return shared.set(ClientState::Closed);
        }
        let retry_in = back_off.next();
        shared.set(ClientState::Waiting {
            retry_in,
            reason: end.to_string(),
        });
        // Keeps the watch for several attempts, so that it also notices a socket that is made
        // during an attempt.
        watch = watch.or_else(|| SocketWatch::new(&options.address));
        if shared.sleep(retry_in, watch.as_ref()) {
            back_off.reset();
        }
        if shared.is_closing() {
            return shared.set(ClientState::Closed);
        }
    }
}

/// Waits for the thread of an ended connection: there must be no second connection while callbacks
/// of the first one run. Waits for a limited time once the client is dropped, since a callback may
/// hang.
fn wait_for_callbacks(shared: &Shared, thread: &JoinHandle<()>) {
    while !thread.is_finished() && !shared.is_closing() {
        shared.sleep(CALLBACK_PERIOD, None);
    }
    let limit = Instant::now() + DROP_LIMIT / 2;
    while !thread.is_finished() && !shared.is_exiting() && Instant::now() < limit {
        std::thread::sleep(CALLBACK_PERIOD);
    }
}
