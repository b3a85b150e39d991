// Made of the schema by `tests/schema_table.rs`.

static PERFETTO__PROTOS__TRACECONFIG: MessageType = MessageType { name: "TraceConfig", fields: &[
    FieldType { name: "buffers", number: 1, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__BUFFERCONFIG), repeated: true, oneof: None },
    FieldType { name: "data_sources", number: 2, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__DATASOURCE), repeated: true, oneof: None },
    FieldType { name: "builtin_data_sources", number: 20, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__BUILTINDATASOURCE), repeated: false, oneof: None },
    FieldType { name: "producers", number: 6, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__PRODUCERCONFIG), repeated: true, oneof: None },
    FieldType { name: "incremental_state_config", number: 21, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__INCREMENTALSTATECONFIG), repeated: false, oneof: None },
    FieldType { name: "trace_all_machines", number: 43, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "deferred_start", number: 12, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "duration_ms", number: 3, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "prefer_suspend_clock_for_duration", number: 36, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "data_source_stop_timeout_ms", number: 23, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "trigger_config", number: 17, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__TRIGGERCONFIG), repeated: false, oneof: None },
    FieldType { name: "write_into_file", number: 8, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "output_path", number: 29, kind: Kind::String, repeated: false, oneof: None },
    FieldType { name: "file_write_period_ms", number: 9, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "max_file_size_bytes", number: 10, kind: Kind::Uint64, repeated: false, oneof: None },
    FieldType { name: "flush_period_ms", number: 13, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "flush_timeout_ms", number: 14, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "write_flush_mode", number: 44, kind: Kind::Enum(&[("WRITE_FLUSH_UNSPECIFIED", 0), ("WRITE_FLUSH_AUTO", 1), ("WRITE_FLUSH_DISABLED", 2), ("WRITE_FLUSH_ENABLED", 3)]), repeated: false, oneof: None },
    FieldType { name: "fflush_post_write", number: 45, kind: Kind::Enum(&[("FFLUSH_UNSPECIFIED", 0), ("FFLUSH_DISABLED", 1), ("FFLUSH_ENABLED", 2)]), repeated: false, oneof: None },
    FieldType { name: "compression_type", number: 24, kind: Kind::Enum(&[("COMPRESSION_TYPE_UNSPECIFIED", 0), ("COMPRESSION_TYPE_DEFLATE", 1)]), repeated: false, oneof: None },
    FieldType { name: "compression", number: 47, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__COMPRESSIONCONFIG), repeated: false, oneof: None },
    FieldType { name: "trace_filter", number: 33, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__TRACEFILTER), repeated: false, oneof: None },
    FieldType { name: "unique_session_name", number: 22, kind: Kind::String, repeated: false, oneof: None },
    FieldType { name: "trace_uuid_msb", number: 27, kind: Kind::Int64, repeated: false, oneof: None },
    FieldType { name: "trace_uuid_lsb", number: 28, kind: Kind::Int64, repeated: false, oneof: None },
    FieldType { name: "trace_attributes", number: 48, kind: Kind::Message(&PERFETTO__PROTOS__TRACEATTRIBUTES), repeated: false, oneof: None },
    FieldType { name: "bugreport_score", number: 30, kind: Kind::Int32, repeated: false, oneof: None },
    FieldType { name: "bugreport_filename", number: 38, kind: Kind::String, repeated: false, oneof: None },
    FieldType { name: "enable_extra_guardrails", number: 4, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "guardrail_overrides", number: 11, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__GUARDRAILOVERRIDES), repeated: false, oneof: None },
    FieldType { name: "lockdown_mode", number: 5, kind: Kind::Enum(&[("LOCKDOWN_UNCHANGED", 0), ("LOCKDOWN_CLEAR", 1), ("LOCKDOWN_SET", 2)]), repeated: false, oneof: None },
    FieldType { name: "session_semaphores", number: 39, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__SESSIONSEMAPHORE), repeated: true, oneof: None },
    FieldType { name: "priority_boost", number: 40, kind: Kind::Message(&PERFETTO__PROTOS__PRIORITYBOOSTCONFIG), repeated: false, oneof: None },
    FieldType { name: "exclusive_prio", number: 41, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "notify_traceur", number: 16, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "allow_user_build_tracing", number: 19, kind: Kind::Bool, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__BUFFERCONFIG: MessageType = MessageType { name: "BufferConfig", fields: &[
    FieldType { name: "size_kb", number: 1, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "fill_policy", number: 4, kind: Kind::Enum(&[("UNSPECIFIED", 0), ("RING_BUFFER", 1), ("DISCARD", 2)]), repeated: false, oneof: None },
    FieldType { name: "transfer_on_clone", number: 5, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "clear_before_clone", number: 6, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "name", number: 7, kind: Kind::String, repeated: false, oneof: None },
    FieldType { name: "experimental_mode", number: 8, kind: Kind::Enum(&[("MODE_UNSPECIFIED", 0), ("TRACE_BUFFER_V2", 1)]), repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__DATASOURCE: MessageType = MessageType { name: "DataSource", fields: &[
    FieldType { name: "config", number: 1, kind: Kind::Message(&PERFETTO__PROTOS__DATASOURCECONFIG), repeated: false, oneof: None },
    FieldType { name: "producer_name_filter", number: 2, kind: Kind::String, repeated: true, oneof: None },
    FieldType { name: "producer_name_regex_filter", number: 3, kind: Kind::String, repeated: true, oneof: None },
    FieldType { name: "machine_name_filter", number: 4, kind: Kind::String, repeated: true, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__BUILTINDATASOURCE: MessageType = MessageType { name: "BuiltinDataSource", fields: &[
    FieldType { name: "disable_clock_snapshotting", number: 1, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "disable_trace_config", number: 2, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "disable_system_info", number: 3, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "disable_service_events", number: 4, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "primary_trace_clock", number: 5, kind: Kind::Enum(&[("BUILTIN_CLOCK_UNKNOWN", 0), ("BUILTIN_CLOCK_REALTIME", 1), ("BUILTIN_CLOCK_REALTIME_COARSE", 2), ("BUILTIN_CLOCK_MONOTONIC", 3), ("BUILTIN_CLOCK_MONOTONIC_COARSE", 4), ("BUILTIN_CLOCK_MONOTONIC_RAW", 5), ("BUILTIN_CLOCK_BOOTTIME", 6), ("BUILTIN_CLOCK_TSC", 9), ("BUILTIN_CLOCK_PERF", 10), ("BUILTIN_CLOCK_MAX_ID", 63)]), repeated: false, oneof: None },
    FieldType { name: "snapshot_interval_ms", number: 6, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "prefer_suspend_clock_for_snapshot", number: 7, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "disable_chunk_usage_histograms", number: 8, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "disable_extension_descriptors", number: 9, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "enable_concurrent_session_events", number: 10, kind: Kind::Bool, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__PRODUCERCONFIG: MessageType = MessageType { name: "ProducerConfig", fields: &[
    FieldType { name: "producer_name", number: 1, kind: Kind::String, repeated: false, oneof: None },
    FieldType { name: "shm_size_kb", number: 2, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "page_size_kb", number: 3, kind: Kind::Uint32, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__INCREMENTALSTATECONFIG: MessageType = MessageType { name: "IncrementalStateConfig", fields: &[
    FieldType { name: "clear_period_ms", number: 1, kind: Kind::Uint32, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__TRIGGERCONFIG: MessageType = MessageType { name: "TriggerConfig", fields: &[
    FieldType { name: "trigger_mode", number: 1, kind: Kind::Enum(&[("UNSPECIFIED", 0), ("START_TRACING", 1), ("STOP_TRACING", 2), ("CLONE_SNAPSHOT", 4)]), repeated: false, oneof: None },
    FieldType { name: "triggers", number: 2, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__TRIGGERCONFIG__TRIGGER), repeated: true, oneof: None },
    FieldType { name: "trigger_timeout_ms", number: 3, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "use_clone_snapshot_if_available", number: 5, kind: Kind::Bool, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__COMPRESSIONCONFIG: MessageType = MessageType { name: "CompressionConfig", fields: &[
    FieldType { name: "deflate", number: 1, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__COMPRESSIONCONFIG__DEFLATE), repeated: false, oneof: None },
    FieldType { name: "zstd", number: 2, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__COMPRESSIONCONFIG__ZSTD), repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__TRACEFILTER: MessageType = MessageType { name: "TraceFilter", fields: &[
    FieldType { name: "bytecode", number: 1, kind: Kind::Bytes, repeated: false, oneof: None },
    FieldType { name: "bytecode_v2", number: 2, kind: Kind::Bytes, repeated: false, oneof: None },
    FieldType { name: "string_filter_chain", number: 3, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__TRACEFILTER__STRINGFILTERCHAIN), repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACEATTRIBUTES: MessageType = MessageType { name: "TraceAttributes", fields: &[
    FieldType { name: "attribute", number: 1, kind: Kind::Message(&PERFETTO__PROTOS__TRACEATTRIBUTES__ATTRIBUTE), repeated: true, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__GUARDRAILOVERRIDES: MessageType = MessageType { name: "GuardrailOverrides", fields: &[
    FieldType { name: "max_upload_per_day_bytes", number: 1, kind: Kind::Uint64, repeated: false, oneof: None },
    FieldType { name: "max_tracing_buffer_size_kb", number: 2, kind: Kind::Uint32, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__SESSIONSEMAPHORE: MessageType = MessageType { name: "SessionSemaphore", fields: &[
    FieldType { name: "name", number: 1, kind: Kind::String, repeated: false, oneof: None },
    FieldType { name: "max_other_session_count", number: 2, kind: Kind::Uint64, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__PRIORITYBOOSTCONFIG: MessageType = MessageType { name: "PriorityBoostConfig", fields: &[
    FieldType { name: "policy", number: 1, kind: Kind::Enum(&[("POLICY_UNSPECIFIED", 0), ("POLICY_SCHED_OTHER", 1), ("POLICY_SCHED_FIFO", 2)]), repeated: false, oneof: None },
    FieldType { name: "priority", number: 2, kind: Kind::Uint32, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__DATASOURCECONFIG: MessageType = MessageType { name: "DataSourceConfig", fields: &[
    FieldType { name: "name", number: 1, kind: Kind::String, repeated: false, oneof: None },
    FieldType { name: "target_buffer", number: 2, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "target_buffer_name", number: 11, kind: Kind::String, repeated: false, oneof: None },
    FieldType { name: "buffer_exhausted_policy", number: 9, kind: Kind::Enum(&[("BUFFER_EXHAUSTED_UNSPECIFIED", 0), ("BUFFER_EXHAUSTED_DROP", 1), ("BUFFER_EXHAUSTED_STALL_THEN_ABORT", 2), ("BUFFER_EXHAUSTED_STALL_THEN_DROP", 3)]), repeated: false, oneof: None },
    FieldType { name: "priority_boost", number: 10, kind: Kind::Message(&PERFETTO__PROTOS__PRIORITYBOOSTCONFIG), repeated: false, oneof: None },
    FieldType { name: "protovm_config", number: 12, kind: Kind::Message(&PERFETTO__PROTOS__PROTOVMCONFIG), repeated: false, oneof: None },
    FieldType { name: "trace_duration_ms", number: 3, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "tracing_session_id", number: 4, kind: Kind::Uint64, repeated: false, oneof: None },
    FieldType { name: "enable_extra_guardrails", number: 6, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "stop_timeout_ms", number: 7, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "session_initiator", number: 8, kind: Kind::Enum(&[("SESSION_INITIATOR_UNSPECIFIED", 0), ("SESSION_INITIATOR_TRUSTED_SYSTEM", 1)]), repeated: false, oneof: None },
    FieldType { name: "prefer_suspend_clock_for_duration", number: 122, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "track_event_config", number: 113, kind: Kind::Message(&PERFETTO__PROTOS__TRACKEVENTCONFIG), repeated: false, oneof: None },
    FieldType { name: "interceptor_config", number: 115, kind: Kind::Message(&PERFETTO__PROTOS__INTERCEPTORCONFIG), repeated: false, oneof: None },
    FieldType { name: "legacy_config", number: 1000, kind: Kind::String, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__TRIGGERCONFIG__TRIGGER: MessageType = MessageType { name: "Trigger", fields: &[
    FieldType { name: "name", number: 1, kind: Kind::String, repeated: false, oneof: None },
    FieldType { name: "producer_name_regex", number: 2, kind: Kind::String, repeated: false, oneof: None },
    FieldType { name: "stop_delay_ms", number: 3, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "max_per_24_h", number: 4, kind: Kind::Uint32, repeated: false, oneof: None },
    FieldType { name: "skip_probability", number: 5, kind: Kind::Double, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__COMPRESSIONCONFIG__DEFLATE: MessageType = MessageType { name: "Deflate", fields: &[
] };
static PERFETTO__PROTOS__TRACECONFIG__COMPRESSIONCONFIG__ZSTD: MessageType = MessageType { name: "Zstd", fields: &[
    FieldType { name: "level", number: 1, kind: Kind::Int32, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__TRACEFILTER__STRINGFILTERCHAIN: MessageType = MessageType { name: "StringFilterChain", fields: &[
    FieldType { name: "rules", number: 1, kind: Kind::Message(&PERFETTO__PROTOS__TRACECONFIG__TRACEFILTER__STRINGFILTERRULE), repeated: true, oneof: None },
] };
static PERFETTO__PROTOS__TRACEATTRIBUTES__ATTRIBUTE: MessageType = MessageType { name: "Attribute", fields: &[
    FieldType { name: "key", number: 1, kind: Kind::String, repeated: false, oneof: None },
    FieldType { name: "long_value", number: 2, kind: Kind::Int64, repeated: false, oneof: Some(0) },
    FieldType { name: "string_value", number: 3, kind: Kind::String, repeated: false, oneof: Some(0) },
] };
static PERFETTO__PROTOS__PROTOVMCONFIG: MessageType = MessageType { name: "ProtoVmConfig", fields: &[
    FieldType { name: "memory_limit_kb", number: 1, kind: Kind::Uint32, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACKEVENTCONFIG: MessageType = MessageType { name: "TrackEventConfig", fields: &[
    FieldType { name: "disabled_categories", number: 1, kind: Kind::String, repeated: true, oneof: None },
    FieldType { name: "enabled_categories", number: 2, kind: Kind::String, repeated: true, oneof: None },
    FieldType { name: "disabled_tags", number: 3, kind: Kind::String, repeated: true, oneof: None },
    FieldType { name: "enabled_tags", number: 4, kind: Kind::String, repeated: true, oneof: None },
    FieldType { name: "disable_incremental_timestamps", number: 5, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "timestamp_unit_multiplier", number: 6, kind: Kind::Uint64, repeated: false, oneof: None },
    FieldType { name: "filter_debug_annotations", number: 7, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "enable_thread_time_sampling", number: 8, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "filter_dynamic_event_names", number: 9, kind: Kind::Bool, repeated: false, oneof: None },
    FieldType { name: "thread_time_subsampling_ns", number: 10, kind: Kind::Uint64, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__INTERCEPTORCONFIG: MessageType = MessageType { name: "InterceptorConfig", fields: &[
    FieldType { name: "name", number: 1, kind: Kind::String, repeated: false, oneof: None },
] };
static PERFETTO__PROTOS__TRACECONFIG__TRACEFILTER__STRINGFILTERRULE: MessageType = MessageType { name: "StringFilterRule", fields: &[
    FieldType { name: "policy", number: 1, kind: Kind::Enum(&[("SFP_UNSPECIFIED", 0), ("SFP_MATCH_REDACT_GROUPS", 1), ("SFP_ATRACE_MATCH_REDACT_GROUPS", 2), ("SFP_MATCH_BREAK", 3), ("SFP_ATRACE_MATCH_BREAK", 4), ("SFP_ATRACE_REPEATED_SEARCH_REDACT_GROUPS", 5)]), repeated: false, oneof: None },
    FieldType { name: "regex_pattern", number: 2, kind: Kind::String, repeated: false, oneof: None },
    FieldType { name: "atrace_payload_starts_with", number: 3, kind: Kind::String, repeated: false, oneof: None },
] };
