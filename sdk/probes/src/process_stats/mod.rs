//! The data source `linux.process_stats`: processes, threads, and counters of processes.
//!
//! A worker thread per instance reads the files and writes all packets, so they are one sequence.
//! Threads that events of the kernel name are handed to it (`on_demand`).

mod settings; // what a session wants to know
mod process_files; // the files of processes
mod status; // what is in two of them
mod packets; // the sequence of packets, and what readers know from it
mod process_list; // processes and threads
mod process_counters; // counters of processes
mod on_demand; // threads that events of the kernel name
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracezero::{DataSource, DataSourceConfig, Flushing, SessionId, Setup, Starting, Stopping};
use tracezero_kernel::protos;
use tracezero_kernel::protos::SourceConfigsDecoder;

pub(crate) use on_demand::note;
pub use packets::Emitted;

use crate::instance_key::InstanceKey;
use crate::seen_threads::SeenThreads;
use crate::source_config::source_config;
use crate::text_file::Root;
use crate::ticks::{Ticks, tick_ns, time_of_day_ns};
use crate::worker::{Next, Worker};
use on_demand::Pending;
use packets::Packets;
use process_counters::CounterList;
use process_files::ProcessFiles;
use process_list::ProcessList;
use settings::Settings;

/// The longest time between looks at whether a ring has overwritten the list of processes.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// The data source `linux.process_stats`: the machine's processes and threads, and counters of
/// processes, from `/proc`.
///
/// It writes packets with a `ProcessTree`: ids, names and command lines, so that readers can tell
/// which thread belongs to which process. A process or thread is written once, and again when it has
/// got another name, and when a ring may have overwritten it. Which ones are written depends on the
/// configuration:
///
/// - all that there are when the session starts (`scan_all_processes_on_start`);
/// - those that events of the kernel name, in a session that also records `linux.ftrace`, unless the
///   quirk `DISABLE_ON_DEMAND` is set;
/// - all that have counters (`proc_stats_poll_ms`).
///
/// With `proc_stats_poll_ms` it also writes packets with `ProcessStats`, once per period, at least 100
/// ms: memory in KiB, `oom_score_adj`, and what else the configuration asks for. A counter is written
/// when it has changed; all are written again after `proc_stats_cache_ttl_ms`.
///
/// The names of threads are recorded with `record_thread_names`, the targets of open files with
/// `resolve_process_fds`. Command lines are always recorded, up to 64 KiB each.
///
/// In a ring that other packets overwrite within a few seconds, give this data source a buffer of its
/// own ([`DataSourceConfig::target_name`]): it looks once per second, and after each pass of
/// `linux.ftrace`, whether the list must be written again.
///
/// # Permissions
///
/// None, for most files. If `/proc` is mounted with `hidepid`, there are only the user's own
/// processes. Open files and `smaps_rollup` take the right to trace the process. A file that cannot be
/// read is left out, silently.
///
/// # Examples
///
/// ```
/// use tracezero::protos::TraceDecoder;
/// use tracezero::{BufferConfig, DataSource as _, TraceConfig};
/// use tracezero_probes::ProcessStats;
/// use tracezero_probes::protos::KernelPacketDecoder;
///
/// ProcessStats::register();
/// let processes = ProcessStats::config(|config| {
///     config.set_scan_all_processes_on_start(true);
///     config.set_record_thread_names(true);
/// });
/// let session = TraceConfig::empty()
///     .add_buffer(BufferConfig::ring(4096))
///     .add_data_source(processes)
///     .record_in_memory()?;
/// let (trace, _report) = session.finish();
///
/// let mut ids = Vec::new();
/// for packet in TraceDecoder::new(&trace).packet() {
///     let packet = KernelPacketDecoder::new(packet?.as_decoder().bytes());
///     if let Some(tree) = packet.process_tree()? {
///         for process in tree.processes() {
///             ids.extend(process?.pid()?);
///         }
///     }
/// }
/// assert!(ids.contains(&(std::process::id() as i32)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ProcessStats {
    key: InstanceKey,
    session: SessionId,
    settings: Settings,
    pending: Arc<Pending>,
    /// `None` until the instance starts.
    worker: Mutex<Option<Worker>>,
}

