//! What a configuration says that the message has no fields for.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long a writer waits for a file that lags behind, unless the configuration says.
const DEFAULT_WAIT_LIMIT: Duration = Duration::from_secs(10);

/// What a session of this process is told beside the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalChoices {
    /// Every data source that is not listed goes to buffer 0.
    pub records_all: bool,
    /// How long writers wait that are to wait, unless their data source says.
    pub wait_limit: Duration,
    /// By index of the buffer: the size in KiB to which a ring grows that is streamed into a file.
    /// One that is not listed has a fixed size.
    pub buffer_limits_kb: BTreeMap<usize, u32>,
    /// By index of the data source: how long its writers wait.
    pub stall_limits: BTreeMap<usize, Duration>,
}

impl Default for LocalChoices {
    fn default() -> Self {
        Self {
            records_all: false,
            wait_limit: DEFAULT_WAIT_LIMIT,
            buffer_limits_kb: BTreeMap::new(),
            stall_limits: BTreeMap::new(),
        }
    }
}
