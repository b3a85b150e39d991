//! Choices that the message has no fields for.

use std::time::Duration;

use tracezero_core::small_map::SmallMap;

/// How long a writer waits for a file that lags behind, unless the configuration says.
const DEFAULT_WAIT_LIMIT: Duration = Duration::from_secs(10);

/// Choices for a session of this process, beside the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalChoices {
    /// Records data sources that are not listed, too, into buffer 0.
    pub records_all: bool,
    /// The longest wait of writers for a file that lags behind, unless their data source says.
    pub wait_limit: Duration,
    /// Sizes in KiB, by index of the buffer, to which rings grow that are streamed into a file.
    /// The others have a fixed size.
    pub buffer_limits_kb: SmallMap<usize, u32>,
    /// The longest waits, by index of the data source.
    pub stall_limits: SmallMap<usize, Duration>,
}

impl Default for LocalChoices {
    fn default() -> Self {
        Self {
            records_all: false,
            wait_limit: DEFAULT_WAIT_LIMIT,
            buffer_limits_kb: SmallMap::new(),
            stall_limits: SmallMap::new(),
        }
    }
}
