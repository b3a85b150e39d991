//! Records this machine, in sessions of this process.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::sync::mpsc::channel;
use std::time::Duration;
use std::{fs, process, thread};

use support::{alone, wait_until};
use tracezero::protos::TraceDecoder;
use tracezero::protos::trace_packet::SequenceFlags;
use tracezero::reader::{Level, check};
use tracezero::{BufferConfig, DataSource as _, DataSourceConfig, Losses, Report, TraceConfig};
use tracezero_probes::protos::{KernelPacketDecoder, ProcessStatsConfig, process_stats};
use tracezero_probes::{ProcessStats, SysStats, SystemInfo};

const CLEARED: u32 = SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED.0 as u32;

fn recording(sources: impl IntoIterator<Item = DataSourceConfig>) -> TraceConfig {
    ProcessStats::register();
    SysStats::register();
    SystemInfo::register();
    let config = TraceConfig::empty().add_buffer(BufferConfig::ring(8 * 1024));
    sources
        .into_iter()
        .fold(config, TraceConfig::add_data_source)
}

fn all_processes() -> DataSourceConfig {
    ProcessStats::config(|config| {
        config.set_scan_all_processes_on_start(true);
        config.set_record_thread_names(true);
    })
}

/// Records for a moment. What is due at the start is in the trace.
fn record(source: DataSourceConfig) -> Vec<u8> {
    let session = recording([source]).record_in_memory().unwrap();
    let (trace, report) = session.finish();
    assert_complete(&trace, &report);
    trace
}

fn assert_complete(trace: &[u8], report: &Report) {
    assert_eq!(report.losses, Losses::default(), "{report}");
    let checked = check(trace, |finding| {
        assert!(finding.level == Level::Note, "{finding}");
    });
    checked.unwrap();
}

