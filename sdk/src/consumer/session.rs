//! The handles that an application holds while it records.

use std::fmt;
use std::fs::TryLockError;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::control::SessionControl;
use super::file_writer::{FileWriter, Waker};
use super::on_error;
use super::trigger_callback::TriggerCallback;
use crate::config::TraceConfig;
use crate::error::Error;
use crate::report::{BufferMemory, Report, warnings};
use crate::runtime::Runtime;
use tracezero_core::ids::SessionId;
use tracezero_producer as producer;
use tracezero_service::{
    CentralBuffer, FileEnd, ReceivedTrigger, SessionOwner, SessionRequest, TraceFile, TraceOutput,
};
use tracezero_track_event::AlteredCounts;

/// How often a file is written, unless the configuration says: a process that is killed loses what
/// came since.
const FILE_WRITE_PERIOD_MS: u32 = 200;

/// A recording that is streamed into a file while it goes on.
///
/// It finishes when it is dropped, also by a panic; [`Session::finish`] tells how it went. The
/// buffers are rings that a thread of its own drains. By default they grow while the file lags behind,
/// up to 256 MiB; beyond that writers wait, up to 10 s, and only then is anything lost. The report tells
/// how far it came. [`BufferConfig::grow_to`](crate::BufferConfig::grow_to),
/// [`TraceConfig::wait_limit`] and [`TraceConfig::never_wait`] choose otherwise.
///
/// # How it ends
///
/// The file is also finished when the process exits while the session is in a `static` or leaked, by
/// [`std::process::exit`] or a return from `main`. `SIGINT` and `SIGTERM`, if they have their default
/// action when the session starts, finish the file as well; then they end the process as they would
/// without a session, and its parent sees that. A file on a disk that is stuck is waited for 2 s at
/// most, and a second signal ends the process at once.
///
/// A signal that the application handles or ignores is left alone, and so are all after
/// [`leave_signals_alone`](crate::leave_signals_alone). A handler of the application ends its sessions
/// itself, or calls [`finish_recordings`](crate::finish_recordings).
///
/// A process that aborts or is killed by `SIGKILL` loses what came in the last 200 ms, or in the last
/// [period](TraceConfig::file_write_period); a power failure loses what is not on the disk yet.
/// Such a trace has no end, and `tracezero check` says so.
///
/// If the file cannot be written, as on a full disk, the session ends. `finish` returns the error with
/// the report. If the session is dropped instead, or the process ends,
/// [`on_error`](crate::on_error) learns of the error, and a line on standard error by default.
///
/// In a forked child it belongs to the parent: dropping it there does nothing.
///
/// ```
/// use tracezero::{Session, instant, span};
///
/// # let directory = std::env::temp_dir().join(format!("tracezero-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).expect("a temporary directory");
/// # let path = directory.join("app.pftrace");
/// let session = Session::record_to_file(&path)?;
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
    pub fn record_to_file(path: impl AsRef<Path>) -> Result<Self, Error> {
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
    /// If writing to the file failed, now or before: [`Error::File`], with the report of what is in the
    /// file and what is not. The file is a valid trace up to there. If this is a forked child.
    ///
    /// ```
    /// use tracezero::{Session, instant};
    ///
    /// let session = Session::record_to_file("/dev/full")?;
    /// instant!("app", "here");
    /// let error = session.finish().expect_err("the disk is full");
    /// assert!(error.to_string().contains("No space left on device"));
    /// let report = error.report().expect("of a session");
    /// assert_eq!((report.events, report.bytes), (0, 0)); // what is in the file
    /// # Ok::<(), tracezero::Error>(())
    /// ```
    pub fn finish(mut self) -> Result<Report, Error> {
        self.end()
            .map_or_else(|| Ok(Report::default()), |ended| ended.outcome)
    }

    /// Ends the session, unless that was done before.
    fn end(&mut self) -> Option<Ended> {
        let writer = self.writer.take()?;
        let Ok(runtime) = self.place.control.runtime().here() else {
            // Its thread exists in the parent only.
            mem::forget(writer);
            return Some(Ended {
                outcome: Err(Error::ForkedChild),
                is_told: true,
            });
        };
        self.place.stop();
        let written = writer.join();
        let service = runtime.service();
        let (bytes, file_end) = service.file_size(self.place.control.id());
        let mut report = self.place.close(bytes, file_end);
        report.path = Some(self.path.clone());
        Some(Ended {
            outcome: match written.outcome {
                Ok(()) => Ok(report),
                Err(source) => Err(Error::File {
                    path: self.path.clone(),
                    source,
                    report: Some(Box::new(report)),
                }),
            },
            is_told: written.is_told,
        })
    }
}

