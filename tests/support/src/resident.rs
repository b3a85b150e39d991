//! The memory of processes.

use std::fs;

/// Returns the size of the resident set of a process, in bytes.
#[must_use]
pub fn resident_bytes(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident_kib = resident.unwrap().trim_end_matches("kB").trim();
    resident_kib.parse::<usize>().unwrap() * 1024
}
