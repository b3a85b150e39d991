//! The calls that make a session of a connection.

use std::fs::File;
use std::io;

use tracezero_ipc::consumer_port::replies::{Cloned, decode_attached, decode_cloned};
use tracezero_ipc::consumer_port::requests::{self, BEST_FOR_BUGREPORT, CloneSource, Request};

use crate::consumer::Consumer;
use crate::daemon_session::DaemonSession;
use crate::error::ConsumerError;
use crate::port::ANSWER_LIMIT;

/// The session that a consumer clones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionToClone<'a> {
    /// The session with this number, which [`DaemonState::sessions`](crate::DaemonState::sessions) tells.
    Id(u64),
    /// The session whose configuration has this `unique_session_name`.
    Name(&'a str),
    /// The session whose configuration has the highest `bugreport_score`.
    BestForBugreport,
}

impl Consumer {
    /// Starts a session. `config` is an encoded message `perfetto.protos.TraceConfig`.
    ///
    /// The session records the data sources that the configuration lists, and no others: an encoded
    /// configuration does not say `record_all`. The daemon keeps the trace in its buffers, until [`read`](DaemonSession::read) reads it.
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
}
