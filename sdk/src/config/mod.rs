//! Configurations as applications build them: each setter sets a field of the message that the trace
//! carries, and that a service carries out.

mod buffers; // where packets are kept
mod builtin; // packets of the service itself
mod data_sources; // what is recorded
mod life_cycle; // when a session starts and ends, and beside whom it runs
mod output; // how the trace is flushed, written and described
mod shared_memory; // the memory of each producer
mod triggers; // events that start, end or clone a session
mod track_event; // which track events to record
#[cfg(test)]
mod tests;

use std::time::Duration;

use protozero::OwnedMessage as _;

pub use buffers::BufferConfig;
pub use builtin::BuiltinDataSources;
pub use data_sources::DataSourceConfig;
pub use life_cycle::SessionSemaphore;
pub use output::TraceAttributeValue;
pub use track_event::TrackEventConfig;
pub use triggers::{Trigger, TriggerConfig};

pub use tracezero_config::{
    Compression, ConfigError, FillPolicy, LockdownMode, PrimaryTraceClock, TriggerMode,
    WriteFlushMode,
};
pub use tracezero_core::coordination::BufferExhaustedPolicy;

use tracezero_config::{LocalChoices, SessionConfig};
use tracezero_core::protos::owned;
use tracezero_service::Recording;

/// Size of the buffer of [`TraceConfig::default`], in KiB.
const DEFAULT_BUFFER_SIZE_KB: u32 = 32 * 1024;
/// Limit to which that buffer grows, in KiB, while its session streams into a file that lags behind.
const DEFAULT_BUFFER_LIMIT_KB: u32 = 256 * 1024;

/// What a session records, and how.
///
/// ```
/// use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
///
/// let config = TraceConfig::new()
///     .add_buffer(BufferConfig::ring(16 * 1024).named("events"))
///     .add_buffer(BufferConfig::discard(1024).named("start-up"))
///     .add_data_source(DataSourceConfig::new("track_event").target_name("events"))
///     .add_data_source(DataSourceConfig::new("com.example.boot").target_name("start-up"));
/// assert!(config.check().is_ok());
///
/// let config = config.add_data_source(DataSourceConfig::new("com.example.gpu").target_index(2));
/// assert_eq!(
///     config.check().unwrap_err().to_string(),
///     "data_sources[2] (com.example.gpu) targets buffers[2], but the number of buffers is 2"
/// );
/// ```
///
/// Two configurations are equal if sessions would do the same by them.
#[derive(Clone, Debug)]
pub struct TraceConfig {
    pub(crate) message: owned::TraceConfig,
    pub(crate) local: LocalChoices,
}

impl Default for TraceConfig {
    /// One ring for every data source of the process: of 32 MiB in memory; streamed into a file, of
    /// as much as the file lags behind, up to 256 MiB.
    fn default() -> Self {
        Self::new()
            .add_buffer(BufferConfig::ring(DEFAULT_BUFFER_SIZE_KB).grow_to(DEFAULT_BUFFER_LIMIT_KB))
            .record_all()
    }
}

impl PartialEq for TraceConfig {
    fn eq(&self, other: &Self) -> bool {
        match (self.session_config(), other.session_config()) {
            (Ok(one), Ok(other)) => one == other,
            // Configurations that a service refuses are equal if they say the same.
            _ => self.message == other.message && self.local == other.local,
        }
    }
}

impl TraceConfig {
    /// A configuration without buffers and data sources.
    #[must_use]
    pub fn new() -> Self {
        Self {
            message: owned::TraceConfig::default(),
            local: LocalChoices::default(),
        }
    }

