//! Tables of a trace that has the kernel's half.

use support::Folder;
use support::kernel_trace::prev_state::SLEEPING;
use support::kernel_trace::{KernelTrace, SchedForm};
use tracezero_lake::{ExportOptions, Lake};

use crate::table::{rows, select};

/// Exports a trace in which thread 11 of process 10 wakes thread 21 of process 20, which then runs in its place.
fn export() -> Folder {
    let mut trace = KernelTrace::new(SchedForm::Verbose);
    trace.core(0, |core| {
        core.switch(50, 21, SLEEPING, 0)
            .switch(100, 0, 0, 11)
            .wake(200, 11, 21, 0)
            .switch(300, 11, SLEEPING, 21)
            .switch(450, 21, SLEEPING, 0);
    });
    trace.kernel_packet(|packet| {
        packet.process_tree(|tree| {
            for (pid, command) in [(10, "/bin/shop"), (20, "/bin/stock"), (30, "/bin/idle")] {
                tree.add_processes(|it| {
                    it.set_pid(pid).add_cmdline(command);
                });
            }
            for (tid, pid) in [(11, 10), (21, 20), (31, 30)] {
                tree.add_threads(|it| {
                    it.set_tid(tid).set_tgid(pid).set_name("worker");
                });
            }
        });
    });
    let folder = Folder::empty();
    let mut lake = Lake::open(folder.path()).unwrap();
    lake.export(trace.bytes(), "kernel", &ExportOptions::default())
        .unwrap();
    folder
}

#[test]
fn processes_and_threads_are_listed_even_without_events() {
    let lake = export();
    let processes = rows(lake.path(), "process");
    let mut named = select(&processes, &["pid", "name"]);
    named.sort();
    assert_eq!(named, ["10 shop", "20 stock", "30 idle"]);
    let mut threads = select(&rows(lake.path(), "thread"), &["tid", "name"]);
    threads.sort();
    assert_eq!(threads, ["11 thread-11", "21 thread-21", "31 worker"]);
}

#[test]
fn states_of_threads_are_in_order_of_time_with_who_woke_them() {
    let lake = export();
    let threads = rows(lake.path(), "thread");
    let tid_of = |utid: &str| {
        let thread = threads.iter().find(|thread| thread["utid"] == utid);
        thread.unwrap()["tid"].clone()
    };
    let states = rows(lake.path(), "thread_state");
    let known = states.iter().filter(|row| row.contains_key("state"));
    let known = known.map(|row| {
        let waker = row.get("waker_utid").map(|utid| tid_of(utid));
        let [ts, dur, state] = ["ts", "dur", "state"].map(|column| &row[column]);
        let (tid, waker) = (
            tid_of(&row["utid"]),
            waker.unwrap_or_else(|| "-".to_owned()),
        );
        format!("{ts} {dur} {tid} {state} {waker}")
    });
    assert_eq!(
        known.collect::<Vec<_>>(),
        [
            "50 150 21 S -",
            "100 200 11 Running -",
            "200 100 21 R 11",
            "300 150 21 Running -",
            "300 150 11 S -",
        ]
    );
}

/// A container has three processes: 500 has tracks, under the id that it has in the container; 600 has the id there that
/// another process has outside; 700 has none of both.
#[test]
fn processes_of_containers_have_the_ids_of_their_tracks() {
    let mut trace = KernelTrace::new(SchedForm::Verbose);
    trace.core(0, |core| {
        core.switch(100, 0, 0, 501).switch(200, 501, SLEEPING, 1);
    });
    trace.packet(|packet| {
        packet.set_trusted_packet_sequence_id(2);
        packet.track_descriptor(|track| {
            track.set_uuid(1);
            track.process(|process| {
                process.set_pid(7);
            });
        });
    });
    trace.kernel_packet(|packet| {
        packet.process_tree(|tree| {
            for (pid, own_pid) in [(1, None), (500, Some(7)), (600, Some(1)), (700, Some(9))] {
                tree.add_processes(|it| {
                    it.set_pid(pid);
                    own_pid.map(|own_pid| it.add_nspid(own_pid));
                });
            }
            for (tid, pid, own_tid) in [(501, 500, 8), (601, 600, 2)] {
                tree.add_threads(|it| {
                    it.set_tid(tid).set_tgid(pid).add_nstid(own_tid);
                });
            }
        });
    });
    let folder = Folder::empty();
    let mut lake = Lake::open(folder.path()).unwrap();
    lake.export(trace.bytes(), "kernel", &ExportOptions::default())
        .unwrap();
    let mut processes = select(&rows(folder.path(), "process"), &["pid"]);
    processes.sort();
    assert_eq!(processes, ["1", "600", "7", "700"]);
    let mut threads = select(&rows(folder.path(), "thread"), &["tid"]);
    threads.sort();
    assert_eq!(threads, ["1", "601", "8"]);
}
