//! The files of snapshots: their place, their names and their number.

use std::fs;
use std::sync::mpsc;

use tracezero::FlightError;

use crate::trace::{Folder, Trace, record};

#[test]
fn file_name_names_the_snapshot_and_file_is_complete() {
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    let path = recorder.snapshot("../slow request!").save().unwrap();
    assert_eq!(path.parent(), Some(folder.path()));
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("flight-.._slow_request_-2"), "{name}");
    let pid = std::process::id();
    assert!(name.contains(&format!("Z-{pid}-")), "{name}");
    assert_eq!(folder.entries(), [name]);
}

#[test]
fn the_oldest_files_make_room_and_those_of_others_stay() {
    let folder = Folder::alone();
    let others = ["flight-notes.txt", "app.pftrace", "flight-a-b-c-d.pftrace"];
    for name in others {
        fs::write(folder.file(name), "mine").unwrap();
    }
    // Files of earlier processes.
    for name in ["a-20200101T000000Z-7-1", "b-20210101T000000Z-8-1"] {
        fs::write(folder.file(format!("flight-{name}.pftrace")), "").unwrap();
    }
    let left_behind = "flight-a-20200101T000000Z-7-2.pftrace.partial";
    fs::write(folder.file(left_behind), "").unwrap();
    let recorder = folder.recorder().max_files(3).start().unwrap();
    let mut saved = Vec::new();
    for number in 0..10 {
        saved.push(recorder.snapshot(&format!("n{number}")).save().unwrap());
        let files = folder.entries();
        let of_recorders = files.len() - others.len();
        assert_eq!(of_recorders, 3, "{files:?}");
        assert!(others.iter().all(|it| files.iter().any(|file| file == it)));
    }
    assert!(saved[..7].iter().all(|path| !path.exists()));
    assert!(saved[7..].iter().all(|path| path.exists()));
}

#[test]
fn newest_file_stays_even_if_others_seem_newer() {
    let folder = Folder::alone();
    // Files with a time in the future, from a clock that was wrong.
    for number in 0..3 {
        let name = format!("flight-a-29990101T000000Z-7-{number}.pftrace");
        fs::write(folder.file(name), "").unwrap();
    }
    let recorder = folder.recorder().max_files(3).start().unwrap();
    for _ in 0..3 {
        let path = recorder.snapshot("now").save().unwrap();
        assert!(path.exists());
        assert_eq!(folder.entries().len(), 3);
    }
}

#[test]
fn a_snapshot_can_have_a_file_of_its_own() {
    let folder = Folder::alone();
    let recorder = folder.recorder().max_files(1).start().unwrap();
    recorder.snapshot("usual").save().unwrap();
    let path = folder.file("own.pftrace");
    record(1);
    for _ in 0..3 {
        let saved = recorder.snapshot("own").path(&path).save().unwrap();
        assert_eq!(saved, path);
    }
    assert_eq!(Trace::of(&path).numbers(), [1]);
    assert_eq!(folder.entries().len(), 2);
}

#[test]
fn failed_save_keeps_the_old_file() {
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    let path = folder.file("own.pftrace");
    fs::write(&path, "before").unwrap();
    // The folder blocks the path of the temporary file.
    fs::create_dir(folder.file("own.pftrace.partial")).unwrap();
    let outcome = recorder.snapshot("own").path(&path).save();
    let Err(FlightError::File { path: culprit, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(culprit, path);
    assert!(fs::read(&path).unwrap() == b"before");
}

#[test]
fn write_error_reaches_waiter_callback_and_stats() {
    let folder = Folder::alone();
    let (tell, told) = mpsc::channel();
    let recorder = folder
        .recorder()
        .on_saved(move |name, outcome| {
            tell.send((name.to_owned(), outcome.clone())).unwrap();
            panic!("an application's fault");
        })
        .start()
        .unwrap();
    let path = folder.file("missing").join("file.pftrace");
    let outcome = recorder.snapshot("lost").path(&path).save();
    let Err(FlightError::File { path: culprit, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(culprit, path);
    let (name, outcome) = told.recv().unwrap();
    assert_eq!(name, "lost");
    let text = outcome.unwrap_err().to_string();
    assert!(
        text.contains("missing/file.pftrace: No such file"),
        "{text}"
    );

    // Without the folder saving fails; when it is back, saving works again.
    fs::remove_dir_all(folder.path()).unwrap();
    assert!(recorder.snapshot("lost").save().is_err());
    fs::create_dir_all(folder.path()).unwrap();
    assert!(recorder.snapshot("lost").save().is_ok());
    let stats = recorder.stop();
    assert_eq!((stats.saved, stats.failed), (1, 2));
    let last = stats.last_failure.unwrap().to_string();
    assert!(last.contains("flight-lost-"), "{last}");
    assert_eq!(told.iter().count(), 2);
}

#[test]
fn exit_snapshot_is_saved_when_recorder_stops() {
    let folder = Folder::alone();
    let recorder = folder.recorder().start().unwrap();
    record(1);
    assert_eq!(recorder.stop().saved, 0);
    assert!(folder.entries().is_empty());
    let recorder = folder.recorder().snapshot_on_exit().start().unwrap();
    record(2);
    drop(recorder);
    let trace = folder.only_trace();
    assert!(trace.has("exit"));
    assert_eq!(trace.numbers(), [2]);
}
