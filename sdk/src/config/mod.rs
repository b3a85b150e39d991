//! What a session records, when it starts and ends, and what becomes of the trace.
//!
//! A configuration is built in Rust, decoded from protobuf, or read from a text. It means what the
//! `TraceConfig` of the tracing service means that this crate is compatible with. The rules for
//! target buffers differ in one point: index 0 given together with a name is checked like any other
//! index. To carry a configuration out is the session's business.
//!
//! A configuration is taken at its word. A field that is unknown or not supported is refused by its name;
//! Perfetto's own service ignores it, and does something else than was asked for. A 32-bit value that does
//! not fit is refused as well, and so are triggers without a mode and an `output_path` without
//! `write_into_file`. `TraceConfig::decode` lists the exceptions.

mod buffers; // where packets are kept
mod builtin; // packets of the service itself
mod check; // limits and contradictions
mod data_sources; // what is recorded
mod decode; // configurations that arrive as protobuf
mod error; // what is wrong with a configuration
mod life_cycle; // when a session starts and ends, and beside whom it runs
mod output; // how the trace is flushed, written and described
mod place; // where something is in a configuration
mod resolve; // buffers and targets: names to indices
mod shared_memory; // the memory of each producer
#[cfg(feature = "text-config")]
mod text; // configurations that people write
mod triggers; // events that start, end or clone a session
mod track_event; // which track events to record
mod write; // the configuration as the trace carries it

use std::time::Duration;

pub use buffers::{BufferConfig, FillPolicy};
pub use builtin::{BuiltinDataSources, PrimaryTraceClock};
pub use data_sources::DataSourceConfig;
pub use error::ConfigError;
pub use life_cycle::{LockdownMode, SessionSemaphore};
pub use output::{Compression, TraceAttributeValue, WriteFlushMode};
pub use track_event::TrackEventConfig;
pub use triggers::{Trigger, TriggerConfig, TriggerMode};

pub use tracezero_core::coordination::BufferExhaustedPolicy;

use output::TraceAttribute;
use shared_memory::SharedMemoryConfig;

/// Size of the buffer of [`TraceConfig::default`], in KiB.
const DEFAULT_BUFFER_SIZE_KB: u32 = 32 * 1024;
/// Limit to which that buffer grows, in KiB, while its session streams into a file that lags behind.
const DEFAULT_BUFFER_LIMIT_KB: u32 = 256 * 1024;
/// How long a writer waits for a file that lags behind, unless the configuration says.
const DEFAULT_WAIT_LIMIT: Duration = Duration::from_secs(10);

/// What a session records, and how.
///
/// ```
/// use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
///
/// let config = TraceConfig::new()
///     .buffer(BufferConfig::ring(16 * 1024).named("events"))
///     .buffer(BufferConfig::discard(1024).named("start-up"))
///     .data_source(DataSourceConfig::new("track_event").target_name("events"))
///     .data_source(DataSourceConfig::new("com.example.boot").target_name("start-up"));
/// assert!(config.check().is_ok());
///
/// let config = config.data_source(DataSourceConfig::new("com.example.gpu").target_index(2));
/// assert_eq!(
///     config.check().unwrap_err().to_string(),
///     "data_sources[2] (com.example.gpu) targets buffers[2], but the number of buffers is 2"
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TraceConfig {
    pub(crate) buffers: Vec<BufferConfig>,
    pub(crate) data_sources: Vec<DataSourceConfig>,
    /// Every data source that is not listed goes to buffer 0.
    pub(crate) records_all: bool,
    pub(crate) builtin_data_sources: BuiltinDataSources,
    /// At most one entry for each producer, and one without a name.
    pub(crate) shared_memory: Vec<SharedMemoryConfig>,
    /// 0: the incremental state is never cleared.
    pub(crate) incremental_state_clear_period_ms: u32,
    /// How long writers wait that are to wait, unless their data source says.
    pub(crate) wait_limit: Duration,

    /// The session waits for its start.
    pub(crate) deferred_start: bool,
    /// 0: until it is ended.
    pub(crate) duration_ms: u32,
    pub(crate) prefer_suspend_clock_for_duration: bool,
    /// 0: [`TraceConfig::effective_data_source_stop_timeout_ms`] says how long.
    pub(crate) data_source_stop_timeout_ms: u32,
    pub(crate) trigger_config: Option<TriggerConfig>,
    pub(crate) enable_extra_guardrails: bool,
    /// 0: no override.
    pub(crate) guardrail_max_tracing_buffer_size_kb: u32,
    pub(crate) lockdown_mode: LockdownMode,
    pub(crate) unique_session_name: Option<String>,
    pub(crate) session_semaphores: Vec<SessionSemaphore>,
    pub(crate) exclusive_prio: u32,

    pub(crate) write_into_file: bool,
    pub(crate) output_path: Option<String>,
    /// 0: [`TraceConfig::effective_file_write_period_ms`] says how long.
    pub(crate) file_write_period_ms: u32,
    /// 0: no limit.
    pub(crate) max_file_size_bytes: u64,
    /// 0: no periodic flush.
    pub(crate) flush_period_ms: u32,
    /// 0: [`TraceConfig::effective_flush_timeout_ms`] says how long.
    pub(crate) flush_timeout_ms: u32,
    pub(crate) write_flush_mode: WriteFlushMode,
    /// Each write into the file reaches the disk before the next.
    pub(crate) fflush_post_write: bool,
    pub(crate) compression: Compression,
    /// Most and least significant half; both 0: random.
    pub(crate) trace_uuid: (i64, i64),
    pub(crate) trace_attributes: Vec<TraceAttribute>,
    pub(crate) bugreport_score: i32,
    pub(crate) bugreport_filename: Option<String>,
}

