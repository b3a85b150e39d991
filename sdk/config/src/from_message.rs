//! Converts the message `TraceConfig`, field by field, to a [`SessionConfig`].

use std::time::Duration;

use protozero::{Decoder, OwnedMessage as _, types};
use tracezero_core::coordination::BufferExhaustedPolicy;
use tracezero_core::protos;
use tracezero_core::protos::owned::trace_config as message;
use tracezero_core::protos::owned::{DataSourceConfig, TraceConfig, TrackEventConfig};

use crate::choices::{
    Compression, FillPolicy, LockdownMode, PrimaryTraceClock, TriggerMode, WriteFlushMode,
};
use crate::error::ConfigError;
use crate::known_fields;
use crate::local::LocalChoices;
use crate::omissions::Omissions;
use crate::place::Place;
use crate::session_config::{
    Buffer, BuiltinDataSources, DataSource, SemaphoreLimit, SessionConfig, SharedMemory, Trigger,
    Triggers,
};

/// The field of `TraceConfig` that lists the data sources.
const DATA_SOURCES: u32 = protos::TraceConfig::DATA_SOURCES_FIELD_NUMBER;
/// The field of a data source that has its `DataSourceConfig`.
const CONFIG: u32 = protos::trace_config::DataSource::CONFIG_FIELD_NUMBER;
/// The only machine that `machine_name_filter` may name: this one.
const HOST: &str = "host";
/// The default level of Zstandard.
const DEFAULT_ZSTD_LEVEL: i32 = 1;
/// The default time between two snapshots of the clocks, in milliseconds.
const DEFAULT_SNAPSHOT_INTERVAL_MS: u32 = 10_000;
/// The default time that data sources have to stop, in milliseconds.
const DEFAULT_STOP_TIMEOUT_MS: u32 = 5000;
/// The default time between two writes into the file, in milliseconds.
const DEFAULT_FILE_WRITE_PERIOD_MS: u32 = 5000;
/// The shortest time between two writes into the file, in milliseconds.
const MIN_FILE_WRITE_PERIOD_MS: u32 = 100;
/// The default time that data sources have to flush, in milliseconds.
const DEFAULT_FLUSH_TIMEOUT_MS: u32 = 5000;

/// Decodes a configuration from protobuf, and checks that all of its fields are known and
/// supported.
///
/// [`SessionConfig::resolve`] checks limits and contradictions later.
///
/// # Errors
///
/// If the bytes are not a `perfetto.protos.TraceConfig`, or if a field is unknown or not supported.
pub fn decode(bytes: &[u8]) -> Result<TraceConfig, ConfigError> {
    let omissions = &mut Omissions::Refused;
    let message = decode_known_fields(bytes, omissions)?;
    session_config(message.clone(), &LocalChoices::default(), omissions)?;
    Ok(message)
}

/// A configuration that another program made.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignConfig {
    /// The configuration as this service carries it out.
    pub session: SessionConfig,
    /// The paths of the fields that this service ignores, each once, such as `statsd_metadata` or
    /// `buffers[0].99` for a field that the schema does not have. At most [`LISTED_FIELDS_MAX`]
    /// fields: further ones are ignored without being listed.
    ///
    /// [`LISTED_FIELDS_MAX`]: crate::LISTED_FIELDS_MAX
    pub ignored: Vec<String>,
}

/// Decodes a configuration that another program made, such as the `perfetto` command. Unlike
/// [`decode`], ignores fields that are unknown or not supported, and lists them.
///
/// The fields of a data source from number 100 on are for the data source alone, so they are not
/// checked and not listed. [`SessionConfig::resolve`] checks limits and contradictions later.
///
/// # Errors
///
/// If the bytes are not a `perfetto.protos.TraceConfig`, if a field has a wrong value, or if the
/// trace would contain what it must not without an unsupported field, such as `trace_filter`.
pub fn decode_foreign(bytes: &[u8]) -> Result<ForeignConfig, ConfigError> {
    let mut omissions = Omissions::Listed(Vec::new());
    let message = decode_known_fields(bytes, &mut omissions)?;
    let session = session_config(message, &LocalChoices::default(), &mut omissions)?;
    Ok(ForeignConfig {
        session,
        ignored: omissions.into_paths(),
    })
}

