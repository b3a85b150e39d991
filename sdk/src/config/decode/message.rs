//! The fields of a `TraceConfig`, and its smaller messages.

use super::super::output::TraceAttribute;
use super::super::shared_memory::SharedMemoryConfig;
use super::super::{
    BufferConfig, BuiltinDataSources, ConfigError, FillPolicy, LockdownMode, PrimaryTraceClock,
    SessionSemaphore, TraceAttributeValue, TraceConfig, WriteFlushMode,
};
use super::CompressionRead;
use super::data_source::data_source;
use super::field::{FieldAt, MessageAt};
use tracezero_core::protos::TraceAttributes as AttributesSchema;
use tracezero_core::protos::TraceConfig as Schema;
use tracezero_core::protos::trace_attributes::Attribute as AttributeSchema;
use tracezero_core::protos::trace_config as schema;
use tracezero_core::protos::trace_config::compression_config::Zstd as ZstdSchema;

const FILL_POLICIES: [(i32, FillPolicy); 3] = [
    (0, FillPolicy::Ring),
    (1, FillPolicy::Ring),
    (2, FillPolicy::Discard),
];
/// Each buffer is one of the second kind, which differs only in what it loses.
const BUFFER_MODES: [(i32, ()); 2] = [(0, ()), (1, ())];
const LOCKDOWN_MODES: [(i32, LockdownMode); 3] = [
    (0, LockdownMode::Unchanged),
    (LockdownMode::Clear as i32, LockdownMode::Clear),
    (LockdownMode::Set as i32, LockdownMode::Set),
];
const WRITE_FLUSH_MODES: [(i32, WriteFlushMode); 4] = [
    (0, WriteFlushMode::Auto),
    (WriteFlushMode::Auto as i32, WriteFlushMode::Auto),
    (WriteFlushMode::Disabled as i32, WriteFlushMode::Disabled),
    (WriteFlushMode::Enabled as i32, WriteFlushMode::Enabled),
];
const FFLUSH_MODES: [(i32, bool); 3] = [(0, false), (1, false), (2, true)];
/// By the older field: whether packets are compressed by zlib.
const COMPRESSION_TYPES: [(i32, bool); 2] = [(0, false), (1, true)];
const CLOCKS: [(i32, Option<PrimaryTraceClock>); 7] = {
    use PrimaryTraceClock::{
        Boottime, Monotonic, MonotonicCoarse, MonotonicRaw, Realtime, RealtimeCoarse,
    };
    [
        (0, None),
        (Realtime as i32, Some(Realtime)),
        (RealtimeCoarse as i32, Some(RealtimeCoarse)),
        (Monotonic as i32, Some(Monotonic)),
        (MonotonicCoarse as i32, Some(MonotonicCoarse)),
        (MonotonicRaw as i32, Some(MonotonicRaw)),
        (Boottime as i32, Some(Boottime)),
    ]
};
/// Level of Zstandard, unless chosen otherwise.
const DEFAULT_ZSTD_LEVEL: i32 = 1;

impl TraceConfig {
    /// Reads a field of the first group in the schema: what is recorded.
    pub(super) fn read_recorded(&mut self, field: FieldAt<'_, '_>) -> Result<(), ConfigError> {
        match field.number() {
            Schema::BUFFERS_FIELD_NUMBER => {
                let message = field.item("buffers", self.buffers.len())?;
                self.buffers.push(buffer(&message)?);
            }
            Schema::DATA_SOURCES_FIELD_NUMBER => {
                let message = field.item("data_sources", self.data_sources.len())?;
                self.data_sources.push(data_source(&message)?);
            }
            Schema::BUILTIN_DATA_SOURCES_FIELD_NUMBER => field
                .message("builtin_data_sources")?
                .read("BuiltinDataSource", |field| {
                    builtin(&mut self.builtin_data_sources, field)
                })?,
            Schema::PRODUCERS_FIELD_NUMBER => {
                let message = field.item("producers", self.shared_memory.len())?;
                let memory = shared_memory(&message)?;
                if self
                    .shared_memory
                    .iter()
                    .any(|other| other.producer_name == memory.producer_name)
                {
                    let name = memory.producer_name.as_deref().unwrap_or_default();
                    return Err(message
                        .at
                        .field("producer_name")
                        .invalid(format!("the memory of {name:?} is chosen before already")));
                }
                self.shared_memory.push(memory);
            }
            Schema::INCREMENTAL_STATE_CONFIG_FIELD_NUMBER => {
                type Schema<'w> = schema::IncrementalStateConfig<'w>;
                field.message("incremental_state_config")?.read(
                    "IncrementalStateConfig",
                    |field| match field.number() {
                        Schema::CLEAR_PERIOD_MS_FIELD_NUMBER => {
                            self.incremental_state_clear_period_ms =
                                field.u32("clear_period_ms")?;
                            Ok(())
                        }
                        _ => Err(field.refuse()),
                    },
                )?;
            }
            // There is one machine.
            Schema::TRACE_ALL_MACHINES_FIELD_NUMBER => {
                field.bool("trace_all_machines")?;
            }
            _ => return Err(field.refuse()),
        }
        Ok(())
    }