/// How a session ended.
struct Ended {
    outcome: Result<Report, Error>,
    /// Whether the application knows of the error, if there is one.
    is_told: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(Ended {
            outcome: Err(error),
            is_told: false,
        }) = self.end()
        {
            on_error::report(&error);
        }
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
        let report = self.place.close(trace.len() as u64, None);
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
    /// or place for another session. No file is left behind. A configuration at fault also leaves an
    /// existing file alone. If another session writes into that file, as [`Session::record_to_file`] says.
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
        let path = match self.message.output_path.as_deref() {
            Some("") | None => return Err(Error::NoOutputPath),
            Some(path) => PathBuf::from(path),
        };
        self.record_into(&path, TraceFile::create_new)
    }

    fn record_into(
        mut self,
        path: &Path,
        open: impl FnOnce(&Path) -> Result<TraceFile, TryLockError>,
    ) -> Result<Session, Error> {
        let period_ms = self.message.file_write_period_ms.get_or_insert(0);
        if *period_ms == 0 {
            *period_ms = FILE_WRITE_PERIOD_MS;
        }
        let waker = Arc::new(Waker::default());
        let place = Place::start(self, Some(Arc::clone(&waker)))?;
        let (runtime, id) = (place.control.runtime(), place.control.id());
        // Last, so that an error before leaves an existing file alone.
        let writer = open(path)
            .map_err(|error| Error::of_file(path, error))
            .and_then(|file| {
                runtime.service().attach_output(id, TraceOutput::new(file));
                FileWriter::start(runtime, id, path, waker).inspect_err(|_| {
                    // Nothing of the session is in it. That it cannot be removed changes nothing.
                    let _ = std::fs::remove_file(path);
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
    /// Values that were altered before the session began.
    altered_before: AlteredCounts,
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
        let recording = Arc::new(config.recording()?);
        let runtime = Runtime::of_process(recording.shared_memory)?;
        let on_trigger = Arc::new(TriggerCallback::default());
        let owner = Arc::new(Owner {
            runtime,
            id: OnceLock::new(),
            waker: waker.clone(),
            on_trigger: Arc::clone(&on_trigger),
        });
        let nested_before = producer::nested_count();
        let altered_before = AlteredCounts::now();
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
            altered_before,
        })
    }

    /// Ends the recording: what threads have finished is in the buffers.
    ///
    /// Data sources flush first, and this waits until they have stopped, so what they wrote before is in the
    /// trace. In Perfetto only sessions that end by themselves flush first.
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

    /// Ends a session that was read; returns its account. `file_end` says why its file ends before
    /// the trace does.
    fn close(&self, bytes: u64, file_end: Option<FileEnd>) -> Report {
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
        if file_end.is_some() {
            for account in &mut sequences {
                let beyond_end =
                    mem::take(&mut account.buffered) + mem::take(&mut account.in_flight);
                account.count_beyond_end(beyond_end, file_end);
            }
        }
        let nested = producer::nested_count() - self.nested_before;
        let warnings = warnings(
            &runtime.service(),
            id,
            AlteredCounts::now().since(self.altered_before),
        );
        runtime.service().free(id);
        runtime.forget(&self.buffers);
        let memory = BufferMemory::of(&self.buffers);
        Report {
            warnings,
            ..Report::new(counts, bytes, sequences, nested, memory)
        }
    }
}
