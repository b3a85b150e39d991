//! The tables of a lake, and their columns.
//!
//! Names are those of Perfetto's trace processor where it has the table or column, so that queries
//! move over. Every table begins with `trace_id`, because a lake has the rows of many traces.

use std::borrow::Cow;

/// A table of a lake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Table {
    /// Traces: where each comes from, when it was recorded, how much it has and lacks.
    Trace,
    /// Attributes of traces: what the recording program said of itself. A trace that was merged from several has
    /// several identities.
    TraceAttr,
    /// Processes.
    Process,
    /// Threads.
    Thread,
    /// Tracks.
    Track,
    /// Slices (spans) and instants.
    Slice,
    /// Values of counters.
    Counter,
    /// Flows: arrows from a slice to a slice.
    Flow,
    /// Arguments of slices.
    Args,
    /// What threads did, if the trace has the kernel's scheduling events.
    ThreadState,
    /// What was lost: where packets are missing, and how many.
    Loss,
    /// Statistics of the service that recorded the trace.
    Stats,
    /// Faults of the trace, as `tracezero check` finds them.
    Finding,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name of the column.
    pub name: Cow<'static, str>,
    /// The type of its values.
    pub column_type: ColumnType,
    /// True if some rows have no value.
    pub is_nullable: bool,
}

/// The type of a column's values.
///
/// There are no unsigned integers and no times in nanoseconds, because Spark reads them as other
/// types, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// A signed integer of 64 bits.
    Int,
    /// A floating-point number of 64 bits.
    Real,
    /// A text in UTF-8.
    Text,
    /// A time in UTC, in microseconds.
    WallTime,
}

use ColumnType::{Int, Real, Text, WallTime};

/// A column that has a value in each row.
const fn key(name: &'static str, column_type: ColumnType) -> Column {
    Column {
        name: Cow::Borrowed(name),
        column_type,
        is_nullable: false,
    }
}

/// A column that may lack values.
const fn column(name: &'static str, column_type: ColumnType) -> Column {
    Column {
        name: Cow::Borrowed(name),
        column_type,
        is_nullable: true,
    }
}

const TRACE_ID: Column = key("trace_id", Text);

const TRACE: &[Column] = &[
    TRACE_ID,
    column("service_name", Text),
    column("service_version", Text),
    column("host", Text),
    column("host_id", Text),
    column("boot_id", Text),
    column("exe", Text),
    column("start_time", WallTime),
    column("start_ts", Int),
    column("dur", Int),
    key("packets", Int),
    key("events", Int),
    key("bytes", Int),
    key("lost_packets", Int),
    key("gaps", Int),
    key("open_slices", Int),
    key("errors", Int),
    key("source", Text),
    key("source_hash", Text),
    key("export_format", Text),
];

const TRACE_ATTR: &[Column] = &[
    TRACE_ID,
    key("identity", Int),
    key("machine_id", Int),
    key("key", Text),
    column("int_value", Int),
    column("string_value", Text),
];

const PROCESS: &[Column] = &[
    TRACE_ID,
    key("upid", Int),
    column("pid", Int),
    column("name", Text),
    key("machine_id", Int),
];

const THREAD: &[Column] = &[
    TRACE_ID,
    key("utid", Int),
    column("tid", Int),
    column("name", Text),
    column("upid", Int),
    column("is_main_thread", Int),
    key("machine_id", Int),
];

const TRACK: &[Column] = &[
    TRACE_ID,
    key("id", Int),
    key("uuid", Int),
    column("parent_id", Int),
    key("kind", Text),
    column("name", Text),
    column("utid", Int),
    column("upid", Int),
    column("unit", Text),
];

const SLICE: &[Column] = &[
    TRACE_ID,
    key("id", Int),
    key("ts", Int),
    key("dur", Int),
    column("self_dur", Int),
    key("track_id", Int),
    column("utid", Int),
    column("upid", Int),
    key("depth", Int),
    column("parent_id", Int),
    column("category", Text),
    column("name", Text),
    key("kind", Text),
    column("outcome", Text),
    column("arg_set_id", Int),
    column("thread_name", Text),
    column("process_name", Text),
    column("track_name", Text),
];

const COUNTER: &[Column] = &[
    TRACE_ID,
    key("ts", Int),
    key("track_id", Int),
    key("value", Real),
    column("value_int", Int),
];

const FLOW: &[Column] = &[
    TRACE_ID,
    key("flow_id", Int),
    key("slice_out", Int),
    key("slice_in", Int),
];

const ARGS: &[Column] = &[
    TRACE_ID,
    key("arg_set_id", Int),
    key("flat_key", Text),
    key("key", Text),
    key("value_type", Text),
    column("int_value", Int),
    column("real_value", Real),
    column("string_value", Text),
];

const THREAD_STATE: &[Column] = &[
    TRACE_ID,
    key("ts", Int),
    key("dur", Int),
    column("cpu", Int),
    key("utid", Int),
    column("state", Text),
    column("waker_utid", Int),
    column("syscall", Text),
];

const LOSS: &[Column] = &[
    TRACE_ID,
    key("kind", Text),
    key("sequence", Int),
    column("thread_name", Text),
    key("cause", Text),
    column("packets", Int),
    column("after_ts", Int),
    column("before_ts", Int),
];

const STATS: &[Column] = &[
    TRACE_ID,
    key("name", Text),
    column("idx", Int),
    key("severity", Text),
    key("value", Int),
];

const FINDING: &[Column] = &[
    TRACE_ID,
    key("rule", Text),
    key("level", Text),
    key("count", Int),
    column("first_packet", Int),
    key("first_text", Text),
];

impl Table {
    /// All tables, in the order in which an export writes them. The row of [`Trace`](Self::Trace) comes last: a
    /// trace that has one is complete.
    pub const ALL: [Self; 13] = [
        Self::TraceAttr,
        Self::Process,
        Self::Thread,
        Self::Track,
        Self::Slice,
        Self::Counter,
        Self::Flow,
        Self::Args,
        Self::ThreadState,
        Self::Loss,
        Self::Stats,
        Self::Finding,
        Self::Trace,
    ];

    /// Returns the name of the table, which is also the name of its folder in the lake.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::TraceAttr => "trace_attr",
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Track => "track",
            Self::Slice => "slice",
            Self::Counter => "counter",
            Self::Flow => "flow",
            Self::Args => "args",
            Self::ThreadState => "thread_state",
            Self::Loss => "loss",
            Self::Stats => "stats",
            Self::Finding => "finding",
        }
    }

    /// Returns the columns of the table, without promoted arguments.
    #[must_use]
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Self::Trace => TRACE,
            Self::TraceAttr => TRACE_ATTR,
            Self::Process => PROCESS,
            Self::Thread => THREAD,
            Self::Track => TRACK,
            Self::Slice => SLICE,
            Self::Counter => COUNTER,
            Self::Flow => FLOW,
            Self::Args => ARGS,
            Self::ThreadState => THREAD_STATE,
            Self::Loss => LOSS,
            Self::Stats => STATS,
            Self::Finding => FINDING,
        }
    }
}