/// Returns the encoded `DataSourceConfig` of each data source in an encoded configuration that one
/// of the decoders has accepted.
#[must_use]
pub fn data_source_configs(bytes: &[u8]) -> Vec<Vec<u8>> {
    let sources = Decoder::new(bytes).repeated::<types::Bytes>(DATA_SOURCES);
    sources
        .filter_map(Result::ok)
        .map(|source| {
            // A message in several pieces is the same as all of them in one.
            let pieces = Decoder::new(source).repeated::<types::Bytes>(CONFIG);
            pieces.filter_map(Result::ok).collect::<Vec<_>>().concat()
        })
        .collect()
}

/// Checks a `DataSourceConfig` that may only have fields for the data source itself: those with
/// numbers from 100 on, which the service does not interpret.
///
/// # Errors
///
/// If a field is meant for the service, is malformed, or is not supported.
pub fn check_source_specific(config: &DataSourceConfig) -> Result<(), ConfigError> {
    known_fields::check_source_specific(&config.encode_to_vec(), &Place::ROOT)?;
    match &config.track_event_config {
        Some(events) => check_patterns(events, &Place::ROOT.field("track_event_config")),
        None => Ok(()),
    }
}

/// Decodes a message, after checking its fields.
fn decode_known_fields(
    bytes: &[u8],
    omissions: &mut Omissions,
) -> Result<TraceConfig, ConfigError> {
    known_fields::check(bytes, omissions)?;
    TraceConfig::decode(bytes).map_err(|error| Place::ROOT.malformed(error))
}

impl SessionConfig {
    /// Converts a message, and options that the message has no fields for. Checks each field by
    /// itself; [`resolve`](Self::resolve) checks whether fields contradict each other.
    ///
    /// # Errors
    ///
    /// If a field is not supported, or if the encoded fields that are meant for a data source are
    /// malformed or contain a field that is meant for the service.
    pub fn new(message: &TraceConfig, local: &LocalChoices) -> Result<Self, ConfigError> {
        for (index, source) in message.data_sources.iter().enumerate() {
            if let Some(config) = &source.config {
                let at = Place::ROOT.item("data_sources", index);
                let fields = config.unknown_fields.as_bytes();
                known_fields::check_source_specific(fields, &at.field("config"))?;
            }
        }
        // Encode and decode again: fields that the caller added in encoded form are in
        // `unknown_fields`, and become members only when they are decoded.
        let omissions = &mut Omissions::Refused;
        let message = decode_known_fields(&message.encode_to_vec(), omissions)?;
        session_config(message, local, omissions)
    }
}

