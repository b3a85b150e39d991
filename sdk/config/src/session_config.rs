//! A configuration as a service understands it: every field has a value.

use std::time::Duration;

use tracezero_core::coordination::BufferExhaustedPolicy;
use tracezero_core::protos;

use crate::choices::{
    Compression, FillPolicy, LockdownMode, PrimaryTraceClock, TriggerMode, WriteFlushMode,
};

/// A session, as a service carries it out.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionConfig {
    /// Where packets are kept until they are read.
    pub buffers: Vec<Buffer>,
    /// Data sources to record.
    pub data_sources: Vec<DataSource>,
    /// Records data sources that are not listed, too, into buffer 0.
    pub records_all: bool,
    /// Packets of the service itself.
    pub builtin_data_sources: BuiltinDataSources,
    /// At most one entry for each producer, and one without a name.
    pub shared_memory: Vec<SharedMemory>,
    /// 0: the incremental state is never cleared.
    pub incremental_state_clear_period_ms: u32,
    /// The longest wait of writers for a file that lags behind, unless their data source says.
    pub wait_limit: Duration,

    /// The session waits for its start.
    pub deferred_start: bool,
    /// 0: until it is ended.
    pub duration_ms: u32,
    /// The duration counts time that the machine is suspended.
    pub prefer_suspend_clock_for_duration: bool,
    /// The longest time for data sources to stop.
    pub data_source_stop_timeout_ms: u32,
    /// Events that start, end or clone the session.
    pub triggers: Option<Triggers>,
    /// The limits of sessions on machines of users hold.
    pub enable_extra_guardrails: bool,
    /// 0: no override.
    pub guardrail_max_tracing_buffer_size_kb: u32,
    /// The producers that the service accepts from now on.
    pub lockdown_mode: LockdownMode,
    /// A name that no other session has meanwhile.
    pub unique_session_name: Option<String>,
    /// Limits on sessions that run at once.
    pub session_semaphores: Vec<SemaphoreLimit>,
    /// 0: the session shares the service with others.
    pub exclusive_prio: u32,

    /// The trace is streamed into a file.
    pub write_into_file: bool,
    /// The file, if the service opens it.
    pub output_path: Option<String>,
    /// The time between two writes into the file.
    pub file_write_period_ms: u32,
    /// 0: no limit.
    pub max_file_size_bytes: u64,
    /// 0: no periodic flush.
    pub flush_period_ms: u32,
    /// The longest time for data sources to flush, unless a flush says.
    pub flush_timeout_ms: u32,
    /// The writes into the file before which data sources flush.
    pub write_flush_mode: WriteFlushMode,
    /// Each write into the file reaches the disk before the next.
    pub fflush_post_write: bool,
    /// The compression of packets.
    pub compression: Compression,
    /// Most and least significant half; both 0: random.
    pub trace_uuid: (i64, i64),
    /// Keys with values, which the message carries into the trace: they tell configurations apart.
    pub trace_attributes: Vec<protos::owned::trace_attributes::Attribute>,
    /// For Android's bug reports, as the name below; both are carried likewise.
    pub bugreport_score: i32,
    /// The file name in a bug report.
    pub bugreport_filename: Option<String>,
}

/// One central buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Its size; memory is used only as far as the buffer ever fills.
    pub size_kb: u32,
    /// The size to which a ring grows that is streamed into a file; `None` for one of fixed size.
    pub limit_kb: Option<u32>,
    /// The packets that it loses when it is full.
    pub fill_policy: FillPolicy,
    /// The name that data sources can target.
    pub name: Option<String>,
    /// A clone of the session takes the content, in place of a copy.
    pub transfer_on_clone: bool,
    /// A clone of the session holds only what its flush brings.
    pub clear_before_clone: bool,
}

/// One data source to record.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSource {
    /// Its name; `track_event` is what the macros write.
    pub name: String,
    /// The buffer that takes what it writes, by index.
    pub target_index: Option<usize>,
    /// The same by name.
    pub target_name: Option<String>,
    /// `None`: writers wait if the buffer is streamed into a file, and drop if it is not.
    pub exhausted_policy: Option<BufferExhaustedPolicy>,
    /// The longest wait of its writers.
    pub stall_limit: Option<Duration>,
    /// Producers by name. With `producer_name_regex_filter` also empty: all of them.
    pub producer_name_filter: Vec<String>,
    /// Producers by an expression that their whole name matches.
    pub producer_name_regex_filter: Vec<String>,
    /// Fields from number 100 on, for the data source to decode. The others are not set.
    pub source_specific: protos::owned::DataSourceConfig,
}

/// Packets of the service itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltinDataSources {
    /// No snapshots of the clocks: timestamps of other clocks cannot be converted.
    pub disable_clock_snapshotting: bool,
    /// The trace does not carry the configuration.
    pub disable_trace_config: bool,
    /// No description of the system.
    pub disable_system_info: bool,
    /// No events of the session's life.
    pub disable_service_events: bool,
    /// No histograms of chunk sizes in the statistics.
    pub disable_chunk_usage_histograms: bool,
    /// No schemas of data sources.
    pub disable_extension_descriptors: bool,
    /// Events for starts and ends of other sessions meanwhile.
    pub enable_concurrent_session_events: bool,
    /// `None`: the clock of the trace, which is the one since boot.
    pub primary_trace_clock: Option<PrimaryTraceClock>,
    /// Milliseconds between two looks at the clocks.
    pub snapshot_interval_ms: u32,
}

/// Sizes of the memory between the writers of a producer and the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedMemory {
    /// `None`: this process.
    pub producer_name: Option<String>,
    /// 0: the default.
    pub size_kb: u32,
    /// 0: the default.
    pub page_size_kb: u32,
}

/// A limit on how many sessions run at once that name the same semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SemaphoreLimit {
    /// Name of the semaphore.
    pub name: String,
    /// Sessions beside this one.
    pub max_other_session_count: u64,
}

/// The triggers of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Triggers {
    /// Their effect, where the service cannot clone.
    pub mode: TriggerMode,
    /// Names and limits.
    pub triggers: Vec<Trigger>,
    /// The time after which the session ends without a trigger.
    pub trigger_timeout_ms: u32,
    /// Turns [`TriggerMode::Stop`] into [`TriggerMode::CloneSnapshot`].
    pub use_clone_snapshot_if_available: bool,
}

impl Triggers {
    /// Returns their effect: this service can clone.
    #[must_use]
    pub const fn effective_mode(&self) -> TriggerMode {
        match self.mode {
            TriggerMode::Stop if self.use_clone_snapshot_if_available => TriggerMode::CloneSnapshot,
            mode => mode,
        }
    }
}

/// One trigger: producers activate it by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// Its name; unique in the configuration.
    pub name: String,
    /// Empty: any producer can activate it.
    pub producer_name_regex: String,
    /// Time from the trigger to the end of the session, or to its clone.
    pub stop_delay_ms: u32,
    /// 0: no limit.
    pub max_per_24_h: u32,
    /// 0 to 1.
    pub skip_probability: f64,
}
