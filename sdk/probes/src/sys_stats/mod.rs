//! The data source `linux.sys_stats`: counters of the machine.

mod counter_names; // counters of memory by their names
mod memory; // counters of memory
mod cpu; // counters of processors
mod devices; // counters of devices
mod pressure; // time that tasks waited
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::time::Duration;

use parking_lot::Mutex;
use protozero::HeapBuffered;
use tracezero::clock::now_ns;
use tracezero::{DataSource, DataSourceConfig, Setup, Starting, Stopping};
use tracezero_kernel::protos;
use tracezero_kernel::protos::{KernelPacket, SourceConfigsDecoder, SysStatsConfigDecoder};

use crate::instance_key::InstanceKey;
use crate::source_config::source_config;
use crate::text_file::Root;
use crate::ticks::{Ticks, tick_ns, time_of_day_ns};
use crate::worker::{Next, Worker};

/// The shortest period of any counters.
const PERIOD_MS_MIN: u32 = 10;

/// The data source `linux.sys_stats`: counters of the machine, from `/proc` and `/sys`.
///
/// It reads groups of counters, each with a period of its own, and writes one packet with `SysStats`
/// for all groups that are due. A group is read when the session starts, and then whenever the time of
/// the day is a multiple of its period: the readings of all machines and sessions coincide. A group
/// without a period is not read; periods below 10 ms are 10 ms. Any periods may be combined.
///
/// | option | counters | unit |
/// |---|---|---|
/// | `meminfo_period_ms`, `meminfo_counters` | amounts of memory | KiB |
/// | `vmstat_period_ms`, `vmstat_counters` | events of memory management | counts, pages |
/// | `stat_period_ms`, `stat_counters` | time of each CPU; interrupts, forks | ns; counts |
/// | `cpufreq_period_ms` | frequency of each CPU, 0 if unknown | kHz |
/// | `cpuidle_period_ms` | time in each idle state | µs |
/// | `buddyinfo_period_ms` | free blocks by order | counts |
/// | `slab_period_ms` | slabs of each cache | counts |
/// | `diskstat_period_ms` | traffic of each disk | sectors, ms |
/// | `psi_period_ms` | time that tasks waited for a resource | ns |
/// | `thermal_period_ms` | temperatures, if not below zero | °C |
/// | `devfreq_period_ms`, `gpufreq_period_ms` | frequencies of devices, of the GPU | Hz, MHz |
///
/// Times and counts grow since the machine's start. A list of counters that is empty selects all.
/// Counters that the schema does not have are left out.
///
/// # Permissions
///
/// None, but `slab_period_ms` takes root. The files in `/proc` are opened when the session is set up
/// and stay open, so that a process may give up its rights. A file that cannot be read is left out,
/// silently.
///
/// # Examples
///
/// ```
/// use tracezero::protos::TraceDecoder;
/// use tracezero::{BufferConfig, DataSource as _, TraceConfig};
/// use tracezero_probes::SysStats;
/// use tracezero_probes::protos::KernelPacketDecoder;
///
/// SysStats::register();
/// let counters = SysStats::config(|config| {
///     config.set_meminfo_period_ms(1000);
///     config.set_stat_period_ms(100);
/// });
/// let session = TraceConfig::empty()
///     .add_buffer(BufferConfig::ring(1024))
///     .add_data_source(counters)
///     .record_in_memory()?;
/// let (trace, _report) = session.finish();
///
/// let mut idle_ns = 0;
/// for packet in TraceDecoder::new(&trace).packet() {
///     let packet = KernelPacketDecoder::new(packet?.as_decoder().bytes());
///     if let Some(stats) = packet.sys_stats()? {
///         for times in stats.cpu_stat() {
///             idle_ns = times?.idle_ns()?.unwrap_or(0).max(idle_ns);
///         }
///     }
/// }
/// assert!(idle_ns > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SysStats {
    key: InstanceKey,
    /// The counters; `None` once the instance has started.
    poller: Mutex<Option<Poller>>,
    /// `None` until the instance starts, and if nothing is to be read.
    worker: Mutex<Option<Worker>>,
}

impl SysStats {
    /// Returns a configuration of this data source. `write` sets its options.
    #[must_use]
    pub fn config(write: impl FnOnce(&mut protos::SysStatsConfig<'_>)) -> DataSourceConfig {
        source_config(Self::NAME, |configs| configs.sys_stats_config(write))
    }
}

impl DataSource for SysStats {
    const NAME: &'static str = "linux.sys_stats";
    type ThreadState = ();
    type IncrementalState = ();
    tracezero::data_source_state!(SysStats);

    fn on_setup(setup: &Setup<'_>) -> Self {
        let configs = SourceConfigsDecoder::new(setup.config());
        let config = configs.sys_stats_config().ok().flatten();
        let poller = config.map(|config| Poller::open(&config, &Root::of_machine(), tick_ns()));
        Self {
            key: InstanceKey::unique(),
            poller: Mutex::new(poller),
            worker: Mutex::new(None),
        }
    }