/// Converts a message whose fields are checked.
fn session_config(
    message: TraceConfig,
    local: &LocalChoices,
    omissions: &mut Omissions,
) -> Result<SessionConfig, ConfigError> {
    let root = Place::ROOT;
    let buffers = message.buffers.into_iter().enumerate();
    let sources = message.data_sources.into_iter().enumerate();
    Ok(SessionConfig {
        buffers: buffers
            .map(|(index, message)| buffer(message, local.buffer_limits_kb.get(&index).copied()))
            .collect(),
        data_sources: sources
            .map(|(index, message)| {
                let stall_limit = local.stall_limits.get(&index).copied();
                let at = root.item("data_sources", index);
                data_source(message, stall_limit, &at, omissions)
            })
            .collect::<Result<_, _>>()?,
        records_all: local.records_all,
        builtin_data_sources: builtin_data_sources(
            &message.builtin_data_sources.unwrap_or_default(),
            local,
            &root.field("builtin_data_sources"),
            omissions,
        )?,
        shared_memory: shared_memory(message.producers, omissions)?,
        is_foreign: omissions.is_foreign(),
        incremental_state_clear_period_ms: message
            .incremental_state_config
            .and_then(|config| config.clear_period_ms)
            .unwrap_or(0),
        wait_limit: local.wait_limit,

        deferred_start: message.deferred_start.unwrap_or(false),
        duration_ms: message.duration_ms.unwrap_or(0),
        prefer_suspend_clock_for_duration: message
            .prefer_suspend_clock_for_duration
            .unwrap_or(false),
        data_source_stop_timeout_ms: not_zero(message.data_source_stop_timeout_ms)
            .unwrap_or(DEFAULT_STOP_TIMEOUT_MS),
        triggers: triggers(
            message.trigger_config.unwrap_or_default(),
            &root.field("trigger_config"),
        )?,
        enable_extra_guardrails: message.enable_extra_guardrails.unwrap_or(false),
        guardrail_max_tracing_buffer_size_kb: message
            .guardrail_overrides
            .and_then(|overrides| overrides.max_tracing_buffer_size_kb)
            .unwrap_or(0),
        lockdown_mode: match message.lockdown_mode.unwrap_or_default().0 {
            1 => LockdownMode::Clear,
            2 => LockdownMode::Set,
            _ => LockdownMode::Unchanged,
        },
        unique_session_name: not_empty(message.unique_session_name),
        session_semaphores: message
            .session_semaphores
            .into_iter()
            .map(|semaphore| SemaphoreLimit {
                name: semaphore.name.unwrap_or_default(),
                max_other_session_count: semaphore.max_other_session_count.unwrap_or(0),
            })
            .collect(),
        exclusive_prio: message.exclusive_prio.unwrap_or(0),

        write_into_file: message.write_into_file.unwrap_or(false),
        output_path: not_empty(message.output_path),
        file_write_period_ms: not_zero(message.file_write_period_ms)
            .unwrap_or(DEFAULT_FILE_WRITE_PERIOD_MS)
            .max(MIN_FILE_WRITE_PERIOD_MS),
        max_file_size_bytes: message.max_file_size_bytes.unwrap_or(0),
        flush_period_ms: message.flush_period_ms.unwrap_or(0),
        flush_timeout_ms: not_zero(message.flush_timeout_ms).unwrap_or(DEFAULT_FLUSH_TIMEOUT_MS),
        write_flush_mode: match message.write_flush_mode.unwrap_or_default().0 {
            2 => WriteFlushMode::Disabled,
            3 => WriteFlushMode::Enabled,
            _ => WriteFlushMode::Auto,
        },
        fflush_post_write: message.fflush_post_write
            == Some(protos::trace_config::FFlushMode::FFLUSH_ENABLED),
        compression: compression(
            message.compression.unwrap_or_default(),
            message.compression_type == Some(protos::trace_config::CompressionType::DEFLATE),
            omissions,
        ),
        trace_uuid: (
            message.trace_uuid_msb.unwrap_or(0),
            message.trace_uuid_lsb.unwrap_or(0),
        ),
        trace_attributes: message.trace_attributes.unwrap_or_default().attribute,
        bugreport_score: message.bugreport_score.unwrap_or(0),
        bugreport_filename: not_empty(message.bugreport_filename),
    })
}

fn buffer(message: message::BufferConfig, limit_kb: Option<u32>) -> Buffer {
    use protos::trace_config::buffer_config::FillPolicy as Policy;
    Buffer {
        size_kb: message.size_kb.unwrap_or(0),
        limit_kb,
        fill_policy: match message.fill_policy {
            Some(Policy::DISCARD) => FillPolicy::Discard,
            _ => FillPolicy::Ring,
        },
        name: not_empty(message.name),
        transfer_on_clone: message.transfer_on_clone.unwrap_or(false),
        clear_before_clone: message.clear_before_clone.unwrap_or(false),
    }
}

