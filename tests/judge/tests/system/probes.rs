//! Perfetto's producer of the state of the machine, `traced_probes`.

use std::{fs, process, thread};

use judge::Verdict;
use perfetto_protos::sys_stats_counters::MeminfoCounters;
use perfetto_protos::trace_packet::trace_packet::Data;

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

/// The producer connects again when a new daemon has replaced the first one.
#[test]
fn the_state_of_the_machine_is_in_the_traces_of_two_daemons() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let Some(_probes) = machine.probes() else {
        return;
    };
    for number in 0..2 {
        if number > 0 {
            machine.restart();
        }
        wait_until(|| machine.query().contains("linux.system_info"));
        let name = format!("{number}.pftrace");
        check_state_of_machine(&machine.record(&name, CONFIG).wait());
    }
}
