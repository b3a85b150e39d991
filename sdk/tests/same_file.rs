//! Several sessions that want to write the same file: only one of them may.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::fs::{self, File};
use std::path::Path;

use support::Folder;
use tracezero::reader::{TraceReader, check};
use tracezero::{
    Error, FlightError, FlightRecorder, InMemorySession, Session, TraceConfig, instant,
};

/// Asserts that the result is the error that the file at `path` is in use.
fn assert_in_use<T>(outcome: Result<T, Error>, path: &Path) {
    let Err(error) = outcome else {
        panic!("two write {}", path.display());
    };
    assert_eq!(
        error.to_string(),
        format!(
            "cannot write {}: another session is writing there; finish that first, or choose another \
             place",
            path.display()
        )
    );
    assert!(matches!(error, Error::FileInUse { path: culprit } if culprit == path));
}

fn assert_whole(path: &Path) {
    let summary = check(File::open(path).unwrap(), |finding| panic!("{finding}")).unwrap();
    assert!(summary.packets > 0);
}

/// Returns the number of events with this name in the trace.
fn count(path: &Path, name: &str) -> usize {
    let mut reader = TraceReader::new(File::open(path).unwrap());
    let mut count = 0;
    while let Some(record) = reader.next().unwrap() {
        if let tracezero::reader::Record::Event(event) = record {
            let head = event.head;
            count += usize::from(reader.names().text(head.name) == name);
        }
    }
    count
}

#[test]
fn file_in_use_is_refused_to_other_sessions() {
    let folder = Folder::empty();
    let path = folder.file("same.pftrace");
    let session = Session::record_to_file(&path).unwrap();
    instant!("same_file", "before_the_others");
    // Writes the event into the file, so that overwriting the file would lose it.
    assert!(session.control().flush());

    assert_in_use(Session::record_to_file(&path), &path);
    let other_name = folder.file("linked.pftrace");
    fs::hard_link(&path, &other_name).unwrap();
    assert_in_use(Session::record_to_file(&other_name), &other_name);
    assert_in_use(session.control().save_snapshot(&path), &path);
    let in_memory = InMemorySession::start().unwrap();
    assert_in_use(in_memory.control().save_snapshot(&path), &path);
    let snapshot = in_memory.control().snapshot().unwrap();
    assert_in_use(snapshot.write_to(&path), &path);
    drop(in_memory);

    instant!("same_file", "after_the_others");
    session.finish().unwrap();
    assert_whole(&path);
    assert_eq!(count(&path, "before_the_others"), 1);
    assert_eq!(count(&path, "after_the_others"), 1);
}

#[test]
fn consecutive_sessions_may_write_the_same_file() {
    let folder = Folder::empty();
    let path = folder.file("same.pftrace");
    fs::write(&path, vec![b'x'; 100_000]).unwrap();
    for _ in 0..3 {
        let session = Session::record_to_file(&path).unwrap();
        instant!("same_file", "turn");
        session.finish().unwrap();
        assert_eq!(count(&path, "turn"), 1);
        assert_whole(&path);
    }
    let in_memory = InMemorySession::start().unwrap();
    for _ in 0..3 {
        in_memory.control().save_snapshot(&path).unwrap();
        assert_whole(&path);
    }
}

#[test]
fn an_output_path_is_not_written_by_others_meanwhile() {
    let folder = Folder::empty();
    let path = folder.file("same.pftrace");
    let config = TraceConfig::default()
        .write_into_file()
        .output_path(path.to_str().unwrap());
    let session = config.record().unwrap();
    assert_in_use(Session::record_to_file(&path), &path);
    session.finish().unwrap();
    Session::record_to_file(&path).unwrap().finish().unwrap();
    assert_whole(&path);
}

/// Locks the file as another process would: a lock belongs to the open file, not to the process.
#[test]
fn a_file_that_another_process_writes_is_left_as_it_is() {
    let folder = Folder::empty();
    let path = folder.file("same.pftrace");
    fs::write(&path, "theirs").unwrap();
    let theirs = File::open(&path).unwrap();
    theirs.lock().unwrap();
    assert_in_use(Session::record_to_file(&path), &path);
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    drop(theirs);
    Session::record_to_file(&path).unwrap().finish().unwrap();
    assert_whole(&path);
}

#[test]
fn a_recorder_does_not_take_the_file_of_a_session() {
    let folder = Folder::empty();
    let path = folder.file("same.pftrace");
    let session = Session::record_to_file(&path).unwrap();
    let recorder = FlightRecorder::builder()
        .ring_kib(256)
        .directory(folder.path())
        .start()
        .unwrap();
    let outcome = recorder.snapshot("theirs").path(&path).save();
    assert!(
        matches!(&outcome, Err(FlightError::FileInUse { path: culprit }) if *culprit == path),
        "{outcome:?}"
    );
    instant!("same_file", "goes_on");
    session.finish().unwrap();
    assert_eq!(count(&path, "goes_on"), 1);
    assert_eq!(folder.entries().len(), 1);

    recorder.snapshot("ours").path(&path).save().unwrap();
    assert_whole(&path);
    assert_eq!(recorder.stop().failed, 1);
    assert_eq!(folder.entries().len(), 1);
}