impl ProcessStats {
    /// Returns a configuration of this data source. `write` sets its options.
    #[must_use]
    pub fn config(write: impl FnOnce(&mut protos::ProcessStatsConfig<'_>)) -> DataSourceConfig {
        source_config(Self::NAME, |configs| configs.process_stats_config(write))
    }

    fn worker(&self) -> Option<Worker> {
        self.worker.lock().clone()
    }
}

impl DataSource for ProcessStats {
    const NAME: &'static str = "linux.process_stats";
    type ThreadState = ();
    type IncrementalState = Emitted;
    tracezero::data_source_state!(ProcessStats);

    fn on_setup(setup: &Setup<'_>) -> Self {
        let configs = SourceConfigsDecoder::new(setup.config());
        let config = configs.process_stats_config().ok().flatten();
        Self {
            key: InstanceKey::unique(),
            session: setup.session(),
            settings: Settings::decode(config.as_ref()),
            pending: Arc::default(),
            worker: Mutex::new(None),
        }
    }

    fn on_start(&self, starting: Starting) {
        let mut processes = Processes::new(&self.settings, &Root::of_machine(), tick_ns());
        let (key, pending) = (self.key, Arc::clone(&self.pending));
        let worker = Worker::start("tracezero-procs", starting, move || {
            // A session that was disconnected has no instance, although nobody has stopped it.
            let mut next = Next::End;
            Self::trace(|cx| {
                if cx.instance().key == key {
                    let wait = processes.update(&pending.take(), time_of_day_ns(), cx);
                    next = Next::After(wait);
                }
            });
            next
        });
        if self.settings.is_on_demand {
            on_demand::add(self.session, self.key, &self.pending, &worker);
        }
        *self.worker.lock() = Some(worker);
    }

    fn on_flush(&self, flushing: Flushing) {
        if let Some(worker) = self.worker() {
            worker.ask(flushing);
        }
    }

    fn on_clear_incremental_state(&self) {
        if let Some(worker) = self.worker() {
            worker.ask(());
        }
    }

    fn on_stop(&self, stopping: Stopping) {
        if let Some(worker) = self.worker() {
            worker.stop(stopping);
        }
    }
}

impl Drop for ProcessStats {
    fn drop(&mut self) {
        on_demand::remove(self.key);
    }
}

impl std::fmt::Debug for ProcessStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessStats")
            .field("session", &self.session)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// All that one instance writes.
struct Processes {
    files: ProcessFiles,
    list: ProcessList,
    counters: CounterList,
    /// True until the first update.
    scans: bool,
    /// `None` if counters are not polled.
    polls: Option<Ticks>,
}

impl Processes {
    fn new(settings: &Settings, root: &Root, tick_ns: u64) -> Self {
        Self {
            files: ProcessFiles::new(root),
            list: ProcessList::new(settings, tick_ns),
            counters: CounterList::new(settings, tick_ns),
            scans: settings.scans_on_start,
            polls: settings.poll_ms.map(Ticks::every),
        }
    }

    /// Writes what is due, and looks up threads. Returns the time until the next update, at most.
    fn update(
        &mut self,
        threads: &SeenThreads,
        time_of_day_ns: u64,
        packets: &mut impl Packets,
    ) -> Duration {
        if std::mem::take(&mut self.scans) {
            self.list.write_all(&self.files, packets);
            let processes = self.files.processes();
            self.counters
                .write_open_files(&processes, &self.files, packets);
        }
        self.list.look_up(threads, &self.files, packets);
        let Some(polls) = &mut self.polls else {
            return LOOK_PERIOD;
        };
        let is_due = polls.take(time_of_day_ns);
        let wait = polls.until_next(time_of_day_ns).min(LOOK_PERIOD);
        if is_due {
            self.poll(packets);
        }
        wait
    }

    fn poll(&mut self, packets: &mut impl Packets) {
        let processes = self.files.processes();
        self.list.keep_only(&processes);
        packets.emitted().keep_only(&processes);
        let with_counters = self
            .counters
            .write_changed(&processes, &self.files, packets);
        let threads = with_counters.into_iter().collect();
        self.list.look_up(&threads, &self.files, packets);
    }
}
