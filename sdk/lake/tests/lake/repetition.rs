//! Traces that are exported again.

use support::{Folder, alone};
use tracezero::{InMemorySession, span};
use tracezero_lake::{ExportOptions, ExportOutcome, Lake, Promoted, Table};

use crate::table::{files, rows, select};

fn trace(name: &'static str) -> Vec<u8> {
    let session = InMemorySession::start().unwrap();
    for size in 0..10 {
        drop(span!("app", name, size = size));
    }
    session.finish().0
}

#[test]
fn trace_is_exported_once() {
    let _alone = alone();
    let folder = Folder::empty();
    let trace = trace("work");
    let options = ExportOptions::default();
    let mut lake = Lake::open(folder.path()).unwrap();
    lake.export(&trace[..], "a", &options).unwrap();
    let before = files(folder.path());
    let again = lake.export(&trace[..], "b", &options).unwrap();
    assert_eq!(again.outcome, ExportOutcome::Unchanged);
    // A lake that is opened anew knows its traces.
    let mut lake = Lake::open(folder.path()).unwrap();
    let again = lake.export(&trace[..], "c", &options).unwrap();
    assert_eq!(again.outcome, ExportOutcome::Unchanged);
    assert!(lake.has(&trace[..], &options).unwrap());
    assert!(!lake.has(&trace[..trace.len() - 1], &options).unwrap());
    let mut other = options.clone();
    other.service = Some("other".to_owned());
    assert!(!lake.has(&trace[..], &other).unwrap());
    assert_eq!(files(folder.path()), before);
    assert_eq!(rows(folder.path(), "slice").len(), 10);
}

#[test]
fn other_promoted_args_replace_the_export() {
    let _alone = alone();
    let folder = Folder::empty();
    let trace = trace("work");
    let mut lake = Lake::open(folder.path()).unwrap();
    lake.export(&trace[..], "a", &ExportOptions::default())
        .unwrap();
    let mut options = ExportOptions::default();
    options.promoted = Promoted::parse("size:int").unwrap();
    // Another service's name is another folder, whose files replace those in the old one.
    options.service = Some("other".to_owned());
    let again = lake.export(&trace[..], "a", &options).unwrap();
    assert_eq!(again.outcome, ExportOutcome::Replaced);
    let slices = rows(folder.path(), "slice");
    let sizes: Vec<String> = (0..10).map(|size| size.to_string()).collect();
    assert_eq!(select(&slices, &["a_size"]), sizes);
    assert_eq!(rows(folder.path(), "trace").len(), 1);
    // Engines refuse to read a table that has no file.
    for table in Table::ALL {
        let files = files(&folder.path().join(table.name()));
        assert_eq!(files.len(), 1, "{files:?}");
    }
}

#[test]
fn longer_copy_of_a_trace_replaces_the_shorter() {
    let _alone = alone();
    let folder = Folder::empty();
    let session = InMemorySession::start().unwrap();
    // The copy is cut behind the part from which a trace without a uuid has its id.
    for _ in 0..20_000 {
        drop(span!("app", "work"));
    }
    let trace = session.finish().0;
    let mut lake = Lake::open(folder.path()).unwrap();
    let options = ExportOptions::default();
    let half = lake
        .export(&trace[..trace.len() / 2], "a", &options)
        .unwrap();
    let whole = lake.export(&trace[..], "a", &options).unwrap();
    assert_eq!(half.trace_id, whole.trace_id);
    assert_eq!(whole.outcome, ExportOutcome::Replaced);
    assert_eq!(rows(folder.path(), "slice").len(), 20_000);
    for mut lake in [lake, Lake::open(folder.path()).unwrap()] {
        let half = &trace[..trace.len() / 2];
        let half = lake.export(half, "a", &options).unwrap();
        assert_eq!(half.outcome, ExportOutcome::Unchanged);
        assert_eq!(rows(folder.path(), "slice").len(), 20_000);
    }
}

#[test]
fn failed_export_leaves_the_lake_as_it_was() {
    let _alone = alone();
    let folder = Folder::empty();
    let mut lake = Lake::open(folder.path()).unwrap();
    let options = ExportOptions::default();
    lake.export(&trace("work")[..], "a", &options).unwrap();
    let before = files(folder.path());
    let error = lake.export(&b"no trace at all"[..], "b", &options);
    assert!(error.is_err());
    // A folder that should be a file stands for a full disk.
    let table = folder.path().join(Table::Slice.name());
    let other = trace("other");
    std::fs::rename(&table, folder.file("kept")).unwrap();
    std::fs::write(&table, "").unwrap();
    assert!(lake.export(&other[..], "c", &options).is_err());
    std::fs::remove_file(&table).unwrap();
    std::fs::rename(folder.file("kept"), &table).unwrap();
    // What was begun is completed by the next one who opens the lake.
    Lake::open(folder.path()).unwrap();
    let after = files(folder.path());
    assert!(before.iter().all(|file| after.contains(file)));
}