/// Calls `look` with each packet, and with its bytes as one of the kernel.
fn packets<R>(trace: &[u8], look: impl Fn(&KernelPacketDecoder<'_>) -> Option<R>) -> Vec<R> {
    let packets = TraceDecoder::new(trace).packet();
    let kernel = packets.filter_map(|packet| {
        look(&KernelPacketDecoder::new(
            packet.unwrap().as_decoder().bytes(),
        ))
    });
    kernel.collect()
}

/// Returns the ids of processes in a trace, in its order.
fn process_ids(trace: &[u8]) -> Vec<i32> {
    let ids = packets(trace, |packet| {
        let processes = packet.process_tree().unwrap()?.processes();
        let ids = processes.map(|process| process.unwrap().pid().unwrap().unwrap());
        Some(ids.collect::<Vec<_>>())
    });
    ids.concat()
}

/// Returns the process and the name of each thread in a trace that has a name.
fn threads(trace: &[u8]) -> Vec<(i32, String)> {
    let threads = packets(trace, |packet| {
        let threads = packet.process_tree().unwrap()?.threads();
        let threads = threads.filter_map(|thread| {
            let thread = thread.unwrap();
            let name = thread.name().unwrap()?.to_owned();
            Some((thread.tgid().unwrap().unwrap(), name))
        });
        Some(threads.collect::<Vec<_>>())
    });
    threads.concat()
}

/// Returns the processes with counters in a trace.
fn counters<R>(
    trace: &[u8],
    look: impl Fn(&process_stats::ProcessDecoder<'_>) -> Option<R>,
) -> Vec<R> {
    let found = packets(trace, |packet| {
        let processes = packet.process_stats().unwrap()?.processes();
        let found = processes.filter_map(|process| look(&process.unwrap()));
        Some(found.collect::<Vec<_>>())
    });
    found.into_iter().flatten().collect()
}

fn own_id() -> i32 {
    process::id() as i32
}

/// The number of configured processors, as the kernel counts them in `/sys`.
fn configured_cpus() -> usize {
    let entries = fs::read_dir("/sys/devices/system/cpu").unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_cpu = |name: &String| {
        let number = name.strip_prefix("cpu");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    names.filter(is_cpu).count()
}

#[test]
fn own_process_and_its_threads_are_in_the_list() {
    let _alone = alone();
    let (running, has_ended) = channel::<()>();
    let (named, is_named) = channel();
    let builder = thread::Builder::new().name("a thread (1)".to_owned());
    let other = builder.spawn(move || {
        // A thread names itself before it runs this.
        named.send(()).unwrap();
        has_ended.recv()
    });
    let other = other.unwrap();
    is_named.recv().unwrap();
    let trace = record(all_processes());
    drop(running);
    assert!(other.join().unwrap().is_err());
    let ids = process_ids(&trace);
    let own = ids.iter().filter(|id| **id == own_id());
    assert_eq!(own.count(), 1);
    assert!(ids.contains(&1));
    let threads = threads(&trace);
    for name in ["a thread (1)", "tracezero-procs"] {
        assert!(threads.contains(&(own_id(), name.to_owned())), "{name}");
    }
}

#[test]
fn names_of_threads_are_recorded_only_if_asked_for() {
    let _alone = alone();
    let trace = record(ProcessStats::config(|config| {
        config.set_scan_all_processes_on_start(true);
    }));
    assert!(process_ids(&trace).contains(&own_id()));
    assert_eq!(threads(&trace), []);
}

#[test]
fn polls_have_counters_of_own_process() {
    let _alone = alone();
    let trace = record(ProcessStats::config(|config| {
        config.set_proc_stats_poll_ms(60_000);
        config.set_record_process_runtime(true);
        config.set_resolve_process_fds(true);
        config.set_scan_smaps_rollup(true);
    }));
    let own = counters(&trace, |process| {
        if process.pid() != Ok(Some(own_id())) {
            return None;
        }
        assert!(process.runtime_user_mode().unwrap().is_some());
        assert!(process.oom_score_adj().unwrap().is_some());
        assert!(process.vm_hwm_kb().unwrap() >= process.vm_rss_kb().unwrap());
        assert!(process.smr_pss_kb().unwrap() > Some(0));
        let mut files = process.fds().map(|file| file.unwrap().fd().unwrap());
        assert!(files.any(|number| number == Some(0)));
        process.vm_rss_kb().unwrap()
    });
    assert_eq!(own.len(), 1);
    // This test takes more than 1 MiB.
    assert!(own[0] > 1024, "{own:?}");
    assert!(process_ids(&trace).contains(&own_id()));
}

#[test]
fn cleared_state_is_announced_and_followed_by_the_whole_list() {
    let _alone = alone();
    let config =
        recording([all_processes()]).incremental_state_clear_period(Duration::from_millis(20));
    let session = config.record_in_memory().unwrap();
    let lists = |trace: &[u8]| {
        let packets = TraceDecoder::new(trace).packet().map(Result::unwrap);
        let trees = packets.filter(|packet| {
            let kernel = KernelPacketDecoder::new(packet.as_decoder().bytes());
            kernel.process_tree().unwrap().is_some()
        });
        let flags = trees.map(|packet| packet.sequence_flags().unwrap().unwrap_or(0));
        let cleared = flags.filter(|flags| *flags == CLEARED).count();
        let own = process_ids(trace).into_iter().filter(|id| *id == own_id());
        (cleared, own.count())
    };
    wait_until(|| lists(session.control().snapshot().unwrap().trace()).1 >= 3);
    let (trace, report) = session.finish();
    assert_complete(&trace, &report);
    let (cleared, own) = lists(&trace);
    assert!(cleared >= 3, "{cleared} of {own}");
}

#[test]
fn each_session_has_what_it_asked_for() {
    let _alone = alone();
    let first = recording([all_processes()]).record_in_memory().unwrap();
    let polled = |config: &mut ProcessStatsConfig<'_>| {
        config.set_proc_stats_poll_ms(100);
    };
    let second = recording([ProcessStats::config(polled)]);
    let second = second.record_in_memory().unwrap();
    wait_until(|| {
        let snapshot = second.control().snapshot().unwrap();
        let polls = packets(snapshot.trace(), |packet| {
            packet.process_stats().unwrap().map(drop)
        });
        polls.len() >= 3
    });
    let (first, _) = first.finish();
    let (second, _) = second.finish();
    assert_eq!(counters(&first, |_| Some(())), []);
    assert_eq!(threads(&second), []);
    for trace in [&first, &second] {
        let own = process_ids(trace).into_iter().filter(|id| *id == own_id());
        assert_eq!(own.count(), 1);
    }
}

#[test]
fn threads_of_the_data_sources_end_with_their_session() {
    let _alone = alone();
    let workers = || {
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let names =
            tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names
            .filter(|name| ["tracezero-procs\n", "tracezero-stats\n"].contains(&name.as_str()))
            .count()
    };
    wait_until(|| workers() == 0);
    let counters = SysStats::config(|config| {
        config.set_stat_period_ms(u32::MAX);
    });
    let session = recording([all_processes(), counters])
        .record_in_memory()
        .unwrap();
    wait_until(|| workers() == 2);
    assert!(session.control().flush());
    drop(session);
    wait_until(|| workers() == 0);
}

#[test]
fn times_of_all_processors_are_read_at_each_period() {
    let _alone = alone();
    let counters = SysStats::config(|config| {
        config.set_stat_period_ms(10);
        config.set_meminfo_period_ms(10_000);
        config.set_vmstat_period_ms(10_000);
        config.set_cpufreq_period_ms(10_000);
    });
    let session = recording([counters]).record_in_memory().unwrap();
    let times = |trace: &[u8]| {
        packets(trace, |packet| {
            Some(packet.sys_stats().unwrap()?.cpu_stat().count())
        })
    };
    wait_until(|| times(session.control().snapshot().unwrap().trace()).len() >= 3);
    let (trace, report) = session.finish();
    assert_complete(&trace, &report);
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let online = stat.lines().filter(|line| line.starts_with("cpu")).count() - 1;
    assert!(times(&trace).iter().all(|cpus| *cpus == online));
    let first = packets(&trace, |packet| {
        let stats = packet.sys_stats().unwrap()?;
        let frequencies = stats.cpufreq_khz().count();
        Some((stats.meminfo().count(), stats.vmstat().count(), frequencies))
    })[0];
    assert!(first.0 > 20 && first.1 > 50, "{first:?}");
    assert_eq!(first.2, configured_cpus());
}

#[test]
fn all_configured_processors_are_in_the_trace() {
    let _alone = alone();
    let trace = record(SystemInfo::config(|config| {
        config.set_irq_names(true);
    }));
    let cpus = packets(&trace, |packet| {
        Some(packet.cpu_info().unwrap()?.cpus().count())
    });
    assert_eq!(cpus, [configured_cpus()]);
    let interrupts = packets(&trace, |packet| {
        let names = packet.interrupt_info().unwrap()?.irq_mapping();
        Some(
            names
                .map(|it| it.unwrap().name().unwrap().unwrap().to_owned())
                .collect::<Vec<_>>(),
        )
    });
    let text = fs::read_to_string("/proc/interrupts").unwrap();
    for name in interrupts.concat() {
        assert!(text.contains(&format!(" {name}\n")), "{name}");
    }
}

#[test]
fn malformed_configurations_count_as_none() {
    let _alone = alone();
    for name in [ProcessStats::NAME, SysStats::NAME, SystemInfo::NAME] {
        // Fields 103, 104 and 119 with a tag that is cut off.
        let fields = b"\xba\x06\x01\xff\xc2\x06\x01\xff\xba\x07\x01\xff";
        let source = DataSourceConfig::new(name).source_specific(fields);
        let trace = record(source);
        let recorded = packets(&trace, |packet| {
            let stats = packet.sys_stats().unwrap().is_some();
            let tree = packet.process_tree().unwrap().is_some();
            (stats || tree).then_some(())
        });
        assert_eq!(recorded, [], "{name}");
    }
}
