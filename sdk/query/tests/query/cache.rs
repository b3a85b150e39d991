//! Lakes that keep the tables of trace files.

use std::fs;
use std::path::{Path, PathBuf};

use support::{Folder, alone};

use crate::process::{Run, run};
use crate::traces::{span_trace, traces};

fn query(sql: &str, lake: &Path, files: &[&Path]) -> Run {
    let files = files.iter().map(|path| path.to_str().unwrap());
    let options = ["--format", "csv", "--cache", lake.to_str().unwrap(), sql];
    run(options.into_iter().chain(files))
}

const SOURCES: &str = "SELECT source FROM trace ORDER BY source";

#[test]
fn kept_traces_are_not_read_again() {
    let folder = Folder::empty();
    let lake = folder.file("lake");
    let file = {
        let _alone = alone();
        folder.write("a.pftrace", span_trace())
    };
    let sql = "SELECT name FROM slice WHERE category = 'app'";
    let first = query(sql, &lake, &[&file]).fine();
    assert_eq!(first, "name\nwork\n");
    // The file has other contents, but the same size and time. So an answer can only come from the lake.
    let metadata = fs::metadata(&file).unwrap();
    fs::write(&file, vec![0xff; metadata.len() as usize]).unwrap();
    let written = fs::File::options().write(true).open(&file).unwrap();
    written.set_modified(metadata.modified().unwrap()).unwrap();
    assert_eq!(query(sql, &lake, &[&file]).fine(), first);
    // With another time, it is read, and is no trace.
    written
        .set_modified(metadata.modified().unwrap() + std::time::Duration::from_secs(1))
        .unwrap();
    query(sql, &lake, &[&file]).error();
}

#[test]
fn only_the_named_files_are_queried() {
    let folder = Folder::empty();
    let lake = folder.file("lake");
    let files = &traces().files;
    let all: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    assert_eq!(query(SOURCES, &lake, &all).answer().lines().count(), 5);
    let one = query(SOURCES, &lake, &[&files[2]]).fine();
    assert_eq!(one, format!("source\n{}\n", files[2].display()));
    let sql = "SELECT count(*) AS n FROM slice WHERE name = 'request'";
    assert_eq!(query(sql, &lake, &[&files[2]]).fine(), "n\n0\n");
    // The lake has all.
    let lake = lake.to_str().unwrap();
    assert_eq!(
        run([SOURCES, "--format", "csv", lake])
            .fine()
            .lines()
            .count(),
        5
    );
}

#[test]
fn other_promoted_arguments_are_another_export() {
    let _alone = alone();
    let folder = Folder::empty();
    let file = folder.write("a.pftrace", span_trace());
    let lake = folder.file("lake");
    let sql = "SELECT * FROM slice";
    let plain = query(sql, &lake, &[&file]).fine();
    assert!(!plain.contains("a_size"), "{plain}");
    let (file, lake) = (file.to_str().unwrap(), lake.to_str().unwrap());
    let promoted = [
        "SELECT a_size FROM slice",
        "--format",
        "csv",
        "--cache",
        lake,
        "--promote",
        "size:int",
        file,
    ];
    assert_eq!(run(promoted).fine(), "a_size\n3\n");
    assert_eq!(run(promoted).fine(), "a_size\n3\n");
}
