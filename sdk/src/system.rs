//! Records into the trace of the machine: this process becomes a producer of a tracing daemon.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use tracezero_client::{Address, AddressError, Client, ClientError, Options};
use tracezero_core::own_process;
use tracezero_track_event::{TRACK_EVENT, connect_client};

pub use tracezero_client::{ClientState as SystemState, ClientStats as SystemStats};

/// A connection to the machine's tracing daemon, Perfetto's `traced`.
///
/// The daemon decides what is recorded, as the command `perfetto` tells it. Its trace has the events
/// of this process beside those of the kernel and of other processes. Sessions of this process go on
/// beside it, each with its own choice of categories.
///
/// A program that is built with the feature `system` also connects without this type, at its first
/// trace point, if the environment variable `TRACEZERO_SYSTEM` is 1. With the value `wait`, which
/// `tracezero record` sets, the first trace point also waits until the daemon has said what it records,
/// for at most 2 s. If the program connects to the same daemon by this type, too, there is one
/// connection, which lasts until the process ends.
///
/// The process connects in the background, and again whenever the daemon was restarted. If there is
/// no daemon, nothing is recorded for it. Dropping the value disconnects.
///
/// ```no_run
/// use std::time::Duration;
///
/// let system = tracezero::System::connect()?;
/// if !system.wait_connected(Duration::from_secs(1)) {
///     eprintln!("not connected: {:?}", system.state());
/// }
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping this disconnects from the daemon"]
pub struct System {
    client: Arc<Client>,
}

/// Settings of a [`System`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is connected before `connect` is called"]
pub struct SystemBuilder {
    socket: Option<String>,
    producer_name: Option<String>,
    /// Size and page size, in bytes.
    shared_memory_hint: Option<(u32, u32)>,
    stall_limit: Option<Duration>,
    trusted_uids: Vec<u32>,
}

impl System {
    /// Connects with the default settings: see [`SystemBuilder`].
    ///
    /// # Errors
    ///
    /// See [`SystemBuilder::connect`].
    pub fn connect() -> Result<Self, Error> {
        Self::builder().connect()
    }

    /// Returns the default settings, to change them.
    pub fn builder() -> SystemBuilder {
        SystemBuilder::default()
    }

    /// Returns the state of the connection.
    #[must_use]
    pub fn state(&self) -> SystemState {
        self.client.state()
    }

    /// Counts the packets that were recorded for the daemon so far, and those that were dropped
    /// because the daemon did not free the shared memory in time. What the daemon itself overwrites
    /// or loses is in the trace's own statistics.
    ///
    /// ```no_run
    /// let system = tracezero::System::connect()?;
    /// // At the end of the program:
    /// let packets = system.stats().packets;
    /// if packets.packets_dropped > 0 {
    ///     eprintln!("{} of {} are not in the trace", packets.packets_dropped, packets.packets_begun);
    /// }
    /// # Ok::<(), tracezero::Error>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> SystemStats {
        self.client.stats()
    }

    /// Waits until the daemon has accepted this process, at most for `timeout`. Returns whether it
    /// has. The daemon may start to record a little later.
    #[must_use]
    pub fn wait_connected(&self, timeout: Duration) -> bool {
        self.client.wait_connected(timeout)
    }
}

impl SystemBuilder {
    /// Sets the daemon's socket for producers: a path, or `@name` for a name outside of the file
    /// system. The default is the one in the environment variable `PERFETTO_PRODUCER_SOCK_NAME`, else
    /// `/run/perfetto/traced-producer.sock` if that folder exists, else `/tmp/perfetto-producer`.
    pub fn socket(mut self, address: impl Into<String>) -> Self {
        self.socket = Some(address.into());
        self
    }

    /// Sets the name by which configurations choose producers. The default is the file name of the
    /// executable.
    pub fn producer_name(mut self, name: impl Into<String>) -> Self {
        self.producer_name = Some(name.into());
        self
    }

    /// Asks the daemon for shared memory of this size, in pages of this size, both in bytes; 0 leaves
    /// it to the daemon. The default is 4 MiB in pages of the daemon's choice. A daemon gives at most
    /// 32 MiB, and configurations may name other sizes.
    pub fn shared_memory_hint(mut self, size_bytes: u32, page_size_bytes: u32) -> Self {
        self.shared_memory_hint = Some((size_bytes, page_size_bytes));
        self
    }

    /// Sets the longest time that a thread waits for the daemon to free shared memory, before it
    /// drops packets. The default is 1 s. A thread that has waited in vain drops packets without
    /// waiting, until there is room again, so a daemon that has stopped delays each thread once.
    ///
    /// A configuration may say that threads never wait: `buffer_exhausted_policy:
    /// BUFFER_EXHAUSTED_DROP` for a data source. With `BUFFER_EXHAUSTED_STALL_THEN_ABORT`, they wait
    /// before each packet; the process is not aborted.
    pub fn stall_limit(mut self, limit: Duration) -> Self {
        self.stall_limit = Some(limit);
        self
    }

    /// Trusts a daemon of this user. The daemon sees all that is traced. Root and the own user are
    /// always trusted, and other users if only they and root can write to the folders of the socket.
    pub fn trust_uid(mut self, uid: u32) -> Self {
        self.trusted_uids.push(uid);
        self
    }

    /// Connects in the background. That no daemon is there is no error: the process connects once
    /// there is one.
    ///
    /// From now on, forked children of this process record nothing.
    ///
    /// # Errors
    ///
    /// [`Error::SystemSocket`], [`Error::ForkedChild`], [`Error::Thread`].
    pub fn connect(self) -> Result<System, Error> {
        let address = match &self.socket {
            Some(address) => address.parse(),
            None => Address::of_producers(),
        };
        let address = address.map_err(|error: AddressError| Error::SystemSocket(error))?;
        let name = self.producer_name;
        let name = name.unwrap_or_else(own_process::executable_name);
        let mut options = Options::new(address, name);
        options.trusted_uids = self.trusted_uids;
        if let Some(limit) = self.stall_limit {
            options.stall_limit = limit;
        }
        if let Some((size_bytes, page_size_bytes)) = self.shared_memory_hint {
            options.memory_size_bytes = size_bytes;
            options.page_size_bytes = page_size_bytes;
        }
        // Before `forked_child::enter`: a thread inside the tracer registers no call sites.
        tracezero_track_event::connect();
        let client = connect_client(options, TRACK_EVENT.state()).map_err(|error| match error {
            ClientError::Io(error) => Error::Thread(error),
            _ => Error::ForkedChild,
        })?;
        Ok(System { client })
    }
}
