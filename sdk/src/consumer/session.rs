//! The sessions that applications hold while they record.

use std::fmt;
use std::fs::TryLockError;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::control::SessionControl;
use super::file_writer::{FileWriter, Waker};
use super::on_error;
use super::segments::{Rotation, SegmentFiles, Segments};
use super::trigger_callback::TriggerCallback;
use crate::config::{ConfigError, TraceConfig};
use crate::error::Error;
use crate::report::{BufferMemory, Report, warnings};
use crate::runtime::Runtime;
use tracezero_core::crash_files::SessionFolder;
use tracezero_core::ids::SessionId;
use tracezero_producer as producer;
use tracezero_service::{
    CentralBuffer, FileEnd, ReceivedTrigger, SessionOwner, SessionRequest, TraceFile, TraceOutput,
};
use tracezero_track_event::AlteredCounts;

/// How often a file is written by default. A process that is killed loses what it recorded since
/// the last write.
const FILE_WRITE_PERIOD_MS: u32 = 200;

/// A session that streams its trace into a file.
///
/// The session finishes when it is dropped, also during a panic. [`Session::finish`] also returns a
/// report. A thread of the session moves packets from the buffers, which are rings, into the file.
/// If the file lags behind, the buffers grow, by default up to 256 MiB. Beyond that, writers wait
/// for up to 10 s, and only then are packets lost. The report says how far the buffers grew and how
/// long writers waited. [`BufferConfig::grow_to`](crate::BufferConfig::grow_to),
/// [`TraceConfig::wait_limit`] and [`TraceConfig::never_wait`] change these limits.
///
/// # How it ends
///
/// The file is also finished when the process exits, by [`std::process::exit`] or a return from
/// `main`, while the session is in a `static` or leaked. `SIGINT` and `SIGTERM` finish the file
/// too, if they have their default action when the session starts. After that, the signal ends the
/// process as it would without a session, and the parent process sees that signal as the cause. The
/// process waits at most 2 s for a file on a disk that is stuck. A second signal ends it at once.
///
/// A signal that the application handles or ignores is left alone. After
/// [`leave_signals_alone`](crate::leave_signals_alone), all signals are. A signal handler of the
/// application must end the sessions itself, or call
/// [`finish_recordings`](crate::finish_recordings).
///
/// A process that aborts or is killed by `SIGKILL` loses what it recorded in the last 200 ms, or in
/// the last [period](TraceConfig::file_write_period), unless its configuration is
/// [`crash_safe`](TraceConfig::crash_safe). A power failure loses what was not on the disk yet. The
/// trace then has no end, and `tracezero check` says so.
///
/// If the file cannot be written, for instance because the disk is full, the session ends, and
/// `finish` returns the error with the report. If the session is dropped instead, or the process
/// ends, the error goes to [`on_error`](crate::on_error), which by default prints it to standard
/// error.
///
/// In a forked child the session belongs to the parent: dropping it there does nothing.
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
/// println!("{report}"); // 3 events, 1329 bytes, 0 lost: app.pftrace
/// assert_eq!((report.events, report.losses.total()), (3, 0));
/// # std::fs::remove_dir_all(&directory).expect("removed");
/// # Ok::<(), tracezero::Error>(())
/// ```
#[must_use = "a session ends when it is dropped"]
pub struct Session {
    core: SessionCore,
    /// `None` after the session has finished.
    writer: Option<FileWriter>,
    /// The path of the file, or of the folder with the segments.
    path: PathBuf,
    segments: Option<Arc<SegmentFiles>>,
}

