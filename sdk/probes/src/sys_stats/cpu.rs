//! Counters of processors: `/proc/stat`, frequencies and idle states.

use tracezero_kernel::protos::SysStats;
use tracezero_kernel::protos::sys_stats_config::StatCounters;

use super::Counters;
use crate::cpu_folders;
use crate::text_file::{self, PolledFile, Root};
use crate::words::{first_number, lines, number, text_of, words};

/// The counters of `/proc/stat`: times of each processor, and counts since the machine's start.
#[derive(Debug)]
pub(super) struct Stat {
    file: PolledFile,
    /// The counters to write; all if there are none.
    wanted: Vec<StatCounters>,
    /// The length of a tick of the kernel's times.
    tick_ns: u64,
}

impl Stat {
    pub(super) fn open(root: &Root, wanted: Vec<StatCounters>, tick_ns: u64) -> Self {
        Self {
            file: PolledFile::open(root.path("proc/stat")),
            wanted,
            tick_ns,
        }
    }
}

impl Counters for Stat {
    fn read(&mut self, text: &mut Vec<u8>, out: &mut SysStats<'_>) {
        let is_wanted = |counter| self.wanted.is_empty() || self.wanted.contains(&counter);
        for line in lines(self.file.read(text).unwrap_or_default()) {
            let mut words = words(line);
            let key = words.next().unwrap_or_default();
            match key {
                b"intr" if is_wanted(StatCounters::STAT_IRQ_COUNTS) => {
                    write_interrupts(words, out);
                }
                b"softirq" if is_wanted(StatCounters::STAT_SOFTIRQ_COUNTS) => {
                    write_soft_interrupts(words, out);
                }
                b"processes" if is_wanted(StatCounters::STAT_FORK_COUNT) => {
                    if let Some(forks) = words.next().and_then(number) {
                        out.set_num_forks(forks);
                    }
                }
                _ if is_wanted(StatCounters::STAT_CPU_TIMES) => {
                    // The sum of all processors is in the line `cpu`, without a number.
                    let cpu = key.strip_prefix(b"cpu").and_then(number::<u32>);
                    if let Some(cpu) = cpu {
                        write_cpu_times(cpu, words, self.tick_ns, out);
                    }
                }
                _ => {}
            }
        }
    }
}

fn write_cpu_times<'t>(
    cpu: u32,
    mut words: impl Iterator<Item = &'t [u8]>,
    tick_ns: u64,
    out: &mut SysStats<'_>,
) {
    let mut ns = || {
        let ticks: u64 = words.next().and_then(number).unwrap_or(0);
        ticks.saturating_mul(tick_ns)
    };
    out.add_cpu_stat(|times| {
        times
            .set_cpu_id(cpu)
            .set_user_ns(ns())
            .set_user_nice_ns(ns())
            .set_system_mode_ns(ns())
            .set_idle_ns(ns())
            .set_io_wait_ns(ns())
            .set_irq_ns(ns())
            .set_softirq_ns(ns())
            .set_steal_ns(ns());
    });
}

/// Writes the sum, and the counts of interrupts that have ever come.
fn write_interrupts<'t>(mut counts: impl Iterator<Item = &'t [u8]>, out: &mut SysStats<'_>) {
    if let Some(total) = counts.next().and_then(number) {
        out.set_num_irq_total(total);
    }
    for (irq, count) in (0..).zip(counts) {
        if let Some(count) = number(count).filter(|count: &u64| *count > 0) {
            out.add_num_irq(|interrupt| {
                interrupt.set_irq(irq).set_count(count);
            });
        }
    }
}

/// Writes the sum, and the counts of all kinds of soft interrupts.
fn write_soft_interrupts<'t>(mut counts: impl Iterator<Item = &'t [u8]>, out: &mut SysStats<'_>) {
    if let Some(total) = counts.next().and_then(number) {
        out.set_num_softirq_total(total);
    }
    for (kind, count) in (0..).zip(counts) {
        if let Some(count) = number(count) {
            out.add_num_softirq(|interrupt| {
                interrupt.set_irq(kind).set_count(count);
            });
        }
    }
}

/// The frequency of each processor, in kHz.
#[derive(Debug)]
pub(super) struct CpuFrequencies {
    /// One per processor, at the index that is its number.
    files: Vec<PolledFile>,
}

impl CpuFrequencies {
    pub(super) fn open(root: &Root) -> Self {
        let cpus = 0..cpu_folders::count(root);
        let path = |cpu| cpu_folders::path(root, cpu).join("cpufreq/scaling_cur_freq");
        Self {
            files: cpus.map(|cpu| PolledFile::open(path(cpu))).collect(),
        }
    }
}

impl Counters for CpuFrequencies {
    fn read(&mut self, text: &mut Vec<u8>, out: &mut SysStats<'_>) {
        for file in &mut self.files {
            // The position of a frequency is the number of its processor, so none may be left out.
            let khz = file.read(text).and_then(first_number);
            out.add_cpufreq_khz(khz.unwrap_or(0));
        }
    }
}

/// The time that each processor spent in each idle state since the machine's start.
#[derive(Debug)]
pub(super) struct CpuIdleStates(pub(super) Root);

impl Counters for CpuIdleStates {
    fn read(&mut self, text: &mut Vec<u8>, out: &mut SysStats<'_>) {
        for cpu in 0..cpu_folders::count(&self.0) {
            let folder = cpu_folders::path(&self.0, cpu).join("cpuidle");
            let mut states = text_file::entries(&folder);
            states.retain(|state| state.starts_with("state"));
            if states.is_empty() {
                continue;
            }
            // A state has a number: sort 10 after 9.
            states.sort_by_key(String::len);
            out.add_cpuidle_state(|written| {
                written.set_cpu_id(cpu);
                for state in states {
                    let state = folder.join(state);
                    let time = text_file::read(&state.join("time"), text);
                    let Some(us) = time.ok().and_then(first_number) else {
                        continue;
                    };
                    let Ok(name) = text_file::read(&state.join("name"), text) else {
                        continue;
                    };
                    written.add_cpuidle_state_entry(|entry| {
                        entry
                            .set_state(&text_of(name.trim_ascii()))
                            .set_duration_us(us);
                    });
                }
            });
        }
    }
}