    /// Reads a field of the other groups: when the session starts and ends, how it reaches a file,
    /// who it is.
    pub(super) fn read_setting(&mut self, field: FieldAt<'_, '_>) -> Result<(), ConfigError> {
        match field.number() {
            Schema::DEFERRED_START_FIELD_NUMBER => {
                self.deferred_start = field.bool("deferred_start")?;
            }
            Schema::DURATION_MS_FIELD_NUMBER => self.duration_ms = field.u32("duration_ms")?,
            Schema::PREFER_SUSPEND_CLOCK_FOR_DURATION_FIELD_NUMBER => {
                self.prefer_suspend_clock_for_duration =
                    field.bool("prefer_suspend_clock_for_duration")?;
            }
            Schema::DATA_SOURCE_STOP_TIMEOUT_MS_FIELD_NUMBER => {
                self.data_source_stop_timeout_ms = field.u32("data_source_stop_timeout_ms")?;
            }
            Schema::WRITE_INTO_FILE_FIELD_NUMBER => {
                self.write_into_file = field.bool("write_into_file")?;
            }
            Schema::OUTPUT_PATH_FIELD_NUMBER => self.output_path = field.name("output_path")?,
            Schema::FILE_WRITE_PERIOD_MS_FIELD_NUMBER => {
                self.file_write_period_ms = field.u32("file_write_period_ms")?;
            }
            Schema::MAX_FILE_SIZE_BYTES_FIELD_NUMBER => {
                self.max_file_size_bytes = field.u64("max_file_size_bytes")?;
            }
            Schema::FLUSH_PERIOD_MS_FIELD_NUMBER => {
                self.flush_period_ms = field.u32("flush_period_ms")?;
            }
            Schema::FLUSH_TIMEOUT_MS_FIELD_NUMBER => {
                self.flush_timeout_ms = field.u32("flush_timeout_ms")?;
            }
            Schema::WRITE_FLUSH_MODE_FIELD_NUMBER => {
                self.write_flush_mode = field.choice("write_flush_mode", &WRITE_FLUSH_MODES)?;
            }
            Schema::FFLUSH_POST_WRITE_FIELD_NUMBER => {
                self.fflush_post_write = field.choice("fflush_post_write", &FFLUSH_MODES)?;
            }
            Schema::UNIQUE_SESSION_NAME_FIELD_NUMBER => {
                self.unique_session_name = field.name("unique_session_name")?;
            }
            Schema::TRACE_UUID_MSB_FIELD_NUMBER => {
                self.trace_uuid.0 = field.i64("trace_uuid_msb")?;
            }
            Schema::TRACE_UUID_LSB_FIELD_NUMBER => {
                self.trace_uuid.1 = field.i64("trace_uuid_lsb")?;
            }
            Schema::TRACE_ATTRIBUTES_FIELD_NUMBER => self.read_attributes(field)?,
            Schema::BUGREPORT_SCORE_FIELD_NUMBER => {
                self.bugreport_score = field.i32("bugreport_score")?;
            }
            Schema::BUGREPORT_FILENAME_FIELD_NUMBER => {
                self.bugreport_filename = field.name("bugreport_filename")?;
            }
            Schema::ENABLE_EXTRA_GUARDRAILS_FIELD_NUMBER => {
                self.enable_extra_guardrails = field.bool("enable_extra_guardrails")?;
            }
            Schema::GUARDRAIL_OVERRIDES_FIELD_NUMBER => self.read_overrides(field)?,
            Schema::LOCKDOWN_MODE_FIELD_NUMBER => {
                self.lockdown_mode = field.choice("lockdown_mode", &LOCKDOWN_MODES)?;
            }
            Schema::SESSION_SEMAPHORES_FIELD_NUMBER => {
                let message = field.item("session_semaphores", self.session_semaphores.len())?;
                self.session_semaphores.push(semaphore(&message)?);
            }
            Schema::EXCLUSIVE_PRIO_FIELD_NUMBER => {
                self.exclusive_prio = field.u32("exclusive_prio")?;
            }
            // The service of the reference implementation ignores them, too.
            Schema::NOTIFY_TRACEUR_FIELD_NUMBER | Schema::ALLOW_USER_BUILD_TRACING_FIELD_NUMBER => {
            }
            _ => return Err(field.refuse()),
        }
        Ok(())
    }

