//! Snapshots of sessions.

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use crate::error::{Error, Refusal};
use crate::ids::SessionId;
use crate::runtime::Runtime;
use crate::service::{CloneRequest, CloneSource, ReceivedTrigger, SessionOwner};

/// What was in the buffers of a session at one moment, as a trace of its own.
///
/// ```
/// use tracezero::{InMemorySession, instant};
///
/// let session = InMemorySession::start()?;
/// instant!("app", "before");
/// let snapshot = session.control().snapshot()?;
/// instant!("app", "after");
/// assert_eq!(snapshot.events(), 1);
/// assert_eq!(session.finish().1.events, 2);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    trace: Vec<u8>,
    events: u64,
    trigger: Option<String>,
}

/// A snapshot's owner: nothing happens to it any more.
struct Nobody;

impl SessionOwner for Nobody {}

impl Snapshot {
    pub(super) fn of(
        runtime: &'static Runtime,
        session: SessionId,
        trigger: Option<ReceivedTrigger>,
    ) -> Result<Self, Error> {
        Self::take(runtime, CloneSource::Id(session), trigger)
    }

    /// Takes a snapshot of the session of this process that has this
    /// [`unique_session_name`](crate::TraceConfig::unique_session_name), whoever holds it.
    /// Recording goes on.
    ///
    /// # Errors
    ///
    /// If there is no such session, or no memory for a copy of its buffers.
    ///
    /// ```
    /// use tracezero::{BufferConfig, Snapshot, TraceConfig, instant};
    ///
    /// let session = TraceConfig::new()
    ///     .buffer(BufferConfig::ring(1024))
    ///     .record_all()
    ///     .unique_session_name("flight recorder")
    ///     .record_in_memory()?;
    /// instant!("app", "here");
    /// assert_eq!(Snapshot::of_session("flight recorder")?.events(), 1);
    /// drop(session);
    /// assert!(Snapshot::of_session("flight recorder").is_err());
    /// # Ok::<(), tracezero::Error>(())
    /// ```
    pub fn of_session(unique_name: &str) -> Result<Self, Error> {
        let source = CloneSource::Name(unique_name.to_owned());
        Self::take(Runtime::of_process(None)?, source, None)
    }

    fn take(
        runtime: &'static Runtime,
        source: CloneSource,
        trigger: Option<ReceivedTrigger>,
    ) -> Result<Self, Error> {
        let service = runtime.service();
        let (tell, told) = mpsc::sync_channel(1);
        let name = trigger.as_ref().map(|trigger| trigger.name.clone());
        service.clone_session(CloneRequest {
            source,
            uid: rustix::process::getuid().as_raw(),
            owner: Arc::new(Nobody),
            output: None,
            trigger,
            done: Box::new(move |outcome| {
                // The receiver waits below.
                let _ = tell.send(outcome);
            }),
        });
        let clone = told.recv().unwrap_or(Err(Refusal::SessionEnded.into()))?;
        let mut trace = Vec::new();
        let Ok(()) = service.read(clone, &mut trace, |_| Ok::<(), Infallible>(()));
        let events = service.read_counts(clone).events;
        service.free(clone);
        Ok(Self {
            trace,
            events,
            trigger: name,
        })
    }

    /// The trace, as Perfetto's tools read it.
    #[must_use]
    pub fn trace(&self) -> &[u8] {
        &self.trace
    }

    /// The trace, as Perfetto's tools read it.
    #[must_use]
    pub fn into_trace(self) -> Vec<u8> {
        self.trace
    }

    /// Events and custom packets in it.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Name of the trigger that asked for it, if one did.
    #[must_use]
    pub fn trigger(&self) -> Option<&str> {
        self.trigger.as_deref()
    }

    /// Writes the trace into a file, which is created, or replaced if it exists.
    ///
    /// # Errors
    ///
    /// If that fails.
    pub fn write_to(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        fs::write(path, &self.trace).map_err(|source| Error::File {
            path: path.to_owned(),
            source,
        })
    }
}
