//! Joins spans with what the kernel says of their threads.

mod labels; // names of states for people
mod shares; // shares that add up to 100 %
mod span_log; // the spans of a trace
mod threads; // joins tracks with threads of the kernel

pub(crate) use labels::{activity_key, activity_label, missing_switches};
pub(crate) use shares::{percent, shares};
pub(crate) use span_log::{LoggedSpan, SpanLog};
pub(crate) use threads::{ThreadName, Threads};

/// What to do if a trace has no scheduling events.
pub(crate) const HOW_TO_RECORD: &str =
    "record it with: tracezero record --kernel sched,syscalls -- PROGRAM";
