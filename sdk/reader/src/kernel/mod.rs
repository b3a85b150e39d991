//! The kernel's half of a trace: what threads did when they had no core, and why.
//!
//! The data source `linux.ftrace` records when cores switch from thread to thread, who wakes whom, and
//! the system calls. [`KernelEvents`] collects these events while a
//! [`TraceReader`](crate::TraceReader) reads a trace; [`KernelTimelines`] are the states of each thread
//! that follow from them. Together with spans, they tell whether a span ran, waited for a core, for
//! a lock, or for a disk.
//!
//! Where the kernel, or the trace, lost events, states are unknown rather than wrong.

mod event; // events that wait to be sorted
mod task_state; // the kernel's names of states
mod gaps; // times in which events are missing
mod process_tree; // the processes and threads of the machine
mod bundle; // decodes packets with events
mod builder; // makes timelines of events
mod syscall; // what a thread waits for in a system call
mod timelines; // the states of threads and cores
mod activity; // what states mean
mod collect; // collects the events of a trace

#[cfg(test)]
mod tests;

pub use activity::{Activity, ActivityTimes};
pub use collect::{KernelCounts, KernelEvents};
pub use gaps::{CpuLoss, Gap};
pub use process_tree::Listed;
pub use syscall::{FutexWait, Syscall};
pub use timelines::{
    CpuActivity, CpuInterval, KernelTimelines, Thread, ThreadId, ThreadInterval, ThreadState, Wake,
    Waker,
};
pub use tracezero_kernel::syscalls::Machine;
