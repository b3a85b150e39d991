//! The content of a snapshot's file.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracezero::{BufferConfig, FlightRecorder, TraceConfig, activate_trigger, span};

use crate::trace::{Folder, Trace, record, within};

const HOUR: Duration = Duration::from_secs(3600);

/// A number of events far beyond what a ring of 256 KiB holds.
const LAPS: u64 = 50_000;

#[test]
fn snapshot_of_lapped_ring_has_newest_events() {
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    (0..LAPS).for_each(record);
    let trace = Trace::of(&recorder.snapshot("slow").save().unwrap());
    let numbers = trace.numbers();
    let first = LAPS - numbers.len() as u64;
    assert_eq!(numbers, Vec::from_iter(first..LAPS));
    assert!(numbers.len() > 1_000, "{}", numbers.len());
    assert_eq!((trace.configs, trace.stats), (1, 1));
    assert_eq!((trace.unreadable, trace.losses), (0, 1));
    assert!(trace.has("slow"), "who asked, and when");
}

#[test]
fn next_snapshot_repeats_events_of_the_last_one() {
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    for round in 0..10 {
        (round * 100..(round + 1) * 100).for_each(record);
        let trace = Trace::of(&recorder.snapshot("again").save().unwrap());
        assert_eq!(trace.unreadable, 0);
        assert_eq!(trace.numbers(), Vec::from_iter(0..(round + 1) * 100));
        assert_eq!((trace.configs, trace.stats), (1, 1));
    }
}

#[test]
fn each_snapshot_is_a_trace_of_its_own() {
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    let mut uuids = BTreeSet::new();
    for number in 0..3 {
        record(number);
        let trace = Trace::of(&recorder.snapshot("again").save().unwrap());
        let [uuid] = trace.uuids[..] else {
            panic!("one UUID per file: {:?}", trace.uuids);
        };
        assert!(uuids.insert(uuid), "a UUID came twice: {uuid:?}");
    }
    // The second half tells the recording.
    let recordings: BTreeSet<_> = uuids.iter().map(|(_, lsb)| lsb).collect();
    assert_eq!(recordings.len(), 1);
}

#[test]
fn recorder_goes_on_after_destructive_snapshot_of_session() {
    let folder = Folder::alone();
    let ring = BufferConfig::ring(256).transfer_on_clone();
    let config = TraceConfig::empty().add_buffer(ring).record_all();
    let recorder = FlightRecorder::builder()
        .config(config)
        .min_interval(Duration::ZERO)
        .directory(folder.path())
        .start()
        .unwrap();
    (0..100).for_each(record);
    recorder.snapshot("first").save().unwrap();
    (100..200).for_each(record);
    drop(recorder.control().snapshot().unwrap());
    (200..300).for_each(record);
    let trace = Trace::of(&recorder.snapshot("second").save().unwrap());
    assert_eq!(trace.numbers(), Vec::from_iter((0..100).chain(200..300)));
    assert_eq!(recorder.stop().failed, 0);
}

#[test]
fn overwritten_events_are_not_in_later_snapshots() {
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    record(0);
    recorder.snapshot("first").save().unwrap();
    (1..LAPS).for_each(record);
    recorder.snapshot("second").save().unwrap();
    let trace = Trace::of(&recorder.snapshot("third").save().unwrap());
    let numbers = trace.numbers();
    assert!(!numbers.contains(&0));
    assert!(numbers.contains(&(LAPS - 1)));
}

#[test]
fn snapshots_during_recording_lose_and_repeat_nothing() {
    const THREADS: u64 = 4;
    const EVENTS: u64 = 20_000;
    let folder = Folder::alone();
    // Large enough for all events.
    let recorder = folder.recorder().ring_kib(16 * 1024).start().unwrap();
    let is_finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let snapshots = scope.spawn(|| {
            // Relaxed: the thread may notice the flag a little later.
            while !is_finished.load(Ordering::Relaxed) {
                recorder.snapshot("meanwhile").save().unwrap();
            }
        });
        let work = |first| move || (first..first + EVENTS).for_each(record);
        let threads = Vec::from_iter((0..THREADS).map(|it| scope.spawn(work(it * EVENTS))));
        threads.into_iter().for_each(|it| it.join().unwrap());
        is_finished.store(true, Ordering::Relaxed);
        snapshots.join().unwrap();
    });
    let trace = Trace::of(&recorder.snapshot("last").save().unwrap());
    let numbers = trace.numbers();
    assert_eq!(trace.unreadable, 0);
    assert_eq!(numbers.len() as u64, THREADS * EVENTS);
    let different = BTreeSet::from_iter(numbers);
    assert_eq!(different.len() as u64, THREADS * EVENTS);
    // No event is in two parts.
    let losses = &recorder.control().stats().sequences;
    let lost: u64 = losses.iter().map(|it| it.overwritten + it.dropped).sum();
    assert_eq!(lost, 0);
}

#[test]
fn parts_that_end_inside_chunks_take_nothing_from_the_last() {
    const SNAPSHOTS: u64 = 100;
    const EVENTS: u64 = 20_000;
    let folder = Folder::alone();
    // Large enough for all events, and for the snapshots.
    let recorder = folder.recorder().ring_kib(16 * 1024).start().unwrap();
    for number in 0..SNAPSHOTS {
        record(number);
        recorder.snapshot("meanwhile").save().unwrap();
    }
    (SNAPSHOTS..EVENTS).for_each(record);
    let trace = Trace::of(&recorder.snapshot("last").save().unwrap());
    assert_eq!(trace.numbers(), Vec::from_iter(0..EVENTS));
}

