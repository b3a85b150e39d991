//! A configuration as the service uses it: defaults are filled in.

use std::time::Duration;

use tracezero_core::coordination::{BufferExhaustedPolicy, MemorySizes};
use tracezero_core::protos;

use crate::choices::{
    Compression, FillPolicy, LockdownMode, PrimaryTraceClock, TriggerMode, WriteFlushMode,
};

/// The configuration of a session, with defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionConfig {
    /// The trace buffers, which keep packets until they are read.
    pub buffers: Vec<Buffer>,
    /// The data sources to record.
    pub data_sources: Vec<DataSource>,
    /// True if data sources that are not listed are recorded, too, into buffer 0.
    pub records_all: bool,
    /// The packets that the service itself writes into the trace.
    pub builtin_data_sources: BuiltinDataSources,
    /// Sizes of shared memories: at most one entry for each producer name, and one without a name.
    pub shared_memory: Vec<SharedMemory>,
    /// True if another program made the configuration. Sizes in `shared_memory` that are not
    /// allowed are then no error: whoever makes a memory corrects its sizes.
    pub is_foreign: bool,
    /// The time between two requests to clear the incremental state; 0 for no requests.
    pub incremental_state_clear_period_ms: u32,
    /// The longest time that a trace writer waits for a file that lags behind, unless its data
    /// source has a `stall_limit`.
    pub wait_limit: Duration,

    /// True if the session does not start by itself, but waits for a call.
    pub deferred_start: bool,
    /// The time after which the session ends; 0 if only a caller ends it.
    pub duration_ms: u32,
    /// True if data sources count the time in which the machine is suspended toward the session's
    /// duration. The service itself always counts it.
    pub prefer_suspend_clock_for_duration: bool,
    /// The longest time that data sources have to stop.
    pub data_source_stop_timeout_ms: u32,
    /// The triggers that start, end or clone the session.
    pub triggers: Option<Triggers>,
    /// True if the session must stay within Perfetto's limits for users' devices.
    pub enable_extra_guardrails: bool,
    /// A larger limit for the total size of the buffers, in KiB; 0 for the default limit.
    pub guardrail_max_tracing_buffer_size_kb: u32,
    /// The producers that the service accepts from now on.
    pub lockdown_mode: LockdownMode,
    /// A name that no other session may have at the same time.
    pub unique_session_name: Option<String>,
    /// Limits on the number of sessions that run at the same time.
    pub session_semaphores: Vec<SemaphoreLimit>,
    /// The priority of an exclusive session; 0 if the session is not exclusive.
    pub exclusive_prio: u32,

    /// True if the trace is streamed into a file.
    pub write_into_file: bool,
    /// The path of the file, if the service should open it.
    pub output_path: Option<String>,
    /// The time between two writes into the file.
    pub file_write_period_ms: u32,
    /// The size at which the file ends; 0 for no limit.
    pub max_file_size_bytes: u64,
    /// The time between two flushes; 0 for no periodic flush.
    pub flush_period_ms: u32,
    /// The longest time that data sources have to flush, unless the request for a flush has a
    /// limit.
    pub flush_timeout_ms: u32,
    /// The writes into the file before which the service flushes the data sources.
    pub write_flush_mode: WriteFlushMode,
    /// True if each write into the file is synced to disk before the next one.
    pub fflush_post_write: bool,
    /// The compression of packets.
    pub compression: Compression,
    /// The most and least significant half of the trace's UUID. If both are 0, the service chooses
    /// a random UUID.
    pub trace_uuid: (i64, i64),
    /// Keys with values that describe the configuration. The trace contains them as part of its
    /// configuration packet.
    pub trace_attributes: Vec<protos::owned::trace_attributes::Attribute>,
    /// The score of the trace for Android's bug reports. The service only writes it into the trace.
    pub bugreport_score: i32,
    /// The file name of the trace in a bug report. The service only writes it into the trace.
    pub bugreport_filename: Option<String>,
}

/// The configuration of a trace buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The size in KiB. Only the part of the buffer that was ever filled takes memory.
    pub size_kb: u32,
    /// The size in KiB to which a ring buffer may grow while it is streamed into a file; `None` for
    /// a fixed size.
    pub limit_kb: Option<u32>,
    /// The packets that the buffer loses when it is full.
    pub fill_policy: FillPolicy,
    /// The name by which data sources can choose the buffer.
    pub name: Option<String>,
    /// True if a clone of the session takes the content of the buffer away, instead of copying it.
    pub transfer_on_clone: bool,
    /// True if the buffer is cleared before a clone's flush, so that the clone has only the flushed
    /// packets.
    pub clear_before_clone: bool,
}