    fn on_start(&self, starting: Starting) {
        let Some(mut poller) = self.poller.lock().take() else {
            return;
        };
        let key = self.key;
        let worker = Worker::start("tracezero-stats", starting, move || {
            let time_ns = time_of_day_ns();
            // A session that was disconnected has no instance, although nobody has stopped it.
            let mut next = Next::End;
            Self::trace(|cx| {
                if cx.instance().key != key {
                    return;
                }
                let timestamp_ns = cx.now_ns();
                if let Some(stats) = poller.poll(time_ns) {
                    cx.packet(|packet| {
                        packet.set_timestamp(timestamp_ns);
                        packet
                            .as_message_mut()
                            .append_bytes::<{ KernelPacket::SYS_STATS_FIELD_NUMBER }>(&stats);
                    });
                }
                let wait = poller.until_next(time_ns);
                next = wait.map_or(Next::WhenAsked, Next::After);
            });
            next
        });
        *self.worker.lock() = Some(worker);
    }

    fn on_stop(&self, stopping: Stopping) {
        if let Some(worker) = &*self.worker.lock() {
            worker.stop(stopping);
        }
    }
}

/// A group of counters.
trait Counters: std::fmt::Debug + Send {
    /// Reads the counters, and writes them. `text` is memory for files.
    fn read(&mut self, text: &mut Vec<u8>, out: &mut protos::SysStats<'_>);
}

/// All counters of an instance.
#[derive(Debug)]
struct Poller {
    groups: Vec<(Ticks, Box<dyn Counters>)>,
    text: Vec<u8>,
    stats: HeapBuffered<protos::SysStats<'static>>,
}

impl Poller {
    /// Opens the files of the counters that the configuration wants.
    fn open(config: &SysStatsConfigDecoder<'_>, root: &Root, tick_ns: u64) -> Self {
        let mut groups: Vec<(Ticks, Box<dyn Counters>)> = Vec::new();
        let mut add = |period_ms: Result<Option<u32>, _>, open: &dyn Fn() -> Box<dyn Counters>| {
            // A malformed period counts as none.
            let period_ms: Option<u32> = period_ms.ok().flatten();
            let period_ms = period_ms
                .filter(|ms| *ms > 0)
                .map(|ms| ms.max(PERIOD_MS_MIN));
            if let Some(period_ms) = period_ms.and_then(NonZeroU32::new) {
                groups.push((Ticks::every(period_ms), open()));
            }
        };
        add(config.meminfo_period_ms(), &|| {
            let wanted: Vec<_> = config.meminfo_counters().flatten().collect();
            Box::new(memory::Meminfo::open(root, &wanted))
        });
        add(config.vmstat_period_ms(), &|| {
            let wanted: Vec<_> = config.vmstat_counters().flatten().collect();
            Box::new(memory::Vmstat::open(root, &wanted))
        });
        add(config.stat_period_ms(), &|| {
            let wanted = config.stat_counters().flatten().collect();
            Box::new(cpu::Stat::open(root, wanted, tick_ns))
        });
        add(config.devfreq_period_ms(), &|| {
            Box::new(devices::DeviceFrequencies(root.clone()))
        });
        add(config.cpufreq_period_ms(), &|| {
            Box::new(cpu::CpuFrequencies::open(root))
        });
        add(config.buddyinfo_period_ms(), &|| {
            Box::new(memory::Buddyinfo::open(root))
        });
        add(config.diskstat_period_ms(), &|| {
            Box::new(devices::Diskstats::open(root))
        });
        add(config.psi_period_ms(), &|| {
            Box::new(pressure::Pressure::open(root))
        });
        add(config.thermal_period_ms(), &|| {
            Box::new(devices::ThermalZones(root.clone()))
        });
        add(config.cpuidle_period_ms(), &|| {
            Box::new(cpu::CpuIdleStates(root.clone()))
        });
        add(config.gpufreq_period_ms(), &|| {
            Box::new(devices::GpuFrequency(root.clone()))
        });
        add(config.slab_period_ms(), &|| {
            Box::new(memory::Slabinfo::open(root))
        });
        Self {
            groups,
            text: Vec::new(),
            stats: HeapBuffered::new(),
        }
    }

    /// Reads the groups that are due. Returns an encoded `SysStats`; `None` if no group is due.
    fn poll(&mut self, time_of_day_ns: u64) -> Option<Vec<u8>> {
        self.stats.reset();
        let mut is_due = false;
        for (ticks, counters) in &mut self.groups {
            if ticks.take(time_of_day_ns) {
                is_due = true;
                counters.read(&mut self.text, &mut self.stats.message());
            }
        }
        if !is_due {
            return None;
        }
        self.stats.message().set_collection_end_timestamp(now_ns());
        Some(self.stats.to_vec())
    }

    /// Returns the time until a group is due; `None` if there are no groups.
    fn until_next(&self, time_of_day_ns: u64) -> Option<Duration> {
        let groups = self.groups.iter();
        groups
            .map(|(ticks, _)| ticks.until_next(time_of_day_ns))
            .min()
    }
}
