//! What is written about the processes of a machine that is a folder.

use std::fmt::Write as _;
use std::mem;

use tracezero_kernel::protos::process_stats::ProcessDecoder as StatsProcess;
use tracezero_kernel::protos::process_tree::{ProcessDecoder, ThreadDecoder};
use tracezero_kernel::protos::{ProcessStatsConfig, ProcessStatsDecoder, ProcessTreeDecoder};

use super::*;
use crate::testing::FakeRoot;

/// The length of a tick in these tests.
const TICK_NS: u64 = 10_000_000;

const MS: u64 = 1_000_000;

/// A sequence of packets that is a list.
#[derive(Default)]
struct Kept {
    now_ns: u64,
    /// The time that each packet takes.
    packet_ns: u64,
    /// The number of packets to drop.
    to_drop: u64,
    drop_count: u64,
    emitted: Emitted,
    trees: Vec<(u64, Vec<u8>)>,
    stats: Vec<(u64, Vec<u8>)>,
}

impl Packets for Kept {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn emitted(&mut self) -> &mut Emitted {
        &mut self.emitted
    }

    fn drop_count(&self) -> u64 {
        self.drop_count
    }

    fn write_tree(&mut self, timestamp_ns: u64, tree: &[u8]) {
        self.now_ns += self.packet_ns;
        if self.to_drop > 0 {
            self.to_drop -= 1;
            self.drop_count += 1;
            return self.clear_state();
        }
        self.trees.push((timestamp_ns, tree.to_vec()));
    }

    fn write_stats(&mut self, timestamp_ns: u64, stats: &[u8]) {
        self.stats.push((timestamp_ns, stats.to_vec()));
    }
}

impl Kept {
    /// Forgets what readers know, like a loss or the service.
    fn clear_state(&mut self) {
        self.emitted = Emitted::default();
    }

    /// Returns the packets with processes and threads since the last call, each as lines.
    fn take_trees(&mut self) -> Vec<Vec<String>> {
        let trees = mem::take(&mut self.trees).into_iter();
        trees.map(|(_, tree)| lines_of_tree(&tree)).collect()
    }

    /// Returns the ids of processes and threads that were written since the last call, sorted.
    fn take_ids(&mut self) -> (Vec<i32>, Vec<i32>) {
        let (mut processes, mut threads) = (Vec::new(), Vec::new());
        for (_, tree) in mem::take(&mut self.trees) {
            let tree = ProcessTreeDecoder::new(&tree);
            processes.extend(
                tree.processes()
                    .map(|it| it.unwrap().pid().unwrap().unwrap()),
            );
            threads.extend(tree.threads().map(|it| it.unwrap().tid().unwrap().unwrap()));
        }
        processes.sort_unstable();
        threads.sort_unstable();
        (processes, threads)
    }

    /// Calls `look` with each process in packets of counters since the last call.
    fn take_stats<R>(&mut self, mut look: impl FnMut(&StatsProcess<'_>) -> R) -> Vec<R> {
        let mut found = Vec::new();
        for (_, stats) in mem::take(&mut self.stats) {
            let processes = ProcessStatsDecoder::new(&stats).processes();
            found.extend(processes.map(|process| look(&process.unwrap())));
        }
        found
    }
}

/// Returns a line for each process and thread of a packet.
fn lines_of_tree(tree: &[u8]) -> Vec<String> {
    let tree = ProcessTreeDecoder::new(tree);
    assert!(tree.collection_end_timestamp().unwrap().is_some());
    let processes = tree.processes().map(|it| line_of_process(&it.unwrap()));
    let threads = tree.threads().map(|it| line_of_thread(&it.unwrap()));
    processes.chain(threads).collect()
}

fn line_of_process(process: &ProcessDecoder<'_>) -> String {
    let mut line = format!("process {}", process.pid().unwrap().unwrap());
    write!(line, " below {}", process.ppid().unwrap().unwrap()).unwrap();
    if let Some(user) = process.uid().unwrap() {
        write!(line, " of user {user}").unwrap();
    }
    let arguments: Vec<_> = process.cmdline().map(Result::unwrap).collect();
    write!(line, ": {}", arguments.join("|")).unwrap();
    for id in process.nspid() {
        write!(line, ", inside {}", id.unwrap()).unwrap();
    }
    if let Some(ns) = process.process_start_from_boot().unwrap() {
        write!(line, ", start {ns}").unwrap();
    }
    if let Some(is_kthread) = process.is_kthread().unwrap() {
        write!(line, ", kthread {is_kthread}").unwrap();
    }
    if process.cmdline_is_comm().unwrap().is_some() {
        line += ", comm";
    }
    line
}

fn line_of_thread(thread: &ThreadDecoder<'_>) -> String {
    let tid = thread.tid().unwrap().unwrap();
    let mut line = format!("thread {tid} of {}", thread.tgid().unwrap().unwrap());
    if let Some(name) = thread.name().unwrap() {
        write!(line, ": {name}").unwrap();
    }
    for id in thread.nstid() {
        write!(line, ", inside {}", id.unwrap()).unwrap();
    }
    line
}

impl FakeRoot {
    /// Writes the files of a process or thread. Its name is `t` and its id.
    fn thread(&self, id: i32, process: i32) {
        self.write(
            format!("proc/{id}/status"),
            format!(
                "Name:\tt{id}\nUmask:\t0022\nTgid:\t{process}\nNgid:\t0\nPid:\t{id}\nPPid:\t1\n\
                 Uid:\t43\t44\t45\t46\n"
            ),
        );
        self.write(format!("proc/{process}/task/{id}/comm"), "");
    }

