//! The state of one session.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::central_buffer::CentralBuffer;
use super::environment::{ClockReading, Environment};
use super::extension_descriptors::ExtensionDescriptors;
use super::instance::{Instance, Registration};
use super::lifecycle_events::{Event, LifecycleEvents};
use super::pending_flush::{FlushCounts, PendingFlush};
use super::phase::{Phase, State};
use super::recording::Recording;
use super::trace_reader::TraceReader;
use super::trigger_history::ReceivedTrigger;
use tracezero_config::WriteFlushMode;
use tracezero_core::clock;
use tracezero_core::crash_files::SessionFolder;
use tracezero_core::ids::{FlushId, SessionId};
use tracezero_core::small_map::SmallMap;

/// The owner of a session, which the service calls. Calls come from any thread, and the service
/// holds no lock during them.
pub trait SessionOwner: Send + Sync {
    /// Asks the owner to call [`Service::write_into_file`] soon, because the buffers are to be
    /// written into the file.
    ///
    /// [`Service::write_into_file`]: super::Service::write_into_file
    fn write_into_file(&self) {}

    /// Tells that the session has ended and its buffers get no more packets. `reason` is given if
    /// the session was not asked to end.
    fn disabled(&self, reason: Option<&str>) {
        let _ = reason;
    }

    /// Tells that every data source has started. Data sources that do not report their start count
    /// as started.
    fn all_data_sources_started(&self) {}

    /// Tells that a data source has started or stopped.
    fn data_source_changed(&self, producer_name: &str, data_source: &str, is_started: bool) {
        let _ = (producer_name, data_source, is_started);
    }

    /// Asks the owner to clone the session, because a trigger was hit.
    fn clone_triggered(&self, trigger: &ReceivedTrigger) {
        let _ = trigger;
    }
}

/// An event: another session changed its state.
#[derive(Clone, Debug)]
pub(super) struct ConcurrentSessionEvent {
    pub(super) timestamp_ns: u64,
    pub(super) session: SessionId,
    pub(super) session_name: String,
    pub(super) state: State,
    pub(super) uid: u32,
    pub(super) data_source_count: u32,
}

/// A reading of all clocks at one moment.
#[derive(Clone, Debug)]
pub(super) struct ClockSnapshot {
    pub(super) timestamp_ns: u64,
    pub(super) clocks: Vec<ClockReading>,
}

/// The maximum number of clock snapshots that wait to be read, besides the first.
const CLOCK_SNAPSHOTS_MAX: usize = 16;
/// The drift of a clock from the trace clock after which a new clock snapshot is kept.
const CLOCK_DRIFT_NS: u64 = 10_000_000;

/// The file that a session writes its trace into.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileOutput {
    /// The session has no file, so its trace is read. A clone's file does not count, because it is
    /// written only once.
    None,
    Open {
        /// True if the next pass scrapes first.
        scrape_is_due: bool,
    },
    /// The file is closed.
    Closed,
}

/// The step before each write into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BeforeWriting {
    Nothing,
    /// Data sources flush.
    Flush,
    /// The service scrapes: it copies finished packets out of chunks that threads still fill. So a
    /// process that is killed loses at most the packets of one period.
    Scrape,
}

/// The packets of the service that the next read adds, besides those for events.
#[derive(Debug)]
pub(super) struct DuePackets {
    /// The packets that a trace begins with.
    pub(super) preamble: bool,
    /// A sync marker, at which readers can enter a stream.
    pub(super) sync_marker: bool,
    pub(super) stats: bool,
}

