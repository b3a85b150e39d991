//! The folders of processors in `/sys`.

use std::path::PathBuf;

use crate::text_file::{self, Root};
use crate::words::number;

/// The number of processors from which further ones are left out. Readers of traces take 1024.
pub(crate) const CPUS_MAX: u32 = 4096;

/// Returns the number that is one above that of the last configured processor, offline ones included;
/// 0 if there are none.
pub(crate) fn count(root: &Root) -> u32 {
    let names = text_file::entries(&root.path("sys/devices/system/cpu"));
    let numbers = names.iter().filter_map(|name| {
        let number: u32 = number(name.strip_prefix("cpu")?.as_bytes())?;
        Some(number.saturating_add(1))
    });
    numbers.max().unwrap_or(0).min(CPUS_MAX)
}

/// Returns the folder of a processor.
pub(crate) fn path(root: &Root, cpu: u32) -> PathBuf {
    root.path(format!("sys/devices/system/cpu/cpu{cpu}"))
}
