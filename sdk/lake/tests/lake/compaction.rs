//! Files that are joined.

use support::{Folder, alone};
use tracezero::{InMemorySession, span};
use tracezero_lake::{ExportOptions, ExportOutcome, Lake, LakeError, Promoted, Table};

use crate::table::{Row, files, rows};

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort();
    rows
}

#[test]
fn compaction_keeps_all_rows() {
    let _alone = alone();
    let folder = Folder::empty();
    let mut lake = Lake::open(folder.path()).unwrap();
    let mut options = ExportOptions::default();
    options.service = Some("api".to_owned());
    let mut traces = Vec::new();
    for index in 0..5 {
        let session = InMemorySession::start().unwrap();
        for size in 0..100 {
            drop(span!("app", "work", size = size, index = index));
        }
        traces.push(session.finish().0);
        // A part of the traces has a further column.
        if index == 3 {
            options.promoted = Promoted::parse("size:int").unwrap();
        }
        lake.export(&traces[index][..], "trace", &options).unwrap();
    }
    let all = |folder: &Folder| Table::ALL.map(|table| sorted(rows(folder.path(), table.name())));
    let before = all(&folder);
    let compacted = lake.compact().unwrap();
    assert!(
        compacted.files_before > compacted.files_after,
        "{compacted:?}"
    );
    assert!(before == all(&folder));
    // Those with and those without the column.
    assert_eq!(files(&folder.path().join("slice")).len(), 2);
    let again = lake.compact().unwrap();
    assert_eq!(again.files_before, 0);

    let unchanged = lake.export(&traces[4][..], "trace", &options).unwrap();
    assert_eq!(unchanged.outcome, ExportOutcome::Unchanged);
    let error = lake.export(&traces[0][..], "trace", &options);
    assert!(
        matches!(error, Err(LakeError::Compacted { .. })),
        "{error:?}"
    );
    assert!(before == all(&folder));
}
