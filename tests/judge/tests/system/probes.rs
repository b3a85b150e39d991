//! Producers of the state of the machine: Perfetto's, `traced_probes`, and ours, `tracezero probes`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use std::{fs, process, thread};

use judge::Verdict;
use perfetto_protos::sys_stats_counters::MeminfoCounters;
use perfetto_protos::trace_packet::trace_packet::Data;
use support::with_tracefs;

use crate::machine::{Machine, judged, wait_until};

const CONFIG: &str = r#"
    buffers { size_kb: 4096 }
    data_sources { config {
      name: "linux.sys_stats"
      sys_stats_config {
        meminfo_period_ms: 100 meminfo_counters: MEMINFO_MEM_TOTAL stat_period_ms: 100
      }
    } }
    data_sources { config {
      name: "linux.process_stats"
      process_stats_config { scan_all_processes_on_start: true }
    } }
    data_sources { config { name: "linux.system_info" } }
    duration_ms: 1000
"#;

/// Returns the data of the producer's packets.
fn data(verdict: &Verdict) -> impl Iterator<Item = &Data> {
    let packets = verdict.packets.iter();
    packets.filter_map(|packet| packet.data.as_ref())
}

#[track_caller]
fn check_state_of_machine(trace: &[u8]) {
    let verdict = judged(trace);
    let samples: Vec<_> = data(&verdict)
        .filter_map(|data| match data {
            Data::SysStats(sample) => Some(sample),
            _ => None,
        })
        .collect();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total_kib = meminfo.lines().find_map(|it| it.strip_prefix("MemTotal:"));
    let total_kib = total_kib.unwrap().trim_end_matches("kB").trim();
    let total_kib: u64 = total_kib.parse().unwrap();
    let totals: Vec<_> = samples.iter().flat_map(|it| &it.meminfo).collect();
    assert!(totals.len() > 1, "one sample at most");
    for total in totals {
        assert_eq!(total.key(), MeminfoCounters::MEMINFO_MEM_TOTAL);
        assert_eq!(total.value(), total_kib);
    }
    assert!(samples.iter().any(|it| !it.cpu_stat.is_empty()));

    let this_process = data(&verdict).find_map(|data| match data {
        Data::ProcessTree(tree) => {
            let mut processes = tree.processes.iter();
            processes.find(|it| it.pid() == process::id().cast_signed())
        }
        _ => None,
    });
    let command = std::env::args().next().unwrap();
    assert_eq!(this_process.unwrap().cmdline.first(), Some(&command));

    let cpus = data(&verdict).find_map(|data| match data {
        Data::CpuInfo(info) => Some(info.cpus.len()),
        _ => None,
    });
    assert!(cpus.unwrap() >= thread::available_parallelism().unwrap().get());
}

/// Records by two daemons, one after the other. The producer connects again when the second one has
/// replaced the first one.
fn record_twice(mut machine: Machine) {
    for number in 0..2 {
        if number > 0 {
            machine.restart();
        }
        wait_until(|| machine.query().contains("linux.system_info"));
        let name = format!("{number}.pftrace");
        check_state_of_machine(&machine.record(&name, CONFIG).wait());
    }
}

#[test]
fn the_state_of_the_machine_is_in_the_traces_of_two_daemons() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let Some(_probes) = machine.probes() else {
        return;
    };
    record_twice(machine);
}

#[test]
fn our_probes_record_the_state_of_the_machine_as_the_other_ones() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let _probes = machine.our_probes();
    record_twice(machine);
}

const KERNEL_CONFIG: &str = r#"
    buffers { size_kb: 32768 }
    data_sources { config {
      name: "linux.ftrace"
      ftrace_config {
        ftrace_events: "sched/sched_switch"
        ftrace_events: "sched/sched_waking"
        ftrace_events: "task/task_newtask"
      }
    } }
    duration_ms: 1000
"#;

#[test]
fn our_probes_record_the_kernel_for_a_daemon() {
    with_tracefs(|| {
        let Some(machine) = Machine::start() else {
            return;
        };
        let _probes = machine.our_probes();
        wait_until(|| machine.query().contains("linux.ftrace"));
        let recording = machine.record("kernel.pftrace", KERNEL_CONFIG);
        machine.wait_for_session("STARTED");
        // The daemon calls the session started a little before its producers have started.
        let threads: Vec<i32> = (0..50)
            .map(|_| {
                let thread = thread::spawn(|| {
                    thread::sleep(Duration::from_millis(10));
                    rustix::thread::gettid().as_raw_pid()
                });
                thread.join().unwrap()
            })
            .collect();
        let verdict = judged(&recording.wait());

        let mut new_threads = Vec::new();
        let mut switches: BTreeMap<u32, usize> = BTreeMap::new();
        let mut phases = BTreeSet::new();
        for data in data(&verdict) {
            match data {
                Data::FtraceEvents(bundle) => {
                    assert!(!bundle.lost_events());
                    let columns = bundle.compact_sched.as_ref();
                    let count = columns.map_or(0, |it| it.switch_timestamp.len());
                    *switches.entry(bundle.cpu()).or_default() += count;
                    let events = bundle.event.iter();
                    new_threads.extend(events.map(|event| event.task_newtask().pid()));
                }
                Data::FtraceStats(stats) => {
                    phases.insert(stats.phase() as i32);
                    assert!(stats.failed_ftrace_events.is_empty(), "{stats}");
                }
                _ => {}
            }
        }
        let found = threads.iter().filter(|it| new_threads.contains(it));
        assert!(
            found.count() > threads.len() / 2,
            "{new_threads:?} of {threads:?}"
        );
        assert!(switches.len() > 1, "{switches:?}");
        assert!(switches.values().all(|count| *count > 0), "{switches:?}");
        assert_eq!(phases, BTreeSet::from([1, 2]));
    });
}
