//! What the service keeps of one session.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::central_buffer::CentralBuffer;
use super::environment::{ClockReading, Environment};
use super::extension_descriptors::ExtensionDescriptors;
use super::instance::Instance;
use super::lifecycle_events::{Event, LifecycleEvents};
use super::pending_flush::{FlushCounts, PendingFlush};
use super::phase::{Phase, State};
use super::recording::Recording;
use super::trace_reader::TraceReader;
use super::trigger_history::ReceivedTrigger;
use tracezero_config::WriteFlushMode;
use tracezero_core::ids::{FlushId, SessionId};
use tracezero_core::small_map::SmallMap;

/// Whoever asked for a session, as the service calls it: from any thread, with nothing locked.
pub trait SessionOwner: Send + Sync {
    /// What is in the buffers is due in the file: call [`Service::write_into_file`] soon.
    ///
    /// [`Service::write_into_file`]: super::Service::write_into_file
    fn write_into_file(&self) {}

    /// The session has ended; nothing more comes into its buffers. `reason` says why if it was not
    /// asked to.
    fn disabled(&self, reason: Option<&str>) {
        let _ = reason;
    }

    /// Every data source has said that it records, or needs to say nothing.
    fn all_data_sources_started(&self) {}

    /// A data source began to record, or ended.
    fn data_source_changed(&self, producer_name: &str, data_source: &str, is_started: bool) {
        let _ = (producer_name, data_source, is_started);
    }

    /// A trigger asks for a snapshot of the session.
    fn clone_triggered(&self, trigger: &ReceivedTrigger) {
        let _ = trigger;
    }
}

/// Another session changed its state.
#[derive(Clone, Debug)]
pub(super) struct ConcurrentSessionEvent {
    pub(super) timestamp_ns: u64,
    pub(super) session: SessionId,
    pub(super) session_name: String,
    pub(super) state: State,
    pub(super) uid: u32,
    pub(super) data_source_count: u32,
}

/// All clocks at one moment.
#[derive(Clone, Debug)]
pub(super) struct ClockSnapshot {
    pub(super) timestamp_ns: u64,
    pub(super) clocks: Vec<ClockReading>,
}

/// Clock snapshots that wait to be read, besides the first.
const CLOCK_SNAPSHOTS_MAX: usize = 16;
/// Clocks are written down again when one of them has drifted so far from the trace clock.
const CLOCK_DRIFT_NS: u64 = 10_000_000;

/// The file that a session writes its trace into.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileOutput {
    /// There is none: the trace is read. A snapshot's file, which is written once, does not count.
    None,
    Open {
        /// Lets the next pass also write finished packets in chunks of writers.
        scrape_is_due: bool,
    },
    /// The file is complete.
    Closed,
}

/// The step before each write into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BeforeWriting {
    Nothing,
    /// Data sources flush.
    Flush,
    /// Packets that threads have finished in chunks that they still fill are copied: then a process
    /// that is killed loses no more than a period.
    Scrape,
}

/// Packets of the service that the next reading adds, besides those on events.
#[derive(Debug)]
pub(super) struct Due {
    /// The packets that a trace begins with.
    pub(super) preamble: bool,
    /// A mark that a stream can be picked up at.
    pub(super) sync_marker: bool,
    pub(super) stats: bool,
}

