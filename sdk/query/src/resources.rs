//! What a query may take of the machine.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};

/// The part of the memory that is available that a query takes by default.
const NUMERATOR: u64 = 3;
const DENOMINATOR: u64 = 4;

/// What a query may take of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Resources {
    /// The memory for rows, in bytes. `None` if there is no limit.
    pub(crate) memory_bytes: Option<u64>,
    /// A folder for rows beyond that.
    pub(crate) folder: PathBuf,
}

impl Resources {
    /// Returns an environment of the engine that takes no more.
    pub(crate) fn environment(&self) -> Result<Arc<RuntimeEnv>, DataFusionError> {
        let mut builder = RuntimeEnvBuilder::new().with_temp_file_path(&self.folder);
        if let Some(bytes) = self.memory_bytes {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            builder = builder.with_memory_pool(Arc::new(FairSpillPool::new(bytes)));
        }
        builder.build_arc()
    }
}

/// Returns the memory that a query takes if the user names no limit: most of what other programs leave. `None` if the
/// system does not say.
pub(crate) fn default_memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    Some(available_kib(&text)?.saturating_mul(1024) / DENOMINATOR * NUMERATOR)
}

/// Finds the memory that is available in the system's account, in KiB.
fn available_kib(meminfo: &str) -> Option<u64> {
    let value = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_found() {
        let text = "MemTotal:       24599424 kB\nMemFree:  1 kB\nMemAvailable:   21934080 kB\n";
        assert_eq!(available_kib(text), Some(21_934_080));
        assert_eq!(available_kib("MemFree:  1 kB\n"), None);
    }
}
