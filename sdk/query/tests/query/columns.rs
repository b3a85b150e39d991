//! Lakes whose files have different columns.

use support::{Folder, alone};

use crate::process::{command, run};
use crate::traces::{export, span_trace};

/// Returns a lake of three traces, of which each was exported with other promoted arguments.
fn lake(folder: &Folder) -> String {
    let _alone = alone();
    let lake = folder.file("a lake [with] * signs");
    for (name, promote) in [("a", "size:int"), ("b", "size:text,other"), ("c", "")] {
        let file = folder.write(format!("{name}.pftrace"), span_trace());
        export(&[file], &lake, promote);
    }
    lake.to_str().unwrap().to_owned()
}

#[test]
fn columns_are_united_by_name() {
    let folder = Folder::empty();
    let sql = "SELECT right(t.source, 9) AS file, s.a_size, s.a_other FROM slice s JOIN trace t USING (trace_id)
               ORDER BY file";
    let answer = run([sql, "--format", "csv", &lake(&folder)]).fine();
    assert_eq!(
        answer,
        "file,a_size,a_other\na.pftrace,3,\nb.pftrace,3,\nc.pftrace,,\n"
    );
}

#[test]
fn columns_of_several_types_are_texts() {
    let folder = Folder::empty();
    let sql =
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'slice'
               AND column_name IN ('a_size', 'dur', 'name', 'day') ORDER BY column_name";
    let answer = run([sql, "--format", "csv", &lake(&folder)]).fine();
    let expected = "column_name,data_type\na_size,Utf8View\nday,Utf8\ndur,Int64\nname,Utf8View\n";
    assert_eq!(answer, expected);
}

#[test]
fn names_with_capital_letters_are_quoted() {
    let _alone = alone();
    let folder = Folder::empty();
    let file = folder.write("a.pftrace", span_trace());
    let query = |sql| {
        run([
            sql,
            "--format",
            "csv",
            "--promote",
            "userId:int",
            file.to_str().unwrap(),
        ])
    };
    assert_eq!(
        query("SELECT \"a_userId\" FROM slice").fine(),
        "a_userId\n7\n"
    );
    let error = query("SELECT a_userId FROM slice").error();
    assert!(error.contains("slice.\"a_userId\""), "{error}");
}

#[test]
fn lakes_have_relative_paths_too() {
    let folder = Folder::empty();
    let lake = lake(&folder);
    let lake = lake.rsplit('/').next().unwrap();
    let mut command = command(["SELECT count(*) AS n FROM slice", "--format", "csv"]);
    command
        .arg(format!("../{lake}"))
        .current_dir(folder.path().join(lake));
    assert_eq!(command.output().unwrap().stdout, b"n\n3\n");
}

#[test]
fn tables_without_files_are_empty() {
    let folder = Folder::empty();
    let lake = lake(&folder);
    std::fs::remove_dir_all(format!("{lake}/counter")).unwrap();
    let sql = "SELECT count(*) AS n, count(value) AS v, count(day) AS d FROM counter";
    assert_eq!(
        run([sql, "--format", "csv", &lake]).fine(),
        "n,v,d\n0,0,0\n"
    );
}
