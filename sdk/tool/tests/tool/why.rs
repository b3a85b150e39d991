//! `tracezero why`, and `summary --states`.

use serde_json::{Value, json};
use support::kernel_trace::KernelTrace;
use support::kernel_trace::prev_state::{RUNNABLE, SLEEPING};

use crate::kernel_half::{FUTEX, MAIN, QUEUE, WORKER, begin, end, lost, shop, waits};
use crate::process::{Run, run_with_input};
use crate::traces::SHOP;

fn why(args: &[&str], trace: &KernelTrace) -> Run {
    let args = Vec::from_iter(["why"].iter().chain(args).copied());
    run_with_input(&args, trace.bytes())
}

fn why_json(args: &[&str], trace: &KernelTrace) -> Value {
    let args = Vec::from_iter(args.iter().chain(&["--json"]).copied());
    serde_json::from_slice(&why(&args, trace).fine().stdout).unwrap()
}

#[test]
fn lock_disk_and_core_are_named() {
    let run = why(&["checkout", "-"], &waits()).fine();
    let expected = "\
checkout: took 40.0 µs from 0 s on, by main 10 of shop 10

  state                              time   share
  running                         14.0 µs  35.0 %
  waiting for a core              3.00 µs   7.5 %
  waiting for a lock or a thread  20.0 µs  50.0 %
  blocked on I/O                  3.00 µs   7.5 %

  waiting for a lock (futex 0x7f001000): 20.0 µs (50.0 %), once
    woken once by worker 11 inside of \"write index\", after 20.0 µs
  blocked on I/O in fsync: 3.00 µs (7.5 %), once
    woken once by an interrupt, after 3.00 µs
  waiting for a core: 3.00 µs (7.5 %), 2 times
    66.7 % of it, the core ran thread-99 99
    33.3 % of it, the core was idle: it took this long to wake up
";
    assert_eq!(run.text(), expected);
}

#[test]
fn answer_as_json_has_the_same() {
    let answer = why_json(&["checkout", "-"], &waits());
    let states = json!({
        "running": 14_000, "runnable": 3_000, "lock": 20_000, "blocked": 3_000, "sleeping": 0,
        "stopped": 0, "unknown": 0, "not_polled": 0,
    });
    assert_eq!(answer["all"]["states_ns"], states);
    assert_eq!(
        (&answer["count"], &answer["longest"]),
        (&json!(1), &Value::Null)
    );
    let [lock, disk, core] = &answer["all"]["causes"].as_array().unwrap()[..] else {
        panic!("{answer}");
    };
    assert_eq!(lock["futex"], "0x7f001000");
    let waker = json!([{
        "is_interrupt": false, "process": "shop 10", "thread": "worker 11", "span": "write index",
        "count": 1, "waited_ns": 20_000,
    }]);
    assert_eq!(lock["woken_by"], waker);
    assert_eq!(
        (&disk["kind"], &disk["call"]),
        (&json!("blocked"), &json!("fsync"))
    );
    assert_eq!(disk["woken_by"][0]["is_interrupt"], true);
    assert_eq!(core["meanwhile"][0]["thread"], "thread-99 99");
    assert_eq!(core["meanwhile"][0]["time_ns"], 2_000);
}

#[test]
fn spans_of_a_name_are_added_up_and_the_longest_stands_alone() {
    let mut trace = waits();
    // A second span runs all the time, with one of the same name inside, which does not count.
    for (time_ns, is_begin) in [
        (36_000, true),
        (37_000, true),
        (38_000, false),
        (44_000, false),
    ] {
        match is_begin {
            true => begin(&mut trace, WORKER, time_ns, "checkout", 0),
            false => end(&mut trace, WORKER, time_ns),
        }
    }
    let answer = why_json(&["checkout", "-"], &trace);
    assert_eq!(
        (&answer["count"], &answer["all"]["total_ns"]),
        (&json!(2), &json!(48_000))
    );
    assert_eq!(answer["all"]["states_ns"]["running"], 22_000);
    assert_eq!(answer["longest"]["breakdown"]["total_ns"], 40_000);
    let threads = Vec::from_iter(
        answer["threads"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["thread"]),
    );
    assert_eq!(threads, ["main 10", "worker 11"]);
    let text = why(&["checkout", "-"], &trace).fine();
    assert!(
        text.text()
            .starts_with("checkout: 2 spans on 2 threads, 48.0 µs\n"),
        "{text:?}"
    );
    assert!(
        text.text()
            .contains("\nthe longest: took 40.0 µs from 0 s on, by main 10 of shop 10\n")
    );
    // One is chosen by a time.
    let answer = why_json(&["checkout", "-", "--at", "0.000042"], &trace);
    assert_eq!(
        (&answer["count"], &answer["all"]["total_ns"]),
        (&json!(1), &json!(8_000))
    );
}

