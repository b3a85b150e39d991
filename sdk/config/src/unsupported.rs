//! Fields of Perfetto's schema that this service does not support.
//!
//! The treatment of the fields of `TraceConfig` and `DataSourceConfig`, and of the messages inside
//! of them:
//!
//! | fields | configuration for this service | of another program |
//! |---|---|---|
//! | those that this file does not mention | carried out | carried out |
//! | [`UNSUPPORTED`], ignored | refused | ignored and listed |
//! | [`UNSUPPORTED`], passed on | refused | meant for the data source, which gets them |
//! | [`UNSUPPORTED`], refused | refused | refused: the trace would contain what it must not |
//! | of a data source, from 100 on, known | checked, passed on | passed on |
//! | of a data source, from 100 on, unknown | passed on | passed on |
//! | unknown | refused | ignored and listed |
//! | enums with unknown values | refused | ignored and listed, except [`VALUES_REFUSED`] |
//! | `primary_trace_clock` of a clock that snapshots lack | refused | ignored and listed |
//! | `compression` that this build lacks | refused | ignored and listed |
//! | `machine_name_filter` of other machines | refused | listed; without `host`, not recorded |
//! | sizes of shared memories that are not allowed | refused | left to whoever makes the memory |
//! | two entries of `producers` with one name | refused | the first counts, the others are listed |
//! | `target_buffer` 0 beside a name | must agree | does not count |
//!
//! The service replaces the fields 2 to 4 and 6 to 8 of each data source by its own values, and
//! `prefer_suspend_clock_for_duration` by `true` if the session has it. So a consumer cannot
//! pretend in `session_initiator` to be trusted. Fields for the program that makes the
//! configuration have no effect: `notify_traceur`, `allow_user_build_tracing` and
//! `max_upload_per_day_bytes`. Nor has `experimental_mode`: there is one kind of buffer.

/// A field that is not supported.
pub(crate) struct UnsupportedField {
    /// The name of the message type that has the field.
    message: &'static str,
    number: u32,
    pub(crate) name: &'static str,
    /// The treatment of the field in a configuration of another program.
    pub(crate) foreign: Foreign,
    /// Advice what to do instead.
    pub(crate) remedy: &'static str,
}

/// The treatment of an unsupported field in a configuration of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// The trace has more or less than was asked for, but nothing that it must not have.
    Ignored,
    /// The data source decides.
    PassedOn,
    /// The trace would contain what it must not, so nothing is recorded.
    Refused,
}

const fn field(
    message: &'static str,
    number: u32,
    name: &'static str,
    foreign: Foreign,
    remedy: &'static str,
) -> UnsupportedField {
    UnsupportedField {
        message,
        number,
        name,
        foreign,
        remedy,
    }
}

const ANDROID_ONLY: &str = "leave it out (only Android's own tools use it)";
const PRIORITY: &str = "leave it out, and give the process its priority by other means";
const FILTER: &str = "leave it out, and filter the finished trace";

static UNSUPPORTED: [UnsupportedField; 13] = [
    // Set by the `perfetto` command in every configuration; for the service only a note.
    field(
        "TraceConfig",
        7,
        "statsd_metadata",
        Foreign::Ignored,
        ANDROID_ONLY,
    ),
    // The `perfetto` command activates the triggers itself, and starts no session.
    field(
        "TraceConfig",
        18,
        "activate_triggers",
        Foreign::Ignored,
        "activate the triggers once the session has started",
    ),
    // The `perfetto` command makes the report itself.
    field(
        "TraceConfig",
        25,
        "incident_report_config",
        Foreign::Ignored,
        ANDROID_ONLY,
    ),
    // Set by the `perfetto` command in every configuration; Android's service logs more.
    field(
        "TraceConfig",
        31,
        "statsd_logging",
        Foreign::Ignored,
        ANDROID_ONLY,
    ),
    // Without the filter, the trace contains what the consumer must not see.
    field("TraceConfig", 33, "trace_filter", Foreign::Refused, FILTER),
    // The number that the first versions of Perfetto gave the filter.
    field("TraceConfig", 32, "trace_filter", Foreign::Refused, FILTER),
    // The `perfetto` command makes the report itself.
    field(
        "TraceConfig",
        34,
        "android_report_config",
        Foreign::Ignored,
        ANDROID_ONLY,
    ),
    // The `perfetto` command waits itself.
    field(
        "TraceConfig",
        35,
        "cmd_trace_start_delay",
        Foreign::Ignored,
        "use deferred_start, and start the session after the delay",
    ),
    // The service runs at its own priority.
    field(
        "TraceConfig",
        40,
        "priority_boost",
        Foreign::Ignored,
        PRIORITY,
    ),
    // The notes of `perfetto --add-note` in Perfetto 56. The trace contains them all the same.
    field(
        "TraceConfig",
        46,
        "notes",
        Foreign::Ignored,
        "use trace_attributes",
    ),
    // A suspended machine gets its snapshots later.
    field(
        "BuiltinDataSource",
        7,
        "prefer_suspend_clock_for_snapshot",
        Foreign::Ignored,
        "leave it out (intervals do not count suspended time)",
    ),
    // Producers raise the priority of their own threads.
    field(
        "DataSourceConfig",
        10,
        "priority_boost",
        Foreign::PassedOn,
        PRIORITY,
    ),
    // Producers intercept their own packets.
    field(
        "DataSourceConfig",
        115,
        "interceptor_config",
        Foreign::PassedOn,
        "leave it out, and read the packets from the trace",
    ),
];

/// Enums whose unknown values are refused in every configuration. They decide what a trace has
/// lost, whose events it has, and when it ends. Unknown values of other enums leave the defaults.
const VALUES_REFUSED: [&str; 3] = ["fill_policy", "lockdown_mode", "trigger_mode"];

/// Returns true if values of this field that the schema does not have are refused in every
/// configuration.
pub(crate) fn refuses_unknown_values(field: &str) -> bool {
    VALUES_REFUSED.contains(&field)
}

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
