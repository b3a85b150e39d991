//! Fields of Perfetto's schema that this service does not support.

/// A field that is not supported.
pub(crate) struct UnsupportedField {
    /// The name of the message type that has the field.
    message: &'static str,
    number: u32,
    pub(crate) name: &'static str,
    /// Advice what to do instead.
    pub(crate) remedy: &'static str,
}

const fn field(
    message: &'static str,
    number: u32,
    name: &'static str,
    remedy: &'static str,
) -> UnsupportedField {
    UnsupportedField {
        message,
        number,
        name,
        remedy,
    }
}

const ANDROID_ONLY: &str = "leave it out (only Android's own tools use it)";
const PRIORITY: &str = "leave it out, and give the process its priority by other means";

static UNSUPPORTED: [UnsupportedField; 12] = [
    field("TraceConfig", 7, "statsd_metadata", ANDROID_ONLY),
    field(
        "TraceConfig",
        18,
        "activate_triggers",
        "activate the triggers once the session has started",
    ),
    field("TraceConfig", 25, "incident_report_config", ANDROID_ONLY),
    field("TraceConfig", 31, "statsd_logging", ANDROID_ONLY),
    field(
        "TraceConfig",
        33,
        "trace_filter",
        "leave it out, and filter the finished trace",
    ),
    field("TraceConfig", 34, "android_report_config", ANDROID_ONLY),
    field(
        "TraceConfig",
        35,
        "cmd_trace_start_delay",
        "use deferred_start, and start the session after the delay",
    ),
    field("TraceConfig", 40, "priority_boost", PRIORITY),
    field(
        "BuiltinDataSource",
        7,
        "prefer_suspend_clock_for_snapshot",
        "leave it out (intervals do not count suspended time)",
    ),
    field("DataSourceConfig", 10, "priority_boost", PRIORITY),
    field(
        "DataSourceConfig",
        12,
        "protovm_config",
        "leave it out (all packets then stay in the trace)",
    ),
    field(
        "DataSourceConfig",
        115,
        "interceptor_config",
        "leave it out, and read the packets from the trace",
    ),
];

/// Returns the unsupported field of a message type with this number, if there is one.
pub(crate) fn unsupported_number(message: &str, number: u32) -> Option<&'static UnsupportedField> {
    UNSUPPORTED
        .iter()
        .find(|field| field.message == message && field.number == number)
}

/// Returns the unsupported field of a message type with this name, if there is one.
#[cfg(feature = "text-config")]
pub(crate) fn unsupported_name(message: &str, name: &str) -> Option<&'static UnsupportedField> {
    UNSUPPORTED
        .iter()
        .find(|field| field.message == message && field.name == name)
}
