//! Which names a configuration can use: a table that the build script makes of the schema.

/// A message.
#[derive(Debug)]
pub(super) struct MessageType {
    /// Without its scope.
    pub(super) name: &'static str,
    pub(super) fields: &'static [FieldType],
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct FieldType {
    pub(super) name: &'static str,
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) repeated: bool,
    /// Fields of a message with the same number here exclude each other.
    pub(super) oneof: Option<i32>,
}

/// What a field holds.
#[derive(Debug)]
pub(super) enum Kind {
    Bool,
    Uint32,
    Uint64,
    Int32,
    Int64,
    Double,
    String,
    Bytes,
    /// Names and numbers of the values.
    Enum(&'static [(&'static str, i32)]),
    Message(&'static MessageType),
}

impl MessageType {
    pub(super) fn field(&self, name: &str) -> Option<&'static FieldType> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The path of a field that a message in this one has, first in the order of the schema.
    pub(super) fn path_within(&self, name: &str) -> Option<String> {
        self.fields.iter().find_map(|field| {
            let Kind::Message(message_type) = field.kind else {
                return None;
            };
            let path = match message_type.field(name) {
                Some(found) => found.name.to_owned(),
                None => message_type.path_within(name)?,
            };
            Some(format!("{}.{path}", field.name))
        })
    }
}

/// The message that a text describes.
pub(super) static ROOT: &MessageType = &PERFETTO__PROTOS__TRACECONFIG;

/// Names of messages in `DataSourceConfig` for single data sources. Their schemas are not part of
/// this crate.
pub(super) static SOURCE_SPECIFIC: [&str; 44] = [
    "android_aflags_config",
    "android_game_intervention_list_config",
    "android_input_event_config",
    "android_log_config",
    "android_polled_state_config",
    "android_power_config",
    "android_sdk_sysprop_guard_config",
    "android_system_property_config",
    "app_wakelocks_config",
    "chrome_config",
    "chromium_histogram_samples",
    "chromium_sampling_heap_profiler",
    "chromium_stack_sampling_profiler",
    "chromium_system_metrics",
    "cpu_per_uid_config",
    "display_video_config",
    "etw_config",
    "for_testing",
    "frozen_ftrace_config",
    "ftrace_config",
    "gpu_counter_config",
    "gpu_renderstages_config",
    "heapprofd_config",
    "inode_file_config",
    "inputmethod_config",
    "java_hprof_config",
    "journald_config",
    "kernel_wakelocks_config",
    "network_packet_trace_config",
    "packages_list_config",
    "perf_event_config",
    "pixel_modem_config",
    "process_stats_config",
    "protolog_config",
    "qnx_config",
    "statsd_tracing_config",
    "surfaceflinger_layers_config",
    "surfaceflinger_transactions_config",
    "sys_stats_config",
    "system_info_config",
    "user_list_config",
    "v8_config",
    "vulkan_memory_config",
    "windowmanager_config",
];

include!(concat!(env!("OUT_DIR"), "/text_schema.rs"));
