//! Builders of trace configurations. Each setter sets a field of the message that the service
//! carries out and that the trace contains.

pub mod android; // what only Android needs
mod buffers; // trace buffers
mod builtin; // packets of the service itself
mod data_sources; // what is recorded
mod life_cycle; // when a session starts and ends, and beside which others it runs
mod output; // how the trace is flushed, written and described
mod shared_memory; // the memory of each producer
mod triggers; // events that start, end or clone a session
mod track_event; // which track events to record
#[cfg(test)]
mod tests;

use std::path::PathBuf;
#[cfg(feature = "text-config")]
use std::str::FromStr;
use std::time::Duration;

use protozero::OwnedMessage as _;

pub use buffers::BufferConfig;
pub use builtin::BuiltinDataSources;
pub use data_sources::DataSourceConfig;
pub use life_cycle::SessionSemaphore;
pub use track_event::TrackEventConfig;
pub use triggers::{Trigger, TriggerConfig};

pub use tracezero_config::{
    Compression, ConfigError, FillPolicy, PrimaryTraceClock, TriggerMode, WriteFlushMode,
};
pub use tracezero_core::coordination::BufferExhaustedPolicy;

use tracezero_config::{LocalChoices, SessionConfig};
use tracezero_core::protos::owned;
use tracezero_service::Recording;

/// The size of the buffer of [`TraceConfig::default`], in KiB.
const DEFAULT_BUFFER_SIZE_KIB: u32 = 32 * 1024;
/// The size to which the buffer of [`TraceConfig::default`] grows, in KiB, while its session
/// streams into a file that lags behind.
const DEFAULT_BUFFER_LIMIT_KIB: u32 = 256 * 1024;

/// The configuration of a session: what it records, and how.
///
/// ```
/// use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
///
/// let config = TraceConfig::empty()
///     .add_buffer(BufferConfig::ring(16 * 1024).named("events"))
///     .add_buffer(BufferConfig::discard(1024).named("start-up"))
///     .add_data_source(DataSourceConfig::new("track_event").target_name("events"))
///     .add_data_source(DataSourceConfig::new("com.example.boot").target_name("start-up"));
/// assert!(config.check().is_ok());
///
/// let config = config.add_data_source(DataSourceConfig::new("com.example.gpu").target_index(2));
/// assert_eq!(
///     config.check().unwrap_err().to_string(),
///     "data_sources[2] (com.example.gpu) targets buffers[2], which does not exist; the number of \
///      buffers is 2"
/// );
/// ```
///
/// Two configurations are equal if sessions would behave the same with them.
#[derive(Clone, Debug)]
pub struct TraceConfig {
    pub(crate) message: owned::TraceConfig,
    pub(crate) local: LocalChoices,
}

impl Default for TraceConfig {
    /// Creates a configuration with one ring for every data source of the process. A session in
    /// memory has a ring of 32 MiB. In a session that streams into a file, the ring grows while the
    /// file lags behind, up to 256 MiB.
    fn default() -> Self {
        Self::empty()
            .add_buffer(
                BufferConfig::ring(DEFAULT_BUFFER_SIZE_KIB).grow_to(DEFAULT_BUFFER_LIMIT_KIB),
            )
            .record_all()
    }
}

impl PartialEq for TraceConfig {
    fn eq(&self, other: &Self) -> bool {
        match (self.session_config(), other.session_config()) {
            (Ok(one), Ok(other)) => one == other,
            // At least one of the two is invalid, so there are no two sessions to compare. Compare
            // the fields as they were set.
            _ => self.message == other.message && self.local == other.local,
        }
    }
}

#[cfg(feature = "text-config")]
impl FromStr for TraceConfig {
    type Err = ConfigError;

    /// Parses a configuration like [`TraceConfig::from_text`].
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Self::from_text(text)
    }
}