/// One session. It is accessed under the service's lock.
pub(crate) struct TracingSession {
    /// The user that the owner belongs to.
    pub(super) uid: u32,
    pub(super) recording: Arc<Recording>,
    pub(super) owner: Arc<dyn SessionOwner>,
    pub(super) phase: Phase,
    /// When the session started, on the trace clock.
    pub(super) started_ns: Option<u64>,
    /// True if the session ends because the process ends.
    pub(super) ends_with_process: bool,
    pub(super) file: FileOutput,
    /// The buffers in the order of the configuration.
    pub(super) buffers: Vec<Arc<CentralBuffer>>,
    /// The instances in the order of their ids.
    pub(super) instances: Vec<Instance>,
    /// The registered data source and the entry of each instance.
    pub(super) set_up: HashSet<(Registration, usize)>,
    /// Configurations that were changed later, by the name of the data source. They replace the
    /// configurations of these data sources in the session's configuration.
    pub(super) changed_configs: SmallMap<String, Arc<[u8]>>,
    /// The number of instances that the session ever had.
    pub(super) instances_ever: u64,
    /// The number of instances that were not set up because a limit was reached.
    pub(super) instances_refused: u64,
    pub(super) flushes: SmallMap<FlushId, PendingFlush>,
    pub(super) flush_counts: FlushCounts,
    pub(super) uuid: (i64, i64),
    /// The encoded attributes of the trace, as they were when the session was created; empty if the trace
    /// has none.
    pub(super) trace_attributes: Arc<[u8]>,
    /// Triggers that are not in the trace yet. `was_triggered` tells whether there ever was one.
    pub(super) received_triggers: Vec<ReceivedTrigger>,
    /// The number of triggers whose delay is not over, after which the owner is asked for a clone.
    pub(super) clones_due: usize,
    pub(super) was_triggered: bool,
    pub(super) events: LifecycleEvents,
    pub(super) first_clock_snapshot: Option<ClockSnapshot>,
    pub(super) clock_snapshots: VecDeque<ClockSnapshot>,
    last_clock_snapshot: Option<ClockSnapshot>,
    pub(super) due: DuePackets,
    /// The number of packets of writers that were read by the end of the last read.
    pub(super) passed_packets: u64,
    /// The number of packets that were left out by the end of the last read.
    pub(super) invalid_packets: u64,
    /// State changes of other sessions, if the configuration asks for them.
    pub(super) concurrent_events: VecDeque<ConcurrentSessionEvent>,
    pub(super) extension_descriptors: ExtensionDescriptors,
    /// The folder for crash files, if the session has them.
    pub(super) crash_files: Option<Arc<SessionFolder>>,
    /// The reader, which is locked while the trace is read. Lock it before the service's lock,
    /// never while holding the service's lock.
    pub(super) reader: Arc<Mutex<TraceReader>>,
}

impl TracingSession {
    pub(super) fn new(
        uid: u32,
        recording: Arc<Recording>,
        owner: Arc<dyn SessionOwner>,
        uuid: (i64, i64),
        reader: TraceReader,
    ) -> Self {
        Self {
            uid,
            owner,
            phase: Phase::Configured,
            started_ns: None,
            ends_with_process: false,
            file: FileOutput::None,
            buffers: reader.buffers().to_vec(),
            instances: Vec::new(),
            set_up: HashSet::new(),
            changed_configs: SmallMap::new(),
            instances_ever: 0,
            instances_refused: 0,
            flushes: SmallMap::new(),
            flush_counts: FlushCounts::default(),
            uuid,
            trace_attributes: Arc::default(),
            received_triggers: Vec::new(),
            clones_due: 0,
            was_triggered: false,
            events: LifecycleEvents::default(),
            first_clock_snapshot: None,
            clock_snapshots: VecDeque::new(),
            last_clock_snapshot: None,
            due: DuePackets {
                preamble: true,
                sync_marker: false,
                stats: false,
            },
            passed_packets: 0,
            invalid_packets: 0,
            concurrent_events: VecDeque::new(),
            extension_descriptors: ExtensionDescriptors::default(),
            crash_files: None,
            reader: Arc::new(Mutex::new(reader)),
            recording,
        }
    }

    /// Returns how long to wait for an answer of data sources. `configured_ms` is the configured
    /// time.
    pub(super) fn answer_timeout_ms(&self, configured_ms: u32) -> u32 {
        /// A process that ends waits two seconds for its trace files. If a flush and a stop take
        /// this time each, enough time is left to write the files.
        const LAST_TIMEOUT_MS: u32 = 600;
        if self.ends_with_process {
            configured_ms.min(LAST_TIMEOUT_MS)
        } else {
            configured_ms
        }
    }

    pub(super) fn state(&self) -> State {
        self.phase.state()
    }

    pub(super) fn is_started(&self) -> bool {
        self.state() == State::Started
    }

    pub(super) fn is_snapshot(&self) -> bool {
        self.state() == State::ClonedReadOnly
    }

    /// Returns true if the session has not ended and is not a clone.
    pub(super) fn is_live(&self) -> bool {
        !matches!(self.state(), State::Disabled | State::ClonedReadOnly)
    }

    /// Returns true if a user may see and clone the session.
    pub(super) fn is_visible_to(&self, uid: u32) -> bool {
        uid == 0 || uid == self.uid
    }

    /// Notes an event in the life of this session, for the trace.
    pub(super) fn note_event(&mut self, environment: &dyn Environment, event: Event) {
        if event.comes_with_clocks() {
            self.snapshot_clocks(environment);
        }
        self.events.note(environment.now_ns(), event);
    }

