//! `tracezero export parquet` and `tracezero lake compact`.

use std::fs;
use std::path::{Path, PathBuf};

use support::Folder;

use crate::process::{Run, run};
use crate::traces::recorded;

/// Records `count` traces.
fn record(folder: &Folder, count: usize) -> Vec<PathBuf> {
    let paths = (0..count).map(|number| folder.path().join(format!("{number}.pftrace")));
    let paths: Vec<_> = paths.collect();
    for path in &paths {
        fs::write(path, recorded()).unwrap();
    }
    paths
}

fn export(traces: &[PathBuf], lake: &Path, promoted: &str) -> Run {
    let mut args = vec!["export", "parquet", "--promote", promoted, "-o"];
    args.push(lake.to_str().unwrap());
    args.extend(traces.iter().map(|path| path.to_str().unwrap()));
    run(&args)
}

#[test]
fn joined_trace_keeps_its_promoted_arguments_and_stops_no_other() {
    let folder = Folder::empty();
    let lake = folder.path().join("lake");
    let traces = record(&folder, 3);
    assert_eq!(export(&traces[..2], &lake, "number:int").status, 0);
    let compacted = run(&["lake", "compact", lake.to_str().unwrap()]);
    assert!(
        compacted.stderr.contains("joined into"),
        "{}",
        compacted.stderr
    );

    let exported = export(&traces, &lake, "path");
    assert_eq!(exported.status, 2);
    assert!(
        exported.stderr.contains("1 trace exported"),
        "{}",
        exported.stderr
    );
    let remedy = "export it with the same ones, or to another lake";
    assert_eq!(exported.stderr.matches(remedy).count(), 2);

    let same = export(&traces[..2], &lake, "number:int");
    assert_eq!(same.stderr, "2 traces in the lake already\n");
}

#[test]
fn promoted_argument_without_values_is_named() {
    let folder = Folder::empty();
    let traces = record(&folder, 2);
    let promoted = "number:int,path:int,nosuch,debug.number:int";
    let exported = export(&traces, &folder.path().join("lake"), promoted);
    let warnings: Vec<_> = exported
        .stderr
        .lines()
        .filter(|line| line.starts_with("warning"))
        .collect();
    assert_eq!(
        warnings,
        [
            "warning: no slice has a value for promoted argument debug.number; call it number, as the program does",
            "warning: no slice has a value for promoted argument nosuch; check its name and type",
            "warning: no slice has a value for promoted argument path; check its name and type",
        ]
    );
}

#[test]
fn folder_without_tables_is_no_lake() {
    let folder = Folder::empty();
    let path = folder.path().to_str().unwrap();
    let compacted = run(&["lake", "compact", path]);
    assert_eq!(compacted.status, 2);
    let text = format!("{path} is not the folder of a lake: it has no table trace");
    assert!(compacted.stderr.contains(&text), "{}", compacted.stderr);
}