impl Session {
    /// Records everything in this process into the file at `path`, which is created, or replaced if
    /// it exists.
    ///
    /// # Errors
    ///
    /// If the file cannot be created, there is no memory for another session, or the limit on
    /// sessions is reached. No file is left behind. If a session of any process already writes to
    /// that file, the error is [`Error::FileInUse`], and the file is left as it is.
    pub fn record_to_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        TraceConfig::default().record_to_file(path)
    }

    /// Records everything in this process into segments: files of limited size in `folder`, each of
    /// which is a trace of its own. The folder is created if it does not exist, and all segments in it
    /// together never take more than [`Segments::total_bytes`].
    ///
    /// The names of segments sort by time: `segment-{time}-{pid}-{number}.pftrace`, with the time of
    /// their begin in UTC. A segment has the suffix `.partial` until it is complete.
    /// [`Segments::on_complete`] is called with complete ones, for example to upload them.
    ///
    /// Nothing between two segments is missing, and nothing is in both. Each thread changes from one to
    /// the next at a moment of its own, so for about a second two files grow. A span that is open then
    /// has its begin in one segment and its end in a later one. As in the snapshots of a flight
    /// recorder, each thread begins its part of a segment with a list of its open spans, in a packet
    /// that Perfetto's tools skip.
    ///
    /// Files of earlier runs count, and are removed when they are the oldest. What a killed process
    /// has left of its last segments is completed at the start: everything up to 200 ms before the
    /// kill, like in the file of a session. No two sessions can use the same folder.
    ///
    /// If the disk is full before `total_bytes` is used, the oldest segments are removed, too. If there
    /// are none left, packets are left out until there is room again. The report counts them as
    /// [`file_full`](crate::Losses::file_full), and [`on_error`](crate::on_error) is told. So it is if
    /// the file of the next segment cannot be created; the present segment then goes on. Any other
    /// error of writing ends the session, as described above.
    ///
    /// ```
    /// use tracezero::{Segments, Session, instant};
    ///
    /// # let folder = std::env::temp_dir().join(format!("tracezero-record-{}", std::process::id()));
    /// let session = Session::record_to_segments(&folder, Segments::new().total_bytes(64 << 20))?;
    /// instant!("app", "here");
    /// assert_eq!(session.finish()?.segments.completed, 1);
    /// # std::fs::remove_dir_all(&folder).expect("removed");
    /// # Ok::<(), tracezero::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`TraceConfig::record_to_segments`].
    pub fn record_to_segments(folder: impl AsRef<Path>, segments: Segments) -> Result<Self, Error> {
        TraceConfig::default().record_to_segments(folder, segments)
    }

    /// Returns the handle that controls the running session.
    #[must_use]
    pub fn control(&self) -> &SessionControl {
        &self.core.control
    }

    /// Stops recording, writes what is left and closes the file.
    ///
    /// Threads need not have ended: everything they have written so far is collected.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if writing to the file failed, now or before. This error contains the
    /// report. The file is a valid trace of everything that was written before the failure.
    /// [`Error::ForkedChild`] if this is a forked child.
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

    /// Ends the session. Returns `None` if it was ended before.
    fn end(&mut self) -> Option<SessionEnd> {
        let writer = self.writer.take()?;
        let Ok(runtime) = self.core.control.runtime().here() else {
            // The writing thread exists only in the parent.
            mem::forget(writer);
            return Some(SessionEnd {
                outcome: Err(Error::ForkedChild),
                is_reported: true,
            });
        };
        self.core.stop();
        let written = writer.join();
        let service = runtime.service();
        let (bytes, file_end) = service.file_size(self.core.control.id());
        let mut report = self.core.close(bytes, file_end);
        report.path = Some(self.path.clone());
        if let Some(segments) = &self.segments {
            report.segments = segments.counts();
        }
        Some(SessionEnd {
            outcome: match written.outcome {
                Ok(()) => Ok(report),
                Err(source) => Err(Error::File {
                    path: self.path.clone(),
                    source,
                    report: Some(Box::new(report)),
                }),
            },
            is_reported: written.is_reported,
        })
    }
}

/// The outcome of a session.
struct SessionEnd {
    outcome: Result<Report, Error>,
    /// True if the application knows of the error, or if there is no error.
    is_reported: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(SessionEnd {
            outcome: Err(error),
            is_reported: false,
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

/// A session that keeps its packets in the buffers until it finishes. A ring keeps the newest
/// packets.
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
    core: SessionCore,
    is_finished: bool,
}

impl InMemorySession {
    /// Records everything in this process into a ring in memory.
    ///
    /// # Errors
    ///
    /// If there is no memory for another session, or the limit on sessions is reached.
    pub fn start() -> Result<Self, Error> {
        TraceConfig::default().record_in_memory()
    }

    /// Returns the handle that controls the running session.
    #[must_use]
    pub fn control(&self) -> &SessionControl {
        &self.core.control
    }

    /// Stops recording. Returns the trace and the report.
    ///
    /// The trace is empty in a forked child, or if the session waited for a trigger that did not
    /// come.
    #[must_use = "the result contains the trace"]
    pub fn finish(mut self) -> (Vec<u8>, Report) {
        let mut trace = Vec::new();
        let Ok(runtime) = self.core.control.runtime().here() else {
            return (trace, Report::default());
        };
        self.core.stop();
        let service = runtime.service();
        let id = self.core.control.id();
        service.read(id, &mut trace);
        self.is_finished = true;
        let report = self.core.close(trace.len() as u64, None);
        (trace, report)
    }
}

impl Drop for InMemorySession {
    fn drop(&mut self) {
        if !self.is_finished {
            self.core.abandon();
        }
    }
}

impl fmt::Debug for InMemorySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemorySession").finish_non_exhaustive()
    }
}

