//! A connection without a session.

use std::fs::File;
use std::io;

use tracezero_ipc::address::Address;
use tracezero_ipc::consumer_port::replies::{
    Cloned, decode_attached, decode_capabilities, decode_cloned,
};
use tracezero_ipc::consumer_port::requests::{self, BEST_FOR_BUGREPORT, CloneSource, Request};
use tracezero_ipc::consumer_port::service_state::decode_service_state;

use crate::daemon_session::DaemonSession;
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
    port: Port,
}

/// What a daemon can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// True if the daemon creates trace files by the `output_path` of a configuration.
    pub has_output_path: bool,
    /// True if the daemon clones sessions.
    pub has_clones: bool,
}

/// The session that a consumer clones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionToClone<'a> {
    /// The session with this number, which [`DaemonState::sessions`] tells.
    Id(u64),
    /// The session whose configuration has this `unique_session_name`.
    Name(&'a str),
    /// The session whose configuration has the highest `bugreport_score`.
    BestForBugreport,
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
    /// [`ConsumerError::Connect`], and those of a failing connection.
    pub fn connect_to(address: &Address) -> Result<Self, ConsumerError> {
        Ok(Self {
            port: Port::connect(address)?,
        })
    }

    pub(crate) const fn of_port(port: Port) -> Self {
        Self { port }
    }

    /// Starts a session. `config` is an encoded message `perfetto.protos.TraceConfig`.
    ///
    /// The daemon keeps the trace in its buffers, until [`read`](DaemonSession::read) reads it.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::Refused`] if the daemon refuses the configuration, and those of a failing
    /// connection.
    pub fn start(self, config: &[u8]) -> Result<DaemonSession, ConsumerError> {
        DaemonSession::enable(self.port, config, None)
    }

    /// Starts a session whose trace the daemon writes into a file while it records. The configuration
    /// must have `write_into_file`, and no `output_path`.
    ///
    /// The file is complete when the session has [ended](DaemonSession::has_ended). A clone of the
    /// session begins with what is in the file, so open the file for reading, too, if the session is to
    /// be cloned.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn record_to_file(self, config: &[u8], file: File) -> Result<DaemonSession, ConsumerError> {
        DaemonSession::enable(self.port, config, Some(file.into()))
    }

    /// Takes over a session that was [detached](DaemonSession::detach) by this key, by a consumer of
    /// the same user.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::Failed`] if there is no such session, and those of a failing connection.
    pub fn attach(mut self, key: &str) -> Result<DaemonSession, ConsumerError> {
        let request = Request::Attach { key };
        let reply = self.port.call(&request)?;
        decode_attached(&reply).map_err(|error| ConsumerError::malformed("Attach", error))?;
        DaemonSession::attached(self.port)
    }

    /// Makes a snapshot of a session, which goes on. The snapshot is a session that has ended, whose
    /// trace can be read.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::Refused`] if there is no such session, if it belongs to another user, or if
    /// it writes into a file: then use [`clone_to_file`](Self::clone_to_file). Otherwise those of a
    /// failing connection.
    pub fn clone_session(
        mut self,
        session: SessionToClone<'_>,
    ) -> Result<DaemonSession, ConsumerError> {
        self.request_clone(session, None)?;
        Ok(DaemonSession::cloned(self.port))
    }

    /// Makes a snapshot of a session, which goes on, and writes it into a file. The session may write
    /// into a file itself.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::Refused`] if there is no such session, if it belongs to another user, or if
    /// the daemon cannot write the file. [`ConsumerError::Output`] if this process cannot. Otherwise
    /// those of a failing connection.
    pub fn clone_to_file(
        mut self,
        session: SessionToClone<'_>,
        file: File,
    ) -> Result<(), ConsumerError> {
        let of_daemon = file.try_clone().map_err(ConsumerError::Output)?;
        let cloned = self.request_clone(session, Some(of_daemon))?;
        if !cloned.was_written_into_file {
            DaemonSession::cloned(self.port).read(io::BufWriter::new(file))?;
        }
        Ok(())
    }

    fn request_clone(
        &mut self,
        session: SessionToClone<'_>,
        file: Option<File>,
    ) -> Result<Cloned, ConsumerError> {
        let request = Request::CloneSession(requests::CloneSession {
            source: match session {
                SessionToClone::Id(id) => CloneSource::Id(id),
                SessionToClone::Name(name) => CloneSource::Name(name),
                SessionToClone::BestForBugreport => CloneSource::Id(BEST_FOR_BUGREPORT),
            },
            skips_trace_filter: false,
            is_for_bugreport: session == SessionToClone::BestForBugreport,
            trigger: None,
        });
        let asked = self.port.ask(&request, file.map(Into::into))?;
        let reply = self.port.reply_within(asked, ANSWER_LIMIT)?;
        let cloned =
            decode_cloned(&reply).map_err(|error| ConsumerError::malformed(asked.method, error))?;
        cloned.map_err(|reason| ConsumerError::Refused {
            reason: reason.to_owned(),
        })
    }

    /// Asks which producers, data sources and sessions the daemon has.
    ///
    /// # Errors
    ///
    /// Those of a failing connection.
    pub fn daemon_state(&mut self) -> Result<DaemonState, ConsumerError> {
        daemon_state(&mut self.port)
    }

    /// Asks what the daemon can do.
    ///
    /// # Errors
    ///
    /// Those of a failing connection.
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