#[test]
fn a_snapshot_ends_however_fast_threads_record() {
    const RING_BYTES: u64 = 256 * 1024;
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    let is_finished = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            // Relaxed: the thread may notice the flag a little later.
            scope.spawn(|| {
                for number in 0.. {
                    if is_finished.load(Ordering::Relaxed) {
                        break;
                    }
                    record(number);
                }
            });
        }
        let save = |_| recorder.snapshot("fast").save();
        let saved = Vec::from_iter((0..20).map(save));
        is_finished.store(true, Ordering::Relaxed);
        for path in saved.into_iter().skip(4) {
            let bytes = fs::metadata(path.unwrap()).unwrap().len();
            assert!(bytes < 5 * RING_BYTES, "{bytes}");
        }
    });
}

#[test]
fn window_around_event_survives_a_lapping_ring() {
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    (0..1_000).for_each(record);
    let window = recorder.around("slow", HOUR, HOUR).save_in_background();
    // Requests are served in order. So once this snapshot is saved, the recorder has also served
    // the window's request, and has taken the earlier events out of the ring.
    recorder.snapshot("served").save().unwrap();
    (1_000..LAPS).for_each(record);
    drop(recorder);
    let trace = Trace::of(&window.wait().unwrap());
    let numbers = trace.numbers();
    assert!(numbers[..1_000].iter().copied().eq(0..1_000));
    let rest = &numbers[1_000..];
    let first = LAPS - rest.len() as u64;
    assert!(rest.len() > 1_000, "{}", rest.len());
    assert!(rest.iter().copied().eq(first..LAPS));
    let losses = (trace.unreadable, trace.losses);
    assert_eq!(losses, (0, 1), "of what is between");
}

#[test]
fn a_window_ends_when_its_time_is_over() {
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    record(1);
    let after = Duration::from_millis(100);
    let mut last = 1;
    let (started, window) = within(after, || {
        last += 1;
        let started = Instant::now();
        let request = recorder.around(&format!("slow {last}"), HOUR, after);
        let window = request.save_in_background();
        record(last);
        (started, window)
    });
    let trace = Trace::of(&window.wait().unwrap());
    assert!(started.elapsed() >= after);
    assert_eq!(trace.numbers(), Vec::from_iter(1..=last));
}

#[test]
fn a_snapshot_inside_of_a_window_has_what_came_before_both() {
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    record(1);
    let window = recorder.around("window", HOUR, HOUR).save_in_background();
    record(2);
    let inside = Trace::of(&recorder.snapshot("inside").save().unwrap());
    assert!(!window.is_finished());
    record(3);
    assert_eq!(inside.numbers(), [1, 2]);
    drop(recorder);
    assert_eq!(Trace::of(&window.wait().unwrap()).numbers(), [1, 2, 3]);
}

#[test]
fn a_recorder_that_ends_saves_its_windows_at_once() {
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    record(1);
    let saving = recorder.around("window", HOUR, HOUR).save_in_background();
    record(2);
    let stats = recorder.stop();
    assert_eq!((stats.saved, stats.failed), (1, 0));
    assert_eq!(Trace::of(&saving.wait().unwrap()).numbers(), [1, 2]);
}

/// The time span that the next tests keep.
const HALF: Duration = Duration::from_millis(1_500);

#[test]
fn events_older_than_asked_are_left_out_to_the_second() {
    let folder = Folder::alone();
    let recorder = folder.recorder().keep(HALF).start().unwrap();
    // One thread ends, and another thread continues.
    thread::spawn(|| record(1)).join().unwrap();
    record(2);
    thread::sleep(2 * HALF);
    let mut last = 2;
    let kept = within(HALF, || {
        last += 1;
        record(last);
        recorder
            .snapshot(&format!("kept {last}"))
            .save_in_background()
    });
    let kept = Trace::of(&kept.wait().unwrap());
    assert_eq!(kept.numbers().last(), Some(&last));
    assert!(kept.numbers().iter().all(|number| *number > 2));
    assert_eq!(kept.unreadable, 0);
    let longer = recorder.snapshot("longer").before(HOUR);
    let longer = Trace::of(&longer.save().unwrap());
    // By default, a snapshot contains only the last part of the ring. The ring has all events.
    assert_eq!(longer.numbers(), Vec::from_iter(1..=last));
}

#[test]
fn a_snapshot_may_go_back_less_far_than_what_is_kept() {
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    record(1);
    thread::sleep(2 * HALF);
    let mut last = 1;
    let short = within(HALF, || {
        last += 1;
        {
            let _span = span!("test", "goes on");
            record(last);
        }
        let request = recorder.snapshot(&format!("short {last}"));
        request.before(HALF).save_in_background()
    });
    let short = Trace::of(&short.wait().unwrap());
    assert_eq!(short.numbers().last(), Some(&last));
    assert!(short.numbers().iter().all(|number| *number > 1));
    assert_eq!(short.unreadable, 0);
    let all = Trace::of(&recorder.snapshot("all").save().unwrap());
    assert_eq!(all.numbers(), Vec::from_iter(1..=last));
}

#[test]
fn a_trigger_saves_what_led_up_to_it() {
    let folder = Folder::alone();
    let recorder = folder
        .recorder()
        .add_trigger("slow_request")
        .add_trigger_around("late_answer", HOUR, HOUR)
        .start()
        .unwrap();
    record(1);
    activate_trigger("another");
    activate_trigger("slow_request");
    activate_trigger("late_answer");
    record(2);
    assert_eq!(recorder.stop().saved, 2);
    let files = folder.entries();
    assert_eq!(files.len(), 2, "{files:?}");
    let late = Trace::of(&folder.file(&files[0]));
    assert_eq!(late.numbers(), [1, 2]);
    assert!(late.has("late_answer"));
    let slow = Trace::of(&folder.file(&files[1]));
    assert!(slow.has("slow_request"));
    assert_eq!(slow.numbers()[0], 1);
}