impl TraceConfig {
    /// Creates a configuration without buffers and data sources. [`default`](Self::default) records
    /// everything.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            message: owned::TraceConfig::default(),
            local: LocalChoices::default(),
        }
    }

    /// Decodes a configuration from the message `perfetto.protos.TraceConfig`.
    ///
    /// The configuration is not checked yet. [`check`](Self::check) checks it, and so does starting
    /// a session.
    ///
    /// Every field is either carried out or rejected. The following fields are exceptions: they
    /// must have the type that the schema gives them, and have no effect here:
    ///
    /// - `experimental_mode` of a buffer: each buffer is a `TRACE_BUFFER_V2`;
    /// - `trace_all_machines`: there is one machine;
    /// - `trace_duration_ms`, `tracing_session_id`, `enable_extra_guardrails`, `stop_timeout_ms` and
    ///   `session_initiator` of a data source: the service sets them to the session's own values;
    /// - `prefer_suspend_clock_for_duration` of a data source: the data source gets it, or `true` if
    ///   the session has it;
    /// - `notify_traceur`, `allow_user_build_tracing` and `max_upload_per_day_bytes`: the service
    ///   of the reference implementation ignores them, too.
    ///
    /// `bugreport_score` and `bugreport_filename` are only copied into the trace; so are
    /// `trace_attributes`, which count more there than those of the [process](crate::set_service). Fields of a data source from number 100 on are handed to the data source as they are.
    ///
    /// # Errors
    ///
    /// If the bytes are not a valid message, or a field is unknown or asks for something that this
    /// crate does not do.
    pub fn decode(bytes: &[u8]) -> Result<Self, ConfigError> {
        Ok(Self {
            message: tracezero_config::decode(bytes)?,
            local: LocalChoices::default(),
        })
    }

    /// Parses a configuration in protobuf's text format, which the `perfetto` command takes as
    /// well.
    ///
    /// This accepts and rejects the same fields as [`decode`](Self::decode). Like `decode`, it does
    /// not check the configuration yet. The configuration of a data source can contain a
    /// `track_event_config`, a `legacy_config`, and those of the kernel's data sources
    /// (`ftrace_config`, `process_stats_config`, `sys_stats_config`, `system_info_config`). Other
    /// source-specific messages are rejected: this crate does not have their schema.
    ///
    /// ```
    /// use tracezero::TraceConfig;
    ///
    /// let config = TraceConfig::from_text(
    ///     r#"
    ///     buffers { size_kb: 4096 name: "events" }
    ///     data_sources { config { name: "track_event" target_buffer_name: "events" } }
    ///     duration_ms: 10000  # ten seconds
    ///     "#,
    /// )?;
    /// config.check()?;
    ///
    /// let error = TraceConfig::from_text("buffers {\n  size: 4096\n}").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "line 2, column 3: buffers[0].size: unknown field: did you mean size_kb?"
    /// );
    /// # Ok::<(), tracezero::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the text is not well-formed, or names something that the schema or this crate does not
    /// have. The error states the line and column, the field and the value.
    #[cfg(feature = "text-config")]
    pub fn from_text(text: &str) -> Result<Self, ConfigError> {
        Ok(Self {
            message: tracezero_config::from_text(text)?,
            local: LocalChoices::default(),
        })
    }

    /// Encodes the configuration as the message `perfetto.protos.TraceConfig`, in the form that a
    /// trace contains.
    ///
    /// The message has no fields for [`record_all`](Self::record_all),
    /// [`wait_limit`](Self::wait_limit), [`BufferConfig::grow_to`],
    /// [`DataSourceConfig::stall_limit`] and [`BuiltinDataSources::without_trace_attributes`], so these
    /// are left out. A daemon that gets the message records
    /// only the data sources that it lists.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.message.encode_to_vec()
    }

    /// Checks the configuration, as starting a session with it does.
    ///
    /// # Errors
    ///
    /// Returns the first contradiction, with the index and value at fault.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.session_config()?.resolve().map(drop)
    }

    /// Checks the configuration and converts it into the form that the service carries out.
    pub(crate) fn recording(self) -> Result<Recording, ConfigError> {
        Recording::new(&self.message, &self.local)
    }

    /// Converts the configuration into a `SessionConfig`. Each field is checked on its own;
    /// contradictions between fields are found by `SessionConfig::resolve`.
    pub(crate) fn session_config(&self) -> Result<SessionConfig, ConfigError> {
        SessionConfig::new(&self.message, &self.local)
    }

    /// Adds a buffer. The first buffer has index 0.
    #[must_use]
    pub fn add_buffer(mut self, buffer: BufferConfig) -> Self {
        let index = self.message.buffers.len();
        if let Some(limit_kib) = buffer.limit_kib {
            self.local.buffer_limits_kb.insert(index, limit_kib);
        }
        self.message.buffers.push(buffer.message);
        self
    }

    /// Adds a data source to record.
    #[must_use]
    pub fn add_data_source(mut self, data_source: DataSourceConfig) -> Self {
        let index = self.message.data_sources.len();
        if let Some(limit) = data_source.stall_limit {
            self.local.stall_limits.insert(index, limit);
        }
        self.message.data_sources.push(data_source.message);
        self
    }

    /// Records every data source of the process. Data sources that the configuration does not list
    /// write to the first buffer.
    #[must_use]
    pub fn record_all(mut self) -> Self {
        self.local.records_all = true;
        self
    }

    /// Sets how long a trace writer waits at most when a buffer is full because its file lags
    /// behind. After that time, packets are dropped and counted until the buffer has room again.
    /// The default is 10 s.
    #[must_use]
    pub fn wait_limit(mut self, limit: Duration) -> Self {
        self.local.wait_limit = limit;
        self
    }

    /// Makes trace writers drop packets at once when a buffer is full because its file lags behind.
    /// Without this call, they wait first: see [`wait_limit`](Self::wait_limit).
    #[must_use]
    pub fn never_wait(self) -> Self {
        self.wait_limit(Duration::ZERO)
    }

    /// Keeps what is recorded in *crash files*, from which a trace can be made if the process is
    /// killed: see [`tracezero::crash`](crate::crash). The files are in
    /// [`crash::default_directory`](crate::crash::default_directory), on a file system in memory.
    ///
    /// The session reserves its shared memory and buffers completely when it starts: 48 MiB with
    /// the defaults, or 18 MiB if it streams into a file. The ring of a session that streams then
    /// grows as without crash files. Events cost as much as without crash files. The first session
    /// of a process creates the shared memory, so a later session can have crash files only if the
    /// first one has them.
    #[must_use]
    pub fn crash_safe(self) -> Self {
        self.crash_safe_in(crate::crash::default_directory())
    }

    /// Keeps what is recorded in crash files, as [`crash_safe`](Self::crash_safe) does, in this
    /// directory. It is created if it does not exist, and must be on tmpfs, ext4 or xfs. On a disk,
    /// the files also survive a container that is removed, if it has the directory as a volume.
    #[must_use]
    pub fn crash_safe_in(mut self, directory: impl Into<PathBuf>) -> Self {
        self.local.crash_directory = Some(directory.into());
        self
    }

    /// Sets which packets the service itself adds to the trace.
    #[must_use]
    pub fn builtin_data_sources(mut self, builtin: BuiltinDataSources) -> Self {
        self.message.builtin_data_sources = Some(builtin.message);
        self.local.without_trace_attributes = builtin.without_trace_attributes;
        self
    }

    /// Sets how often every data source clears its incremental state, rounded up to milliseconds.
    /// After clearing it, the data source writes interned names and the like again. Zero means
    /// never. A ring of this crate needs no period: sequences clear their state by themselves as
    /// the ring moves on.
    #[must_use]
    pub fn incremental_state_clear_period(mut self, period: Duration) -> Self {
        let config = self
            .message
            .incremental_state_config
            .get_or_insert_default();
        config.clear_period_ms = Some(whole_ms(period));
        self
    }
}

/// Returns the duration in milliseconds, rounded up, so that a short time does not become 0, which
/// means that no time is set. Durations above 49 days become 49 days.
fn whole_ms(duration: Duration) -> u32 {
    let ms = duration.as_nanos().div_ceil(1_000_000);
    u32::try_from(ms).unwrap_or(u32::MAX)
}