    /// Writes the files of a process. Its command line is `p` and its id.
    fn process(&self, id: i32) {
        self.thread(id, id);
        self.write(format!("proc/{id}/cmdline"), format!("p{id}\0"));
    }

    /// Returns an instance that reads this machine.
    fn instance(&self, write: impl FnOnce(&mut ProcessStatsConfig<'_>)) -> Processes {
        Processes::new(&Settings::of(write), &self.root(), TICK_NS)
    }
}

fn seen(ids: &[i32]) -> SeenThreads {
    ids.iter().copied().collect()
}

fn nothing() -> SeenThreads {
    SeenThreads::default()
}

#[test]
fn process_is_written_once_with_its_real_user() {
    let machine = FakeRoot::with(&[
        (
            "proc/42/status",
            "Name: foo\nTgid:\t42\nPid:   42\nPPid:  17\nUid:  43 44 45 56\n",
        ),
        ("proc/42/cmdline", "foo\0bar\0baz\0"),
    ]);
    let mut instance = machine.instance(|_| {});
    let mut packets = Kept {
        now_ns: 7,
        ..Kept::default()
    };
    for _ in 0..2 {
        instance.update(&seen(&[42]), 0, &mut packets);
    }
    assert_eq!(packets.trees[0].0, 7, "the time of the scan");
    assert_eq!(
        packets.take_trees(),
        [[
            "process 42 below 17 of user 43: foo|bar|baz",
            "thread 42 of 42"
        ]]
    );
}

#[test]
fn command_line_may_lack_its_end_or_have_many() {
    for (command_line, expected) in [
        ("surfaceflinger", "surfaceflinger"),
        ("nginx: worker\0\0\0\0", "nginx: worker"),
        ("\0\0", "t42, comm"),
    ] {
        let machine = FakeRoot::empty();
        machine.process(42);
        machine.write("proc/42/cmdline", command_line);
        let mut packets = Kept::default();
        machine
            .instance(|_| {})
            .update(&seen(&[42]), 0, &mut packets);
        let process = format!("process 42 below 1 of user 43: {expected}");
        assert_eq!(packets.take_trees()[0][0], process);
    }
}

#[test]
fn each_thread_is_written_once_after_its_process() {
    let machine = FakeRoot::empty();
    for process in [10, 20, 30] {
        machine.process(process);
        machine.thread(process + 1, process);
        machine.thread(process + 2, process);
    }
    let mut instance = machine.instance(|config| {
        config.set_record_thread_names(true);
    });
    let mut packets = Kept::default();
    instance.update(&seen(&[10, 11, 12, 20, 21, 22]), 0, &mut packets);
    instance.update(&seen(&[30]), 0, &mut packets);
    instance.update(&seen(&[10, 30, 31, 32]), 0, &mut packets);
    let trees = packets.take_trees();
    assert_eq!(
        trees[0],
        [
            "process 10 below 1 of user 43: p10",
            "process 20 below 1 of user 43: p20",
            "thread 10 of 10: t10",
            "thread 11 of 10: t11",
            "thread 12 of 10: t12",
            "thread 20 of 20: t20",
            "thread 21 of 20: t21",
            "thread 22 of 20: t22",
        ]
    );
    assert_eq!(
        trees[1..],
        [
            ["process 30 below 1 of user 43: p30", "thread 30 of 30: t30"],
            ["thread 31 of 30: t31", "thread 32 of 30: t32"],
        ]
    );
}

#[test]
fn thread_that_is_seen_first_brings_its_process() {
    let machine = FakeRoot::with(&[
        (
            "proc/42/status",
            "Name: foo\nTgid:\t42\nPid:   42\nPPid:  17\nNSpid:\t42\t2\n",
        ),
        ("proc/42/cmdline", "foo\0bar\0baz\0"),
        (
            "proc/43/status",
            "Name: foo\nTgid:\t42\nPid:   43\nPPid:  17\nNSpid:\t43\t3\n",
        ),
    ]);
    let mut instance = machine.instance(|_| {});
    let mut packets = Kept::default();
    instance.update(&seen(&[43]), 0, &mut packets);
    instance.update(&seen(&[42]), 0, &mut packets);
    assert_eq!(
        packets.take_trees(),
        [[
            "process 42 below 17: foo|bar|baz, inside 2",
            "thread 42 of 42, inside 2",
            "thread 43 of 42, inside 3",
        ]]
    );
}

#[test]
fn lost_state_brings_all_live_threads_at_once() {
    let machine = FakeRoot::empty();
    machine.process(42);
    machine.thread(43, 42);
    machine.process(50);
    machine.process(60);
    let mut instance = machine.instance(|_| {});
    let mut packets = Kept::default();
    instance.update(&seen(&[43, 50]), 0, &mut packets);
    assert_eq!(packets.take_ids(), (vec![42, 50], vec![42, 43, 50]));
    machine.write("proc/42/cmdline", "second\0");
    machine.remove("proc/50");
    packets.clear_state();
    instance.update(&nothing(), 0, &mut packets);
    assert_eq!(
        packets.take_trees(),
        [[
            "process 42 below 1 of user 43: second",
            "thread 42 of 42",
            "thread 43 of 42",
        ]]
    );
    instance.update(&nothing(), 0, &mut packets);
    assert_eq!(packets.trees.len(), 0, "readers know all");
}

#[test]
fn lost_packet_brings_all_live_threads_again() {
    let machine = FakeRoot::empty();
    machine.process(42);
    machine.process(43);
    let mut instance = machine.instance(|_| {});
    let mut packets = Kept::default();
    instance.update(&seen(&[42]), 0, &mut packets);
    packets.take_trees();
    for to_drop in [1, 2] {
        packets.clear_state();
        packets.to_drop = to_drop;
        // The first packet has all threads that are known; further ones repeat it.
        for _ in 0..to_drop {
            instance.update(&nothing(), 0, &mut packets);
            assert_eq!(packets.take_ids(), (vec![], vec![]));
        }
        instance.update(&seen(&[43]), 0, &mut packets);
        let (processes, _) = packets.take_ids();
        assert_eq!(processes, [42, 43]);
    }
}

#[test]
fn lists_that_take_long_are_repeated_less_often() {
    let machine = FakeRoot::empty();
    machine.process(42);
    let mut instance = machine.instance(|_| {});
    let mut packets = Kept {
        packet_ns: 5,
        ..Kept::default()
    };
    let mut times_of_lists = Vec::new();
    instance.update(&seen(&[42]), 0, &mut packets);
    packets.take_trees();
    for _ in 0..200 {
        packets.clear_state();
        instance.update(&nothing(), 0, &mut packets);
        times_of_lists.extend(packets.trees.drain(..).map(|(time, _)| time));
        packets.now_ns += 1;
    }
    let pauses = times_of_lists.windows(2).map(|pair| pair[1] - pair[0]);
    assert_eq!(pauses.min(), Some(5 + 50));
}

#[test]
fn only_renamed_thread_is_written_again() {
    let machine = FakeRoot::empty();
    machine.process(10);
    machine.process(20);
    let mut instance = machine.instance(|_| {});
    let mut packets = Kept::default();
    instance.update(&seen(&[10, 20]), 0, &mut packets);
    packets.take_trees();
    for id in [10, 20] {
        machine.write(format!("proc/{id}/cmdline"), "new\0");
        let mut threads = seen(&[10, 20]);
        threads.renamed = vec![id, 0, -1];
        instance.update(&threads, 0, &mut packets);
        let process = format!("process {id} below 1 of user 43: new");
        let thread = format!("thread {id} of {id}");
        assert_eq!(packets.take_trees(), [[process, thread]]);
    }
}

#[test]
fn freed_id_is_looked_up_when_it_is_seen_again() {
    let machine = FakeRoot::empty();
    machine.process(10);
    machine.thread(11, 10);
    let mut instance = machine.instance(|_| {});
    let mut packets = Kept::default();
    instance.update(&seen(&[11]), 0, &mut packets);
    packets.take_trees();
    let mut freed = nothing();
    freed.freed = vec![11];
    instance.update(&freed, 0, &mut packets);
    packets.clear_state();
    instance.update(&nothing(), 0, &mut packets);
    assert_eq!(packets.take_ids(), (vec![10], vec![10]));
    machine.process(11);
    instance.update(&seen(&[11]), 0, &mut packets);
    assert_eq!(packets.take_ids(), (vec![11], vec![11]));
}

#[test]
fn vanished_thread_is_written_when_it_is_there() {
    let machine = FakeRoot::empty();
    machine.write("proc/7/status", "Name:\tx\nTgid:\t6\nPid:\t7\n");
    machine.write("proc/8/status", "garbage");
    machine.write("proc/9/status", "Name:\tx\nTgid:\t0\nPid:\t9\n");
    let mut instance = machine.instance(|_| {});
    let mut packets = Kept::default();
    instance.update(&seen(&[5, 6, 7, 8, 9]), 0, &mut packets);
    assert_eq!(packets.take_trees(), Vec::<Vec<String>>::new());
    machine.process(6);
    instance.update(&seen(&[7]), 0, &mut packets);
    assert_eq!(packets.take_ids(), (vec![6], vec![6, 7]));
}

#[test]
fn start_is_counted_in_ticks() {
    let machine = FakeRoot::empty();
    machine.process(42);
    let fields = "S 1 1 1 0 -1 4194560 1 2 3 4 1234 567 8 9 20 0 1 0 15842 10";
    machine.write("proc/42/stat", format!("42 (a b) {fields}"));
    let mut packets = Kept::default();
    let mut instance = machine.instance(|config| {
        config.set_record_process_age(true);
    });
    instance.update(&seen(&[42]), 0, &mut packets);
    let process = format!(
        "process 42 below 1 of user 43: p42, start {}",
        15842 * TICK_NS
    );
    assert_eq!(packets.take_trees()[0][0], process);
}

#[test]
fn kernel_thread_has_its_name_as_command_line() {
    let machine = FakeRoot::with(&[(
        "proc/2/status",
        "Name:\tkthreadd\nTgid:\t2\nPid:\t2\nPPid:\t0\nUid:\t0\t0\t0\t0\nKthread:\t1\n",
    )]);
    let process = "process 2 below 0 of user 0: kthreadd, kthread true, comm";
    for skips_main_thread in [false, true] {
        let mut packets = Kept::default();
        let mut instance = machine.instance(|config| {
            config.set_record_thread_names(true);
            config.set_skip_main_thread_message(skips_main_thread);
        });
        for _ in 0..2 {
            instance.update(&seen(&[2]), 0, &mut packets);
        }
        let mut expected = vec![process];
        if !skips_main_thread {
            expected.push("thread 2 of 2: kthreadd");
        }
        assert_eq!(packets.take_trees(), [expected]);
    }
}

#[test]
fn start_lists_all_processes_and_threads() {
    let machine = FakeRoot::empty();
    machine.process(1);
    machine.process(10);
    machine.thread(11, 10);
    machine.write("proc/self/status", "Pid:\t3\n");
    // Readable by its id, but not listed.
    machine.thread(12, 10);
    std::fs::remove_dir_all(machine.root().path("proc/10/task/12")).unwrap();
    let config = |names| {
        move |config: &mut ProcessStatsConfig<'_>| {
            config.set_scan_all_processes_on_start(true);
            config.set_record_thread_names(names);
        }
    };
    // The folders of threads are in `/proc` as well, but not listed there.
    let threads = [11, 12].map(|id| machine.root().path(format!("proc/{id}")));
    let mut packets = Kept::default();
    machine
        .instance(config(true))
        .update(&nothing(), 0, &mut packets);
    assert_eq!(
        packets.take_trees(),
        [[
            "process 1 below 1 of user 43: p1",
            "process 10 below 1 of user 43: p10",
            "thread 1 of 1: t1",
            "thread 10 of 10: t10",
            "thread 11 of 10: t11",
        ]]
    );
    // Without names, the files of threads are not needed.
    for thread in threads {
        std::fs::remove_dir_all(thread).unwrap();
    }
    packets.clear_state();
    let mut instance = machine.instance(config(false));
    instance.update(&nothing(), 0, &mut packets);
    instance.update(&seen(&[10, 11]), 0, &mut packets);
    assert_eq!(
        packets.take_trees(),
        [[
            "process 1 below 1 of user 43: p1",
            "process 10 below 1 of user 43: p10",
            "thread 1 of 1",
            "thread 10 of 10",
            "thread 11 of 10",
        ]]
    );
}

#[test]
fn long_list_is_cut_into_packets() {
    let machine = FakeRoot::empty();
    for id in 1..=40 {
        machine.process(id);
        machine.write(format!("proc/{id}/cmdline"), vec![b'x'; 2000]);
    }
    machine.write("proc/40/cmdline", vec![b'x'; 1 << 20]);
    let mut packets = Kept::default();
    let mut instance = machine.instance(|config| {
        config.set_scan_all_processes_on_start(true);
    });
    instance.update(&nothing(), 0, &mut packets);
    assert!(packets.trees.len() > 40 * 2000 / (18 << 10));
    let largest = packets.trees.iter().map(|(_, tree)| tree.len()).max();
    assert!((64 << 10..82 << 10).contains(&largest.unwrap()));
    let all: Vec<i32> = (1..=40).collect();
    assert_eq!(packets.take_ids(), (all.clone(), all));
}

/// Writes the counters of a process, which grow with each turn of a test.
fn write_counters(machine: &FakeRoot, id: i32, turn: i32) {
    let base = id * 100 + turn * 10;
    machine.write(
        format!("proc/{id}/status"),
        format!(
            "Name:\tpid_10\nVmSize:\t {} kB\nVmRSS:\t{}  kB\n",
            base + 1,
            base + 2
        ),
    );
    machine.write(
        format!("proc/{id}/oom_score_adj"),
        format!("{}\n", base + 3),
    );
    let rollup = format!(
        "55d0-7ffc ---p 00000000 00:00 0    [rollup]\nRss:\t {} kB\nPss:\t{}  kB\n",
        base + 4,
        base + 5
    );
    machine.write(format!("proc/{id}/smaps_rollup"), rollup);
    machine.write(format!("proc/{id}/dmabuf_rss"), "4096\n");
    let (user, kernel) = (base, 2 * base);
    let stat = format!("{id} (x) S 1 1 1 0 -1 0 1 2 3 4 {user} {kernel} 8 9 20 0 1 0 0 10");
    machine.write(format!("proc/{id}/stat"), stat);
}

#[test]
fn polls_write_counters_that_were_asked_for() {
    let machine = FakeRoot::empty();
    for id in [1, 2] {
        for number in [5, 7] {
            machine.link(format!("proc/{id}/fd/{number}"), "/dev/example");
        }
    }
    let mut packets = Kept::default();
    let mut instance = machine.instance(|config| {
        config.set_proc_stats_poll_ms(1);
        config.set_resolve_process_fds(true);
        config.set_record_process_runtime(true);
        config.set_record_process_dmabuf_rss(true);
    });
    for turn in 0..4 {
        for id in [1, 2] {
            write_counters(&machine, id, turn);
        }
        let time_ns = turn as u64 * 100 * MS;
        let wait = instance.update(&nothing(), time_ns, &mut packets);
        assert_eq!(wait, Duration::from_millis(100));
        let found = packets.take_stats(|process| {
            let files = process.fds().map(|file| {
                let file = file.unwrap();
                assert_eq!(file.path(), Ok(Some("/dev/example")));
                file.fd().unwrap().unwrap()
            });
            assert_eq!(files.collect::<Vec<_>>(), [5, 7]);
            assert_eq!(process.smr_rss_kb(), Ok(None));
            assert_eq!(process.dmabuf_rss_kb(), Ok(Some(4)));
            (
                process.pid().unwrap().unwrap(),
                process.vm_size_kb().unwrap().unwrap(),
                process.vm_rss_kb().unwrap().unwrap(),
                process.oom_score_adj().unwrap().unwrap(),
                process.runtime_user_mode().unwrap().unwrap(),
                process.runtime_kernel_mode().unwrap().unwrap(),
            )
        });
        let expected = [1, 2].map(|id| {
            let base = id as u64 * 100 + turn as u64 * 10;
            let ns = base * TICK_NS;
            (id, base + 1, base + 2, base as i64 + 3, ns, 2 * ns)
        });
        assert_eq!(found, expected);
    }
}

#[test]
fn smaps_rollup_is_read_if_asked_for() {
    let machine = FakeRoot::empty();
    write_counters(&machine, 1, 0);
    let mut packets = Kept::default();
    let mut instance = machine.instance(|config| {
        config.set_proc_stats_poll_ms(100);
        config.set_scan_smaps_rollup(true);
    });
    instance.update(&nothing(), 0, &mut packets);
    let found = packets.take_stats(|process| {
        assert_eq!(process.runtime_user_mode(), Ok(None));
        assert_eq!(process.dmabuf_rss_kb(), Ok(None));
        assert_eq!(process.fds().count(), 0);
        (process.smr_rss_kb().unwrap(), process.smr_pss_kb().unwrap())
    });
    assert_eq!(found, [(Some(104), Some(105))]);
}

#[test]
fn unchanged_counters_are_written_when_cache_has_expired() {
    let machine = FakeRoot::empty();
    write_counters(&machine, 1, 0);
    machine.write("proc/1/oom_score_adj", "-900\n");
    let mut packets = Kept::default();
    let mut instance = machine.instance(|config| {
        config.set_proc_stats_poll_ms(105);
        config.set_proc_stats_cache_ttl_ms(220);
    });
    let mut counts = Vec::new();
    for tick in 0..4 {
        instance.update(&nothing(), tick * 105 * MS, &mut packets);
        // Between ticks, nothing is due.
        instance.update(&nothing(), (tick * 105 + 50) * MS, &mut packets);
        let adjustments = packets.take_stats(|process| process.oom_score_adj().unwrap());
        assert!(adjustments.iter().all(|it| *it == Some(-900)));
        counts.push(adjustments.len());
    }
    assert_eq!(counts, [1, 0, 1, 0]);
}

#[test]
fn only_changed_counters_are_written() {
    let machine = FakeRoot::empty();
    write_counters(&machine, 1, 0);
    let mut packets = Kept::default();
    let mut instance = machine.instance(|config| {
        config.set_proc_stats_poll_ms(100);
        config.set_proc_stats_cache_ttl_ms(10_000);
    });
    instance.update(&nothing(), 0, &mut packets);
    packets.take_stats(|_| ());
    machine.write("proc/1/status", "VmSize:\t101 kB\nVmRSS:\t103 kB\n");
    instance.update(&nothing(), 100 * MS, &mut packets);
    let found = packets.take_stats(|process| {
        let values = [process.vm_size_kb(), process.vm_rss_kb()].map(Result::unwrap);
        (values, process.oom_score_adj().unwrap())
    });
    assert_eq!(found, [([None, Some(103)], None)]);
    packets.clear_state();
    instance.update(&nothing(), 200 * MS, &mut packets);
    let sizes = packets.take_stats(|process| process.vm_size_kb().unwrap());
    assert_eq!(sizes, [Some(101)], "readers know nothing");
}

#[test]
fn process_without_memory_is_not_polled_again() {
    let machine = FakeRoot::empty();
    machine.process(2);
    let mut packets = Kept::default();
    let mut instance = machine.instance(|config| {
        config.set_proc_stats_poll_ms(100);
    });
    let mut sizes_at = |time_ns, packets: &mut Kept| {
        instance.update(&nothing(), time_ns, packets);
        packets.take_stats(|process| process.vm_size_kb().unwrap())
    };
    assert_eq!(sizes_at(0, &mut packets), []);
    machine.write("proc/2/status", "Pid:\t2\nTgid:\t2\nVmSize:\t5 kB\n");
    assert_eq!(sizes_at(100 * MS, &mut packets), []);
    packets.clear_state();
    assert_eq!(sizes_at(200 * MS, &mut packets), [Some(5)]);
}

#[test]
fn polled_processes_are_listed_until_they_end() {
    let machine = FakeRoot::empty();
    for id in [1, 2] {
        machine.process(id);
        write_counters(&machine, id, 0);
        let counters = format!("Name:\tx\nTgid:\t{id}\nPid:\t{id}\nVmSize:\t1 kB\n");
        machine.write(format!("proc/{id}/status"), counters);
    }
    let mut packets = Kept::default();
    let mut instance = machine.instance(|config| {
        config.set_proc_stats_poll_ms(100);
    });
    instance.update(&nothing(), 0, &mut packets);
    assert_eq!(packets.take_ids(), (vec![1, 2], vec![1, 2]));
    machine.remove("proc/2");
    instance.update(&nothing(), 100 * MS, &mut packets);
    assert_eq!(packets.take_ids(), (vec![], vec![]));
    machine.process(2);
    write_counters(&machine, 2, 0);
    machine.write(
        "proc/2/status",
        "Name:\tx\nTgid:\t2\nPid:\t2\nVmSize:\t1 kB\n",
    );
    instance.update(&nothing(), 200 * MS, &mut packets);
    assert_eq!(packets.take_ids(), (vec![2], vec![2]), "another process");
}

#[test]
fn open_files_are_written_once_from_the_start() {
    let machine = FakeRoot::empty();
    machine.process(1);
    machine.link("proc/1/fd/0", "/dev/null");
    machine.link("proc/1/fd/1", "pipe:[7]");
    let mut packets = Kept::default();
    let mut instance = machine.instance(|config| {
        config.set_scan_all_processes_on_start(true);
        config.set_resolve_process_fds(true);
    });
    instance.update(&nothing(), 0, &mut packets);
    instance.update(&seen(&[1]), 0, &mut packets);
    let files = packets.take_stats(|process| {
        let files = process.fds().map(|file| {
            let file = file.unwrap();
            let path = file.path().unwrap().unwrap().to_owned();
            (file.fd().unwrap().unwrap(), path)
        });
        files.collect::<Vec<_>>()
    });
    let expected = [(0, "/dev/null"), (1, "pipe:[7]")];
    assert_eq!(
        files,
        [expected.map(|(number, path)| (number, path.to_owned()))]
    );
}

#[test]
fn machine_without_processes_has_no_packets() {
    let machine = FakeRoot::empty();
    let mut packets = Kept::default();
    let mut instance = machine.instance(|config| {
        config.set_scan_all_processes_on_start(true);
        config.set_proc_stats_poll_ms(100);
    });
    instance.update(&seen(&[1, 2]), 0, &mut packets);
    assert_eq!((packets.trees.len(), packets.stats.len()), (0, 0));
}

#[test]
fn noted_threads_are_in_the_trace_of_their_session() {
    ProcessStats::register();
    let own_id = rustix::process::getpid().as_raw_nonzero().get();
    let before = on_demand::sessions();
    let session = tracezero::TraceConfig::empty()
        .add_buffer(tracezero::BufferConfig::ring(1024))
        .add_data_source(ProcessStats::config(|_| {}))
        .record_in_memory()
        .unwrap();
    let added = on_demand::sessions();
    // Other tests add sessions with the highest ids.
    let own = added
        .iter()
        .filter(|id| !before.contains(id))
        .min()
        .unwrap();
    on_demand::note(*own, &seen(&[own_id]));
    // The end of the session waits for what is pending.
    let (trace, _) = session.finish();
    let packets = tracezero::protos::TraceDecoder::new(&trace).packet();
    let trees = packets.filter_map(|packet| {
        let packet = packet.unwrap();
        let kernel = protos::KernelPacketDecoder::new(packet.as_decoder().bytes());
        let processes = kernel.process_tree().unwrap()?.processes();
        let ids = processes.map(|process| process.unwrap().pid().unwrap().unwrap());
        Some((ids.collect::<Vec<_>>(), packet.sequence_flags().unwrap()))
    });
    assert_eq!(trees.collect::<Vec<_>>(), [(vec![own_id], Some(1))]);
    // The thread of the data source may end a little later.
    support::wait_until(|| !on_demand::sessions().contains(own));
}
