//! What is read from a machine that is a folder.

use tracezero_kernel::protos::sys_stats::psi_sample::PsiResource;
use tracezero_kernel::protos::sys_stats_config::StatCounters;
use tracezero_kernel::protos::{MeminfoCounters, SysStatsConfig, SysStatsDecoder, VmstatCounters};

use super::*;
use crate::testing::FakeRoot;

/// The length of a tick in these tests.
const TICK_NS: u64 = 10_000_000;

const MS: u64 = 1_000_000;

impl FakeRoot {
    fn poller(&self, write: impl FnOnce(&mut SysStatsConfig<'_>)) -> Poller {
        let mut config = HeapBuffered::<SysStatsConfig<'_>>::new();
        write(&mut config.message());
        let config = config.to_vec();
        Poller::open(&SysStatsConfigDecoder::new(&config), &self.root(), TICK_NS)
    }

    /// Returns the first packet with this configuration.
    fn first(&self, write: impl FnOnce(&mut SysStatsConfig<'_>)) -> Vec<u8> {
        self.poller(write).poll(0).unwrap()
    }
}

const MEMINFO: &str = "
MemTotal:        3744240 kB
MemFree:           91148 kB
MemAvailable:    1029476 kB
Inactive(anon):   449172 kB
SReclaimable:      64684 kB
NFS_Unstable:          0 kB
Committed_AS:   81911488 kB
CmaFree:              60 kB";

#[test]
fn meminfo_is_what_was_chosen_or_all() {
    let machine = FakeRoot::with(&[("proc/meminfo", MEMINFO)]);
    let values = |counters: &[MeminfoCounters]| {
        let stats = machine.first(|config| {
            config.set_meminfo_period_ms(10);
            for counter in counters {
                config.add_meminfo_counters(*counter);
            }
        });
        let values = SysStatsDecoder::new(&stats).meminfo().map(|value| {
            let value = value.unwrap();
            (
                value.key().unwrap().unwrap(),
                value.value().unwrap().unwrap(),
            )
        });
        values.collect::<Vec<_>>()
    };
    let chosen = [
        MeminfoCounters::MEMINFO_MEM_TOTAL,
        MeminfoCounters::MEMINFO_COMMITED_AS,
    ];
    let expected = [(chosen[0], 3_744_240), (chosen[1], 81_911_488)];
    assert_eq!(values(&chosen), expected);
    let keys: Vec<i32> = values(&[]).into_iter().map(|(key, _)| key.0).collect();
    assert_eq!(keys, [1, 2, 3, 10, 23, 28, 33]);
}

#[test]
fn vmstat_is_what_was_chosen_or_all() {
    let text = "nr_free_pages 16449\nnr_unknown 1\nnr_mlock x\npgfault 181696234\n";
    let machine = FakeRoot::with(&[("proc/vmstat", text)]);
    let values = |counters: &[VmstatCounters]| {
        let stats = machine.first(|config| {
            config.set_vmstat_period_ms(10);
            for counter in counters {
                config.add_vmstat_counters(*counter);
            }
        });
        let values = SysStatsDecoder::new(&stats).vmstat().map(|value| {
            let value = value.unwrap();
            (
                value.key().unwrap().unwrap(),
                value.value().unwrap().unwrap(),
            )
        });
        values.collect::<Vec<_>>()
    };
    let all = [
        (VmstatCounters::VMSTAT_NR_FREE_PAGES, 16_449),
        (VmstatCounters::VMSTAT_PGFAULT, 181_696_234),
    ];
    assert_eq!(values(&[]), all);
    assert_eq!(values(&[VmstatCounters::VMSTAT_PGFAULT]), all[1..]);
}

/// The file `/proc/stat` of a machine with 8 processors and 102 interrupts that have come.
fn stat() -> String {
    let mut stat = "cpu  2655987 822682 2352153 8801203 41917 322733 175055 0 0 0\n".to_owned();
    for cpu in 0..8 {
        let user = 1000 + cpu;
        stat += &format!("cpu{cpu} {user} 198125 902284 8678856 41716 152974 68262 72386 0 0\n");
    }
    stat += "intr 238128517";
    for irq in 0..204 {
        stat += &format!(" {}", irq * (irq % 2));
    }
    stat += "\nctxt 373122860\nbtime 1536912218\nprocesses 243320\nprocs_running 1\n";
    stat +=
        "softirq 84611084 10220177 28299167 155083 3035679 6390543 66234 4396819 1 0 16443195\n";
    stat
}

#[test]
fn stat_has_times_of_processors_and_counts() {
    let machine = FakeRoot::with(&[("proc/stat", &stat())]);
    let stats = machine.first(|config| {
        config.set_stat_period_ms(10);
    });
    let stats = SysStatsDecoder::new(&stats);
    let times = stats.cpu_stat().map(|times| {
        let times = times.unwrap();
        [
            times.cpu_id().map(|id| id.map(u64::from)),
            times.user_ns(),
            times.user_nice_ns(),
            times.system_mode_ns(),
            times.idle_ns(),
            times.io_wait_ns(),
            times.irq_ns(),
            times.softirq_ns(),
            times.steal_ns(),
        ]
        .map(|value| value.unwrap().unwrap())
    });
    let expected = (0..8).map(|cpu| {
        let ticks = [
            1000 + cpu,
            198_125,
            902_284,
            8_678_856,
            41_716,
            152_974,
            68_262,
            72_386,
        ];
        let mut times = [cpu; 9];
        for (time, ticks) in times[1..].iter_mut().zip(ticks) {
            *time = ticks * TICK_NS;
        }
        times
    });
    assert_eq!(times.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let count = |count: Result<_, _>| {
        let count: tracezero_kernel::protos::sys_stats::InterruptCountDecoder<'_> = count.unwrap();
        (
            count.irq().unwrap().unwrap(),
            count.count().unwrap().unwrap(),
        )
    };
    let irqs: Vec<_> = stats.num_irq().map(count).collect();
    let expected: Vec<_> = (0..204).filter(|irq| irq % 2 == 1).collect();
    assert_eq!(irqs.len(), 102);
    assert_eq!(
        irqs,
        expected
            .iter()
            .map(|irq| (*irq, *irq as u64))
            .collect::<Vec<_>>()
    );
    let soft: Vec<_> = stats.num_softirq().map(count).collect();
    assert_eq!(
        (soft.len(), soft[0], soft[8], soft[9]),
        (10, (0, 10_220_177), (8, 0), (9, 16_443_195))
    );
    assert_eq!(stats.num_irq_total(), Ok(Some(238_128_517)));
    assert_eq!(stats.num_softirq_total(), Ok(Some(84_611_084)));
    assert_eq!(stats.num_forks(), Ok(Some(243_320)));
    assert!(stats.collection_end_timestamp().unwrap().is_some());
}

#[test]
fn stat_counters_can_be_chosen() {
    let machine = FakeRoot::with(&[("proc/stat", &stat())]);
    let found = |counter| {
        let stats = machine.first(|config| {
            config.set_stat_period_ms(10);
            config.add_stat_counters(counter);
        });
        let stats = SysStatsDecoder::new(&stats);
        (
            stats.cpu_stat().count(),
            stats.num_irq().count(),
            stats.num_irq_total().unwrap().is_some(),
            stats.num_softirq().count(),
            stats.num_softirq_total().unwrap().is_some(),
            stats.num_forks().unwrap().is_some(),
        )
    };
    let forks = found(StatCounters::STAT_FORK_COUNT);
    assert_eq!(forks, (0, 0, false, 0, false, true));
    let times = found(StatCounters::STAT_CPU_TIMES);
    assert_eq!(times, (8, 0, false, 0, false, false));
    let irqs = found(StatCounters::STAT_IRQ_COUNTS);
    assert_eq!(irqs, (0, 102, true, 0, false, false));
    let soft = found(StatCounters::STAT_SOFTIRQ_COUNTS);
    assert_eq!(soft, (0, 0, false, 10, true, false));
    let none = found(StatCounters::STAT_UNSPECIFIED);
    assert_eq!(none, (0, 0, false, 0, false, false));
}

#[test]
fn buddyinfo_has_a_zone_per_line() {
    let text = "
Node 0, zone  DMA      2743  1659  2063  685   27   4  0  0  0  0  0
Node 0, zone  Normal   143   744   89    1080  105  1  0  2  0  2  2
Node 0, zone  HighMem  345   90    156   3     5    2  0  0  0  0  0
Node 1
Node 1, zone  Normal   233   x     453   10    5    1  0  2  0  0  3";
    let machine = FakeRoot::with(&[("proc/buddyinfo", text)]);
    let stats = machine.first(|config| {
        config.set_buddyinfo_period_ms(10);
    });
    let zones = SysStatsDecoder::new(&stats).buddy_info().map(|zone| {
        let zone = zone.unwrap();
        let pages: Vec<u32> = zone.order_pages().map(Result::unwrap).collect();
        assert_eq!(pages.len(), 11);
        (
            zone.node().unwrap().unwrap().to_owned(),
            zone.zone().unwrap().unwrap().to_owned(),
            [pages[0], pages[1], pages[10]],
        )
    });
    let expected = [
        ("0", "DMA", [2743, 1659, 0]),
        ("0", "Normal", [143, 744, 2]),
        ("0", "HighMem", [345, 90, 0]),
        ("1", "Normal", [233, 0, 3]),
    ];
    let expected = expected.map(|(node, zone, pages)| (node.to_owned(), zone.to_owned(), pages));
    assert_eq!(zones.collect::<Vec<_>>(), expected);
}

#[test]
fn diskstats_have_columns_as_the_kernel_has() {
    let text = "
   8       0 sda 54133 5368 8221736 75929 30333 1157434 9599744 143190 0 63672 249858 9595 0 2160072 19411 6649 11327
   8       1 sda1 18 6 632 7 39 49 704 92 0 156 100
   8";
    let machine = FakeRoot::with(&[("proc/diskstats", text)]);
    let stats = machine.first(|config| {
        config.set_diskstat_period_ms(10);
    });
    let disks = SysStatsDecoder::new(&stats).disk_stat().map(|disk| {
        let disk = disk.unwrap();
        let counts = [
            disk.read_sectors(),
            disk.read_time_ms(),
            disk.write_sectors(),
            disk.write_time_ms(),
            disk.discard_sectors(),
            disk.discard_time_ms(),
            disk.flush_count(),
            disk.flush_time_ms(),
        ];
        let name = disk.device_name().unwrap().unwrap().to_owned();
        (name, counts.map(|count| count.unwrap()))
    });
    let sda = [
        8_221_736, 75_929, 9_599_744, 143_190, 2_160_072, 19_411, 6_649, 11_327,
    ];
    let sda1 = [
        Some(632),
        Some(7),
        Some(704),
        Some(92),
        None,
        None,
        None,
        None,
    ];
    let expected = [("sda".to_owned(), sda.map(Some)), ("sda1".to_owned(), sda1)];
    assert_eq!(disks.collect::<Vec<_>>(), expected);
}

#[test]
fn pressure_has_six_samples() {
    let text = "\nsome avg10=23.10 avg60=5.06 avg300=15.10 total=417963\nother total=1\n\
                full avg10=9.00 avg60=19.20 avg300=3.23 total=205933";
    let machine = FakeRoot::empty();
    for resource in ["cpu", "io", "memory"] {
        machine.write(format!("proc/pressure/{resource}"), text);
    }
    let stats = machine.first(|config| {
        config.set_psi_period_ms(10);
    });
    let samples = SysStatsDecoder::new(&stats).psi().map(|sample| {
        let sample = sample.unwrap();
        (
            sample.resource().unwrap().unwrap().0,
            sample.total_ns().unwrap().unwrap(),
        )
    });
    let expected = (PsiResource::CPU_SOME.0..=PsiResource::MEMORY_FULL.0)
        .map(|resource| (resource, [205_933_000, 417_963_000][resource as usize % 2]));
    assert_eq!(samples.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn slabinfo_is_read_behind_its_head() {
    let text = "slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>
nf_conntrack          12     12    320   12    1 : tunables   32   16    8 : slabdata      1      1      0
cut                   12     12    320   12    1 : tunables   32   16    8 : slabdata      1
kmalloc-64          100    100     64   64    1 : tunables   32   16    8 : slabdata      2      2      0";
    let machine = FakeRoot::with(&[("proc/slabinfo", text)]);
    let stats = machine.first(|config| {
        config.set_slab_period_ms(10);
    });
    let caches = SysStatsDecoder::new(&stats).slab_info().map(|cache| {
        let cache = cache.unwrap();
        (
            cache.name().unwrap().unwrap().to_owned(),
            cache.pages_per_slab().unwrap().unwrap(),
            cache.num_slabs().unwrap().unwrap(),
        )
    });
    let expected = [
        ("nf_conntrack".to_owned(), 1, 1),
        ("kmalloc-64".to_owned(), 1, 2),
    ];
    assert_eq!(caches.collect::<Vec<_>>(), expected);
}

#[test]
fn frequencies_are_at_the_number_of_their_processor() {
    let machine = FakeRoot::empty();
    let cpus = "sys/devices/system/cpu";
    machine.write(format!("{cpus}/cpu0/cpufreq/scaling_cur_freq"), "2650000\n");
    machine.write(format!("{cpus}/cpu2/online"), "0\n");
    machine.write(
        format!("{cpus}/cpu10/cpufreq/scaling_cur_freq"),
        "3698200\n",
    );
    machine.write(format!("{cpus}/cpufreq/boost"), "1\n");
    let mut poller = machine.poller(|config| {
        config.set_cpufreq_period_ms(10);
    });
    let mut khz = |time_ns| {
        let stats = poller.poll(time_ns).unwrap();
        let khz = SysStatsDecoder::new(&stats).cpufreq_khz();
        khz.map(Result::unwrap).collect::<Vec<u32>>()
    };
    assert_eq!(khz(0), [2_650_000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3_698_200]);
    // A processor that is switched on has a frequency.
    machine.write(format!("{cpus}/cpu2/cpufreq/scaling_cur_freq"), "1000\n");
    assert_eq!(khz(10 * MS)[2], 1000);
}

#[test]
fn idle_states_are_in_order() {
    let machine = FakeRoot::empty();
    let cpus = "sys/devices/system/cpu";
    for (state, name, us) in [(0, "POLL", "10000"), (2, "C2", "x"), (10, "C10", "30")] {
        machine.write(
            format!("{cpus}/cpu1/cpuidle/state{state}/name"),
            format!("{name}\n"),
        );
        machine.write(
            format!("{cpus}/cpu1/cpuidle/state{state}/time"),
            format!("{us}\n"),
        );
    }
    machine.write(format!("{cpus}/cpu0/online"), "1\n");
    let stats = machine.first(|config| {
        config.set_cpuidle_period_ms(10);
    });
    let states = SysStatsDecoder::new(&stats).cpuidle_state().map(|cpu| {
        let cpu = cpu.unwrap();
        let states = cpu.cpuidle_state_entry().map(|state| {
            let state = state.unwrap();
            let name = state.state().unwrap().unwrap().to_owned();
            (name, state.duration_us().unwrap().unwrap())
        });
        (cpu.cpu_id().unwrap().unwrap(), states.collect::<Vec<_>>())
    });
    let expected = vec![("POLL".to_owned(), 10_000), ("C10".to_owned(), 30)];
    assert_eq!(states.collect::<Vec<_>>(), [(1, expected)]);
}

#[test]
fn devices_have_a_frequency() {
    let machine = FakeRoot::with(&[
        ("sys/devices/10010.devfreq_device_a/cur_freq", "1000000\n"),
        (
            "sys/class/devfreq/10020.devfreq_device_b/cur_freq",
            "20000000\n",
        ),
        ("sys/class/devfreq/broken/cur_freq", ""),
    ]);
    // The kernel lists devices as links.
    machine.link(
        "sys/class/devfreq/10010.devfreq_device_a",
        "../../devices/10010.devfreq_device_a",
    );
    let stats = machine.first(|config| {
        config.set_devfreq_period_ms(10);
    });
    let devices = SysStatsDecoder::new(&stats).devfreq().map(|device| {
        let device = device.unwrap();
        let key = device.key().unwrap().unwrap().to_owned();
        (key, device.value().unwrap().unwrap())
    });
    let expected = [
        ("10010.devfreq_device_a".to_owned(), 1_000_000),
        ("10020.devfreq_device_b".to_owned(), 20_000_000),
    ];
    assert_eq!(devices.collect::<Vec<_>>(), expected);
}

#[test]
fn gpu_has_the_frequency_of_its_driver() {
    let mhz = |path, content| {
        let machine = FakeRoot::with(&[(path, content)]);
        let stats = machine.first(|config| {
            config.set_gpufreq_period_ms(10);
        });
        let mhz = SysStatsDecoder::new(&stats).gpufreq_mhz();
        mhz.map(Result::unwrap).collect::<Vec<u64>>()
    };
    let adreno = "sys/class/kgsl/kgsl-3d0/devfreq/cur_freq";
    assert_eq!(mhz(adreno, "400000000\n"), [400]);
    assert_eq!(mhz("sys/class/drm/card0/gt_act_freq_mhz", "300\n"), [300]);
    let amd = "sys/class/drm/card0/device/pp_dpm_sclk";
    assert_eq!(mhz(amd, "\n0: 200Mhz \n1: 400Mhz *\n2: 2000Mhz \n"), [400]);
    assert_eq!(mhz(amd, "0: 200Mhz \n"), []);
}

#[test]
fn temperatures_are_in_degrees() {
    let machine = FakeRoot::with(&[
        ("sys/class/thermal/thermal_zone0/temp", "25999\n"),
        ("sys/class/thermal/thermal_zone0/type", "TSR0\n"),
        ("sys/class/thermal/thermal_zone1/temp", "-5000\n"),
        ("sys/class/thermal/cooling_device0/type", "Fan\n"),
    ]);
    let stats = machine.first(|config| {
        config.set_thermal_period_ms(10);
    });
    let zones = SysStatsDecoder::new(&stats).thermal_zone().map(|zone| {
        let zone = zone.unwrap();
        (
            zone.name().unwrap().unwrap().to_owned(),
            zone.temp().unwrap(),
            zone.r#type().unwrap().map(str::to_owned),
        )
    });
    let expected = [
        (
            "thermal_zone0".to_owned(),
            Some(25),
            Some("TSR0".to_owned()),
        ),
        ("thermal_zone1".to_owned(), None, None),
    ];
    assert_eq!(zones.collect::<Vec<_>>(), expected);
}

/// Returns for each of these times in ms whether meminfo and vmstat are read.
fn readings<const N: usize>(periods_ms: [u32; 2], times_ms: [u64; N]) -> [Option<[bool; 2]>; N] {
    let machine = FakeRoot::with(&[("proc/meminfo", MEMINFO), ("proc/vmstat", "nr_mlock 1")]);
    let mut poller = machine.poller(|config| {
        config.set_meminfo_period_ms(periods_ms[0]);
        config.set_vmstat_period_ms(periods_ms[1]);
    });
    times_ms.map(|time_ms| {
        let stats = poller.poll(time_ms * MS)?;
        let stats = SysStatsDecoder::new(&stats);
        Some([stats.meminfo().count() > 0, stats.vmstat().count() > 0])
    })
}

#[test]
fn groups_that_are_due_share_a_packet() {
    let times_ms = [1005, 1010, 1015, 1020, 1030, 1040];
    assert_eq!(
        readings([10, 20], times_ms),
        [
            Some([true, true]),
            Some([true, false]),
            None,
            Some([true, true]),
            Some([true, false]),
            Some([true, true]),
        ]
    );
}

#[test]
fn periods_need_not_be_multiples_of_each_other() {
    let times_ms = [1200, 1220, 1230, 1240, 1250, 1260];
    assert_eq!(
        readings([20, 30], times_ms),
        [
            Some([true, true]),
            Some([true, false]),
            Some([false, true]),
            Some([true, false]),
            None,
            Some([true, true]),
        ]
    );
}

#[test]
fn periods_are_at_least_10_ms() {
    let times_ms = [1000, 1009, 1010];
    let every = Some([true, false]);
    assert_eq!(readings([1, 0], times_ms), [every, None, every]);
}

#[test]
fn longest_periods_work() {
    for period_ms in [u32::MAX, 24 * 60 * 60 * 1000] {
        let machine = FakeRoot::empty();
        let mut poller = machine.poller(|config| {
            config.set_meminfo_period_ms(period_ms);
        });
        // In the year 2554.
        let time_ns = u64::MAX - 1;
        assert!(poller.poll(time_ns).is_some());
        assert!(poller.poll(time_ns).is_none());
        assert!(poller.until_next(time_ns).is_some());
    }
}

#[test]
fn without_periods_nothing_is_read() {
    let mut poller = FakeRoot::empty().poller(|_| {});
    assert_eq!(poller.poll(0), None);
    assert_eq!(poller.until_next(0), None);
}

#[test]
fn missing_files_are_left_out() {
    let stats = FakeRoot::empty().first(|config| {
        config.set_meminfo_period_ms(10);
        config.set_vmstat_period_ms(10);
        config.set_stat_period_ms(10);
        config.set_devfreq_period_ms(10);
        config.set_cpufreq_period_ms(10);
        config.set_buddyinfo_period_ms(10);
        config.set_diskstat_period_ms(10);
        config.set_psi_period_ms(10);
        config.set_thermal_period_ms(10);
        config.set_cpuidle_period_ms(10);
        config.set_gpufreq_period_ms(10);
        config.set_slab_period_ms(10);
    });
    let fields = SysStatsDecoder::new(&stats).fields();
    let numbers: Vec<u32> = fields.map(|field| field.unwrap().number).collect();
    let end = tracezero_kernel::protos::SysStats::COLLECTION_END_TIMESTAMP_FIELD_NUMBER;
    assert_eq!(numbers, [end]);
}

#[test]
fn files_may_end_anywhere() {
    let files = [
        ("proc/meminfo", MEMINFO),
        ("proc/vmstat", "nr_free_pages 16449\npgfault 181696234\n"),
        (
            "proc/stat",
            "cpu 1 2\ncpu0 1 2 3\nintr 9 0 1\nprocesses 5\nsoftirq 7 1 2\n",
        ),
        (
            "proc/buddyinfo",
            "Node 0, zone DMA 2743 1659\nNode 1, zone Normal 1\n",
        ),
        (
            "proc/diskstats",
            "8 0 sda 54133 5368 8221736 75929 30333\n8 1 sda1 1 2\n",
        ),
        (
            "proc/pressure/io",
            "some avg10=23.10 total=417963\nfull total=5\n",
        ),
        (
            "proc/slabinfo",
            "version\n# name\na 1 2 3 4 5 : t 3 1 8 : s 1 1 0\n",
        ),
        (
            "sys/class/drm/card0/device/pp_dpm_sclk",
            "0: 200Mhz\n1: 400Mhz *\n",
        ),
        ("sys/class/thermal/thermal_zone0/temp", "25999\n"),
    ];
    let machine = FakeRoot::with(&files);
    for (path, content) in files {
        for end in 0..content.len() {
            machine.write(path, &content[..end]);
            let stats = machine.first(|config| {
                config.set_meminfo_period_ms(10);
                config.set_vmstat_period_ms(10);
                config.set_stat_period_ms(10);
                config.set_buddyinfo_period_ms(10);
                config.set_diskstat_period_ms(10);
                config.set_psi_period_ms(10);
                config.set_thermal_period_ms(10);
                config.set_gpufreq_period_ms(10);
                config.set_slab_period_ms(10);
            });
            let fields = SysStatsDecoder::new(&stats).fields();
            assert!(fields.map(Result::unwrap).count() > 8, "{path} up to {end}");
        }
        machine.write(path, content);
    }
}