    /// Reads a configuration that is encoded as the message `perfetto.protos.TraceConfig`.
    ///
    /// It is not checked yet: [`check`](Self::check) does, and so does a session that starts.
    ///
    /// Every field is understood or refused, with these exceptions, which must have the form that the
    /// schema gives them, and change nothing here:
    ///
    /// - `experimental_mode` of a buffer: each is a `TRACE_BUFFER_V2`;
    /// - `trace_all_machines`: there is one machine;
    /// - `trace_duration_ms`, `tracing_session_id`, `enable_extra_guardrails`, `stop_timeout_ms`,
    ///   `session_initiator` and `prefer_suspend_clock_for_duration` of a data source: the service
    ///   puts the session's own values there;
    /// - `notify_traceur`, `allow_user_build_tracing` and `max_upload_per_day_bytes`: the service
    ///   of the reference implementation ignores them, too.
    ///
    /// `trace_attributes`, `bugreport_score` and `bugreport_filename` are only carried along. Fields
    /// of a data source from number 100 on are handed to it as they are.
    ///
    /// # Errors
    ///
    /// If the bytes are no such message, or a field is unknown or asks for something that this
    /// crate does not do.
    pub fn decode(bytes: &[u8]) -> Result<Self, ConfigError> {
        Ok(Self {
            message: tracezero_config::decode(bytes)?,
            local: LocalChoices::default(),
        })
    }

    /// Reads a configuration in protobuf's text format, the one that the `perfetto` command takes.
    ///
    /// Like a configuration that was [decoded](Self::decode), it is not checked yet, and what that
    /// refuses is refused here. The configuration of a data source can hold a `track_event_config`
    /// and a `legacy_config`; other source-specific messages need their schema to be read, which is
    /// not part of this crate.
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
    /// If the text is not well-formed, or names what the schema or this crate does not have: with
    /// line and column, the field and the value.
    #[cfg(feature = "text-config")]
    pub fn from_text(text: &str) -> Result<Self, ConfigError> {
        Ok(Self {
            message: tracezero_config::from_text(text)?,
            local: LocalChoices::default(),
        })
    }

    /// The configuration as the message `perfetto.protos.TraceConfig`, encoded, as a trace carries it.
    ///
    /// It lacks what the message has no fields for: [`record_all`](Self::record_all),
    /// [`wait_limit`](Self::wait_limit), [`BufferConfig::grow_to`] and [`DataSourceConfig::stall_limit`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.message.encode_to_vec()
    }

    /// Checks the configuration, as starting a session with it does.
    ///
    /// # Errors
    ///
    /// The first contradiction, with the index and value at fault.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.session_config()?.resolve().map(drop)
    }

    /// Converts the configuration into what a service carries out.
    pub(crate) fn recording(self) -> Result<Recording, ConfigError> {
        Recording::new(self.message, &self.local)
    }

    /// Converts the configuration into what sessions do, which is checked field by field alone.
    pub(crate) fn session_config(&self) -> Result<SessionConfig, ConfigError> {
        SessionConfig::new(&self.message, &self.local)
    }

    /// Adds a buffer; the first one has index 0.
    #[must_use]
    pub fn add_buffer(mut self, buffer: BufferConfig) -> Self {
        let index = self.message.buffers.len();
        if let Some(limit_kb) = buffer.limit_kb {
            self.local.buffer_limits_kb.insert(index, limit_kb);
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

    /// Records every data source of the process, also those that are not listed: these go to the
    /// first buffer.
    #[must_use]
    pub fn record_all(mut self) -> Self {
        self.local.records_all = true;
        self
    }

    /// Sets how long a writer waits, at most, when a buffer has no room because the file that it is
    /// streamed into lags behind; 10 s by default. Then packets are dropped, and counted, until there
    /// is room.
    #[must_use]
    pub fn wait_limit(mut self, limit: Duration) -> Self {
        self.local.wait_limit = limit;
        self
    }

    /// Lets writers drop packets at once rather than wait for a file that lags behind.
    #[must_use]
    pub fn never_wait(self) -> Self {
        self.wait_limit(Duration::ZERO)
    }

    /// Chooses which packets the service itself adds to the trace.
    #[must_use]
    pub fn builtin_data_sources(mut self, builtin: BuiltinDataSources) -> Self {
        self.message.builtin_data_sources = Some(builtin.message);
        self
    }

    /// Makes every data source repeat what its packets depend on, such as interned names, with this period, in
    /// milliseconds, rounded up; zero for never. Rings of this crate repeat it by themselves whenever they have come
    /// further.
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

/// Returns milliseconds, rounded up: a time below one is not none. More than 49 days are 49 days.
fn whole_ms(duration: Duration) -> u32 {
    let ms = duration.as_nanos().div_ceil(1_000_000);
    u32::try_from(ms).unwrap_or(u32::MAX)
}
