//! What a session records of the kernel, as applications say it.

use tracezero::{DataSource as _, DataSourceConfig, TraceConfig};
use tracezero_kernel::protos::{FtraceConfig, ProcessStatsConfig};

use crate::source_config::{encode, source_config};
use crate::{EventGroup, Ftrace, ProcessStats, SystemInfo};

/// What a session records of the kernel.
///
/// ```
/// use tracezero::TraceConfig;
/// use tracezero_probes::{EventGroup, Ftrace, KernelConfig};
///
/// tracezero_probes::register();
/// if let Err(reason) = Ftrace::check() {
///     eprintln!("no events of the kernel: {reason}");
/// }
/// let kernel = KernelConfig::new().group(EventGroup::Sched).event("net/net_dev_xmit");
/// let session = kernel.add_to(TraceConfig::default()).record_in_memory()?;
/// // The work to be recorded.
/// let (trace, report) = session.finish();
/// # assert!(!trace.is_empty() && report.data_packets > 0);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a session records what its configuration says"]
pub struct KernelConfig {
    events: Vec<String>,
    syscalls: Vec<String>,
    cpu_buffer_kib: Option<u32>,
}

impl KernelConfig {
    /// Records no events yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a group of events.
    pub fn group(mut self, group: EventGroup) -> Self {
        let events = group.events().iter().copied();
        self.events.extend(events.map(str::to_owned));
        self
    }

    /// Adds an event by the kernel's name of it, such as `net/net_dev_xmit`, or all events of one of
    /// its folders: `net/*`.
    pub fn event(mut self, name: impl Into<String>) -> Self {
        self.events.push(name.into());
        self
    }

    /// Adds a system call by name, such as `sys_read`. The group [`EventGroup::Syscalls`] then records
    /// only those that were added.
    pub fn syscall(mut self, name: impl Into<String>) -> Self {
        self.syscalls.push(name.into());
        self
    }

    /// Sets the size of the kernel's buffer for each CPU, in KiB. The memory cannot be swapped out. The
    /// default is 2048, or 8192 if the machine has at least 7 GiB of memory.
    pub fn cpu_buffer_kib(mut self, kib: u32) -> Self {
        self.cpu_buffer_kib = Some(kib);
        self
    }

    /// Adds this to what a session records.
    #[must_use]
    pub fn add_to(&self, config: TraceConfig) -> TraceConfig {
        let data_sources = self.data_sources().into_iter();
        data_sources.fold(config, TraceConfig::add_data_source)
    }

    /// Returns the data sources that record this: events, the names of processes and threads, and the
    /// processors of the machine.
    #[must_use]
    pub fn data_sources(&self) -> Vec<DataSourceConfig> {
        let fields = self.encoded().into_iter();
        fields
            .map(|(name, fields)| {
                source_config(name, |config| config.as_message_mut().append_raw(&fields))
            })
            .collect()
    }

    /// Returns the names of the data sources, each with the fields of a `DataSourceConfig` that only it
    /// knows.
    #[must_use]
    pub fn encoded(&self) -> Vec<(&'static str, Vec<u8>)> {
        let events = encode(|config| config.ftrace_config(|it| self.write_ftrace(it)));
        let processes = encode(|config| config.process_stats_config(write_process_stats));
        vec![
            (Ftrace::NAME, events),
            (ProcessStats::NAME, processes),
            (SystemInfo::NAME, Vec::new()),
        ]
    }

    fn write_ftrace(&self, config: &mut FtraceConfig<'_>) {
        for event in &self.events {
            config.add_ftrace_events(event);
        }
        for syscall in &self.syscalls {
            config.add_syscall_events(syscall);
        }
        if let Some(kib) = self.cpu_buffer_kib {
            config.set_buffer_size_kb(kib);
        }
    }
}

fn write_process_stats(config: &mut ProcessStatsConfig<'_>) {
    config
        .set_scan_all_processes_on_start(true)
        .set_record_thread_names(true);
}