fn data_source(
    message: message::DataSource,
    stall_limit: Option<Duration>,
    at: &Place<'_>,
    omissions: &mut Omissions,
) -> Result<DataSource, ConfigError> {
    use protos::data_source_config::BufferExhaustedPolicy as Policy;
    for (index, machine) in message.machine_name_filter.iter().enumerate() {
        let at = at.item("machine_name_filter", index);
        if machine != HOST && !omissions.ignores(&at) {
            return Err(at.invalid(format!(
                "the machine {machine:?} is not supported; use {HOST:?}"
            )));
        }
    }
    let config = message.config.unwrap_or_default();
    if let Some(events) = &config.track_event_config
        && !omissions.is_foreign()
    {
        check_patterns(events, &at.field("config").field("track_event_config"))?;
    }
    let state = config.protovm_config.as_ref();
    let state_max_kib = state.and_then(|state| state.memory_limit_kb);
    if state.is_some() && state_max_kib.is_none() && !omissions.is_foreign() {
        return Err(at
            .field("config")
            .field("protovm_config")
            .invalid("memory_limit_kb is missing; give the state a size"));
    }
    let machines = &message.machine_name_filter;
    Ok(DataSource {
        name: config.name.unwrap_or_default(),
        is_for_this_machine: machines.is_empty() || machines.iter().any(|name| name == HOST),
        // For Perfetto's own service, 0 is the same as no index.
        target_index: config
            .target_buffer
            .filter(|&index| index != 0 || !omissions.is_foreign())
            .map(|index| index as usize),
        target_name: not_empty(config.target_buffer_name),
        exhausted_policy: match config.buffer_exhausted_policy {
            Some(Policy::BUFFER_EXHAUSTED_DROP) => Some(BufferExhaustedPolicy::Drop),
            Some(Policy::BUFFER_EXHAUSTED_STALL_THEN_ABORT) => Some(BufferExhaustedPolicy::Stall),
            Some(Policy::BUFFER_EXHAUSTED_STALL_THEN_DROP) => {
                Some(BufferExhaustedPolicy::StallThenDrop)
            }
            _ => None,
        },
        stall_limit,
        state_max_kib,
        producer_name_filter: message.producer_name_filter,
        producer_name_regex_filter: message.producer_name_regex_filter,
        // The service sets the other fields itself.
        source_specific: DataSourceConfig {
            track_event_config: config.track_event_config,
            legacy_config: config.legacy_config,
            unknown_fields: config.unknown_fields,
            ..DataSourceConfig::default()
        },
    })
}

/// Checks that each pattern is a name, or a prefix of names followed by `*`.
fn check_patterns(config: &TrackEventConfig, at: &Place<'_>) -> Result<(), ConfigError> {
    let lists = [
        ("disabled_categories", &config.disabled_categories),
        ("enabled_categories", &config.enabled_categories),
        ("disabled_tags", &config.disabled_tags),
        ("enabled_tags", &config.enabled_tags),
    ];
    for (name, patterns) in lists {
        for (index, pattern) in patterns.iter().enumerate() {
            let stem = pattern.strip_suffix('*').unwrap_or(pattern);
            if stem.contains('*') {
                let reason =
                    format!("{pattern:?} has a `*` before its end; put `*` only at the end");
                return Err(at.item(name, index).invalid(reason));
            }
        }
    }
    Ok(())
}

fn builtin_data_sources(
    message: &message::BuiltinDataSource,
    local: &LocalChoices,
    at: &Place<'_>,
    omissions: &mut Omissions,
) -> Result<BuiltinDataSources, ConfigError> {
    let disable_system_info = message.disable_system_info.unwrap_or(false);
    Ok(BuiltinDataSources {
        disable_clock_snapshotting: message.disable_clock_snapshotting.unwrap_or(false),
        disable_trace_config: message.disable_trace_config.unwrap_or(false),
        disable_system_info,
        disable_trace_attributes: disable_system_info || local.without_trace_attributes,
        disable_service_events: message.disable_service_events.unwrap_or(false),
        disable_chunk_usage_histograms: message.disable_chunk_usage_histograms.unwrap_or(false),
        disable_extension_descriptors: message.disable_extension_descriptors.unwrap_or(false),
        enable_concurrent_session_events: message.enable_concurrent_session_events.unwrap_or(false),
        primary_trace_clock: match message.primary_trace_clock.unwrap_or_default().0 {
            0 => None,
            1 => Some(PrimaryTraceClock::Realtime),
            2 => Some(PrimaryTraceClock::RealtimeCoarse),
            3 => Some(PrimaryTraceClock::Monotonic),
            4 => Some(PrimaryTraceClock::MonotonicCoarse),
            5 => Some(PrimaryTraceClock::MonotonicRaw),
            6 => Some(PrimaryTraceClock::Boottime),
            other => {
                let at = at.field("primary_trace_clock");
                if !omissions.ignores(&at) {
                    return Err(at.unsupported_value(other));
                }
                None
            }
        },
        snapshot_interval_ms: not_zero(message.snapshot_interval_ms)
            .unwrap_or(DEFAULT_SNAPSHOT_INTERVAL_MS),
    })
}