    fn read_overrides(&mut self, field: FieldAt<'_, '_>) -> Result<(), ConfigError> {
        type Schema<'w> = schema::GuardrailOverrides<'w>;
        field
            .message("guardrail_overrides")?
            .read("GuardrailOverrides", |field| match field.number() {
                Schema::MAX_TRACING_BUFFER_SIZE_KB_FIELD_NUMBER => {
                    self.guardrail_max_tracing_buffer_size_kb =
                        field.u32("max_tracing_buffer_size_kb")?;
                    Ok(())
                }
                // The service of the reference implementation ignores it, too.
                Schema::MAX_UPLOAD_PER_DAY_BYTES_FIELD_NUMBER => Ok(()),
                _ => Err(field.refuse()),
            })
    }

    fn read_attributes(&mut self, field: FieldAt<'_, '_>) -> Result<(), ConfigError> {
        field
            .message("trace_attributes")?
            .read("TraceAttributes", |field| match field.number() {
                AttributesSchema::ATTRIBUTE_FIELD_NUMBER => {
                    let message = field.item("attribute", self.trace_attributes.len())?;
                    self.trace_attributes.push(attribute(&message)?);
                    Ok(())
                }
                _ => Err(field.refuse()),
            })
    }
}

impl CompressionRead {
    /// Reads the field with the ways to compress, or the older one.
    pub(super) fn read(&mut self, field: FieldAt<'_, '_>) -> Result<(), ConfigError> {
        type Schema<'w> = schema::CompressionConfig<'w>;
        if field.number() == tracezero_core::protos::TraceConfig::COMPRESSION_TYPE_FIELD_NUMBER {
            self.deflate |= field.choice("compression_type", &COMPRESSION_TYPES)?;
            return Ok(());
        }
        field
            .message("compression")?
            .read("CompressionConfig", |field| match field.number() {
                Schema::DEFLATE_FIELD_NUMBER => {
                    self.deflate = true;
                    field
                        .message("deflate")?
                        .read("Deflate", |field| Err(field.refuse()))
                }
                Schema::ZSTD_FIELD_NUMBER => {
                    let level = self.zstd_level.get_or_insert(DEFAULT_ZSTD_LEVEL);
                    field
                        .message("zstd")?
                        .read("Zstd", |field| match field.number() {
                            ZstdSchema::LEVEL_FIELD_NUMBER => {
                                *level = field.i32("level")?;
                                Ok(())
                            }
                            _ => Err(field.refuse()),
                        })
                }
                _ => Err(field.refuse()),
            })
    }
}

fn buffer(message: &MessageAt<'_, '_>) -> Result<BufferConfig, ConfigError> {
    type Schema<'w> = schema::BufferConfig<'w>;
    let mut buffer = BufferConfig::ring(0);
    message.read("BufferConfig", |field| {
        match field.number() {
            Schema::SIZE_KB_FIELD_NUMBER => buffer.size_kb = field.u32("size_kb")?,
            Schema::FILL_POLICY_FIELD_NUMBER => {
                buffer.fill_policy = field.choice("fill_policy", &FILL_POLICIES)?;
            }
            Schema::TRANSFER_ON_CLONE_FIELD_NUMBER => {
                buffer.transfer_on_clone = field.bool("transfer_on_clone")?;
            }
            Schema::CLEAR_BEFORE_CLONE_FIELD_NUMBER => {
                buffer.clear_before_clone = field.bool("clear_before_clone")?;
            }
            Schema::NAME_FIELD_NUMBER => buffer.name = field.name("name")?,
            Schema::EXPERIMENTAL_MODE_FIELD_NUMBER => {
                field.choice("experimental_mode", &BUFFER_MODES)?;
            }
            _ => return Err(field.refuse()),
        }
        Ok(())
    })?;
    Ok(buffer)
}