#[test]
fn shares_add_up_to_a_hundred_percent() {
    let mut trace = shop();
    begin(&mut trace, MAIN, 0, "thirds", 0);
    end(&mut trace, MAIN, 3_000);
    trace.core(0, |core| {
        core.switch(0, 0, RUNNABLE, 10)
            .switch(1_000, 10, SLEEPING, 0)
            .interrupt(2_000, 0, 10, 0)
            .switch(3_000, 0, RUNNABLE, 10);
    });
    let run = why(&["thirds", "-"], &trace).fine();
    let shares = run.text().lines().filter(|line| line.ends_with(" %"));
    let shares = shares.map(|line| line.rsplit_once("  ").unwrap().1.trim_end_matches(" %"));
    assert_eq!(Vec::from_iter(shares), ["33.4", "33.3", "33.3"]);
}

#[test]
fn future_divides_into_polls_and_waits() {
    let mut trace = shop();
    // The first poll has no flow: it begins one nanosecond after the future.
    begin(&mut trace, QUEUE, 1_000, "fetch", 77);
    begin(&mut trace, MAIN, 1_001, "fetch", 0);
    end(&mut trace, MAIN, 3_000);
    begin(&mut trace, WORKER, 9_000, "fetch", 77);
    end(&mut trace, WORKER, 11_000);
    end(&mut trace, QUEUE, 11_000);
    trace.core(0, |core| {
        core.switch(0, 0, RUNNABLE, 10)
            .switch(2_000, 10, SLEEPING, 0);
    });
    trace.core(1, |core| {
        core.switch(0, 0, RUNNABLE, 11)
            .switch(20_000, 11, SLEEPING, 0);
    });
    let answer = why_json(&["fetch", "-"], &trace);
    assert_eq!(
        (&answer["count"], &answer["all"]["polls"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(answer["all"]["total_ns"], 10_000);
    let states = &answer["all"]["states_ns"];
    assert_eq!(
        (&states["running"], &states["sleeping"]),
        (&json!(2_999), &json!(1_000))
    );
    assert_eq!(states["not_polled"], 6_001);
    let run = why(&["fetch", "-"], &trace).fine();
    assert!(
        run.text()
            .starts_with("fetch: took 10.0 µs from 0 s on, in 2 polls\n"),
        "{run:?}"
    );
}

#[test]
fn spans_that_have_not_ended_count_to_the_end() {
    let mut trace = shop();
    begin(&mut trace, MAIN, 1_000, "stuck", 0);
    begin(&mut trace, WORKER, 9_000, "other", 0);
    trace.core(0, |core| {
        core.switch(0, 0, RUNNABLE, 10)
            .switch(2_000, 10, SLEEPING, 0)
            .switch(20_000, 0, RUNNABLE, 11);
    });
    let run = why(&["stuck", "-"], &trace).fine();
    assert!(
        run.text()
            .starts_with("stuck: not ended after 8.00 µs from 0 s on"),
        "{run:?}"
    );
    assert!(
        run.text().contains("  sleeping  7.00 µs  87.5 %\n"),
        "{run:?}"
    );
    assert!(
        run.text().contains("note: the trace has no system calls"),
        "{run:?}"
    );
}

#[test]
fn time_without_events_is_unknown_with_their_number() {
    let run = why(&["checkout", "-"], &lost()).fine();
    let expected = "
  state                                     time   share
  running                                30.0 µs  75.0 %
  unknown (the kernel lost 1000 events)  10.0 µs  25.0 %
";
    assert!(run.text().contains(expected), "{run:?}");
}

#[test]
fn switches_that_the_kernel_left_out_are_said() {
    let mut trace = waits();
    trace.core(1, |core| {
        // Thread 11 sleeps: nobody has given it the core.
        core.call(60_000, 11, FUTEX, [0; 3]);
    });
    let run = why(&["checkout", "-"], &trace).fine();
    let expected = "the kernel left out 1 change of threads on cores; some states may be wrong\n";
    assert!(
        run.text().ends_with(&format!("\nnote: {expected}")),
        "{run:?}"
    );
    let run = run_with_input(&["summary", "--states", "-"], trace.bytes()).fine();
    assert!(run.text().contains(&format!("\n  {expected}")), "{run:?}");
}

#[test]
fn thread_that_the_kernel_does_not_know_is_said() {
    let mut trace = shop();
    begin(&mut trace, WORKER, 1_000, "work", 0);
    end(&mut trace, WORKER, 2_000);
    trace.core(0, |core| {
        core.switch(0, 0, RUNNABLE, 10)
            .switch(2_000, 10, SLEEPING, 0);
    });
    let run = why(&["work", "-"], &trace).fine();
    assert!(
        run.text().contains("  unknown  1.00 µs  100.0 %\n"),
        "{run:?}"
    );
    let note = "note: the kernel has no events of worker 11 of shop 10";
    assert!(run.text().contains(note), "{run:?}");
}

#[test]
fn questions_without_an_answer_are_explained() {
    let run = why(&["chekout", "-"], &waits());
    let expected =
        "error: -: the trace has no span named \"chekout\"; similar ones: \"checkout\"\n";
    assert_eq!((run.status, run.stderr.as_str()), (2, expected));

    let run = run_with_input(&["why", "checkout", "-"], &SHOP.trace());
    assert_eq!(run.status, 2);
    let command = "tracezero record --kernel sched,syscalls -- PROGRAM";
    assert!(run.stderr.contains("no scheduling events"), "{run:?}");
    assert!(run.stderr.contains(command), "{run:?}");

    let mut trace = waits();
    begin(&mut trace, QUEUE, 1_000, "queued", 0);
    end(&mut trace, QUEUE, 2_000);
    let run = why(&["queued", "-"], &trace);
    assert_eq!(run.status, 2);
    assert!(
        run.stderr
            .contains("on the track \"queue\", which is not that of a thread"),
        "{run:?}"
    );

    let run = why(&["checkout", "-", "--at", "1"], &waits());
    let expected = "error: -: no span named \"checkout\" is open at 1 s\n";
    assert_eq!((run.status, run.stderr.as_str()), (2, expected));
    assert_eq!(why(&["checkout", "-", "--at", "noon"], &waits()).status, 2);
}

#[test]
fn summary_has_the_states_of_spans_and_threads() {
    let run = run_with_input(&["summary", "--states", "-"], waits().bytes()).fine();
    let expected = "
states of threads in spans, by total
  category  span           total  running   core    lock    I/O  sleeping  stopped  unknown
            checkout     40.0 µs   35.0 %  7.5 %  50.0 %  7.5 %     0.0 %    0.0 %    0.0 %
            write index  30.0 µs  100.0 %  0.0 %   0.0 %  0.0 %     0.0 %    0.0 %    0.0 %
            compress     1.00 µs  100.0 %  0.0 %   0.0 %  0.0 %     0.0 %    0.0 %    0.0 %

states of threads, by time of running
  process  thread          total  running    core    lock    I/O  sleeping  stopped  unknown
  shop 10  worker 11     49.4 µs   89.9 %   0.0 %   0.0 %  0.0 %    10.1 %    0.0 %    0.0 %
  shop 10  main 10       49.5 µs   47.5 %   6.1 %  40.4 %  6.0 %     0.0 %    0.0 %    0.0 %
           thread-99 99  39.0 µs   56.4 %  43.6 %   0.0 %  0.0 %     0.0 %    0.0 %    0.0 %
";
    assert!(run.text().contains(expected), "{}", run.text());
    let run = run_with_input(&["summary", "--states", "--json", "-"], waits().bytes()).fine();
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    let states = &summary["thread_states"];
    assert_eq!(states["spans"][0]["states_ns"]["lock"], 20_000);
    assert_eq!(states["threads"][0]["tid"], 11);
    let run = run_with_input(&["summary", "--states", "-"], lost().bytes()).fine();
    assert!(
        run.text()
            .contains("\n  the kernel lost 1000 events in 1 gap\n"),
        "{run:?}"
    );
}

#[test]
fn summary_says_that_states_are_missing() {
    let run = run_with_input(&["summary", "--states", "-"], &SHOP.trace());
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("no scheduling events"), "{run:?}");
}
