//! A connection without a session.

use tracezero_ipc::address::Address;
use tracezero_ipc::consumer_port::SERVICE;
use tracezero_ipc::consumer_port::replies::decode_capabilities;
use tracezero_ipc::consumer_port::requests::Request;
use tracezero_ipc::consumer_port::service_state::decode_service_state;

use crate::daemon_state::DaemonState;
use crate::error::ConsumerError;
use crate::port::{ANSWER_LIMIT, Port};

/// A connection to a tracing daemon, without a session.
///
/// ```
/// # use tracezero_host::{Daemon, DaemonOptions, Log};
/// use tracezero_consumer::Consumer;
///
/// # let folder = std::env::temp_dir().join(format!("consumer-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let mut options = DaemonOptions::new(Log::new(|_| ()));
/// # let address = tracezero_consumer::Address::Path(folder.join("consumers"));
/// # options.consumer_addresses = vec![address.clone()];
/// # let daemon = Daemon::bind(options)?;
/// # let stopper = daemon.stopper();
/// # let thread = std::thread::spawn(|| daemon.run());
/// let mut consumer = Consumer::connect_to(&address)?;
/// for producer in consumer.daemon_state()?.producers {
///     println!("{} is process {}", producer.name, producer.pid);
/// }
///
/// // `buffers { size_kb: 1024 }`, as an encoded TraceConfig.
/// let mut session = consumer.start(b"\x0a\x03\x08\x80\x08")?;
/// session.stop()?;
/// let mut trace = Vec::new();
/// session.read(&mut trace)?;
/// assert!(!trace.is_empty());
/// # drop(session);
/// # stopper.stop();
/// # thread.join().unwrap()?;
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Consumer {
    pub(crate) port: Port,
}

/// The capabilities of a daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// True if the daemon creates trace files by the `output_path` of a configuration.
    pub has_output_path: bool,
    /// True if the daemon clones sessions.
    pub has_clones: bool,
}

impl Consumer {
    /// Connects to the machine's daemon: at the socket in the environment variable
    /// `PERFETTO_CONSUMER_SOCK_NAME`, else at `/run/perfetto/traced-consumer.sock` if that folder
    /// exists, else at `/tmp/perfetto-consumer`.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::Address`], [`ConsumerError::Connect`], and those of a failing connection.
    pub fn connect() -> Result<Self, ConsumerError> {
        Self::connect_to(&Address::of_consumers()?)
    }

    /// Connects to the daemon that listens at an address.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::Connect`], or if the [connection fails](ConsumerError#a-connection-that-fails).
    pub fn connect_to(address: &Address) -> Result<Self, ConsumerError> {
        Ok(Self {
            port: Port::connect(address, SERVICE)?,
        })
    }

    /// Asks which producers, data sources and sessions the daemon has.
    ///
    /// # Errors
    ///
    /// If the [connection fails](ConsumerError#a-connection-that-fails).
    pub fn daemon_state(&mut self) -> Result<DaemonState, ConsumerError> {
        daemon_state(&mut self.port)
    }

    /// Asks what the daemon can do.
    ///
    /// # Errors
    ///
    /// If the [connection fails](ConsumerError#a-connection-that-fails).
    pub fn capabilities(&mut self) -> Result<Capabilities, ConsumerError> {
        let request = Request::QueryCapabilities;
        let reply = self.port.call(&request)?;
        let capabilities = decode_capabilities(&reply)
            .map_err(|error| ConsumerError::malformed(request.method().name(), error))?;
        Ok(Capabilities {
            has_output_path: capabilities.has_output_path,
            has_clones: capabilities.has_clone_session,
        })
    }
}

/// Asks what the daemon has. The answer comes in parts.
pub(crate) fn daemon_state(port: &mut Port) -> Result<DaemonState, ConsumerError> {
    let sessions_only = false;
    let asked = port.ask(&Request::QueryServiceState { sessions_only }, None)?;
    let malformed = |error| ConsumerError::malformed(asked.method, error);
    let mut encoded = Vec::new();
    loop {
        let reply = port.next_reply(asked, ANSWER_LIMIT)?;
        let has_more = reply.has_more;
        let bytes = reply.success(asked)?;
        encoded.extend_from_slice(decode_service_state(&bytes).map_err(malformed)?);
        if !has_more {
            return DaemonState::decode(&encoded).map_err(malformed);
        }
    }
}