/// The configuration of a data source to record.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSource {
    /// The name of the data source. The tracing macros write to `track_event`.
    pub name: String,
    /// False if the configuration names machines, but not this one. The data source is then recorded
    /// nowhere, because a service knows of no other machines.
    pub is_for_this_machine: bool,
    /// The index of the target buffer.
    pub target_index: Option<usize>,
    /// The name of the target buffer.
    pub target_name: Option<String>,
    /// The behaviour of trace writers that find no room. `None` means that they wait if the buffer
    /// is streamed into a file, and otherwise drop packets.
    pub exhausted_policy: Option<BufferExhaustedPolicy>,
    /// The longest time that trace writers wait for room.
    pub stall_limit: Option<Duration>,
    /// The maximum size in KiB of the state that a ring keeps of overwritten packets, if the data
    /// source has a program for it. `None` means that nothing is kept of them.
    pub state_max_kib: Option<u32>,
    /// The names of the producers to record. If `producer_name_regex_filter` is empty, too, all
    /// producers are recorded.
    pub producer_name_filter: Vec<String>,
    /// Regular expressions that must match the whole name of a producer.
    pub producer_name_regex_filter: Vec<String>,
    /// The fields that the data source itself decodes, with numbers from 100 on. Other fields are
    /// not set.
    pub source_specific: protos::owned::DataSourceConfig,
}

/// The packets that the service itself writes into the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltinDataSources {
    /// True if the service writes no clock snapshots. Readers then cannot convert timestamps
    /// between clocks.
    pub disable_clock_snapshotting: bool,
    /// True if the service writes no packet with the configuration.
    pub disable_trace_config: bool,
    /// True if the service writes no packet that describes the system.
    pub disable_system_info: bool,
    /// True if the service writes no packet with attributes of the machine and the process. A
    /// configuration that wants no description of the system wants no attributes either.
    pub disable_trace_attributes: bool,
    /// True if the service writes no events about the session, such as its start.
    pub disable_service_events: bool,
    /// True if the statistics contain no histograms of chunk sizes.
    pub disable_chunk_usage_histograms: bool,
    /// True if the service writes no packets with the schemas of data sources.
    pub disable_extension_descriptors: bool,
    /// True if the service writes an event when another session starts or ends while this session
    /// exists.
    pub enable_concurrent_session_events: bool,
    /// The clock that readers show timestamps in; `None` for `CLOCK_BOOTTIME`.
    pub primary_trace_clock: Option<PrimaryTraceClock>,
    /// The time between two snapshots of the clocks.
    pub snapshot_interval_ms: u32,
}

/// The sizes of the memory that a producer's trace writers share with the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedMemory {
    /// The name of the producer; `None` for this process.
    pub producer_name: Option<String>,
    /// The size of the memory; 0 for the default.
    pub size_kb: u32,
    /// The size of the memory's pages; 0 for the default.
    pub page_size_kb: u32,
}

impl SharedMemory {
    /// Returns the sizes in bytes.
    #[must_use]
    pub fn sizes(&self) -> MemorySizes {
        MemorySizes {
            size_bytes: u64::from(self.size_kb) * 1024,
            page_size_bytes: u64::from(self.page_size_kb) * 1024,
        }
    }
}

/// A limit on the number of sessions that run at the same time with a semaphore of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SemaphoreLimit {
    /// The name of the semaphore.
    pub name: String,
    /// The largest number of other sessions with this semaphore that may run when this session
    /// starts.
    pub max_other_session_count: u64,
}

/// The triggers of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Triggers {
    /// The effect of the triggers in a service that cannot clone sessions.
    pub mode: TriggerMode,
    /// The triggers, with their names and limits.
    pub triggers: Vec<Trigger>,
    /// The time after which the session ends if there was no trigger.
    pub trigger_timeout_ms: u32,
    /// True if a service that can clone uses [`TriggerMode::CloneSnapshot`] instead of
    /// [`TriggerMode::Stop`].
    pub use_clone_snapshot_if_available: bool,
}

impl Triggers {
    /// Returns the effect of the triggers in this service, which can clone sessions.
    #[must_use]
    pub const fn effective_mode(&self) -> TriggerMode {
        match self.mode {
            TriggerMode::Stop if self.use_clone_snapshot_if_available => TriggerMode::CloneSnapshot,
            mode => mode,
        }
    }
}

/// A trigger. Producers activate it by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// The name. No other trigger of the configuration has it.
    pub name: String,
    /// A regular expression for the names of producers that can activate the trigger; empty for all
    /// producers.
    pub producer_name_regex: String,
    /// The time from the trigger to the end of the session, or to the clone.
    pub stop_delay_ms: u32,
    /// The maximum number of times that the trigger takes effect within 24 hours; 0 for no limit.
    pub max_per_24_h: u32,
    /// The probability, from 0 to 1, that the trigger is ignored.
    pub skip_probability: f64,
}
