//! The builder of a flight recorder, and its start.

use std::fmt;
use std::fs;
use std::io;
use std::path::{self, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::FlightRecorder;
use super::collector::{Collector, SAVES_WAITING_MAX};
use super::error::FlightError;
use super::files::{DEFAULT_PATTERN, Folder};
use super::history::History;
use super::request_queue::RequestQueue;
use super::running::{self, RunningRecorder, TriggerWindow};
use super::saver::{OnSaved, Saver};
#[cfg(feature = "signals")]
use super::signals::{Signal, SignalThread};
use crate::config::{
    BufferConfig, Compression, DataSourceConfig, FillPolicy, TraceConfig, TrackEventConfig,
};
use crate::crash;
use crate::error::Error;
use crate::process_end;
use crate::trace_folder::{FileNames, Limits, TraceFolder};
#[cfg(feature = "recovery")]
use tracezero_core::own_process;
use tracezero_core::own_thread;

/// The name of the snapshots of runs that were killed.
#[cfg(feature = "recovery")]
const CRASHED: &str = "crashed";
const DEFAULT_RING_KIB: u32 = 16 * 1024;
const DEFAULT_MAX_FILES: usize = 16;
const DEFAULT_MIN_INTERVAL: Duration = Duration::from_secs(10);
const DEFAULT_SAVE_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest time that a caller can ask for. An `Instant` plus this time does not overflow.
const SAVE_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How often threads clear their incremental state. A thread's part of a snapshot can begin only
/// where the thread has cleared this state.
const START_ANEW_PERIOD_MS: u32 = 1_000;

/// The settings of a [`FlightRecorder`]. Each has a default.
///
/// ```
/// use std::time::Duration;
/// use tracezero::{FlightRecorder, TrackEventConfig};
///
/// # let folder = std::env::temp_dir().join(format!("tracezero-builder-{}", std::process::id()));
/// let recorder = FlightRecorder::builder()
///     .ring_kib(4 * 1024)
///     .keep(Duration::from_secs(30))
///     .events(TrackEventConfig::new().disable("noise"))
///     .directory(&folder)
///     .max_files(5)
///     .min_interval(Duration::from_secs(60)) // at most one file a minute for each name
///     .snapshot_on_panic()
///     .add_trigger("slow_request")
///     .start()?;
/// # drop(recorder);
/// # std::fs::remove_dir_all(&folder).expect("removed");
/// # Ok::<(), tracezero::FlightError>(())
/// ```
#[must_use = "nothing is recorded until `start` is called"]
pub struct FlightRecorderBuilder {
    ring_kib: Option<u32>,
    events: Option<TrackEventConfig>,
    config: Option<TraceConfig>,
    keep: Option<Duration>,
    crash_directory: Option<PathBuf>,
    #[cfg(feature = "recovery")]
    recovers: bool,
    directory: PathBuf,
    file_name: String,
    max_files: usize,
    total_bytes: Option<u64>,
    max_age: Option<Duration>,
    min_interval: Duration,
    on_panic: bool,
    on_exit: bool,
    save_timeout: Duration,
    triggers: Vec<TriggerWindow>,
    #[cfg(feature = "signals")]
    signals: Vec<Signal>,
    on_saved: Option<OnSaved>,
}

impl FlightRecorderBuilder {
    pub(super) fn new() -> Self {
        Self {
            ring_kib: None,
            events: None,
            config: None,
            keep: None,
            crash_directory: None,
            #[cfg(feature = "recovery")]
            recovers: false,
            directory: PathBuf::from("."),
            file_name: DEFAULT_PATTERN.to_owned(),
            max_files: DEFAULT_MAX_FILES,
            total_bytes: None,
            max_age: None,
            min_interval: DEFAULT_MIN_INTERVAL,
            on_panic: false,
            on_exit: false,
            save_timeout: DEFAULT_SAVE_TIMEOUT,
            triggers: Vec::new(),
            #[cfg(feature = "signals")]
            signals: Vec::new(),
            on_saved: None,
        }
    }

    /// Sets the size of the ring that is recorded into, in KiB; 16 MiB by default. The ring holds
    /// the newest events, whatever time they cover.
    ///
    /// Packets that a snapshot has saved stay in memory for later snapshots until the ring was
    /// filled once more. After one snapshot, these packets take at most as much memory as the ring.
    /// They take at most three times as much while a snapshot waits for events after its request,
    /// or if there are many snapshots. Snapshots that wait for a slow disk need memory in addition.
    pub fn ring_kib(mut self, ring_kib: u32) -> Self {
        self.ring_kib = Some(ring_kib);
        self
    }

    /// Sets how far snapshots go back, unless [`before`](crate::SnapshotRequest::before) sets this
    /// time for one of them. A snapshot holds up to about a second more. It holds less if the ring
    /// is too small for that time. By default a snapshot holds everything in memory.
    ///
    /// The exact begin differs by thread, because packets depend on earlier ones: each thread's
    /// part begins where the thread cleared its incremental state, which happens once a second.
    /// Most custom data sources never clear an incremental state, so all of their packets that are
    /// in memory are in the snapshot.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Sets which track events to record. By default all are recorded, except for those tagged
    /// `slow` or `debug`.
    pub fn events(mut self, events: TrackEventConfig) -> Self {
        self.events = Some(events);
        self
    }

    /// Sets the whole configuration of the recording. It replaces [`ring_kib`](Self::ring_kib) and
    /// [`events`](Self::events). All buffers must be rings.
    pub fn config(mut self, config: TraceConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// Keeps what is recorded in crash files, so that the time before a kill can be recovered: see
    /// [`TraceConfig::crash_safe`].
    pub fn crash_safe(self) -> Self {
        self.crash_safe_in(crash::default_directory())
    }

    /// Keeps what is recorded in crash files in this directory: see
    /// [`TraceConfig::crash_safe_in`].
    pub fn crash_safe_in(mut self, directory: impl Into<PathBuf>) -> Self {
        self.crash_directory = Some(directory.into());
        self
    }

    /// Saves at the start what earlier runs of this program left, if they were killed: a snapshot
    /// named `crashed` for each of their sessions, under the same limit on files. Needs
    /// [`crash_safe`](Self::crash_safe).
    ///
    /// [`on_saved`](Self::on_saved) is called for each, on the thread that starts the recorder. A
    /// failure does not keep the recorder from starting. Then the crash files stay.
    #[cfg(feature = "recovery")]
    pub fn recover_on_start(mut self) -> Self {
        self.recovers = true;
        self
    }

    /// Sets the directory that snapshots are written to. It is created at the start if necessary.
    /// The default is the current directory at the start.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = path.into();
        self
    }

    /// Sets the pattern for names of files: `flight-{name}-{time}-{pid}-{number}.pftrace` by
    /// default. `{name}` is the name of the snapshot, `{time}` the time at which it was written, in
    /// UTC, and `{number}` counts the files of the process. The last three are required. By them,
    /// the recorder recognizes files of recorders, which it removes when there are too many; it
    /// removes no other files.
    pub fn file_name(mut self, pattern: impl Into<String>) -> Self {
        self.file_name = pattern.into();
        self
    }

    /// Sets how many files with names of the pattern the directory may contain, whichever process
    /// wrote them; 16 by default. The oldest is removed before one more is written.
    pub const fn max_files(mut self, count: usize) -> Self {
        self.max_files = count;
        self
    }

    /// Sets the size that all files with names of the pattern may have together, whichever process
    /// wrote them; not limited by default. The oldest are removed before a snapshot is written, so the
    /// files of one recorder never take more. A snapshot that is larger than this by itself fails
    /// with [`FlightError::TooLarge`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tracezero::{FlightRecorder, instant};
    ///
    /// # let folder = std::env::temp_dir().join(format!("tracezero-budget-{}", std::process::id()));
    /// let recorder = FlightRecorder::builder()
    ///     .directory(&folder)
    ///     .min_interval(Duration::ZERO)
    ///     .total_bytes(100_000)
    ///     .start()?;
    /// for request in 0..20 {
    ///     instant!("app", "slow", request);
    ///     recorder.snapshot("slow request").save()?;
    /// }
    /// let files = std::fs::read_dir(&folder).expect("a folder");
    /// let sizes = files.map(|file| file.and_then(|it| it.metadata()).expect("a file").len());
    /// assert!(sizes.sum::<u64>() <= 100_000);
    /// # drop(recorder);
    /// # std::fs::remove_dir_all(&folder).expect("removed");
    /// # Ok::<(), tracezero::FlightError>(())
    /// ```
    pub const fn total_bytes(mut self, total_bytes: u64) -> Self {
        self.total_bytes = Some(total_bytes);
        self
    }

    /// Sets how old files with names of the pattern may become; not limited by default. Older ones
    /// are removed when the next snapshot is written.
    pub const fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = Some(max_age);
        self
    }

    /// Sets the shortest time between two snapshots of the same name; 10 s by default. A snapshot
    /// that could not be written counts, too. Requests that come sooner fail with
    /// [`FlightError::TooSoon`] and are counted. After 64 names, all further names share one
    /// interval.
    pub const fn min_interval(mut self, interval: Duration) -> Self {
        self.min_interval = interval;
        self
    }

    /// Takes a snapshot with the name `panic` when a thread panics. It contains an event with the
    /// panic's message and location. The thread waits until the snapshot is saved, at most for
    /// [`save_timeout`](Self::save_timeout), and then continues as usual. So the file is there even
    /// if panics abort the process, whatever the thread was doing. A panic that is caught also
    /// takes a snapshot.
    ///
    /// The first recorder of the process with this setting installs a panic hook, which then calls
    /// the hook that was installed before.
    pub const fn snapshot_on_panic(mut self) -> Self {
        self.on_panic = true;
        self
    }

    /// Takes a snapshot when the process receives the signal. The name of the snapshot contains
    /// that of the signal: `signal USR2`, for example. The process continues. After the recorder
    /// has ended, the signal does nothing: its earlier action is not restored.
    #[cfg(feature = "signals")]
    pub fn snapshot_on_signal(mut self, signal: Signal) -> Self {
        self.signals.push(signal);
        self
    }

    /// Takes a snapshot with the name `exit` at the end: when the recorder is stopped or dropped,
    /// when the process exits before that, or when it receives `SIGINT` or `SIGTERM`, as described
    /// for the file of a [`Session`](crate::Session). The exit waits for this and all requested
    /// snapshots, at most for [`save_timeout`](Self::save_timeout). Without this setting, only
    /// requested snapshots are saved at the end.
    pub const fn snapshot_on_exit(mut self) -> Self {
        self.on_exit = true;
        self
    }

    /// Sets how long a thread that panics and a process that exits wait at most until snapshots are
    /// saved; 2 s by default. After a signal they never wait longer than 2 s. Saving a ring of 16
    /// MiB takes some tenths of a second on a busy machine.
    pub const fn save_timeout(mut self, save_timeout: Duration) -> Self {
        self.save_timeout = save_timeout;
        self
    }

    /// Takes a snapshot when this process activates the trigger by
    /// [`activate_trigger`](crate::activate_trigger). The snapshot has the name of the trigger.
    pub fn add_trigger(self, name: impl Into<String>) -> Self {
        self.on_trigger(name.into(), None, Duration::ZERO)
    }

    /// Adds a trigger like [`add_trigger`](Self::add_trigger). Its snapshots hold what was recorded
    /// in the times `before` and `after` it.
    pub fn add_trigger_around(
        self,
        name: impl Into<String>,
        before: Duration,
        after: Duration,
    ) -> Self {
        self.on_trigger(name.into(), Some(before), after)
    }

    fn on_trigger(mut self, name: String, before: Option<Duration>, after: Duration) -> Self {
        self.triggers.push(TriggerWindow {
            name,
            before,
            after,
        });
        self
    }

    /// Calls `call` after each snapshot, on the thread that writes snapshots. The arguments are the
    /// snapshot's name, and the path of its file or the error.
    pub fn on_saved(
        mut self,
        call: impl Fn(&str, &Result<PathBuf, FlightError>) + Send + Sync + 'static,
    ) -> Self {
        self.on_saved = Some(Box::new(call));
        self
    }

    /// Starts to record.
    ///
    /// # Errors
    ///
    /// If the settings contradict each other, the directory cannot be created, a signal cannot be
    /// watched, there is no memory for another session, or the limit on sessions is reached. Then
    /// nothing is left running.
    ///
    /// # Panics
    ///
    /// If [`snapshot_on_panic`](Self::snapshot_on_panic) is set and the calling thread is
    /// panicking.
    pub fn start(mut self) -> Result<FlightRecorder, FlightError> {
        let config = self.trace_config()?;
        if self.max_files == 0 {
            return Err(FlightError::invalid("max_files", "is 0; give at least 1"));
        }
        let names = FileNames::new(&self.file_name)
            .map_err(|reason| FlightError::invalid("file_name", reason))?;
        let folder = Folder(TraceFolder {
            names,
            path: self.made_directory()?,
            limits: Limits {
                files: Some(self.max_files),
                total_bytes: self.total_bytes,
                age: self.max_age,
            },
        });
        #[cfg(feature = "recovery")]
        if self.recovers {
            self.recover(&folder)?;
        }
        let config = match self.crash_directory.take() {
            Some(directory) => config.crash_safe_in(directory),
            None => config,
        };
        let session = config.record_in_memory()?;
        let queue = RequestQueue::new(self.min_interval);
        let (saves, waiting) = mpsc::sync_channel(SAVES_WAITING_MAX);
        let collector = Collector {
            queue: Arc::clone(&queue),
            history: History::new(session.control().clone(), self.keep),
            windows: Vec::new(),
            saves,
        };
        let saver = Saver {
            queue: Arc::clone(&queue),
            folder,
            on_saved: self.on_saved.take(),
            saves: waiting,
        };
        let running = Arc::new(RunningRecorder {
            queue,
            on_panic: self.on_panic,
            on_exit: self.on_exit,
            save_timeout: self.save_timeout.min(SAVE_TIMEOUT_MAX),
            triggers: self.triggers,
        });
        // From here on, dropping the recorder ends what has started.
        let mut recorder = FlightRecorder {
            running,
            session: Some(session),
            threads: Vec::new(),
            #[cfg(feature = "signals")]
            signals: None,
        };
        let threads = &mut recorder.threads;
        threads.push(start_thread("tracezero-collect", move || collector.run())?);
        threads.push(start_thread("tracezero-saver", move || saver.run())?);
        #[cfg(feature = "signals")]
        if !self.signals.is_empty() {
            let signals = SignalThread::start(&self.signals, &recorder.running.queue)?;
            recorder.signals = Some(signals);
        }
        process_end::watch(&running::FINISHER)
            .map_err(|source| FlightError::Thread(Arc::new(source)))?;
        running::add(&recorder.running);
        Ok(recorder)
    }

    /// Saves what earlier runs left.
    #[cfg(feature = "recovery")]
    fn recover(&self, folder: &Folder) -> Result<(), FlightError> {
        let Some(directory) = &self.crash_directory else {
            let reason = "finds nothing without crash_safe; set both";
            return Err(FlightError::invalid("recover_on_start", reason));
        };
        let report = |outcome: Result<PathBuf, FlightError>| {
            if let Some(on_saved) = &self.on_saved {
                on_saved(CRASHED, &outcome);
            }
        };
        let failed = |error| FlightError::Recovery(Arc::new(error));
        let found = crash::leftovers(directory).unwrap_or_else(|error| {
            report(Err(failed(error)));
            Vec::new()
        });
        let name = own_process::executable_name();
        for leftover in found.into_iter().filter(|it| it.process_name() == name) {
            let mut is_saved = true;
            for index in 0..leftover.session_count() {
                let outcome = folder.recover(CRASHED, |path| {
                    leftover.recover_session(index, path).map_err(failed)
                });
                is_saved &= outcome.is_ok();
                report(outcome);
            }
            if is_saved && let Err(error) = leftover.delete() {
                report(Err(failed(error)));
            }
        }
        Ok(())
    }

    /// Checks the settings and returns the configuration of the recording.
    fn trace_config(&mut self) -> Result<TraceConfig, FlightError> {
        if self.keep == Some(Duration::ZERO) {
            return Err(FlightError::invalid("keep", "is 0; give a longer time"));
        }
        let Some(config) = self.config.take() else {
            let ring_kib = self.ring_kib.unwrap_or(DEFAULT_RING_KIB);
            if ring_kib == 0 {
                let reason = "is 0; give at least 1";
                return Err(FlightError::invalid("ring_kib", reason));
            }
            let events = self.events.take().unwrap_or_default();
            let config = TraceConfig::empty()
                .add_buffer(BufferConfig::ring(ring_kib))
                .add_data_source(DataSourceConfig::new("track_event").track_event(&events))
                .record_all();
            return Ok(config.incremental_state_clear_period(Duration::from_millis(
                START_ANEW_PERIOD_MS.into(),
            )));
        };
        if self.ring_kib.is_some() || self.events.is_some() {
            let reason = "is set together with ring_kib or events; set those in the config instead";
            return Err(FlightError::invalid("config", reason));
        }
        let asked = config.session_config().map_err(Error::from)?;
        for (index, buffer) in asked.buffers.iter().enumerate() {
            if buffer.fill_policy != FillPolicy::Ring {
                let reason = "is not a ring; use BufferConfig::ring";
                return Err(FlightError::invalid(format!("buffers[{index}]"), reason));
            }
        }
        let refused = [
            (
                asked.triggers.is_some(),
                "trigger_config",
                "is not supported by flight recorders; use add_trigger",
            ),
            (
                asked.write_into_file || asked.output_path.is_some(),
                "write_into_file",
                "is not supported by flight recorders; use directory",
            ),
            (
                asked.compression != Compression::None,
                "compression",
                "is not supported by flight recorders; compress the files",
            ),
        ];
        for (is_there, setting, reason) in refused {
            if is_there {
                return Err(FlightError::invalid(setting, reason));
            }
        }
        Ok(match asked.incremental_state_clear_period_ms {
            0 => config
                .incremental_state_clear_period(Duration::from_millis(START_ANEW_PERIOD_MS.into())),
            _ => config,
        })
    }

    /// Creates the directory and returns its absolute path.
    fn made_directory(&self) -> Result<PathBuf, FlightError> {
        let directory_error = |source: io::Error| FlightError::Directory {
            path: self.directory.clone(),
            source: Arc::new(source),
        };
        let path = path::absolute(&self.directory).map_err(directory_error)?;
        fs::create_dir_all(&path).map_err(directory_error)?;
        Ok(path)
    }
}

fn start_thread(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, FlightError> {
    own_thread::spawn(name, || {
        running::enter_own_thread();
        work();
    })
    .map_err(|source| FlightError::Thread(Arc::new(source)))
}

impl fmt::Debug for FlightRecorderBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightRecorderBuilder")
            .field("directory", &self.directory)
            .field("file_name", &self.file_name)
            .finish_non_exhaustive()
    }
}