impl Default for TraceConfig {
    /// One ring for every data source of the process: of 32 MiB in memory; streamed into a file, of
    /// as much as the file lags behind, up to 256 MiB.
    fn default() -> Self {
        Self::new()
            .buffer(BufferConfig::ring(DEFAULT_BUFFER_SIZE_KB).grow_to(DEFAULT_BUFFER_LIMIT_KB))
            .record_all()
    }
}

impl TraceConfig {
    /// A configuration without buffers and data sources.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buffers: Vec::new(),
            data_sources: Vec::new(),
            records_all: false,
            builtin_data_sources: BuiltinDataSources::new(),
            shared_memory: Vec::new(),
            incremental_state_clear_period_ms: 0,
            wait_limit: DEFAULT_WAIT_LIMIT,
            deferred_start: false,
            duration_ms: 0,
            prefer_suspend_clock_for_duration: false,
            data_source_stop_timeout_ms: 0,
            trigger_config: None,
            enable_extra_guardrails: false,
            guardrail_max_tracing_buffer_size_kb: 0,
            lockdown_mode: LockdownMode::Unchanged,
            unique_session_name: None,
            session_semaphores: Vec::new(),
            exclusive_prio: 0,
            write_into_file: false,
            output_path: None,
            file_write_period_ms: 0,
            max_file_size_bytes: 0,
            flush_period_ms: 0,
            flush_timeout_ms: 0,
            write_flush_mode: WriteFlushMode::Auto,
            fflush_post_write: false,
            compression: Compression::None,
            trace_uuid: (0, 0),
            trace_attributes: Vec::new(),
            bugreport_score: 0,
            bugreport_filename: None,
        }
    }

    /// Adds a buffer; the first one has index 0.
    #[must_use]
    pub fn buffer(mut self, buffer: BufferConfig) -> Self {
        self.buffers.push(buffer);
        self
    }

    /// Adds a data source to record.
    #[must_use]
    pub fn data_source(mut self, data_source: DataSourceConfig) -> Self {
        self.data_sources.push(data_source);
        self
    }

    /// Records every data source of the process, also those that are not listed: these go to the
    /// first buffer.
    #[must_use]
    pub const fn record_all(mut self) -> Self {
        self.records_all = true;
        self
    }

    /// Sets how long a writer waits, at most, when a buffer has no room because the file that it is
    /// streamed into lags behind; 10 s by default. Then packets are dropped, and counted, until there
    /// is room.
    #[must_use]
    pub const fn wait_limit(mut self, limit: Duration) -> Self {
        self.wait_limit = limit;
        self
    }

    /// Lets writers drop packets at once rather than wait for a file that lags behind.
    #[must_use]
    pub const fn never_wait(self) -> Self {
        self.wait_limit(Duration::ZERO)
    }

    /// Chooses which packets the service itself adds to the trace.
    #[must_use]
    pub const fn builtin_data_sources(mut self, builtin: BuiltinDataSources) -> Self {
        self.builtin_data_sources = builtin;
        self
    }

    /// Has every data source repeat what its packets depend on, such as interned names, each
    /// `period_ms` milliseconds; 0 for never. Rings of this crate repeat it by themselves whenever
    /// they have come further.
    #[must_use]
    pub const fn incremental_state_clear_period_ms(mut self, period_ms: u32) -> Self {
        self.incremental_state_clear_period_ms = period_ms;
        self
    }
}
