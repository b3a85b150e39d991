//! Options of a session that the message `TraceConfig` has no fields for.

use std::path::PathBuf;
use std::time::Duration;

use tracezero_core::small_map::SmallMap;

/// The default of [`LocalChoices::wait_limit`].
const DEFAULT_WAIT_LIMIT: Duration = Duration::from_secs(10);

/// Options of a session that the message `TraceConfig` has no fields for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalChoices {
    /// True if data sources that the configuration does not list are recorded, too, into buffer 0.
    pub records_all: bool,
    /// The longest time that a trace writer waits for a file that lags behind, unless
    /// `stall_limits` has a value for its data source.
    pub wait_limit: Duration,
    /// The sizes in KiB, by index of the buffer, to which ring buffers may grow while they are
    /// streamed into a file. Buffers that are not in the map have a fixed size.
    pub buffer_limits_kb: SmallMap<usize, u32>,
    /// The longest waits of trace writers, by index of the data source.
    pub stall_limits: SmallMap<usize, Duration>,
    /// True if the trace has no attributes but those of the configuration.
    pub without_trace_attributes: bool,
    /// The directory for crash files, if the session has them.
    pub crash_directory: Option<PathBuf>,
    /// The size of a segment, if the trace is written into segments.
    pub segment_bytes: Option<u64>,
}

impl Default for LocalChoices {
    fn default() -> Self {
        Self {
            records_all: false,
            wait_limit: DEFAULT_WAIT_LIMIT,
            buffer_limits_kb: SmallMap::new(),
            stall_limits: SmallMap::new(),
            without_trace_attributes: false,
            crash_directory: None,
            segment_bytes: None,
        }
    }
}
