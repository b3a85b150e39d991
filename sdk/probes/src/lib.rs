//! The kernel's half of a trace, as data sources: scheduling and other events of the kernel, the
//! machine's processes, and its counters.

// What applications say.
mod kernel_config; // what a session records of the kernel
// Data sources.
mod ftrace; // events of the kernel
mod process_stats; // the machine's processes and threads
mod sys_stats; // counters of the machine
mod system_info; // processors and interrupts
// What they share.
mod seen_threads; // threads that events of the kernel name
mod source_config; // configurations of data sources
mod instance_key; // identities of instances
mod worker; // the thread of an instance
mod ticks; // moments of periodic readings
mod text_file; // files of `/proc` and `/sys`
mod cpu_folders; // folders of processors
mod words; // lines, words and numbers
#[cfg(test)]
mod testing; // a machine that is a folder

use tracezero::DataSource as _;

#[cfg(fuzzing)]
pub use ftrace::fuzzing;
pub use ftrace::{EventGroup, Ftrace, FtraceError, UnknownEventGroup};
pub use kernel_config::KernelConfig;
pub use process_stats::ProcessStats;
pub use sys_stats::SysStats;
pub use system_info::SystemInfo;
/// Writers and decoders of the packets, and of the configurations of the data sources.
#[doc(inline)]
pub use tracezero_kernel::protos;

/// Registers all data sources of this package, so that sessions can record them.
pub fn register() {
    Ftrace::register();
    ProcessStats::register();
    SysStats::register();
    SystemInfo::register();
}

/// Returns the names of the data sources of this package.
#[must_use]
pub const fn data_source_names() -> [&'static str; 4] {
    [
        Ftrace::NAME,
        ProcessStats::NAME,
        SysStats::NAME,
        SystemInfo::NAME,
    ]
}
