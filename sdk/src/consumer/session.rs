//! The handles that an application holds while it records.

use std::fmt;
use std::fs::TryLockError;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::config::TraceConfig;
use super::control::SessionControl;
use super::file_writer::{FileWriter, Waker};
use super::report::Report;
use super::trigger_callback::TriggerCallback;
use crate::error::Error;
use crate::ids::SessionId;
use crate::producer;
use crate::runtime::Runtime;
use crate::service::{
    CentralBuffer, ReceivedTrigger, Recording, SessionOwner, SessionRequest, TraceOutput,
};
use crate::trace_file::TraceFile;

/// How often a file is written, unless the configuration says.
const FILE_WRITE_PERIOD_MS: u32 = 1000;

/// A recording that is streamed into a file while it goes on.
///
/// It finishes when it is dropped, also by a panic; [`Session::finish`] tells how it went. The
/// buffers are rings that a thread of its own drains, so a long recording neither grows nor loses.
///
/// The file is also finished when the process exits while the session is in a `static` or leaked, by
/// [`std::process::exit`] or a return from `main`. A process that aborts or is killed leaves what was
/// streamed until then, at most [a period](TraceConfig::file_write_period_ms) ago.
///
/// In a forked child it belongs to the parent: dropping it there does nothing.
///
/// ```
/// use tracezero::{Session, instant, span};
///
/// # let directory = std::env::temp_dir().join(format!("tracezero-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).expect("a temporary directory");
/// # let path = directory.join("app.pftrace");
/// let session = Session::to_file(&path)?;
/// {
///     let _span = span!("app", "work");
///     instant!("app", "half_way");
/// }
/// let report = session.finish()?;
/// println!("{report}"); // 3 events, 937 bytes, 0 lost: app.pftrace
/// assert_eq!((report.events, report.losses.total()), (3, 0));
/// # std::fs::remove_dir_all(&directory).expect("removed");
/// # Ok::<(), tracezero::Error>(())
/// ```
#[must_use = "a session ends when it is dropped"]
pub struct Session {
    place: Place,
    /// `None` once it has finished.
    writer: Option<FileWriter>,
    path: PathBuf,
}

impl Session {
    /// Records everything in this process into the file at `path`, which is created, or replaced
    /// if it exists.
    ///
    /// # Errors
    ///
    /// If the file cannot be created, or there is no memory or place for another session. No file
    /// is left behind. If another session, of whatever process, writes into that file:
    /// [`Error::FileInUse`]; it is left alone.
    pub fn to_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        TraceConfig::default().record_to_file(path)
    }

    /// What can be done to it while it goes on.
    #[must_use]
    pub fn control(&self) -> &SessionControl {
        &self.place.control
    }

    /// Stops recording, writes what is left and closes the file.
    ///
    /// Threads need not have ended: what they wrote so far is collected.
    ///
    /// # Errors
    ///
    /// If writing to the file failed, now or before. The file is a valid trace up to there. If this
    /// is a forked child.
    pub fn finish(mut self) -> Result<Report, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<Report, Error> {
        let Some(writer) = self.writer.take() else {
            return Ok(Report::default());
        };
        let Ok(runtime) = self.place.control.runtime().here() else {
            // Its thread exists in the parent only.
            mem::forget(writer);
            return Err(Error::ForkedChild);
        };
        self.place.stop();
        let written = writer.join();
        let service = runtime.service();
        let (bytes, is_full) = service.file_size(self.place.control.id());
        let mut report = self.place.close(bytes, is_full);
        report.path = Some(self.path.clone());
        match written {
            Ok(()) => Ok(report),
            Err(source) => Err(Error::File {
                path: self.path.clone(),
                source,
            }),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Who wants to know about errors calls `finish`.
        let _ = self.end();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A recording that stays in the buffers until it finishes: a ring keeps the newest packets.
///
/// ```
/// use tracezero::{InMemorySession, instant};
///
/// let session = InMemorySession::start()?;
/// instant!("app", "here");
/// let (trace, report) = session.finish();
/// assert_eq!(report.events, 1);
/// assert_eq!(report.bytes, trace.len() as u64);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[must_use = "a session ends when it is dropped"]
pub struct InMemorySession {
    place: Place,
    is_finished: bool,
}

impl InMemorySession {
    /// Records everything in this process.
    ///
    /// # Errors
    ///
    /// If there is no memory or place for another session.
    pub fn start() -> Result<Self, Error> {
        TraceConfig::default().record_in_memory()
    }

    /// What can be done to it while it goes on.
    #[must_use]
    pub fn control(&self) -> &SessionControl {
        &self.place.control
    }

    /// Stops recording; returns the trace and its account.
    ///
    /// The trace is empty if the session waited for a trigger that did not come, or if this is a
    /// forked child.
    #[must_use = "the trace is returned"]
    pub fn finish(mut self) -> (Vec<u8>, Report) {
        let mut trace = Vec::new();
        let Ok(runtime) = self.place.control.runtime().here() else {
            return (trace, Report::default());
        };
        self.place.stop();
        let service = runtime.service();
        let id = self.place.control.id();
        service.read(id, &mut trace);
        self.is_finished = true;
        let report = self.place.close(trace.len() as u64, false);
        (trace, report)
    }
}

impl Drop for InMemorySession {
    fn drop(&mut self) {
        if !self.is_finished {
            self.place.abandon();
        }
    }
}

impl fmt::Debug for InMemorySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemorySession").finish_non_exhaustive()
    }
}

impl TraceConfig {
    /// Records into the file at `path`, which is created, or replaced if it exists.
    ///
    /// # Errors
    ///
    /// If the configuration contradicts itself, the file cannot be created, or there is no memory
    /// or place for another session. No file is left behind. If another session writes into that
    /// file, as [`Session::to_file`] says.
    pub fn record_to_file(self, path: impl AsRef<Path>) -> Result<Session, Error> {
        self.record_into(path.as_ref(), TraceFile::create)
    }