/// One session, under the service's lock.
pub(crate) struct TracingSession {
    /// User id of the owner.
    pub(super) uid: u32,
    pub(super) recording: Arc<Recording>,
    pub(super) owner: Arc<dyn SessionOwner>,
    pub(super) phase: Phase,
    /// Set when the process ends: the session ends with it.
    pub(super) ends_with_process: bool,
    pub(super) file: FileOutput,
    /// In the order of the configuration.
    pub(super) buffers: Vec<Arc<CentralBuffer>>,
    pub(super) instances: Vec<Instance>,
    /// What data sources, by name, are to do in place of what the configuration says.
    pub(super) changed_configs: SmallMap<String, Arc<[u8]>>,
    /// Instances that there ever were.
    pub(super) instances_ever: u64,
    pub(super) flushes: SmallMap<FlushId, PendingFlush>,
    pub(super) flush_counts: FlushCounts,
    pub(super) uuid: (i64, i64),
    /// Triggers that were not written into the trace yet, and whether there ever was any.
    pub(super) received_triggers: Vec<ReceivedTrigger>,
    pub(super) was_triggered: bool,
    pub(super) events: LifecycleEvents,
    pub(super) first_clock_snapshot: Option<ClockSnapshot>,
    pub(super) clock_snapshots: VecDeque<ClockSnapshot>,
    last_clock_snapshot: Option<ClockSnapshot>,
    pub(super) due: Due,
    /// Packets of writers that had been read when it was read last.
    pub(super) passed_packets: u64,
    /// Packets that were left out when it was read last.
    pub(super) invalid_packets: u64,
    /// What other sessions did, if the configuration asks for it.
    pub(super) concurrent_events: VecDeque<ConcurrentSessionEvent>,
    pub(super) extension_descriptors: ExtensionDescriptors,
    /// Locked while the trace is read. Never locked under the service's lock; the other way round
    /// is right.
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
            ends_with_process: false,
            file: FileOutput::None,
            buffers: reader.buffers().to_vec(),
            instances: Vec::new(),
            changed_configs: SmallMap::new(),
            instances_ever: 0,
            flushes: SmallMap::new(),
            flush_counts: FlushCounts::default(),
            uuid,
            received_triggers: Vec::new(),
            was_triggered: false,
            events: LifecycleEvents::default(),
            first_clock_snapshot: None,
            clock_snapshots: VecDeque::new(),
            last_clock_snapshot: None,
            due: Due {
                preamble: true,
                sync_marker: false,
                stats: false,
            },
            passed_packets: 0,
            invalid_packets: 0,
            concurrent_events: VecDeque::new(),
            extension_descriptors: ExtensionDescriptors::default(),
            reader: Arc::new(Mutex::new(reader)),
            recording,
        }
    }

    /// How long data sources have for an answer, if they are configured to have `configured_ms`.
    pub(super) fn answer_timeout_ms(&self, configured_ms: u32) -> u32 {
        /// A process waits two seconds for its files: a flush and a stop leave time to write.
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

    /// Whether it records, or is about to.
    pub(super) fn is_live(&self) -> bool {
        !matches!(self.state(), State::Disabled | State::ClonedReadOnly)
    }

    /// Whether a user may see it, and take snapshots of it.
    pub(super) fn is_visible_to(&self, uid: u32) -> bool {
        uid == 0 || uid == self.uid
    }

    /// Notes something that happens to this session, for the trace.
    pub(super) fn note_event(&mut self, environment: &dyn Environment, event: Event) {
        if event.comes_with_clocks() {
            self.snapshot_clocks(environment);
        }
        self.events.note(environment.now_ns(), event);
    }

    /// Reads all clocks; keeps the readings for the trace if they tell anything new.
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
        self.last_clock_snapshot = Some(snapshot);
    }

    /// What is read next is to be a trace by itself, with what the service says in each.
    pub(super) fn begin_trace_anew(&mut self) {
        if self.first_clock_snapshot.is_none() {
            self.first_clock_snapshot
                .clone_from(&self.last_clock_snapshot);
            self.clock_snapshots.clear();
        }
        self.due.preamble = true;
        self.due.stats = true;
        self.extension_descriptors = self.extension_descriptors.unwritten();
    }

    /// What a snapshot of `source` has in common with it.
    pub(super) fn copy_history(&mut self, source: &Self) {
        self.events = source.events.clone();
        self.first_clock_snapshot = source.last_clock_snapshot.clone();
        self.flush_counts = source.flush_counts;
        self.invalid_packets = source.invalid_packets;
        self.instances_ever = source.instances_ever;
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

    /// How often data sources flush by themselves, if they do.
    pub(super) fn flush_period_ms(&self) -> Option<u32> {
        match (&self.file, self.before_writing()) {
            (FileOutput::None, _) | (_, BeforeWriting::Nothing) => {
                Some(self.recording.config.flush_period_ms).filter(|&period_ms| period_ms > 0)
            }
            (_, BeforeWriting::Scrape) => Some(WRITE_PERIOD_LONG_MS),
            (_, BeforeWriting::Flush) => None,
        }
    }

    /// Whether reading gives nothing because a trigger has not come.
    pub(super) fn waits_for_trigger(&self) -> bool {
        self.recording.trigger_mode().is_some() && !self.was_triggered
    }
}

/// A file that is written less often than this has its data sources flush before each time; one
/// that is written more often has them flush so often by themselves.
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