fn shared_memory(
    messages: Vec<message::ProducerConfig>,
    omissions: &mut Omissions,
) -> Result<Vec<SharedMemory>, ConfigError> {
    let mut chosen: Vec<SharedMemory> = Vec::new();
    for (index, message) in messages.into_iter().enumerate() {
        let memory = SharedMemory {
            producer_name: not_empty(message.producer_name),
            size_kb: message.shm_size_kb.unwrap_or(0),
            page_size_kb: message.page_size_kb.unwrap_or(0),
        };
        let is_chosen = |other: &SharedMemory| other.producer_name == memory.producer_name;
        if let Some(first_index) = chosen.iter().position(is_chosen) {
            let at = Place::ROOT.item("producers", index);
            if omissions.ignores(&at) {
                continue;
            }
            let name = memory.producer_name.as_deref().unwrap_or_default();
            return Err(at.field("producer_name").invalid(format!(
                "{name:?} is already the name of producers[{first_index}]; remove one of them"
            )));
        }
        chosen.push(memory);
    }
    Ok(chosen)
}

/// Converts the message about triggers. Returns `None` if it has no content.
fn triggers(
    message: message::TriggerConfig,
    at: &Place<'_>,
) -> Result<Option<Triggers>, ConfigError> {
    let mode = match message.trigger_mode.unwrap_or_default().0 {
        1 => TriggerMode::Start,
        2 => TriggerMode::Stop,
        4 => TriggerMode::CloneSnapshot,
        _ => {
            let says_nothing = message.triggers.is_empty()
                && message.trigger_timeout_ms.unwrap_or(0) == 0
                && !message.use_clone_snapshot_if_available.unwrap_or(false);
            return match says_nothing {
                true => Ok(None),
                false => Err(at
                    .field("trigger_mode")
                    .invalid("is missing; give START_TRACING, STOP_TRACING or CLONE_SNAPSHOT")),
            };
        }
    };
    let trigger = |trigger: message::trigger_config::Trigger| Trigger {
        name: trigger.name.unwrap_or_default(),
        producer_name_regex: trigger.producer_name_regex.unwrap_or_default(),
        stop_delay_ms: trigger.stop_delay_ms.unwrap_or(0),
        max_per_24_h: trigger.max_per_24_h.unwrap_or(0),
        skip_probability: trigger.skip_probability.unwrap_or(0.0),
    };
    Ok(Some(Triggers {
        mode,
        triggers: message.triggers.into_iter().map(trigger).collect(),
        trigger_timeout_ms: message.trigger_timeout_ms.unwrap_or(0),
        use_clone_snapshot_if_available: message.use_clone_snapshot_if_available.unwrap_or(false),
    }))
}

/// Returns the best compression among those that the message names and this build supports. If this
/// build supports none of them, returns no compression in a configuration of another program, and
/// otherwise the best one, which a later check refuses. Only the build matters here: every reader of
/// traces supports all compressions.
fn compression(
    message: message::CompressionConfig,
    is_older_deflate: bool,
    omissions: &mut Omissions,
) -> Compression {
    let is_newer_field = message.zstd.is_some() || message.deflate.is_some();
    let zstd = message.zstd.map(|zstd| Compression::Zstd {
        level: zstd.level.unwrap_or(DEFAULT_ZSTD_LEVEL),
    });
    let is_deflate = is_older_deflate || message.deflate.is_some();
    let deflate = is_deflate.then_some(Compression::Deflate);
    let named = [zstd, deflate].into_iter().flatten();
    let best = named
        .clone()
        .find(|way| way.remedy().is_none())
        .or_else(|| named.into_iter().next())
        .unwrap_or_default();
    let field = match is_newer_field {
        true => "compression",
        false => "compression_type",
    };
    match best.remedy().is_some() && omissions.ignores(&Place::ROOT.field(field)) {
        true => Compression::None,
        false => best,
    }
}

/// Returns `None` for 0, which means the default.
fn not_zero(value: Option<u32>) -> Option<u32> {
    value.filter(|&value| value != 0)
}

/// Returns `None` for an empty string, which means that the field is not set.
fn not_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
