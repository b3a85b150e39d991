//! What a flight recorder is to do, and its start.

use std::fmt;
use std::fs;
use std::io;
use std::path::{self, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::FlightRecorder;
use super::desk::Desk;
use super::error::FlightError;
use super::files::{DEFAULT_PATTERN, FileNames, Folder};
use super::history::History;
use super::keeper::{Keeper, SAVES_WAITING_MAX};
use super::running::{self, Running, TriggerWindow};
use super::saver::{OnSaved, Saver};
#[cfg(feature = "signals")]
use super::signals::{Signal, SignalThread};
use crate::config::{
    BufferConfig, Compression, DataSourceConfig, FillPolicy, TraceConfig, TrackEventConfig,
};
use crate::error::Error;
use crate::process_end;
use tracezero_core::own_thread;

const DEFAULT_RING_KIB: u32 = 16 * 1024;
const DEFAULT_LIMIT_FILES: usize = 16;
const DEFAULT_MIN_INTERVAL: Duration = Duration::from_secs(10);
const DEFAULT_PATIENCE: Duration = Duration::from_secs(2);
/// Nobody means to wait longer, and clocks can tell it.
const PATIENCE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How often threads that record say anew what their events build on: snapshots can begin there.
const START_ANEW_PERIOD_MS: u32 = 1_000;

/// What a [`FlightRecorder`] is to do. All of it has a default.
///
/// ```
/// use std::time::Duration;
/// use tracezero::{FlightRecorder, TrackEventConfig};
///
/// # let folder = std::env::temp_dir().join(format!("tracezero-builder-{}", std::process::id()));
/// let recorder = FlightRecorder::builder()
///     .at_most_kib(4 * 1024)
///     .keep(Duration::from_secs(30))
///     .events(&TrackEventConfig::new().disable("noise"))
///     .directory(&folder)
///     .limit_files(5)
///     .min_interval(Duration::from_secs(60)) // a second one of a name before that makes no file
///     .snapshot_on_panic()
///     .add_trigger("slow_request")
///     .start()?;
/// # drop(recorder);
/// # std::fs::remove_dir_all(&folder).expect("removed");
/// # Ok::<(), tracezero::FlightError>(())
/// ```
#[must_use = "nothing is recorded before its start"]
pub struct FlightRecorderBuilder {
    ring_kib: Option<u32>,
    events: Option<TrackEventConfig>,
    config: Option<TraceConfig>,
    keep: Option<Duration>,
    directory: PathBuf,
    file_name: String,
    limit_files: usize,
    min_interval: Duration,
    on_panic: bool,
    on_exit: bool,
    patience: Duration,
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
            directory: PathBuf::from("."),
            file_name: DEFAULT_PATTERN.to_owned(),
            limit_files: DEFAULT_LIMIT_FILES,
            min_interval: DEFAULT_MIN_INTERVAL,
            on_panic: false,
            on_exit: false,
            patience: DEFAULT_PATIENCE,
            triggers: Vec::new(),
            #[cfg(feature = "signals")]
            signals: Vec::new(),
            on_saved: None,
        }
    }

    /// Size of the ring that is recorded into, in KiB; 16 MiB by default. It holds the newest
    /// events, of however long a time.
    ///
    /// What a snapshot has saved stays in memory for the next ones, until the ring was filled once
    /// more: after one snapshot that is as much again, and at most three times as much while one
    /// waits for what comes after its event, or many are taken. What waits for a slow disk comes on
    /// top.
    pub fn at_most_kib(mut self, ring_kib: u32) -> Self {
        self.ring_kib = Some(ring_kib);
        self
    }

    /// Snapshots go back so far, and about a second further at most, unless one says
    /// [`before`](crate::SnapshotRequest::before). That much is there only if the ring is large
    /// enough for it. By default a snapshot holds all that is there.
    ///
    /// Packets build on earlier ones, so each thread's begin where it said everything anew, which
    /// it does once a second. Data sources of one's own are not cut.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Which track events to record; all but those tagged `slow` or `debug` by default.
    pub fn events(mut self, events: &TrackEventConfig) -> Self {
        self.events = Some(events.clone());
        self
    }

    /// What to record, in detail, in place of [`at_most_kib`](Self::at_most_kib) and
    /// [`events`](Self::events). All buffers are to be rings.
    pub fn config(mut self, config: TraceConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// The folder that snapshots are written to. It is made at the start, if need be; by default it
    /// is the current one at that time.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = path.into();
        self
    }

    /// How files are called: `flight-{name}-{time}-{pid}-{number}.pftrace` by default. There
    /// `{name}` is the name of the snapshot, `{time}` when it was written, in UTC, and `{number}`
    /// counts the files of the process. The last three are needed: they tell files of recorders,
    /// which are removed when there are too many, from all others.
    pub fn file_name(mut self, pattern: impl Into<String>) -> Self {
        self.file_name = pattern.into();
        self
    }

    /// So many files of the pattern may be in the folder, by whichever process, 16 by default. When
    /// there is one more, the oldest is removed.
    pub const fn limit_files(mut self, count: usize) -> Self {
        self.limit_files = count;
        self
    }

    /// Snapshots of the same name are at least so far apart, 10 s by default, whether they could be
    /// written or not: others are refused as [`FlightError::TooSoon`], and counted. More than 64
    /// names share one interval.
    pub const fn min_interval(mut self, interval: Duration) -> Self {
        self.min_interval = interval;
        self
    }

    /// Takes a snapshot of the name `panic` when a thread panics, with an event that has message
    /// and place. The thread waits until it is saved, for its [`patience`](Self::patience), and then
    /// goes on as it would; so it is also there if panics abort the process, whatever the panic was in the middle of. A
    /// panic that is caught counts as well.
    ///
    /// A hook is set in front of the one that the process has at the start of its first recorder
    /// that does this.
    pub const fn snapshot_on_panic(mut self) -> Self {
        self.on_panic = true;
        self
    }

    /// Takes a snapshot of the name `signal USR2`, or as the signal is called, when the process
    /// gets that signal; the process goes on. Once the recorder has ended, the signal does nothing:
    /// what it would have done before is not restored.
    #[cfg(feature = "signals")]
    pub fn snapshot_on_signal(mut self, signal: Signal) -> Self {
        self.signals.push(signal);
        self
    }

    /// Takes a snapshot of the name `exit` at the end: when the recorder is stopped or dropped, or
    /// when the process exits before, or gets `SIGINT` or `SIGTERM` as [`Session`](crate::Session) says
    /// of its file. The exit waits for it, and for all snapshots that were asked
    /// for, for its [`patience`](Self::patience). By default nothing is saved at the end but what was
    /// asked for.
    pub const fn snapshot_on_exit(mut self) -> Self {
        self.on_exit = true;
        self
    }

    /// How long a thread that panics and a process that exits wait at most for what is saved, 2 s by
    /// default. After a signal it is never longer than that. A ring of 16 MiB takes some tenths of a second on a machine that is busy.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Takes a snapshot when this process hits the trigger, by
    /// [`activate_trigger`](crate::activate_trigger). Its name is that of the trigger.
    pub fn add_trigger(self, name: impl Into<String>) -> Self {
        self.on_trigger(name.into(), None, Duration::ZERO)
    }

    /// As [`add_trigger`](Self::add_trigger), with what was recorded so long `before` and `after` it.
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

    /// Has `call` called with the name of each snapshot and its file, or why that could not be
    /// written, on the thread that writes them.
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
    /// If the settings contradict themselves, the folder cannot be made, a signal cannot be waited
    /// for, or there is no memory or place for another session. Nothing goes on then.
    ///
    /// # Panics
    ///
    /// If [`snapshot_on_panic`](Self::snapshot_on_panic) is asked for by a thread that is panicking.
    pub fn start(mut self) -> Result<FlightRecorder, FlightError> {
        let config = self.trace_config()?;
        if self.limit_files == 0 {
            return Err(FlightError::invalid(
                "limit_files",
                "is 0: no snapshot could stay",
            ));
        }
        let folder = Folder {
            names: FileNames::new(&self.file_name)?,
            path: self.made_directory()?,
            limit: self.limit_files,
        };
        let session = config.record_in_memory()?;
        let desk = Desk::new(self.min_interval);
        let (saves, waiting) = mpsc::sync_channel(SAVES_WAITING_MAX);
        let keeper = Keeper {
            desk: Arc::clone(&desk),
            history: History::new(session.control().clone(), self.keep),
            windows: Vec::new(),
            saves,
        };
        let saver = Saver {
            desk: Arc::clone(&desk),
            folder,
            on_saved: self.on_saved.take(),
            saves: waiting,
        };
        let running = Arc::new(Running {
            desk,
            on_panic: self.on_panic,
            on_exit: self.on_exit,
            patience: self.patience.min(PATIENCE_MAX),
            triggers: self.triggers,
        });
        // From here on dropping it ends what has begun.
        let mut recorder = FlightRecorder {
            running,
            session: Some(session),
            threads: Vec::new(),
            #[cfg(feature = "signals")]
            signals: None,
        };
        let threads = &mut recorder.threads;
        threads.push(start_thread("tracezero-keeper", move || keeper.run())?);
        threads.push(start_thread("tracezero-saver", move || saver.run())?);
        #[cfg(feature = "signals")]
        if !self.signals.is_empty() {
            let signals = SignalThread::start(&self.signals, &recorder.running.desk)?;
            recorder.signals = Some(signals);
        }
        process_end::watch(&running::FINISHER)
            .map_err(|source| FlightError::Thread(Arc::new(source)))?;
        running::add(&recorder.running);
        Ok(recorder)
    }

    /// What is recorded.
    fn trace_config(&mut self) -> Result<TraceConfig, FlightError> {
        if self.keep == Some(Duration::ZERO) {
            return Err(FlightError::invalid("keep", "is 0: nothing could be saved"));
        }
        let Some(config) = self.config.take() else {
            let ring_kib = self.ring_kib.unwrap_or(DEFAULT_RING_KIB);
            if ring_kib == 0 {
                let reason = "is 0: nothing could be recorded";
                return Err(FlightError::invalid("at_most_kib", reason));
            }
            let events = self.events.take().unwrap_or_default();
            let config = TraceConfig::new()
                .add_buffer(BufferConfig::ring(ring_kib))
                .add_data_source(DataSourceConfig::new("track_event").track_event(&events))
                .record_all();
            return Ok(config.incremental_state_clear_period(Duration::from_millis(
                START_ANEW_PERIOD_MS.into(),
            )));
        };
        if self.ring_kib.is_some() || self.events.is_some() {
            let reason = "stands beside at_most_kib or events: it says all that these say";
            return Err(FlightError::invalid("config", reason));
        }
        let asked = config.session_config().map_err(Error::from)?;
        for (index, buffer) in asked.buffers.iter().enumerate() {
            if buffer.fill_policy != FillPolicy::Ring {
                let reason = "is no ring: it would not take what is newest";
                return Err(FlightError::invalid(format!("buffers[{index}]"), reason));
            }
        }
        let refused = [
            (
                asked.triggers.is_some(),
                "trigger_config",
                "is not for recorders: use trigger",
            ),
            (
                asked.write_into_file || asked.output_path.is_some(),
                "write_into_file",
                "is not for recorders: use directory",
            ),
            (
                asked.compression != Compression::None,
                "compression",
                "is not for recorders: compress the files",
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

    /// The folder, by a path that does not depend on the current one.
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