impl TraceConfig {
    /// Starts a session that records into the file at `path`, which is created, or replaced if it
    /// exists.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid, there is no memory for another session, the limit on
    /// sessions is reached, or another session writes to the file ([`Error::FileInUse`]). A file that
    /// exists is then left as it is.
    ///
    /// If the file cannot be created, or the thread that writes it cannot be started. No file is
    /// then left behind.
    pub fn record_to_file(self, path: impl AsRef<Path>) -> Result<Session, Error> {
        self.record_into(path.as_ref(), TraceFile::create)
    }

    /// Starts a session that records into the file at the configuration's
    /// [`output_path`](TraceConfig::output_path), which must not exist yet.
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

    /// Starts a session that records into segments in `folder`: see
    /// [`Session::record_to_segments`].
    ///
    /// # Errors
    ///
    /// If the configuration or the settings contradict themselves, the folder cannot be created or
    /// read, there is no memory for another session, or the limit on sessions is reached. If another
    /// session records into that folder, the error is [`Error::FileInUse`].
    ///
    /// Settings that need a single file are refused: [`crash_safe`](TraceConfig::crash_safe) and
    /// [`max_file_size_bytes`](TraceConfig::max_file_size_bytes).
    pub fn record_to_segments(
        mut self,
        folder: impl AsRef<Path>,
        segments: Segments,
    ) -> Result<Session, Error> {
        let folder = folder.as_ref();
        segments.check()?;
        for (is_set, field, reason) in [
            (
                self.local.crash_directory.is_some(),
                "crash_directory",
                "is not supported with segments; a killed process leaves its segments behind",
            ),
            (
                self.message.max_file_size_bytes.is_some_and(|it| it > 0),
                "max_file_size_bytes",
                "is not supported with segments; set Segments::segment_bytes",
            ),
        ] {
            if is_set {
                return Err(Error::Config(ConfigError::Invalid {
                    field: field.to_owned(),
                    reason: reason.to_owned(),
                }));
            }
        }
        self.local.segment_bytes = Some(segments.bytes());
        // A segment can become larger by what the buffers hold when it ends.
        let limit_kib = u32::try_from(segments.buffers_max_bytes() / 1024).unwrap_or(u32::MAX);
        for (_, limit_kb) in self.local.buffer_limits_kb.iter_mut() {
            *limit_kb = (*limit_kb).min(limit_kib);
        }
        let (core, waker) = self.start_with_output()?;
        let id = core.control.id();
        let files = SegmentFiles::open(folder, &segments).inspect_err(|_| core.abandon())?;
        let started = files.begin().and_then(|output| {
            let runtime = core.control.runtime();
            runtime.service().attach_output(id, output);
            let rotation = Rotation::new(id, Arc::clone(&files), &segments);
            FileWriter::start(runtime, id, folder, waker, Some(rotation))
        });
        let writer = started.inspect_err(|_| {
            core.abandon();
            files.abandon();
        })?;
        Ok(Session {
            core,
            writer: Some(writer),
            path: folder.to_owned(),
            segments: Some(files),
        })
    }

    fn record_into(
        self,
        path: &Path,
        open: impl FnOnce(&Path) -> Result<TraceFile, TryLockError>,
    ) -> Result<Session, Error> {
        let (core, waker) = self.start_with_output()?;
        let (runtime, id) = (core.control.runtime(), core.control.id());
        // The file is opened last, so that an earlier error leaves an existing file as it is.
        let writer = open(path)
            .map_err(|error| Error::of_file(path, error))
            .and_then(|file| {
                if let Some(folder) = &core.crash_files {
                    folder
                        .note_output(path, &file)
                        .map_err(|source| Error::of_io(path, source))?;
                }
                runtime.service().attach_output(id, TraceOutput::new(file));
                FileWriter::start(runtime, id, path, waker, None).inspect_err(|_| {
                    // The file contains nothing yet. If it cannot be removed, there is nothing more
                    // to do.
                    let _ = std::fs::remove_file(path);
                })
            })
            .inspect_err(|_| core.abandon())?;
        Ok(Session {
            core,
            writer: Some(writer),
            path: path.to_owned(),
            segments: None,
        })
    }

