//! Many requests at once, and disks that block.

use std::fs::{self, File};
use std::io::Read as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use support::wait_until;
use tracezero::{FlightError, activate_trigger};

use crate::trace::{Folder, Trace, record};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn many_requests_of_one_name_write_one_file() {
    let folder = Folder::alone();
    let recorder = folder
        .recorder()
        .min_interval(HOUR)
        .add_trigger("slow")
        .start()
        .unwrap();
    for _ in 0..1_000 {
        let _ = recorder.snapshot("slow request").save_in_background();
        activate_trigger("slow");
    }
    let stats = recorder.stop();
    assert_eq!(folder.entries().len(), 2);
    assert_eq!((stats.saved, stats.failed), (2, 0));
    assert_eq!(stats.joined + stats.too_soon, 2 * 999);
}

#[test]
fn requests_during_a_window_share_its_file() {
    let folder = Folder::alone();
    let recorder = folder.recorder().min_interval(HOUR).start().unwrap();
    let ask = || recorder.around("slow", HOUR, HOUR).save_in_background();
    let first = ask();
    for number in 0..100 {
        record(number);
        assert!(ask().is_same(&first));
    }
    let stats = recorder.stop();
    assert_eq!((stats.saved, stats.joined, stats.too_soon), (1, 100, 0));
    assert_eq!(folder.only_trace().numbers().len(), 100);
}

#[test]
fn shared_file_has_the_events_before_each_request() {
    const EVENTS: u64 = 200;
    let folder = Folder::alone();
    let recorder = folder.recorder().max_files(1_000_000).start().unwrap();
    let is_finished = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Relaxed: the thread may notice the flag a little later.
            while !is_finished.load(Ordering::Relaxed) {
                recorder.snapshot("same").save().unwrap();
            }
        });
        let missing = (0..EVENTS).filter(|&number| {
            record(number);
            let path = recorder.snapshot("same").save().unwrap();
            !Trace::of(&path).numbers().contains(&number)
        });
        let missing = Vec::from_iter(missing);
        is_finished.store(true, Ordering::Relaxed);
        assert_eq!(missing, [0; 0]);
    });
}

#[test]
fn min_interval_applies_to_each_snapshot_name() {
    let folder = Folder::alone();
    let recorder = folder.recorder().min_interval(HOUR).start().unwrap();
    recorder.snapshot("a").save().unwrap();
    let Err(FlightError::TooSoon { name, since }) = recorder.snapshot("a").save() else {
        panic!("too soon");
    };
    assert_eq!(name, "a");
    assert!(since < HOUR);
    recorder.snapshot("b").save().unwrap();
    drop(recorder);

    let interval = Duration::from_millis(50);
    let recorder = folder.recorder().min_interval(interval).start().unwrap();
    recorder.snapshot("a").save().unwrap();
    thread::sleep(interval);
    recorder.snapshot("a").save().unwrap();
}

/// Saves into a pipe that is not read, which blocks the thread that writes.
#[test]
fn writers_and_requests_go_on_while_the_disk_hangs() {
    const EVENTS: u64 = 40_000;
    let folder = Folder::alone();
    let pipe = folder.file("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    // Large enough for all events.
    let recorder = folder.recorder().ring_kib(16 * 1024).start().unwrap();
    let hanging = recorder.snapshot("hangs").path(&pipe).save_in_background();
    // All of this happens while the first snapshot is blocked: the pipe is read only afterwards.
    (0..EVENTS).for_each(record);
    let later = recorder.snapshot("later").save_in_background();
    assert!(hanging.wait_for(Duration::from_millis(50)).is_none());
    assert!(!later.is_finished());

    // All packets that were begun are in the buffers, or were read from them.
    let sequences = recorder.control().stats().sequences;
    let sum = |count: fn(&tracezero::SequenceAccount) -> u64| -> u64 {
        sequences.iter().map(count).sum()
    };
    assert!(sum(|it| it.begun) >= EVENTS);
    assert_eq!(
        sum(|it| it.begun),
        sum(|it| it.buffered + it.in_flight + it.read)
    );

    // Makes more requests than there are places for waiting snapshots; `later` already has a place.
    // The requests without a place are rejected, and no thread waits.
    let ask = |number: u64| {
        recorder
            .snapshot(&format!("n{number}"))
            .save_in_background()
    };
    let more = Vec::from_iter((0..20).map(ask));
    wait_until(|| recorder.stats().failed >= 17);

    let mut bytes = Vec::new();
    File::open(&pipe).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(hanging.wait().unwrap(), pipe);
    let trace = Trace::of(&later.wait().unwrap());
    assert!(trace.numbers().into_iter().eq(0..EVENTS));
    let busy = more.iter().filter_map(|it| it.wait().err());
    let count = busy.inspect(|it| assert!(matches!(it, FlightError::Busy { .. }), "{it}"));
    assert_eq!(count.count() as u64, recorder.stop().failed);
    fs::remove_file(pipe).unwrap();
}

#[test]
fn a_callback_that_hangs_stops_nobody_else() {
    let folder = Folder::alone();
    let (go_on, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let recorder = folder
        .recorder()
        .on_saved(move |_, _| {
            let _ = wait.lock().unwrap().recv();
        })
        .start()
        .unwrap();
    recorder.snapshot("first").save().unwrap();
    (0..10_000).for_each(record);
    let second = recorder.snapshot("second").save_in_background();
    assert!(second.wait_for(Duration::from_millis(20)).is_none());
    drop(go_on);
    second.wait().unwrap();
}

#[test]
fn windows_beyond_the_limit_are_refused() {
    let folder = Folder::alone();
    let recorder = folder.recorder().max_files(100).start().unwrap();
    let ask = |number: u32| {
        let name = format!("window {number}");
        recorder.around(&name, HOUR, HOUR).save_in_background()
    };
    let open = Vec::from_iter((0..16).map(ask));
    let Err(FlightError::Busy { limit }) = ask(16).wait() else {
        panic!("not refused");
    };
    assert_eq!(limit, 16);
    assert!(open.iter().all(|it| !it.is_finished()));
    // The stop ends all open windows at once, and each is saved.
    let stats = recorder.stop();
    assert_eq!((stats.saved, stats.failed), (16, 1));
    assert!(open.iter().all(|it| it.wait().is_ok()));
}

#[test]
fn memory_of_a_long_window_is_bounded() {
    const ROUNDS: u64 = 10;
    const EVENTS: u64 = 10_000; // far beyond what the ring holds
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    let window = recorder.around("window", HOUR, HOUR).save_in_background();
    let own = folder.file("own.pftrace");
    for round in 0..ROUNDS {
        (round * EVENTS..(round + 1) * EVENTS).for_each(record);
        recorder.snapshot("meanwhile").path(&own).save().unwrap();
    }
    assert_eq!(recorder.stop().failed, 0);
    let path = window.wait().unwrap();
    let bytes = fs::metadata(&path).unwrap().len();
    assert!(bytes > 256 * 1024, "{bytes}");
    assert!(bytes < 4 * 256 * 1024, "{bytes}");
    let numbers = Trace::of(&path).numbers();
    assert_eq!(numbers.last(), Some(&(ROUNDS * EVENTS - 1)));
    assert!(numbers.is_sorted());
}
