//! Flight recorders and forks: a child saves nothing, does not wait, and does not touch the files
//! of its parent.

use std::fs;
use std::panic;
use std::path::Path;
use std::time::Duration;

use judge::{ExtraSchema, judge};
use tracezero::{Error, FlightError, FlightRecorder, activate_trigger, instant};

use crate::own_process::{file_of_process, fork, process, scratch};

#[test]
fn a_forked_child_saves_nothing_and_its_parent_goes_on() {
    let folder = scratch("flight_of_parent");
    let _ = fs::remove_dir_all(&folder);
    // A process of its own, because the panic hook belongs to the whole process.
    let status = process("flight_recorders::forks", &folder)
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn forks() {
    let Some(folder) = file_of_process() else {
        return;
    };
    let mut recorder = Some(start(&folder));
    instant!("parent", "before");
    let hour = Duration::from_secs(3600);
    let mut window = Some(
        of(&recorder)
            .around("window", hour, hour)
            .save_in_background(),
    );
    fork(|| {
        instant!("child", "point");
        let recorder = recorder.take().unwrap();
        let outcome = recorder.snapshot("child").save();
        let Err(FlightError::Session(error)) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(matches!(*error, Error::ForkedChild));
        let window = window.take().unwrap();
        assert!(!window.is_finished());
        assert!(window.wait().is_err());
        assert!(matches!(window.wait_for(hour), Some(Err(_))));
        assert!(panic::catch_unwind(|| panic!("of the child")).is_err());
        activate_trigger("trigger");
        assert_eq!(recorder.stats().saved, 0);
        assert!(
            FlightRecorder::builder()
                .directory(&folder)
                .start()
                .is_err()
        );
        drop(recorder);
    })
    .wait();
    fork(|| drop(recorder.take())).wait();
    // A child that ends without dropping the recorder.
    fork(|| ()).wait();
    instant!("parent", "after");

    let stats = recorder.take().unwrap().stop();
    let path = window.take().unwrap().wait().unwrap();
    let files = fs::read_dir(&folder).unwrap().count();
    // The window around the event, and the snapshot at the end.
    assert_eq!((stats.saved, stats.failed, files), (2, 0, 2));
    let verdict = judge(&fs::read(path).unwrap(), &ExtraSchema::new()).unwrap();
    for (name, count) in [("before", 1), ("after", 1), ("point", 0)] {
        assert_eq!(verdict.events_named(name).count(), count, "{name}");
    }
}

fn start(folder: &Path) -> FlightRecorder {
    FlightRecorder::builder()
        .directory(folder)
        .snapshot_on_panic()
        .snapshot_on_exit()
        .add_trigger("trigger")
        .start()
        .unwrap()
}

fn of(recorder: &Option<FlightRecorder>) -> &FlightRecorder {
    recorder.as_ref().unwrap()
}