    /// Records into the file at the configuration's [`output_path`](TraceConfig::output_path),
    /// which must not exist yet.
    ///
    /// # Errors
    ///
    /// As [`TraceConfig::record_to_file`], and if the configuration has no output path.
    pub fn record(self) -> Result<Session, Error> {
        let path = match &self.output_path {
            Some(path) => PathBuf::from(path),
            None => return Err(Error::NoOutputPath),
        };
        self.record_into(&path, TraceFile::create_new)
    }

    fn record_into(
        mut self,
        path: &Path,
        open: impl FnOnce(&Path) -> Result<TraceFile, TryLockError>,
    ) -> Result<Session, Error> {
        if self.file_write_period_ms == 0 {
            self.file_write_period_ms = FILE_WRITE_PERIOD_MS;
        }
        let waker = Arc::new(Waker::default());
        let place = Place::start(self, Some(Arc::clone(&waker)))?;
        let (runtime, id) = (place.control.runtime(), place.control.id());
        // Last, so that an error before leaves an existing file alone.
        let writer = open(path)
            .map_err(|error| Error::of_file(path, error))
            .and_then(|file| {
                runtime.service().attach_output(id, TraceOutput::new(file));
                FileWriter::start(runtime, id, waker).map_err(|source| {
                    // An empty file is no trace. That it cannot be removed changes nothing.
                    let _ = std::fs::remove_file(path);
                    Error::Thread(source)
                })
            })
            .inspect_err(|_| place.abandon())?;
        Ok(Session {
            place,
            writer: Some(writer),
            path: path.to_owned(),
        })
    }

    /// Records into the buffers of the configuration, to be read when the session finishes.
    ///
    /// # Errors
    ///
    /// If the configuration contradicts itself, or there is no memory or place for another
    /// session.
    pub fn record_in_memory(self) -> Result<InMemorySession, Error> {
        Ok(InMemorySession {
            place: Place::start(self, None)?,
            is_finished: false,
        })
    }
}

/// A session's place in the service of this process.
struct Place {
    control: SessionControl,
    /// In the order of the configuration.
    buffers: Vec<Arc<CentralBuffer>>,
    /// Nested trace points that were dropped before the session began.
    nested_before: u64,
}

/// A session's owner, as the service calls it.
struct Owner {
    runtime: &'static Runtime,
    /// Set once it is known.
    id: OnceLock<SessionId>,
    waker: Option<Arc<Waker>>,
    on_trigger: Arc<TriggerCallback>,
}

impl SessionOwner for Owner {
    fn write_into_file(&self) {
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }

    fn disabled(&self, _reason: Option<&str>) {
        // The rest is due.
        self.write_into_file();
    }

    fn clone_triggered(&self, trigger: &ReceivedTrigger) {
        if let Some(id) = self.id.get() {
            self.on_trigger.call(self.runtime, *id, trigger);
        }
    }
}

impl Place {
    /// Begins the session. `waker` wakes whoever writes it into a file.
    fn start(config: TraceConfig, waker: Option<Arc<Waker>>) -> Result<Self, Error> {
        let geometry = config.resolve()?.shared_memory;
        let recording = Arc::new(Recording::new(config)?);
        let runtime = Runtime::of_process(geometry)?;
        let on_trigger = Arc::new(TriggerCallback::default());
        let owner = Arc::new(Owner {
            runtime,
            id: OnceLock::new(),
            waker: waker.clone(),
            on_trigger: Arc::clone(&on_trigger),
        });
        let nested_before = producer::nested_count();
        let id = runtime.service().enable(SessionRequest {
            recording,
            uid: rustix::process::getuid().as_raw(),
            owner: Arc::clone(&owner) as Arc<dyn SessionOwner>,
            writes_into_file: waker.is_some(),
            wake: waker.map(|waker| {
                let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(move || waker.wake());
                wake
            }),
        })?;
        owner.id.get_or_init(|| id);
        Ok(Self {
            control: SessionControl::new(runtime, id, on_trigger),
            buffers: runtime.service().buffers(id),
            nested_before,
        })
    }

    /// Ends the recording: what threads have finished is in the buffers.
    fn stop(&self) {
        self.control.stop();
        // Data sources that take their time have the stop timeout of the configuration.
        while !self.control.wait(Duration::from_secs(60)) {}
    }

    /// Ends a session that nobody wants to read.
    fn abandon(&self) {
        let Ok(runtime) = self.control.runtime().here() else {
            return;
        };
        let id = self.control.id();
        runtime.service().disable(id);
        runtime.service().free(id);
        runtime.forget(&self.buffers);
    }

    /// Ends a session that was read; returns its account. `file_is_full` says that its file had no
    /// room for the rest.
    fn close(&self, bytes: u64, file_is_full: bool) -> Report {
        let (runtime, id) = (self.control.runtime(), self.control.id());
        let counts = runtime.service().read_counts(id);
        let stats = self.control.stats();
        let mut sequences = stats.sequences;
        for account in &mut sequences {
            // What is still there after the last read waits for the rest of its packet; a buffer
            // that is full for good has refused that.
            if self.buffers[account.buffer].with(|buffer| buffer.is_full()) {
                account.discarded += mem::take(&mut account.buffered);
            }
        }
        if file_is_full {
            for account in &mut sequences {
                account.file_full +=
                    mem::take(&mut account.buffered) + mem::take(&mut account.in_flight);
            }
        }
        let nested = producer::nested_count() - self.nested_before;
        runtime.service().free(id);
        runtime.forget(&self.buffers);
        Report::new(counts, bytes, sequences, nested)
    }
}