fn builtin(builtin: &mut BuiltinDataSources, field: FieldAt<'_, '_>) -> Result<(), ConfigError> {
    type Schema<'w> = schema::BuiltinDataSource<'w>;
    match field.number() {
        Schema::DISABLE_CLOCK_SNAPSHOTTING_FIELD_NUMBER => {
            builtin.disable_clock_snapshotting = field.bool("disable_clock_snapshotting")?;
        }
        Schema::DISABLE_TRACE_CONFIG_FIELD_NUMBER => {
            builtin.disable_trace_config = field.bool("disable_trace_config")?;
        }
        Schema::DISABLE_SYSTEM_INFO_FIELD_NUMBER => {
            builtin.disable_system_info = field.bool("disable_system_info")?;
        }
        Schema::DISABLE_SERVICE_EVENTS_FIELD_NUMBER => {
            builtin.disable_service_events = field.bool("disable_service_events")?;
        }
        Schema::PRIMARY_TRACE_CLOCK_FIELD_NUMBER => {
            builtin.primary_trace_clock = field.choice("primary_trace_clock", &CLOCKS)?;
        }
        Schema::SNAPSHOT_INTERVAL_MS_FIELD_NUMBER => {
            builtin.snapshot_interval_ms = field.u32("snapshot_interval_ms")?;
        }
        Schema::DISABLE_CHUNK_USAGE_HISTOGRAMS_FIELD_NUMBER => {
            builtin.disable_chunk_usage_histograms =
                field.bool("disable_chunk_usage_histograms")?;
        }
        Schema::DISABLE_EXTENSION_DESCRIPTORS_FIELD_NUMBER => {
            builtin.disable_extension_descriptors = field.bool("disable_extension_descriptors")?;
        }
        Schema::ENABLE_CONCURRENT_SESSION_EVENTS_FIELD_NUMBER => {
            builtin.enable_concurrent_session_events =
                field.bool("enable_concurrent_session_events")?;
        }
        _ => return Err(field.refuse()),
    }
    Ok(())
}

fn shared_memory(message: &MessageAt<'_, '_>) -> Result<SharedMemoryConfig, ConfigError> {
    type Schema<'w> = schema::ProducerConfig<'w>;
    let mut memory = SharedMemoryConfig {
        producer_name: None,
        size_kb: 0,
        page_size_kb: 0,
    };
    message.read("ProducerConfig", |field| {
        match field.number() {
            Schema::PRODUCER_NAME_FIELD_NUMBER => {
                memory.producer_name = field.name("producer_name")?;
            }
            Schema::SHM_SIZE_KB_FIELD_NUMBER => memory.size_kb = field.u32("shm_size_kb")?,
            Schema::PAGE_SIZE_KB_FIELD_NUMBER => memory.page_size_kb = field.u32("page_size_kb")?,
            _ => return Err(field.refuse()),
        }
        Ok(())
    })?;
    Ok(memory)
}

fn semaphore(message: &MessageAt<'_, '_>) -> Result<SessionSemaphore, ConfigError> {
    type Schema<'w> = schema::SessionSemaphore<'w>;
    let mut semaphore = SessionSemaphore::new("", 0);
    message.read("SessionSemaphore", |field| {
        match field.number() {
            Schema::NAME_FIELD_NUMBER => semaphore.name = field.string("name")?,
            Schema::MAX_OTHER_SESSION_COUNT_FIELD_NUMBER => {
                semaphore.max_other_session_count = field.u64("max_other_session_count")?;
            }
            _ => return Err(field.refuse()),
        }
        Ok(())
    })?;
    Ok(semaphore)
}

fn attribute(message: &MessageAt<'_, '_>) -> Result<TraceAttribute, ConfigError> {
    let mut attribute = TraceAttribute {
        key: String::new(),
        value: None,
    };
    message.read("Attribute", |field| {
        match field.number() {
            AttributeSchema::KEY_FIELD_NUMBER => attribute.key = field.string("key")?,
            AttributeSchema::LONG_VALUE_FIELD_NUMBER => {
                let value = field.i64("long_value")?;
                attribute.value = Some(TraceAttributeValue::Long(value));
            }
            AttributeSchema::STRING_VALUE_FIELD_NUMBER => {
                let value = field.string("string_value")?;
                attribute.value = Some(TraceAttributeValue::Text(value));
            }
            _ => return Err(field.refuse()),
        }
        Ok(())
    })?;
    Ok(attribute)
}
