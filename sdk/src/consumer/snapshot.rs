//! Snapshots of sessions.

use std::fs::{self, TryLockError};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::oneshot::oneshot;
use crate::error::Error;
use crate::runtime::Runtime;
use tracezero_core::ids::SessionId;
use tracezero_service::{
    CloneRequest, CloneSource, ReceivedTrigger, Refusal, SessionOwner, TraceFile, TraceOutput,
};

/// A copy of a session's buffers at one moment, as a trace of its own.
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

/// Receives the service's callbacks for a snapshot, and ignores all of them.
struct SnapshotOwner;

impl SessionOwner for SnapshotOwner {}

impl Snapshot {
    pub(super) fn of(
        runtime: &'static Runtime,
        session: SessionId,
        trigger: Option<ReceivedTrigger>,
    ) -> Result<Self, Error> {
        Self::take(runtime, CloneSource::Id(session), trigger)
    }

    /// Takes a snapshot of the session of this process that has this
    /// [`unique_session_name`](crate::TraceConfig::unique_session_name). The caller need not hold
    /// that session. Recording continues.
    ///
    /// # Errors
    ///
    /// If no session has this name, if there is no memory for a copy of the session's buffers, or
    /// if the session streams into a file. For a session with a file, use
    /// [`SessionControl::save_snapshot`](crate::SessionControl::save_snapshot).
    ///
    /// ```
    /// use tracezero::{BufferConfig, Snapshot, TraceConfig, instant};
    ///
    /// let session = TraceConfig::empty()
    ///     .add_buffer(BufferConfig::ring(1024))
    ///     .record_all()
    ///     .unique_session_name("flight recorder")
    ///     .record_in_memory()?;
    /// instant!("app", "here");
    /// assert_eq!(Snapshot::from_session("flight recorder")?.events(), 1);
    /// drop(session);
    /// assert!(Snapshot::from_session("flight recorder").is_err());
    /// # Ok::<(), tracezero::Error>(())
    /// ```
    pub fn from_session(unique_name: &str) -> Result<Self, Error> {
        let source = CloneSource::Name(unique_name.to_owned());
        Self::take(Runtime::of_process(None, None)?, source, None)
    }

    fn take(
        runtime: &'static Runtime,
        source: CloneSource,
        trigger: Option<ReceivedTrigger>,
    ) -> Result<Self, Error> {
        let name = trigger.as_ref().map(|trigger| trigger.name.clone());
        let clone = clone_of(runtime, source, trigger, None)?;
        let service = runtime.service();
        let mut trace = Vec::new();
        service.read(clone, &mut trace);
        let events = service.read_counts(clone).events;
        service.free(clone);
        Ok(Self {
            trace,
            events,
            trigger: name,
        })
    }

    /// Returns the trace, in the format that Perfetto's tools read.
    #[must_use]
    pub fn trace(&self) -> &[u8] {
        &self.trace
    }

    /// Converts the snapshot into its trace, in the format that Perfetto's tools read.
    #[must_use]
    pub fn into_trace(self) -> Vec<u8> {
        self.trace
    }

    /// Returns the number of track events in the snapshot.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the name of the trigger that asked for the snapshot, if a trigger did.
    #[must_use]
    pub fn trigger(&self) -> Option<&str> {
        self.trigger.as_deref()
    }

    /// Writes the trace into a file, which is created, or replaced if it exists.
    ///
    /// # Errors
    ///
    /// If writing fails, or if a session writes to that file (the error is then
    /// [`Error::FileInUse`]).
    pub fn write_to(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let written = TraceFile::create(path)
            .and_then(|mut file| file.write_all(&self.trace).map_err(TryLockError::Error));
        written.map_err(|error| Error::of_file(path, error))
    }
}

/// Writes a snapshot of a session into the file at `path`.
pub(super) fn write_snapshot(
    runtime: &'static Runtime,
    session: SessionId,
    path: &Path,
) -> Result<(), Error> {
    let service = runtime.service();
    if !service.writes_into_file(session) {
        return Snapshot::of(runtime, session, None)?.write_to(path);
    }
    let file = TraceFile::create(path).map_err(|error| Error::of_file(path, error))?;
    let output = TraceOutput::new(file);
    let clone =
        clone_of(runtime, CloneSource::Id(session), None, Some(output)).inspect_err(|_| {
            // An empty file is not a trace. If it cannot be removed, there is nothing more to do.
            let _ = fs::remove_file(path);
        })?;
    let written = service.write_into_file(clone);
    service.free(clone);
    match written {
        Ok(_) => Ok(()),
        Err(source) => Err(Error::of_io(path, source)),
    }
}

/// Clones a session, waits until the clone is complete, and returns the clone's id.
fn clone_of(
    runtime: &'static Runtime,
    source: CloneSource,
    trigger: Option<ReceivedTrigger>,
    output: Option<TraceOutput>,
) -> Result<SessionId, Error> {
    let (sender, receiver) = oneshot();
    runtime.service().clone_session(CloneRequest {
        source,
        uid: rustix::process::getuid().as_raw(),
        owner: Arc::new(SnapshotOwner),
        output,
        trigger,
        done: Box::new(move |outcome| sender.send(outcome)),
    });
    let outcome = receiver.wait().unwrap_or(Err(Refusal::SessionEnded.into()));
    outcome.map_err(Error::from)
}
