//! Files of flight recorders are complete traces: after laps of the ring, joined from parts, and
//! cut by time.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use judge::{Event, ExtraSchema, Options, Verdict, judge_with};
use support::{Folder, alone};
use tracezero::{
    FlightRecorder, FlightRecorderBuilder, Flow, Track, clock, counter, instant, span,
};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn parts_recorded_by_running_threads_join_without_loss() {
    const THREADS: usize = 4;
    const ROUNDS: i64 = 2_000;
    let (_guard, folder) = (alone(), Folder::empty());
    let recorder = recorder(&folder, 16 * 1024).start().unwrap();
    let window = recorder
        .around("window", MINUTE, MINUTE)
        .save_in_background();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for number in 0..ROUNDS {
                    record(number);
                    if number % 100 == 0 {
                        let name = format!("meanwhile {}", number % 300);
                        recorder.snapshot(&name).save_in_background();
                    }
                }
            });
        }
    });
    let stats = recorder.stop();
    assert!(stats.saved > 1, "{stats:?}");
    let verdict = judged(&window.wait().unwrap(), Options::default());
    let rounds = rounds_by_sequence(&verdict);
    assert_eq!(rounds.len(), THREADS);
    for (sequence, numbers) in &rounds {
        let missing = Vec::from_iter((0..ROUNDS).filter(|it| !numbers.contains(it)));
        assert!(
            numbers.iter().copied().eq(0..ROUNDS),
            "{} rounds of {sequence}, without {missing:?}; {stats:?}",
            numbers.len()
        );
    }
    assert_eq!(verdict.events_named("window").count(), 1);
    assert_eq!(verdict.unreadable_packets, 0);
}

#[test]
fn lapped_parts_leave_nothing_unreadable() {
    const ROUNDS: i64 = 5_000;
    let (_guard, folder) = (alone(), Folder::empty());
    let recorder = recorder(&folder, 256).start().unwrap();
    (0..ROUNDS).for_each(record);
    let window = recorder
        .around("window", MINUTE, MINUTE)
        .save_in_background();
    // Requests are served in order. So once this snapshot is saved, the recorder has also taken the
    // events before the window out of the ring.
    recorder.snapshot("served").save().unwrap();
    (ROUNDS..2 * ROUNDS).for_each(record);
    drop(recorder);
    let options = Options {
        allow_unreadable_after_loss: true,
        ..Options::default()
    };
    let verdict = judged(&window.wait().unwrap(), options);
    assert_eq!(verdict.unreadable_packets, 0);
    let rounds = rounds_by_sequence(&verdict);
    let numbers = rounds.values().next().unwrap();
    assert!(numbers.is_sorted());
    let (before, after) = numbers.split_at(numbers.partition_point(|it| *it < ROUNDS));
    assert!(
        before
            .iter()
            .copied()
            .eq(ROUNDS - before.len() as i64..ROUNDS)
    );
    assert!(
        after
            .iter()
            .copied()
            .eq(2 * ROUNDS - after.len() as i64..2 * ROUNDS)
    );
    assert!(
        before.len().min(after.len()) > 200,
        "{} {}",
        before.len(),
        after.len()
    );
}

#[test]
fn trace_cut_by_time_has_all_its_definitions() {
    let (_guard, folder) = (alone(), Folder::empty());
    let recorder = recorder(&folder, 4 * 1024).start().unwrap();
    let work = || {
        let times = (0..300).map(|number| {
            // This span is open most of the time, so that the cut lies inside such a span.
            let _around = span!("test", "around");
            thread::sleep(Duration::from_millis(10));
            let time_ns = clock::now_ns();
            record(number);
            time_ns
        });
        Vec::from_iter(times)
    };
    let times = thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.map(|thread| thread.join().unwrap())
    });
    let wanted = Duration::from_millis(500);
    let request = recorder.snapshot("cut").before(wanted);
    let saving = request.save_in_background();
    // This time is a little after the time of the request. So the snapshot must contain all events
    // since 500 ms before this time.
    let asked_ns = clock::now_ns();
    // Spans that were open at the cut have no begin. All other events can be read.
    let options = Options {
        allow_unreadable_after_loss: true,
        ..Options::default()
    };
    let verdict = judged(&saving.wait().unwrap(), options);
    assert_eq!(verdict.unreadable_packets, 0);
    let rounds = rounds_by_sequence(&verdict);
    for numbers in rounds.values() {
        let first = numbers[0];
        assert!(numbers.iter().copied().eq(first..300));
        // No event since then is missing, and the trace was cut.
        let from_ns = asked_ns - wanted.as_nanos() as u64;
        let is_enough =
            |times: &Vec<u64>| times.partition_point(|it| *it < from_ns) as i64 >= first;
        assert!(times.iter().any(is_enough), "{first}");
        assert!(first > 0);
    }
}

/// Records one event of each form, with the number of the round.
fn record(number: i64) {
    let flow = Flow::new();
    let track = Track::new("requests");
    let _outer = span!("test", "outer", number);
    let _request = span!("test", "request", track: &track.unique_child("request"), flow: &flow);
    counter!("test", "rounds", number);
    instant!("test", format!("pass {number}"), last_flow: &flow);
}

fn rounds_by_sequence(verdict: &Verdict) -> BTreeMap<u32, Vec<i64>> {
    let mut rounds = BTreeMap::<_, Vec<_>>::new();
    let number = |event: &Event| event.args["number"].as_i64().unwrap();
    for event in verdict.events_named("outer") {
        rounds
            .entry(event.sequence_id)
            .or_default()
            .push(number(event));
    }
    rounds
}

fn recorder(folder: &Folder, ring_kib: u32) -> FlightRecorderBuilder {
    FlightRecorder::builder()
        .ring_kib(ring_kib)
        .min_interval(Duration::ZERO)
        .max_files(1_000)
        .directory(folder.file("made"))
}

fn judged(path: &Path, options: Options) -> Verdict {
    judge_with(&fs::read(path).unwrap(), &ExtraSchema::new(), options)
        .unwrap_or_else(|problems| panic!("{:#?}", &problems[..problems.len().min(10)]))
}
