//! Names of activities.

use tracezero_reader::kernel::Activity;

use crate::units::plural;

/// Returns the name of an activity in a table.
pub(crate) const fn activity_label(activity: Activity) -> &'static str {
    match activity {
        Activity::Running => "running",
        Activity::Runnable => "waiting for a core",
        Activity::Lock => "waiting for a lock or a thread",
        Activity::Blocked => "blocked on I/O",
        Activity::Sleeping => "sleeping",
        Activity::Stopped => "stopped",
        Activity::Unknown => "unknown",
    }
}

/// Returns the name of an activity in JSON.
pub(crate) const fn activity_key(activity: Activity) -> &'static str {
    match activity {
        Activity::Running => "running",
        Activity::Runnable => "runnable",
        Activity::Lock => "lock",
        Activity::Blocked => "blocked",
        Activity::Sleeping => "sleeping",
        Activity::Stopped => "stopped",
        Activity::Unknown => "unknown",
    }
}

/// Says that switches are missing, although nothing was lost.
pub(crate) fn missing_switches(count: u64) -> String {
    let count = plural(count, "change");
    format!("the kernel left out {count} of threads on cores; some states may be wrong")
}