    /// Starts a session that streams into a file, which the caller attaches.
    fn start_with_output(mut self) -> Result<(SessionCore, Arc<Waker>), Error> {
        let period_ms = self.message.file_write_period_ms.get_or_insert(0);
        if *period_ms == 0 {
            *period_ms = FILE_WRITE_PERIOD_MS;
        }
        let waker = Arc::new(Waker::default());
        let core = SessionCore::start(self, Some(Arc::clone(&waker)))?;
        Ok((core, waker))
    }

    /// Starts a session that keeps its packets in the buffers of the configuration until it
    /// finishes.
    ///
    /// # Errors
    ///
    /// If the configuration contradicts itself, there is no memory for another session, or the
    /// limit on sessions is reached.
    pub fn record_in_memory(self) -> Result<InMemorySession, Error> {
        Ok(InMemorySession {
            core: SessionCore::start(self, None)?,
            is_finished: false,
        })
    }
}

/// The part that both kinds of sessions have: the running session, as the service knows it.
struct SessionCore {
    control: SessionControl,
    /// The session's buffers, in the order of the configuration.
    buffers: Vec<Arc<CentralBuffer>>,
    /// The folder for crash files, if the session has them.
    crash_files: Option<Arc<SessionFolder>>,
    /// The number of nested trace points that were dropped before the session began.
    nested_before: u64,
    /// The counts of values that were altered before the session began.
    altered_before: AlteredCounts,
}

/// Receives the service's callbacks for a session.
struct Owner {
    runtime: &'static Runtime,
    /// The id of the session, set as soon as the service has assigned it.
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
        // The session has ended. Wake the thread that writes the file, because it must write what
        // is left.
        self.write_into_file();
    }

    fn clone_triggered(&self, trigger: &ReceivedTrigger) {
        if let Some(id) = self.id.get() {
            self.on_trigger.call(self.runtime, *id, trigger);
        }
    }
}

impl SessionCore {
    /// Starts the session. `waker` wakes the thread that writes the session's file, if it has one.
    fn start(config: TraceConfig, waker: Option<Arc<Waker>>) -> Result<Self, Error> {
        let recording = Arc::new(config.recording()?);
        let crash_directory = recording.crash_directory.as_deref();
        let runtime = Runtime::of_process(recording.shared_memory, crash_directory)?;
        let crash_files = match (crash_directory, runtime.crash_files()) {
            (Some(_), Some(folder)) => Some(SessionFolder::create(folder)?),
            _ => None,
        };
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
            crash_files: crash_files.clone(),
        })?;
        owner.id.get_or_init(|| id);
        Ok(Self {
            control: SessionControl::new(runtime, id, on_trigger),
            buffers: runtime.service().buffers(id),
            crash_files,
            nested_before,
            altered_before,
        })
    }

    /// Stops recording. After this, all packets that threads have finished are in the buffers.
    ///
    /// Data sources flush before they stop, and this waits for both, so the trace contains what
    /// they wrote before. In Perfetto only sessions that end by themselves flush first.
    fn stop(&self) {
        self.control.stop();
        // The stop timeout of the configuration limits how long data sources take.
        while !self.control.wait(Duration::from_secs(60)) {}
    }

    /// Ends a session without reading it.
    fn abandon(&self) {
        let Ok(runtime) = self.control.runtime().here() else {
            return;
        };
        let id = self.control.id();
        runtime.service().disable(id);
        runtime.service().free(id);
        runtime.forget(&self.buffers);
    }

    /// Ends a session that was read, and returns its report. If the file ends before the trace
    /// does, `file_end` says why.
    fn close(&self, bytes: u64, file_end: Option<FileEnd>) -> Report {
        let (runtime, id) = (self.control.runtime(), self.control.id());
        let counts = runtime.service().read_counts(id);
        let stats = self.control.stats();
        let mut sequences = stats.sequences;
        for account in &mut sequences {
            // Packets that are still buffered after the last read are incomplete. In a discarding
            // buffer that is full, the missing rest was discarded.
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
