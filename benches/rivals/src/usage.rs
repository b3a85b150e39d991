//! Processor time, memory and wake-ups of a process.

use std::fs;
use std::time::Duration;

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use crate::programs::Result;

/// Returns the processor time that a process has taken, with threads that have ended.
///
/// The kernel counts it in nanoseconds. The figures in `/proc/PID/stat` are the same in steps of 10 ms, and
/// those in `/proc/PID/task/*/schedstat` lack the threads that have ended.
pub fn processor_time(process: u32) -> Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(process as i32))?;
    Ok(clock_gettime(clock)?.into())
}

/// The memory of a process, in KiB.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub resident_kib: u64,
    pub peak_kib: u64,
    pub virtual_kib: u64,
}

impl Memory {
    pub fn of(process: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        Ok(Self {
            resident_kib: field(&status, "VmRSS:")?,
            peak_kib: field(&status, "VmHWM:")?,
            virtual_kib: field(&status, "VmSize:")?,
        })
    }
}

/// Returns how often the threads of a process have waited, and so were woken.
pub fn wakeups(process: u32) -> Result<u64> {
    let mut wakeups = 0;
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let status = fs::read_to_string(task?.path().join("status"))?;
        wakeups += field(&status, "voluntary_ctxt_switches:")?;
    }
    Ok(wakeups)
}

fn field(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_ascii_whitespace().next());
    Ok(number.ok_or(name)?.parse()?)
}
