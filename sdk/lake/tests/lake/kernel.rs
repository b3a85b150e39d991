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
