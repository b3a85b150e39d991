//! Snapshots of threads that panic. The panic then continues as usual.

use std::fmt;
use std::panic;
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use support::wait_until;
use tracezero::instant;

use crate::trace::{Folder, record};

#[test]
fn panic_is_saved_with_message_and_place_before_unwinding() {
    let folder = Folder::alone();
    let recorder = folder.recorder().snapshot_on_panic().start().unwrap();
    record(1);
    let outcome = panic::catch_unwind(|| panic!("the number is {}", 42));
    assert!(outcome.is_err());
    let trace = folder.only_trace();
    assert!(folder.entries()[0].starts_with("flight-panic-"));
    assert_eq!(trace.numbers(), [1]);
    assert!(trace.has("panic"));
    assert!(trace.texts.iter().any(|it| it == "the number is 42"));
    let place = trace.texts.iter().find(|it| it.contains("panics.rs:"));
    assert!(place.is_some(), "{:?}", trace.texts);
    assert_eq!(recorder.stop().saved, 1);

    // No recorder is running any more.
    assert!(panic::catch_unwind(|| panic!("later")).is_err());
    assert_eq!(folder.entries().len(), 1);
}

struct Panics;

impl fmt::Debug for Panics {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("in the middle of an event")
    }
}

#[test]
fn a_panic_in_the_middle_of_an_event_is_saved_too() {
    let folder = Folder::alone();
    let recorder = folder.recorder().snapshot_on_panic().start().unwrap();
    record(1);
    let outcome = panic::catch_unwind(|| instant!("test", "half", argument = ?Panics));
    assert!(outcome.is_err());
    let trace = folder.only_trace();
    assert_eq!(trace.numbers(), [1]);
    assert!(
        trace
            .texts
            .iter()
            .any(|it| it == "in the middle of an event")
    );
    record(2);
    assert_eq!(recorder.stop().saved, 1);
}

#[test]
fn panics_of_many_threads_at_once_are_saved_once() {
    const THREADS: usize = 16;
    let folder = Folder::alone();
    let hour = Duration::from_secs(3600);
    let recorder = folder
        .recorder()
        .snapshot_on_panic()
        .min_interval(hour)
        .start()
        .unwrap();
    let all = Barrier::new(THREADS);
    thread::scope(|scope| {
        let threads = (0..THREADS).map(|_| {
            scope.spawn(|| {
                all.wait();
                let outcome = panic::catch_unwind(|| panic!("one of many"));
                // The threads that panicked later have waited for the file, too.
                assert!(!folder.entries().is_empty());
                outcome.unwrap_err();
            })
        });
        let threads = Vec::from_iter(threads);
        threads.into_iter().for_each(|it| it.join().unwrap());
    });
    let stats = recorder.stop();
    assert_eq!((stats.saved, stats.failed), (1, 0));
    assert_eq!(stats.joined + stats.too_soon, THREADS as u64 - 1);
    assert!(folder.only_trace().has("panic"));
}

#[test]
fn panic_waits_for_slow_disk_where_others_are_refused() {
    let folder = Folder::alone();
    let recorder = folder
        .recorder()
        .snapshot_on_panic()
        .on_saved(|_, _| thread::sleep(Duration::from_millis(50)))
        .start()
        .unwrap();
    let mut number = 0;
    wait_until(|| {
        number += 1;
        let snapshot = recorder.snapshot(&format!("n{number}"));
        snapshot.save_in_background();
        recorder.stats().failed > 0
    });
    assert!(panic::catch_unwind(|| panic!("now")).is_err());
    let files = folder.entries();
    assert!(files.iter().any(|it| it.contains("panic")), "{files:?}");
}

#[test]
fn a_panic_waits_no_longer_than_its_patience() {
    let folder = Folder::alone();
    let (go_on, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let recorder = folder
        .recorder()
        .snapshot_on_panic()
        .save_timeout(Duration::from_millis(20))
        .on_saved(move |_, _| {
            let _ = wait.lock().unwrap().recv();
        })
        .start()
        .unwrap();
    recorder.snapshot("first").save().unwrap();
    // The thread that saves is blocked in the callback.
    assert!(panic::catch_unwind(|| panic!("now")).is_err());
    assert_eq!(folder.entries().len(), 1);
    drop(go_on);
    assert_eq!(recorder.stop().saved, 2);
}