    /// Reads all clocks. Keeps the readings for the trace if a clock has drifted.
    pub(super) fn snapshot_clocks(&mut self, environment: &dyn Environment) {
        if self
            .recording
            .config
            .builtin_data_sources
            .disable_clock_snapshotting
        {
            return;
        }
        let snapshot = ClockSnapshot {
            timestamp_ns: environment.now_ns(),
            clocks: environment.clocks(),
        };
        match &self.last_clock_snapshot {
            None => self.first_clock_snapshot = Some(snapshot.clone()),
            Some(last) if snapshot.has_drifted_from(last) => {
                if self.clock_snapshots.len() == CLOCK_SNAPSHOTS_MAX {
                    self.clock_snapshots.pop_front();
                }
                self.clock_snapshots.push_back(snapshot.clone());
            }
            Some(_) => return,
        }
        self.append_to_preamble(environment, |packets| {
            packets.clock_snapshot(&snapshot, self.primary_clock());
        });
        self.last_clock_snapshot = Some(snapshot);
    }

    /// Makes the next read a complete trace of its own, with all packets that the service writes
    /// once per trace.
    pub(super) fn begin_trace_anew(&mut self, environment: &dyn Environment) {
        // All traces of a session share the lower half of the UUID, as its clones do: it tells the recording.
        self.uuid.0 = environment.random_uuid().0;
        if self.first_clock_snapshot.is_none() {
            self.first_clock_snapshot
                .clone_from(&self.last_clock_snapshot);
            self.clock_snapshots.clear();
        }
        self.due.preamble = true;
        self.due.stats = true;
        self.extension_descriptors = self.extension_descriptors.unwritten();
    }

    /// Makes the next pass over the buffers scrape first.
    pub(super) fn scrape_before_next_write(&mut self) {
        if let FileOutput::Open { scrape_is_due } = &mut self.file {
            *scrape_is_due = true;
        }
    }

    /// Reads all clocks for a trace that begins now.
    pub(super) fn renew_clock_snapshot(&mut self, environment: &dyn Environment) {
        self.first_clock_snapshot = None;
        self.last_clock_snapshot = None;
        self.clock_snapshots.clear();
        self.snapshot_clocks(environment);
    }

    /// Copies the state that a clone takes over from `source`.
    pub(super) fn copy_history(&mut self, source: &Self) {
        self.events = source.events.clone();
        self.first_clock_snapshot = source.last_clock_snapshot.clone();
        self.flush_counts = source.flush_counts;
        self.invalid_packets = source.invalid_packets;
        self.instances_ever = source.instances_ever;
        self.instances_refused = source.instances_refused;
        self.concurrent_events = source.concurrent_events.clone();
        self.extension_descriptors = source.extension_descriptors.unwritten();
    }

    /// Returns the step before each write into the file.
    pub(super) fn before_writing(&self) -> BeforeWriting {
        let config = &self.recording.config;
        let is_often = config.file_write_period_ms <= WRITE_PERIOD_LONG_MS;
        match config.write_flush_mode {
            WriteFlushMode::Auto if is_often => BeforeWriting::Scrape,
            WriteFlushMode::Auto | WriteFlushMode::Enabled => BeforeWriting::Flush,
            WriteFlushMode::Disabled => BeforeWriting::Nothing,
        }
    }

    /// Returns the period in milliseconds in which data sources flush, besides flushes before
    /// writing; `None` if they do not.
    pub(super) fn flush_period_ms(&self) -> Option<u32> {
        match (&self.file, self.before_writing()) {
            (FileOutput::None, _) | (_, BeforeWriting::Nothing) => {
                Some(self.recording.config.flush_period_ms).filter(|&period_ms| period_ms > 0)
            }
            (_, BeforeWriting::Scrape) => Some(WRITE_PERIOD_LONG_MS),
            (_, BeforeWriting::Flush) => None,
        }
    }

    /// Returns the id of the clock that the trace's timestamps refer to by default.
    pub(super) fn primary_clock(&self) -> u32 {
        let builtin = &self.recording.config.builtin_data_sources;
        builtin
            .primary_trace_clock
            .map_or(clock::BUILTIN_CLOCK_BOOTTIME, |clock| clock as u32)
    }

    /// Returns true if the session cannot be read because no trigger was hit yet.
    pub(super) fn waits_for_trigger(&self) -> bool {
        self.recording.trigger_mode().is_some() && !self.was_triggered
    }
}

/// The longest write period that counts as short. If a file is written at longer periods, data
/// sources flush before each write. If it is written at shorter periods, data sources flush only
/// once in this time.
const WRITE_PERIOD_LONG_MS: u32 = 5000;

impl ClockSnapshot {
    fn has_drifted_from(&self, last: &Self) -> bool {
        let offset = |snapshot: &Self, index: usize| {
            let (id, ns) = snapshot.clocks[index];
            let trace_clock_ns = snapshot.clocks[0].1;
            (id, ns.wrapping_sub(trace_clock_ns) as i64)
        };
        (0..self.clocks.len().min(last.clocks.len()))
            .any(|index| offset(self, index).1.abs_diff(offset(last, index).1) >= CLOCK_DRIFT_NS)
    }
}
